/*
 * Writing and reading the fields of a message, one after the other. Failure is sticky: after an encoder has
 * run out of room, or a decoder has met an error, further calls do nothing, so a codec lists its fields and
 * checks the outcome once, at the end. A decoder keeps the first message; numbers read after it are 0.
 */
#ifndef RT_WIRE_BYTES_H
#define RT_WIRE_BYTES_H

#include "base/status.h"
#include <stdint.h>

struct rt_encoder {
    uint8_t *bytes;
    size_t room, used;
    bool full;
};

void rt_write_u8(struct rt_encoder *encoder, uint8_t value);
void rt_write_u16(struct rt_encoder *encoder, uint16_t value);
void rt_write_u32(struct rt_encoder *encoder, uint32_t value);
void rt_write_u64(struct rt_encoder *encoder, uint64_t value);
void rt_write_f64(struct rt_encoder *encoder, double value); /* its IEEE bits */
void rt_write_raw(struct rt_encoder *encoder, const void *bytes, size_t count);

/* A u16 with the length, and the bytes as they are; count is at most UINT16_MAX. */
void rt_write_bytes(struct rt_encoder *encoder, const char *text, size_t count);
/* The same for a name or a message of at most RT_MAX_TEXT bytes; characters that cannot be printed become
 * '?'. */
void rt_write_text(struct rt_encoder *encoder, const char *text);

/* The bytes used, 0 when they did not fit. */
size_t rt_encoder_end(const struct rt_encoder *encoder);

struct rt_decoder {
    const char *name; /* of what is read, for sentences: "hello" */
    const uint8_t *bytes;
    size_t count, used;
    rt_status status;
    struct rt_error *err;
};

/* Reports an error: "the <name> ..." and the rest of the message. Only the first is kept. */
void rt_decoder_refuse(struct rt_decoder *decoder, const char *format, ...) RT_PRINTF(2, 3);

/* The next count bytes, in place; NULL, and an error, when there are fewer. */
const uint8_t *rt_read_raw(struct rt_decoder *decoder, size_t count);
uint8_t rt_read_u8(struct rt_decoder *decoder);
uint16_t rt_read_u16(struct rt_decoder *decoder);
uint32_t rt_read_u32(struct rt_decoder *decoder);
uint64_t rt_read_u64(struct rt_decoder *decoder);
double rt_read_f64(struct rt_decoder *decoder);

/* A number that counts or measures: finite and not negative. what: "a latency". */
double rt_read_amount(struct rt_decoder *decoder, const char *what);

/* A count of items that follow, of at least each_bytes bytes: at most limit, and the bytes must be there. */
size_t rt_read_count(struct rt_decoder *decoder, const char *what, size_t limit, size_t each_bytes);

/* A u16 that must be below limit. what: "node". */
uint16_t rt_read_index(struct rt_decoder *decoder, const char *what, size_t limit);

/* The number of a view: from 1. */
uint32_t rt_read_view(struct rt_decoder *decoder);

/* A name or a message into text, of RT_MAX_TEXT + 1 bytes. what: "version". */
void rt_read_text(struct rt_decoder *decoder, const char *what, char *text);

/* The name of a node into name, of RT_NODE_NAME + 1 bytes. */
void rt_read_name(struct rt_decoder *decoder, char *name);

/* RT_OK when no error occurred and no bytes are left. */
rt_status rt_decoder_end(struct rt_decoder *decoder);

#endif
