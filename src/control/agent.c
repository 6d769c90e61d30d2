/* A node's conversation with the master of the run; see agent.h. */
#include "control/agent_inside.h"

#include "base/memory.h"
#include "base/sentence.h"
#include <stdlib.h>
#include <string.h>

static rt_status agent_init(struct rt_agent *agent, const struct rt_agent_settings *settings,
                            struct rt_error *err) {
    agent->settings = *settings;
    agent->settings.ahead = settings->ahead ? settings->ahead : RT_TICKETS_AHEAD;
    agent->settings.rows = settings->rows ? settings->rows : 1;
    agent->route = settings->route;
    agent->lost = UINT16_MAX;
    if (!agent->route.in) {
        struct rt_link *link = settings->comm->links[0];
        if (!link || !link->user)
            return rt_fail(err, RT_FAILED, "there is no conversation with the master");
        agent->route.in = agent->route.out = link->user;
    }
    if (rt_route_is_ring(&agent->route))
        agent->before = (size_t)settings->comm->rank - 1;
    RT_TRY(rt_alloc(agent->before + agent->settings.rows, sizeof *agent->rows, "the metrics", &agent->rows,
                    err));
    return settings->state || settings->store || settings->examples ? rt_agent_hold_state(agent, err) : RT_OK;
}

rt_status rt_agent_create(const struct rt_agent_settings *settings, struct rt_agent **agent,
                          struct rt_error *err) {
    struct rt_agent *made;
    RT_TRY(rt_alloc(1, sizeof *made, "the agent", &made, err));
    RT_FINISH_CREATE(agent_init(made, settings, err), made, rt_agent_destroy, agent);
}

void rt_agent_destroy(struct rt_agent *agent) {
    if (!agent)
        return;
    rt_state_holder_deinit(&agent->holder);
    free(agent->rows);
    free(agent);
}

/* ---- what comes in ------------------------------------------------------------------------------------- */

static rt_status agent_take_ticket(struct rt_agent *agent, const struct rt_message *message,
                                   struct rt_error *err) {
    if (!agent->settings.learns)
        return rt_fail(err, RT_BAD_INPUT, "a ticket came to a server that has no worker");
    if (agent->arrived - agent->told >= agent->settings.ahead || agent->stopped)
        return rt_fail(err, RT_BAD_INPUT, "a ticket for batch %llu came when none could be held",
                       (unsigned long long)message->batch);
    /* The same one again: its gradient came too late, and is still wanted. */
    if (message->batch == 0 || message->batch < agent->last)
        return rt_fail(err, RT_BAD_INPUT, "a ticket for batch %llu came behind one for batch %llu",
                       (unsigned long long)message->batch, (unsigned long long)agent->last);
    agent->batch[agent->arrived++ % RT_TICKETS_AHEAD] = agent->last = message->batch;
    return RT_OK;
}

/* A question for metrics, with the rows of the nodes that it has passed. */
static rt_status agent_take_metrics(struct rt_agent *agent, struct rt_error *err) {
    const struct rt_talk *in = agent->route.in;
    struct rt_metrics metrics = {.room = agent->before, .rows = agent->rows};
    if (agent->asked || agent->answer)
        return rt_fail(err, RT_BAD_INPUT, "a metrics message came before the last one was answered");
    RT_TRY(rt_metrics_decode(in->body, in->body_bytes, &metrics, err));
    if (metrics.count != agent->before)
        return rt_fail(err, RT_BAD_INPUT, "a metrics message has %zu rows instead of %zu", metrics.count,
                       agent->before);
    for (size_t i = 0; i < metrics.count; i++)
        if (metrics.rows[i].node != i + 1)
            return rt_fail(err, RT_BAD_INPUT, "a metrics message has its rows in the wrong order");
    agent->asked = true;
    return RT_OK;
}

/* The end of the run. In a ring it is passed on as it is, the way it went. */
static rt_status agent_take_error(struct rt_agent *agent, struct rt_talk *talk, struct rt_error *err) {
    const struct rt_route *route = &agent->route;
    const uint16_t from = talk == route->in ? route->from : route->to;
    struct rt_error_message error;
    RT_TRY(rt_error_decode(talk->body, talk->body_bytes, &error, err));
    struct rt_talk *onward = talk == route->in ? route->out : route->in;
    agent->ended = true;
    agent->view_over = talk->message.flags & RT_FLAG_AGAIN;
    if (rt_route_is_ring(route) && agent->view_over)
        rt_talk_put_off(onward, error.node, error.text);
    else if (rt_route_is_ring(route))
        rt_talk_refuse(onward, (rt_status)error.status, error.node, error.text);
    /* A node that ends is lost to the others as well, unless it says that the training has diverged. What the
     * master says of the end is a whole sentence. */
    agent->orphaned = rt_route_is_ring(route) && error.status == RT_LOST && error.node > 0;
    const uint16_t about = error.node || rt_route_is_ring(route) ? error.node : from;
    if (error.status != RT_DIVERGED && !agent->view_over && about)
        agent->lost = about;
    return rt_fail(err, error.status == RT_DIVERGED ? RT_DIVERGED : RT_FAILED, "%s", error.text);
}

static rt_status agent_take_message(struct rt_agent *agent, struct rt_error *err) {
    const struct rt_message *message = &agent->route.in->message;
    switch (message->type) {
    case RT_MESSAGE_TICKET:
        return agent_take_ticket(agent, message, err);
    case RT_MESSAGE_PULL:
        if (!(message->flags & RT_FLAG_REST))
            break;
        agent->begun = true;
        return RT_OK;
    case RT_MESSAGE_METRICS:
        return agent_take_metrics(agent, err);
    case RT_MESSAGE_STOP:
        agent->stopped = true;
        return RT_OK;
    default:
        if (agent->settings.message)
            return agent->settings.message(agent->settings.user, message, err);
        break;
    }
    return rt_fail(err, RT_BAD_INPUT, "unexpected %s message", rt_message_name(message->type));
}

static rt_status agent_take_from(struct rt_agent *agent, struct rt_talk *talk, struct rt_error *err) {
    rt_status status;
    if (talk->message.type == RT_MESSAGE_ERROR)
        status = agent_take_error(agent, talk, err);
    else if (talk == agent->route.in)
        status = agent_take_message(agent, err);
    else
        status = rt_fail(err, RT_BAD_INPUT, "a %s message came from the wrong side",
                         rt_message_name(talk->message.type));
    if (status != RT_OK && !agent->ended)
        return rt_route_blame(&agent->route, talk, &agent->lost, err);
    if (!agent->ended || !rt_route_is_ring(&agent->route))
        rt_talk_next(talk);
    return status;
}

/* In a ring what comes may have to be passed on, so it waits until that can be done. */
static bool agent_can_take(const struct rt_agent *agent, const struct rt_talk *talk) {
    return talk->ready && !agent->ended &&
           (!rt_route_is_ring(&agent->route) || talk->message.type == RT_MESSAGE_ERROR ||
            (rt_talk_body(agent->route.out) && !agent->asked && !agent->answer));
}

static rt_status agent_receive(struct rt_agent *agent, struct rt_error *err) {
    struct rt_talk *in = agent->route.in, *out = agent->route.out;
    while (agent_can_take(agent, in))
        RT_TRY(agent_take_from(agent, in, err));
    while (rt_route_is_ring(&agent->route) && agent_can_take(agent, out))
        RT_TRY(agent_take_from(agent, out, err));
    /* In a ring the owner, which knows whether the run is at its end, looks after its links. */
    if (rt_route_is_ring(&agent->route) || !in->dead || in->closed)
        return RT_OK;
    *err = in->error;
    return rt_route_blame(&agent->route, in, &agent->lost, err);
}

/* ---- what goes out ------------------------------------------------------------------------------------- */

static struct rt_message agent_done_message(struct rt_agent *agent) {
    const struct rt_done *done = &agent->done[agent->told++ % RT_TICKETS_AHEAD];
    return (struct rt_message){.type = RT_MESSAGE_DONE,
                               .batch = done->batch,
                               .correct = done->correct,
                               .rows = (uint32_t)done->rows,
                               .loss = done->loss};
}

/* The next count that is not zero; false: no more. */
static bool agent_tally_message(struct rt_agent *agent, struct rt_message *message) {
    size_t i = 0;
    while (i < RT_TALLIES && agent->tally[i] == 0)
        i++;
    if (i == RT_TALLIES)
        return false;
    *message = (struct rt_message){.type = RT_MESSAGE_TALLY, .counter = i, .count = agent->tally[i]};
    agent->tally[i] = 0;
    return true;
}

static bool agent_has_to_say(const struct rt_agent *agent) {
    return agent->tell || agent->told < agent->finished || agent->rests || agent->answer || agent->goodbye;
}

static void agent_say(struct rt_agent *agent, uint8_t *body) {
    struct rt_message message = {0};
    size_t bytes = 0;
    if (agent->tell) {
        agent->tell = false;
        rt_route_refuse(&agent->route, agent->status, agent->about, agent->sentence);
        return;
    }
    if (agent->told < agent->finished) {
        message = agent_done_message(agent);
    } else if (agent->rests) {
        agent->rests = false;
        message =
            (struct rt_message){.type = RT_MESSAGE_PULL, .flags = RT_FLAG_REST, .batch = agent->last_done};
    } else if (agent->answer && agent_tally_message(agent, &message)) {
        ;
    } else if (agent->answer) {
        agent->answer = false;
        message.type = RT_MESSAGE_METRICS;
        for (size_t i = 0; i < agent->before + agent->settings.rows; i++)
            bytes = rt_metrics_append(&agent->rows[i], body, bytes, RT_MAX_CONTROL);
    } else {
        agent->goodbye = false;
        message.type = RT_MESSAGE_STOP;
    }
    message.source = rt_communicator_node(agent->settings.comm, agent->settings.comm->rank);
    rt_talk_send(agent->route.out, &message, bytes);
}

static void agent_send(struct rt_agent *agent) {
    struct rt_talk *out = agent->route.out;
    uint8_t *body;
    while (!out->closed && agent_has_to_say(agent) && (body = rt_talk_body(out)))
        agent_say(agent, body);
}

/* ---- as a part of an engine ---------------------------------------------------------------------------- */

static rt_status agent_transfer(struct rt_agent *agent, struct rt_error *err) {
    bool worked = false;
    if (rt_route_is_closed(&agent->route) || !agent->holder.memory ||
        rt_state_holder_go_on(&agent->holder, &worked, err) == RT_OK)
        return RT_OK;
    return rt_route_blame(&agent->route, agent->route.in, &agent->lost, err);
}

static bool agent_take_event(void *self, const struct rt_event *event, rt_status *status,
                             struct rt_error *err) {
    struct rt_agent *agent = self;
    if (!rt_route_has(&agent->route, event))
        return false;
    if (rt_state_holder_event(&agent->holder, event, status, err)) {
        *status = *status == RT_OK ? agent_transfer(agent, err)
                                   : rt_route_blame(&agent->route, agent->route.in, &agent->lost, err);
        return true;
    }
    if (!rt_route_event(&agent->route, event))
        return false;
    *status = agent_receive(agent, err);
    agent_send(agent);
    return true;
}

static rt_status agent_take_turn(void *self, struct rt_error *err) {
    struct rt_agent *agent = self;
    const rt_status status = agent_receive(agent, err);
    agent_send(agent);
    RT_TRY(status);
    return agent_transfer(agent, err);
}

static uint16_t agent_lost(const void *self) {
    return rt_agent_lost(self);
}

struct rt_engine_part rt_agent_part(struct rt_agent *agent) {
    return (struct rt_engine_part){.self = agent,
                                   .event = agent_take_event,
                                   .turn = agent_take_turn,
                                   .lost = agent_lost,
                                   .outlives = true};
}

/* ---- what the owner sees and says ---------------------------------------------------------------------- */

uint64_t rt_agent_ticket(const struct rt_agent *agent) {
    return agent->taken < agent->arrived ? agent->batch[agent->taken % RT_TICKETS_AHEAD] : 0;
}

void rt_agent_take(struct rt_agent *agent) {
    agent->taken++;
    agent->at_rest = agent->rests = false;
}

void rt_agent_done(struct rt_agent *agent, const struct rt_done *done) {
    agent->last_done = agent->batch[agent->finished % RT_TICKETS_AHEAD];
    agent->done[agent->finished % RT_TICKETS_AHEAD] = *done;
    agent->done[agent->finished++ % RT_TICKETS_AHEAD].batch = agent->last_done;
}

uint64_t rt_agent_last_done(const struct rt_agent *agent) {
    return agent->last_done;
}

bool rt_agent_has_begun(const struct rt_agent *agent) {
    return agent->begun;
}

void rt_agent_rest(struct rt_agent *agent) {
    agent->rests = true;
}

bool rt_agent_is_asked(const struct rt_agent *agent) {
    return agent->asked;
}

void rt_agent_answer(struct rt_agent *agent, const struct rt_metrics_row *rows, const uint64_t *tally) {
    memcpy(agent->rows + agent->before, rows, agent->settings.rows * sizeof *rows);
    memset(agent->tally, 0, sizeof agent->tally);
    if (tally)
        memcpy(agent->tally, tally, sizeof agent->tally);
    agent->asked = false;
    agent->answer = true;
}

void rt_agent_set_at_rest(struct rt_agent *agent, bool at_rest) {
    agent->at_rest = at_rest;
}

bool rt_agent_wants_rest(const struct rt_agent *agent) {
    return !agent->at_rest && rt_state_holder_is_waiting(&agent->holder);
}

bool rt_agent_is_transferred(const struct rt_agent *agent) {
    return rt_state_holder_is_idle(&agent->holder);
}

bool rt_agent_was_loaded(const struct rt_agent *agent, uint64_t *update) {
    *update = agent->loaded;
    return agent->load == RT_LOAD_DUE;
}

void rt_agent_note_loaded(struct rt_agent *agent) {
    agent->load = RT_LOAD_NOTED;
    agent->last = 0; /* batches may come again */
}

bool rt_agent_is_stopped(const struct rt_agent *agent) {
    return agent->stopped;
}

void rt_agent_say_goodbye(struct rt_agent *agent) {
    agent->goodbye = true;
}

void rt_agent_fail(struct rt_agent *agent, rt_status status, uint16_t node, const char *sentence) {
    if (agent->ended)
        return;
    agent->tell = true;
    agent->status = status;
    agent->about = node;
    rt_copy_sentence(agent->sentence, sizeof agent->sentence, sentence);
}

bool rt_agent_is_over(const struct rt_agent *agent) {
    return rt_route_is_closed(&agent->route) || agent->ended;
}

bool rt_agent_is_orphaned(const struct rt_agent *agent) {
    const struct rt_route *route = &agent->route;
    return agent->orphaned || (!rt_route_is_ring(route) && route->in->closed && !agent->ended);
}

bool rt_agent_has_ended(const struct rt_agent *agent) {
    return agent->ended;
}

bool rt_agent_is_view_over(const struct rt_agent *agent) {
    return agent->view_over;
}

uint16_t rt_agent_lost(const struct rt_agent *agent) {
    return agent->lost;
}
