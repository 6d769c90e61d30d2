/*
 * A ring's node and the control plane. The messages that go round beside the tensors are those of every run:
 * a worker has an agent and the master a coordinator (control/), as in an exchange, and the route is the
 * ring. This file adds what they need from the engine: this node's row of metrics, and which node caused a
 * failure.
 */
#include "ring/flow.h"

#include "base/clock.h"
#include "base/memory.h"
#include "cluster/traffic.h"

struct rt_route rt_flow_route(struct rt_flow *flow) {
    return (struct rt_route){.in = &flow->previous.talk,
                             .out = &flow->next.talk,
                             .from = flow->previous.number,
                             .to = flow->next.number};
}

static rt_status flow_take_message(void *user, const struct rt_message *message, struct rt_error *err) {
    if (message->type == RT_MESSAGE_NORM)
        return rt_flow_take_norm(user, message, err);
    return rt_fail(err, RT_BAD_INPUT, "unexpected %s message", rt_message_name(message->type));
}

rt_status rt_flow_open_agent(struct rt_flow *flow, struct rt_error *err) {
    const struct rt_flow_settings *settings = &flow->settings;
    flow->comm = (struct rt_communicator){.endpoint = settings->endpoint,
                                          .run = settings->run,
                                          .rank = settings->index,
                                          .count = settings->nodes,
                                          .first = settings->inter_ring.first,
                                          .stride = 1,
                                          .names = settings->names};
    const struct rt_state_store store = rt_flow_store(flow);
    const struct rt_agent_settings agent = {.comm = &flow->comm,
                                            .route = rt_flow_route(flow),
                                            .store = &store,
                                            .finite = true,
                                            .message = flow_take_message,
                                            .user = flow};
    RT_TRY(rt_agent_create(&agent, &flow->agent, err));
    flow->control = rt_agent_part(flow->agent);
    return RT_OK;
}

/* ---- metrics ------------------------------------------------------------------------------------------- */

void rt_flow_row(struct rt_flow *flow, struct rt_metrics_row *row) {
    const struct rt_segment *first = &flow->segments[0];
    *row = (struct rt_metrics_row){.node = flow->settings.index, .samples = flow->samples};
    if (flow->timed) {
        rt_states_read(&flow->states, row->state);
        row->seconds = rt_states_elapsed(&flow->states);
        row->cpu_seconds = rt_clock_process() - flow->cpu_start;
        row->validation = flow->states.apart - flow->apart_before;
    }
    row->updates = flow->job->ring.with_servers ? flow->given : first->stage->update;
    row->queue = (uint32_t)(first->arrived - first->forward + first->gradient - first->back);
    row->staleness_sum = (double)first->stage->staleness_sum;
    row->staleness_max = first->stage->staleness_max;
    row->peak_memory = rt_memory_peak();
    const struct rt_neighbour *const neighbours[] = {&flow->next, &flow->previous};
    for (size_t i = 0; i < 2; i++)
        if (neighbours[i]->talk.link)
            rt_traffic_add(neighbours[i]->talk.link, &neighbours[i]->talk.link->counts, i, row);
    if (flow->settings.inter_ring.self)
        flow->settings.inter_ring.tell(flow->settings.inter_ring.self, row);
}

static void flow_answer_metrics(struct rt_flow *flow) {
    struct rt_metrics_row row;
    rt_flow_row(flow, &row);
    rt_agent_answer(flow->agent, &row, NULL);
}

/* ---- the cause of a failure --------------------------------------------------------------------------- */

rt_status rt_flow_lose(struct rt_flow *flow, const struct rt_neighbour *who, struct rt_error *err) {
    flow->lost = who->number;
    return err->status = RT_FAILED;
}

void rt_flow_tell(struct rt_flow *flow) {
    const struct rt_node_names *names = &flow->settings.names;
    const uint16_t self = (uint16_t)(flow->settings.inter_ring.first + flow->settings.index);
    const struct rt_engine_part *control = &flow->control;
    struct rt_error why = flow->error, ignored;
    struct rt_error_message report;
    why.status = flow->status;
    if (flow->lost == RT_NODE_NONE && flow->status == RT_DIVERGED) /* no node is lost */
        rt_node_names_blame(names, self, &why);
    if (flow->lost == 0) { /* the master cannot be reported as lost, so this node is */
        rt_node_names_blame(names, 0, &why);
        why.status = RT_LOST;
    }
    rt_node_names_report(names, self, flow->lost == 0 ? RT_NODE_NONE : flow->lost, &why, &report);
    if (!flow->agent) { /* it was not made */
        const struct rt_route route = rt_flow_route(flow);
        rt_route_refuse(&route, (rt_status)report.status, report.node, report.text);
        return;
    }
    rt_agent_fail(flow->agent, (rt_status)report.status, report.node, report.text);
    (void)control->turn(control->self, &ignored);
}

static rt_status flow_control_failed(struct rt_flow *flow, rt_status status) {
    const uint16_t lost = flow->control.lost(flow->control.self);
    if (status != RT_OK)
        flow->lost = lost;
    return status;
}

/* ---- as a part of the engine --------------------------------------------------------------------------- */

/* Activations and gradients are not control messages. */
static bool flow_is_control(const struct rt_event *event) {
    const unsigned channel = event->kind == RT_EVENT_RECEIVED ? event->receive->channel
                             : event->kind == RT_EVENT_SENT   ? event->send->channel
                                                              : RT_CHANNEL_CONTROL;
    return channel == RT_CHANNEL_CONTROL || channel == RT_CHANNEL_BULK;
}

bool rt_flow_control_event(struct rt_flow *flow, const struct rt_event *event, rt_status *status,
                           struct rt_error *err) {
    const struct rt_engine_part *control = &flow->control;
    if (!control->self || !flow_is_control(event) || !control->event(control->self, event, status, err))
        return false;
    *status = flow_control_failed(flow, *status);
    if (event->kind != RT_EVENT_RECEIVED || event->receive->channel != RT_CHANNEL_CONTROL)
        flow->progress = rt_flow_now(flow);
    if (*status == RT_OK && flow->settings.ends.heard)
        flow->settings.ends.heard(flow->settings.ends.self);
    return true;
}

rt_status rt_flow_control(struct rt_flow *flow, struct rt_error *err) {
    const struct rt_engine_part *control = &flow->control;
    if (!control->self)
        return RT_OK;
    if (flow->agent && rt_agent_is_asked(flow->agent))
        flow_answer_metrics(flow);
    return flow_control_failed(flow, control->turn(control->self, err));
}
