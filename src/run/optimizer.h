/* The optimizer of a run, as its run file and its strategy say. */
#ifndef RT_RUN_OPTIMIZER_H
#define RT_RUN_OPTIMIZER_H

#include "formats/runfile.h"
#include "optim/optim.h"

struct rt_exchange_strategy;

/* exchange: the strategy, which may have an optimizer of its own where the run file names none; NULL: there
 * is no exchange. */
rt_status rt_train_optimizer(const struct rt_spec_train *train, const struct rt_exchange_strategy *exchange,
                             struct rt_optim **optim, struct rt_error *err);

#endif
