/* The master's examples and its loss. */
#include "train/ring/supply.h"

#include "base/memory.h"
#include "train/fit.h"
#include "train/materials.h"
#include <stdlib.h>
#include <string.h>

/* ---- the loss, of either kind ---- */

static void evaluate(struct rt_supply *supply, const struct rt_targets *targets, size_t rows,
                     size_t batch_rows, const float *y, float *dy, double *sum, size_t *correct) {
    const struct rt_network *network = supply->lesson->network;
    struct rt_progressive *progressive = &supply->progressive;
    if (rt_network_has_accuracy(network, supply->lesson->target == RT_TARGET_VALUES))
        *correct += rt_loss_correct(network->loss, rows, network->outputs, y, targets);
    network->loss->evaluate(&network->device, rows, network->outputs, y, targets, 1.0f / (float)batch_rows,
                            supply->losses, dy);
    for (size_t i = 0; i < rows; i++) {
        const double loss = (double)supply->losses[i];
        *sum += loss;
        progressive->examples++;
        progressive->sum += loss;
        progressive->faded = RT_FADING * progressive->faded + loss;
        progressive->weight = RT_FADING * progressive->weight + 1;
    }
}

/* ---- a data set ---- */

static rt_status batch_of_set(void *self, uint64_t update, size_t *rows, uint32_t *epoch,
                              const uint32_t **examples, struct rt_error *err) {
    (void)err;
    struct rt_supply *supply = self;
    struct rt_batch found;
    rt_batches_at(&supply->batches, update, &found);
    *rows = found.rows;
    *epoch = found.epoch;
    *examples = found.examples;
    return RT_OK;
}

static void inputs_of_set(void *self, const uint32_t *examples, size_t rows, float *x) {
    const struct rt_lesson *lesson = ((struct rt_supply *)self)->lesson;
    rt_dataset_inputs(lesson->set, lesson->scaling, &lesson->network->device, examples, rows, x);
}

static void loss_of_set(void *self, const uint32_t *examples, size_t rows, size_t batch_rows, const float *y,
                        float *dy, double *sum, size_t *correct) {
    struct rt_supply *supply = self;
    rt_feed_targets(&supply->feed, &supply->lesson->network->device, examples, rows);
    evaluate(supply, &supply->feed.targets, rows, batch_rows, y, dy, sum, correct);
}

static rt_status open_set(struct rt_supply *supply, size_t rows, struct rt_error *err) {
    const struct rt_lesson *lesson = supply->lesson;
    rt_status status =
        rt_batches_create(lesson->settings.seed, lesson->set->count, lesson->settings.batch,
                          lesson->settings.shuffle, lesson->settings.drop_last, &supply->batches, err);
    if (status == RT_OK)
        status = rt_feed_create(lesson->network, lesson->set, lesson->scaling, lesson->target, rows,
                                &supply->feed, err);
    return status;
}

/* ---- rows that are sent ---- */

static rt_status batch_of_rows(void *self, uint64_t update, size_t *rows, uint32_t *epoch,
                               const uint32_t **examples, struct rt_error *err) {
    struct rt_supply *supply = self;
    struct rt_batch found;
    rt_batches_at(&supply->batches, update, &found);
    supply->lost = 0;
    rt_status status = supply->rows_from.take(supply->rows_from.self, update, &supply->sent, err);
    if (status != RT_OK)
        return status;
    supply->sent_examples = found.examples + supply->sent.first;
    *rows = found.rows;
    *epoch = found.epoch;
    *examples = found.examples;
    return RT_OK;
}

static void inputs_of_rows(void *self, const uint32_t *examples, size_t rows, float *x) {
    const struct rt_supply *supply = self;
    const size_t width = supply->lesson->network->inputs;
    memcpy(x, supply->sent.x + (size_t)(examples - supply->sent_examples) * width, rows * width * sizeof *x);
}

static void loss_of_rows(void *self, const uint32_t *examples, size_t rows, size_t batch_rows, const float *y,
                         float *dy, double *sum, size_t *correct) {
    struct rt_supply *supply = self;
    const struct rt_targets *all = &supply->sent.targets;
    const struct rt_targets targets = {
        .classes = all->classes ? all->classes + supply->lost : NULL,
        .values = all->values ? all->values + supply->lost * supply->lesson->network->outputs : NULL};
    (void)examples;
    supply->lost += rows;
    evaluate(supply, &targets, rows, batch_rows, y, dy, sum, correct);
}

/* ---- a stream ---- */

/* Records were checked when they came, but only the loss knows which values it can take. */
static rt_status check_values(const struct rt_supply *supply, size_t rows, struct rt_error *err) {
    const struct rt_network *network = supply->lesson->network;
    for (size_t i = 0; supply->values && i < rows * network->outputs; i++)
        if (!rt_fit_value(network->loss, supply->values[i]))
            return rt_fail(err, RT_BAD_INPUT,
                           "target %zu of example %llu of the stream (both counted from 0) is %g: the loss "
                           "%s needs %s",
                           i % network->outputs,
                           (unsigned long long)(supply->before + supply->rows + i / network->outputs),
                           (double)supply->values[i], network->loss->name,
                           network->loss->shares ? "targets between 0 and 1" : "finite targets");
    return RT_OK;
}

/* The next batch, once it is there as a whole, or what is left at the end. */
static void take_batch(struct rt_supply *supply) {
    const struct rt_lesson *lesson = supply->lesson;
    size_t taken = 0;
    struct rt_error failure;
    rt_status status =
        rt_stream_take(supply->stream, lesson->settings.batch, lesson->scaling, &lesson->network->device,
                       supply->x, supply->classes, supply->values, &taken, &failure);
    /* What is left at the end is fewer than a batch. */
    if (status == RT_OK && lesson->settings.drop_last && taken < lesson->settings.batch)
        taken = 0;
    if (status == RT_OK)
        status = check_values(supply, taken, &failure);
    if (status != RT_OK) {
        supply->failure = failure;
        atomic_store(&supply->halt, 1);
        return;
    }
    if (taken == 0) {
        supply->ended = rt_stream_ended(supply->stream) && rt_stream_count(supply->stream) == 0;
        if (supply->ended || (lesson->stop && atomic_load(lesson->stop)))
            atomic_store(&supply->halt, 1);
        return;
    }
    supply->before += supply->rows;
    supply->rows = taken;
    for (size_t i = 0; i < taken; i++)
        supply->numbers[i] = (uint32_t)(supply->before + i);
}

static rt_status batch_of_stream(void *self, uint64_t update, size_t *rows, uint32_t *epoch,
                                 const uint32_t **examples, struct rt_error *err) {
    (void)err;
    struct rt_supply *supply = self;
    *epoch = 0;
    *examples = supply->numbers;
    *rows = 0;
    const uint64_t before = supply->before + supply->rows;
    take_batch(supply);
    if (supply->before + supply->rows > before) {
        supply->batch = update;
        *rows = supply->rows;
    }
    return RT_OK;
}

/* Where an example lies in the batch. */
static size_t place(const struct rt_supply *supply, const uint32_t *examples) {
    return (size_t)(examples[0] - supply->numbers[0]);
}

static void inputs_of_stream(void *self, const uint32_t *examples, size_t rows, float *x) {
    const struct rt_supply *supply = self;
    const size_t width = supply->lesson->network->inputs;
    memcpy(x, supply->x + place(supply, examples) * width, rows * width * sizeof *x);
}

static void loss_of_stream(void *self, const uint32_t *examples, size_t rows, size_t batch_rows,
                           const float *y, float *dy, double *sum, size_t *correct) {
    struct rt_supply *supply = self;
    const size_t first = place(supply, examples);
    const struct rt_targets targets = {
        .classes = supply->classes ? supply->classes + first : NULL,
        .values = supply->values ? supply->values + first * supply->lesson->network->outputs : NULL};
    evaluate(supply, &targets, rows, batch_rows, y, dy, sum, correct);
}

static void wake(void *context) {
    rt_endpoint_wake(context);
}

static rt_status open_stream(struct rt_supply *supply, struct rt_endpoint *endpoint, struct rt_error *err) {
    const struct rt_lesson *lesson = supply->lesson;
    const struct rt_network *network = lesson->network;
    const size_t batch = lesson->settings.batch;
    struct rt_data_wish wish;
    const size_t widest = network->inputs > network->outputs ? network->inputs : network->outputs;
    if (widest > SIZE_MAX / batch)
        return rt_fail(err, RT_NO_MEMORY, "not enough memory for a batch of %zu examples", batch);
    rt_status status = rt_materials_wish(lesson->spec, network, &wish, err);
    if (status == RT_OK)
        status = rt_floats_create(batch * network->inputs, "the inputs of a batch", &supply->x, err);
    if (status == RT_OK && lesson->target == RT_TARGET_CLASSES)
        status = rt_alloc(batch, sizeof *supply->classes, "the labels of a batch", &supply->classes, err);
    if (status == RT_OK && lesson->target != RT_TARGET_CLASSES)
        status = rt_floats_create(batch * network->outputs, "the targets of a batch", &supply->values, err);
    if (status == RT_OK)
        status = rt_alloc(batch, sizeof *supply->numbers, "the numbers of a batch", &supply->numbers, err);
    if (status == RT_OK)
        status = rt_stream_open(lesson->spec->data.train, lesson->spec->base_dir, &wish, batch, wake,
                                endpoint, &supply->stream, err);
    if (status == RT_OK && rt_stream_address(supply->stream)[0]) {
        char sentence[200];
        snprintf(sentence, sizeof sentence, "waiting for examples at %s", rt_stream_address(supply->stream));
        lesson->notice(lesson->notice_user, sentence);
    }
    return status;
}

/* ---- any ---- */

rt_status rt_supply_open_rows(const struct rt_lesson *lesson, size_t rows, const struct rt_supply_rows *from,
                              struct rt_supply *supply, struct rt_error *err) {
    memset(supply, 0, sizeof *supply);
    supply->lesson = lesson;
    supply->rows_from = *from;
    atomic_init(&supply->halt, 0);
    rt_status status = rt_floats_create(rows, "the losses", &supply->losses, err);
    return status == RT_OK ? rt_batches_create(lesson->settings.seed, from->examples, lesson->settings.batch,
                                               lesson->settings.shuffle, lesson->settings.drop_last,
                                               &supply->batches, err)
                           : status;
}

rt_status rt_supply_open(const struct rt_lesson *lesson, size_t rows, struct rt_endpoint *endpoint,
                         struct rt_supply *supply, struct rt_error *err) {
    memset(supply, 0, sizeof *supply);
    supply->lesson = lesson;
    atomic_init(&supply->halt, 0);
    rt_status status = rt_floats_create(rows, "the losses", &supply->losses, err);
    if (status != RT_OK)
        return status;
    return rt_stream_named(lesson->spec->data.train) ? open_stream(supply, endpoint, err)
                                                     : open_set(supply, rows, err);
}

void rt_supply_close(struct rt_supply *supply) {
    rt_stream_close(supply->stream);
    rt_batches_destroy(&supply->batches);
    rt_feed_destroy(&supply->feed);
    free(supply->losses);
    free(supply->x);
    free(supply->values);
    free(supply->classes);
    free(supply->numbers);
}

struct rt_ring_source rt_supply_source(struct rt_supply *supply) {
    if (supply->stream)
        return (struct rt_ring_source){
            .self = supply, .batch = batch_of_stream, .inputs = inputs_of_stream, .loss = loss_of_stream};
    if (supply->rows_from.self)
        return (struct rt_ring_source){
            .self = supply, .batch = batch_of_rows, .inputs = inputs_of_rows, .loss = loss_of_rows};
    return (struct rt_ring_source){
        .self = supply, .batch = batch_of_set, .inputs = inputs_of_set, .loss = loss_of_set};
}
