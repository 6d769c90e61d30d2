/* The learner of several rings: the learner of ring 0 with the state of the other rings. */
#include "run/ring/learner.h"
#include "run/strategy.h"

rt_status rt_learner_hybrid(const struct rt_training_config *config, struct rt_learner *learner,
                            struct rt_error *err) {
    static const struct rt_ring_options options = {.slots = -1};
    struct rt_rings *rings = NULL;
    rt_status status = RT_OK;
    if (rt_exchange_rings(config->options, rt_spec_devices(config->spec)) > 1)
        status = rt_rings_create(config, &rings, err);
    if (status != RT_OK)
        return status;
    struct rt_training_config ring = *config;
    ring.options = &options;
    return rt_ring_learner_open(&ring, rings, learner, err);
}
