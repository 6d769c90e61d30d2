/* The clocks, in seconds, and a test for a wait that ended far too late. */
#include "base/clock.h"

#include <stddef.h>
#include <time.h>

static _Thread_local const struct rt_clock_source *followed; /* NULL: the machine's clocks */

void rt_clock_follow(const struct rt_clock_source *source) {
    followed = source;
}

static double clock_read(clockid_t clock) {
    struct timespec now = {0, 0};
    clock_gettime(clock, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

double rt_clock_wall(void) {
    return followed ? followed->wall(followed->self) : clock_read(CLOCK_MONOTONIC);
}

double rt_clock_boot(void) {
    if (followed)
        return followed->wall(followed->self);
#ifdef CLOCK_BOOTTIME
    return clock_read(CLOCK_BOOTTIME);
#else
    return clock_read(CLOCK_MONOTONIC);
#endif
}

double rt_clock_thread(void) {
    return followed ? followed->cpu(followed->self) : clock_read(CLOCK_THREAD_CPUTIME_ID);
}

double rt_clock_process(void) {
    return followed ? followed->cpu(followed->self) : clock_read(CLOCK_PROCESS_CPUTIME_ID);
}

bool rt_clock_overslept(double wanted, double now, double timeout) {
    /* A busy machine delays a thread as well, but hardly for so long. */
    const double late = 1, half = timeout / 2;
    return wanted > 0 && now - wanted > (half < late ? half : late);
}
