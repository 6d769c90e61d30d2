/* Bytes as hexadecimal digits: hashes, keys, tokens. */
#ifndef RT_BASE_HEX_H
#define RT_BASE_HEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Two small digits for each byte; nothing after them. */
void rt_hex_write(const uint8_t *bytes, size_t count, char *text);
/* false: one of the 2 x count characters is no digit. */
bool rt_hex_read(const char *text, size_t count, uint8_t *bytes);

#endif
