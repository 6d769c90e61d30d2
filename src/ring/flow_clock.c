/* The engine's time: its clock, its state clocks, and an emulated device that sleeps; see flow.h. */
#include "ring/flow.h"

#include "base/clock.h"
#include <math.h>
#include <time.h>

double rt_flow_now(const struct rt_flow *flow) {
    return flow->settings.endpoint ? rt_endpoint_now(flow->settings.endpoint) : rt_clock_wall();
}

void rt_flow_sleep_until(const struct rt_flow *flow, double until) {
    if (flow->settings.endpoint) {
        rt_endpoint_sleep(flow->settings.endpoint, until);
        return;
    }
    const double left = until - rt_clock_wall();
    if (left > 0)
        nanosleep(&(struct timespec){(time_t)left, (long)((left - (double)(time_t)left) * 1e9)}, NULL);
}

static double flow_emulated_now(void *self) {
    return rt_flow_now(self);
}

/* For the heartbeats: this thread is alive. */
void rt_flow_step(const struct rt_flow *flow) {
    if (flow->settings.endpoint)
        rt_endpoint_step(flow->settings.endpoint, flow->note);
}

/* An emulated device that is to stop does not finish its operation. */
static void flow_emulated_sleep(void *self, double until) {
    const struct rt_flow *flow = self;
    double now;
    while ((now = rt_flow_now(flow)) < until && !(flow->settings.stop && atomic_load(flow->settings.stop))) {
        rt_flow_step(flow); /* also where one operation takes longer than a peer's timeout */
        rt_flow_sleep_until(flow, fmin(until, now + RT_FLOW_MOST_SLEEP));
    }
}

/* On the thread that runs the engine. */
void rt_flow_start_clock(struct rt_flow *flow) {
    flow->clocked = true;
    rt_states_start(&flow->states, RT_STATE_ENCODE);
    rt_states_emulate(&flow->states, &(struct rt_emulation){.pace = flow->settings.pace,
                                                            .self = flow,
                                                            .now = flow_emulated_now,
                                                            .sleep = flow_emulated_sleep});
    rt_states_set_apart(&flow->states, true, false);
}

void rt_flow_enter(struct rt_flow *flow, enum rt_state state) {
    if (flow->note != 0) { /* no longer true, however long the operation takes */
        flow->note = 0;
        rt_flow_step(flow);
    }
    rt_states_enter(&flow->states, state);
}

void rt_flow_leave(struct rt_flow *flow) {
    rt_states_enter(&flow->states, RT_STATE_ENCODE);
}

struct rt_states *rt_flow_emulated_clock(struct rt_flow *flow) {
    return rt_pace_is_emulated(flow->settings.pace) ? &flow->states : NULL;
}

void rt_flow_train(struct rt_flow *flow, uint64_t update) {
    rt_states_at_update(&flow->states, update);
    if (flow->timed)
        return;
    flow->timed = true;
    flow->cpu_start = rt_clock_process();
    rt_states_set_apart(&flow->states, false, true);
    flow->apart_before = flow->states.apart;
}
