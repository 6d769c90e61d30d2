/* Golden files and damaged bytes; see wire.h. Every input lies in memory of exactly its size, so that the
 * address sanitizer sees a step too far. */
#include "support/wire.h"

#include "support/test.h"

enum { ROOM = 1 << 20 };

static const char *const no_sentence = "";

/* What recode says to a copy of the bytes; the sentence when it refuses, NULL when it accepts and they come
 * back the same. */
static const char *outcome(const char *name, const uint8_t *bytes, size_t count, rt_recode recode) {
    static struct rt_error err;
    uint8_t *copy = malloc(count ? count : 1), *out = malloc(ROOM);
    size_t used = 0;
    const char *result = NULL;
    err.text[0] = 0;
    if (!copy || !out) {
        rt_test_fail(__FILE__, __LINE__, "no memory");
    } else {
        if (count)
            memcpy(copy, bytes, count);
        rt_status status = recode(copy, count, out, ROOM, &used, &err);
        if (status != RT_OK)
            result = err.text[0] ? err.text : no_sentence;
        else if (used != count || memcmp(out, bytes, count) != 0)
            rt_test_fail(__FILE__, __LINE__, "%s: %zu bytes come back as %zu others", name, count, used);
        CHECK_MSG(result != no_sentence, "%s: refused without a sentence", name);
    }
    free(copy);
    free(out);
    return result;
}

void rt_check_golden(const char *name, const uint8_t *bytes, size_t count) {
    char path[200];
    uint8_t wanted[4096];
    snprintf(path, sizeof path, "tests/golden/wire/%s.bin", name);
    FILE *file = fopen(path, "rb");
    REQUIRE(file);
    size_t size = fread(wanted, 1, sizeof wanted, file);
    fclose(file);
    CHECK_MSG(size == count, "%s: %zu bytes instead of %zu", name, count, size);
    for (size_t i = 0; i < size && i < count; i++)
        if (bytes[i] != wanted[i]) {
            rt_test_fail(__FILE__, __LINE__, "%s: byte %zu is %02x instead of %02x", name, i, bytes[i],
                         wanted[i]);
            break;
        }
}

void rt_check_recode(const char *name, const uint8_t *bytes, size_t count, rt_recode recode) {
    const char *sentence = outcome(name, bytes, count, recode);
    CHECK_MSG(!sentence, "%s: refused: %s", name, sentence);
}

void rt_check_refused(const char *name, const uint8_t *bytes, size_t count, rt_recode recode,
                      const char *words) {
    const char *sentence = outcome(name, bytes, count, recode);
    CHECK_MSG(sentence && strstr(sentence, words), "%s: wanted '%s', got: %s", name, words,
              sentence ? sentence : "accepted");
}

void rt_check_abuse(const char *name, const uint8_t *bytes, size_t count, rt_recode recode) {
    uint8_t *copy = malloc(count + 1);
    REQUIRE(copy);
    memcpy(copy, bytes, count);
    copy[count] = 0;
    for (size_t cut = 0; cut < count; cut++)
        CHECK_MSG(outcome(name, copy, cut, recode), "%s: accepted when cut to %zu bytes", name, cut);
    CHECK_MSG(outcome(name, copy, count + 1, recode), "%s: accepted with a byte left over", name);
    static const uint8_t masks[] = {1, 2, 4, 8, 16, 32, 64, 128, 255};
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < sizeof masks; j++) {
            copy[i] ^= masks[j];
            outcome(name, copy, count, recode);
            copy[i] ^= masks[j];
        }
    free(copy);
}
