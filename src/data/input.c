/*
 * Plain and gzip-compressed files as streams. A gzip file is one or more members one after another (RFC
 * 1952); zlib checks each member's length and CRC.
 */
#include "data/input.h"

#include "base/memory.h"
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

/* DEFLATE cannot make one byte into more than 1032. */
enum { MOST_PER_BYTE = 1032, WINDOW = 1 << 16 };

struct rt_inflate {
    z_stream stream;
    bool ended;       /* at the end of a member */
    size_t at, bytes; /* of the file, what is in the window */
    uint8_t window[WINDOW];
};

/* Reads bytes from an offset on. */
static rt_status input_fetch(const struct rt_input *input, size_t at, void *buffer, size_t bytes,
                             struct rt_error *err) {
    if (input->map.data)
        return rt_map_read(&input->map, input->name, at, buffer, bytes, err);
    if (bytes)
        memcpy(buffer, input->data + at, bytes);
    return RT_OK;
}

/* The compressed bytes from the present offset on: all that is left of an input in memory, or a part of a
 * file. */
static rt_status input_look(struct rt_input *input, const uint8_t **data, size_t *bytes,
                            struct rt_error *err) {
    struct rt_inflate *gz = input->gz;
    *bytes = input->bytes - input->at;
    *data = input->data + input->at;
    if (!input->map.data)
        return RT_OK;
    /* two bytes tell whether another member follows */
    if (input->at < gz->at || input->at + (*bytes > 1 ? 2 : 1) > gz->at + gz->bytes) {
        gz->at = input->at;
        gz->bytes = *bytes < WINDOW ? *bytes : WINDOW;
        rt_status status = input_fetch(input, gz->at, gz->window, gz->bytes, err);
        if (status != RT_OK) {
            gz->bytes = 0;
            return status;
        }
    }
    *data = gz->window + (input->at - gz->at);
    *bytes = gz->bytes - (input->at - gz->at);
    return RT_OK;
}

static bool input_is_gzip(const uint8_t *data, size_t bytes) {
    return bytes >= 2 && data[0] == 0x1f && data[1] == 0x8b;
}

/* Prepares an input that is open. */
static rt_status input_begin(struct rt_input *input, struct rt_error *err) {
    uint8_t head[2] = {0};
    const char *name = input->name;
    rt_status status = input_fetch(input, 0, head, input->bytes < 2 ? input->bytes : 2, err);
    if (status != RT_OK || !input_is_gzip(head, input->bytes))
        return status;
    status = rt_alloc(1, sizeof *input->gz, "decompression", &input->gz, err);
    if (status != RT_OK)
        return status;
    /* 16: a gzip wrapper; 15: the largest window there is. */
    if (inflateInit2(&input->gz->stream, 16 + 15) != Z_OK) {
        free(input->gz);
        input->gz = NULL;
        return rt_fail(err, RT_NO_MEMORY, "%s: not enough memory to decompress it", name);
    }
    return RT_OK;
}

rt_status rt_input_memory(const uint8_t *data, size_t bytes, const char *name, struct rt_input *input,
                          struct rt_error *err) {
    *input = (struct rt_input){.name = name, .data = data, .bytes = bytes};
    return input_begin(input, err);
}

rt_status rt_input_open(const char *path, struct rt_input *input, struct rt_error *err) {
    struct rt_map map;
    rt_status status = rt_map_open(path, &map, err);
    if (status != RT_OK)
        return status;
    *input = (struct rt_input){.name = path, .map = map, .data = map.data, .bytes = map.bytes};
    status = input_begin(input, err);
    if (status != RT_OK)
        rt_input_close(input);
    return status;
}

void rt_input_close(struct rt_input *input) {
    if (input->gz)
        inflateEnd(&input->gz->stream);
    free(input->gz);
    rt_map_close(&input->map);
    *input = (struct rt_input){0};
}

uint64_t rt_input_limit(const struct rt_input *input) {
    uint64_t bytes = input->bytes;
    if (!input->gz)
        return bytes;
    return bytes > UINT64_MAX / MOST_PER_BYTE ? UINT64_MAX : bytes * MOST_PER_BYTE;
}

/* Between two members: goes on to the next, or sets *more to false at the end. */
static rt_status input_next_member(struct rt_input *input, bool *more, struct rt_error *err) {
    const uint8_t *data;
    size_t bytes;
    *more = false;
    if (input->at == input->bytes)
        return RT_OK;
    rt_status status = input_look(input, &data, &bytes, err);
    if (status != RT_OK)
        return status;
    if (!input_is_gzip(data, bytes))
        return rt_fail(err, RT_BAD_INPUT,
                       "%s: the compressed data end at offset %zu, but %zu other bytes follow", input->name,
                       input->at, input->bytes - input->at);
    *more = true;
    input->gz->ended = false;
    if (inflateReset(&input->gz->stream) != Z_OK)
        return rt_fail(err, RT_FAILED, "%s: cannot be decompressed", input->name);
    return RT_OK;
}

static rt_status input_read_gzip(struct rt_input *input, uint8_t *buffer, size_t size, size_t *got,
                                 struct rt_error *err) {
    z_stream *stream = &input->gz->stream;
    size_t done = 0;
    while (done < size) {
        if (input->gz->ended) {
            bool more;
            rt_status next = input_next_member(input, &more, err);
            if (next != RT_OK)
                return next;
            if (!more)
                break;
        }
        const uint8_t *data;
        size_t in, out = size - done;
        rt_status status = input_look(input, &data, &in, err);
        if (status != RT_OK)
            return status;
        /* zlib counts in unsigned int, so larger reads are split. */
        in = in < INT_MAX ? in : INT_MAX;
        out = out < INT_MAX ? out : INT_MAX;
        stream->next_in = (Bytef *)(uintptr_t)data;
        stream->avail_in = (uInt)in;
        stream->next_out = buffer + done;
        stream->avail_out = (uInt)out;
        int result = inflate(stream, Z_NO_FLUSH);
        input->at += in - stream->avail_in;
        done += out - stream->avail_out;
        if (result == Z_STREAM_END) {
            input->gz->ended = true;
        } else if (result == Z_MEM_ERROR) {
            return rt_fail(err, RT_NO_MEMORY, "%s: not enough memory to decompress it", input->name);
        } else if (result != Z_OK && result != Z_BUF_ERROR) {
            return rt_fail(err, RT_BAD_INPUT, "%s: the compressed data are damaged at offset %zu%s%s",
                           input->name, input->at, stream->msg ? ": " : "", stream->msg ? stream->msg : "");
        } else if (stream->avail_in == 0 && input->at == input->bytes && stream->avail_out > 0) {
            return rt_fail(err, RT_BAD_INPUT,
                           "%s: is cut short: the compressed data end too early, at offset %zu", input->name,
                           input->at);
        }
    }
    *got = done;
    return RT_OK;
}

rt_status rt_input_read(struct rt_input *input, void *buffer, size_t size, size_t *got,
                        struct rt_error *err) {
    rt_status status = RT_OK;
    if (input->gz) {
        status = input_read_gzip(input, buffer, size, got, err);
    } else {
        *got = size < input->bytes - input->at ? size : input->bytes - input->at;
        status = input_fetch(input, input->at, buffer, *got, err);
        input->at += *got;
    }
    if (status == RT_OK)
        input->given += *got;
    return status;
}
