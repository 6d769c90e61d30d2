/* The master's examples and its loss. */
#include "run/ring/input_pipeline.h"

#include "base/memory.h"
#include "learn/datasets.h"
#include "learn/fit.h"
#include <stdlib.h>
#include <string.h>

/* ---- the loss, of either kind ---- */

static void pipeline_evaluate(struct rt_input_pipeline *pipeline, const struct rt_targets *targets,
                              size_t rows, size_t batch_rows, const float *y, float *dy, double *sum,
                              size_t *correct) {
    const struct rt_network *network = pipeline->config->network;
    struct rt_progressive *progressive = &pipeline->progressive;
    if (rt_network_has_accuracy(network, pipeline->config->target == RT_TARGET_VALUES))
        *correct += rt_loss_correct(network->loss, rows, network->outputs, y, targets);
    network->loss->evaluate(&network->device, rows, network->outputs, y, targets, 1.0f / (float)batch_rows,
                            pipeline->losses, dy);
    for (size_t i = 0; i < rows; i++) {
        const double loss = (double)pipeline->losses[i];
        *sum += loss;
        progressive->examples++;
        progressive->sum += loss;
        progressive->faded = RT_FADING * progressive->faded + loss;
        progressive->weight = RT_FADING * progressive->weight + 1;
    }
}

/* ---- a data set ---- */

static rt_status pipeline_batch_of_set(void *self, uint64_t update, size_t *rows, uint32_t *epoch,
                                       const uint32_t **examples, struct rt_error *err) {
    (void)err;
    struct rt_input_pipeline *pipeline = self;
    struct rt_batch found;
    rt_batches_at(&pipeline->batches, update, &found);
    *rows = found.rows;
    *epoch = found.epoch;
    *examples = found.examples;
    return RT_OK;
}

static void pipeline_inputs_of_set(void *self, const uint32_t *examples, size_t rows, float *x) {
    const struct rt_training_config *config = ((struct rt_input_pipeline *)self)->config;
    rt_dataset_inputs(config->set, config->scaling, &config->network->device, examples, rows, x);
}

static void pipeline_loss_of_set(void *self, const uint32_t *examples, size_t rows, size_t batch_rows,
                                 const float *y, float *dy, double *sum, size_t *correct) {
    struct rt_input_pipeline *pipeline = self;
    rt_row_reader_targets(&pipeline->reader, &pipeline->config->network->device, examples, rows);
    pipeline_evaluate(pipeline, &pipeline->reader.targets, rows, batch_rows, y, dy, sum, correct);
}

static rt_status pipeline_open_set(struct rt_input_pipeline *pipeline, size_t rows, struct rt_error *err) {
    const struct rt_training_config *config = pipeline->config;
    rt_status status =
        rt_batches_create(config->settings.seed, config->set->count, config->settings.batch,
                          config->settings.shuffle, config->settings.drop_last, &pipeline->batches, err);
    if (status == RT_OK)
        status = rt_row_reader_create(config->network, config->set, config->scaling, config->target, rows,
                                      &pipeline->reader, err);
    return status;
}

/* ---- rows that are sent ---- */

static rt_status pipeline_batch_of_rows(void *self, uint64_t update, size_t *rows, uint32_t *epoch,
                                        const uint32_t **examples, struct rt_error *err) {
    struct rt_input_pipeline *pipeline = self;
    struct rt_batch found;
    rt_batches_at(&pipeline->batches, update, &found);
    pipeline->lost = 0;
    rt_status status = pipeline->rows_from.take(pipeline->rows_from.self, update, &pipeline->sent, err);
    if (status != RT_OK)
        return status;
    pipeline->sent_examples = found.examples + pipeline->sent.first;
    *rows = found.rows;
    *epoch = found.epoch;
    *examples = found.examples;
    return RT_OK;
}

static void pipeline_inputs_of_rows(void *self, const uint32_t *examples, size_t rows, float *x) {
    const struct rt_input_pipeline *pipeline = self;
    const size_t width = pipeline->config->network->inputs;
    memcpy(x, pipeline->sent.x + (size_t)(examples - pipeline->sent_examples) * width,
           rows * width * sizeof *x);
}

static void pipeline_loss_of_rows(void *self, const uint32_t *examples, size_t rows, size_t batch_rows,
                                  const float *y, float *dy, double *sum, size_t *correct) {
    struct rt_input_pipeline *pipeline = self;
    const struct rt_targets *all = &pipeline->sent.targets;
    const struct rt_targets targets = {
        .classes = all->classes ? all->classes + pipeline->lost : NULL,
        .values = all->values ? all->values + pipeline->lost * pipeline->config->network->outputs : NULL};
    (void)examples;
    pipeline->lost += rows;
    pipeline_evaluate(pipeline, &targets, rows, batch_rows, y, dy, sum, correct);
}

/* ---- a stream ---- */

/* Records were checked when they came, but only the loss knows which values it can take. */
static rt_status pipeline_check_values(const struct rt_input_pipeline *pipeline, size_t rows,
                                       struct rt_error *err) {
    const struct rt_network *network = pipeline->config->network;
    for (size_t i = 0; pipeline->values && i < rows * network->outputs; i++)
        if (!rt_fit_value(network->loss, pipeline->values[i]))
            return rt_fail(err, RT_BAD_INPUT,
                           "target %zu of example %llu of the stream (both counted from 0) is %g: the loss "
                           "%s needs %s",
                           i % network->outputs,
                           (unsigned long long)(pipeline->before + pipeline->rows + i / network->outputs),
                           (double)pipeline->values[i], network->loss->name,
                           network->loss->shares ? "targets between 0 and 1" : "finite targets");
    return RT_OK;
}

/* The next batch, once it is there as a whole, or what is left at the end. */
static void pipeline_take_batch(struct rt_input_pipeline *pipeline) {
    const struct rt_training_config *config = pipeline->config;
    size_t taken = 0;
    struct rt_error failure;
    rt_status status =
        rt_stream_take(pipeline->stream, config->settings.batch, config->scaling, &config->network->device,
                       pipeline->x, pipeline->classes, pipeline->values, &taken, &failure);
    /* What is left at the end is fewer than a batch. */
    if (status == RT_OK && config->settings.drop_last && taken < config->settings.batch)
        taken = 0;
    if (status == RT_OK)
        status = pipeline_check_values(pipeline, taken, &failure);
    if (status != RT_OK) {
        pipeline->failure = failure;
        atomic_store(&pipeline->halt, 1);
        return;
    }
    if (taken == 0) {
        pipeline->ended = rt_stream_ended(pipeline->stream) && rt_stream_count(pipeline->stream) == 0;
        if (pipeline->ended || (config->stop && atomic_load(config->stop)))
            atomic_store(&pipeline->halt, 1);
        return;
    }
    pipeline->before += pipeline->rows;
    pipeline->rows = taken;
    for (size_t i = 0; i < taken; i++)
        pipeline->stream_examples[i] = (uint32_t)(pipeline->before + i);
}

static rt_status pipeline_batch_of_stream(void *self, uint64_t update, size_t *rows, uint32_t *epoch,
                                          const uint32_t **examples, struct rt_error *err) {
    (void)err;
    struct rt_input_pipeline *pipeline = self;
    *epoch = 0;
    *examples = pipeline->stream_examples;
    *rows = 0;
    const uint64_t before = pipeline->before + pipeline->rows;
    pipeline_take_batch(pipeline);
    if (pipeline->before + pipeline->rows > before) {
        pipeline->batch = update;
        *rows = pipeline->rows;
    }
    return RT_OK;
}

/* Where an example lies in the batch. */
static size_t pipeline_place(const struct rt_input_pipeline *pipeline, const uint32_t *examples) {
    return (size_t)(examples[0] - pipeline->stream_examples[0]);
}

static void pipeline_inputs_of_stream(void *self, const uint32_t *examples, size_t rows, float *x) {
    const struct rt_input_pipeline *pipeline = self;
    const size_t width = pipeline->config->network->inputs;
    memcpy(x, pipeline->x + pipeline_place(pipeline, examples) * width, rows * width * sizeof *x);
}

static void pipeline_loss_of_stream(void *self, const uint32_t *examples, size_t rows, size_t batch_rows,
                                    const float *y, float *dy, double *sum, size_t *correct) {
    struct rt_input_pipeline *pipeline = self;
    const size_t first = pipeline_place(pipeline, examples);
    const struct rt_targets targets = {
        .classes = pipeline->classes ? pipeline->classes + first : NULL,
        .values = pipeline->values ? pipeline->values + first * pipeline->config->network->outputs : NULL};
    pipeline_evaluate(pipeline, &targets, rows, batch_rows, y, dy, sum, correct);
}

static void pipeline_wake(void *context) {
    rt_endpoint_wake(context);
}

static rt_status pipeline_open_stream(struct rt_input_pipeline *pipeline, struct rt_endpoint *endpoint,
                                      struct rt_error *err) {
    const struct rt_training_config *config = pipeline->config;
    const struct rt_network *network = config->network;
    const size_t batch = config->settings.batch;
    struct rt_data_wish wish;
    const size_t widest = network->inputs > network->outputs ? network->inputs : network->outputs;
    if (widest > SIZE_MAX / batch)
        return rt_fail(err, RT_NO_MEMORY, "not enough memory for a batch of %zu examples", batch);
    rt_status status = rt_datasets_wish(&config->spec->data, network, &wish, err);
    if (status == RT_OK)
        status = rt_floats_create(batch * network->inputs, "the inputs of a batch", &pipeline->x, err);
    if (status == RT_OK && config->target == RT_TARGET_CLASSES)
        status = rt_alloc(batch, sizeof *pipeline->classes, "the labels of a batch", &pipeline->classes, err);
    if (status == RT_OK && config->target != RT_TARGET_CLASSES)
        status = rt_floats_create(batch * network->outputs, "the targets of a batch", &pipeline->values, err);
    if (status == RT_OK)
        status = rt_alloc(batch, sizeof *pipeline->stream_examples, "the numbers of a batch",
                          &pipeline->stream_examples, err);
    if (status == RT_OK)
        status = rt_stream_open(config->spec->data.train, config->spec->base_dir, &wish, batch, pipeline_wake,
                                endpoint, &pipeline->stream, err);
    if (status == RT_OK && rt_stream_address(pipeline->stream)[0]) {
        char sentence[200];
        snprintf(sentence, sizeof sentence, "waiting for examples at %s",
                 rt_stream_address(pipeline->stream));
        config->notice(config->notice_user, sentence);
    }
    return status;
}

/* ---- any ---- */

rt_status rt_input_pipeline_open_rows(const struct rt_training_config *config, size_t rows,
                                      const struct rt_pipeline_rows *from, struct rt_input_pipeline *pipeline,
                                      struct rt_error *err) {
    memset(pipeline, 0, sizeof *pipeline);
    pipeline->config = config;
    pipeline->rows_from = *from;
    atomic_init(&pipeline->halt, 0);
    rt_status status = rt_floats_create(rows, "the losses", &pipeline->losses, err);
    return status == RT_OK ? rt_batches_create(config->settings.seed, from->examples, config->settings.batch,
                                               config->settings.shuffle, config->settings.drop_last,
                                               &pipeline->batches, err)
                           : status;
}

rt_status rt_input_pipeline_open(const struct rt_training_config *config, size_t rows,
                                 struct rt_endpoint *endpoint, struct rt_input_pipeline *pipeline,
                                 struct rt_error *err) {
    memset(pipeline, 0, sizeof *pipeline);
    pipeline->config = config;
    atomic_init(&pipeline->halt, 0);
    rt_status status = rt_floats_create(rows, "the losses", &pipeline->losses, err);
    if (status != RT_OK)
        return status;
    /* The leader of a ring has a job and no run file; its data are no stream. */
    return config->spec && rt_stream_named(config->spec->data.train)
               ? pipeline_open_stream(pipeline, endpoint, err)
               : pipeline_open_set(pipeline, rows, err);
}

void rt_input_pipeline_close(struct rt_input_pipeline *pipeline) {
    rt_stream_close(pipeline->stream);
    rt_batches_destroy(&pipeline->batches);
    rt_row_reader_destroy(&pipeline->reader);
    free(pipeline->losses);
    free(pipeline->x);
    free(pipeline->values);
    free(pipeline->classes);
    free(pipeline->stream_examples);
}

struct rt_ring_source rt_input_pipeline_source(struct rt_input_pipeline *pipeline) {
    if (pipeline->stream)
        return (struct rt_ring_source){.self = pipeline,
                                       .batch = pipeline_batch_of_stream,
                                       .inputs = pipeline_inputs_of_stream,
                                       .loss = pipeline_loss_of_stream};
    if (pipeline->rows_from.self)
        return (struct rt_ring_source){.self = pipeline,
                                       .batch = pipeline_batch_of_rows,
                                       .inputs = pipeline_inputs_of_rows,
                                       .loss = pipeline_loss_of_rows};
    return (struct rt_ring_source){.self = pipeline,
                                   .batch = pipeline_batch_of_set,
                                   .inputs = pipeline_inputs_of_set,
                                   .loss = pipeline_loss_of_set};
}
