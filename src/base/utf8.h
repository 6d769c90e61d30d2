/* UTF-8: whether a text is valid, and its characters. Over-long forms and surrogates are not valid. */
#ifndef RT_BASE_UTF8_H
#define RT_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The character at the beginning of a zero-terminated text: its length in bytes, 0 when it is malformed. */
size_t rt_utf8_decode(const char *text, uint32_t *code);

bool rt_utf8_valid(const char *text);

/* Whether a terminal would interpret the character instead of showing it. */
bool rt_utf8_is_control(uint32_t code);

/* Valid, and without control characters: fit to be a name. */
bool rt_utf8_plain(const char *text);

#endif
