/* A ring's part of every batch. Which rows those are, ring/job.h knows: it is given the whole batch. */
#include "train/hybrid/feed.h"

size_t rt_hybrid_rows(size_t rows, size_t part, size_t parts) {
    return (part + 1) * rows / parts - part * rows / parts;
}

uint64_t rt_hybrid_batch(const struct rt_hybrid_numbering *numbering, uint64_t update) {
    if (numbering->per_epoch == numbering->batches)
        return update;
    return (update - 1) / numbering->per_epoch * numbering->batches + (update - 1) % numbering->per_epoch + 1;
}

static rt_status take_batch(void *self, uint64_t update, size_t *rows, uint32_t *epoch,
                            const uint32_t **examples, struct rt_error *err) {
    struct rt_hybrid_feed *feed = self;
    *rows = 0;
    if (!feed->may_begin(feed->user, update))
        return RT_OK;
    return feed->whole.batch(feed->whole.self, rt_hybrid_batch(&feed->numbering, update), rows, epoch,
                             examples, err);
}

static void make_inputs(void *self, const uint32_t *examples, size_t rows, float *x) {
    const struct rt_hybrid_feed *feed = self;
    feed->whole.inputs(feed->whole.self, examples, rows, x);
}

static void lose(void *self, const uint32_t *examples, size_t rows, size_t batch_rows, const float *y,
                 float *dy, double *loss, size_t *correct) {
    const struct rt_hybrid_feed *feed = self;
    const size_t over = feed->sum ? rt_hybrid_rows(batch_rows, feed->part, feed->parts) : batch_rows;
    feed->whole.loss(feed->whole.self, examples, rows, over, y, dy, loss, correct);
}

struct rt_ring_source rt_hybrid_feed_source(struct rt_hybrid_feed *feed) {
    return (struct rt_ring_source){.self = feed, .batch = take_batch, .inputs = make_inputs, .loss = lose};
}
