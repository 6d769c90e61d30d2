/* The model's state on a node, as the master reads and writes it through the agent. */
#include "control/agent_inside.h"

#include <string.h>

static float *agent_state_tensor(const struct rt_agent *agent, size_t tensor) {
    const struct rt_agent_settings *settings = &agent->settings;
    return settings->state ? settings->state(settings->user, tensor) : NULL;
}

static size_t agent_state_floats(const void *self, size_t tensor) {
    const struct rt_agent *agent = self;
    return agent_state_tensor(agent, tensor) ? agent->settings.param_count : 0;
}

static bool agent_state_is_at_rest(const void *self) {
    const struct rt_agent *agent = self;
    return agent->at_rest;
}

static void agent_state_read(const void *self, size_t tensor, size_t first, size_t count, float *into) {
    memcpy(into, agent_state_tensor(self, tensor) + first, count * sizeof *into);
}

static void agent_state_write(void *self, size_t tensor, size_t first, size_t count, const float *from) {
    memcpy(agent_state_tensor(self, tensor) + first, from, count * sizeof *from);
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
                                          .can_read = agent_state_is_at_rest,
                                          .can_write = agent_state_is_at_rest,
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
