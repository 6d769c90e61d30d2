/* Work on whole gradient blocks. Every element has its own sum, and one thread computes each tensor's norm,
 * so the number of threads changes nothing. */
#include "learn/gradient.h"

#include "base/memory.h"
#include <stdlib.h>
#include <string.h>

/* Below this many elements a second thread costs more than it brings. */
enum { ELEMENTS_FOR_A_THREAD = 16384 };

struct add_job {
    const struct rt_kernels *kernels;
    const float *x;
    float *y;
};

static void gradient_add_range(void *argument, size_t begin, size_t end, void *scratch) {
    (void)scratch;
    const struct add_job *job = argument;
    job->kernels->add(end - begin, job->x + begin, job->y + begin);
}

void rt_gradient_add(const struct rt_device *device, size_t n, const float *x, float *y) {
    struct add_job job = {device->kernels, x, y};
    rt_device_split(device, n, ELEMENTS_FOR_A_THREAD, gradient_add_range, &job);
}

struct apply_job {
    const struct rt_optim *optim;
    const struct rt_optim_step *step;
    size_t first, n;
    const float *gradient;
    float *params, *state;
};

static void gradient_apply_range(void *argument, size_t begin, size_t end, void *scratch) {
    (void)scratch;
    const struct apply_job *job = argument;
    rt_optim_apply(job->optim, job->step, job->first + begin, end - begin, job->n, job->params,
                   job->gradient + begin, job->state);
}

void rt_gradient_apply(const struct rt_device *device, const struct rt_optim *optim,
                       const struct rt_optim_step *step, size_t n, const float *gradient, float *params,
                       float *state) {
    rt_gradient_apply_span(device, optim, step, 0, n, n, gradient, params, state);
}

void rt_gradient_apply_span(const struct rt_device *device, const struct rt_optim *optim,
                            const struct rt_optim_step *step, size_t first, size_t count, size_t n,
                            const float *gradient, float *params, float *state) {
    struct apply_job job = {optim, step, first, n, gradient, params, state};
    rt_device_split(device, count, ELEMENTS_FOR_A_THREAD, gradient_apply_range, &job);
}

bool rt_gradient_descent(const struct rt_optim *optim, const struct rt_optim_step *step, float *params,
                         float *state, struct rt_descent *descent) {
    if (!optim->type->momentum)
        return false;
    *descent = (struct rt_descent){.lr = step->lr,
                                   .momentum = optim->type->momentum(optim),
                                   .scale = step->grad_scale,
                                   .decay = step->weight_decay,
                                   .w = params,
                                   .v = optim->type->state_tensors ? state : NULL};
    return true;
}

/* By the bits, so that no compiler option can optimise it away; without an early exit, so that it is fast. */
bool rt_block_is_finite(const float *block, size_t count) {
    const uint32_t exponent = 0x7f800000;
    uint32_t bad = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, &block[i], sizeof bits);
        bad |= (bits & exponent) == exponent;
    }
    return !bad;
}

/* ---- slices ---- */

rt_status rt_slices_create(const struct rt_device *device, size_t params, struct rt_slice_run run,
                           bool rarely_touched, struct rt_slices *slices, struct rt_error *err) {
    const size_t blocks = rt_slices_height(run);
    if (run.first > RT_MAX_SLICES || run.count > RT_MAX_SLICES - run.first || blocks > RT_SLICE_BLOCKS)
        return rt_fail(err, RT_BAD_INPUT, "shards: more than %d slices", RT_MAX_SLICES);
    struct rt_slices made = {.device = device, .params = params, .run = run};
    rt_status status = RT_OK;
    for (size_t i = 0; i < blocks && status == RT_OK; i++)
        status = rarely_touched ? rt_floats_reserve(params, "the gradients", &made.blocks[i], err)
                                : rt_floats_create(params, "the gradients", &made.blocks[i], err);
    if (status != RT_OK)
        rt_slices_destroy(&made);
    else
        *slices = made;
    return status;
}

void rt_slices_destroy(struct rt_slices *slices) {
    for (size_t i = 0; i < RT_SLICE_BLOCKS; i++)
        free(slices->blocks[i]);
    *slices = (struct rt_slices){0};
}

void rt_slices_reset(struct rt_slices *slices) {
    slices->done = 0;
    slices->depth = 0;
}

float *rt_slices_block(struct rt_slices *slices, size_t slice) {
    while (slices->done < slice) {
        memset(slices->blocks[slices->depth], 0, slices->params * sizeof(float));
        rt_slices_end(slices);
    }
    return slices->depth < RT_SLICE_BLOCKS ? slices->blocks[slices->depth] : NULL;
}

/* Sums of two that are complete with the slice under way. */
static unsigned slices_merges(const struct rt_slices *slices) {
    return rt_slices_merges(slices->run.first, slices->run.first + slices->done);
}

void rt_slices_end(struct rt_slices *slices) {
    rt_slices_end_span(slices, 0, slices->params);
    rt_slices_end_spans(slices);
}

void rt_slices_end_span(const struct rt_slices *slices, size_t first, size_t count) {
    size_t depth = slices->depth;
    for (unsigned left = slices_merges(slices); left > 0; left--, depth--)
        rt_gradient_add(slices->device, count, slices->blocks[depth] + first,
                        slices->blocks[depth - 1] + first);
}

void rt_slices_end_spans(struct rt_slices *slices) {
    slices->depth += 1 - (size_t)slices_merges(slices);
    slices->done++;
}

/* ---- the norm ---- */

static rt_status gradient_count_tensor(void *user, const char *name, const struct rt_shape *shape,
                                       size_t offset, bool is_buffer, struct rt_error *err) {
    (void)name, (void)shape, (void)offset, (void)err;
    struct rt_norm *norm = user;
    norm->tensors += is_buffer ? 0 : 1;
    return RT_OK;
}

static rt_status gradient_note_tensor(void *user, const char *name, const struct rt_shape *shape,
                                      size_t offset, bool is_buffer, struct rt_error *err) {
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
    rt_status status = rt_model_visit(model, gradient_count_tensor, &made, err);
    if (status == RT_OK)
        status = rt_alloc(made.tensors, sizeof *made.offsets, "the gradient norm", &made.offsets, err);
    if (status == RT_OK)
        status = rt_alloc(made.tensors, sizeof *made.counts, "the gradient norm", &made.counts, err);
    if (status == RT_OK)
        status = rt_alloc(made.tensors, sizeof *made.squares, "the gradient norm", &made.squares, err);
    made.tensors = 0;
    if (status == RT_OK)
        status = rt_model_visit(model, gradient_note_tensor, &made, err);
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

static void gradient_square_tensors(void *argument, size_t begin, size_t end, void *scratch) {
    (void)scratch;
    const struct norm_job *job = argument;
    for (size_t i = begin; i < end; i++)
        job->norm->squares[i] =
            job->kernels->square_sum(job->norm->counts[i], job->gradient + job->norm->offsets[i]);
}

double rt_norm_squares(struct rt_norm *norm, const struct rt_device *device, const float *gradient,
                       double sum) {
    struct norm_job job = {norm, device->kernels, gradient};
    rt_device_split(device, norm->tensors, 1, gradient_square_tensors, &job);
    for (size_t i = 0; i < norm->tensors; i++)
        sum += norm->squares[i];
    return sum;
}

float rt_norm_clip(double clip_norm, double squares) {
    return rt_optim_clip(clip_norm, squares, 1);
}
