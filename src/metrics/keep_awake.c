#define _GNU_SOURCE
#include "metrics/keep_awake.h"

#include "base/cores.h"
#include "base/memory.h"
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

/* At most this many cores: a larger machine has enough idle ones. */
enum { KEEP_AWAKE_CORES = 64 };

struct rt_keep_awake {
    atomic_bool stop;
    size_t count;
    struct keep_awake_thread {
        struct rt_keep_awake *keep;
        int core;
        pthread_t thread;
    } threads[KEEP_AWAKE_CORES];
};

#if defined(__linux__)
static bool keep_awake_give_way(void) {
    const struct sched_param least = {0};
    return sched_setscheduler(0, SCHED_IDLE, &least) == 0;
}
#else
static bool keep_awake_give_way(void) {
    return false;
}
#endif

/* A pause for the other hardware thread of the core. */
static void keep_awake_relax(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ __volatile__("yield");
#endif
}

static void *keep_awake_run(void *argument) {
    const struct keep_awake_thread *self = argument;
    if (!keep_awake_give_way())
        return NULL; /* at an ordinary priority it would take the core from threads that compute */
    rt_core_stay(self->core);
    while (!atomic_load_explicit(&self->keep->stop, memory_order_relaxed))
        for (int i = 0; i < 100; i++)
            keep_awake_relax();
    return NULL;
}

struct rt_keep_awake *rt_keep_awake_start(void) {
    int cores[KEEP_AWAKE_CORES];
    const size_t all = rt_cores_list(cores, KEEP_AWAKE_CORES);
    const size_t count = all < KEEP_AWAKE_CORES ? all : KEEP_AWAKE_CORES;
    struct rt_error ignored;
    struct rt_keep_awake *keep;
    /* Under a CPU limit of a control group, this would use the limit up. */
    if (rt_cores_quota("") > 0 ||
        rt_alloc(1, sizeof *keep, "threads that keep cores awake", &keep, &ignored) != RT_OK)
        return NULL;
    sigset_t every, before;
    sigfillset(&every);
    pthread_sigmask(SIG_SETMASK, &every, &before); /* signals are left to the program's own threads */
    for (; keep->count < count; keep->count++) {
        struct keep_awake_thread *thread = &keep->threads[keep->count];
        *thread = (struct keep_awake_thread){.keep = keep, .core = cores[keep->count]};
        if (pthread_create(&thread->thread, NULL, keep_awake_run, thread) != 0)
            break;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return keep;
}

void rt_keep_awake_stop(struct rt_keep_awake *keep) {
    if (!keep)
        return;
    atomic_store(&keep->stop, true);
    for (size_t i = 0; i < keep->count; i++)
        pthread_join(keep->threads[i].thread, NULL);
    free(keep);
}

double rt_keep_awake_seconds(const struct rt_keep_awake *keep) {
    double seconds = 0;
    for (size_t i = 0; keep && i < keep->count; i++) {
        clockid_t clock;
        struct timespec used;
        if (pthread_getcpuclockid(keep->threads[i].thread, &clock) == 0 && clock_gettime(clock, &used) == 0)
            seconds += (double)used.tv_sec + 1e-9 * (double)used.tv_nsec;
    }
    return seconds;
}
