/*
 * How many times slower than this machine an emulated device is, and from which update on. An operation that
 * took c CPU-seconds here counts as busy for factor * c (metrics/states.h).
 */
#ifndef RT_METRICS_PACE_H
#define RT_METRICS_PACE_H

#include "base/status.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { RT_PACE_CHANGES = 16, RT_PACE_TEXT = 1024 };

struct rt_pace {
    double first; /* the factor of the first update; 0: 1 */
    size_t count;
    struct rt_pace_change {
        uint64_t from; /* the number of the update with which it begins, from 1 */
        double factor;
    } change[RT_PACE_CHANGES]; /* by rising updates */
};

/* A NULL pace is that of a device that is not emulated. */
bool rt_pace_is_emulated(const struct rt_pace *pace);
double rt_pace_factor(const struct rt_pace *pace, uint64_t update);

/* The range of factors. */
bool rt_pace_is_factor(double factor);
/* Refuses a second change at the same update, and too many. The caller puts the subject before the message:
 * "cluster.slowdown %s". The same for rt_pace_parse. */
rt_status rt_pace_add(struct rt_pace *pace, uint64_t from, double factor, struct rt_error *err);

/* As text for a command line: "2", or "1,500:4,900:1": 1, from update 500 on 4, from 900 on 1 again. */
rt_status rt_pace_parse(const char *text, struct rt_pace *pace, struct rt_error *err);
void rt_pace_print(const struct rt_pace *pace, char text[RT_PACE_TEXT]);

#endif
