/* What a device in an exchange did with its time and its links, and what its server counted. */
#include "train/exchange/exchanger.h"

#include "base/clock.h"
#include "base/memory.h"
#include "exchange/crew.h"
#include <string.h>

static double busy_seconds(const struct rt_exchanger *exchanger) {
    rt_engine_enter(exchanger->engine);
    const double seconds = exchanger->carried  ? rt_carried_busy(exchanger->carried)
                           : exchanger->server ? rt_server_counts(exchanger->server)->busy
                                               : 0;
    rt_engine_leave(exchanger->engine);
    return seconds;
}

/* Nothing at all is known of a link that has had no event yet. */
static uint64_t since(uint64_t now, uint64_t before) {
    return now > before ? now - before : 0;
}

static void add_links(const struct rt_exchanger *exchanger, struct rt_metrics_row *row) {
    const struct rt_party *party = &exchanger->settings.party;
    for (uint16_t rank = 0; rank < party->count; rank++) {
        struct rt_link_counts counts;
        if (!party->links[rank])
            continue;
        rt_engine_counts(exchanger->engine, rank, &counts);
        const struct rt_link_counts *before = &exchanger->before[rank];
        for (size_t k = 0; k < RT_METRIC_CHANNELS; k++) {
            row->sent[rank ? 1 : 0][k] += since(counts.bytes_sent[k], before->bytes_sent[k]);
            row->received[rank ? 1 : 0][k] += since(counts.bytes_received[k], before->bytes_received[k]);
        }
    }
}

void rt_exchanger_metrics(struct rt_exchanger *exchanger, struct rt_metrics_row *row) {
    struct rt_states *states = rt_net_replica_states(exchanger->net);
    *row = (struct rt_metrics_row){.node = exchanger->settings.party.rank,
                                   .cpu_seconds = rt_clock_process() - exchanger->cpu_start,
                                   .peak_memory = rt_memory_peak(),
                                   .samples = rt_net_replica_samples(exchanger->net)};
    if (exchanger->works) {
        rt_net_replica_enter(exchanger->net, states->now);
        memcpy(row->state, states->seconds, sizeof row->state);
        row->seconds = rt_states_elapsed(states);
    } else { /* the thread that takes the events is the one that works */
        row->seconds = rt_clock_wall() - exchanger->start;
        row->state[RT_STATE_REDUCE] = busy_seconds(exchanger);
        row->state[RT_STATE_WAIT_GRADIENT] = row->seconds - row->state[RT_STATE_REDUCE];
    }
    row->updates = exchanger->carried ? rt_carried_update(exchanger->carried) : 0;
    if (exchanger->server) {
        rt_engine_enter(exchanger->engine);
        const struct rt_server_counts *counts = rt_server_counts(exchanger->server);
        row->updates = rt_server_version(exchanger->server);
        row->staleness_sum = counts->staleness_sum;
        row->staleness_max = counts->staleness_max;
        rt_engine_leave(exchanger->engine);
    }
    add_links(exchanger, row);
}

void rt_exchanger_tally(struct rt_exchanger *exchanger, uint64_t *tally) {
    memset(tally, 0, RT_TALLIES * sizeof *tally);
    rt_engine_enter(exchanger->engine);
    if (exchanger->served)
        tally[RT_TALLY_SPREAD] = rt_served_spread(exchanger->served);
    if (!exchanger->server) {
        rt_engine_leave(exchanger->engine);
        return;
    }
    const struct rt_server_counts *counts = rt_server_counts(exchanger->server);
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
