/* Lists of names. */
#include "learn/names.h"

#include "base/memory.h"
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

rt_status rt_names_copy(const char *const *items, size_t count, struct rt_names *names,
                        struct rt_error *err) {
    struct rt_names made = {0};
    rt_status status = rt_alloc(count, sizeof *made.items, "a list of names", &made.items, err);
    for (size_t i = 0; status == RT_OK && i < count; i++, made.count++) {
        made.items[i] = strdup(items[i]);
        if (!made.items[i])
            status = rt_fail(err, RT_NO_MEMORY, "not enough memory for a list of names");
    }
    if (status != RT_OK) {
        rt_names_deinit(&made);
        return status;
    }
    *names = made;
    return RT_OK;
}

void rt_names_deinit(struct rt_names *names) {
    for (size_t i = 0; i < names->count; i++)
        free(names->items[i]);
    free(names->items);
    *names = (struct rt_names){0};
}

char *rt_names_json(const struct rt_names *names) {
    json_t *list = json_array();
    bool ok = list;
    for (size_t i = 0; ok && i < names->count; i++)
        ok = json_array_append_new(list, json_string(names->items[i])) == 0;
    char *text = ok ? json_dumps(list, JSON_COMPACT) : NULL;
    json_decref(list);
    return text;
}

rt_status rt_names_parse(const char *json, const char *file, const char *key, struct rt_names *names,
                         struct rt_error *err) {
    json_t *list = json_loads(json, 0, NULL);
    size_t count = json_is_array(list) ? json_array_size(list) : 0;
    const char **items = NULL;
    rt_status status = rt_alloc(count, sizeof *items, "a list of names", &items, err);
    for (size_t i = 0; status == RT_OK && i < count; i++) {
        items[i] = json_string_value(json_array_get(list, i));
        if (!items[i])
            count = 0;
    }
    if (status == RT_OK && count == 0)
        status = rt_fail(err, RT_BAD_INPUT, "%s: `%s` in its metadata is not a list of names", file, key);
    if (status == RT_OK)
        status = rt_names_copy(items, count, names, err);
    free(items);
    json_decref(list);
    return status;
}
