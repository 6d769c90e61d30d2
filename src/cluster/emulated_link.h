/* A slower network than there is, for one local process: as users write it, and within which limits. */
#ifndef RT_CLUSTER_EMULATED_LINK_H
#define RT_CLUSTER_EMULATED_LINK_H

#include <stdbool.h>

/* As on the command line. NULL: that of the machine. */
struct rt_emulated_link {
    const char *bandwidth, *latency;
};

/* What there can be, for sentences. Over a slower link nodes would be taken for lost while it is made. */
#define RT_BANDWIDTH_FORM "bits per second, from 10K to 1T, as 100M; or 0, which is no limit"
#define RT_LATENCY_FORM   "a time of at most 250ms, as 1ms or 200us"

bool rt_bandwidth_parse(const char *text, double *bytes_per_second);
bool rt_latency_parse(const char *text, double *seconds);

#endif
