/*
 * A parameter server at work: it receives, lets the rules judge, applies and answers; see server.h.
 *
 * It makes one decision at a time, when no more events wait, and sees what has come meanwhile before the
 * next: so while it applies one gradient others queue up, and prio has something to choose from.
 */
#include "exchange/server/server_inside.h"

/* ---- receiving ----------------------------------------------------------------------------------------- */

/* Posts one receive for each portion of the range: gradients are received in place, and a peer cannot make
 * the server use more memory. */
static void server_post(struct rt_server *server, struct rt_server_client *client) {
    const size_t count = server->portion_count;
    client->came = 0;
    for (size_t i = 0; client->link && i < count; i++) {
        const struct rt_portion *portion = &server->portions[count - 1 - i];
        struct rt_receive *receive = &client->receives[i];
        *receive = (struct rt_receive){
            .channel = RT_CHANNEL_SECOND,
            .body = client->gradient + (portion->first - server->settings.first),
            .body_room = portion->count * sizeof(float),
        };
        rt_link_receive(client->link, receive);
    }
}

static void server_take_push(struct rt_server *server, size_t worker, uint64_t batch, uint32_t rows) {
    struct rt_server_client *client = &server->clients[worker];
    struct rt_worker_state *state = &server->states[worker];
    client->push = (struct rt_push){
        .worker = worker,
        .batch = batch,
        .base = state->version,
        .clock = state->clock,
        .arrival = ++server->arrivals,
        .rows = rows,
        .gradient = client->gradient,
    };
    client->pushes++;
    client->base = server->shaped ? client->image : NULL;
    if (client->base)
        client->base->users++;
    state->waiting = true;
    state->given = false;
    server->changed = true;
}

/* A worker returns from rest. Its clock is not behind the workers that continued meanwhile, nor ahead of the
 * incomplete round, which now waits for it as well. */
static void server_return_to_work(struct rt_server *server, struct rt_worker_state *state) {
    uint64_t slowest = UINT64_MAX, fastest = 0;
    for (size_t i = 0; i < server->view.workers; i++) {
        const struct rt_worker_state *other = &server->states[i];
        const uint64_t clock = other->clock - (other->gathered ? 1 : 0);
        if (!other->resting && clock < slowest)
            slowest = clock;
        if (clock > fastest)
            fastest = clock;
    }
    const uint64_t level = slowest == UINT64_MAX ? fastest : slowest;
    state->clock = state->clock > level ? state->clock : level;
    state->resting = false;
}

/* A worker that has not started when another goes idle got no batch: it is idle too. */
static void server_rest(struct rt_server *server, struct rt_worker_state *state) {
    state->resting = true;
    state->given = false;
    for (size_t i = 0; i < server->view.workers; i++)
        if (!server->states[i].begun)
            server->states[i].resting = true;
}

static void server_take_pull(struct rt_server *server, size_t worker, bool rests, uint64_t batch) {
    struct rt_worker_state *state = &server->states[worker];
    state->batch = batch;
    if (rests)
        server_rest(server, state);
    else if (state->resting)
        server_return_to_work(server, state);
    state->begun = true;
    state->reading = true;
    server->changed = true;
}

/* A worker's next message: the last one of a group completes a gradient or a request. */
static rt_status server_take_message(struct rt_server *server, size_t worker,
                                     const struct rt_receive *receive, struct rt_error *err) {
    struct rt_server_client *client = &server->clients[worker];
    struct rt_message message;
    rt_status status =
        rt_message_decode(receive->head, receive->head_bytes, receive->body_bytes, &message, err);
    if (status == RT_OK)
        status = rt_server_check(server, worker, &message, err);
    RT_TRY(status);
    if (client->came == 0)
        client->opened = message;
    if (++client->came < server->portion_count)
        return RT_OK;
    client->came = 0;
    if (message.type == RT_MESSAGE_PULL) {
        server_take_pull(server, worker, message.flags & RT_FLAG_REST, message.batch);
        server_post(server, client);
        return RT_OK;
    }
    server_take_push(server, worker, message.batch, message.rows);
    if (message.flags & RT_FLAG_ASK)
        server_take_pull(server, worker, false, 0);
    return RT_OK;
}

/* ---- judging ------------------------------------------------------------------------------------------- */

/* The next of the waiting gradients that were not judged in this pass. Older bases are staler. */
static struct rt_server_client *server_next_waiting(const struct rt_server *server) {
    const bool stalest = server->settings.options->prio == RT_PRIO_STALE;
    struct rt_server_client *next = NULL;
    for (size_t i = 0; i < server->view.workers; i++) {
        struct rt_server_client *client = &server->clients[i];
        if (!server->states[i].waiting || client->looked == server->looks)
            continue;
        const bool earlier = !next || client->push.arrival < next->push.arrival;
        const bool older = next && client->push.base < next->push.base;
        const bool equal = !next || client->push.base == next->push.base;
        if (stalest ? older || (equal && earlier) : earlier)
            next = client;
    }
    return next;
}

/* The worker's gradient has been dealt with: its memory is free for the next. */
static void server_release(struct rt_server *server, size_t worker) {
    struct rt_server_client *client = &server->clients[worker];
    client->push_counted = false;
    if (client->base)
        client->base->users--;
    client->base = NULL;
    if (client->link)
        server_post(server, client);
    else if (server->here.room)
        server->here.room(server->here.self);
}

static void server_gather(struct rt_server *server, const struct rt_push *push) {
    server->counts.gathered++;
    server->states[push->worker].gathered = true;
    server->view.gathered++;
    server->view.rows += push->rows;
}

static void server_carry_out(struct rt_server *server, struct rt_server_client *client,
                             enum rt_verdict verdict) {
    const struct rt_push *push = &client->push, judged = *push; /* its place may be taken by the next */
    const size_t worker = push->worker;
    struct rt_worker_state *state = &server->states[worker];
    if (verdict == RT_VERDICT_APPLY)
        rt_server_apply(server, push);
    else if (verdict == RT_VERDICT_DROP)
        server->counts.dropped++;
    else
        server_gather(server, push);
    state->waiting = false;
    /* A worker whose gradient was dropped from a round keeps its clock: it may read, and its next gradient
     * can join the round. Where nothing is gathered a clock counts batches: so a ring's are the same at all
     * places. */
    const bool gathers = !server->rules->asynchronous || server->settings.options->whole_clock;
    state->clock += verdict != RT_VERDICT_DROP || !gathers;
    server->batches += rt_server_batches_of(server, push);
    if (verdict != RT_VERDICT_GATHER)
        server_release(server, worker);
    if (server->settings.judged)
        server->settings.judged(server->settings.user, &judged, verdict);
}

static void server_end_round(struct rt_server *server) {
    server->view.gathered = 0;
    server->view.rows = 0;
    for (size_t i = 0; i < server->view.workers; i++)
        if (server->states[i].gathered) {
            server->states[i].gathered = false;
            server_release(server, i);
        }
}

/* One decision; whether there was one to make. */
static bool server_judge(struct rt_server *server) {
    struct rt_server_client *client;
    if (server->view.gathered > 0 && server->rules->complete && server->rules->complete(&server->view)) {
        rt_server_apply_round(server);
        server_end_round(server);
        return true;
    }
    server->looks++;
    while ((client = server_next_waiting(server))) {
        client->looked = server->looks;
        server->view.forced = false;
        const enum rt_verdict verdict = server->rules->judge(&server->view, &client->push);
        if (verdict != RT_VERDICT_HOLD) {
            server->counts.forced += server->view.forced;
            server_carry_out(server, client, verdict);
            return true;
        }
        if (!client->push_counted) {
            client->push_counted = true;
            server->states[client->push.worker].held++;
            server->counts.held++;
        }
    }
    return false;
}

/* ---- answering ----------------------------------------------------------------------------------------- */

/* A resting worker does not compute with what it reads, so no bound applies to it. */
static bool server_may_read(struct rt_server *server, size_t worker) {
    return !server->rules->may_read || server->states[worker].resting ||
           server->rules->may_read(&server->view, worker);
}

static bool server_answer_readers(struct rt_server *server) {
    bool answered = false;
    for (size_t i = 0; i < server->view.workers; i++) {
        struct rt_server_client *client = &server->clients[i];
        struct rt_worker_state *state = &server->states[i];
        if (!state->reading || state->waiting || client->sending > 0)
            continue;
        if (server_may_read(server, i)) {
            rt_server_answer(server, i);
            answered = true;
        } else if (!client->read_counted && !state->gathered) { /* a round is no delay */
            client->read_counted = true;
            state->held++;
            server->counts.held++;
        }
    }
    return answered;
}

static void server_take_sent(struct rt_server *server, size_t worker) {
    if (--server->clients[worker].sending == 0)
        server->changed = true;
}

/* ---- its part in an engine ----------------------------------------------------------------------------- */

static bool server_take_event(void *self, const struct rt_event *event, rt_status *status,
                              struct rt_error *err) {
    struct rt_server *server = self;
    const size_t messages = server->view.workers * server->portion_count;
    size_t index;
    if (event->kind == RT_EVENT_RECEIVED &&
        rt_operation_is_among(event->receive, server->receives, sizeof *event->receive, messages, &index))
        *status = server_take_message(server, index / server->portion_count, event->receive, err);
    else if (event->kind == RT_EVENT_SENT &&
             rt_operation_is_among(event->send, server->sends, sizeof *event->send, messages, &index))
        server_take_sent(server, index / server->portion_count);
    else
        return false;
    return true;
}

/* Readers come first: a worker that has pushed gets the parameters right after its own gradient, not those
 * after the next one. */
static bool server_work(void *self, rt_status *status, struct rt_error *err) {
    struct rt_server *server = self;
    (void)status, (void)err;
    if (!server->changed)
        return false;
    server->changed = false;
    const bool answered = server_answer_readers(server);
    const bool judged = server_judge(server);
    server->changed |= judged;
    return answered || judged;
}

bool rt_server_has_work(const struct rt_server *server) {
    return server->changed;
}

static bool server_is_held(const struct rt_worker_state *state) {
    return state->reading || state->waiting || state->gathered;
}

/* A worker that has begun to push owes the rest. If a worker waits because of a bound or a round, the server
 * is waiting for the slowest worker that is not itself waiting. */
static uint16_t server_waits_for(const void *self) {
    const struct rt_server *server = self;
    bool held = false;
    size_t last = server->view.workers;
    for (size_t i = 0; i < server->view.workers; i++) {
        const struct rt_worker_state *state = &server->states[i];
        if (server->clients[i].came > 0)
            return server->clients[i].rank;
        held |= server_is_held(state);
        if (state->begun && !state->resting && !server_is_held(state) &&
            (last == server->view.workers || state->clock < server->states[last].clock))
            last = i;
    }
    return held && last < server->view.workers ? server->clients[last].rank : UINT16_MAX;
}

struct rt_engine_part rt_server_part(struct rt_server *server) {
    return (struct rt_engine_part){
        .self = server, .event = server_take_event, .work = server_work, .waits_for = server_waits_for};
}

/* ---- what its owner sees ------------------------------------------------------------------------------- */

/* No worker pushes or reads where there is nothing to serve. */
void rt_server_start(struct rt_server *server) {
    for (size_t i = 0; i < server->view.workers && server->portion_count > 0; i++)
        server_post(server, &server->clients[i]);
}

const struct rt_server_counts *rt_server_counts(const struct rt_server *server) {
    return &server->counts;
}

uint64_t rt_server_version(const struct rt_server *server) {
    return server->view.version;
}

void rt_server_set_version(struct rt_server *server, uint64_t version) {
    server->view.version = server->batches = version;
    if (server->rules->loaded)
        server->rules->loaded(&server->view, version);
    for (size_t i = 0; i < server->view.workers; i++)
        server->clients[i].push.batch = 0; /* batches may come again */
    for (size_t i = 0; i < server->image_count; i++)
        server->images[i].valid = false;
}

/* ---- the worker in this process ------------------------------------------------------------------------ */

void rt_server_attach(struct rt_server *server, const struct rt_server_local *local) {
    server->here = *local;
}

bool rt_server_has_room(const struct rt_server *server) {
    const struct rt_worker_state *state = &server->states[server->local];
    return !state->waiting && !state->gathered;
}

float *rt_server_room(struct rt_server *server) {
    return server->clients[server->local].gradient;
}

void rt_server_push(struct rt_server *server, uint64_t batch, uint32_t rows) {
    server_take_push(server, server->local, batch, rows);
}

void rt_server_pull(struct rt_server *server, bool rests, uint64_t batch) {
    server_take_pull(server, server->local, rests, batch);
}
