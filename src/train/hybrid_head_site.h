/* The head of a ring other than the first: what it has to run it. Its part of each batch comes from its own
 * copy of the data, which must be the master's. */
#ifndef RT_TRAIN_HYBRID_HEAD_SITE_H
#define RT_TRAIN_HYBRID_HEAD_SITE_H

#include "cluster/node.h"
#include "train/hybrid_job.h"
#include "train/roles.h"

struct rt_head_site;

/* Takes what the work needs but for the ring's own memory, which is checked. job is borrowed. */
rt_status rt_head_site_create(const struct rt_session *session, const struct rt_hybrid_job *job,
                              const struct rt_assigned_node *nodes, struct rt_head_site **site,
                              uint64_t *memory, struct rt_error *err);
void rt_head_site_destroy(struct rt_head_site *site); /* NULL is fine */

/* The run. links: [rings], with the heads of the other rings; that with the master is closed and set to NULL.
 * When the others are closed too, release lets go of what was on them. */
rt_status rt_head_site_run(struct rt_head_site *site, struct rt_session *session, struct rt_link **links,
                           struct rt_error *err);
void rt_head_site_release(struct rt_head_site *site);

#endif
