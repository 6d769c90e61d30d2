/* Which core a thread runs on. Systems that do not let a program say so do as they like. */
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

/* The one that it runs on at this moment; -1: unknown. */
int rt_core_now(void);

/* The calling thread stays on this core. */
void rt_core_stay(int core);

/* It goes there, unless it may not use that core, and can be moved elsewhere afterwards as before. */
void rt_core_go(int core);

/* The calling thread runs often and for a short while: it asks to be let in soon when it has something to do,
 * not when another has used up its turn. A wish; it gets no more of the core than before. */
void rt_core_turns_short(void);

/* Others who want this core go first, if there are any: for who has just given one of them something to do
 * that still others wait for. */
void rt_core_give_way(void);

#endif
