/* A ring's part of every batch. Which rows those are, job/job.h knows: it is given the whole batch. */
#include "run/hybrid/part_pipeline.h"

size_t rt_hybrid_rows(size_t rows, size_t part, size_t parts) {
    return (part + 1) * rows / parts - part * rows / parts;
}

uint64_t rt_hybrid_batch(const struct rt_hybrid_numbering *numbering, uint64_t update) {
    if (numbering->per_epoch == numbering->batches)
        return update;
    return (update - 1) / numbering->per_epoch * numbering->batches + (update - 1) % numbering->per_epoch + 1;
}

static rt_status part_pipeline_take_batch(void *self, uint64_t update, size_t *rows, uint32_t *epoch,
                                          const uint32_t **examples, struct rt_error *err) {
    struct rt_part_pipeline *part_pipeline = self;
    *rows = 0;
    if (!part_pipeline->may_begin(part_pipeline->user, update))
        return RT_OK;
    return part_pipeline->whole.batch(part_pipeline->whole.self,
                                      rt_hybrid_batch(&part_pipeline->numbering, update), rows, epoch,
                                      examples, err);
}

static void part_pipeline_make_inputs(void *self, const uint32_t *examples, size_t rows, float *x) {
    const struct rt_part_pipeline *part_pipeline = self;
    part_pipeline->whole.inputs(part_pipeline->whole.self, examples, rows, x);
}

static void part_pipeline_compute_loss(void *self, const uint32_t *examples, size_t rows, size_t batch_rows,
                                       const float *y, float *dy, double *loss, size_t *correct) {
    const struct rt_part_pipeline *part_pipeline = self;
    const size_t over = part_pipeline->sum
                            ? rt_hybrid_rows(batch_rows, part_pipeline->part, part_pipeline->parts)
                            : batch_rows;
    part_pipeline->whole.loss(part_pipeline->whole.self, examples, rows, over, y, dy, loss, correct);
}

struct rt_ring_source rt_part_pipeline_source(struct rt_part_pipeline *part_pipeline) {
    return (struct rt_ring_source){.self = part_pipeline,
                                   .batch = part_pipeline_take_batch,
                                   .inputs = part_pipeline_make_inputs,
                                   .loss = part_pipeline_compute_loss};
}
