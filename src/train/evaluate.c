/*
 * Evaluation and prediction, a few rows at a time. Every row is computed on its own and losses are added in
 * the order of the examples, so the number of rows at a time changes no bit.
 */
#include "train/evaluate.h"

#include "base/memory.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Rows at a time: enough to keep the kernels busy, few enough that their activations stay small. */
enum { MOST_ROWS = 128, SLOT_FLOATS = (4 << 20) / 4 };

struct walk {
    struct rt_network *network;
    struct rt_feed feed;
    size_t rows;
    float *slot, *losses;
    uint32_t indices[MOST_ROWS];
};

static rt_status walk_open(struct rt_network *network, const struct rt_dataset *set,
                           const struct rt_scaling *scaling, enum rt_target target, struct walk *walk,
                           struct rt_error *err) {
    memset(walk, 0, sizeof *walk);
    if (set->count > UINT32_MAX)
        return rt_fail(err, RT_BAD_INPUT, "%s: more than %u examples", set->name ? set->name : "the data",
                       UINT32_MAX);
    walk->network = network;
    walk->rows = MOST_ROWS;
    while (walk->rows > 1 && rt_model_slot_floats(network->model, walk->rows, false) > SLOT_FLOATS)
        walk->rows /= 2;
    if (walk->rows > set->count && set->count > 0)
        walk->rows = set->count;
    const size_t floats = rt_model_slot_floats(network->model, walk->rows, false);
    rt_status status = rt_memory_check(sizeof(float) * (double)floats, "one example of the model", err);
    if (status == RT_OK)
        status = rt_feed_create(network, set, scaling, target, walk->rows, &walk->feed, err);
    if (status == RT_OK)
        status = rt_floats_create(floats, "activations", &walk->slot, err);
    if (status == RT_OK)
        status = rt_floats_create(walk->rows, "losses", &walk->losses, err);
    return status;
}

static void walk_close(struct walk *walk) {
    rt_feed_destroy(&walk->feed);
    free(walk->slot);
    free(walk->losses);
}

/* Outputs for examples first.. of the set; returns how many rows there are. */
static size_t walk_forward(struct walk *walk, size_t first, bool with_targets, float **y) {
    const struct rt_dataset *set = walk->feed.set;
    size_t rows = set->count - first < walk->rows ? set->count - first : walk->rows;
    for (size_t i = 0; i < rows; i++)
        walk->indices[i] = (uint32_t)(first + i);
    const struct rt_device *device = &walk->network->device;
    if (with_targets)
        rt_feed_take(&walk->feed, device, walk->indices, rows);
    else
        rt_dataset_inputs(set, walk->feed.scaling, device, walk->indices, rows, walk->feed.x);
    const struct rt_pass pass = {.device = device, .rows = rows, .examples = walk->indices};
    *y = rt_model_forward(walk->network->model, &pass, &walk->network->blocks, walk->slot, walk->feed.x);
    return rows;
}

rt_status rt_evaluate(struct rt_network *network, const struct rt_dataset *set,
                      const struct rt_scaling *scaling, enum rt_target target, const atomic_int *stop,
                      uint64_t *confusion, struct rt_score *score, struct rt_error *err) {
    if (set->count == 0)
        return rt_fail(err, RT_BAD_INPUT, "there are no examples to evaluate on");
    const size_t width = network->outputs, classes = rt_network_classes(network);
    struct walk walk;
    rt_status status = walk_open(network, set, scaling, target, &walk, err);
    if (status != RT_OK) {
        walk_close(&walk);
        return status;
    }
    if (confusion)
        memset(confusion, 0, classes * classes * sizeof *confusion);
    double loss = 0;
    size_t correct = 0;
    for (size_t first = 0; first < set->count;) {
        if (stop && atomic_load_explicit(stop, memory_order_relaxed)) {
            walk_close(&walk);
            return rt_fail(err, RT_INTERRUPTED, "stopped during an evaluation");
        }
        float *y;
        size_t rows = walk_forward(&walk, first, true, &y);
        const struct rt_targets *targets = &walk.feed.targets;
        if (walk.feed.accuracy)
            correct += rt_loss_correct(network->loss, rows, width, y, targets);
        for (size_t i = 0; confusion && targets->classes && i < rows; i++)
            confusion[(size_t)targets->classes[i] * classes + rt_loss_class(width, y + i * width)]++;
        network->loss->evaluate(&network->device, rows, width, y, targets, 1, walk.losses, NULL);
        for (size_t i = 0; i < rows; i++)
            loss += (double)walk.losses[i];
        first += rows;
    }
    const bool accuracy = walk.feed.accuracy;
    walk_close(&walk);
    *score = (struct rt_score){.examples = set->count,
                               .loss = loss / (double)set->count,
                               .accuracy = accuracy ? (double)correct / (double)set->count : (double)NAN};
    return RT_OK;
}

rt_status rt_predict(struct rt_network *network, const struct rt_dataset *set,
                     const struct rt_scaling *scaling, rt_output_fn take, void *user, struct rt_error *err) {
    const size_t width = network->outputs;
    struct walk walk;
    rt_status status = walk_open(network, set, scaling, RT_TARGET_INPUT, &walk, err);
    for (size_t first = 0; status == RT_OK && first < set->count;) {
        float *y;
        size_t rows = walk_forward(&walk, first, false, &y);
        if (network->loss->present)
            network->loss->present(&network->device, rows, width, y);
        for (size_t i = 0; status == RT_OK && i < rows; i++)
            status = take(user, first + i, y + i * width, width, err);
        first += rows;
    }
    walk_close(&walk);
    return status;
}
