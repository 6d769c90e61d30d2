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

static uint8_t *take(struct rt_writer *writer, size_t count) {
    if (writer->full || count > writer->room - writer->used) {
        writer->full = true;
        return NULL;
    }
    uint8_t *at = writer->bytes + writer->used;
    writer->used += count;
    return at;
}

void rt_write_u8(struct rt_writer *writer, uint8_t value) {
    uint8_t *at = take(writer, 1);
    if (at)
        *at = value;
}

void rt_write_u16(struct rt_writer *writer, uint16_t value) {
    uint8_t *at = take(writer, 2);
    if (at)
        rt_put_le16(at, value);
}

void rt_write_u32(struct rt_writer *writer, uint32_t value) {
    uint8_t *at = take(writer, 4);
    if (at)
        rt_put_le32(at, value);
}

void rt_write_u64(struct rt_writer *writer, uint64_t value) {
    uint8_t *at = take(writer, 8);
    if (at)
        rt_put_le64(at, value);
}

void rt_write_f64(struct rt_writer *writer, double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    rt_write_u64(writer, bits);
}

void rt_write_raw(struct rt_writer *writer, const void *bytes, size_t count) {
    uint8_t *at = take(writer, count);
    if (at && count)
        memcpy(at, bytes, count);
}

void rt_write_bytes(struct rt_writer *writer, const char *text, size_t count) {
    rt_write_u16(writer, (uint16_t)count);
    rt_write_raw(writer, text, count);
}

/* What a terminal would act upon instead of showing it. */
static bool is_control(uint32_t code) {
    return code < 0x20 || (code >= 0x7f && code < 0xa0);
}

void rt_write_text(struct rt_writer *writer, const char *text) {
    char shown[RT_MAX_TEXT + 1];
    size_t count = strnlen(text, RT_MAX_TEXT);
    memcpy(shown, text, count);
    shown[count] = 0;
    for (size_t i = 0; i < count;) {
        uint32_t code;
        size_t length = rt_utf8_decode(shown + i, &code);
        if (length && !is_control(code)) {
            i += length;
            continue;
        }
        memset(shown + i, '?', length ? length : 1);
        i += length ? length : 1;
    }
    rt_write_bytes(writer, shown, count);
}

size_t rt_writer_end(const struct rt_writer *writer) {
    return writer->full ? 0 : writer->used;
}

/* ---- reading ------------------------------------------------------------------------------------------- */

void rt_reader_refuse(struct rt_reader *reader, const char *format, ...) {
    if (reader->status != RT_OK)
        return;
    char rest[300];
    va_list args;
    va_start(args, format);
    vsnprintf(rest, sizeof rest, format, args);
    va_end(args);
    reader->status = rt_fail(reader->err, RT_BAD_INPUT, "the %s %s", reader->name, rest);
}

const uint8_t *rt_read_raw(struct rt_reader *reader, size_t count) {
    if (reader->status == RT_OK && count > reader->count - reader->used)
        rt_reader_refuse(reader, "is shorter than its fields: it ends after %zu bytes", reader->count);
    if (reader->status != RT_OK)
        return NULL;
    const uint8_t *at = reader->bytes + reader->used;
    reader->used += count;
    return at;
}

uint8_t rt_read_u8(struct rt_reader *reader) {
    const uint8_t *at = rt_read_raw(reader, 1);
    return at ? *at : 0;
}

uint16_t rt_read_u16(struct rt_reader *reader) {
    const uint8_t *at = rt_read_raw(reader, 2);
    return at ? rt_get_le16(at) : 0;
}

uint32_t rt_read_u32(struct rt_reader *reader) {
    const uint8_t *at = rt_read_raw(reader, 4);
    return at ? rt_get_le32(at) : 0;
}

uint64_t rt_read_u64(struct rt_reader *reader) {
    const uint8_t *at = rt_read_raw(reader, 8);
    return at ? rt_get_le64(at) : 0;
}

double rt_read_f64(struct rt_reader *reader) {
    uint64_t bits = rt_read_u64(reader);
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

double rt_read_amount(struct rt_reader *reader, const char *what) {
    double value = rt_read_f64(reader);
    if (value >= 0 && value <= DBL_MAX)
        return value;
    rt_reader_refuse(reader, "gives %s of %g", what, value);
    return 0;
}

size_t rt_read_count(struct rt_reader *reader, const char *what, size_t limit, size_t each_bytes) {
    uint32_t count = rt_read_u32(reader);
    if (count > limit)
        rt_reader_refuse(reader, "speaks of %lu %s; at most %zu can be", (unsigned long)count, what, limit);
    else if (count > (reader->count - reader->used) / each_bytes)
        rt_reader_refuse(reader, "is shorter than its fields: %zu bytes cannot hold %lu %s", reader->count,
                         (unsigned long)count, what);
    return reader->status == RT_OK ? count : 0;
}

uint16_t rt_read_index(struct rt_reader *reader, const char *what, size_t limit) {
    uint16_t index = rt_read_u16(reader);
    if (index < limit)
        return index;
    rt_reader_refuse(reader, "speaks of %s %u, counted from 0; at most %zu can be", what, index, limit);
    return 0;
}

void rt_read_text(struct rt_reader *reader, const char *what, char *text) {
    text[0] = 0;
    size_t count = rt_read_u16(reader);
    if (count > RT_MAX_TEXT)
        rt_reader_refuse(reader, "has a %s of %zu bytes; at most %d can be", what, count, RT_MAX_TEXT);
    const uint8_t *at = rt_read_raw(reader, count);
    if (!at)
        return;
    memcpy(text, at, count);
    text[count] = 0;
    for (size_t i = 0; i < count;) {
        uint32_t code;
        size_t length = rt_utf8_decode(text + i, &code);
        if (length == 0 || is_control(code)) {
            rt_reader_refuse(reader, "has a %s that is no plain text", what);
            text[0] = 0;
            return;
        }
        i += length;
    }
}

rt_status rt_reader_end(struct rt_reader *reader) {
    if (reader->used < reader->count)
        rt_reader_refuse(reader, "has %zu bytes left over behind its fields", reader->count - reader->used);
    return reader->status;
}
