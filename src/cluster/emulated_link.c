#include "cluster/emulated_link.h"

#include "base/option.h"

bool rt_bandwidth_parse(const char *text, double *bytes_per_second) {
    double rate;
    if (!rt_parse_rate(text, &rate) || (rate != 0 && (rate < 1e4 / 8 || rate > 1e12 / 8)))
        return false;
    *bytes_per_second = rate;
    return true;
}

bool rt_latency_parse(const char *text, double *seconds) {
    double time;
    if (!rt_parse_duration(text, &time) || time > 0.25)
        return false;
    *seconds = time;
    return true;
}
