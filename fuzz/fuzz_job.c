/* Any text as the job of a ring. What is accepted must be usable: its batches are cut completely, and where
 * the stage is small enough to be made it computes an update. */
#include "formats/yaml.h"
#include "learn/stage.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

enum { MOST_BYTES = 32 << 20, MOST_ROWS = 64 };

/* The parts of a batch follow one another from its first row to its last; where rings share it, from the
 * first of the ring's own rows to the last of those. */
static void check_parts(const struct rt_job *job, size_t rows) {
    const size_t rings = (size_t)job->parts, ring = (size_t)job->part;
    const size_t begin = ring * rows / rings, end = (ring + 1) * rows / rings;
    const size_t count = rt_job_micros(job, rows);
    size_t next = begin;
    for (size_t i = 0; i < count; i++) {
        const struct rt_micro part = rt_job_micro(job, rows, i);
        if (part.first != next || (part.rows == 0 && begin < end) || part.rows > rt_job_micro_rows(job))
            abort();
        next += part.rows;
    }
    if (next != end)
        abort();
}

static void update(struct rt_stage *stage) {
    const struct rt_job *job = stage->job;
    const size_t rows = (size_t)job->batch, count = rt_job_micros(job, rows);
    struct rt_slot *slot = rt_stage_slot(stage, 0);
    for (size_t i = 0; i < count; i++) {
        slot->part = rt_job_micro(job, rows, i);
        slot->batch_rows = rows;
        slot->rows = slot->part.rows;
        rt_stage_forward(stage, slot, !job->evaluate_only);
        if (job->evaluate_only)
            continue;
        memset(slot->dy, 0, slot->rows * rt_shape_size(&stage->model->out) * sizeof(float));
        rt_stage_backward_input(stage, slot, NULL);
        rt_stage_backward_weights(stage, &slot, 1, i + 1 == count, NULL);
    }
    if (!job->evaluate_only)
        rt_stage_apply(stage, 1);
}

static void use(const struct rt_job *job, struct rt_device *device) {
    struct rt_error err;
    struct rt_model *model;
    uint32_t index = 0;
    if (rt_model_create(job->layers, &job->in, 0, SIZE_MAX, false, device->kernels, &index, &model, &err) !=
        RT_OK)
        return;
    const size_t taken = rt_stage_bytes(job, model, 1);
    rt_model_destroy(model);
    struct rt_stage *stage;
    if (taken > MOST_BYTES || job->batch > MOST_ROWS)
        return;
    if (rt_stage_create(job, device, 0, SIZE_MAX, 1, &stage, &err) != RT_OK)
        abort();
    if (stage->model->flops_forward < 1e6)
        update(stage);
    rt_stage_destroy(stage);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    struct rt_error err;
    struct rt_tree *tree;
    struct rt_job *job;
    struct rt_device device;
    if (rt_yaml_parse((const char *)data, bytes, "fuzz", &tree, &err) != RT_OK ||
        rt_job_create(tree, &job, &err) != RT_OK)
        return 0;
    if (job->batch <= MOST_ROWS)
        for (size_t rows = 1; rows <= (size_t)job->batch; rows++)
            check_parts(job, rows);
    if (rt_device_open(RT_MATH_EXACT, "portable", 1, &device, &err) == RT_OK) {
        use(job, &device);
        rt_device_close(&device);
    }
    rt_job_destroy(job);
    return 0;
}
