/* A head's talk with the master; see talk.h. What it has to say is owed until the talk has room for it. */
#include "run/hybrid/talk.h"

#include <string.h>

rt_status rt_leader_open(struct rt_leader *leader, struct rt_endpoint *endpoint, uint32_t run,
                         uint16_t number, struct rt_link *link, struct rt_error *err) {
    *leader = (struct rt_leader){.endpoint = endpoint, .number = number};
    rt_status status = rt_talk_open(link, &leader->talk, err);
    leader->talk.run = run;
    return status;
}

void rt_leader_close(struct rt_leader *leader) {
    rt_talk_close(&leader->talk);
}

static rt_status take_ticket(struct rt_leader *leader, uint64_t batch, struct rt_error *err) {
    size_t held = 0;
    uint64_t before = leader->last;
    while (held < RT_LEADER_TICKETS_AHEAD && leader->tickets[held])
        before = leader->tickets[held++];
    if (held == RT_LEADER_TICKETS_AHEAD || leader->stopped || batch <= before)
        return rt_fail(err, RT_BAD_INPUT, "a ticket of batch %llu came when none of it could be held",
                       (unsigned long long)batch);
    leader->tickets[held] = batch;
    leader->attention |= batch != before + 1 || before == 0;
    return RT_OK;
}

static rt_status take_message(struct rt_leader *leader, struct rt_error *err) {
    const struct rt_message *message = &leader->talk.message;
    struct rt_error_message error;
    switch (message->type) {
    case RT_MESSAGE_TICKET:
        return take_ticket(leader, message->micro, err);
    case RT_MESSAGE_PULL:
        leader->begun = message->flags & RT_FLAG_REST;
        return leader->begun ? RT_OK : rt_fail(err, RT_BAD_INPUT, "a pull message was not expected");
    case RT_MESSAGE_METRICS:
        leader->asked = leader->attention = true;
        return RT_OK;
    case RT_MESSAGE_STOP:
        leader->stopped = leader->attention = true;
        return RT_OK;
    case RT_MESSAGE_ERROR:
        if (rt_error_decode(leader->talk.body, leader->talk.body_bytes, &error, err) != RT_OK)
            return RT_BAD_INPUT;
        leader->ended = true;
        return rt_fail(err, RT_FAILED, "%s", error.text);
    default:
        return rt_fail(err, RT_BAD_INPUT, "a %s message was not expected", rt_message_name(message->type));
    }
}

/* Says what is owed, as far as the talk has room. */
static void say_all(struct rt_leader *leader) {
    size_t said = 0;
    while (said < leader->owed_count && !leader->talk.closed && rt_talk_body(&leader->talk))
        rt_talk_send(&leader->talk, &leader->owed[said++], 0);
    leader->owed_count -= said;
    memmove(leader->owed, leader->owed + said, leader->owed_count * sizeof *leader->owed);
}

static bool take_event(void *self, const struct rt_event *event, uint16_t *lost, rt_status *status,
                       struct rt_error *err) {
    struct rt_leader *leader = self;
    struct rt_talk *talk = &leader->talk;
    (void)lost;
    if (!rt_talk_event(talk, event))
        return false;
    while (talk->ready && *status == RT_OK) {
        *status = take_message(leader, err);
        if (*status != RT_OK && !leader->ended)
            *status = rt_fail_prefix(err, RT_FAILED, "the master (%s)", talk->link->peer);
        rt_talk_next(talk);
    }
    say_all(leader);
    if (talk->dead && *status == RT_OK) {
        leader->ended = true;
        if (!leader->stopped)
            *status = rt_fail(err, RT_FAILED, "the master: %s", talk->error.text);
    }
    return true;
}

/* A result and a rest for each ticket, the first rest and goodbye: there is room to owe all of it. */
static void say(struct rt_leader *leader, struct rt_message message) {
    message.source = leader->number;
    if (leader->owed_count < sizeof leader->owed / sizeof *leader->owed)
        leader->owed[leader->owed_count++] = message;
    say_all(leader);
}

void rt_leader_done(struct rt_leader *leader, const struct rt_done *done) {
    leader->last = leader->tickets[0];
    memmove(leader->tickets, leader->tickets + 1, sizeof leader->tickets - sizeof *leader->tickets);
    leader->tickets[RT_LEADER_TICKETS_AHEAD - 1] = 0;
    say(leader, (struct rt_message){.type = RT_MESSAGE_DONE,
                                    .micro = done->batch,
                                    .update = done->correct,
                                    .rows = (uint32_t)done->rows,
                                    .value = done->loss});
}

void rt_leader_rests(struct rt_leader *leader) {
    say(leader, (struct rt_message){.type = RT_MESSAGE_PULL, .flags = RT_FLAG_REST, .micro = leader->last});
}

/* Without room it stays asked for. */
void rt_leader_metrics(struct rt_leader *leader, const struct rt_metrics_row *rows, size_t count) {
    uint8_t *body = leader->talk.closed || leader->owed_count > 0 ? NULL : rt_talk_body(&leader->talk);
    size_t bytes = 0;
    if (!body)
        return;
    leader->asked = false;
    for (size_t i = 0; i < count; i++)
        bytes = rt_metrics_append(&rows[i], body, bytes, RT_MAX_CONTROL);
    rt_talk_send(&leader->talk, &(struct rt_message){.type = RT_MESSAGE_METRICS, .source = leader->number},
                 bytes);
}

/* Nobody hangs up before the master does: he knows when all rings are at rest. */
static bool may_leave(void *self) {
    struct rt_leader *leader = self;
    if (!leader->goodbye)
        say(leader, (struct rt_message){.type = RT_MESSAGE_STOP});
    leader->goodbye = true;
    return leader->ended;
}

struct rt_group_talk rt_leader_talk(struct rt_leader *leader) {
    return (struct rt_group_talk){.self = leader, .event = take_event, .may_leave = may_leave};
}

void rt_leader_fail(struct rt_leader *leader, rt_status status, uint16_t node, const char *sentence,
                    double seconds, void (*stray)(void *user, const struct rt_event *event), void *user) {
    const double until = rt_endpoint_now(leader->endpoint) + seconds;
    struct rt_event event;
    if (leader->ended || leader->talk.closed)
        return;
    rt_talk_refuse(&leader->talk, node ? RT_IO : status, node ? node : leader->number, sentence);
    while (!leader->talk.closed && rt_endpoint_wait(leader->endpoint, until, &event)) {
        if (!rt_talk_event(&leader->talk, &event))
            stray(user, &event);
        else if (leader->talk.ready)
            rt_talk_next(&leader->talk);
    }
}
