/* Streams that are faster than their reader: what a full buffer does, memory that does not grow, races. */
/* labels: threads */
#include "base/clock.h"
#include "stream_rig.h"
#include "support/counting.h"
#include <fcntl.h>
#include <sys/resource.h>

/* ---- a full buffer ---- */

enum { SENT = 20, KEPT = 8 };

/* A stream into whose buffer of 8 examples 20 have been written; the writing end stays open. */
static rt_status open_full(const char *overflow, struct waiter *waiter, int *fd, struct rt_stream **stream,
                           struct rt_error *err) {
    struct rt_data_wish wish = rt_test_wish(1, SENT);
    char yaml[100], line[40];
    snprintf(yaml, sizeof yaml, "stream: {from: \"-\", buffer: %d, overflow: %s}", KEPT, overflow);
    *fd = pipe_to_standard();
    for (int i = 0; i < SENT; i++) {
        snprintf(line, sizeof line, "%d,%d\n", 100 + i, i);
        send_text(*fd, line);
    }
    return open_stream(yaml, &wish, 0, waiter, stream, err);
}

static void check_kept(struct rt_stream *stream, struct waiter *waiter, int first, int count) {
    struct rt_error err;
    float x[SENT];
    int32_t classes[SENT];
    for (int i = first; i < first + count;) {
        size_t taken, n = i == first ? 3 : 2;
        n = n < (size_t)(first + count - i) ? n : (size_t)(first + count - i);
        CHECK_OK(take(stream, waiter, n, x, classes, NULL, &taken, &err));
        REQUIRE(taken == n);
        for (size_t j = 0; j < taken; j++, i++)
            CHECK(classes[j] == i && x[j] == (float)(100 + i));
    }
}

TEST(overflow_blocks) {
    struct rt_error err;
    struct waiter waiter = WAITER;
    struct rt_stream *stream;
    int fd;
    CHECK_OK(open_full("block", &waiter, &fd, &stream, &err));
    AWAIT(rt_stream_count(stream) == KEPT);
    for (int i = 0; i < 10; i++)
        nap();
    CHECK(rt_stream_count(stream) == KEPT && rt_stream_counters(stream).read == KEPT);
    check_kept(stream, &waiter, 0, SENT);
    struct rt_stream_counters counters = rt_stream_counters(stream);
    CHECK(counters.read == SENT && counters.taken == SENT && counters.dropped == 0);
    rt_stream_close(stream);
}

TEST(overflow_drops_new) {
    struct rt_error err;
    struct waiter waiter = WAITER;
    struct rt_stream *stream;
    int fd;
    CHECK_OK(open_full("drop-new", &waiter, &fd, &stream, &err));
    AWAIT(rt_stream_counters(stream).read == SENT);
    CHECK(rt_stream_counters(stream).dropped == SENT - KEPT);
    check_kept(stream, &waiter, 0, KEPT);
    send_text(fd, "7,7\n");
    AWAIT(rt_stream_count(stream) == 1);
    struct rt_stream_counters counters = rt_stream_counters(stream);
    CHECK(counters.read == SENT + 1 && counters.taken == KEPT && counters.dropped == SENT - KEPT);
    rt_stream_close(stream);
}

TEST(overflow_drops_old) {
    struct rt_error err;
    struct waiter waiter = WAITER;
    struct rt_stream *stream;
    int fd;
    CHECK_OK(open_full("drop-old", &waiter, &fd, &stream, &err));
    AWAIT(rt_stream_counters(stream).read == SENT);
    CHECK(rt_stream_count(stream) == KEPT);
    check_kept(stream, &waiter, SENT - KEPT, KEPT);
    struct rt_stream_counters counters = rt_stream_counters(stream);
    CHECK(counters.read == SENT && counters.taken == KEPT && counters.dropped == SENT - KEPT);
    rt_stream_close(stream);
}

/* What is dropped is read all the same: a wrong one among them is found. */
TEST(dropped_ones_are_checked) {
    struct rt_error err;
    struct waiter waiter = WAITER;
    struct rt_stream *stream;
    int fd;
    CHECK_OK(open_full("drop-new", &waiter, &fd, &stream, &err));
    send_text(fd, "oops,7\n");
    AWAIT(rt_stream_ended(stream));
    CHECK(rt_stream_status(stream, &err) == RT_BAD_INPUT);
    CHECK_MSG(strstr(err.text, "standard input:21:1: 'oops' is not a finite number"), "%s", err.text);
    rt_stream_close(stream);
}

/* ---- many examples ---- */

enum { MANY = COUNTS ? 1000000 : 50000, BLOCK = 1000, BATCH = 100 };

static long resident_peak(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
}

/* What a thread sends again and again. */
struct block {
    pthread_t thread;
    int fd;
    const void *data;
    size_t bytes;
};

static void *send_many(void *argument) {
    const struct block *block = argument;
    for (int i = 0; i < MANY / BLOCK; i++)
        send_all(block->fd, block->data, block->bytes);
    close(block->fd);
    return NULL;
}

/* The same thousand examples a thousand times: a count and a sum tell whether all have come. */
static void check_many(const char *yaml, const void *block, size_t bytes) {
    struct rt_error err;
    struct waiter waiter = WAITER;
    struct rt_stream *stream;
    struct rt_data_wish wish = rt_test_wish(2, 3);
    struct block sender = {.data = block, .bytes = bytes, .fd = pipe_to_standard()};
    float x[2 * BATCH];
    int32_t classes[BATCH];
    size_t taken = 0, all = 0;
    double sum = 0;
    long warm = 0;
    double before = rt_clock_wall();
    CHECK_OK(open_stream(yaml, &wish, BATCH, &waiter, &stream, &err));
    if (pthread_create(&sender.thread, NULL, send_many, &sender) != 0)
        exit(1);
    do {
        CHECK_OK(take(stream, &waiter, BATCH, x, classes, NULL, &taken, &err));
        for (size_t i = 0; i < taken; i++)
            sum += (double)x[2 * i] + classes[i];
        all += taken;
        if (all == 10 * BLOCK) /* everything has been touched once */
            warm = resident_peak();
    } while (taken > 0);
    CHECK(all == MANY && rt_stream_counters(stream).taken == MANY);
    CHECK(sum == (double)(MANY / BLOCK) * (BLOCK * (BLOCK - 1) / 2 + BLOCK / 3 * 3));
    if (COUNTS) {
        CHECK_MSG(resident_peak() - warm < 1024, "memory grew by %ld KiB", resident_peak() - warm);
        CHECK_MSG(rt_clock_wall() - before < 30, "%g s", rt_clock_wall() - before);
    }
    printf("%d examples in %.2f s\n", MANY, rt_clock_wall() - before);
    rt_stream_close(stream);
    pthread_join(sender.thread, NULL);
}

TEST(a_million_lines_in_flat_memory) {
    static char text[BLOCK * 16];
    size_t bytes = 0;
    for (int i = 0; i < BLOCK; i++)
        bytes += (size_t)snprintf(text + bytes, sizeof text - bytes, "%d,0.5,%d\n", i, i % 3);
    check_many("stream: \"-\"", text, bytes);
}

TEST(a_million_records_in_flat_memory) {
    static uint8_t data[BLOCK * 16];
    uint8_t *at = data;
    for (int i = 0; i < BLOCK; i++)
        at = put_record(at, (float[]){(float)i, 0.5f, (float)(i % 3)}, 3);
    check_many("stream: {from: \"-\", format: f32}", data, (size_t)(at - data));
}

enum { RACED = 20000 };

/* Numbers one after another, as fast as they go. */
static void *send_numbers(void *argument) {
    static uint8_t data[RACED * 12];
    uint8_t *at = data;
    for (int i = 0; i < RACED; i++)
        at = put_record(at, (float[]){(float)i, 0}, 2);
    send_all(*(int *)argument, data, sizeof data);
    close(*(int *)argument);
    return NULL;
}

/* Taken while others are dropped: the order is kept, no example is torn, and each is counted once. */
static void check_race(const char *yaml) {
    struct rt_error err;
    struct waiter waiter = WAITER;
    struct rt_stream *stream;
    struct rt_data_wish wish = rt_test_wish(1, 2);
    pthread_t thread;
    float x[5], last = -1;
    int32_t classes[5];
    size_t taken;
    int fd = pipe_to_standard();
    CHECK_OK(open_stream(yaml, &wish, 5, &waiter, &stream, &err));
    if (pthread_create(&thread, NULL, send_numbers, &fd) != 0)
        exit(1);
    do {
        CHECK_OK(take(stream, &waiter, 5, x, classes, NULL, &taken, &err));
        for (size_t i = 0; i < taken; last = x[i++])
            CHECK(x[i] > last);
    } while (taken > 0);
    struct rt_stream_counters counters = rt_stream_counters(stream);
    CHECK(counters.read == RACED && counters.taken + counters.dropped == RACED && counters.taken >= 5);
    rt_stream_close(stream);
    pthread_join(thread, NULL);
}

TEST(takes_while_dropping) {
    check_race("stream: {from: \"-\", format: f32, buffer: 7, overflow: drop-old}");
    check_race("stream: {from: \"-\", format: f32, buffer: 7, overflow: drop-new}");
    check_race("stream: {from: \"-\", format: f32, buffer: 7}");
}

TEST_MAIN()
