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

#include "base/memory.h"
#include <stdlib.h>

struct rt_nested {
    struct rt_nested_settings settings;
    struct rt_replica replica;
    struct rt_executor *executor;
    struct rt_exchange client; /* the proxy's with the servers; self NULL: a member's */
    size_t spans;

    /* All of them ever rising. */
    uint64_t begun, ended; /* steps, by the worker */
    uint64_t ready;        /* spans whose own gradient is there */
    uint64_t batch[2];     /* of the last two steps that have begun */
    bool settles;          /* is to come to rest */

    /* Of the proxy. */
    uint64_t step; /* steps that have been pushed: the number of the one under way */
    bool open;     /* its client has begun with that one */
    size_t pushed; /* spans of it */
};

/* ---- life ---------------------------------------------------------------------------------------------- */

static rt_status nested_make_load(const struct rt_nested *nested, size_t span, bool down,
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

static rt_status nested_make_executor(struct rt_nested *nested, struct rt_error *err) {
    const size_t spans = nested->spans;
    struct rt_load_settings *loads;
    RT_TRY(rt_alloc(2 * spans, sizeof *loads, "the loads of a group", &loads, err));
    rt_status status = RT_OK;
    for (size_t i = 0; i < spans && status == RT_OK; i++)
        status = nested_make_load(nested, i, true, &loads[i], err);
    for (size_t i = 0; i < spans && status == RT_OK; i++)
        status = nested_make_load(nested, spans - 1 - i, false, &loads[spans + i], err);
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

static rt_status nested_init(struct rt_nested *nested, const struct rt_nested_settings *settings,
                             struct rt_error *err) {
    nested->settings = *settings;
    nested->replica = *settings->replica;
    nested->spans = settings->replica->span_count;
    if (settings->client)
        nested->client = *settings->client;
    const rt_status status = nested_make_executor(nested, err);
    nested->settings.team = NULL;
    nested->settings.client = NULL;
    return status;
}

rt_status rt_nested_create(const struct rt_nested_settings *settings, struct rt_nested **nested,
                           struct rt_error *err) {
    struct rt_nested *made;
    if (settings->replica->span_count == 0)
        return rt_fail(err, RT_BAD_INPUT, "there are no parameters to exchange");
    RT_TRY(rt_alloc(1, sizeof *made, "the exchange of a group", &made, err));
    RT_FINISH_CREATE(nested_init(made, settings, err), made, rt_nested_destroy, nested);
}

void rt_nested_destroy(struct rt_nested *nested) {
    if (!nested)
        return;
    rt_executor_destroy(nested->executor);
    free(nested);
}

/* ---- events -------------------------------------------------------------------------------------------- */

static bool nested_is_proxy(const struct rt_nested *nested) {
    return nested->client.self != NULL;
}

/* The client sends what can be sent. */
static void nested_turn_client(struct rt_nested *nested) {
    struct rt_error none;
    (void)nested->client.part.turn(nested->client.self, &none);
}

static void nested_start_up_to(struct rt_nested *nested, uint64_t loads) {
    while (rt_executor_started(nested->executor) < loads)
        rt_executor_start(nested->executor);
}

/* A member takes the parameters of every step that has begun, and gives what is ready. */
static void nested_go_on_member(struct rt_nested *nested) {
    if (nested->begun > 0)
        nested_start_up_to(nested, nested->begun * nested->spans + nested->ready);
}

static void nested_begin_step(struct rt_nested *nested, uint64_t batch) {
    nested->open = true;
    nested->client.begin(nested->client.self, &(struct rt_ticket){.batch = batch, .parts = 1});
    nested_turn_client(nested);
}

/* The group's sum of a span is there. */
static void nested_push(struct rt_nested *nested, size_t span) {
    if (!nested->client.give(nested->client.self, span))
        return;
    nested->client.ready(nested->client.self, span);
    nested_turn_client(nested);
}

static void nested_end_step(struct rt_nested *nested, uint64_t batch) {
    const struct rt_done done = {.batch = batch, .rows = nested->settings.rows(nested->settings.user, batch)};
    nested->client.end(nested->client.self, &done);
    nested_turn_client(nested);
    nested->step++;
    nested->open = false;
    nested->pushed = 0;
}

/* One step of the proxy as far as it can go; whether it came to its end. */
static bool nested_go_on_step(struct rt_nested *nested) {
    const struct rt_exchange *client = &nested->client;
    const size_t spans = nested->spans;
    const uint64_t before = nested->step * 2 * spans, batch = nested->batch[nested->step % 2];
    if (!nested->open)
        nested_begin_step(nested, batch);
    uint64_t started = rt_executor_started(nested->executor) - before;
    for (; started < spans && client->has(client->self, (size_t)started); started++)
        rt_executor_start(nested->executor);
    if (started >= spans)
        nested_start_up_to(nested, before + spans + nested->ready - nested->step * spans);
    for (; rt_executor_done(nested->executor) > before + spans + nested->pushed; nested->pushed++)
        nested_push(nested, spans - 1 - nested->pushed);
    if (nested->pushed < spans || nested->ended == nested->step)
        return false;
    nested_end_step(nested, batch);
    return true;
}

static void nested_go_on(struct rt_nested *nested) {
    if (!nested_is_proxy(nested)) {
        nested_go_on_member(nested);
        return;
    }
    while (nested->step < nested->begun && nested_go_on_step(nested))
        ;
    if (nested->settles && nested->step == nested->begun)
        nested->client.rest(nested->client.self, false);
    nested_turn_client(nested);
}

static bool nested_event(void *self, const struct rt_event *event, rt_status *status, struct rt_error *err) {
    struct rt_nested *nested = self;
    if (event->kind == RT_EVENT_CLOSED)
        return false;
    if (!rt_executor_event(nested->executor, event, status, err) &&
        !(nested_is_proxy(nested) && nested->client.part.event(nested->client.self, event, status, err)))
        return false;
    if (*status == RT_OK)
        nested_go_on(nested);
    return true;
}

static rt_status nested_turn(void *self, struct rt_error *err) {
    (void)err;
    nested_go_on(self);
    return RT_OK;
}

/* A server in this process may just have answered. Then it did some work, and will look again itself at what
 * is done here. */
static bool nested_look_again(void *self, rt_status *status, struct rt_error *err) {
    (void)status, (void)err;
    nested_go_on(self);
    return false;
}

/* A member that has sent all its gradients waits for no rank: its proxy receives them when its own gradient
 * is ready, which may take long. */
static uint16_t nested_waits_for(const void *self) {
    const struct rt_nested *nested = self;
    if (!nested_is_proxy(nested) && nested->ended == nested->begun)
        return UINT16_MAX;
    const uint16_t member = rt_executor_waits_for(nested->executor);
    return member != UINT16_MAX || !nested_is_proxy(nested)
               ? member
               : nested->client.part.waits_for(nested->client.self);
}

/* ---- a worker's steps ---------------------------------------------------------------------------------- */

static void nested_begin(void *self, const struct rt_ticket *ticket) {
    struct rt_nested *nested = self;
    nested->batch[nested->begun++ % 2] = ticket->batch;
    nested->settles = false;
}

/* The proxy has what it sends on; a member what has come. */
static bool nested_has(const void *self, size_t span) {
    const struct rt_nested *nested = self;
    const uint64_t loads =
        nested_is_proxy(nested) ? rt_executor_started(nested->executor) : rt_executor_done(nested->executor);
    return loads >= (nested->begun - 1) * 2 * nested->spans + span + 1;
}

static void nested_ready(void *self, size_t span) {
    struct rt_nested *nested = self;
    nested->ready = nested->begun * nested->spans - span;
}

static void nested_end(void *self, const struct rt_done *done) {
    struct rt_nested *nested = self;
    (void)done;
    nested->ready = nested->begun * nested->spans;
    nested->ended = nested->begun;
}

static void nested_rest(void *self, bool anew) {
    struct rt_nested *nested = self;
    (void)anew;
    nested->settles = true;
}

static bool nested_rests(const void *self) {
    const struct rt_nested *nested = self;
    if (!nested_is_proxy(nested))
        return rt_executor_done(nested->executor) == nested->begun * 2 * nested->spans;
    return nested->settles && nested->step == nested->begun && nested->client.rests(nested->client.self);
}

static bool nested_give(void *self, size_t span) {
    const struct rt_nested *nested = self;
    (void)span;
    return nested->settings.options->wfbp;
}

struct rt_exchange rt_nested_exchange(struct rt_nested *nested) {
    return (struct rt_exchange){.self = nested,
                                .part = {.self = nested,
                                         .event = nested_event,
                                         .turn = nested_turn,
                                         .work = nested_is_proxy(nested) ? nested_look_again : NULL,
                                         .waits_for = nested_waits_for},
                                .begin = nested_begin,
                                .has = nested_has,
                                .ready = nested_ready,
                                .end = nested_end,
                                .rest = nested_rest,
                                .rests = nested_rests,
                                .give = nested_give,
                                .urgent = true};
}
