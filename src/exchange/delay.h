/*
 * How long an exchange of the whole model takes at least: the bounds of the literature, one for each way to
 * exchange, for equal workers on equal links that all begin at the same moment. A strategy names its own
 * (struct rt_exchange_strategy). docs/collectives.md has the formulas and a plot of them.
 *
 * n workers and k servers, which have no worker beside them; T: the model passes a link; R: two models are
 * added; U: the optimizer steps; L: a message beyond its bytes.
 */
#ifndef RT_EXCHANGE_DELAY_H
#define RT_EXCHANGE_DELAY_H

#include <stddef.h>

struct rt_delay_terms {
    size_t workers, servers;                /* n, k; k is at least 1 where there are any */
    double transfer, adding, step, latency; /* T, R, U, L: seconds */
};

/* ---- all-reduce: every worker has the optimizer ---- */
double rt_delay_ring(const struct rt_delay_terms *terms);     /* 2(n-1)/n T + (n-1)/n R + U + 2(n-1) L */
double rt_delay_doubling(const struct rt_delay_terms *terms); /* log n (T + R) + U + log n L */
double rt_delay_halving(const struct rt_delay_terms *terms);  /* as the ring, with 2 log n L */
double rt_delay_tree(const struct rt_delay_terms *terms, size_t degree); /* a level at a time, up and down */

/* ---- servers, in rounds ---- */
double rt_delay_star(const struct rt_delay_terms *terms);     /* 2 max(n/k, 1) T + (n-1)/k R + U/k + 2n L */
double rt_delay_binomial(const struct rt_delay_terms *terms); /* 2 log(n+1) T + log n R + U + 2 log(n+1) L */
/* (2 + 2(n-1)/n) T + (n-1)/n R + U + 2(log n + n-1) L */
double rt_delay_scatter(const struct rt_delay_terms *terms);
/* A server on every worker: 2(n-1)/n T + (n-1)/n R + U/n + 2(n-1) L */
double rt_delay_peers(const struct rt_delay_terms *terms);
/* Groups of so many workers; depth: levels of groups and the server. A star at each level. */
double rt_delay_groups(const struct rt_delay_terms *terms, size_t group, size_t depth);

/* ---- servers, each worker at its own pace ---- */
/* All workers exchange once, their requests overlap: max(n/k, 2) T + U/k + 2 L */
double rt_delay_requests(const struct rt_delay_terms *terms);

#endif
