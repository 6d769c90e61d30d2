/*
 * A node's part in an exchange: the talk with the master, and the worker loop; see duty.h.
 *
 * How a run ends. In good order: STOP comes behind all tickets; the node lets go of its links, answers, and
 * stays until the master has hung up, so that nobody loses a peer he still counts on. With a failure of its
 * own: the node says why and stays in the same way. When the master says why, the node leaves at once.
 */
#include "exchange/duty_inside.h"

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

rt_status rt_duty_create(const struct rt_duty_settings *settings, struct rt_duty **duty,
                         struct rt_error *err) {
    struct rt_link *link = settings->party->links[0];
    struct rt_duty *made;
    if (!link || !link->user)
        return rt_fail(err, RT_FAILED, "there is no talk with the master");
    rt_status status = rt_alloc(1, sizeof *made, "a node's talk with the master", &made, err);
    if (status != RT_OK)
        return status;
    made->settings = *settings;
    made->link = link;
    made->talk = link->user;
    status = rt_numbers_init(made, err);
    if (status != RT_OK) {
        rt_duty_destroy(made);
        return status;
    }
    *duty = made;
    return RT_OK;
}

void rt_duty_destroy(struct rt_duty *duty) {
    if (!duty)
        return;
    free(duty->numbers.memory);
    free(duty);
}

/* ---- what comes in ------------------------------------------------------------------------------------- */

static rt_status take_ticket(struct rt_duty *duty, const struct rt_message *message, struct rt_error *err) {
    if (!duty->settings.exchange)
        return rt_fail(err, RT_BAD_INPUT, "a ticket came to a server that has no worker");
    if (duty->arrived - duty->told >= RT_CREW_AHEAD || duty->stopped)
        return rt_fail(err, RT_BAD_INPUT, "a ticket came when none could be held");
    /* The same one again: its gradient came too late, and is still wanted. */
    if (message->micro == 0 || message->micro < duty->last)
        return rt_fail(err, RT_BAD_INPUT, "a ticket of batch %llu came behind one of batch %llu",
                       (unsigned long long)message->micro, (unsigned long long)duty->last);
    duty->batch[duty->arrived++ % RT_CREW_AHEAD] = duty->last = message->micro;
    return RT_OK;
}

static rt_status take_message(struct rt_duty *duty, struct rt_error *err) {
    const struct rt_message *message = &duty->talk->message;
    struct rt_error_message error;
    switch (message->type) {
    case RT_MESSAGE_TICKET:
        return take_ticket(duty, message, err);
    case RT_MESSAGE_METRICS:
        duty->asked = true;
        return RT_OK;
    case RT_MESSAGE_STOP:
        duty->stopped = true;
        return RT_OK;
    case RT_MESSAGE_ERROR:
        if (rt_error_decode(duty->talk->body, duty->talk->body_bytes, &error, err) != RT_OK)
            return RT_BAD_INPUT;
        duty->ended = true;
        return rt_fail(err, RT_FAILED, "%s", error.text);
    default:
        return rt_fail(err, RT_BAD_INPUT, "a %s message was not expected", rt_message_name(message->type));
    }
}

static rt_status take_messages(struct rt_duty *duty, struct rt_error *err) {
    struct rt_talk *talk = duty->talk;
    while (talk->ready) {
        const rt_status status = take_message(duty, err);
        if (status == RT_BAD_INPUT)
            return rt_fail_prefix(err, RT_FAILED, "the master (%s)", duty->link->peer);
        rt_talk_next(talk);
        if (status != RT_OK)
            return status;
    }
    if (talk->dead && !talk->closed)
        return rt_fail(err, RT_FAILED, "the master: %s", talk->error.text);
    return RT_OK;
}

/* ---- what goes out ------------------------------------------------------------------------------------- */

static void send_done(struct rt_duty *duty, struct rt_message *message) {
    const struct rt_done *done = &duty->done[duty->told++ % RT_CREW_AHEAD];
    message->type = RT_MESSAGE_DONE;
    message->micro = done->batch;
    message->rows = (uint32_t)done->rows;
    message->update = done->correct;
    message->value = done->loss;
}

/* The next count that is not zero; false: no more. */
static bool send_tally(struct rt_duty *duty, struct rt_message *message) {
    size_t i = 0;
    while (i < RT_TALLIES && duty->tally[i] == 0)
        i++;
    if (i == RT_TALLIES)
        return false;
    message->type = RT_MESSAGE_TALLY;
    message->micro = i;
    message->update = duty->tally[i];
    duty->tally[i] = 0;
    return true;
}

static bool has_something(const struct rt_duty *duty) {
    return duty->tell || duty->told < duty->finished || duty->answer || duty->goodbye;
}

static void send_all(struct rt_duty *duty) {
    struct rt_talk *talk = duty->talk;
    uint8_t *body;
    while (!talk->closed && has_something(duty) && (body = rt_talk_body(talk))) {
        struct rt_message message = {.source = duty->settings.party->rank};
        size_t bytes = 0;
        if (duty->tell) {
            duty->tell = false;
            rt_talk_refuse(talk, duty->status, duty->about, duty->sentence);
            continue;
        }
        if (duty->told < duty->finished) {
            send_done(duty, &message);
        } else if (duty->answer && send_tally(duty, &message)) {
            ;
        } else if (duty->answer) {
            duty->answer = false;
            message.type = RT_MESSAGE_METRICS;
            bytes = rt_metrics_append(&duty->row, body, 0, RT_MAX_CONTROL);
        } else {
            duty->goodbye = false;
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
    struct rt_duty *duty = self;
    if (event->link != duty->link)
        return false;
    if (is_bulk(event)) {
        *status = rt_numbers_event(duty, event, err);
        if (*status != RT_OK)
            *status = rt_fail_prefix(err, RT_FAILED, "the master (%s)", duty->link->peer);
        return true;
    }
    if (!rt_talk_event(duty->talk, event))
        return false;
    *status = take_messages(duty, err);
    send_all(duty);
    return true;
}

static rt_status take_turn(void *self, struct rt_error *err) {
    struct rt_duty *duty = self;
    rt_status status = duty->talk->ready ? take_messages(duty, err) : RT_OK;
    send_all(duty);
    if (status == RT_OK && rt_numbers_go_on(duty, err) != RT_OK)
        status = rt_fail_prefix(err, RT_FAILED, "the master (%s)", duty->link->peer);
    return status;
}

struct rt_engine_part rt_duty_part(struct rt_duty *duty) {
    return (struct rt_engine_part){.self = duty, .event = take_event, .turn = take_turn, .outlives = true};
}

/* ---- the loop ------------------------------------------------------------------------------------------ */

static bool must_rest(const struct rt_duty *duty) {
    return !duty->at_rest && duty->numbers.taken < duty->numbers.arrived;
}

static bool has_work(void *self) {
    const struct rt_duty *duty = self;
    return duty->asked || duty->taken < duty->arrived || must_rest(duty) ||
           duty->numbers.load == RT_LOAD_DUE || duty->stopped;
}

static void answer_metrics(struct rt_duty *duty) {
    const struct rt_duty_settings *settings = &duty->settings;
    struct rt_metrics_row row = {0};
    uint64_t tally[RT_TALLIES] = {0};
    if (settings->metrics)
        settings->metrics(settings->user, &row);
    if (settings->tally)
        settings->tally(settings->user, tally);
    row.node = settings->party->rank;
    rt_engine_enter(duty->engine);
    duty->row = row;
    memcpy(duty->tally, tally, sizeof tally);
    duty->asked = false;
    duty->answer = true;
    rt_engine_leave(duty->engine);
}

static rt_status learn(struct rt_duty *duty, uint64_t batch, struct rt_error *err) {
    const struct rt_duty_settings *settings = &duty->settings;
    const struct rt_exchange *exchange = settings->exchange;
    const struct rt_ticket ticket = {.batch = batch, .part = settings->part, .parts = settings->parts};
    struct rt_done done = {.batch = batch};
    rt_status status = exchange->begin(exchange->self, &ticket, err);
    if (status == RT_OK && settings->replica && settings->replica->compute)
        status = settings->replica->compute(settings->replica->self, &ticket, exchange, &done, err);
    if (status == RT_OK)
        status = exchange->end(exchange->self, &done, err);
    if (status != RT_OK)
        return status;
    done.batch = batch;
    rt_engine_enter(duty->engine);
    duty->done[duty->finished++ % RT_CREW_AHEAD] = done;
    rt_engine_leave(duty->engine);
    return RT_OK;
}

static rt_status settle(struct rt_duty *duty, struct rt_error *err) {
    const struct rt_exchange *exchange = duty->settings.exchange;
    rt_status status = exchange ? exchange->settle(exchange->self, err) : RT_OK;
    rt_engine_enter(duty->engine);
    duty->at_rest = status == RT_OK;
    rt_engine_leave(duty->engine);
    return status;
}

static void tell_loaded(struct rt_duty *duty, uint64_t update) {
    if (duty->settings.loaded)
        duty->settings.loaded(duty->settings.user, update);
    rt_engine_enter(duty->engine);
    duty->numbers.load = RT_LOAD_TOLD;
    duty->last = 0; /* batches may come again */
    rt_engine_leave(duty->engine);
}

/* One thing that is to be done. */
static rt_status work(struct rt_duty *duty, bool *stop, struct rt_error *err) {
    rt_engine_enter(duty->engine);
    const bool asked = duty->asked, ticket = duty->taken < duty->arrived;
    const bool load = duty->numbers.load == RT_LOAD_DUE, rest = must_rest(duty) || !duty->stopped;
    const uint64_t batch = duty->batch[duty->taken % RT_CREW_AHEAD], update = rt_numbers_update(duty);
    if (!asked && ticket) {
        duty->taken++;
        duty->at_rest = false;
    }
    rt_engine_leave(duty->engine);
    if (asked)
        answer_metrics(duty);
    else if (ticket)
        return learn(duty, batch, err);
    else if (load)
        tell_loaded(duty, update);
    else if (rest)
        return settle(duty, err);
    else
        *stop = true;
    return RT_OK;
}

static bool has_hung_up(void *self) {
    const struct rt_duty *duty = self;
    return duty->talk->closed || duty->ended;
}

/* Says goodbye, or why this node ends, and stays until the master has heard it. */
static void part_ways(struct rt_duty *duty, rt_status status, const struct rt_error *err) {
    const struct rt_duty_settings *settings = &duty->settings;
    const uint16_t rank = settings->party->rank, lost = rt_engine_lost(duty->engine);
    struct rt_error told = *err;
    rt_engine_let_go(duty->engine);
    if (status != RT_OK && settings->name)
        rt_fail_prefix(&told, status, "node %u (%s)", rank, settings->name);
    else if (status != RT_OK)
        rt_fail_prefix(&told, status, "node %u", rank);
    rt_engine_enter(duty->engine);
    if (status == RT_OK) {
        duty->goodbye = true;
    } else if (!duty->ended) {
        duty->tell = true;
        duty->status = lost != UINT16_MAX ? RT_IO : status;
        duty->about = lost != UINT16_MAX ? lost : rank;
        rt_copy_sentence(duty->sentence, sizeof duty->sentence, told.text);
    }
    rt_engine_leave(duty->engine);
    rt_engine_linger(duty->engine, has_hung_up, duty, rt_engine_now(duty->engine) + goodbye_seconds);
}

rt_status rt_duty_run(struct rt_duty *duty, struct rt_engine *engine, struct rt_error *err) {
    struct rt_error why = {0};
    bool stop = false;
    rt_engine_enter(engine);
    duty->engine = engine;
    rt_engine_leave(engine);
    rt_status status = RT_OK;
    while (status == RT_OK && !stop) {
        const double patience = duty->taken > 0 ? idle_seconds : first_seconds;
        const double until = duty->at_rest ? (double)INFINITY : rt_engine_now(engine) + patience;
        status = rt_engine_wait(engine, has_work, duty, until, &why);
        if (status == RT_OK)
            status = work(duty, &stop, &why);
    }
    if (status == RT_OK)
        status = settle(duty, &why);
    part_ways(duty, status, &why);
    if (status != RT_OK)
        rt_fail(err, status, "%s", why.text);
    return status;
}
