/* From a ticket to a gradient: the slices of a worker's rows, the gates between layers and exchange, clocks.
 */
#include "run/exchange/replica.h"

#include "base/clock.h"
#include "base/memory.h"
#include "learn/step.h"
#include <stdlib.h>
#include <string.h>

struct rt_net_replica {
    struct rt_net_replica_settings settings;
    struct rt_replica base;
    struct rt_batches batches;
    struct rt_gradient_work work;
    struct rt_slices slices;
    struct rt_span *spans;
    size_t *span_of; /* [layers] */
    struct rt_engine *engine;

    /* Of the ticket under way. */
    struct rt_blocking_exchange *exchange;
    size_t needed, ready; /* spans that have been needed, from the first; spans that are ready */

    struct rt_states states;
    bool timed;          /* a ticket has come */
    double apart_before; /* seconds that had been counted apart by then */
    uint64_t samples;
};

/* ---- clocks ---- */

enum rt_state rt_net_replica_enter(struct rt_net_replica *replica, enum rt_state state) {
    return rt_states_swap(&replica->states, state);
}

struct rt_states *rt_net_replica_states(struct rt_net_replica *replica) {
    return &replica->states;
}

double rt_net_replica_apart(const struct rt_net_replica *replica) {
    return replica->timed ? replica->states.apart - replica->apart_before : 0;
}

void rt_net_replica_set_apart(struct rt_net_replica *replica, bool is_apart) {
    rt_states_set_apart(&replica->states, is_apart, true);
}

static double replica_now(const struct rt_net_replica *replica) {
    return replica->settings.endpoint ? rt_endpoint_now(replica->settings.endpoint) : rt_clock_wall();
}

static double replica_emulated_now(void *self) {
    return replica_now(self);
}

/* The exchange goes on meanwhile. */
static void replica_emulated_sleep(void *self, double until) {
    const struct rt_net_replica *replica = self;
    struct rt_error ignored; /* the exchange says it too */
    if (replica->engine)
        (void)rt_engine_wait(replica->engine, NULL, NULL, until, &ignored);
}

/* Time before the first ticket does not count as training. */
static void replica_start_clock(struct rt_net_replica *replica) {
    rt_states_start(&replica->states, replica->settings.between);
    rt_states_emulate(&replica->states, &(struct rt_emulation){.pace = replica->settings.pace,
                                                               .self = replica,
                                                               .now = replica_emulated_now,
                                                               .sleep = replica_emulated_sleep});
    rt_states_set_apart(&replica->states, true, false);
}

static void replica_ended(void *self, enum rt_state state) {
    rt_net_replica_enter(self, state == RT_STATE_FORWARD ? RT_STATE_BACKWARD : RT_STATE_FORWARD);
}

/* Publishes what was computed so far, if there are other nodes. */
static void replica_show(struct rt_net_replica *replica) {
    if (replica->settings.endpoint)
        rt_states_catch_up(&replica->states);
}

/* ---- gates ---- */

static void replica_need_spans(struct rt_net_replica *replica, size_t end) {
    if (replica->needed >= end)
        return;
    replica_show(replica);
    while (replica->needed < end)
        rt_blocking_need(replica->exchange, replica->needed++);
}

static void replica_before_layer(void *self, size_t layer) {
    struct rt_net_replica *replica = self;
    struct rt_network *network = replica->settings.network;
    replica_need_spans(replica, replica->span_of[layer] + 1);
    if (network->blocks.prepared)
        rt_model_prepare_layer(network->model, &network->device, &network->blocks, layer);
}

static void replica_end_span(struct rt_net_replica *replica) {
    const size_t k = replica->ready++;
    rt_blocking_ready(replica->exchange, replica->base.rising ? k : replica->base.span_count - 1 - k);
}

static void replica_after_layer(void *self, size_t layer) {
    struct rt_net_replica *replica = self;
    const struct rt_model *model = replica->settings.network->model;
    const struct rt_span *span = &replica->spans[replica->span_of[layer]];
    const size_t first = model->param_at[layer], count = model->layers[layer]->param_count;
    rt_slices_end_span(&replica->slices, first, count);
    if (replica->base.rising ? first + count != span->first + span->count : first != span->first)
        return;
    replica_show(replica);
    replica_end_span(replica);
}

/* ---- a ticket ---- */

static rt_status replica_compute_slices(struct rt_net_replica *replica, const struct rt_batch *batch,
                                        struct rt_gradient_order *order, struct rt_gradient_sums *sums,
                                        struct rt_error *err) {
    const struct rt_slice_part *part = &replica->settings.part;
    const uint32_t slices = part->run.count, all = part->all;
    struct rt_layer_watch watch = {
        .self = replica, .before = replica_before_layer, .rising = replica->base.rising};
    order->watch = &watch;
    rt_slices_reset(&replica->slices);
    for (uint32_t k = 0; k < slices; k++) {
        const uint32_t v = part->run.first + k;
        order->first = rt_slices_row(batch->rows, all, v);
        order->end = rt_slices_row(batch->rows, all, v + 1);
        if (order->first == order->end)
            continue;
        const bool last = k + 1 == slices;
        watch.after = last ? replica_after_layer : NULL;
        /* Slices without rows get zeros, once the exchange is done with the gradient. */
        if (replica->slices.done < k)
            replica_need_spans(replica, replica->base.span_count);
        order->gradient = rt_slices_block(&replica->slices, k);
        rt_status status = rt_gradient_work_run(&replica->work, order, sums, err);
        if (status != RT_OK)
            return status;
        watch.before = NULL;
        if (last)
            rt_slices_end_spans(&replica->slices);
        else
            rt_slices_end(&replica->slices);
    }
    return RT_OK;
}

/* The gradient of the rows first..end of the batch. */
static rt_status replica_compute_rows(struct rt_net_replica *replica, const struct rt_ticket *ticket,
                                      const struct rt_batch *batch, size_t first, size_t end,
                                      struct rt_done *done, struct rt_error *err) {
    const struct rt_net_replica_settings *settings = &replica->settings;
    struct rt_blocks *blocks = &settings->network->blocks;
    struct rt_received_rows sent = {0};
    struct rt_gradient_sums sums = {0};
    struct rt_gradient_order order = {.update = ticket->batch,
                                      .batch = batch,
                                      .scale = 1.0f / (float)(settings->sum ? end - first : batch->rows)};
    if (!settings->set) {
        rt_net_replica_enter(replica, RT_STATE_WAIT_DATA);
        rt_status status = settings->rows(settings->user, ticket->batch, first, end - first, &sent, err);
        if (status != RT_OK)
            return status;
        rt_net_replica_enter(replica, RT_STATE_FORWARD);
        order.sent = &sent;
    }
    blocks->prepared_valid = blocks->prepared != NULL; /* each layer is, before it is used */
    rt_status status = replica_compute_slices(replica, batch, &order, &sums, err);
    blocks->prepared_valid = false;
    replica_show(replica);
    done->loss = sums.loss;
    done->correct = sums.correct;
    return status;
}

static rt_status replica_compute(void *self, const struct rt_ticket *ticket,
                                 struct rt_blocking_exchange *exchange, struct rt_done *done,
                                 struct rt_error *err) {
    struct rt_net_replica *replica = self;
    struct rt_batch batch;
    if (!replica->timed) {
        rt_net_replica_set_apart(replica, false);
        replica->apart_before = replica->states.apart;
        replica->timed = true;
    }
    rt_states_enter(&replica->states, RT_STATE_FORWARD);
    rt_states_at_update(&replica->states, ticket->batch);
    rt_batches_at(&replica->batches, ticket->batch, &batch);
    size_t first;
    const size_t rows = rt_slices_rows(&replica->settings.part, batch.rows, &first), end = first + rows;
    *done = (struct rt_done){.batch = ticket->batch, .rows = rows};
    replica->exchange = exchange;
    replica->needed = 0;
    replica->ready = 0;
    rt_status status = RT_OK;
    if (first < end)
        status = replica_compute_rows(replica, ticket, &batch, first, end, done, err);
    if (status == RT_OK && replica->ready < replica->base.span_count) {
        /* The last slice has no rows, or none has any: zeros are added as for any other slice, once the
         * exchange is done with the previous gradient. */
        replica_need_spans(replica, replica->base.span_count);
        if (first == end)
            rt_slices_reset(&replica->slices);
        (void)rt_slices_block(&replica->slices, replica->settings.part.run.count);
        while (replica->ready < replica->base.span_count)
            replica_end_span(replica);
    }
    replica->samples += done->rows;
    rt_states_enter(&replica->states, replica->settings.between);
    return status;
}

/* ---- life ---- */

/* Top-level layers with parameters, small ones joined. */
static rt_status replica_make_spans(struct rt_net_replica *replica, struct rt_error *err) {
    const struct rt_model *model = replica->settings.network->model;
    rt_status status = rt_alloc(model->count, sizeof *replica->spans, "the spans", &replica->spans, err);
    if (status == RT_OK)
        status = rt_alloc(model->count, sizeof *replica->span_of, "the spans", &replica->span_of, err);
    if (status != RT_OK)
        return status;
    size_t count = 0;
    for (size_t i = 0; i < model->count; i++)
        if (model->layers[i]->param_count > 0)
            replica->spans[count++] = (struct rt_span){model->param_at[i], model->layers[i]->param_count};
    if (count == 0)
        return rt_fail(err, RT_BAD_INPUT, "the model has no parameters: there is nothing to learn");
    count = rt_spans_join(replica->spans, count, replica->settings.bucket);
    for (size_t i = 0, span = 0; i < model->count; i++) {
        while (span + 1 < count && model->param_at[i] >= replica->spans[span + 1].first)
            span++;
        replica->span_of[i] = span;
    }
    replica->base.spans = replica->spans;
    replica->base.span_count = count;
    return RT_OK;
}

/* At least one: also where it has no slices. */
static size_t replica_most_rows(const struct rt_slice_part *part, size_t batch) {
    const size_t rows = rt_slices_most_rows(part, batch);
    return rows > 0 ? rows : 1;
}

static size_t replica_choose_micro(const struct rt_model *model, const struct rt_slice_part *part,
                                   size_t batch, size_t micro) {
    const size_t rows = replica_most_rows(part, batch);
    if (micro == 0)
        micro = rt_train_micro_batch(model, rows);
    return micro < rows ? micro : rows;
}

static rt_status replica_take_memory(struct rt_net_replica *replica, struct rt_error *err) {
    const struct rt_net_replica_settings *settings = &replica->settings;
    struct rt_network *network = settings->network;
    const struct rt_model *model = network->model;
    rt_status status = rt_slices_create(&network->device, model->param_count, replica->settings.part.run,
                                        !settings->computes, &replica->slices, err);
    if (status != RT_OK || !settings->computes)
        return status;
    status = rt_batches_create(settings->seed, settings->count, settings->batch, settings->shuffle,
                               settings->drop_last, &replica->batches, err);
    if (status != RT_OK)
        return status;
    const size_t batch = replica->batches.batch,
                 micro = replica_choose_micro(model, &settings->part, batch, settings->micro_batch);
    const struct rt_gradient_work_settings work = {.network = network,
                                                   .set = settings->set,
                                                   .scaling = settings->scaling,
                                                   .target = settings->target,
                                                   .seed = settings->seed,
                                                   .micro_batch = micro};
    status = rt_gradient_work_create(&work, &replica->work, err);
    replica->work.ended = replica_ended;
    replica->work.self = replica;
    /* Prepared weights repay themselves when several micro-batches use them. */
    if (status == RT_OK && micro < replica_most_rows(&settings->part, batch) && !network->blocks.prepared)
        status =
            rt_floats_create(model->prepared_floats, "the prepared weights", &network->blocks.prepared, err);
    return status;
}

/* Those that are not in the first block. */
static size_t replica_more_pieces(const struct rt_slice_part *part) {
    const size_t pieces = rt_slices_count_pieces(part->run);
    return pieces > 0 ? pieces - 1 : 0;
}

rt_status rt_net_replica_create(const struct rt_net_replica_settings *settings,
                                struct rt_net_replica **replica, struct rt_error *err) {
    struct rt_net_replica *made;
    rt_status status = rt_alloc(1, sizeof *made, "the replica", &made, err);
    if (status != RT_OK)
        return status;
    made->settings = *settings;
    if (!settings->computes)
        made->settings.part = (struct rt_slice_part){.all = 1};
    status = replica_make_spans(made, err);
    if (status == RT_OK)
        status = replica_take_memory(made, err);
    if (status != RT_OK) {
        rt_net_replica_destroy(made);
        return status;
    }
    replica_start_clock(made);
    settings->network->clock = &made->states;
    made->base.self = made;
    made->base.params = settings->network->blocks.params;
    made->base.gradient = made->slices.blocks[0];
    made->base.pieces = made->slices.blocks + 1;
    made->base.more_pieces = replica_more_pieces(&made->settings.part);
    made->base.param_count = settings->network->model->param_count;
    made->base.rising = settings->rising;
    made->base.compute = settings->computes ? replica_compute : NULL;
    *replica = made;
    return RT_OK;
}

void rt_net_replica_destroy(struct rt_net_replica *replica) {
    if (!replica)
        return;
    replica->settings.network->clock = NULL;
    rt_batches_destroy(&replica->batches);
    rt_gradient_work_destroy(&replica->work);
    rt_slices_destroy(&replica->slices);
    free(replica->spans);
    free(replica->span_of);
    free(replica);
}

struct rt_replica *rt_net_replica_base(struct rt_net_replica *replica) {
    return &replica->base;
}

void rt_net_replica_attach(struct rt_net_replica *replica, struct rt_engine *engine) {
    replica->engine = engine;
}

uint64_t rt_net_replica_samples(const struct rt_net_replica *replica) {
    return replica->samples;
}

size_t rt_net_replica_micro_batch(const struct rt_net_replica *replica) {
    return replica->work.micro_batch;
}

size_t rt_net_replica_bytes(const struct rt_model *model, size_t batch, size_t micro_batch,
                            const struct rt_slice_part *part, bool computes) {
    const double params = (double)model->param_count;
    double floats = params;
    if (computes) {
        const size_t micro = replica_choose_micro(model, part, batch, micro_batch);
        floats = params * (double)rt_slices_height(part->run) +
                 (double)rt_model_slot_floats(model, micro, true) +
                 (double)micro * (double)rt_shape_size(&model->in);
        if (micro < replica_most_rows(part, batch))
            floats += (double)model->prepared_floats;
    }
    return floats < 0x1p61 ? (size_t)floats * sizeof(float) : SIZE_MAX;
}
