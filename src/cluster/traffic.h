/* What links carried, as a row of metrics counts it: by channel, and apart from that what forming them took.
 */
#ifndef RT_CLUSTER_TRAFFIC_H
#define RT_CLUSTER_TRAFFIC_H

#include "net/transport.h"
#include "wire/message.h"

/* Adds a link to place `at` of a row. now: its counts, as its owner knows them. */
void rt_traffic_add(const struct rt_link *link, const struct rt_link_counts *now, size_t at,
                    struct rt_metrics_row *row);

/* The bytes of a row without those that measured the links. */
uint64_t rt_traffic_sum(const uint64_t counts[RT_METRIC_LINKS][RT_METRIC_KINDS]);

#endif
