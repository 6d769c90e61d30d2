/* Taking batches from a stream, and keeping them for as long as they may be needed again. */
#include "run/ring/stream_batches.h"

#include "base/memory.h"
#include "learn/datasets.h"
#include "learn/fit.h"
#include <stdlib.h>

/* ---- memory -------------------------------------------------------------------------------------------- */

rt_status rt_stream_batches_bytes(size_t batch, size_t inputs, size_t outputs, size_t *bytes,
                                  struct rt_error *err) {
    const double wanted = (double)batch * ((double)inputs + (double)outputs + 2) * sizeof(float);
    RT_TRY(rt_memory_check(wanted, "a batch of the stream", err));
    *bytes = (batch * (inputs + outputs + 2) * sizeof(float) + RT_ALIGN - 1) / RT_ALIGN * RT_ALIGN;
    return RT_OK;
}

/* Every batch has its part of the memory. */
static void stream_batches_place(struct rt_stream_batches *batches, size_t bytes) {
    const struct rt_training_config *config = batches->config;
    const size_t rows = config->settings.batch;
    const bool classes = config->target == RT_TARGET_CLASSES;
    for (size_t i = 0; i < batches->room; i++) {
        struct rt_stream_batch *batch = &batches->batch[i];
        char *at = (char *)batches->memory.bytes + i * bytes;
        batch->x = (float *)(void *)at;
        batch->examples = (uint32_t *)(void *)(batch->x + rows * config->network->inputs);
        if (classes)
            batch->classes = (int32_t *)(void *)(batch->examples + rows);
        else
            batch->values = (float *)(void *)(batch->examples + rows);
    }
}

static rt_status stream_batches_take_memory(struct rt_stream_batches *batches, struct rt_error *err) {
    const struct rt_network *network = batches->config->network;
    size_t bytes;
    RT_TRY(rt_stream_batches_bytes(batches->config->settings.batch, network->inputs, network->outputs, &bytes,
                                   err));
    if (bytes > SIZE_MAX / batches->room)
        return rt_fail(err, RT_NO_MEMORY, "not enough memory for %zu batches of a stream", batches->room);
    RT_TRY(rt_alloc(batches->room, sizeof *batches->batch, "the batches of a stream", &batches->batch, err));
    RT_TRY(rt_file_memory_create(batches->room * bytes, false, "the batches of a stream", &batches->memory,
                                 err));
    stream_batches_place(batches, bytes);
    return RT_OK;
}

/* ---- life ---------------------------------------------------------------------------------------------- */

static void stream_batches_wake(void *context) {
    rt_endpoint_wake(context);
}

static rt_status stream_batches_open_stream(struct rt_stream_batches *batches, struct rt_endpoint *endpoint,
                                            struct rt_error *err) {
    const struct rt_training_config *config = batches->config;
    struct rt_data_wish wish;
    RT_TRY(rt_datasets_wish(&config->spec->data, config->network, &wish, err));
    RT_TRY(rt_stream_open(config->spec->data.train, config->spec->base_dir, &wish, config->settings.batch,
                          stream_batches_wake, endpoint, &batches->stream, err));
    if (rt_stream_address(batches->stream)[0]) {
        char sentence[200];
        snprintf(sentence, sizeof sentence, "waiting for examples at %s", rt_stream_address(batches->stream));
        config->notice(config->notice_user, sentence);
    }
    return RT_OK;
}

rt_status rt_stream_batches_open(const struct rt_training_config *config, size_t room,
                                 struct rt_endpoint *endpoint, struct rt_stream_batches **batches,
                                 struct rt_error *err) {
    struct rt_stream_batches *made;
    RT_TRY(rt_alloc(1, sizeof *made, "a stream", &made, err));
    made->config = config;
    made->room = room;
    rt_status status = stream_batches_take_memory(made, err);
    if (status == RT_OK)
        status = stream_batches_open_stream(made, endpoint, err);
    RT_FINISH_CREATE(status, made, rt_stream_batches_close, batches);
}

void rt_stream_batches_close(struct rt_stream_batches *batches) {
    if (!batches)
        return;
    rt_stream_close(batches->stream);
    rt_file_memory_destroy(&batches->memory);
    free(batches->batch);
    free(batches);
}

/* ---- taking -------------------------------------------------------------------------------------------- */

/* Records were checked when they came, but only the loss knows which values it can take. */
static rt_status stream_batches_check_values(const struct rt_stream_batches *batches,
                                             const struct rt_stream_batch *batch, size_t rows,
                                             struct rt_error *err) {
    const struct rt_network *network = batches->config->network;
    for (size_t i = 0; batch->values && i < rows * network->outputs; i++)
        if (!rt_fit_value(network->loss, batch->values[i]))
            return rt_fail(
                err, RT_BAD_INPUT,
                "target %zu of example %llu of the stream (both counted from 0) is %g: the loss %s needs %s",
                i % network->outputs, (unsigned long long)(batches->arrived + i / network->outputs),
                (double)batch->values[i], network->loss->name,
                network->loss->shares ? "targets between 0 and 1" : "finite targets");
    return RT_OK;
}

/* Fills the batch with what has arrived; *rows 0: it is not all there yet, or nothing more comes. */
static rt_status stream_batches_fill(struct rt_stream_batches *batches, const struct rt_stream_batch *batch,
                                     size_t *rows, struct rt_error *err) {
    const struct rt_training_config *config = batches->config;
    *rows = 0;
    RT_TRY(rt_stream_take(batches->stream, config->settings.batch, config->scaling, &config->network->device,
                          batch->x, batch->classes, batch->values, rows, err));
    /* What is left at the end is fewer than a batch. */
    if (config->settings.drop_last && *rows < config->settings.batch)
        *rows = 0;
    return stream_batches_check_values(batches, batch, *rows, err);
}

static struct rt_stream_batch *stream_batches_at(const struct rt_stream_batches *batches, size_t i) {
    return &batches->batch[(batches->oldest + i) % batches->room];
}

static const struct rt_stream_batch *stream_batches_take_new(struct rt_stream_batches *batches,
                                                             uint64_t update) {
    struct rt_stream_batch *batch = stream_batches_at(batches, batches->count);
    size_t rows;
    batches->failure.status = stream_batches_fill(batches, batch, &rows, &batches->failure);
    if (batches->failure.status != RT_OK)
        return NULL;
    if (rows == 0) {
        batches->ended = rt_stream_ended(batches->stream) && rt_stream_count(batches->stream) == 0;
        return NULL;
    }
    for (size_t i = 0; i < rows; i++)
        batch->examples[i] = (uint32_t)(batches->arrived + i);
    batch->update = update;
    batch->rows = rows;
    batch->first = batches->arrived;
    batch->before = batches->progressive;
    batches->arrived += rows;
    batches->count++;
    return batch;
}

const struct rt_stream_batch *rt_stream_batches_take(struct rt_stream_batches *batches, uint64_t update) {
    const uint64_t first = batches->count > 0 ? stream_batches_at(batches, 0)->update : 0;
    if (update >= first && update - first < batches->count) { /* they follow one another */
        const struct rt_stream_batch *batch = stream_batches_at(batches, (size_t)(update - first));
        batches->progressive = batch->before; /* no example counts twice */
        return batch;
    }
    return batches->count < batches->room ? stream_batches_take_new(batches, update) : NULL;
}

/* ---- keeping ------------------------------------------------------------------------------------------- */

void rt_stream_batches_release(struct rt_stream_batches *batches, uint64_t update) {
    while (batches->count > 0 && stream_batches_at(batches, 0)->update <= update) {
        batches->oldest = (batches->oldest + 1) % batches->room;
        batches->count--;
    }
}

bool rt_stream_batches_full(const struct rt_stream_batches *batches, uint64_t update) {
    return batches->count == batches->room && stream_batches_at(batches, batches->count - 1)->update < update;
}

struct rt_rewound rt_stream_batches_rewind(struct rt_stream_batches *batches, uint64_t update) {
    rt_stream_batches_release(batches, update);
    for (size_t i = 0; i < batches->count; i++)
        stream_batches_at(batches, i)->update = update + 1 + i;
    return (struct rt_rewound){.updates = batches->count,
                               .examples =
                                   batches->count ? stream_batches_at(batches, 0)->first : batches->arrived};
}
