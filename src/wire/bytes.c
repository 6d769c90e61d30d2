/* Writing and reading fields; see bytes.h. */
#include "wire/bytes.h"

#include "base/bytes.h"
#include "base/utf8.h"
#include "wire/message.h"
#include <float.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- writing ------------------------------------------------------------------------------------------- */

static uint8_t *encoder_take(struct rt_encoder *encoder, size_t count) {
    if (encoder->full || count > encoder->room - encoder->used) {
        encoder->full = true;
        return NULL;
    }
    uint8_t *at = encoder->bytes + encoder->used;
    encoder->used += count;
    return at;
}

void rt_write_u8(struct rt_encoder *encoder, uint8_t value) {
    uint8_t *at = encoder_take(encoder, 1);
    if (at)
        *at = value;
}

void rt_write_u16(struct rt_encoder *encoder, uint16_t value) {
    uint8_t *at = encoder_take(encoder, 2);
    if (at)
        rt_put_le16(at, value);
}

void rt_write_u32(struct rt_encoder *encoder, uint32_t value) {
    uint8_t *at = encoder_take(encoder, 4);
    if (at)
        rt_put_le32(at, value);
}

void rt_write_u64(struct rt_encoder *encoder, uint64_t value) {
    uint8_t *at = encoder_take(encoder, 8);
    if (at)
        rt_put_le64(at, value);
}

void rt_write_f64(struct rt_encoder *encoder, double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    rt_write_u64(encoder, bits);
}

void rt_write_raw(struct rt_encoder *encoder, const void *bytes, size_t count) {
    uint8_t *at = encoder_take(encoder, count);
    if (at && count)
        memcpy(at, bytes, count);
}

void rt_write_bytes(struct rt_encoder *encoder, const char *text, size_t count) {
    rt_write_u16(encoder, (uint16_t)count);
    rt_write_raw(encoder, text, count);
}

void rt_write_text(struct rt_encoder *encoder, const char *text) {
    char shown[RT_MAX_TEXT + 1];
    size_t count = strnlen(text, RT_MAX_TEXT);
    memcpy(shown, text, count);
    shown[count] = 0;
    for (size_t i = 0; i < count;) {
        uint32_t code;
        size_t length = rt_utf8_decode(shown + i, &code);
        if (length && !rt_utf8_is_control(code)) {
            i += length;
            continue;
        }
        memset(shown + i, '?', length ? length : 1);
        i += length ? length : 1;
    }
    rt_write_bytes(encoder, shown, count);
}

size_t rt_encoder_end(const struct rt_encoder *encoder) {
    return encoder->full ? 0 : encoder->used;
}

/* ---- reading ------------------------------------------------------------------------------------------- */

void rt_decoder_refuse(struct rt_decoder *decoder, const char *format, ...) {
    if (decoder->status != RT_OK)
        return;
    char rest[300];
    va_list args;
    va_start(args, format);
    vsnprintf(rest, sizeof rest, format, args);
    va_end(args);
    decoder->status = rt_fail(decoder->err, RT_BAD_INPUT, "the %s %s", decoder->name, rest);
}

const uint8_t *rt_read_raw(struct rt_decoder *decoder, size_t count) {
    if (decoder->status == RT_OK && count > decoder->count - decoder->used)
        rt_decoder_refuse(decoder, "is shorter than its fields: it ends after %zu bytes", decoder->count);
    if (decoder->status != RT_OK)
        return NULL;
    const uint8_t *at = decoder->bytes + decoder->used;
    decoder->used += count;
    return at;
}

uint8_t rt_read_u8(struct rt_decoder *decoder) {
    const uint8_t *at = rt_read_raw(decoder, 1);
    return at ? *at : 0;
}

uint16_t rt_read_u16(struct rt_decoder *decoder) {
    const uint8_t *at = rt_read_raw(decoder, 2);
    return at ? rt_get_le16(at) : 0;
}

uint32_t rt_read_u32(struct rt_decoder *decoder) {
    const uint8_t *at = rt_read_raw(decoder, 4);
    return at ? rt_get_le32(at) : 0;
}

uint64_t rt_read_u64(struct rt_decoder *decoder) {
    const uint8_t *at = rt_read_raw(decoder, 8);
    return at ? rt_get_le64(at) : 0;
}

double rt_read_f64(struct rt_decoder *decoder) {
    uint64_t bits = rt_read_u64(decoder);
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

double rt_read_amount(struct rt_decoder *decoder, const char *what) {
    double value = rt_read_f64(decoder);
    if (value >= 0 && value <= DBL_MAX)
        return value;
    rt_decoder_refuse(decoder, "gives %s of %g", what, value);
    return 0;
}

size_t rt_read_count(struct rt_decoder *decoder, const char *what, size_t limit, size_t each_bytes) {
    uint32_t count = rt_read_u32(decoder);
    if (count > limit)
        rt_decoder_refuse(decoder, "has %lu %s; the maximum is %zu", (unsigned long)count, what, limit);
    else if (count > (decoder->count - decoder->used) / each_bytes)
        rt_decoder_refuse(decoder, "is shorter than its fields: %zu bytes cannot hold %lu %s", decoder->count,
                          (unsigned long)count, what);
    return decoder->status == RT_OK ? count : 0;
}

uint16_t rt_read_index(struct rt_decoder *decoder, const char *what, size_t limit) {
    uint16_t index = rt_read_u16(decoder);
    if (index < limit)
        return index;
    rt_decoder_refuse(decoder, "names %s %u, counted from 0; there can be at most %zu", what, index, limit);
    return 0;
}

uint32_t rt_read_view(struct rt_decoder *decoder) {
    const uint32_t view = rt_read_u32(decoder);
    if (view == 0)
        rt_decoder_refuse(decoder, "is of view 0; views are counted from 1");
    return view;
}

static void read_text(struct rt_decoder *decoder, const char *what, size_t limit, char *text) {
    text[0] = 0;
    size_t count = rt_read_u16(decoder);
    if (count > limit)
        rt_decoder_refuse(decoder, "has a %s of %zu bytes; the maximum is %zu", what, count, limit);
    const uint8_t *at = rt_read_raw(decoder, count);
    if (!at)
        return;
    memcpy(text, at, count);
    text[count] = 0;
    if (memchr(text, 0, count) || !rt_utf8_plain(text)) {
        rt_decoder_refuse(decoder, "has a %s that is not plain text", what);
        text[0] = 0;
    }
}

void rt_read_text(struct rt_decoder *decoder, const char *what, char *text) {
    read_text(decoder, what, RT_MAX_TEXT, text);
}

void rt_read_name(struct rt_decoder *decoder, char *name) {
    read_text(decoder, "node's name", RT_NODE_NAME, name);
}

rt_status rt_decoder_end(struct rt_decoder *decoder) {
    if (decoder->used < decoder->count)
        rt_decoder_refuse(decoder, "has %zu bytes left over behind its fields",
                          decoder->count - decoder->used);
    return decoder->status;
}
