/* The learner that is a ring, or several side by side. */
#ifndef RT_RUN_RING_LEARNER_H
#define RT_RUN_RING_LEARNER_H

#include "run/hybrid/rings.h"

/* config: with the options of a ring (struct rt_ring_options). rings: what several of them
 * share; NULL: there is one. Taken over, also on failure. */
rt_status rt_ring_learner_open(const struct rt_training_config *config, struct rt_rings *rings,
                               struct rt_learner *learner, struct rt_error *err);

#endif
