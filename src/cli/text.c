#include "cli/text.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

const char *rt_text_count(uint64_t count, char *text) {
    char digits[RT_TEXT];
    int length = snprintf(digits, sizeof digits, "%" PRIu64, count);
    char *out = text;
    for (int i = 0; i < length; i++) {
        if (i > 0 && (length - i) % 3 == 0)
            *out++ = ',';
        *out++ = digits[i];
    }
    *out = 0;
    return text;
}

const char *rt_text_time(double seconds, char *text) {
    uint64_t whole = seconds > 0 && seconds < 1e15 ? (uint64_t)(seconds + 0.5) : 0;
    uint64_t hours = whole / 3600, minutes = whole / 60 % 60, rest = whole % 60;
    if (hours)
        snprintf(text, RT_TEXT, "%" PRIu64 ":%02" PRIu64 ":%02" PRIu64, hours, minutes, rest);
    else
        snprintf(text, RT_TEXT, "%" PRIu64 ":%02" PRIu64, minutes, rest);
    return text;
}

const char *rt_text_duration(double seconds, char *text) {
    if (!(seconds < 60))
        return rt_text_time(seconds, text);
    snprintf(text, RT_TEXT, "%.1f s", seconds);
    return text;
}

const char *rt_text_measure(double value, char *text) {
    double size = fabs(value);
    snprintf(text, RT_TEXT, size == 0 || (size >= 0.001 && size < 10000) ? "%.4f" : "%.3e", value);
    return text;
}

const char *rt_text_rate(double per_second, char *text) {
    if (per_second >= 100 && per_second < 1e15)
        return rt_text_count((uint64_t)(per_second + 0.5), text);
    snprintf(text, RT_TEXT, "%.3g", per_second);
    return text;
}

/* A byte that starts a character, in UTF-8. */
static int text_starts_character(char c) {
    return ((unsigned char)c & 0xc0) != 0x80;
}

static int text_is_control(char c) {
    return (unsigned char)c < 0x20 || c == 0x7f;
}

size_t rt_text_width(const char *name) {
    size_t width = 0;
    for (; *name; name++)
        width += text_starts_character(*name) != 0;
    return width;
}

void rt_text_print(FILE *out, const char *name) {
    for (; *name; name++)
        fputc(text_is_control(*name) ? '?' : *name, out);
}

void rt_text_sentence(FILE *out, const char *sentence) {
    for (const unsigned char *at = (const unsigned char *)sentence; *at; at++) {
        /* U+0080 to U+009F are control characters too: two bytes each. */
        if (at[0] == 0xc2 && at[1] >= 0x80 && at[1] < 0xa0) {
            fprintf(out, "\\x%02x\\x%02x", at[0], at[1]);
            at++;
        } else if (text_is_control((char)*at)) {
            fprintf(out, "\\x%02x", *at);
        } else {
            fputc(*at, out);
        }
    }
}

void rt_text_column(FILE *out, const char *name, size_t width) {
    size_t used = 0;
    for (; *name && (used < width || !text_starts_character(*name)); name++) {
        used += text_starts_character(*name) != 0;
        fputc(text_is_control(*name) ? '?' : *name, out);
    }
    for (; used < width; used++)
        fputc(' ', out);
}
