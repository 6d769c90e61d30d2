/*
 * A node's part in an exchange: the talk with the master, and the worker loop; see agent.h.
 *
 * How a run ends. In good order: STOP comes behind all tickets; the node lets go of its links, answers, and
 * stays until the master has hung up, so that nobody loses a peer he still counts on. With a failure of its
 * own: the node says why and stays in the same way. When the master says why, the node leaves at once.
 */
#include "control/agent_inside.h"

#include "base/memory.h"
#include "base/sentence.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Seconds that a node which is done waits for the master to hang up. */
static const double goodbye_seconds = 5;
/* Seconds without a ticket after which a worker rests: no server's bound waits for it then. For the first one
 * it is more patient: that all begin together matters where workers may not drift apart. */
static const double idle_seconds = 0.05, first_seconds = 1;

rt_status rt_agent_create(const struct rt_agent_settings *settings, struct rt_agent **agent,
                          struct rt_error *err) {
    struct rt_link *link = settings->comm->links[0];
    struct rt_agent *made;
    if (!link || !link->user)
        return rt_fail(err, RT_FAILED, "there is no talk with the master");
    rt_status status = rt_alloc(1, sizeof *made, "a node's talk with the master", &made, err);
    if (status != RT_OK)
        return status;
    made->settings = *settings;
    made->link = link;
    made->talk = link->user;
    status = rt_agent_transfer_init(made, err);
    if (status != RT_OK) {
        rt_agent_destroy(made);
        return status;
    }
    *agent = made;
    return RT_OK;
}

void rt_agent_destroy(struct rt_agent *agent) {
    if (!agent)
        return;
    free(agent->transfer.memory);
    free(agent);
}

/* ---- what comes in ------------------------------------------------------------------------------------- */

static rt_status take_ticket(struct rt_agent *agent, const struct rt_message *message, struct rt_error *err) {
    if (!agent->settings.worker.learn)
        return rt_fail(err, RT_BAD_INPUT, "a ticket came to a server that has no worker");
    if (agent->arrived - agent->told >= RT_TICKETS_AHEAD || agent->stopped)
        return rt_fail(err, RT_BAD_INPUT, "a ticket came when none could be held");
    /* The same one again: its gradient came too late, and is still wanted. */
    if (message->micro == 0 || message->micro < agent->last)
        return rt_fail(err, RT_BAD_INPUT, "a ticket of batch %llu came behind one of batch %llu",
                       (unsigned long long)message->micro, (unsigned long long)agent->last);
    agent->batch[agent->arrived++ % RT_TICKETS_AHEAD] = agent->last = message->micro;
    return RT_OK;
}

static rt_status take_message(struct rt_agent *agent, struct rt_error *err) {
    const struct rt_message *message = &agent->talk->message;
    struct rt_error_message error;
    switch (message->type) {
    case RT_MESSAGE_TICKET:
        return take_ticket(agent, message, err);
    case RT_MESSAGE_METRICS:
        agent->asked = true;
        return RT_OK;
    case RT_MESSAGE_STOP:
        agent->stopped = true;
        return RT_OK;
    case RT_MESSAGE_ERROR:
        if (rt_error_decode(agent->talk->body, agent->talk->body_bytes, &error, err) != RT_OK)
            return RT_BAD_INPUT;
        agent->ended = true;
        return rt_fail(err, RT_FAILED, "%s", error.text);
    default:
        return rt_fail(err, RT_BAD_INPUT, "a %s message was not expected", rt_message_name(message->type));
    }
}

static rt_status take_messages(struct rt_agent *agent, struct rt_error *err) {
    struct rt_talk *talk = agent->talk;
    while (talk->ready) {
        const rt_status status = take_message(agent, err);
        if (status == RT_BAD_INPUT)
            return rt_fail_prefix(err, RT_FAILED, "the master (%s)", agent->link->peer);
        rt_talk_next(talk);
        if (status != RT_OK)
            return status;
    }
    if (talk->dead && !talk->closed)
        return rt_fail(err, RT_FAILED, "the master: %s", talk->error.text);
    return RT_OK;
}

/* ---- what goes out ------------------------------------------------------------------------------------- */

static void send_done(struct rt_agent *agent, struct rt_message *message) {
    const struct rt_done *done = &agent->done[agent->told++ % RT_TICKETS_AHEAD];
    message->type = RT_MESSAGE_DONE;
    message->micro = done->batch;
    message->rows = (uint32_t)done->rows;
    message->update = done->correct;
    message->value = done->loss;
}

/* The next count that is not zero; false: no more. */
static bool send_tally(struct rt_agent *agent, struct rt_message *message) {
    size_t i = 0;
    while (i < RT_TALLIES && agent->tally[i] == 0)
        i++;
    if (i == RT_TALLIES)
        return false;
    message->type = RT_MESSAGE_TALLY;
    message->micro = i;
    message->update = agent->tally[i];
    agent->tally[i] = 0;
    return true;
}

static bool has_something(const struct rt_agent *agent) {
    return agent->tell || agent->told < agent->finished || agent->answer || agent->goodbye;
}

static void send_all(struct rt_agent *agent) {
    struct rt_talk *talk = agent->talk;
    uint8_t *body;
    while (!talk->closed && has_something(agent) && (body = rt_talk_body(talk))) {
        struct rt_message message = {.source = agent->settings.comm->rank};
        size_t bytes = 0;
        if (agent->tell) {
            agent->tell = false;
            rt_talk_refuse(talk, agent->status, agent->about, agent->sentence);
            continue;
        }
        if (agent->told < agent->finished) {
            send_done(agent, &message);
        } else if (agent->answer && send_tally(agent, &message)) {
            ;
        } else if (agent->answer) {
            agent->answer = false;
            message.type = RT_MESSAGE_METRICS;
            bytes = rt_metrics_append(&agent->row, body, 0, RT_MAX_CONTROL);
        } else {
            agent->goodbye = false;
            message.type = RT_MESSAGE_STOP;
        }
        rt_talk_send(talk, &message, bytes);
    }
}

/* ---- as a part of an engine ---------------------------------------------------------------------------- */

static bool is_bulk(const struct rt_event *event) {
    return (event->kind == RT_EVENT_SENT && event->send->channel == RT_CHANNEL_BULK) ||
           (event->kind == RT_EVENT_RECEIVED && event->receive->channel == RT_CHANNEL_BULK);
}

static bool take_event(void *self, const struct rt_event *event, rt_status *status, struct rt_error *err) {
    struct rt_agent *agent = self;
    if (event->link != agent->link)
        return false;
    if (is_bulk(event)) {
        *status = rt_agent_transfer_event(agent, event, err);
        if (*status != RT_OK)
            *status = rt_fail_prefix(err, RT_FAILED, "the master (%s)", agent->link->peer);
        return true;
    }
    if (!rt_talk_event(agent->talk, event))
        return false;
    *status = take_messages(agent, err);
    send_all(agent);
    return true;
}

static rt_status take_turn(void *self, struct rt_error *err) {
    struct rt_agent *agent = self;
    rt_status status = agent->talk->ready ? take_messages(agent, err) : RT_OK;
    send_all(agent);
    if (status == RT_OK && rt_agent_transfer_go_on(agent, err) != RT_OK)
        status = rt_fail_prefix(err, RT_FAILED, "the master (%s)", agent->link->peer);
    return status;
}

struct rt_engine_part rt_agent_part(struct rt_agent *agent) {
    return (struct rt_engine_part){.self = agent, .event = take_event, .turn = take_turn, .outlives = true};
}

/* ---- the loop ------------------------------------------------------------------------------------------ */

static bool must_rest(const struct rt_agent *agent) {
    return !agent->at_rest && agent->transfer.taken < agent->transfer.arrived;
}

static bool has_work(void *self) {
    const struct rt_agent *agent = self;
    return agent->asked || agent->taken < agent->arrived || must_rest(agent) ||
           agent->transfer.load == RT_LOAD_DUE || agent->stopped;
}

static void answer_metrics(struct rt_agent *agent) {
    const struct rt_agent_settings *settings = &agent->settings;
    struct rt_metrics_row row = {0};
    uint64_t tally[RT_TALLIES] = {0};
    if (settings->metrics)
        settings->metrics(settings->user, &row);
    if (settings->tally)
        settings->tally(settings->user, tally);
    row.node = settings->comm->rank;
    rt_engine_enter(agent->engine);
    agent->row = row;
    memcpy(agent->tally, tally, sizeof tally);
    agent->asked = false;
    agent->answer = true;
    rt_engine_leave(agent->engine);
}

static rt_status agent_learn(struct rt_agent *agent, uint64_t batch, struct rt_error *err) {
    const struct rt_batch_worker *worker = &agent->settings.worker;
    struct rt_done done = {.batch = batch};
    rt_status status = worker->learn(worker->self, batch, &done, err);
    if (status != RT_OK)
        return status;
    done.batch = batch;
    rt_engine_enter(agent->engine);
    agent->done[agent->finished++ % RT_TICKETS_AHEAD] = done;
    rt_engine_leave(agent->engine);
    return RT_OK;
}

static rt_status agent_settle(struct rt_agent *agent, struct rt_error *err) {
    const struct rt_batch_worker *worker = &agent->settings.worker;
    rt_status status = worker->settle ? worker->settle(worker->self, err) : RT_OK;
    rt_engine_enter(agent->engine);
    agent->at_rest = status == RT_OK;
    rt_engine_leave(agent->engine);
    return status;
}

static void tell_loaded(struct rt_agent *agent, uint64_t update) {
    if (agent->settings.loaded)
        agent->settings.loaded(agent->settings.user, update);
    rt_engine_enter(agent->engine);
    agent->transfer.load = RT_LOAD_TOLD;
    agent->last = 0; /* batches may come again */
    rt_engine_leave(agent->engine);
}

/* One thing that is to be done. */
static rt_status work(struct rt_agent *agent, bool *stop, struct rt_error *err) {
    rt_engine_enter(agent->engine);
    const bool asked = agent->asked, ticket = agent->taken < agent->arrived;
    const bool load = agent->transfer.load == RT_LOAD_DUE, rest = must_rest(agent) || !agent->stopped;
    const uint64_t batch = agent->batch[agent->taken % RT_TICKETS_AHEAD],
                   update = rt_agent_transfer_update(agent);
    if (!asked && ticket) {
        agent->taken++;
        agent->at_rest = false;
    }
    rt_engine_leave(agent->engine);
    if (asked)
        answer_metrics(agent);
    else if (ticket)
        return agent_learn(agent, batch, err);
    else if (load)
        tell_loaded(agent, update);
    else if (rest)
        return agent_settle(agent, err);
    else
        *stop = true;
    return RT_OK;
}

static bool has_hung_up(void *self) {
    const struct rt_agent *agent = self;
    return agent->talk->closed || agent->ended;
}

/* Says goodbye, or why this node ends, and stays until the master has heard it. */
static void part_ways(struct rt_agent *agent, rt_status status, const struct rt_error *err) {
    const struct rt_agent_settings *settings = &agent->settings;
    const uint16_t rank = settings->comm->rank, lost = rt_engine_lost(agent->engine);
    struct rt_error told = *err;
    rt_engine_let_go(agent->engine);
    if (status != RT_OK && settings->name)
        rt_fail_prefix(&told, status, "node %u (%s)", rank, settings->name);
    else if (status != RT_OK)
        rt_fail_prefix(&told, status, "node %u", rank);
    rt_engine_enter(agent->engine);
    if (status == RT_OK) {
        agent->goodbye = true;
    } else if (!agent->ended) {
        agent->tell = true;
        agent->status = lost != UINT16_MAX ? RT_IO : status;
        agent->about = lost != UINT16_MAX ? lost : rank;
        rt_copy_sentence(agent->sentence, sizeof agent->sentence, told.text);
    }
    rt_engine_leave(agent->engine);
    rt_engine_linger(agent->engine, has_hung_up, agent, rt_engine_now(agent->engine) + goodbye_seconds);
}

rt_status rt_agent_run(struct rt_agent *agent, struct rt_engine *engine, struct rt_error *err) {
    struct rt_error why = {0};
    bool stop = false;
    rt_engine_enter(engine);
    agent->engine = engine;
    rt_engine_leave(engine);
    rt_status status = RT_OK;
    while (status == RT_OK && !stop) {
        const double timeout = agent->taken > 0 ? idle_seconds : first_seconds;
        const double until = agent->at_rest ? (double)INFINITY : rt_engine_now(engine) + timeout;
        status = rt_engine_wait(engine, has_work, agent, until, &why);
        if (status == RT_OK)
            status = work(agent, &stop, &why);
    }
    if (status == RT_OK)
        status = agent_settle(agent, &why);
    part_ways(agent, status, &why);
    if (status != RT_OK)
        rt_fail(err, status, "%s", why.text);
    return status;
}
