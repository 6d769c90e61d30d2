/*
 * Softmax and its loss. A row stays in the first cache while it is gone over: the largest element, then
 * e = exp(x - largest) with its sum, then the outputs. Rows are often short (ten classes), so the end of a
 * row is done as a full step of sixteen lanes on a filled-up copy, not one by one.
 */
#include "base/exactmath.h"
#include "tensor/exact/loops.h"

static inline float softmax_max(float a, float b) {
    return b > a ? b : a;
}

static inline float softmax_fold_largest(const float lane[LANES]) {
    float v[LANES];
    for (size_t l = 0; l < 8; l++)
        v[l] = softmax_max(lane[l], lane[l + 8]);
    for (size_t l = 0; l < 4; l++)
        v[l] = softmax_max(v[l], v[l + 4]);
    for (size_t l = 0; l < 2; l++)
        v[l] = softmax_max(v[l], v[l + 2]);
    return softmax_max(v[0], v[1]);
}

/* A NaN never is the largest; it comes back through the sum. */
static inline float softmax_row_largest(size_t n, const float *x) {
    float lane[LANES], part[LANES];
    size_t i = 0;
    for (size_t l = 0; l < LANES; l++)
        lane[l] = -__builtin_inff();
    for (; i + LANES <= n; i += LANES)
        for (size_t l = 0; l < LANES; l++)
            lane[l] = softmax_max(lane[l], x[i + l]);
    load_part(x + i, n - i, -__builtin_inff(), part);
    for (size_t l = 0; l < LANES; l++)
        lane[l] = softmax_max(lane[l], part[l]);
    return softmax_fold_largest(lane);
}

/* e = exp(x - largest), unless e is NULL; returns the sum of e. e may be x. */
static inline float softmax_row_exp(size_t n, const float *x, float largest, float *e) {
    float lane[LANES] = {0}, part[LANES];
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        for (size_t l = 0; l < LANES; l++)
            part[l] = rt_exp(x[i + l] - largest);
        for (size_t l = 0; l < LANES; l++)
            lane[l] += part[l];
        if (e)
            IN_PLACE for (size_t l = 0; l < LANES; l++) e[i + l] = part[l];
    }
    int32_t rest = (int32_t)(n - i);
    load_part(x + i, n - i, 0.0f, part);
    for (int32_t l = 0; l < LANES; l++)
        part[l] = rt_exp(part[l] - largest);
    for (int32_t l = 0; l < LANES; l++)
        lane[l] += l < rest ? part[l] : 0.0f;
    if (e)
        store_part(part, n - i, e + i);
    return fold(lane);
}

void ISA(softmax)(size_t rows, size_t n, const float *x, float *y) {
    for (size_t r = 0; r < rows; r++, x += n, y += n) {
        float factor = 1.0f / softmax_row_exp(n, x, softmax_row_largest(n, x), y);
        IN_PLACE for (size_t j = 0; j < n; j++) y[j] = factor * y[j];
    }
}

void ISA(softmax_back)(size_t rows, size_t n, const float *y, const float *dy, float *dx) {
    for (size_t r = 0; r < rows; r++, y += n, dy += n, dx += n) {
        float dot = ISA(dot16)(n, y, dy);
        IN_PLACE for (size_t j = 0; j < n; j++) dx[j] = y[j] * (dy[j] - dot);
    }
}

void ISA(softmax_loss)(size_t rows, size_t n, const float *x, const int32_t *labels, float scale, float *loss,
                       float *dx) {
    for (size_t r = 0; r < rows; r++, x += n) {
        size_t label = (size_t)labels[r];
        float largest = softmax_row_largest(n, x), at_label = x[label];
        float sum = softmax_row_exp(n, x, largest, dx);
        loss[r] = rt_log(sum) + (largest - at_label);
        if (dx) {
            float factor = 1.0f / sum;
            float e_label = dx[label];
            for (size_t j = 0; j < n; j++)
                dx[j] = dx[j] * factor * scale;
            dx[label] = (e_label * factor - 1.0f) * scale;
            dx += n;
        }
    }
}
