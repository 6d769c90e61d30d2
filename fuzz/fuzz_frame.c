/*
 * Any bytes from a peer: the starts of frames, preambles, and a link that reads them from a socket. Checksums
 * would stop nearly everything at the door, so the first byte says whether they are put right on the way:
 *
 *   bit 0: which connection of the link     bit 1: put checksums right     bits 2-3: receives posted
 *   bit 4: bodies may be lent, from this program's own memory
 */
#include "base/bytes.h"
#include "base/crc32c.h"
#include "net/tcp_parts.h"
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

enum { LONGEST = 4096, ROOM = 300, RECEIVES = 3 };

static void require(bool condition) {
    if (!condition)
        abort();
}

static void check_start(const uint8_t *data) {
    uint8_t bytes[RT_FRAME_BYTES], again[RT_FRAME_BYTES];
    struct rt_frame frame;
    memcpy(bytes, data, 8);
    rt_put_le32(bytes + 8, rt_crc32c(0, bytes, 8));
    if (rt_frame_decode(bytes, &frame, NULL) != RT_OK)
        return;
    require(frame.channel < RT_CHANNELS && frame.head_bytes <= RT_HEAD_ROOM &&
            frame.body_bytes <= RT_MAX_BODY);
    rt_frame_encode(&frame, again);
    require(memcmp(bytes, again, sizeof again) == 0);
}

static void check_preamble(const uint8_t *data) {
    uint8_t bytes[RT_PREAMBLE_BYTES], again[RT_PREAMBLE_BYTES];
    struct rt_preamble preamble;
    memcpy(bytes, data, RT_PREAMBLE_BYTES - 4);
    rt_put_le32(bytes + 24, rt_crc32c(0, bytes, 24));
    if (rt_preamble_decode(bytes, &preamble, NULL) != RT_OK || preamble.version != RT_LINK_VERSION)
        return;
    rt_preamble_encode(&preamble, again);
    require(memcmp(bytes, again, sizeof again) == 0);
}

/* Puts the checksums of starts and ends right, as far as the bytes go. */
static void seal_all(uint8_t *bytes, size_t count) {
    for (size_t at = 0; at + RT_FRAME_BYTES <= count;) {
        struct rt_frame frame;
        rt_put_le32(bytes + at + 8, rt_crc32c(0, bytes + at, 8));
        if (rt_frame_decode(bytes + at, &frame, NULL) != RT_OK)
            return;
        const size_t following = rt_frame_following(&frame);
        if (following > count - at - RT_FRAME_BYTES)
            return;
        if (following > 0) {
            const size_t end = RT_FRAME_BYTES + following - RT_FRAME_TAIL_BYTES;
            const size_t summed = frame.body == RT_BODY_LIGHT ? RT_FRAME_BYTES + frame.head_bytes : end;
            rt_put_le32(bytes + at + end, rt_crc32c(0, bytes + at, summed));
        }
        at += RT_FRAME_BYTES + following;
    }
}

/* An endpoint without a thread: of its functions only the clock is asked. */
static double no_time(struct rt_endpoint *endpoint) {
    (void)endpoint;
    return 1;
}
static const struct rt_transport transport = {.now = no_time};

static void read_as_link(unsigned strategy, const uint8_t *bytes, size_t count) {
    struct rt_tcp tcp = {
        .base.transport = &transport, .silence = rt_silence_terms(1, 0.2, 0), .shortest_bound = 1};
    struct rt_tcp_link link = {
        .base.endpoint = &tcp.base, .state = RT_LINK_UP, .pings_sent = 5, .timing = true, .timed = 3};
    struct rt_connection *connection = calloc(1, sizeof *connection);
    struct rt_receive receives[RT_CHANNELS][RECEIVES];
    struct rt_error err;
    uint8_t *bodies = malloc(RT_CHANNELS * RECEIVES * ROOM);
    int ends[2];
    require(connection && bodies && socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    pthread_mutex_init(&tcp.mutex, NULL);
    pthread_cond_init(&tcp.changed, NULL);
    for (unsigned channel = 0; channel < RT_CHANNELS; channel++)
        for (unsigned i = 0; i < (strategy >> 2 & 3); i++) {
            receives[channel][i] = (struct rt_receive){
                .channel = channel, .body = bodies + (channel * RECEIVES + i) * ROOM, .body_room = ROOM};
            rt_receive_push(&link.receives[channel], &receives[channel][i]);
            link.granted[channel]++;
        }
    link.cma = (struct rt_cma_state){
        .willing = true,
        .borrows = strategy >> 4 & 1,
        .peer = {.process = (uint32_t)getpid(), .answer_at = (uintptr_t)link.cma.answer}};
    memset(link.cma.answer, 0xff, sizeof link.cma.answer); /* to a challenge of zeros */
    *connection = (struct rt_connection){.tcp = &tcp,
                                         .link = &link,
                                         .state = RT_CONNECTION_OPEN,
                                         .lane = strategy & 1 ? RT_LANE_DATA : RT_LANE_CONTROL,
                                         .stream.fd = ends[0]};
    link.lanes[RT_LANE_CONTROL] = link.lanes[RT_LANE_DATA] = connection;
    require(write(ends[1], bytes, count) == (ssize_t)count);
    shutdown(ends[1], SHUT_WR);
    enum rt_stream_result result;
    do
        result = rt_tcp_input_read(connection, &err);
    while (result == RT_STREAM_BLOCKED);
    require(result == RT_STREAM_ENDED || result == RT_STREAM_FAILED);
    require(strlen(err.text) > 0);
    while (link.done_receives.first) {
        struct rt_receive *receive = rt_receive_pop(&link.done_receives);
        require(receive->head_bytes <= RT_HEAD_ROOM && receive->body_bytes <= ROOM);
    }
    pthread_cond_destroy(&tcp.changed);
    pthread_mutex_destroy(&tcp.mutex);
    close(ends[0]);
    close(ends[1]);
    free(bodies);
    free(connection);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    uint8_t copy[LONGEST];
    if (bytes < 2 || bytes - 1 > LONGEST)
        return 0;
    memcpy(copy, data + 1, bytes - 1);
    if (bytes > RT_FRAME_BYTES)
        check_start(copy);
    if (bytes > RT_PREAMBLE_BYTES)
        check_preamble(copy);
    if (data[0] & 2)
        seal_all(copy, bytes - 1);
    read_as_link(data[0], copy, bytes - 1);
    return 0;
}
