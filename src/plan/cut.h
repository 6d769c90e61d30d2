/*
 * Where to cut: an exact dynamic programme. Layers are assigned to devices in order, a run of at least one to
 * each device that is used. The best cut minimises the time of the busiest device or link per update, and
 * among cuts with the same such time spreads the work most evenly.
 */
#ifndef RT_PLAN_CUT_H
#define RT_PLAN_CUT_H

#include "base/status.h"
#include <stdint.h>

enum rt_cut_use { RT_CUT_OUT, RT_CUT_MAY, RT_CUT_MUST };

struct rt_cut_problem {
    size_t layers;  /* to be assigned, without the master's tail */
    size_t devices; /* the master first; it always takes part */
    size_t least;   /* layers that the master must hold at least when it is not alone */
    /* Where runs may end, counted in layers and rising; the last is `layers`. NULL: after every layer. */
    const size_t *points;
    size_t point_count;
    /* Seconds of work per update. work: [devices][layers + 1] sums from layer 0 up to each. extra: what the
     * master does besides: inputs, the loss, the tail. */
    const double *work;
    const double *start; /* [devices][layers + 1]: more where a run begins at a layer; NULL: nothing */
    double extra;
    /* Bytes that cross each cut per update in one direction: [layers + 1]; the last is the output. */
    const double *bytes;
    const double *link; /* [devices][devices]: seconds per byte from one to another */
    const double *port; /* [devices]: seconds per byte of all a device sends */
    double messages;    /* seconds per update and direction that sending costs beyond the bytes */
    bool backward;      /* gradients travel too */
    const uint8_t *use; /* [devices]: enum rt_cut_use */
    /* Whether layers first..end fit on the device; alone: it is the only one. Called only where it matters.
     * If layers do not fit, more layers are assumed not to fit either. */
    rt_status (*fits)(void *user, size_t device, size_t first, size_t end, bool alone, bool *yes,
                      struct rt_error *err);
    void *user;
};

struct rt_cut {
    size_t nodes;         /* 0: there is no cut that fits */
    size_t *device, *end; /* [problem.devices] room: the devices used, and where the run of each ends */
    double slowest;       /* seconds per update of the busiest device, port or link */
};

/* The seconds of the busiest part of a given cut: what rt_cut_solve minimises. */
double rt_cut_slowest(const struct rt_cut_problem *problem, const struct rt_cut *cut);

/* The caller provides cut->device and cut->end. */
rt_status rt_cut_solve(const struct rt_cut_problem *problem, struct rt_cut *cut, struct rt_error *err);

#endif
