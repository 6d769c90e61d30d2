/*
 * The exchange in groups; see nested.h.
 *
 * A step of the executor has two loads for each span: the parameters go down, from the first span on, then
 * the gradients come up, from the last one down. A member begins to receive when it begins with a ticket, and
 * sends a span when its gradient is there. The proxy sends a span down when its client has it, and pushes a
 * span when the sum has come. That all happens inside the engine, so that nothing but the proxy's own
 * gradient waits for the thread that computes; the two are at most one step apart, because a new step needs
 * what the one before has led to.
 *
 * Why the client may receive parameters in place: loads end in their order, so when the last sum is there,
 * all parameters of the step have gone down; and the step ends only after the proxy's own thread has ended
 * it.
 */
#include "exchange/nested.h"

#include "base/cores.h"
#include "base/memory.h"
#include <stdlib.h>

struct rt_nested {
    struct rt_nested_settings settings;
    struct rt_replica replica;
    struct rt_executor *executor;
    struct rt_engine *engine;
    struct rt_engine_part client; /* the part of the proxy's client */
    size_t spans;

    /* Guarded by the engine; all of them ever rising. */
    uint64_t begun, ended; /* steps, by the thread that computes */
    uint64_t ready;        /* spans whose own gradient is there */
    uint64_t batch[2];     /* of the last two steps that have begun */

    /* The same, of the proxy. */
    uint64_t step; /* steps that have been pushed: the number of the one under way */
    bool open;     /* its client has begun with that one */
    size_t pushed; /* spans of it */
    bool settles, rests;

    uint64_t awaited; /* loads, in a wait */
};

/* ---- life ---------------------------------------------------------------------------------------------- */

static rt_status make_load(const struct rt_nested *nested, size_t span, bool down,
                           struct rt_load_settings *load, struct rt_error *err) {
    const struct rt_span *range = &nested->replica.spans[span];
    const struct rt_tree_form form = {.shape = RT_SHAPE_STAR, .root_contributes = true};
    *load = (struct rt_load_settings){.gradient = nested->replica.gradient + range->first,
                                      .params = nested->replica.params + range->first,
                                      .count = range->count,
                                      .offset = range->first};
    return down ? rt_collective_broadcast(nested->settings.team, &form, 0, range->count, RT_BUFFER_PARAMS,
                                          &load->collective, err)
                : rt_collective_reduce(nested->settings.team, &form, 0, range->count, &load->collective, err);
}

static rt_status make_carrier(struct rt_nested *nested, struct rt_error *err) {
    const size_t spans = nested->spans;
    struct rt_load_settings *loads;
    rt_status status = rt_alloc(2 * spans, sizeof *loads, "the loads of a group", &loads, err);
    if (status != RT_OK)
        return status;
    for (size_t i = 0; i < spans && status == RT_OK; i++)
        status = make_load(nested, i, true, &loads[i], err);
    for (size_t i = 0; i < spans && status == RT_OK; i++)
        status = make_load(nested, spans - 1 - i, false, &loads[spans + i], err);
    if (status != RT_OK) {
        for (size_t i = 0; i < 2 * spans; i++)
            rt_collective_deinit(&loads[i].collective);
    } else {
        const struct rt_executor_settings settings = {.comm = nested->settings.comm,
                                                      .loads = loads,
                                                      .load_count = 2 * spans,
                                                      .segment_floats = nested->settings.segment_floats};
        status = rt_executor_create(&settings, &nested->executor, err);
    }
    free(loads);
    return status;
}

rt_status rt_nested_create(const struct rt_nested_settings *settings, struct rt_nested **nested,
                           struct rt_error *err) {
    struct rt_nested *made;
    if (settings->replica->span_count == 0)
        return rt_fail(err, RT_BAD_INPUT, "there are no parameters to exchange");
    rt_status status = rt_alloc(1, sizeof *made, "the exchange of a group", &made, err);
    if (status != RT_OK)
        return status;
    made->settings = *settings;
    made->replica = *settings->replica;
    made->spans = settings->replica->span_count;
    if (settings->client)
        made->client = rt_ps_client_part(settings->client);
    status = make_carrier(made, err);
    made->settings.team = NULL;
    if (status != RT_OK) {
        rt_nested_destroy(made);
        return status;
    }
    *nested = made;
    return RT_OK;
}

void rt_nested_destroy(struct rt_nested *nested) {
    if (!nested)
        return;
    rt_executor_destroy(nested->executor);
    free(nested);
}

/* ---- the side of the events ---------------------------------------------------------------------------- */

static void start_up_to(struct rt_nested *nested, uint64_t loads) {
    while (rt_executor_started(nested->executor) < loads)
        rt_executor_start(nested->executor);
}

/* A member takes the parameters of every step that has begun, and gives what is ready. */
static void go_on_member(struct rt_nested *nested) {
    if (nested->begun > 0)
        start_up_to(nested, nested->begun * nested->spans + nested->ready);
}

/* One step of the proxy as far as it can go; whether it came to its end. */
static bool go_on_step(struct rt_nested *nested) {
    struct rt_ps_client *client = nested->settings.client;
    const size_t spans = nested->spans;
    const uint64_t before = nested->step * 2 * spans, batch = nested->batch[nested->step % 2];
    if (!nested->open)
        rt_ps_client_begin(client, batch);
    nested->open = true;
    if (!rt_ps_client_asks(client))
        return false;
    uint64_t started = rt_executor_started(nested->executor) - before;
    for (; started < spans && rt_ps_client_has(client, (size_t)started); started++)
        rt_executor_start(nested->executor);
    if (started >= spans)
        start_up_to(nested, before + spans + nested->ready - nested->step * spans);
    for (; rt_executor_done(nested->executor) > before + spans + nested->pushed; nested->pushed++)
        rt_ps_client_ready(client, spans - 1 - nested->pushed);
    if (nested->pushed < spans || nested->ended == nested->step)
        return false;
    rt_ps_client_end(client, nested->settings.rows(nested->settings.user, batch));
    nested->step++;
    nested->open = false;
    nested->pushed = 0;
    return true;
}

static void go_on(struct rt_nested *nested) {
    if (!nested->settings.client) {
        go_on_member(nested);
        return;
    }
    while (nested->step < nested->begun && go_on_step(nested))
        ;
    if (nested->settles && !nested->rests && nested->step == nested->begun)
        nested->rests = rt_ps_client_rest(nested->settings.client, false);
}

static bool take_event(void *self, const struct rt_event *event, rt_status *status, struct rt_error *err) {
    struct rt_nested *nested = self;
    const struct rt_engine_part *client = &nested->client;
    if (event->kind == RT_EVENT_CLOSED)
        return false;
    if (!rt_executor_event(nested->executor, event, status, err) &&
        !(client->self && client->event(client->self, event, status, err)))
        return false;
    if (*status == RT_OK)
        go_on(nested);
    return true;
}

static rt_status take_turn(void *self, struct rt_error *err) {
    (void)err;
    go_on(self);
    return RT_OK;
}

/* A server in this process may just have answered. Then it did some work, and will look again itself at what
 * is done here. */
static bool look_again(void *self, rt_status *status, struct rt_error *err) {
    (void)status, (void)err;
    go_on(self);
    return false;
}

/* A member that has given all that it had waits for nobody: its proxy takes gradients when it has its own,
 * and may take its time for that. */
static uint16_t waits_for(const void *self) {
    const struct rt_nested *nested = self;
    if (!nested->client.self && nested->ended == nested->begun)
        return UINT16_MAX;
    const uint16_t member = rt_executor_waits_for(nested->executor);
    return member != UINT16_MAX || !nested->client.self ? member
                                                        : nested->client.waits_for(nested->client.self);
}

struct rt_engine_part rt_nested_part(struct rt_nested *nested) {
    return (struct rt_engine_part){.self = nested,
                                   .event = take_event,
                                   .turn = take_turn,
                                   .work = nested->settings.client ? look_again : NULL,
                                   .waits_for = waits_for};
}

void rt_nested_attach(struct rt_nested *nested, struct rt_engine *engine) {
    nested->engine = engine;
}

/* ---- the side that computes ---------------------------------------------------------------------------- */

static rt_status wait_until(struct rt_nested *nested, bool (*test)(void *self), struct rt_error *err) {
    return rt_engine_wait_as(nested->engine, nested->settings.states, RT_STATE_WAIT_BARRIER, test, nested,
                             err);
}

static rt_status begin(void *self, const struct rt_ticket *ticket, struct rt_error *err) {
    struct rt_nested *nested = self;
    rt_engine_enter(nested->engine);
    nested->batch[nested->begun++ % 2] = ticket->batch;
    nested->settles = nested->rests = false;
    rt_engine_leave(nested->engine);
    return rt_engine_status(nested->engine, err);
}

/* The proxy has what it sends on; a member what has come. */
static bool has_span(void *self) {
    const struct rt_nested *nested = self;
    return (nested->settings.client ? rt_executor_started(nested->executor)
                                    : rt_executor_done(nested->executor)) >= nested->awaited;
}

static void need(void *self, size_t span) {
    struct rt_nested *nested = self;
    struct rt_error err;
    nested->awaited = (nested->begun - 1) * 2 * nested->spans + span + 1;
    wait_until(nested, has_span, &err);
}

static void give(struct rt_nested *nested, uint64_t ready, uint64_t ended) {
    rt_engine_enter(nested->engine);
    nested->ready = ready;
    nested->ended = ended;
    rt_engine_leave(nested->engine);
    rt_core_give_way(); /* the exchange may have no other core, and the group waits for what it does now */
}

static void ready(void *self, size_t span) {
    struct rt_nested *nested = self;
    if (nested->settings.options->wfbp)
        give(nested, nested->begun * nested->spans - span, nested->ended);
}

static rt_status end(void *self, const struct rt_done *done, struct rt_error *err) {
    struct rt_nested *nested = self;
    (void)done;
    give(nested, nested->begun * nested->spans, nested->begun);
    return rt_engine_status(nested->engine, err);
}

static bool is_settled(void *self) {
    const struct rt_nested *nested = self;
    return nested->settings.client ? nested->rests
                                   : rt_executor_done(nested->executor) == nested->begun * 2 * nested->spans;
}

static rt_status settle(void *self, struct rt_error *err) {
    struct rt_nested *nested = self;
    rt_engine_enter(nested->engine);
    nested->settles = true;
    rt_engine_leave(nested->engine);
    return wait_until(nested, is_settled, err);
}

static void destroy(void *self) {
    rt_nested_destroy(self);
}

struct rt_exchange rt_nested_face(struct rt_nested *nested) {
    return (struct rt_exchange){.self = nested,
                                .begin = begin,
                                .need = need,
                                .ready = ready,
                                .end = end,
                                .settle = settle,
                                .destroy = destroy};
}
