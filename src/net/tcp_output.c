/*
 * Frames to bytes. A body is sent from the owner's memory. Its checksum follows it and is computed chunk by
 * chunk, just after each chunk was handed to the system, which has then brought it into the cache. The
 * checksum of a light frame does not cover the body and is there from the start; so is that of a lent one,
 * whose body is not sent.
 */
#include "net/tcp_parts.h"

#include "base/bytes.h"
#include "base/crc32c.h"
#include <string.h>

enum { PARTS = RT_PIECES + 2 };

static size_t output_write_front(struct rt_tcp_output *out, const struct rt_send *send,
                                 enum rt_frame_body body) {
    struct rt_cma_offer offer;
    size_t body_bytes = 0;
    for (int i = 0; i < RT_PIECES; i++) {
        offer.pieces[i].at = (uintptr_t)send->body[i].data;
        offer.pieces[i].bytes = (uint32_t)send->body[i].bytes;
        body_bytes += send->body[i].bytes;
    }
    rt_frame_encode(&(struct rt_frame){.kind = RT_FRAME_DATA,
                                       .channel = send->channel,
                                       .head_bytes = (uint32_t)send->head_bytes,
                                       .body_bytes = (uint32_t)body_bytes,
                                       .body = body},
                    out->front);
    memcpy(out->front + RT_FRAME_BYTES, send->head, send->head_bytes);
    if (body != RT_BODY_LENT)
        return RT_FRAME_BYTES + send->head_bytes;
    rt_cma_offer_encode(&offer, out->front + RT_FRAME_BYTES + send->head_bytes);
    return RT_FRAME_BYTES + send->head_bytes + RT_CMA_OFFER_BYTES;
}

void rt_tcp_output_begin(struct rt_tcp_output *out, struct rt_send *send, enum rt_frame_body body) {
    const size_t front_bytes = output_write_front(out, send, body);
    out->send = send;
    out->lent = body == RT_BODY_LENT;
    out->total = front_bytes + RT_FRAME_TAIL_BYTES;
    out->parts[0] = (struct iovec){out->front, front_bytes};
    for (int i = 0; i < RT_PIECES; i++) {
        const size_t bytes = out->lent ? 0 : send->body[i].bytes;
        out->parts[1 + i] = (struct iovec){(void *)send->body[i].data, bytes};
        out->total += bytes;
    }
    out->parts[PARTS - 1] = (struct iovec){out->tail, RT_FRAME_TAIL_BYTES};
    out->sent = out->sealed = 0;
    out->crc = 0;
    if (body != RT_BODY_SEALED) {
        rt_put_le32(out->tail, rt_crc32c(0, out->front, front_bytes));
        out->sealed = out->total;
    }
}

void rt_tcp_output_begin_own(struct rt_tcp_output *out, const uint8_t *bytes, size_t count) {
    memcpy(out->front, bytes, count);
    memset(out->parts, 0, sizeof out->parts);
    out->parts[0] = (struct iovec){out->front, count};
    out->send = NULL;
    out->total = out->sealed = count;
    out->sent = 0;
}

/* The parts of the frame with its bytes from..to. */
static int output_select_parts(const struct rt_tcp_output *out, size_t from, size_t to,
                               struct iovec *selected) {
    int count = 0;
    size_t start = 0;
    for (int i = 0; i < PARTS && start < to; i++) {
        size_t end = start + out->parts[i].iov_len;
        size_t a = from > start ? from : start, b = to < end ? to : end;
        if (a < b)
            selected[count++] = (struct iovec){(uint8_t *)out->parts[i].iov_base + (a - start), b - a};
        start = end;
    }
    return count;
}

static void output_sum_to(struct rt_tcp_output *out, size_t to) {
    struct iovec parts[PARTS];
    int count = output_select_parts(out, out->sealed, to, parts);
    for (int i = 0; i < count; i++)
        out->crc = rt_crc32c(out->crc, parts[i].iov_base, parts[i].iov_len);
    out->sealed = to;
}

/* The end of the next write. The last chunk of a frame is summed before it is written, together with the sum;
 * earlier chunks are written first and summed afterwards. */
static size_t output_next_stop(struct rt_tcp_output *out, size_t most) {
    const size_t chunk = most < RT_CHUNK ? most : RT_CHUNK;
    if (out->total - out->sent > chunk + chunk / 2) /* a small rest gets no write of its own */
        return out->sent + chunk;
    if (out->sealed < out->total) {
        output_sum_to(out, out->total - RT_FRAME_TAIL_BYTES);
        rt_put_le32(out->tail, out->crc);
        out->sealed = out->total;
    }
    return out->total;
}

enum rt_stream_result rt_tcp_output_write(struct rt_connection *connection, size_t *budget,
                                          struct rt_error *err) {
    struct rt_tcp_output *out = &connection->out;
    while (out->sent < out->total) {
        const size_t room = *budget ? rt_shape_room(connection) : 0;
        if (room == 0)
            return RT_STREAM_BLOCKED;
        struct iovec parts[PARTS];
        size_t taken = 0;
        int count = output_select_parts(out, out->sent, output_next_stop(out, room), parts);
        enum rt_stream_result result = rt_stream_write(&connection->stream, parts, count, &taken, err);
        out->blocked = result == RT_STREAM_BLOCKED;
        if (result != RT_STREAM_OK)
            return result;
        out->sent += taken;
        rt_shape_wrote(connection, taken);
        if (out->sent > out->sealed)
            output_sum_to(out, out->sent);
        *budget -= taken < *budget ? taken : *budget;
    }
    out->total = out->sent = 0;
    return RT_STREAM_OK;
}
