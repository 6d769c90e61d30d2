/*
 * The losses. cross_entropy and bce take the network's raw outputs (logits): softmax and sigmoid are part of
 * them, because computed separately they overflow or lose precision. A row's loss is summed in double, in
 * order; gradients are element by element.
 */
#include "nn/loss.h"

#include "base/exactmath.h"
#include "nn/model.h"
#include <string.h>

struct loss_job {
    const struct rt_kernels *kernels;
    size_t width;
    const float *y;
    const struct rt_targets *targets;
    float scale;
    float *loss, *dy;
};

/* An element of a row counts for about ten: all losses but mse need functions. */
enum { ELEMENTS_FOR_A_THREAD = 2048 };

static void loss_split_rows(const struct rt_device *device, size_t rows, size_t width, const float *y,
                            const struct rt_targets *targets, float scale, rt_range_work body, float *loss,
                            float *dy) {
    struct loss_job job = {device->kernels, width, y, targets, scale, loss, dy};
    rt_device_split(device, rows, ELEMENTS_FOR_A_THREAD / width + 1, body, &job);
}

/* The values that row r is compared with. */
static const float *loss_target_row(const struct rt_targets *targets, size_t width, size_t r) {
    return targets->values + (targets->value_rows ? targets->value_rows[r] : r) * width;
}

/* ---- cross_entropy ----------------------------------------------------------------------------------------
 */

static void cross_entropy_rows(void *argument, size_t begin, size_t end, void *scratch) {
    (void)scratch;
    const struct loss_job *job = argument;
    size_t at = begin * job->width;
    job->kernels->softmax_loss(end - begin, job->width, job->y + at, job->targets->classes + begin,
                               job->scale, job->loss + begin, job->dy ? job->dy + at : NULL);
}

static void cross_entropy_evaluate(const struct rt_device *device, size_t rows, size_t width, const float *y,
                                   const struct rt_targets *targets, float scale, float *loss, float *dy) {
    loss_split_rows(device, rows, width, y, targets, scale, cross_entropy_rows, loss, dy);
}

static void cross_entropy_present(const struct rt_device *device, size_t rows, size_t width, float *y) {
    device->kernels->softmax(rows, width, y, y);
}

static const struct rt_loss_type cross_entropy = {
    .name = "cross_entropy",
    .help = "for classes: -log of the probability given to the right one; softmax is part of it",
    .contains = "softmax",
    .classes = true,
    .evaluate = cross_entropy_evaluate,
    .present = cross_entropy_present,
};

/* ---- mse --------------------------------------------------------------------------------------------------
 */

/* The sum of a row is one chain of dependent additions: several rows at a time keep several chains busy. With
 * fewer rows the remaining differences are zeros. */
enum { MSE_ROWS = 4, MSE_PART = 256 };

static void mse_some_rows(const struct loss_job *job, size_t first, size_t count) {
    const size_t width = job->width;
    const float factor = job->scale * (2.0f / (float)width);
    float differences[MSE_ROWS][MSE_PART] = {{0}};
    double sums[MSE_ROWS] = {0};
    for (size_t from = 0; from < width; from += MSE_PART) {
        const size_t n = width - from < MSE_PART ? width - from : MSE_PART;
        for (size_t k = 0; k < count; k++) {
            const size_t at = (first + k) * width + from;
            const float *y = job->y + at, *target = loss_target_row(job->targets, width, first + k) + from;
            for (size_t i = 0; i < n; i++)
                differences[k][i] = y[i] - target[i];
            for (size_t i = 0; i < n && job->dy; i++)
                job->dy[at + i] = factor * differences[k][i];
        }
        for (size_t i = 0; i < n; i++)
            for (size_t k = 0; k < MSE_ROWS; k++)
                sums[k] += (double)differences[k][i] * (double)differences[k][i];
    }
    for (size_t k = 0; k < count; k++)
        job->loss[first + k] = (float)(sums[k] / (double)width);
}

static void mse_rows(void *argument, size_t begin, size_t end, void *scratch) {
    (void)scratch;
    for (size_t r = begin; r < end; r += MSE_ROWS)
        mse_some_rows(argument, r, end - r < MSE_ROWS ? end - r : MSE_ROWS);
}

static void mse_evaluate(const struct rt_device *device, size_t rows, size_t width, const float *y,
                         const struct rt_targets *targets, float scale, float *loss, float *dy) {
    loss_split_rows(device, rows, width, y, targets, scale, mse_rows, loss, dy);
}

static const struct rt_loss_type mse = {
    .name = "mse",
    .help = "for numbers: the squared difference to the target, mean over the outputs",
    .evaluate = mse_evaluate,
};

/* ---- bce --------------------------------------------------------------------------------------------------
 */

/* How many sigmoids are computed at a time; also how many of them are multiplied before a logarithm is
 * taken. */
enum { BCE_PART = 64 };

/*
 * With s the sigmoid, -t log s(y) - (1 - t) log(1 - s(y)) = max(y, 0) - y t - log s(|y|), where nothing
 * overflows. The logarithms of a row are summed as one logarithm of a product: its factors lie between 1/2
 * and 1, so 64 of them stay well within range.
 */
static void bce_rows(void *argument, size_t begin, size_t end, void *scratch) {
    (void)scratch;
    const struct loss_job *job = argument;
    float factor = job->scale * (1.0f / (float)job->width);
    for (size_t r = begin; r < end; r++) {
        double sum = 0;
        for (size_t first = 0; first < job->width; first += BCE_PART) {
            size_t count = job->width - first < BCE_PART ? job->width - first : BCE_PART;
            size_t at = r * job->width + first;
            const float *y = job->y + at, *target = loss_target_row(job->targets, job->width, r) + first;
            float sigmoid[BCE_PART];
            double product = 1;
            job->kernels->activate(RT_ACT_SIGMOID, 0, count, y, sigmoid);
            for (size_t i = 0; i < count; i++) {
                product *= (double)(y[i] < 0 ? 1.0f - sigmoid[i] : sigmoid[i]);
                sum += (double)(y[i] < 0 ? 0 : y[i]) - (double)y[i] * (double)target[i];
            }
            sum -= (double)rt_log((float)product);
            for (size_t i = 0; i < count && job->dy; i++)
                job->dy[at + i] = factor * (sigmoid[i] - target[i]);
        }
        job->loss[r] = (float)(sum / (double)job->width);
    }
}

static void bce_evaluate(const struct rt_device *device, size_t rows, size_t width, const float *y,
                         const struct rt_targets *targets, float scale, float *loss, float *dy) {
    loss_split_rows(device, rows, width, y, targets, scale, bce_rows, loss, dy);
}

static void bce_present(const struct rt_device *device, size_t rows, size_t width, float *y) {
    rt_activate(device, RT_ACT_SIGMOID, 0, rows * width, y, y);
}

static const struct rt_loss_type bce = {
    .name = "bce",
    .help = "for yes-or-no targets between 0 and 1: binary cross-entropy, mean over the outputs; sigmoid is "
            "part of it",
    .contains = "sigmoid",
    .shares = true,
    .evaluate = bce_evaluate,
    .present = bce_present,
};

/* ---- all of them ------------------------------------------------------------------------------------------
 */

static const struct rt_loss_type *const types[] = {&cross_entropy, &mse, &bce, NULL};

const struct rt_loss_type *const *rt_loss_types(void) {
    return types;
}

const struct rt_loss_type *rt_loss_find(const char *name) {
    for (size_t i = 0; types[i]; i++)
        if (strcmp(types[i]->name, name) == 0)
            return types[i];
    return NULL;
}

void rt_loss_names(const char *names[RT_MAX_LOSSES + 1]) {
    _Static_assert(sizeof types / sizeof *types <= RT_MAX_LOSSES + 1, "more losses than names have room");
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        names[i] = types[i] ? types[i]->name : NULL;
}

rt_status rt_loss_check(const struct rt_loss_type *loss, const struct rt_model *model, struct rt_error *err) {
    const char *last = model->layers[model->count - 1]->type->name;
    if (loss->contains && strcmp(last, loss->contains) == 0)
        return rt_fail(err, RT_BAD_INPUT,
                       "the model ends with %s, but %s applies %s itself: leave that layer out", last,
                       loss->name, last);
    if (loss == &cross_entropy && rt_shape_size(&model->out) < 2)
        return rt_fail(
            err, RT_BAD_INPUT,
            "cross_entropy needs one output per class and the model has a single output: use bce for a "
            "yes-or-no question, or mse for a number");
    return RT_OK;
}

size_t rt_loss_doubtful(const struct rt_loss_type *loss, const struct rt_model *model) {
    bool output = true; /* nothing behind it has parameters */
    for (size_t i = model->count; loss->contains && i-- > 0;) {
        const struct rt_layer *layer = model->layers[i];
        /* A sigmoid between layers is an ordinary activation; a softmax is not. */
        if (strcmp(layer->type->name, loss->contains) == 0 && (output || loss == &cross_entropy))
            return i;
        output = output && layer->param_count == 0;
    }
    return SIZE_MAX;
}

size_t rt_loss_class(size_t width, const float *y) {
    size_t best = 0;
    for (size_t i = 1; i < width; i++)
        if (y[i] > y[best])
            best = i;
    return best;
}

size_t rt_loss_correct(const struct rt_loss_type *loss, size_t rows, size_t width, const float *y,
                       const struct rt_targets *targets) {
    size_t correct = 0;
    for (size_t r = 0; r < rows; r++) {
        const float *row = y + r * width;
        if (loss->classes)
            correct += rt_loss_class(width, row) == (size_t)targets->classes[r];
        else if (loss == &bce && width == 1)
            correct += (row[0] > 0) == (loss_target_row(targets, width, r)[0] > 0.5f);
    }
    return correct;
}
