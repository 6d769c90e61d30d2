/* The bounds; see delay.h. */
#include "exchange/delay.h"

#include <math.h>

/* ceil(log2 n) */
static double delay_log(size_t n) {
    size_t log = 0;
    while (((size_t)1 << log) < n)
        log++;
    return (double)log;
}

/* (n-1)/n: of what each of n has, the part that the others get. */
static double delay_others(const struct rt_delay_terms *terms) {
    return (double)(terms->workers - 1) / (double)terms->workers;
}

double rt_delay_ring(const struct rt_delay_terms *terms) {
    return delay_others(terms) * (2 * terms->transfer + terms->adding) + terms->step +
           2 * (double)(terms->workers - 1) * terms->latency;
}

double rt_delay_doubling(const struct rt_delay_terms *terms) {
    return delay_log(terms->workers) * (terms->transfer + terms->adding + terms->latency) + terms->step;
}

double rt_delay_halving(const struct rt_delay_terms *terms) {
    return delay_others(terms) * (2 * terms->transfer + terms->adding) + terms->step +
           2 * delay_log(terms->workers) * terms->latency;
}

/* Every level has one that hears all its children, one after another. */
double rt_delay_tree(const struct rt_delay_terms *terms, size_t degree) {
    double depth = 0;
    for (size_t last = terms->workers - 1; last > 0; last = (last - 1) / degree)
        depth++;
    const size_t most = terms->workers - 1 < degree ? terms->workers - 1 : degree;
    return depth * ((double)most * (2 * terms->transfer + terms->adding) + 2 * terms->latency) + terms->step;
}

double rt_delay_star(const struct rt_delay_terms *terms) {
    const double workers = (double)terms->workers, servers = (double)terms->servers;
    return 2 * fmax(workers / servers, 1) * terms->transfer + (workers - 1) / servers * terms->adding +
           terms->step / servers + 2 * workers * terms->latency;
}

double rt_delay_binomial(const struct rt_delay_terms *terms) {
    return 2 * delay_log(terms->workers + 1) * (terms->transfer + terms->latency) +
           delay_log(terms->workers) * terms->adding + terms->step;
}

double rt_delay_scatter(const struct rt_delay_terms *terms) {
    return 2 * terms->transfer + delay_others(terms) * (2 * terms->transfer + terms->adding) + terms->step +
           2 * (delay_log(terms->workers) + (double)(terms->workers - 1)) * terms->latency;
}

double rt_delay_peers(const struct rt_delay_terms *terms) {
    return delay_others(terms) * (2 * terms->transfer + terms->adding) +
           terms->step / (double)terms->workers + 2 * (double)(terms->workers - 1) * terms->latency;
}

double rt_delay_groups(const struct rt_delay_terms *terms, size_t group, size_t depth) {
    struct rt_delay_terms level = *terms;
    double seconds = terms->step;
    level.step = 0;
    level.servers = 1;
    for (size_t left = terms->workers; depth > 0; depth--) {
        level.workers = depth == 1 || left < group ? left : group;
        seconds += rt_delay_star(&level);
        left = (left + group - 1) / group;
    }
    return seconds;
}

double rt_delay_requests(const struct rt_delay_terms *terms) {
    const double servers = (double)terms->servers;
    return fmax((double)terms->workers / servers, 2) * terms->transfer + terms->step / servers +
           2 * terms->latency;
}
