/* The parameter server with a bound on delay (stale synchronous parallel): as ps-async, but a worker that is
 * more than s gradients ahead of the slowest waits. */
#include "exchange/rules.h"
#include "exchange/ways/ways.h"

static const struct rt_option options[] = {RT_WAY_BOUND, RT_WAY_STEP, RT_WAY_SERVED};

static const struct rt_rules *rules_of(const struct rt_way_options *given) {
    (void)given;
    return &rt_rules_ssp;
}

const struct rt_way rt_way_ps_ssp = {
    .name = "ps-ssp",
    .help = "ps-async in which nobody may be more than s gradients ahead of the slowest worker",
    .place = {"data", "central", "bounded by delay", "each with the server", "one server"},
    RT_WAY_OPTIONS(options),
    .servers = RT_SERVERS_ONE,
    .can_clip = true,
    .rules = rules_of,
};
