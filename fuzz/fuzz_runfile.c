/* Any bytes as a run file. Lines at its beginning that start with "--set " are given as settings. */
#include "formats/runfile.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

enum { MAX_SETTINGS = 4 };
static const char prefix[] = "--set ";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    const char *text = (const char *)data, *end = text + bytes;
    char *settings[MAX_SETTINGS] = {NULL};
    size_t count = 0, skip = sizeof prefix - 1;
    while (count < MAX_SETTINGS && (size_t)(end - text) > skip && memcmp(text, prefix, skip) == 0) {
        const char *line_end = memchr(text, '\n', (size_t)(end - text));
        if (!line_end)
            break;
        settings[count] = strndup(text + skip, (size_t)(line_end - text) - skip);
        if (!settings[count])
            break;
        count++;
        text = line_end + 1;
    }
    struct rt_error err;
    struct rt_spec *spec;
    const char *const *given = (const char *const *)settings;
    if (rt_spec_parse(text, (size_t)(end - text), "fuzz.yaml", given, count, &spec, &err) == RT_OK)
        rt_spec_destroy(spec);
    while (count)
        free(settings[--count]);
    return 0;
}
