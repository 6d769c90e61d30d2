/* Moments that recur in a count, as validations do: at every multiple of one of two periods. */
#ifndef RT_BASE_PERIODS_H
#define RT_BASE_PERIODS_H

#include <stdbool.h>
#include <stdint.h>

struct rt_periods {
    uint64_t every[2]; /* 0: never */
};

/* The first of them from `from` (above 0) on, at most limit. */
static inline uint64_t rt_periods_next(const struct rt_periods *periods, uint64_t from, uint64_t limit) {
    for (int i = 0; i < 2; i++) {
        const uint64_t every = periods->every[i], past = every ? from % every : 0;
        const uint64_t wait = past ? every - past : 0;
        if (every && from <= limit && wait < limit - from)
            limit = from + wait;
    }
    return limit;
}

static inline bool rt_periods_hit(const struct rt_periods *periods, uint64_t at) {
    return at > 0 && rt_periods_next(periods, at, UINT64_MAX) == at;
}

#endif
