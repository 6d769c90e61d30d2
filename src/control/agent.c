/* A node's conversation with the master of the run; see agent.h. */
#include "control/agent_inside.h"

#include "base/memory.h"
#include "base/sentence.h"
#include <stdlib.h>
#include <string.h>

static rt_status agent_init(struct rt_agent *agent, const struct rt_agent_settings *settings,
                            struct rt_error *err) {
    struct rt_link *link = settings->comm->links[0];
    if (!link || !link->user)
        return rt_fail(err, RT_FAILED, "there is no conversation with the master");
    agent->settings = *settings;
    agent->settings.ahead = settings->ahead ? settings->ahead : RT_TICKETS_AHEAD;
    agent->settings.rows = settings->rows ? settings->rows : 1;
    agent->link = link;
    agent->talk = link->user;
    RT_TRY(rt_alloc(agent->settings.rows, sizeof *agent->rows, "the metrics", &agent->rows, err));
    return settings->state || settings->examples ? rt_agent_hold_state(agent, err) : RT_OK;
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

static rt_status agent_take_message(struct rt_agent *agent, struct rt_error *err) {
    const struct rt_message *message = &agent->talk->message;
    struct rt_error_message error;
    switch (message->type) {
    case RT_MESSAGE_TICKET:
        return agent_take_ticket(agent, message, err);
    case RT_MESSAGE_PULL:
        if (!(message->flags & RT_FLAG_REST))
            break;
        agent->begun = true;
        return RT_OK;
    case RT_MESSAGE_METRICS:
        agent->asked = true;
        return RT_OK;
    case RT_MESSAGE_STOP:
        agent->stopped = true;
        return RT_OK;
    case RT_MESSAGE_ERROR:
        RT_TRY(rt_error_decode(agent->talk->body, agent->talk->body_bytes, &error, err));
        agent->ended = true;
        return rt_fail(err, RT_FAILED, "%s", error.text);
    }
    return rt_fail(err, RT_BAD_INPUT, "unexpected %s message", rt_message_name(message->type));
}

static rt_status agent_blame_master(const struct rt_agent *agent, struct rt_error *err) {
    return rt_fail_prefix(err, RT_FAILED, "the master (%s)", agent->link->peer);
}

static rt_status agent_receive(struct rt_agent *agent, struct rt_error *err) {
    struct rt_talk *talk = agent->talk;
    while (talk->ready) {
        const rt_status status = agent_take_message(agent, err);
        if (status == RT_BAD_INPUT)
            return agent_blame_master(agent, err);
        rt_talk_next(talk);
        RT_TRY(status);
    }
    if (talk->dead && !talk->closed)
        return rt_fail(err, RT_FAILED, "the master: %s", talk->error.text);
    return RT_OK;
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
        rt_talk_refuse(agent->talk, agent->status, agent->about, agent->sentence);
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
        for (size_t i = 0; i < agent->settings.rows; i++)
            bytes = rt_metrics_append(&agent->rows[i], body, bytes, RT_MAX_CONTROL);
    } else {
        agent->goodbye = false;
        message.type = RT_MESSAGE_STOP;
    }
    message.source = rt_communicator_node(agent->settings.comm, agent->settings.comm->rank);
    rt_talk_send(agent->talk, &message, bytes);
}

static void agent_send(struct rt_agent *agent) {
    uint8_t *body;
    while (!agent->talk->closed && agent_has_to_say(agent) && (body = rt_talk_body(agent->talk)))
        agent_say(agent, body);
}

/* ---- as a part of an engine ---------------------------------------------------------------------------- */

static rt_status agent_transfer(struct rt_agent *agent, struct rt_error *err) {
    bool worked = false;
    if (agent->talk->closed || !agent->holder.memory ||
        rt_state_holder_go_on(&agent->holder, &worked, err) == RT_OK)
        return RT_OK;
    return agent_blame_master(agent, err);
}

static bool agent_take_event(void *self, const struct rt_event *event, rt_status *status,
                             struct rt_error *err) {
    struct rt_agent *agent = self;
    if (event->link != agent->link)
        return false;
    if (rt_state_holder_event(&agent->holder, event, status, err)) {
        *status = *status == RT_OK ? agent_transfer(agent, err) : agent_blame_master(agent, err);
        return true;
    }
    if (!rt_talk_event(agent->talk, event))
        return false;
    *status = agent_receive(agent, err);
    agent_send(agent);
    return true;
}

static rt_status agent_take_turn(void *self, struct rt_error *err) {
    struct rt_agent *agent = self;
    const rt_status status = agent->talk->ready ? agent_receive(agent, err) : RT_OK;
    agent_send(agent);
    RT_TRY(status);
    return agent_transfer(agent, err);
}

struct rt_engine_part rt_agent_part(struct rt_agent *agent) {
    return (struct rt_engine_part){
        .self = agent, .event = agent_take_event, .turn = agent_take_turn, .outlives = true};
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
    memcpy(agent->rows, rows, agent->settings.rows * sizeof *rows);
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
    return agent->talk->closed || agent->ended;
}
