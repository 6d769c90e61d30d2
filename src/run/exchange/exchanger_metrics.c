/* What a device in an exchange did with its time and its links, and what its server counted. */
#include "run/exchange/exchanger.h"

#include "base/clock.h"
#include "base/memory.h"
#include "cluster/traffic.h"
#include "control/coordinator.h"
#include <string.h>

static void exchanger_add_links(const struct rt_exchanger *exchanger, struct rt_metrics_row *row) {
    const struct rt_communicator *comm = &exchanger->settings.comm;
    for (uint16_t rank = 0; rank < comm->count; rank++) {
        struct rt_link_counts counts;
        if (!comm->links[rank])
            continue;
        rt_engine_counts(exchanger->engine, rank, &counts);
        rt_traffic_add(comm->links[rank], &counts, rank ? 1 : 0, row);
    }
}

void rt_exchanger_metrics(struct rt_exchanger *exchanger, struct rt_metrics_row *row) {
    *row = (struct rt_metrics_row){.node = exchanger->settings.comm.rank,
                                   .cpu_seconds = rt_clock_process() - exchanger->cpu_start,
                                   .peak_memory = rt_memory_peak(),
                                   .samples = rt_net_replica_samples(exchanger->net)};
    if (exchanger->works) {
        struct rt_states *states = rt_net_replica_states(exchanger->net);
        rt_states_read(states, row->state);
        row->seconds = rt_states_elapsed(states);
        row->validation = rt_net_replica_apart(exchanger->net);
    } else { /* the thread that takes the events is the one that works */
        rt_engine_enter(exchanger->engine);
        row->seconds = rt_states_look(&exchanger->events, row->state);
        rt_engine_leave(exchanger->engine);
    }
    row->updates =
        exchanger->member.collective ? rt_collective_exchange_update(exchanger->member.collective) : 0;
    if (exchanger->member.server) {
        rt_engine_enter(exchanger->engine);
        const struct rt_server_counts *counts = rt_server_counts(exchanger->member.server);
        row->updates = rt_server_version(exchanger->member.server);
        row->staleness_sum = counts->staleness_sum;
        row->staleness_max = counts->staleness_max;
        rt_engine_leave(exchanger->engine);
    }
    exchanger_add_links(exchanger, row);
}

void rt_exchanger_tally(struct rt_exchanger *exchanger, uint64_t *tally) {
    memset(tally, 0, RT_TALLIES * sizeof *tally);
    rt_engine_enter(exchanger->engine);
    if (exchanger->member.client)
        tally[RT_TALLY_SPREAD] = rt_ps_client_spread(exchanger->member.client);
    if (!exchanger->member.server) {
        rt_engine_leave(exchanger->engine);
        return;
    }
    const struct rt_server_counts *counts = rt_server_counts(exchanger->member.server);
    memcpy(tally, counts->staleness, sizeof counts->staleness);
    tally[RT_TALLY_APPLIED] = counts->applied;
    tally[RT_TALLY_DROPPED] = counts->dropped;
    tally[RT_TALLY_FORCED] = counts->forced;
    tally[RT_TALLY_HELD] = counts->held;
    rt_engine_leave(exchanger->engine);
}

const char *rt_exchanger_role(const struct rt_roles *roles, uint16_t rank) {
    const bool works = rt_roles_place(roles, rank) < roles->workers, serves = rank < roles->servers;
    return serves && works ? "server+worker" : serves ? "server" : "worker";
}
