/* A few rounds over examples from all parts of the set; the lower quartile counts, as for layers. */
#include "run/ring/master_work.h"

#include "base/clock.h"
#include "base/memory.h"
#include "learn/row_reader.h"
#include <stdlib.h>

enum { ROUNDS = 9, MOST_ROWS = 64, MOST_FLOATS = 1 << 20 };

struct work {
    const struct rt_network *network;
    const struct rt_dataset *set;
    struct rt_dataset made_up;
    struct rt_row_reader reader;
    uint32_t indices[MOST_ROWS];
    float loss[MOST_ROWS];
    size_t rows;
    float *floats; /* of the examples that are made up; NULL: there are real ones */
    float *y, *dy; /* outputs and their gradient */
    bool single;   /* the device has one thread: its CPU clock counts, so that others disturb less */
};

static double master_work_now_of(const struct work *work) {
    return work->single ? rt_clock_thread() : rt_clock_wall();
}

static void master_work_make_up(float *model_state, size_t count) {
    for (size_t i = 0; i < count; i++)
        model_state[i] = (float)(i % 251) * 0x1p-8f - 0.49f;
}

/* Enough rows to be measured, few enough that very wide examples take no time. */
static size_t master_work_count_rows(const struct rt_network *network, size_t rows) {
    const size_t widest = network->inputs > network->outputs ? network->inputs : network->outputs;
    size_t most = widest ? MOST_FLOATS / widest : 1;
    most = most < MOST_ROWS ? most : MOST_ROWS;
    most = most > 0 ? most : 1;
    return rows > 0 && rows < most ? rows : most;
}

/* Examples of floats, whose targets are of class 0 or of the same floats. */
static rt_status master_work_make_set(struct work *work, struct rt_error *err) {
    const struct rt_network *network = work->network;
    const size_t widest = network->inputs > network->outputs ? network->inputs : network->outputs;
    rt_status status = rt_floats_create(work->rows * widest, "a profile", &work->floats, err);
    if (status != RT_OK)
        return status;
    master_work_make_up(work->floats, work->rows * widest);
    work->made_up = (struct rt_dataset){.count = work->rows,
                                        .shape = network->model->in,
                                        .type = RT_DATA_F32,
                                        .inputs = work->floats,
                                        .values = work->floats,
                                        .value_width = network->outputs};
    work->set = &work->made_up;
    return RT_OK;
}

static void master_work_run_round(struct work *work, size_t round, double seconds[2]) {
    static const int32_t nothing[MOST_ROWS];
    const struct rt_network *network = work->network;
    for (size_t i = 0; i < work->rows; i++)
        work->indices[i] = (uint32_t)(work->set->count * (i * ROUNDS + round) / (work->rows * ROUNDS));
    double before = master_work_now_of(work);
    rt_dataset_inputs(work->set, work->reader.scaling, &network->device, work->indices, work->rows,
                      work->reader.x);
    seconds[0] = master_work_now_of(work) - before;
    before = master_work_now_of(work);
    struct rt_targets targets = work->reader.targets;
    if (work->floats && work->reader.target == RT_TARGET_CLASSES)
        targets.classes = nothing;
    else
        rt_row_reader_targets(&work->reader, &network->device, work->indices, work->rows);
    if (work->reader.accuracy)
        rt_loss_correct(network->loss, work->rows, network->outputs, work->y, &targets);
    network->loss->evaluate(&network->device, work->rows, network->outputs, work->y, &targets, 1, work->loss,
                            work->dy);
    seconds[1] = master_work_now_of(work) - before;
}

static int master_work_compare(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void measure(struct work *work, struct rt_master_work *result) {
    double inputs[ROUNDS], loss[ROUNDS], seconds[2];
    for (size_t i = 0; i < ROUNDS; i++) {
        master_work_run_round(work, i, seconds);
        inputs[i] = seconds[0];
        loss[i] = seconds[1];
    }
    qsort(inputs, ROUNDS, sizeof *inputs, master_work_compare);
    qsort(loss, ROUNDS, sizeof *loss, master_work_compare);
    result->inputs = inputs[ROUNDS / 4] / (double)work->rows;
    result->loss = loss[ROUNDS / 4] / (double)work->rows;
}

/* Whether there are examples with targets that suit the network. */
static bool master_work_is_real(const struct rt_network *network, const struct rt_dataset *set,
                                const struct rt_scaling *scaling, enum rt_target target) {
    if (!set || set->count == 0 || !scaling || rt_shape_size(&set->shape) != network->inputs)
        return false;
    if (target == RT_TARGET_CLASSES)
        return set->classes;
    if (target == RT_TARGET_VALUES)
        return set->values && set->value_width == network->outputs;
    return network->inputs == network->outputs;
}

rt_status rt_master_work_measure(const struct rt_network *network, const struct rt_dataset *set,
                                 const struct rt_scaling *scaling, enum rt_target target, size_t rows,
                                 struct rt_master_work *work, struct rt_error *err) {
    static const struct rt_scaling as_is = {.scale = 1};
    struct work *made;
    rt_status status = rt_alloc(1, sizeof *made, "a profile", &made, err);
    if (status != RT_OK)
        return status;
    made->network = network;
    made->set = set;
    made->rows = master_work_count_rows(network, rows);
    made->single = rt_pool_threads(network->device.pool) == 1;
    const bool real = master_work_is_real(network, set, scaling, target);
    if (!real) {
        target = network->loss->classes ? RT_TARGET_CLASSES : RT_TARGET_VALUES;
        status = master_work_make_set(made, err);
    }
    if (status == RT_OK)
        status = rt_row_reader_create(network, made->set, real ? scaling : &as_is, target, made->rows,
                                      &made->reader, err);
    if (status == RT_OK)
        status = rt_floats_create(made->rows * network->outputs, "a profile", &made->y, err);
    if (status == RT_OK)
        status = rt_floats_create(made->rows * network->outputs, "a profile", &made->dy, err);
    if (status == RT_OK) {
        master_work_make_up(made->y, made->rows * network->outputs);
        measure(made, work);
    }
    rt_row_reader_destroy(&made->reader);
    free(made->floats);
    free(made->y);
    free(made->dy);
    free(made);
    return status;
}
