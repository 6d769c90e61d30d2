/* The clocks, in seconds, and a test for a wait that ended far too late. */
#include "base/clock.h"

#include <time.h>

static double clock_read(clockid_t clock) {
    struct timespec now = {0, 0};
    clock_gettime(clock, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

double rt_clock_wall(void) {
    return clock_read(CLOCK_MONOTONIC);
}

double rt_clock_boot(void) {
#ifdef CLOCK_BOOTTIME
    return clock_read(CLOCK_BOOTTIME);
#else
    return clock_read(CLOCK_MONOTONIC);
#endif
}

double rt_clock_thread(void) {
    return clock_read(CLOCK_THREAD_CPUTIME_ID);
}

double rt_clock_process(void) {
    return clock_read(CLOCK_PROCESS_CPUTIME_ID);
}

bool rt_clock_overslept(double wanted, double now, double timeout) {
    /* A busy machine delays a thread as well, but hardly for so long. */
    const double late = 1, half = timeout / 2;
    return wanted > 0 && now - wanted > (half < late ? half : late);
}
