/* A head's talk with the master; see talk.h. What it has to say is owed until the talk has room for it. */
#include "train/hybrid/talk.h"

#include <string.h>

rt_status rt_head_open(struct rt_head *head, struct rt_endpoint *endpoint, uint32_t run, uint16_t number,
                       struct rt_link *link, struct rt_error *err) {
    *head = (struct rt_head){.endpoint = endpoint, .number = number};
    rt_status status = rt_talk_open(link, &head->talk, err);
    head->talk.run = run;
    return status;
}

void rt_head_close(struct rt_head *head) {
    rt_talk_close(&head->talk);
}

static rt_status take_ticket(struct rt_head *head, uint64_t batch, struct rt_error *err) {
    size_t held = 0;
    uint64_t before = head->last;
    while (held < RT_HEAD_AHEAD && head->tickets[held])
        before = head->tickets[held++];
    if (held == RT_HEAD_AHEAD || head->stopped || batch <= before)
        return rt_fail(err, RT_BAD_INPUT, "a ticket of batch %llu came when none of it could be held",
                       (unsigned long long)batch);
    head->tickets[held] = batch;
    head->attention |= batch != before + 1 || before == 0;
    return RT_OK;
}

static rt_status take_message(struct rt_head *head, struct rt_error *err) {
    const struct rt_message *message = &head->talk.message;
    struct rt_error_message error;
    switch (message->type) {
    case RT_MESSAGE_TICKET:
        return take_ticket(head, message->micro, err);
    case RT_MESSAGE_PULL:
        head->begun = message->flags & RT_FLAG_REST;
        return head->begun ? RT_OK : rt_fail(err, RT_BAD_INPUT, "a pull message was not expected");
    case RT_MESSAGE_METRICS:
        head->asked = head->attention = true;
        return RT_OK;
    case RT_MESSAGE_STOP:
        head->stopped = head->attention = true;
        return RT_OK;
    case RT_MESSAGE_ERROR:
        if (rt_error_decode(head->talk.body, head->talk.body_bytes, &error, err) != RT_OK)
            return RT_BAD_INPUT;
        head->ended = true;
        return rt_fail(err, RT_FAILED, "%s", error.text);
    default:
        return rt_fail(err, RT_BAD_INPUT, "a %s message was not expected", rt_message_name(message->type));
    }
}

/* Says what is owed, as far as the talk has room. */
static void say_all(struct rt_head *head) {
    size_t said = 0;
    while (said < head->owed_count && !head->talk.closed && rt_talk_body(&head->talk))
        rt_talk_send(&head->talk, &head->owed[said++], 0);
    head->owed_count -= said;
    memmove(head->owed, head->owed + said, head->owed_count * sizeof *head->owed);
}

static bool take_event(void *self, const struct rt_event *event, uint16_t *lost, rt_status *status,
                       struct rt_error *err) {
    struct rt_head *head = self;
    struct rt_talk *talk = &head->talk;
    (void)lost;
    if (!rt_talk_event(talk, event))
        return false;
    while (talk->ready && *status == RT_OK) {
        *status = take_message(head, err);
        if (*status != RT_OK && !head->ended)
            *status = rt_fail_prefix(err, RT_FAILED, "the master (%s)", talk->link->peer);
        rt_talk_next(talk);
    }
    say_all(head);
    if (talk->dead && *status == RT_OK) {
        head->ended = true;
        if (!head->stopped)
            *status = rt_fail(err, RT_FAILED, "the master: %s", talk->error.text);
    }
    return true;
}

/* A result and a rest for each ticket, the first rest and goodbye: there is room to owe all of it. */
static void say(struct rt_head *head, struct rt_message message) {
    message.source = head->number;
    if (head->owed_count < sizeof head->owed / sizeof *head->owed)
        head->owed[head->owed_count++] = message;
    say_all(head);
}

void rt_head_done(struct rt_head *head, const struct rt_done *done) {
    head->last = head->tickets[0];
    memmove(head->tickets, head->tickets + 1, sizeof head->tickets - sizeof *head->tickets);
    head->tickets[RT_HEAD_AHEAD - 1] = 0;
    say(head, (struct rt_message){.type = RT_MESSAGE_DONE,
                                  .micro = done->batch,
                                  .update = done->correct,
                                  .rows = (uint32_t)done->rows,
                                  .value = done->loss});
}

void rt_head_rests(struct rt_head *head) {
    say(head, (struct rt_message){.type = RT_MESSAGE_PULL, .flags = RT_FLAG_REST, .micro = head->last});
}

/* Without room it stays asked for. */
void rt_head_metrics(struct rt_head *head, const struct rt_metrics_row *rows, size_t count) {
    uint8_t *body = head->talk.closed || head->owed_count > 0 ? NULL : rt_talk_body(&head->talk);
    size_t bytes = 0;
    if (!body)
        return;
    head->asked = false;
    for (size_t i = 0; i < count; i++)
        bytes = rt_metrics_append(&rows[i], body, bytes, RT_MAX_CONTROL);
    rt_talk_send(&head->talk, &(struct rt_message){.type = RT_MESSAGE_METRICS, .source = head->number},
                 bytes);
}

/* Nobody hangs up before the master does: he knows when all rings are at rest. */
static bool may_leave(void *self) {
    struct rt_head *head = self;
    if (!head->goodbye)
        say(head, (struct rt_message){.type = RT_MESSAGE_STOP});
    head->goodbye = true;
    return head->ended;
}

struct rt_group_talk rt_head_talk(struct rt_head *head) {
    return (struct rt_group_talk){.self = head, .event = take_event, .may_leave = may_leave};
}

void rt_head_fail(struct rt_head *head, rt_status status, uint16_t node, const char *sentence, double seconds,
                  void (*stray)(void *user, const struct rt_event *event), void *user) {
    const double until = rt_endpoint_now(head->endpoint) + seconds;
    struct rt_event event;
    if (head->ended || head->talk.closed)
        return;
    rt_talk_refuse(&head->talk, node ? RT_IO : status, node ? node : head->number, sentence);
    while (!head->talk.closed && rt_endpoint_wait(head->endpoint, until, &event)) {
        if (!rt_talk_event(&head->talk, &event))
            stray(user, &event);
        else if (head->talk.ready)
            rt_talk_next(&head->talk);
    }
}
