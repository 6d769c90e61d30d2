/* Time for measuring: seconds since an arbitrary start. */
#ifndef RT_BASE_CLOCK_H
#define RT_BASE_CLOCK_H

#include <stdbool.h>

double rt_clock_wall(void);    /* monotonic */
double rt_clock_boot(void);    /* the same, with the time for which the machine was asleep */
double rt_clock_thread(void);  /* CPU seconds of this thread */
double rt_clock_process(void); /* CPU seconds of this process */

/* A thread may take its time from elsewhere: a program on a simulated network lives in virtual time. */
struct rt_clock_source {
    double (*wall)(void *self); /* also for rt_clock_boot */
    double (*cpu)(void *self);  /* of the thread and of the process */
    void *self;
};
/* From now on the clocks of this thread are those; NULL: the machine's again. Borrowed. */
void rt_clock_follow(const struct rt_clock_source *source);

/* Whether a wait that was to end at a given time ended so late that this process was stopped meanwhile, by a
 * signal or with the whole machine. Others may have been stopped too: their silence in that time proves
 * nothing and does not count. timeout: in seconds. */
bool rt_clock_overslept(double wanted, double now, double timeout);

#endif
