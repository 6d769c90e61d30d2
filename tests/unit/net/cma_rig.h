/* Cross-memory attach between two endpoints of this process, for its tests. Include it first. */
#ifndef RT_TEST_CMA_RIG_H
#define RT_TEST_CMA_RIG_H

#define _GNU_SOURCE /* process_vm_readv */
#include "tcp_rig.h"
#include <errno.h>
#include <sys/uio.h>
#include <sys/wait.h>

enum { LARGE = 1 << 20, SMALL = 1 << 10 };

static const struct rt_tcp_settings cma = {.cma = RT_LENDS_TO_ITSELF};

/* Where there is no such thing, bodies are sent as ever, and the other tests of the transport show it. */
static inline void need_lending(void) {
    char from = 1, to = 0;
    const struct iovec there = {&from, 1}, here = {&to, 1};
    if (process_vm_readv(getpid(), &here, 1, &there, 1, 0) != 1)
        SKIP("memory of another process cannot be read: %s (an emulator has no such call)", strerror(errno));
}

/* Sends a body from a to b: bytes that it took on the wire; 0: it did not arrive as it was. */
static inline uint64_t carry(struct pair *pair, size_t bytes) {
    uint8_t *from = malloc(bytes), *to = malloc(bytes);
    uint64_t before = pair->ab->counts.wire_sent;
    struct rt_send send = make_send(RT_CHANNEL_FIRST, "head", from, bytes);
    struct rt_receive receive = make_receive(RT_CHANNEL_FIRST, to, bytes);
    fill_bytes(from, bytes, 1);
    memset(to, 0, bytes);
    rt_link_receive(pair->ba, &receive);
    rt_link_send(pair->ab, &send);
    bool good = await_kind(pair->b, RT_EVENT_RECEIVED) && await_kind(pair->a, RT_EVENT_SENT) &&
                receive.body_bytes == bytes && receive.head_bytes == 4 && memcmp(from, to, bytes) == 0;
    free(from);
    free(to);
    return good ? pair->ab->counts.wire_sent - before : 0;
}

/* Whether it is agreed is seen from outside: a large body takes few bytes on the wire. */
static inline bool comes_to_lend(struct pair *pair) {
    double until = rt_clock_wall() + PATIENCE;
    while (rt_clock_wall() < until)
        if (carry(pair, LARGE) < SMALL)
            return true;
    return false;
}

/* Many systems let a process read itself and what it has started, but not the one that started it. */
static inline void need_lending_to_a_child(void) {
    static char from = 1;
    int status;
    need_lending();
    pid_t child = fork();
    if (child == 0) {
        char to;
        const struct iovec there = {&from, 1}, here = {&to, 1};
        _exit(process_vm_readv(getppid(), &here, 1, &there, 1, 0) == 1 ? 0 : errno);
    }
    REQUIRE(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status));
    if (WEXITSTATUS(status) != 0)
        SKIP("memory of another process cannot be read: %s", strerror(WEXITSTATUS(status)));
}

#endif
