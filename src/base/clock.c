/* The three clocks, in seconds. */
#include "base/clock.h"

#include <time.h>

static double read_clock(clockid_t clock) {
    struct timespec now = {0, 0};
    clock_gettime(clock, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

double rt_clock_wall(void) {
    return read_clock(CLOCK_MONOTONIC);
}

double rt_clock_thread(void) {
    return read_clock(CLOCK_THREAD_CPUTIME_ID);
}

double rt_clock_process(void) {
    return read_clock(CLOCK_PROCESS_CPUTIME_ID);
}
