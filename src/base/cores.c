/* The Linux calls; no effect on other systems. */
#define _GNU_SOURCE
#include "base/cores.h"

#include <math.h>
#include <sched.h>
#include <unistd.h>
#if defined(__linux__)
#include <stdint.h>
#include <sys/syscall.h>

size_t rt_cores_list(int *cores, size_t max) {
    cpu_set_t set;
    size_t count = 0;
    if (sched_getaffinity(0, sizeof set, &set) != 0)
        return 0;
    for (size_t core = 0; core < CPU_SETSIZE; core++)
        if (CPU_ISSET(core, &set)) {
            if (count < max)
                cores[count] = (int)core;
            count++;
        }
    return count;
}

int rt_core_now(void) {
    return sched_getcpu();
}

void rt_core_stay(int core) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET((size_t)core, &set);
    (void)sched_setaffinity(0, sizeof set, &set); /* a wish */
}

void rt_core_go(int core) {
    cpu_set_t before;
    if (sched_getaffinity(0, sizeof before, &before) != 0 || !CPU_ISSET((size_t)core, &before))
        return;
    rt_core_stay(core);
    (void)sched_setaffinity(0, sizeof before, &before);
}

/* As the kernel defines it (sched_setattr(2)); the C library does not. */
struct attributes {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime;          /* nanoseconds of a turn, where the policy is the usual one */
    uint64_t deadline, period; /* of other policies */
};

void rt_core_turns_short(void) {
    enum { SHORTEST = 100000 };
    struct attributes own = {0};
    if (syscall(SYS_sched_getattr, 0, &own, sizeof own, 0) != 0 || own.policy != SCHED_OTHER)
        return;
    own.size = sizeof own;
    own.runtime = SHORTEST;
    (void)syscall(SYS_sched_setattr, 0, &own, 0);
}
#else
size_t rt_cores_list(int *cores, size_t max) {
    (void)cores, (void)max;
    return 0;
}

int rt_core_now(void) {
    return -1;
}

void rt_core_turns_short(void) {}

void rt_core_stay(int core) {
    (void)core;
}

void rt_core_go(int core) {
    (void)core;
}
#endif

double rt_cores_amount(void) {
    const size_t listed = rt_cores_list(NULL, 0);
    const long online = listed ? (long)listed : sysconf(_SC_NPROCESSORS_ONLN);
    const double cores = online > 0 ? (double)online : 1, quota = rt_cores_quota("");
    return quota > 0 && quota < cores ? quota : cores;
}

size_t rt_cores_usable(void) {
    return (size_t)ceil(rt_cores_amount());
}

void rt_core_give_way(void) {
    (void)sched_yield();
}
