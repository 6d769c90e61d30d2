/* UTF-8; see utf8.h. */
#include "base/utf8.h"

size_t rt_utf8_decode(const char *text, uint32_t *code) {
    const uint8_t *p = (const uint8_t *)text;
    if (p[0] < 0x80) {
        *code = p[0];
        return 1;
    }
    size_t length = p[0] >= 0xf0 ? 4 : p[0] >= 0xe0 ? 3 : 2;
    if (p[0] < 0xc2 || p[0] > 0xf4)
        return 0;
    uint32_t value = p[0] & (0xffu >> (length + 1));
    /* The zero at the end is not a continuation byte, so nothing behind it is read. */
    for (size_t i = 1; i < length; i++) {
        if ((p[i] & 0xc0) != 0x80)
            return 0;
        value = value << 6 | (p[i] & 0x3fu);
    }
    static const uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
    if (value < smallest[length] || value > 0x10ffff || (value >= 0xd800 && value <= 0xdfff))
        return 0;
    *code = value;
    return length;
}

static bool utf8_check(const char *text, bool plain) {
    uint32_t code;
    while (*text) {
        size_t length = rt_utf8_decode(text, &code);
        if (length == 0 || (plain && rt_utf8_is_control(code)))
            return false;
        text += length;
    }
    return true;
}

bool rt_utf8_valid(const char *text) {
    return utf8_check(text, false);
}

bool rt_utf8_is_control(uint32_t code) {
    return code < 0x20 || (code >= 0x7f && code < 0xa0);
}

bool rt_utf8_plain(const char *text) {
    return utf8_check(text, true);
}
