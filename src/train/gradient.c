/* Work on whole gradient blocks. Every element is its own sum, and every tensor's norm is done by one thread,
 * so the number of threads changes nothing. */
#include "train/gradient.h"

#include "base/memory.h"
#include <math.h>
#include <stdlib.h>

/* Below this many elements a second thread costs more than it brings. */
enum { ELEMENTS_FOR_A_THREAD = 16384 };

struct add_job {
    const struct rt_kernels *kernels;
    const float *x;
    float *y;
};

static void add_range(void *argument, size_t begin, size_t end, void *scratch) {
    (void)scratch;
    const struct add_job *job = argument;
    job->kernels->add(end - begin, job->x + begin, job->y + begin);
}

void rt_gradient_add(const struct rt_device *device, size_t n, const float *x, float *y) {
    struct add_job job = {device->kernels, x, y};
    rt_device_split(device, n, ELEMENTS_FOR_A_THREAD, add_range, &job);
}

struct apply_job {
    const struct rt_optim *optim;
    const struct rt_optim_step *step;
    size_t n;
    const float *gradient;
    float *params, *state;
};

static void apply_range(void *argument, size_t begin, size_t end, void *scratch) {
    (void)scratch;
    const struct apply_job *job = argument;
    rt_optim_apply(job->optim, job->step, begin, end - begin, job->n, job->params, job->gradient + begin,
                   job->state);
}

void rt_gradient_apply(const struct rt_device *device, const struct rt_optim *optim,
                       const struct rt_optim_step *step, size_t n, const float *gradient, float *params,
                       float *state) {
    struct apply_job job = {optim, step, n, gradient, params, state};
    rt_device_split(device, n, ELEMENTS_FOR_A_THREAD, apply_range, &job);
}

/* ---- the norm ---- */

static rt_status count_tensor(void *user, const char *name, const struct rt_shape *shape, size_t offset,
                              bool is_buffer, struct rt_error *err) {
    (void)name, (void)shape, (void)offset, (void)err;
    struct rt_norm *norm = user;
    norm->tensors += is_buffer ? 0 : 1;
    return RT_OK;
}

static rt_status note_tensor(void *user, const char *name, const struct rt_shape *shape, size_t offset,
                             bool is_buffer, struct rt_error *err) {
    (void)name, (void)err;
    struct rt_norm *norm = user;
    if (is_buffer)
        return RT_OK;
    norm->offsets[norm->tensors] = offset;
    norm->counts[norm->tensors++] = rt_shape_size(shape);
    return RT_OK;
}

rt_status rt_norm_create(const struct rt_model *model, struct rt_norm *norm, struct rt_error *err) {
    struct rt_norm made = {0};
    rt_status status = rt_model_visit(model, count_tensor, &made, err);
    if (status == RT_OK)
        status = rt_alloc(made.tensors, sizeof *made.offsets, "the gradient norm", &made.offsets, err);
    if (status == RT_OK)
        status = rt_alloc(made.tensors, sizeof *made.counts, "the gradient norm", &made.counts, err);
    if (status == RT_OK)
        status = rt_alloc(made.tensors, sizeof *made.squares, "the gradient norm", &made.squares, err);
    made.tensors = 0;
    if (status == RT_OK)
        status = rt_model_visit(model, note_tensor, &made, err);
    if (status != RT_OK) {
        rt_norm_destroy(&made);
        return status;
    }
    *norm = made;
    return RT_OK;
}

void rt_norm_destroy(struct rt_norm *norm) {
    free(norm->offsets);
    free(norm->counts);
    free(norm->squares);
    *norm = (struct rt_norm){0};
}

struct norm_job {
    struct rt_norm *norm;
    const struct rt_kernels *kernels;
    const float *gradient;
};

static void square_tensors(void *argument, size_t begin, size_t end, void *scratch) {
    (void)scratch;
    const struct norm_job *job = argument;
    for (size_t i = begin; i < end; i++)
        job->norm->squares[i] =
            job->kernels->square_sum(job->norm->counts[i], job->gradient + job->norm->offsets[i]);
}

double rt_norm_measure(struct rt_norm *norm, const struct rt_device *device, const float *gradient) {
    struct norm_job job = {norm, device->kernels, gradient};
    rt_device_split(device, norm->tensors, 1, square_tensors, &job);
    double sum = 0;
    for (size_t i = 0; i < norm->tensors; i++)
        sum += norm->squares[i];
    return sqrt(sum);
}
