/* Time for measuring: seconds since an arbitrary start. */
#ifndef RT_BASE_CLOCK_H
#define RT_BASE_CLOCK_H

double rt_clock_wall(void);    /* monotonic */
double rt_clock_thread(void);  /* CPU seconds of this thread */
double rt_clock_process(void); /* CPU seconds of this process */

#endif
