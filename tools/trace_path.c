/*
 * The recorder of tools/trace_path.sh: linked into a build with -finstrument-functions, it writes down each
 * function that a thread enters and leaves, and what passes between the thread and the transport. One file
 * for each thread, $RT_TRACE/<command>.<process>.<thread>, mapped into memory: so it is complete however the
 * process ends.
 */
#define _GNU_SOURCE
#include "net/transport.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum kind { ENTER = 1, LEAVE, RECEIVED, EVENT, SEND, WAKE };
enum { RECORDS = 1 << 21, TYPE_AT = 6 }; /* per thread; where a message's head has its type */

struct record {
    uint64_t order; /* among the records of all threads of the process */
    void *function;
    uint32_t kind, type;
};

static _Atomic uint64_t next_order = 1;
static char command[32] = "none";
static _Thread_local struct record *records; /* NULL: nothing is recorded */
static _Thread_local size_t used;
static _Thread_local bool opened;

__attribute__((constructor)) static void recorder_start(int argc, char **argv) {
    if (argc > 1)
        snprintf(command, sizeof command, "%s", argv[1]);
}

static void recorder_open(void) {
    char path[4096];
    const char *directory = getenv("RT_TRACE");
    opened = true;
    if (!directory)
        return;
    snprintf(path, sizeof path, "%s/%s.%d.%d", directory, command, (int)getpid(), (int)gettid());
    const int file = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (file < 0 || ftruncate(file, RECORDS * sizeof *records) != 0)
        abort();
    records = mmap(NULL, RECORDS * sizeof *records, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (records == MAP_FAILED)
        abort();
    close(file);
}

static void recorder_note(enum kind kind, void *function, uint32_t type) {
    if (!opened)
        recorder_open();
    if (records && used < RECORDS)
        records[used++] = (struct record){next_order++, function, kind, type};
}

void __cyg_profile_func_enter(void *function, void *caller) {
    (void)caller;
    recorder_note(ENTER, function, 0);
}

void __cyg_profile_func_exit(void *function, void *caller) {
    (void)caller;
    recorder_note(LEAVE, function, 0);
}

static uint32_t type_of(const uint8_t *head) {
    return head[TYPE_AT] | (uint32_t)head[TYPE_AT + 1] << 8;
}

/* ---- in the place of the transport's functions (the linker's --wrap; weak: the build system's trials have
 * none) ---- */

__attribute__((weak)) bool __real_rt_endpoint_wait(struct rt_endpoint *endpoint, double until,
                                                   struct rt_event *event);
__attribute__((weak)) void __real_rt_endpoint_wake(struct rt_endpoint *endpoint);
__attribute__((weak)) void __real_rt_link_send(struct rt_link *link, struct rt_send *send);

bool __wrap_rt_endpoint_wait(struct rt_endpoint *endpoint, double until, struct rt_event *event) {
    if (!__real_rt_endpoint_wait(endpoint, until, event))
        return false;
    if (event->kind == RT_EVENT_RECEIVED)
        recorder_note(RECEIVED, NULL, type_of(event->receive->head));
    else
        recorder_note(EVENT, NULL, 0);
    return true;
}

void __wrap_rt_endpoint_wake(struct rt_endpoint *endpoint) {
    recorder_note(WAKE, NULL, 0);
    __real_rt_endpoint_wake(endpoint);
}

void __wrap_rt_link_send(struct rt_link *link, struct rt_send *send) {
    recorder_note(SEND, NULL, type_of(send->head));
    __real_rt_link_send(link, send);
}
