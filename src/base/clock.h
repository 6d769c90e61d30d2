/* Time for measuring: seconds since an arbitrary start. */
#ifndef RT_BASE_CLOCK_H
#define RT_BASE_CLOCK_H

#include <stdbool.h>

double rt_clock_wall(void);    /* monotonic */
double rt_clock_boot(void);    /* the same, with the time for which the machine was asleep */
double rt_clock_thread(void);  /* CPU seconds of this thread */
double rt_clock_process(void); /* CPU seconds of this process */

/* Whether somebody who wanted to look up at a time came so late that it must have been stopped itself, by a
 * signal or with its whole machine. Then others may have been as well: that nothing came from them meanwhile
 * proves nothing, and that time does not count. timeout: in seconds. */
bool rt_clock_overslept(double wanted, double now, double timeout);

#endif
