/* Time for measuring: seconds since an arbitrary start. */
#ifndef RT_BASE_CLOCK_H
#define RT_BASE_CLOCK_H

#include <stdbool.h>

double rt_clock_wall(void);    /* monotonic */
double rt_clock_boot(void);    /* the same, with the time for which the machine was asleep */
double rt_clock_thread(void);  /* CPU seconds of this thread */
double rt_clock_process(void); /* CPU seconds of this process */

/* Whether a wait that was to end at a given time ended so late that this process was stopped meanwhile, by a
 * signal or with the whole machine. Others may have been stopped too: their silence in that time proves
 * nothing and does not count. timeout: in seconds. */
bool rt_clock_overslept(double wanted, double now, double timeout);

#endif
