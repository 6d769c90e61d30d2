/* Packs rows of a batch for another node, and unpacks them there. */
#include "run/exchange/samples.h"

#include "base/memory.h"
#include "learn/fit.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

size_t rt_sample_layout_rows(const struct rt_sample_layout *layout, uint64_t number, size_t *first) {
    const size_t batch = layout->batch < layout->examples ? layout->batch : layout->examples;
    const uint64_t per_epoch = rt_batches_count(layout->examples, batch, layout->drop_last);
    const uint64_t left = layout->examples - (number - 1) % per_epoch * batch;
    return rt_slices_rows(&layout->part, (size_t)(left < batch ? left : batch), first);
}

static size_t samples_target_floats(const struct rt_sample_layout *layout) {
    switch (layout->target) {
    case RT_TARGET_CLASSES:
        return 1;
    case RT_TARGET_VALUES:
        return layout->outputs;
    case RT_TARGET_INPUT:
        break;
    }
    return 0;
}

size_t rt_sample_layout_row_floats(const struct rt_sample_layout *layout) {
    return layout->inputs + samples_target_floats(layout);
}

size_t rt_sample_layout_floats(const struct rt_sample_layout *layout) {
    const size_t rows = rt_slices_most_rows(&layout->part, layout->batch),
                 row = rt_sample_layout_row_floats(layout);
    return row && rows > SIZE_MAX / sizeof(float) / row ? SIZE_MAX : rows * row;
}

/* ---- the master's end ---------------------------------------------------------------------------------- */

struct rt_sample_sender {
    struct rt_sample_sender_settings settings;
    struct rt_batches batches;
    struct rt_device device; /* of one thread: the one that takes the events */
    int32_t *classes;
    float *memory;
    size_t floats; /* of a send buffer */
    uint64_t
        *count; /* [nodes] send buffers packed for a node; send buffer n is in place n % RT_TICKETS_AHEAD */
};

struct rt_sample_sender_settings rt_sample_sender_of(const struct rt_training_config *config,
                                                     struct rt_slice_part part, size_t nodes) {
    const size_t count = config->set->count, batch = config->settings.batch;
    return (struct rt_sample_sender_settings){.layout = {.examples = count,
                                                         .batch = batch < count ? batch : count,
                                                         .part = part,
                                                         .drop_last = config->settings.drop_last,
                                                         .inputs = config->network->inputs,
                                                         .outputs = config->network->outputs,
                                                         .target = config->target},
                                              .set = config->set,
                                              .scaling = config->scaling,
                                              .kernels = config->network->device.kernels,
                                              .seed = config->settings.seed,
                                              .shuffle = config->settings.shuffle,
                                              .nodes = nodes};
}

rt_status rt_sample_sender_create(const struct rt_sample_sender_settings *settings,
                                  struct rt_sample_sender **sender, struct rt_error *err) {
    const struct rt_sample_layout *layout = &settings->layout;
    if (layout->target == RT_TARGET_CLASSES && layout->outputs > RT_SAMPLE_CLASSES)
        return rt_fail(err, RT_BAD_INPUT, "data.send: %zu classes are more than can be sent",
                       layout->outputs);
    struct rt_sample_sender *made;
    rt_status status = rt_alloc(1, sizeof *made, "examples on their way", &made, err);
    if (status != RT_OK)
        return status;
    made->settings = *settings;
    made->floats = rt_sample_layout_floats(layout);
    made->device.kernels = settings->kernels;
    const size_t buffers = settings->nodes * RT_TICKETS_AHEAD;
    status = made->floats > SIZE_MAX / sizeof(float) / buffers
                 ? rt_fail(err, RT_NO_MEMORY, "the examples of a batch are too many to be sent")
                 : rt_floats_create(made->floats * buffers, "examples on their way", &made->memory, err);
    if (status == RT_OK)
        status = rt_alloc(layout->batch, sizeof *made->classes, "examples on their way", &made->classes, err);
    if (status == RT_OK)
        status = rt_alloc(settings->nodes, sizeof *made->count, "examples on their way", &made->count, err);
    if (status == RT_OK)
        status = rt_pool_create(1, 0, &made->device.pool, err);
    if (status == RT_OK)
        status = rt_batches_create(settings->seed, layout->examples, layout->batch, settings->shuffle,
                                   layout->drop_last, &made->batches, err);
    if (status != RT_OK)
        rt_sample_sender_destroy(made);
    else
        *sender = made;
    return status;
}

void rt_sample_sender_destroy(struct rt_sample_sender *sender) {
    if (!sender)
        return;
    rt_batches_destroy(&sender->batches);
    if (sender->device.pool)
        rt_pool_destroy(sender->device.pool);
    free(sender->memory);
    free(sender->classes);
    free(sender->count);
    free(sender);
}

size_t rt_sample_sender_pack(struct rt_sample_sender *sender, uint16_t rank, uint64_t batch,
                             struct rt_slice_part part, const float **floats) {
    const struct rt_sample_sender_settings *settings = &sender->settings;
    const struct rt_sample_layout *layout = &settings->layout;
    struct rt_sample_layout theirs = *layout;
    theirs.part = part;
    size_t first;
    const size_t rows = rt_sample_layout_rows(&theirs, batch, &first);
    if (rows == 0)
        return 0;
    struct rt_batch examples;
    rt_batches_at(&sender->batches, batch, &examples);
    const uint32_t *indices = examples.examples + first;
    const size_t place = rank * (size_t)RT_TICKETS_AHEAD + sender->count[rank]++ % RT_TICKETS_AHEAD;
    float *x = sender->memory + place * sender->floats, *targets = x + rows * layout->inputs;
    rt_dataset_inputs(settings->set, settings->scaling, &sender->device, indices, rows, x);
    if (layout->target == RT_TARGET_VALUES)
        rt_dataset_targets(settings->set, settings->scaling, layout->target, indices, rows, NULL, targets);
    if (layout->target == RT_TARGET_CLASSES) {
        rt_dataset_targets(settings->set, settings->scaling, layout->target, indices, rows, sender->classes,
                           NULL);
        for (size_t i = 0; i < rows; i++)
            targets[i] = (float)sender->classes[i];
    }
    *floats = x;
    return rows * rt_sample_layout_row_floats(layout);
}

void rt_sample_sender_send(struct rt_sample_sender *sender, struct rt_coordinator *coordinator, uint16_t rank,
                           uint64_t batch, struct rt_slice_part part) {
    const float *floats = NULL;
    const size_t count = rt_sample_sender_pack(sender, rank, batch, part, &floats);
    if (count > 0)
        rt_coordinator_send_samples(coordinator, rank, batch, floats, count);
}

/* ---- the worker's end ---------------------------------------------------------------------------------- */

/* A ticket's rows are used while those of the tickets that follow it may come. */
enum { PLACES = RT_TICKETS_AHEAD + 1 };

struct rt_sample_receiver {
    struct rt_sample_layout layout;
    size_t floats;    /* of a place */
    float *memory;    /* [PLACES][floats] */
    int32_t *classes; /* of the rows that are in use */
    /* Guarded by the engine. Parcels, ever rising; send buffer n is in place n % PLACES. */
    uint64_t complete, used; /* that are here; that are in use or were */
    uint64_t batch[PLACES];
    size_t at; /* floats of the next one that have come */
};

rt_status rt_sample_receiver_create(const struct rt_sample_layout *layout, struct rt_sample_receiver **box,
                                    struct rt_error *err) {
    struct rt_sample_receiver *made;
    rt_status status = rt_alloc(1, sizeof *made, "examples that are sent", &made, err);
    if (status != RT_OK)
        return status;
    made->layout = *layout;
    made->floats = rt_sample_layout_floats(layout);
    status = made->floats > SIZE_MAX / sizeof(float) / PLACES
                 ? rt_fail(err, RT_NO_MEMORY, "the examples of a batch are too many to be sent")
                 : rt_floats_create(made->floats * PLACES, "examples that are sent", &made->memory, err);
    if (status == RT_OK)
        status =
            rt_alloc(layout->batch, sizeof *made->classes, "examples that are sent", &made->classes, err);
    if (status != RT_OK)
        rt_sample_receiver_destroy(made);
    else
        *box = made;
    return status;
}

void rt_sample_receiver_destroy(struct rt_sample_receiver *box) {
    if (!box)
        return;
    free(box->memory);
    free(box->classes);
    free(box);
}

rt_status rt_sample_receiver_take(struct rt_sample_receiver *box, uint64_t batch, uint64_t at,
                                  const float *floats, size_t count, struct rt_error *err) {
    size_t first;
    const size_t place = (size_t)(box->complete % PLACES);
    if (batch == 0 || box->complete - box->used >= RT_TICKETS_AHEAD)
        return rt_fail(err, RT_BAD_INPUT, "examples of batch %llu came when there was no room for them",
                       (unsigned long long)batch);
    const size_t rows = rt_sample_layout_rows(&box->layout, batch, &first),
                 all = rows * rt_sample_layout_row_floats(&box->layout);
    if (at != box->at || (at > 0 && batch != box->batch[place]) || count == 0 || count > all - box->at)
        return rt_fail(err, RT_BAD_INPUT,
                       "examples of batch %llu are not those that come next: %zu floats from %llu on",
                       (unsigned long long)batch, count, (unsigned long long)at);
    memcpy(box->memory + place * box->floats + box->at, floats, count * sizeof *floats);
    box->batch[place] = batch;
    box->at += count;
    if (box->at == all) {
        box->complete++;
        box->at = 0;
    }
    return RT_OK;
}

static bool samples_has_come(void *self) {
    const struct rt_sample_receiver *box = self;
    return box->complete > box->used;
}

static rt_status samples_take_classes(const struct rt_sample_layout *layout, const float *targets,
                                      size_t rows, int32_t *classes, struct rt_error *err) {
    for (size_t i = 0; i < rows; i++) {
        const float value = targets[i];
        if (!(value >= 0 && value < (float)layout->outputs && value < (float)RT_SAMPLE_CLASSES) ||
            value != (float)(int32_t)value)
            return rt_fail(err, RT_FAILED, "the master sent an example of class %g, and there are %zu",
                           (double)value, layout->outputs);
        classes[i] = (int32_t)value;
    }
    return RT_OK;
}

rt_status rt_sample_targets(const struct rt_sample_layout *layout, const float *x, size_t rows,
                            int32_t *classes, struct rt_targets *targets, struct rt_error *err) {
    const float *sent = layout->target == RT_TARGET_INPUT ? x : x + rows * layout->inputs;
    *targets = (struct rt_targets){0};
    if (layout->target == RT_TARGET_CLASSES) {
        targets->classes = classes;
        return samples_take_classes(layout, sent, rows, classes, err);
    }
    targets->values = sent;
    for (size_t i = 0; i < rows * layout->outputs; i++)
        if (!rt_fit_value(layout->loss, sent[i]))
            return rt_fail(err, RT_FAILED, "the master sent an example with the target value %g%s",
                           (double)sent[i],
                           layout->loss && layout->loss->shares ? ", which is not between 0 and 1" : "");
    return RT_OK;
}

bool rt_sample_receiver_has(const struct rt_sample_receiver *box, uint64_t batch) {
    size_t first;
    return box->complete > box->used || rt_sample_layout_rows(&box->layout, batch, &first) == 0;
}

rt_status rt_sample_receiver_use(struct rt_sample_receiver *box, uint64_t batch,
                                 struct rt_received_rows *rows, struct rt_error *err) {
    *rows = (struct rt_received_rows){0};
    const size_t count = rt_sample_layout_rows(&box->layout, batch, &rows->first);
    if (count == 0)
        return RT_OK;
    const size_t place = (size_t)(box->used++ % PLACES);
    if (box->batch[place] != batch)
        return rt_fail(err, RT_FAILED, "the master sent examples of batch %llu for a ticket for batch %llu",
                       (unsigned long long)box->batch[place], (unsigned long long)batch);
    rows->x = box->memory + place * box->floats;
    return rt_sample_targets(&box->layout, rows->x, count, box->classes, &rows->targets, err);
}

rt_status rt_sample_receiver_rows(struct rt_sample_receiver *box, struct rt_engine *engine, uint64_t batch,
                                  struct rt_received_rows *rows, struct rt_error *err) {
    RT_TRY(rt_engine_wait(engine, samples_has_come, box, (double)INFINITY, err));
    rt_engine_enter(engine);
    const rt_status status = rt_sample_receiver_use(box, batch, rows, err);
    rt_engine_leave(engine);
    return status;
}
