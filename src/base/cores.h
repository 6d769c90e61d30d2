/* Which core a thread runs on. On systems that do not let a program choose, these functions do nothing. */
#ifndef RT_BASE_CORES_H
#define RT_BASE_CORES_H

#include <stddef.h>

/* The cores that the calling thread may use: their number, and up to `max` of them. 0: the system does not
 * tell. */
size_t rt_cores_list(int *cores, size_t max);

/* The cores' worth of time that control groups (v1 and v2, as of a container) grant this process, as 1.5; 0:
 * they set no limit. root: "" for this machine; in tests a directory with a proc/ and a sys/. */
double rt_cores_quota(const char *root);

/* How much can be computed at a time, in cores: those that the calling thread may use, or that are online
 * where the system does not tell, and no more than a quota grants. Above 0. */
double rt_cores_amount(void);

/* How many threads it is worth starting: the same, rounded up. At least 1. */
size_t rt_cores_usable(void);

/* The core the calling thread runs on at this moment; -1: unknown. */
int rt_core_now(void);

/* Binds the calling thread to this core. */
void rt_core_stay(int core);

/* Moves the calling thread to this core if it may use it; the system may move it elsewhere afterwards as
 * before. */
void rt_core_go(int core);

/* For a thread that runs often and briefly: asks the scheduler to run it soon after it wakes, and not only
 * when another thread has used up its time slice. A hint; the thread gets no more CPU time than before. */
void rt_core_turns_short(void);

/* Lets other threads that are ready run on this core first. For a thread that has just given one of them work
 * that others wait for. */
void rt_core_give_way(void);

#endif
