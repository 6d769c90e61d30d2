/*
 * The rules of the servers: what becomes of a gradient, and when a worker may read
 * (exchange/server/server.h). One file each; which one a strategy has is said in its file in
 * exchange/strategies/.
 */
#ifndef RT_EXCHANGE_SERVER_RULES_H
#define RT_EXCHANGE_SERVER_RULES_H

#include "exchange/server/server.h"

/* Every gradient is an update. */
extern const struct rt_rules rt_rules_async;
/* The same, and no worker may be more than `bound` gradients ahead of the slowest. */
extern const struct rt_rules rt_rules_ssp;
/* The same as the first, and no update may take the parameters too far from those that others compute with.
 */
extern const struct rt_rules rt_rules_vap;
/* Rounds in which all workers share a batch, complete without the slowest of them; with backups 0 and quorum
 * 1 plain synchronous rounds. */
extern const struct rt_rules rt_rules_backup;
/* Those of its base (RT_BASE_ASYNC, RT_BASE_SSP), and gradients of an epoch that has ended are dropped. */
extern const struct rt_rules rt_rules_cut;

/* Gradients that make a round complete. */
size_t rt_rules_quorum(const struct rt_exchange_options *options, size_t workers);
/* The number of batches after which an epoch ends: the batch scheduler then goes on to the next epoch. */
uint64_t rt_rules_cut_after(const struct rt_exchange_options *options, uint64_t per_epoch);

#endif
