/*
 * Bytes to frames. A body is received directly into its destination: only bytes that were read ahead together
 * with the start of their frame, a few hundred, are copied. A frame is checked before any byte of it is
 * taken.
 */
#include "net/tcp_parts.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "base/crc32c.h"
#include <string.h>

enum { DESTINATIONS = 3 };

/* The destinations of the rest of the frame, in order: head, body or loan, checksum. */
static int input_find_destinations(struct rt_tcp_input *in, struct iovec dest[DESTINATIONS]) {
    struct rt_receive *receive = in->receive;
    const bool lent = in->frame.body == RT_BODY_LENT;
    struct {
        uint8_t *at;
        size_t bytes;
    } parts[DESTINATIONS] = {
        {receive->head, in->frame.head_bytes},
        {lent ? in->offer : receive->body, lent ? RT_CMA_OFFER_BYTES : in->frame.body_bytes},
        {in->tail, RT_FRAME_TAIL_BYTES}};
    size_t skip = in->done;
    int count = 0;
    for (int i = 0; i < DESTINATIONS; i++) {
        size_t skipped = skip < parts[i].bytes ? skip : parts[i].bytes;
        skip -= skipped;
        if (skipped < parts[i].bytes)
            dest[count++] = (struct iovec){parts[i].at + skipped, parts[i].bytes - skipped};
    }
    return count;
}

/* Counts bytes of the frame that were read into the given destinations. */
static void input_advance(struct rt_tcp_input *in, const struct iovec *dest, int count, size_t bytes) {
    const size_t covered = in->frame.body == RT_BODY_LIGHT
                               ? in->frame.head_bytes
                               : rt_frame_following(&in->frame) - RT_FRAME_TAIL_BYTES;
    for (int i = 0; i < count && bytes > 0; i++) {
        size_t n = bytes < dest[i].iov_len ? bytes : dest[i].iov_len;
        if (in->done < covered) /* no destination straddles the ends of head and body */
            in->crc = rt_crc32c(in->crc, dest[i].iov_base, n);
        in->done += n;
        bytes -= n;
    }
}

/* The frame is complete, except for a lent body: what exceeds the budget is left for the next turn, and the
 * frame stays unfinished. */
static rt_status input_finish_frame(struct rt_connection *connection, size_t *budget, struct rt_error *err) {
    struct rt_tcp_input *in = &connection->in;
    struct rt_tcp_link *link = connection->link;
    struct rt_receive *receive = in->receive;
    if (rt_get_le32(in->tail) != in->crc)
        return rt_fail(err, RT_BAD_INPUT, "sent a frame whose checksum does not match");
    if (in->frame.body == RT_BODY_LENT && !link->lost[in->frame.channel]) {
        rt_status status =
            rt_cma_fetch(link, in->offer, receive, in->frame.body_bytes, &in->fetched, budget, err);
        if (status == RT_IO)
            rt_tcp_link_lose(link, in->frame.channel, err);
        else if (status != RT_OK)
            return status;
        else if (in->fetched < in->frame.body_bytes)
            return RT_OK;
    }
    in->in_frame = false;
    if (in->frame.kind == RT_FRAME_OFFER)
        return rt_cma_offered(link, err);
    if (link->lost[in->frame.channel])
        return RT_OK;
    receive->head_bytes = in->frame.head_bytes;
    receive->body_bytes = in->frame.body_bytes;
    rt_shape_received(connection, receive, in->began);
    return RT_OK;
}

/* Handles the bytes read ahead, until less than the start of a frame, or an unfinished frame, is left. */
static rt_status input_handle(struct rt_connection *connection, size_t *budget, struct rt_error *err) {
    struct rt_tcp_input *in = &connection->in;
    for (;;) {
        if (!in->in_frame) {
            if (in->to - in->from < RT_FRAME_BYTES)
                return RT_OK;
            const uint8_t *start = in->ahead + in->from;
            rt_status status = rt_frame_decode(start, &in->frame, err);
            if (status == RT_OK)
                status = rt_tcp_link_frame(connection, &in->frame, &in->receive, err);
            if (status != RT_OK)
                return status;
            in->from += RT_FRAME_BYTES;
            if (rt_frame_following(&in->frame) == 0)
                continue;
            in->in_frame = true;
            in->done = in->fetched = 0;
            if (rt_tcp_is_shaped(connection->tcp))
                in->began = rt_clock_wall();
            in->crc = rt_crc32c(0, start, RT_FRAME_BYTES);
        }
        struct iovec dest[DESTINATIONS];
        int count = input_find_destinations(in, dest);
        size_t copied = 0;
        for (int i = 0; i < count && in->from < in->to; i++) {
            size_t n = in->to - in->from < dest[i].iov_len ? in->to - in->from : dest[i].iov_len;
            memcpy(dest[i].iov_base, in->ahead + in->from, n);
            in->from += n;
            copied += n;
        }
        input_advance(in, dest, count, copied);
        if (in->done < rt_frame_following(&in->frame))
            return RT_OK;
        rt_status status = input_finish_frame(connection, budget, err);
        if (status != RT_OK || in->in_frame)
            return status;
    }
}

/* One read: into the destinations of the unfinished frame, and ahead. */
static enum rt_stream_result input_fill(struct rt_connection *connection, size_t *got, bool *drained,
                                        struct rt_error *err) {
    struct rt_tcp_input *in = &connection->in;
    struct iovec dest[DESTINATIONS + 1];
    int count = 0, frame_count = 0;
    size_t asked = 0;
    if (in->in_frame) {
        frame_count = count = input_find_destinations(in, dest);
        for (int i = 0; i < count; i++)
            if (dest[i].iov_len > RT_CHUNK) { /* so that the checksum finds it in the cache */
                dest[i].iov_len = RT_CHUNK;
                frame_count = count = i + 1;
            }
    }
    memmove(in->ahead, in->ahead + in->from, in->to - in->from);
    in->to -= in->from;
    in->from = 0;
    size_t in_dest = 0;
    for (int i = 0; i < count; i++)
        in_dest += dest[i].iov_len;
    if (!in->in_frame || in->done + in_dest == rt_frame_following(&in->frame))
        dest[count++] = (struct iovec){in->ahead + in->to, RT_IN_ROOM - in->to};
    for (int i = 0; i < count; i++)
        asked += dest[i].iov_len;

    enum rt_stream_result result = rt_stream_read(&connection->stream, dest, count, got, err);
    if (result != RT_STREAM_OK)
        return result;
    *drained = *got < asked && !connection->stream.session;
    size_t direct = *got < in_dest ? *got : in_dest;
    if (in->in_frame)
        input_advance(in, dest, frame_count, direct);
    in->to += *got - direct;
    return RT_STREAM_OK;
}

enum rt_stream_result rt_tcp_input_read(struct rt_connection *connection, struct rt_error *err) {
    struct rt_tcp_input *in = &connection->in;
    size_t budget = RT_BUDGET;
    bool drained = false;
    in->more = false;
    for (;;) {
        if (input_handle(connection, &budget, err) != RT_OK)
            return RT_STREAM_FAILED;
        if (budget == 0) {
            in->more = true;
            return RT_STREAM_BLOCKED;
        }
        if (drained)
            return RT_STREAM_BLOCKED;
        size_t got = 0;
        enum rt_stream_result result = input_fill(connection, &got, &drained, err);
        if (result != RT_STREAM_OK)
            return result;
        budget -= got < budget ? got : budget;
    }
}
