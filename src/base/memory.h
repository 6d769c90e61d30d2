/* Memory: cleared, checked for overflow, with a message when there is not enough. Allocated before a run
 * starts, never during a training step. */
#ifndef RT_BASE_MEMORY_H
#define RT_BASE_MEMORY_H

#include "base/status.h"
#include <stdint.h>

enum { RT_ALIGN = 64, RT_ALIGN_FLOATS = RT_ALIGN / sizeof(float) };

/* count floats, zeroed and aligned to RT_ALIGN; count 0 gives a valid pointer. Freed with free(). */
rt_status rt_floats_create(size_t count, const char *what, float **floats, struct rt_error *err);

/* The same but not cleared: pages that are never touched take no memory. */
rt_status rt_floats_reserve(size_t count, const char *what, float **floats, struct rt_error *err);

/* Bytes that rt_floats_create takes for count floats; SIZE_MAX on overflow. */
size_t rt_floats_bytes(size_t count);

/* Refuses to take more bytes than the machine has memory: the system may grant them, only to kill the process
 * once they are used. what: "the model", ... */
rt_status rt_memory_check(double bytes, const char *what, struct rt_error *err);

/* Bytes of memory that this process takes now, and the most it has taken; 0 where the system does not tell.
 * (The maximum of getrusage starts with that of the parent process.) */
uint64_t rt_memory_resident(void);
uint64_t rt_memory_peak(void);
/* Returns freed memory to the system, where that can be done. */
void rt_memory_trim(void);
/* Restarts the maximum: for a process that serves several runs. Where the system cannot do it, the old
 * maximum stays. */
void rt_memory_peak_reset(void);

/* calloc with a sentence on failure; refuses overflow of count * size. */
rt_status rt_alloc(size_t count, size_t size, const char *what, void *pointer_to_pointer,
                   struct rt_error *err);

static inline size_t rt_round_up(size_t value, size_t unit) {
    return (value + unit - 1) / unit * unit;
}

#endif
