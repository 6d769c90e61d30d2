#include "cluster/traffic.h"

/* Nothing at all is known of a link that has had no event yet. */
static uint64_t since(uint64_t now, uint64_t before) {
    return now > before ? now - before : 0;
}

void rt_traffic_add(const struct rt_link *link, const struct rt_link_counts *now, size_t at,
                    struct rt_metrics_row *row) {
    const struct rt_link_counts *formed = &link->formed;
    for (size_t k = 0; k < RT_METRIC_PROBE; k++) {
        row->sent[at][k] += since(now->bytes_sent[k], formed->bytes_sent[k]);
        row->received[at][k] += since(now->bytes_received[k], formed->bytes_received[k]);
        row->sent[at][RT_METRIC_PROBE] += formed->bytes_sent[k];
        row->received[at][RT_METRIC_PROBE] += formed->bytes_received[k];
    }
}

uint64_t rt_traffic_sum(const uint64_t counts[RT_METRIC_LINKS][RT_METRIC_KINDS]) {
    uint64_t sum = 0;
    for (size_t i = 0; i < RT_METRIC_LINKS; i++)
        for (size_t k = 0; k < RT_METRIC_PROBE; k++)
            sum += counts[i][k];
    return sum;
}
