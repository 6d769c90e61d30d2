/* The master's examples and its loss. */
#include "run/ring/input_pipeline.h"

#include "base/memory.h"
#include <stdlib.h>
#include <string.h>

/* ---- the loss, of either kind ---- */

static void pipeline_note_progressive(struct rt_progressive *progressive, const float *losses, size_t rows) {
    for (size_t i = 0; i < rows; i++) {
        progressive->examples++;
        progressive->sum += (double)losses[i];
        progressive->faded = RT_FADING * progressive->faded + (double)losses[i];
        progressive->weight = RT_FADING * progressive->weight + 1;
    }
}

static void pipeline_evaluate(struct rt_input_pipeline *pipeline, const struct rt_targets *targets,
                              size_t rows, size_t batch_rows, const float *y, float *dy, double *sum,
                              size_t *correct) {
    const struct rt_network *network = pipeline->config->network;
    if (rt_network_has_accuracy(network, pipeline->config->target == RT_TARGET_VALUES))
        *correct += rt_loss_correct(network->loss, rows, network->outputs, y, targets);
    network->loss->evaluate(&network->device, rows, network->outputs, y, targets, 1.0f / (float)batch_rows,
                            pipeline->losses, dy);
    for (size_t i = 0; i < rows; i++)
        *sum += (double)pipeline->losses[i];
    if (pipeline->stream)
        pipeline_note_progressive(&pipeline->stream->progressive, pipeline->losses, rows);
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

static rt_status pipeline_batch_of_stream(void *self, uint64_t update, size_t *rows, uint32_t *epoch,
                                          const uint32_t **examples, struct rt_error *err) {
    (void)err;
    struct rt_input_pipeline *pipeline = self;
    struct rt_stream_batches *stream = pipeline->stream;
    const atomic_int *stop = pipeline->config->stop;
    *epoch = 0;
    *rows = 0;
    pipeline->batch = rt_stream_batches_take(stream, update);
    if (pipeline->batch) {
        *rows = pipeline->batch->rows;
        *examples = pipeline->batch->examples;
    } else if (stream->ended || stream->failure.status != RT_OK || (stop && atomic_load(stop))) {
        atomic_store(&pipeline->halt, 1);
    }
    return RT_OK;
}

/* Where an example lies in the batch. */
static size_t pipeline_place(const struct rt_input_pipeline *pipeline, const uint32_t *examples) {
    return (size_t)(examples[0] - pipeline->batch->examples[0]);
}

static void pipeline_inputs_of_stream(void *self, const uint32_t *examples, size_t rows, float *x) {
    const struct rt_input_pipeline *pipeline = self;
    const size_t width = pipeline->config->network->inputs;
    memcpy(x, pipeline->batch->x + pipeline_place(pipeline, examples) * width, rows * width * sizeof *x);
}

static void pipeline_loss_of_stream(void *self, const uint32_t *examples, size_t rows, size_t batch_rows,
                                    const float *y, float *dy, double *sum, size_t *correct) {
    struct rt_input_pipeline *pipeline = self;
    const struct rt_stream_batch *batch = pipeline->batch;
    const size_t first = pipeline_place(pipeline, examples);
    const struct rt_targets targets = {
        .classes = batch->classes ? batch->classes + first : NULL,
        .values = batch->values ? batch->values + first * pipeline->config->network->outputs : NULL};
    pipeline_evaluate(pipeline, &targets, rows, batch_rows, y, dy, sum, correct);
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
                                 struct rt_stream_batches *stream, struct rt_input_pipeline *pipeline,
                                 struct rt_error *err) {
    memset(pipeline, 0, sizeof *pipeline);
    pipeline->config = config;
    pipeline->stream = stream;
    atomic_init(&pipeline->halt, 0);
    RT_TRY(rt_floats_create(rows, "the losses", &pipeline->losses, err));
    return stream ? RT_OK : pipeline_open_set(pipeline, rows, err);
}

void rt_input_pipeline_close(struct rt_input_pipeline *pipeline) {
    rt_batches_destroy(&pipeline->batches);
    rt_row_reader_destroy(&pipeline->reader);
    free(pipeline->losses);
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
