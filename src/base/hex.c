/* Bytes as hexadecimal digits. */
#include "base/hex.h"

void rt_hex_write(const uint8_t *bytes, size_t count, char *text) {
    static const char digit[] = "0123456789abcdef";
    for (size_t i = 0; i < count; i++) {
        text[2 * i] = digit[bytes[i] >> 4];
        text[2 * i + 1] = digit[bytes[i] & 15];
    }
}

static int hex_value(char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

bool rt_hex_read(const char *text, size_t count, uint8_t *bytes) {
    for (size_t i = 0; i < count; i++) {
        const int high = hex_value(text[2 * i]), low = high < 0 ? -1 : hex_value(text[2 * i + 1]);
        if (low < 0)
            return false;
        bytes[i] = (uint8_t)(high << 4 | low);
    }
    return true;
}
