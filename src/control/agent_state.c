/* The model's state on a node, as the master reads and writes it through the agent. */
#include "control/agent_inside.h"

#include <string.h>

static float *agent_state_tensor(const struct rt_agent *agent, size_t tensor) {
    const struct rt_agent_settings *settings = &agent->settings;
    return settings->state ? settings->state(settings->user, tensor) : NULL;
}

static size_t agent_state_floats(const void *self, size_t tensor, size_t *first) {
    const struct rt_agent *agent = self;
    *first = 0;
    return agent_state_tensor(agent, tensor) ? agent->settings.param_count : 0;
}

/* The master asks for the state as it is, and waits for that itself until all that it gave is learnt from. */
static enum rt_state_presence agent_state_has(const void *self, const struct rt_state_range *range) {
    const struct rt_agent *agent = self;
    if (range->version != RT_VERSION_NOW || range->first + range->count > agent->settings.param_count)
        return RT_STATE_GONE;
    return agent->at_rest ? RT_STATE_HERE : RT_STATE_NOT_YET;
}

static bool agent_state_can_write(const void *self, const struct rt_state_range *range) {
    const struct rt_agent *agent = self;
    (void)range;
    return agent->at_rest;
}

static void agent_state_read(const void *self, const struct rt_state_range *range, float *into) {
    memcpy(into, agent_state_tensor(self, range->tensor) + range->first, range->count * sizeof *into);
}

static void agent_state_write(void *self, const struct rt_state_range *range, const float *from) {
    memcpy(agent_state_tensor(self, range->tensor) + range->first, from, range->count * sizeof *from);
}

/* The owner is told by the thread that works, and the master has its answer then. */
static bool agent_state_loaded(void *self, uint64_t update) {
    struct rt_agent *agent = self;
    if (agent->load == RT_LOAD_NOTED) {
        agent->load = RT_NO_LOAD;
        return true;
    }
    agent->load = RT_LOAD_DUE;
    agent->loaded = update;
    return false;
}

rt_status rt_agent_hold_state(struct rt_agent *agent, struct rt_error *err) {
    const struct rt_agent_settings *settings = &agent->settings;
    const struct rt_state_store blocks = {.self = agent,
                                          .tensors = settings->state_tensors,
                                          .floats = agent_state_floats,
                                          .has = agent_state_has,
                                          .can_write = agent_state_can_write,
                                          .read = agent_state_read,
                                          .write = agent_state_write,
                                          .loaded = agent_state_loaded};
    const struct rt_state_holder_settings holder = {.store = settings->store ? *settings->store : blocks,
                                                    .in = agent->route.in->link,
                                                    .out = agent->route.out->link,
                                                    .run = settings->comm->run,
                                                    .rank = settings->comm->rank,
                                                    .finite = settings->finite,
                                                    .examples = settings->examples,
                                                    .user = settings->user};
    return rt_state_holder_init(&agent->holder, &holder, err);
}
