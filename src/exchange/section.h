/* The exchange's section of a job (job/job.h): the strategy, its options, and what a link costs. */
#ifndef RT_EXCHANGE_SECTION_H
#define RT_EXCHANGE_SECTION_H

#include "exchange/strategy.h"
#include "job/job.h"

struct rt_exchange_section {
    const struct rt_exchange_strategy *strategy;
    struct rt_exchange_options options;
    struct rt_link_cost cost;
};

/* Of a job for an exchange or for a hybrid. Refuses a strategy that is not known and options that it does not
 * have. */
rt_status rt_exchange_section_read(const struct rt_job *job, struct rt_exchange_section *section,
                                   struct rt_error *err);

#endif
