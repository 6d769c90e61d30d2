/* What the tests of streams share: opening one from YAML, waiting for its wake, taking, and a sender. */
#ifndef RT_TEST_STREAM_RIG_H
#define RT_TEST_STREAM_RIG_H

#include "base/bytes.h"
#include "data/stream.h"
#include "formats/yaml.h"
#include "support/datafiles.h"
#include "support/test.h"
#include <pthread.h>
#include <time.h>
#include <unistd.h>

/* Counts wakes, and lets a thread wait for one. */
struct waiter {
    pthread_mutex_t mutex;
    pthread_cond_t woken;
    int wakes, seen;
};

#define WAITER                                                                                               \
    { .mutex = PTHREAD_MUTEX_INITIALIZER, .woken = PTHREAD_COND_INITIALIZER }

static inline void wake(void *context) {
    struct waiter *waiter = context;
    pthread_mutex_lock(&waiter->mutex);
    waiter->wakes++;
    pthread_cond_signal(&waiter->woken);
    pthread_mutex_unlock(&waiter->mutex);
}

static inline int wakes(struct waiter *waiter) {
    pthread_mutex_lock(&waiter->mutex);
    int count = waiter->wakes;
    pthread_mutex_unlock(&waiter->mutex);
    return count;
}

/* Whether a wake that has not been waited for comes within 10 s. */
static inline bool await_wake(struct waiter *waiter) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 10;
    int late = 0;
    pthread_mutex_lock(&waiter->mutex);
    while (waiter->wakes == waiter->seen && !late)
        late = pthread_cond_timedwait(&waiter->woken, &waiter->mutex, &until);
    waiter->seen += late == 0;
    pthread_mutex_unlock(&waiter->mutex);
    return late == 0;
}

static inline void nap(void) {
    nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
}

/* Waits until a condition holds, for 10 s at most. */
#define AWAIT(condition)                                                                                     \
    do {                                                                                                     \
        for (int tries = 0; tries < 5000 && !(condition); tries++)                                           \
            nap();                                                                                           \
        REQUIRE(condition);                                                                                  \
    } while (0)

/* Opens a stream written as YAML, whose tree is gone afterwards. */
static inline rt_status open_stream(const char *yaml, const struct rt_data_wish *wish, size_t at_least,
                                    struct waiter *waiter, struct rt_stream **stream, struct rt_error *err) {
    struct rt_tree *tree;
    rt_status status = rt_yaml_parse(yaml, strlen(yaml), "run.yaml", &tree, err);
    if (status != RT_OK)
        return status;
    status = rt_stream_open(tree, rt_test_directory(), wish, at_least, wake, waiter, stream, err);
    rt_tree_destroy(tree);
    return status;
}

/* Takes n raw examples, or what is left at the end, waiting for them. */
static inline rt_status take(struct rt_stream *stream, struct waiter *waiter, size_t n, float *x,
                             int32_t *classes, float *values, size_t *taken, struct rt_error *err) {
    for (;;) {
        rt_status status = rt_stream_take(stream, n, NULL, NULL, x, classes, values, taken, err);
        if (status != RT_OK || *taken > 0)
            return status;
        if (rt_stream_ended(stream) && rt_stream_count(stream) == 0)
            return rt_stream_status(stream, err);
        if (!await_wake(waiter))
            return rt_fail(err, RT_FAILED, "nobody was woken");
    }
}

static inline void send_all(int fd, const void *data, size_t bytes) {
    for (const uint8_t *at = data; bytes > 0;) {
        ssize_t sent = write(fd, at, bytes);
        if (sent <= 0)
            return;
        at += sent;
        bytes -= (size_t)sent;
    }
}

static inline void send_text(int fd, const char *text) {
    send_all(fd, text, strlen(text));
}

/* Standard input becomes the reading end of a pipe; its writing end, or -1. */
static inline int pipe_to_standard(void) {
    int ends[2];
    if (pipe(ends) != 0 || dup2(ends[0], STDIN_FILENO) < 0)
        return -1;
    close(ends[0]);
    return ends[1];
}

/* Writes one f32 record and returns what follows it. */
static inline uint8_t *put_record(uint8_t *at, const float *numbers, size_t count) {
    rt_put_le32(at, (uint32_t)(count * sizeof *numbers));
    for (size_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, &numbers[i], sizeof bits);
        rt_put_le32(at + 4 + 4 * i, bits);
    }
    return at + 4 + 4 * count;
}

#endif
