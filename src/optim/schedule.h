/* Learning-rate schedules: a factor on the rate, a function of the update's number only. */
#ifndef RT_OPTIM_SCHEDULE_H
#define RT_OPTIM_SCHEDULE_H

#include "base/option.h"

enum rt_schedule_kind { RT_SCHEDULE_CONSTANT, RT_SCHEDULE_STEP, RT_SCHEDULE_COSINE };

struct rt_schedule {
    int kind;      /* enum rt_schedule_kind */
    double every;  /* step: epochs between drops */
    double factor; /* step: what each drop multiplies by */
    double floor;  /* cosine: the factor at the end */
    double warmup; /* epochs of linear warm-up before any of them; 0: none */
};

/* From "cosine" or {step: {every: 10, factor: 0.1, warmup: 1}}; tree NULL: constant. */
rt_status rt_schedule_read(const struct rt_tree *tree, struct rt_schedule *schedule, struct rt_error *err);

/* The factor for update number `update` (from 1) of `updates`, with updates_per_epoch updates in an epoch. */
double rt_schedule_factor(const struct rt_schedule *schedule, uint64_t update, uint64_t updates,
                          uint64_t updates_per_epoch);

/* name and help of each schedule with its options, for `ringtmp list` */
void rt_schedule_help(FILE *out);

#endif
