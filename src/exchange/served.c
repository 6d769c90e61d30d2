/* A worker's steps in an exchange by servers; see served.h. */
#include "exchange/served_inside.h"

#include "base/clones.h"
#include "base/memory.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- making it ----------------------------------------------------------------------------------------- */

static rt_status find_range(const struct rt_served_settings *settings, uint16_t server, struct rt_span *range,
                            struct rt_error *err) {
    const struct rt_replica *replica = settings->replica;
    struct rt_span *owned;
    rt_status status = rt_alloc(RT_MAX_OWNED, sizeof *owned, "the servers' ranges", &owned, err);
    if (status != RT_OK)
        return status;
    const size_t count = rt_way_owned(settings->way, settings->options, settings->roles, server,
                                      replica->spans, replica->span_count, replica->param_count, owned);
    *range = count > 0 ? owned[0] : (struct rt_span){0};
    free(owned);
    return count > 1 ? rt_fail(err, RT_FAILED, "server %u has more than one range", server) : RT_OK;
}

static rt_status open_shop(struct rt_served *served, uint16_t rank, struct rt_error *err) {
    const struct rt_served_settings *settings = &served->settings;
    const struct rt_replica *replica = settings->replica;
    struct rt_shop *shop = &served->shops[rank];
    struct rt_span range;
    char name[32];
    *shop = (struct rt_shop){.served = served, .rank = rank};
    rt_status status = find_range(settings, rank, &range, err);
    if (status == RT_OK)
        status = rt_portions_create(replica->spans, replica->span_count, range.first, range.count,
                                    &shop->portions, &shop->count, err);
    if (status == RT_OK)
        status = rt_alloc(shop->count, sizeof *shop->sends, "what is pushed", &shop->sends, err);
    if (status == RT_OK)
        status = rt_alloc(shop->count, sizeof *shop->receives, "what is fetched", &shop->receives, err);
    if (status == RT_OK)
        status = rt_alloc(shop->count, sizeof *shop->kept, "what is pushed", &shop->kept, err);
    if (status != RT_OK)
        return status;
    shop->first = range.first;
    const struct rt_party *party = settings->party;
    const bool here = rank == party->rank;
    shop->link = !here && rank < party->count ? party->links[rank] : NULL;
    if (here ? !settings->local : !shop->link)
        return rt_fail(err, RT_FAILED, "there is no link to the server on %s", rt_party_name(rank, name));
    if (here) {
        const struct rt_server_local local = rt_shop_local(shop);
        rt_server_attach(settings->local, &local);
    }
    return RT_OK;
}

rt_status rt_served_create(const struct rt_served_settings *settings, struct rt_served **served,
                           struct rt_error *err) {
    struct rt_served *made;
    rt_status status = rt_alloc(1, sizeof *made, "the exchange", &made, err);
    if (status != RT_OK)
        return status;
    made->settings = *settings;
    status = rt_alloc(settings->roles->servers, sizeof *made->shops, "the servers", &made->shops, err);
    if (status == RT_OK)
        status =
            rt_alloc(settings->replica->span_count, sizeof *made->missing, "the spans", &made->missing, err);
    if (status == RT_OK && settings->options->push_every > 1)
        status = rt_floats_create(settings->replica->param_count, "the sum of gradients", &made->sum, err);
    for (uint16_t rank = 0; status == RT_OK && rank < settings->roles->servers; rank++) {
        made->shop_count++;
        status = open_shop(made, rank, err);
    }
    if (status != RT_OK) {
        rt_served_destroy(made);
        return status;
    }
    *served = made;
    return RT_OK;
}

void rt_served_destroy(struct rt_served *served) {
    if (!served)
        return;
    for (size_t i = 0; i < served->shop_count; i++) {
        free(served->shops[i].portions);
        free(served->shops[i].sends);
        free(served->shops[i].receives);
        free(served->shops[i].kept);
    }
    free(served->shops);
    free(served->missing);
    free(served->sum);
    free(served);
}

/* ---- its part in an engine ----------------------------------------------------------------------------- */

static bool take_event(void *self, const struct rt_event *event, rt_status *status, struct rt_error *err) {
    struct rt_served *served = self;
    for (size_t i = 0; i < served->shop_count; i++)
        if (served->shops[i].link == event->link && event->link &&
            rt_shop_event(&served->shops[i], event, status, err))
            return true;
    return false;
}

static rt_status take_turn(void *self, struct rt_error *err) {
    struct rt_served *served = self;
    (void)err;
    for (size_t i = 0; i < served->shop_count; i++)
        rt_shop_go(&served->shops[i]);
    return RT_OK;
}

static uint16_t waits_for(const void *self) {
    const struct rt_served *served = self;
    for (size_t i = 0; i < served->shop_count; i++) {
        const struct rt_shop *shop = &served->shops[i];
        if (shop->link && (shop->asking || shop->sending > 0))
            return shop->rank;
    }
    return UINT16_MAX;
}

struct rt_engine_part rt_served_part(struct rt_served *served) {
    return (struct rt_engine_part){
        .self = served, .event = take_event, .turn = take_turn, .waits_for = waits_for};
}

void rt_served_attach(struct rt_served *served, struct rt_engine *engine) {
    served->engine = engine;
}

static void enter(const struct rt_served *served) {
    if (served->engine)
        rt_engine_enter(served->engine);
}

/* Without an engine there is nobody else to send what can be sent now. */
static void leave(struct rt_served *served) {
    struct rt_error none;
    if (served->engine)
        rt_engine_leave(served->engine);
    else
        take_turn(served, &none);
}

/* ---- waiting ------------------------------------------------------------------------------------------- */

bool rt_served_has(const struct rt_served *served, size_t span) {
    if (served->missing[span] > 0)
        return false;
    for (size_t i = 0; i < served->shop_count; i++) {
        const struct rt_shop *shop = &served->shops[i];
        for (size_t p = 0; p < shop->count; p++)
            if (shop->portions[p].span == span && shop->kept[p])
                return false;
    }
    return true;
}

static bool has_span(void *self) {
    const struct rt_served *served = self;
    return rt_served_has(served, served->span);
}

static bool is_quiet(void *self) {
    const struct rt_served *served = self;
    for (size_t i = 0; i < served->shop_count; i++) {
        const struct rt_shop *shop = &served->shops[i];
        if (shop->errand != RT_ERRAND_NONE || shop->next != RT_ERRAND_NONE || shop->sending > 0 ||
            shop->asking)
            return false;
    }
    return true;
}

static enum rt_state enter_state(const struct rt_served *served, enum rt_state state) {
    struct rt_states *states = served->settings.learning.states;
    if (!states)
        return state;
    const enum rt_state before = states->now;
    rt_states_enter(states, state);
    return before;
}

/* Before a gradient goes: an emulated device has made the sum by then. */
static void catch_up(const struct rt_served *served) {
    if (served->settings.learning.states)
        rt_states_catch_up(served->settings.learning.states);
}

static rt_status wait_until(struct rt_served *served, bool (*test)(void *self), struct rt_error *err) {
    return rt_engine_wait_as(served->engine, served->settings.learning.states, RT_STATE_WAIT_BARRIER, test,
                             served, err);
}

/* ---- steps --------------------------------------------------------------------------------------------- */

static size_t every(int64_t option) {
    return option > 1 ? (size_t)option : 1;
}

static bool is_pushed(const struct rt_served *served) {
    return (served->step + 1) % every(served->settings.options->push_every) == 0;
}

static bool is_fetched_after(const struct rt_served *served) {
    return (served->step + 1) % every(served->settings.options->fetch_every) == 0;
}

/* Inside the engine: what is to be said to all servers next. */
static void send_errand(struct rt_served *served, enum rt_errand errand) {
    for (size_t i = 0; i < served->shop_count; i++)
        served->shops[i].next = errand;
}

static void expect_params(struct rt_served *served) {
    for (size_t i = 0; i < served->shop_count; i++)
        rt_shop_expect(&served->shops[i]);
}

/* Inside the engine: the span's gradient may go. SIZE_MAX: all of them. */
static void keep(struct rt_served *served, size_t span) {
    for (size_t i = 0; i < served->shop_count; i++) {
        struct rt_shop *shop = &served->shops[i];
        for (size_t p = 0; p < shop->count; p++)
            if (span == SIZE_MAX || shop->portions[p].span == span)
                shop->kept[p] = true;
    }
}

RT_CLONES static void add(size_t n, float *restrict sum, const float *restrict term) {
    for (size_t i = 0; i < n; i++)
        sum[i] += term[i];
}

static void add_span(struct rt_served *served, const struct rt_span *span) {
    const float *gradient = served->settings.replica->gradient + span->first;
    const enum rt_state before = enter_state(served, RT_STATE_REDUCE);
    if (served->summed == 0)
        memcpy(served->sum + span->first, gradient, span->count * sizeof(float));
    else
        add(span->count, served->sum + span->first, gradient);
    enter_state(served, before);
}

/* A plain step of the worker's own, until it next has the servers' parameters: w -= rate * gradient. */
static void step_span(struct rt_served *served, const struct rt_span *span) {
    const struct rt_learning *learning = &served->settings.learning;
    const struct rt_replica *replica = served->settings.replica;
    const double factor =
        rt_schedule_factor(learning->schedule, served->ticket, learning->updates, learning->per_epoch);
    const struct rt_optim_step step = {
        .lr = (float)(learning->optim->lr * factor),
        .weight_decay = (float)learning->optim->weight_decay,
        .grad_scale = 1,
        .update = served->ticket,
    };
    const enum rt_state before = enter_state(served, RT_STATE_UPDATE);
    rt_optim_type_find("sgd")->apply(learning->optim, &step, span->count, replica->params + span->first,
                                     replica->gradient + span->first, NULL);
    enter_state(served, before);
}

void rt_served_begin(struct rt_served *served, uint64_t batch) {
    served->ticket = batch;
    served->wants = !served->begun || served->settings.lazy;
    if (!served->begun) {
        served->begun = true;
        served->resting = false;
        served->step = 0;
    }
    rt_served_asks(served);
}

bool rt_served_asks(struct rt_served *served) {
    enter(served);
    if (served->wants && is_quiet(served)) {
        served->wants = false;
        send_errand(served, RT_ERRAND_PULL);
        expect_params(served);
    }
    leave(served);
    return !served->wants;
}

static rt_status begin(void *self, const struct rt_ticket *ticket, struct rt_error *err) {
    struct rt_served *served = self;
    rt_served_begin(served, ticket->batch);
    return rt_engine_status(served->engine, err);
}

static void need(void *self, size_t span) {
    struct rt_served *served = self;
    struct rt_error err;
    served->span = span;
    wait_until(served, has_span, &err);
}

/* Everything that was pushed before has left, or need would not have returned: a new gradient begins. */
static void open_push(struct rt_served *served) {
    served->batch = served->ticket;
    served->complete = false;
    send_errand(served, RT_ERRAND_PUSH);
}

void rt_served_ready(struct rt_served *served, size_t span) {
    const struct rt_replica *replica = served->settings.replica;
    if (served->sum)
        add_span(served, &replica->spans[span]);
    if (!is_fetched_after(served))
        step_span(served, &replica->spans[span]);
    if (!is_pushed(served) || !served->settings.options->wfbp)
        return;
    catch_up(served);
    enter(served);
    if (span + 1 == replica->span_count)
        open_push(served);
    keep(served, span);
    leave(served);
}

static void ready(void *self, size_t span) {
    rt_served_ready(self, span);
}

void rt_served_end(struct rt_served *served, size_t rows) {
    const bool pushed = is_pushed(served), asks = is_fetched_after(served) && !served->settings.lazy;
    served->due += (uint32_t)rows;
    catch_up(served);
    enter(served);
    if (pushed && !served->settings.options->wfbp) {
        open_push(served);
        keep(served, SIZE_MAX);
    }
    if (pushed) {
        served->complete = true;
        served->rows = served->due;
        served->asks = asks;
    } else if (asks) {
        send_errand(served, RT_ERRAND_PULL);
    }
    if (asks)
        expect_params(served);
    leave(served);
    served->summed = pushed ? 0 : served->summed + 1;
    served->due = pushed ? 0 : served->due;
    served->step++;
}

static rt_status end(void *self, const struct rt_done *done, struct rt_error *err) {
    struct rt_served *served = self;
    rt_served_end(served, (size_t)done->rows);
    return rt_engine_status(served->engine, err);
}

/* What has been added up and not pushed goes too; then the worker rests, and has the newest parameters. */
bool rt_served_rest(struct rt_served *served, bool anew) {
    enter(served);
    served->resting = served->resting && !anew;
    const bool quiet = is_quiet(served), rests = quiet && served->resting;
    if (quiet && served->summed > 0) {
        open_push(served);
        keep(served, SIZE_MAX);
        served->complete = true;
        served->asks = false;
        served->rows = served->due;
        served->summed = served->due = 0;
    } else if (quiet && !rests) {
        send_errand(served, RT_ERRAND_REST);
        expect_params(served);
        served->begun = false;
        served->resting = true;
    }
    leave(served);
    return rests;
}

static rt_status settle(void *self, struct rt_error *err) {
    struct rt_served *served = self;
    rt_status status = rt_engine_status(served->engine, err);
    while (status == RT_OK && !rt_served_rest(served, false))
        status = wait_until(served, is_quiet, err);
    return status;
}

static void destroy(void *self) {
    rt_served_destroy(self);
}

struct rt_exchange rt_served_exchange(struct rt_served *served) {
    return (struct rt_exchange){.self = served,
                                .begin = begin,
                                .need = need,
                                .ready = ready,
                                .end = end,
                                .settle = settle,
                                .destroy = destroy};
}

uint64_t rt_served_spread(const struct rt_served *served) {
    return served->spread;
}
