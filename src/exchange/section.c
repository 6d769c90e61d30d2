/* Reading the exchange's section of a job. */
#include "exchange/section.h"

rt_status rt_exchange_section_read(const struct rt_job *job, struct rt_exchange_section *section,
                                   struct rt_error *err) {
    const struct rt_job_exchange *given = &job->exchange;
    section->strategy = rt_exchange_strategy_find(given->strategy);
    if (!section->strategy)
        return rt_fail(err, RT_BAD_INPUT, "this node knows no strategy '%.60s'", given->strategy);
    section->cost = (struct rt_link_cost){given->latency, given->bandwidth, given->adding};
    return rt_exchange_options_read(section->strategy, given->options, &section->options, err);
}
