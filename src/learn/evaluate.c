/*
 * Evaluation and prediction, a few rows at a time. Every row is computed on its own and losses are added in
 * the order of the examples, so neither the number of rows at a time nor the device that computes them
 * changes a bit.
 */
#include "learn/evaluate.h"

#include "base/memory.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Rows at a time: enough to keep the kernels busy, few enough that their activations stay small. */
enum { MOST_ROWS = 128, SLOT_FLOATS = (4 << 20) / 4 };

/* ---- a network on this device ---- */

static rt_status evaluate_forward_parts(struct rt_network *network, size_t rows, size_t examples,
                                        const struct rt_forward_pass *pass, float *x, float *slot,
                                        struct rt_error *err) {
    uint32_t indices[MOST_ROWS];
    rt_status status = RT_OK;
    for (size_t first = 0; status == RT_OK && first < examples;) {
        const size_t part = examples - first < rows ? examples - first : rows;
        for (size_t i = 0; i < part; i++)
            indices[i] = (uint32_t)(first + i);
        const struct rt_pass row_pass = {.device = &network->device, .rows = part, .examples = indices};
        status = pass->inputs(pass->user, first, part, x, err);
        if (status == RT_OK)
            status =
                pass->outputs(pass->user, first, part,
                              rt_model_forward(network->model, &row_pass, &network->blocks, slot, x), err);
        if (network->clock)
            rt_states_enter(network->clock, network->clock->now);
        first += part;
    }
    return status;
}

static rt_status evaluate_forward(void *self, size_t examples, const struct rt_forward_pass *pass,
                                  struct rt_error *err) {
    struct rt_network *network = self;
    size_t rows = rt_forward_local(network).rows;
    if (rows > examples && examples > 0)
        rows = examples;
    const size_t floats = rt_model_slot_floats(network->model, rows, false);
    float *slot = NULL, *x = NULL;
    rt_status status = rt_memory_check(sizeof(float) * (double)floats, "one example of the model", err);
    if (status == RT_OK)
        status = rt_floats_create(floats, "activations", &slot, err);
    if (status == RT_OK)
        status = rt_floats_create(network->inputs > SIZE_MAX / rows ? SIZE_MAX : rows * network->inputs,
                                  "the inputs of a batch", &x, err);
    if (status == RT_OK)
        status = evaluate_forward_parts(network, rows, examples, pass, x, slot, err);
    free(slot);
    free(x);
    return status;
}

struct rt_forward rt_forward_local(struct rt_network *network) {
    size_t rows = MOST_ROWS;
    while (rows > 1 && rt_model_slot_floats(network->model, rows, false) > SLOT_FLOATS)
        rows /= 2;
    return (struct rt_forward){.self = network, .rows = rows, .run = evaluate_forward};
}

/* ---- a walk over a set ---- */

struct walk {
    const struct rt_network *network;
    const struct rt_dataset *set;
    const struct rt_scaling *scaling;
    const atomic_int *stop;
    size_t rows;
    uint32_t *indices;

    /* of an evaluation */
    struct rt_row_reader reader;
    float *losses;
    uint64_t *confusion;
    size_t classes;
    double loss;
    size_t correct;

    /* of a prediction */
    float *outputs;
    rt_output_fn take;
    void *user;
};

static rt_status evaluate_open(struct walk *walk, const struct rt_forward *forward, struct rt_error *err) {
    const struct rt_dataset *set = walk->set;
    if (set->count > UINT32_MAX)
        return rt_fail(err, RT_BAD_INPUT, "%s: more than %u examples", set->name ? set->name : "the data",
                       UINT32_MAX);
    walk->rows = forward->rows < set->count || set->count == 0 ? forward->rows : set->count;
    return rt_alloc(walk->rows, sizeof *walk->indices, "the examples of a batch", &walk->indices, err);
}

static void evaluate_close(struct walk *walk) {
    rt_row_reader_destroy(&walk->reader);
    free(walk->indices);
    free(walk->losses);
    free(walk->outputs);
}

static void evaluate_set_indices(struct walk *walk, size_t first, size_t rows) {
    for (size_t i = 0; i < rows; i++)
        walk->indices[i] = (uint32_t)(first + i);
}

static rt_status evaluate_give_inputs(void *user, size_t first, size_t rows, float *x, struct rt_error *err) {
    struct walk *walk = user;
    if (walk->stop && atomic_load_explicit(walk->stop, memory_order_relaxed))
        return rt_fail(err, RT_INTERRUPTED, "stopped during an evaluation");
    evaluate_set_indices(walk, first, rows);
    rt_dataset_inputs(walk->set, walk->scaling, &walk->network->device, walk->indices, rows, x);
    return RT_OK;
}

/* ---- evaluation ---- */

static rt_status evaluate_score_outputs(void *user, size_t first, size_t rows, const float *y,
                                        struct rt_error *err) {
    (void)err;
    struct walk *walk = user;
    const struct rt_network *network = walk->network;
    const size_t width = network->outputs;
    evaluate_set_indices(walk, first, rows);
    rt_row_reader_targets(&walk->reader, &network->device, walk->indices, rows);
    const struct rt_targets *targets = &walk->reader.targets;
    if (walk->reader.accuracy)
        walk->correct += rt_loss_correct(network->loss, rows, width, y, targets);
    for (size_t i = 0; walk->confusion && targets->classes && i < rows; i++)
        walk->confusion[(size_t)targets->classes[i] * walk->classes + rt_loss_class(width, y + i * width)]++;
    network->loss->evaluate(&network->device, rows, width, y, targets, 1, walk->losses, NULL);
    for (size_t i = 0; i < rows; i++)
        walk->loss += (double)walk->losses[i];
    return RT_OK;
}

rt_status rt_evaluate(const struct rt_network *network, const struct rt_forward *forward,
                      const struct rt_dataset *set, const struct rt_scaling *scaling, enum rt_target target,
                      const atomic_int *stop, uint64_t *confusion, struct rt_score *score,
                      struct rt_error *err) {
    if (set->count == 0)
        return rt_fail(err, RT_BAD_INPUT, "there are no examples to evaluate on");
    struct walk walk = {.network = network,
                        .set = set,
                        .scaling = scaling,
                        .stop = stop,
                        .confusion = confusion,
                        .classes = rt_network_classes(network)};
    rt_status status = evaluate_open(&walk, forward, err);
    if (status == RT_OK)
        status = rt_row_reader_create(network, set, scaling, target, walk.rows, &walk.reader, err);
    if (status == RT_OK)
        status = rt_floats_create(walk.rows, "losses", &walk.losses, err);
    if (status == RT_OK && confusion)
        memset(confusion, 0, walk.classes * walk.classes * sizeof *confusion);
    const struct rt_forward_pass pass = {
        .user = &walk, .inputs = evaluate_give_inputs, .outputs = evaluate_score_outputs};
    if (status == RT_OK)
        status = forward->run(forward->self, set->count, &pass, err);
    if (status == RT_OK)
        *score = (struct rt_score){
            .examples = set->count,
            .loss = walk.loss / (double)set->count,
            .accuracy = walk.reader.accuracy ? (double)walk.correct / (double)set->count : (double)NAN};
    evaluate_close(&walk);
    return status;
}

/* ---- prediction ---- */

static rt_status evaluate_take_outputs(void *user, size_t first, size_t rows, const float *y,
                                       struct rt_error *err) {
    struct walk *walk = user;
    const struct rt_network *network = walk->network;
    const size_t width = network->outputs;
    memcpy(walk->outputs, y, rows * width * sizeof *y);
    if (network->loss->present)
        network->loss->present(&network->device, rows, width, walk->outputs);
    rt_status status = RT_OK;
    for (size_t i = 0; status == RT_OK && i < rows; i++)
        status = walk->take(walk->user, first + i, walk->outputs + i * width, width, err);
    return status;
}

rt_status rt_predict(const struct rt_network *network, const struct rt_forward *forward,
                     const struct rt_dataset *set, const struct rt_scaling *scaling, rt_output_fn take,
                     void *user, struct rt_error *err) {
    struct walk walk = {.network = network, .set = set, .scaling = scaling, .take = take, .user = user};
    const struct rt_forward_pass pass = {
        .user = &walk, .inputs = evaluate_give_inputs, .outputs = evaluate_take_outputs};
    rt_status status = evaluate_open(&walk, forward, err);
    if (status == RT_OK)
        status = rt_floats_create(network->outputs > SIZE_MAX / walk.rows ? SIZE_MAX
                                                                          : walk.rows * network->outputs,
                                  "the outputs of a batch", &walk.outputs, err);
    if (status == RT_OK)
        status = forward->run(forward->self, set->count, &pass, err);
    evaluate_close(&walk);
    return status;
}
