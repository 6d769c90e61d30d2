/*
 * How many of a batch's slices each worker of an exchange gets. An update lasts as long as the slowest worker
 * computes, so shares follow speed, as far as whole slices can. A run of slices that is no whole subtree has
 * several partial sums (base/slices.h), and each more costs time on the links: where runs that end at the
 * boundary of a larger subtree are hardly slower, they are chosen.
 */
#ifndef RT_PLAN_SHARES_H
#define RT_PLAN_SHARES_H

#include "base/slices.h"
#include "base/status.h"

struct rt_shares_question {
    uint32_t slices; /* at least one for each worker */
    size_t workers;
    const double *slice; /* [workers] seconds in which each computes a slice; above 0 */
    const double
        *fixed;   /* [workers] seconds that an update costs it besides, whatever its share; NULL: none */
    bool equal;   /* as many for all as can be, whatever their speed; slice is not used */
    double piece; /* seconds that a partial sum beyond its worker's first costs */
};

/* runs: [workers], one after another, together all slices. A worker that is too slow to help gets none,
 * unless they are equal. */
rt_status rt_shares_choose(const struct rt_shares_question *question, struct rt_slice_run *runs,
                           struct rt_error *err);
/* Seconds in which the workers compute their slices and exchange what is more than one sum each. */
double rt_shares_seconds(const struct rt_shares_question *question, const struct rt_slice_run *runs);

#endif
