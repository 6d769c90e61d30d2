/*
 * Keeps the cores of this machine from going idle while devices are emulated on them. An emulated device
 * sleeps for most of the time, and a core that was idle is slower for a while: the CPU time that emulation
 * multiplies would grow with every nap, by more the slower the device is. So every core has a thread that
 * does nothing, at a priority (SCHED_IDLE) at which anything else that wants the core gets it at once.
 */
#ifndef RT_METRICS_KEEP_AWAKE_H
#define RT_METRICS_KEEP_AWAKE_H

#include "base/status.h"

struct rt_keep_awake;

/* NULL if the system lacks that priority or cannot start a thread: emulation is then less precise, and
 * nothing else differs. */
struct rt_keep_awake *rt_keep_awake_start(void);
void rt_keep_awake_stop(struct rt_keep_awake *keep); /* NULL is fine */

/* CPU-seconds so far: part of the process's CPU time, but not of the device's. keep NULL: 0. */
double rt_keep_awake_seconds(const struct rt_keep_awake *keep);

#endif
