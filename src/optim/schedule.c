/*
 * Learning-rate schedules. Plain functions of the update's number, in double, so that a resumed run and
 * every machine of a cluster use the same rate. The schedule's own clock starts after the warm-up.
 */
#include "optim/schedule.h"
#include "base/exactmath.h"
#include "optim/power.h"
#include <stddef.h>
#include <string.h>

#define WARMUP                                                                                               \
    {                                                                                                        \
        .name = "warmup", .kind = RT_OPTION_REAL, .offset = offsetof(struct rt_schedule, warmup),            \
        .fallback = "0", .max = 1e18, .help = "epochs in which the rate first grows evenly from near zero"   \
    }

static const struct rt_option constant_options[] = {WARMUP};

static const struct rt_option step_options[] = {
    {.name = "every",
     .kind = RT_OPTION_REAL,
     .offset = offsetof(struct rt_schedule, every),
     .fallback = "10",
     .min = 1e-3,
     .max = 1e18,
     .help = "epochs between drops"},
    {.name = "factor",
     .kind = RT_OPTION_REAL,
     .offset = offsetof(struct rt_schedule, factor),
     .fallback = "0.1",
     .max = 1,
     .help = "what each drop multiplies the rate by"},
    WARMUP,
};

static const struct rt_option cosine_options[] = {
    {.name = "floor",
     .kind = RT_OPTION_REAL,
     .offset = offsetof(struct rt_schedule, floor),
     .fallback = "0",
     .max = 1,
     .help = "where it ends, as a part of the full rate"},
    WARMUP,
};

#define COUNT(array_) (sizeof(array_) / sizeof *(array_))

static const struct schedule_type {
    const char *name, *help, *main_option;
    const struct rt_option *options;
    size_t option_count;
} types[] = {
    [RT_SCHEDULE_CONSTANT] = {"constant", "the same rate all the time", "warmup", constant_options,
                              COUNT(constant_options)},
    [RT_SCHEDULE_STEP] = {"step", "the rate drops every so many epochs", "every", step_options,
                          COUNT(step_options)},
    [RT_SCHEDULE_COSINE] = {"cosine", "the rate falls along half a cosine over the whole run", "floor",
                            cosine_options, COUNT(cosine_options)},
};

rt_status rt_schedule_read(const struct rt_tree *tree, struct rt_schedule *schedule, struct rt_error *err) {
    const struct rt_tree *settings = NULL, *place = tree;
    const char *name = types[RT_SCHEDULE_CONSTANT].name;
    if (tree && tree->kind == RT_TREE_SCALAR) {
        name = tree->text;
    } else if (tree) {
        if (tree->kind != RT_TREE_MAP || tree->count != 1)
            return rt_tree_fail(tree, err,
                                "schedule must be a name or one name with its options, as in "
                                "{step: {every: 10}}");
        place = settings = tree->items[0];
        name = settings->key;
    }
    const char *names[COUNT(types) + 1] = {NULL};
    for (size_t i = 0; i < COUNT(types); i++) {
        names[i] = types[i].name;
        if (strcmp(name, types[i].name) != 0)
            continue;
        struct rt_schedule read = {.kind = (int)i};
        rt_status status = rt_options_read(types[i].options, types[i].option_count, types[i].main_option,
                                           settings, name, &read, err);
        if (status == RT_OK)
            *schedule = read;
        return status;
    }
    const char *nearest = rt_nearest(name, names);
    return rt_tree_fail(place, err, "unknown schedule '%s'; %s%s%s", name,
                        nearest ? "did you mean '" : "there are ",
                        nearest ? nearest : "constant, step and cosine", nearest ? "'?" : "");
}

double rt_schedule_factor(const struct rt_schedule *schedule, uint64_t update, uint64_t updates,
                          uint64_t updates_per_epoch) {
    const double pi = 3.14159265358979323846;
    const double per_epoch = (double)updates_per_epoch, total = (double)updates;
    double done = (double)update - 1; /* updates before this one */
    double warm = schedule->warmup * per_epoch;
    warm = (double)(uint64_t)(warm < total ? warm : total); /* whole updates, never more than there are */
    if (done < warm)
        return (done + 1) / warm;
    done -= warm;

    if (schedule->kind == RT_SCHEDULE_STEP && per_epoch > 0)
        return rt_power(schedule->factor, (uint64_t)(done / (schedule->every * per_epoch)));
    if (schedule->kind == RT_SCHEDULE_COSINE && done < total - warm)
        return schedule->floor + (1 - schedule->floor) * 0.5 * (1 + rt_cos(pi * (done / (total - warm))));
    return schedule->kind == RT_SCHEDULE_COSINE ? schedule->floor : 1;
}

void rt_schedule_help(FILE *out) {
    for (size_t i = 0; i < COUNT(types); i++) {
        fprintf(out, "%s: %s\n", types[i].name, types[i].help);
        rt_options_help(out, types[i].options, types[i].option_count, "    ");
    }
}
