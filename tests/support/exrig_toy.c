/* What the nodes of the rig learn, and what one device makes of it. */
#include "support/exrig_parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

size_t exrig_floats(const struct exrig *rig) {
    return (1 + rig->optim->type->state_tensors) * rig->settings.params;
}

size_t exrig_rows(const struct exrig *rig, uint64_t batch) {
    const size_t rows = rig->settings.batch;
    if (!rig->settings.uneven)
        return rows;
    return batch % 7 == 0 || rows <= 3 ? 1 : rows - (size_t)(batch % 3);
}

const float *exrig_point(const struct exrig *rig, uint64_t batch, size_t row) {
    const size_t i = (size_t)((batch - 1) * rig->settings.batch + row) % rig->settings.examples;
    return rig->points + i * rig->settings.params;
}

/* of: the rows that it is divided by. sent: the points of rows sent_first and up, where they came from the
 * master; NULL: they are known. */
static double gradient_of(const struct exrig *rig, uint64_t batch, size_t first, size_t end, size_t of,
                          const float *sent, size_t sent_first, const float *params, float *gradient) {
    const size_t n = rig->settings.params;
    const float share = 1.0f / (float)of;
    double loss = 0;
    memset(gradient, 0, n * sizeof *gradient);
    for (size_t row = first; row < end; row++) {
        const float *point = sent ? sent + (row - sent_first) * n : exrig_point(rig, batch, row);
        for (size_t j = 0; j < n; j++) {
            const float away = params[j] - point[j];
            gradient[j] += away * share;
            loss += 0.5 * (double)away * (double)away / (double)n;
        }
    }
    return loss;
}

double exrig_gradient(const struct exrig *rig, uint64_t batch, size_t first, size_t end, const float *params,
                      float *gradient) {
    return gradient_of(rig, batch, first, end, exrig_rows(rig, batch), NULL, 0, params, gradient);
}

/* slices[0] += all others, in the binary tree ((0+1)+(2+3))+... */
static void add_tree(float *slices, size_t count, size_t n) {
    for (size_t step = 1; step < count; step *= 2)
        for (size_t i = 0; i + step < count; i += 2 * step)
            for (size_t j = 0; j < n; j++)
                slices[i * n + j] += slices[(i + step) * n + j];
}

/* Slices first..end of `slices` of a batch, added up in the first of them; a worker's own are divided by
 * their own rows if the strategy says so. */
static double slice_gradient(const struct exrig *rig, uint64_t batch, size_t first, size_t end, size_t slices,
                             const float *sent, const float *params, float *memory) {
    const size_t rows = exrig_rows(rig, batch), n = rig->settings.params;
    const size_t own = end * rows / slices - first * rows / slices;
    double loss = 0;
    for (size_t s = first; s < end; s++)
        loss += gradient_of(rig, batch, s * rows / slices, (s + 1) * rows / slices,
                            rig->options.reduce == RT_SUM ? own : rows, sent, first * rows / slices, params,
                            memory + (s - first) * n);
    add_tree(memory, end - first, n);
    return loss;
}

double exrig_compute(struct exrig_node *node, const struct rt_ticket *ticket) {
    const struct exrig *rig = node->rig;
    const size_t slices = rig->settings.shards ? rig->settings.shards : ticket->parts;
    const size_t room = rig->settings.batch * rig->settings.params;
    const float *sent =
        node->rank && node->sent ? node->sent + ticket->batch % RT_TICKETS_AHEAD * room : NULL;
    return slice_gradient(rig, ticket->batch, ticket->part * slices / ticket->parts,
                          (ticket->part + 1) * slices / ticket->parts, slices, sent, node->params,
                          node->slices);
}

double exrig_squares(void *user, const float *gradient) {
    const struct exrig_node *node = user;
    double sum = 0;
    for (size_t i = 0; i < node->rig->settings.params; i++)
        sum += (double)gradient[i] * (double)gradient[i];
    return sum;
}

void exrig_serial(const struct exrig *rig, uint64_t first, uint64_t last, size_t slices, float *params,
                  float *state) {
    const size_t n = rig->settings.params;
    const size_t count = slices ? slices : rig->roles.workers;
    float *memory = malloc(count * n * sizeof *memory);
    const struct exrig_node node = {.rig = (struct exrig *)(uintptr_t)rig};
    const struct rt_updater updater = {.optim = rig->optim,
                                       .schedule = &rig->schedule,
                                       .updates = 1000,
                                       .per_epoch = 10,
                                       .clip_norm = rig->settings.clip_norm,
                                       .state = state,
                                       .squares = exrig_squares,
                                       .user = (void *)(uintptr_t)&node};
    for (uint64_t batch = first; memory && batch <= last; batch++) {
        struct rt_optim_step step;
        slice_gradient(rig, batch, 0, count, count, NULL, params, memory);
        const struct rt_update update = {.number = batch, .batch = batch, .damping = 1, .scale = 1};
        rt_updater_begin(&updater, &update, memory, &step);
        rt_updater_apply(&updater, &step, 0, n, n, params, memory);
    }
    free(memory);
}

double exrig_distance(const struct exrig *rig, const float *a, const float *b) {
    double most = 0;
    for (size_t i = 0; i < rig->settings.params; i++)
        most = fmax(most, fabs((double)a[i] - (double)b[i]));
    return most;
}

double exrig_excess(const struct exrig *rig, const float *params) {
    const size_t n = rig->settings.params;
    double sum = 0;
    for (size_t j = 0; j < n; j++) {
        double mean = 0;
        for (size_t i = 0; i < rig->settings.examples; i++)
            mean += (double)rig->points[i * n + j];
        mean /= (double)rig->settings.examples;
        sum += 0.5 * ((double)params[j] - mean) * ((double)params[j] - mean);
    }
    return sum / (double)n;
}
