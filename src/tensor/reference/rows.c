/* Sums along rows and down columns, softmax and normalisation, in the reference. */
#include "base/exactmath.h"
#include "tensor/reference/reference.h"

/* Lanes are folded by halves: 8 to the first 8, then 4, 2, 1. */
static float folded(float lane[16]) {
    for (size_t half = 8; half > 0; half /= 2)
        for (size_t l = 0; l < half; l++)
            lane[l] += lane[l + half];
    return lane[0];
}

float rt_reference_sum16(size_t n, const float *x) {
    float lane[16] = {0};
    for (size_t i = 0; i < n; i++)
        lane[i % 16] += x[i];
    return folded(lane);
}

float rt_reference_dot16(size_t n, const float *x, const float *y) {
    float lane[16] = {0};
    for (size_t i = 0; i < n; i++)
        lane[i % 16] = __builtin_fmaf(x[i], y[i], lane[i % 16]);
    return folded(lane);
}

double rt_reference_square_sum(size_t n, const float *x) {
    double lane[8] = {0};
    for (size_t i = 0; i < n; i++)
        lane[i % 8] += (double)x[i] * (double)x[i];
    for (size_t half = 4; half > 0; half /= 2)
        for (size_t l = 0; l < half; l++)
            lane[l] += lane[l + half];
    return lane[0];
}

void rt_reference_column_sum(size_t rows, size_t n, const float *x, bool accumulate, float *acc) {
    for (size_t j = 0; j < n; j++) {
        float sum = accumulate ? acc[j] : 0.0f;
        for (size_t i = 0; i < rows; i++)
            sum += x[i * n + j];
        acc[j] = sum;
    }
}

void rt_reference_column_dot(size_t rows, size_t n, const float *a, const float *b, bool accumulate,
                             float *acc) {
    for (size_t j = 0; j < n; j++) {
        float sum = accumulate ? acc[j] : 0.0f;
        for (size_t i = 0; i < rows; i++)
            sum = __builtin_fmaf(a[i * n + j], b[i * n + j], sum);
        acc[j] = sum;
    }
}

/* A NaN never is the largest; it comes back through the sum. */
static float largest(size_t n, const float *x) {
    float best = -__builtin_inff();
    for (size_t i = 0; i < n; i++)
        best = x[i] > best ? x[i] : best;
    return best;
}

/* The sum, in sixteen lanes, of exp(x - top). */
static float exp_sum(size_t n, const float *x, float top) {
    float lane[16] = {0};
    for (size_t i = 0; i < n; i++)
        lane[i % 16] += rt_exp(x[i] - top);
    return folded(lane);
}

void rt_reference_softmax(size_t rows, size_t n, const float *x, float *y) {
    for (size_t r = 0; r < rows; r++, x += n, y += n) {
        float top = largest(n, x);
        float factor = 1.0f / exp_sum(n, x, top);
        for (size_t j = 0; j < n; j++)
            y[j] = factor * rt_exp(x[j] - top);
    }
}

void rt_reference_softmax_back(size_t rows, size_t n, const float *y, const float *dy, float *dx) {
    for (size_t r = 0; r < rows; r++, y += n, dy += n, dx += n) {
        float dot = rt_reference_dot16(n, y, dy);
        for (size_t j = 0; j < n; j++)
            dx[j] = y[j] * (dy[j] - dot);
    }
}

void rt_reference_softmax_loss(size_t rows, size_t n, const float *x, const int32_t *labels, float scale,
                               float *loss, float *dx) {
    for (size_t r = 0; r < rows; r++) {
        const float *row = x + r * n;
        float top = largest(n, row);
        float sum = exp_sum(n, row, top);
        loss[r] = rt_log(sum) + (top - row[labels[r]]);
        for (size_t j = 0; dx && j < n; j++) {
            float y = rt_exp(row[j] - top) * (1.0f / sum);
            dx[r * n + j] = (j == (size_t)labels[r] ? y - 1.0f : y) * scale;
        }
    }
}

void rt_reference_norm_rows(size_t rows, size_t n, const float *x, const float *gamma, const float *beta,
                            float eps, float *y, float *moments) {
    for (size_t r = 0; r < rows; r++, x += n, y += n) {
        float mean = rt_reference_sum16(n, x) / (float)n;
        float lane[16] = {0};
        for (size_t j = 0; j < n; j++)
            lane[j % 16] = __builtin_fmaf(x[j] - mean, x[j] - mean, lane[j % 16]);
        float rstd = 1.0f / __builtin_sqrtf(folded(lane) / (float)n + eps);
        for (size_t j = 0; j < n; j++)
            y[j] = __builtin_fmaf((x[j] - mean) * rstd, gamma[j], beta[j]);
        moments[2 * r] = mean;
        moments[2 * r + 1] = rstd;
    }
}

void rt_reference_norm_rows_back(size_t rows, size_t n, const float *x, const float *gamma,
                                 const float *moments, const float *dy, float *dx) {
    for (size_t r = 0; r < rows; r++, x += n, dy += n, dx += n) {
        float mean = moments[2 * r], rstd = moments[2 * r + 1];
        float sum[16] = {0}, dot[16] = {0};
        for (size_t j = 0; j < n; j++) {
            float g = dy[j] * gamma[j], xhat = (x[j] - mean) * rstd;
            sum[j % 16] += g;
            dot[j % 16] = __builtin_fmaf(g, xhat, dot[j % 16]);
        }
        float mean_g = folded(sum) / (float)n, mean_gx = folded(dot) / (float)n;
        for (size_t j = 0; j < n; j++) {
            float g = dy[j] * gamma[j], xhat = (x[j] - mean) * rstd;
            dx[j] = (g - mean_g - xhat * mean_gx) * rstd;
        }
    }
}

void rt_reference_norm_rows_xhat(size_t rows, size_t n, const float *x, const float *moments, float *xhat) {
    for (size_t r = 0; r < rows; r++)
        for (size_t j = 0; j < n; j++)
            xhat[r * n + j] = (x[r * n + j] - moments[2 * r]) * moments[2 * r + 1];
}
