/*
 * Sums along rows and down columns. Sums along a row use sixteen lanes (see tensor/kernels.h); that a set
 * of instructions adds four, eight or sixteen of them at a time changes nothing.
 */
#include "tensor/exact/loops.h"

#include <string.h>

float ISA(sum16)(size_t n, const float *x) {
    float lane[LANES] = {0}, part[LANES];
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (size_t l = 0; l < LANES; l++)
            lane[l] += x[i + l];
    load_part(x + i, n - i, 0.0f, part);
    for (size_t l = 0; l < LANES; l++)
        lane[l] += part[l];
    return fold(lane);
}

float ISA(dot16)(size_t n, const float *x, const float *y) {
    float lane[LANES] = {0}, a[LANES], b[LANES];
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (size_t l = 0; l < LANES; l++)
            lane[l] = __builtin_fmaf(x[i + l], y[i + l], lane[l]);
    load_part(x + i, n - i, 0.0f, a);
    load_part(y + i, n - i, 0.0f, b);
    for (size_t l = 0; l < LANES; l++)
        lane[l] = __builtin_fmaf(a[l], b[l], lane[l]);
    return fold(lane);
}

double ISA(square_sum)(size_t n, const float *x) {
    double lane[8] = {0};
    size_t i = 0;
    for (; i + 8 <= n; i += 8)
        for (size_t l = 0; l < 8; l++)
            lane[l] += (double)x[i + l] * (double)x[i + l];
    for (size_t l = 0; i + l < n; l++)
        lane[l] += (double)x[i + l] * (double)x[i + l];
    for (size_t half = 4; half > 0; half /= 2)
        for (size_t l = 0; l < half; l++)
            lane[l] += lane[l + half];
    return lane[0];
}

/* Four rows at a time, so that acc is read and written once for them; each sum still runs row by row. */
void ISA(column_sum)(size_t rows, size_t n, const float *restrict x, bool accumulate, float *restrict acc) {
    if (!accumulate)
        memset(acc, 0, n * sizeof *acc);
    size_t i = 0;
    for (; i + 4 <= rows; i += 4) {
        const float *x0 = x + i * n, *x1 = x0 + n, *x2 = x1 + n, *x3 = x2 + n;
        for (size_t j = 0; j < n; j++)
            acc[j] = (((acc[j] + x0[j]) + x1[j]) + x2[j]) + x3[j];
    }
    for (; i < rows; i++)
        for (size_t j = 0; j < n; j++)
            acc[j] += x[i * n + j];
}

void ISA(column_dot)(size_t rows, size_t n, const float *restrict a, const float *restrict b, bool accumulate,
                     float *restrict acc) {
    if (!accumulate)
        memset(acc, 0, n * sizeof *acc);
    size_t i = 0;
    for (; i + 2 <= rows; i += 2) {
        const float *a0 = a + i * n, *a1 = a0 + n, *b0 = b + i * n, *b1 = b0 + n;
        for (size_t j = 0; j < n; j++)
            acc[j] = __builtin_fmaf(a1[j], b1[j], __builtin_fmaf(a0[j], b0[j], acc[j]));
    }
    for (; i < rows; i++)
        for (size_t j = 0; j < n; j++)
            acc[j] = __builtin_fmaf(a[i * n + j], b[i * n + j], acc[j]);
}

void ISA(norm_rows)(size_t rows, size_t n, const float *x, const float *gamma, const float *beta, float eps,
                    float *y, float *moments) {
    for (size_t r = 0; r < rows; r++, x += n, y += n, moments += 2) {
        float mean = ISA(sum16)(n, x) / (float)n;
        float lane[LANES] = {0}, part[LANES];
        size_t i = 0;
        for (; i + LANES <= n; i += LANES)
            for (size_t l = 0; l < LANES; l++) {
                float d = x[i + l] - mean;
                lane[l] = __builtin_fmaf(d, d, lane[l]);
            }
        load_part(x + i, n - i, mean, part);
        for (size_t l = 0; l < LANES; l++) {
            float d = l < n - i ? part[l] - mean : 0.0f;
            lane[l] = __builtin_fmaf(d, d, lane[l]);
        }
        float rstd = 1.0f / __builtin_sqrtf(fold(lane) / (float)n + eps);
        IN_PLACE for (size_t j = 0; j < n; j++) y[j] =
            __builtin_fmaf((x[j] - mean) * rstd, gamma[j], beta[j]);
        moments[0] = mean;
        moments[1] = rstd;
    }
}

void ISA(norm_rows_back)(size_t rows, size_t n, const float *x, const float *gamma, const float *moments,
                         const float *dy, float *dx) {
    for (size_t r = 0; r < rows; r++, x += n, dy += n, dx += n, moments += 2) {
        float mean = moments[0], rstd = moments[1];
        float sum[LANES] = {0}, dot[LANES] = {0};
        float x_part[LANES], gamma_part[LANES], dy_part[LANES];
        size_t i = 0;
        for (; i + LANES <= n; i += LANES)
            for (size_t l = 0; l < LANES; l++) {
                float g = dy[i + l] * gamma[i + l];
                sum[l] += g;
                dot[l] = __builtin_fmaf(g, (x[i + l] - mean) * rstd, dot[l]);
            }
        load_part(x + i, n - i, 0.0f, x_part);
        load_part(gamma + i, n - i, 0.0f, gamma_part);
        load_part(dy + i, n - i, 0.0f, dy_part);
        for (size_t l = 0; l < LANES; l++) {
            float g = dy_part[l] * gamma_part[l];
            float xhat = l < n - i ? (x_part[l] - mean) * rstd : 0.0f;
            sum[l] += g;
            dot[l] = __builtin_fmaf(g, xhat, dot[l]);
        }
        float mean_g = fold(sum) / (float)n, mean_gx = fold(dot) / (float)n;
        IN_PLACE for (size_t j = 0; j < n; j++) {
            float xhat = (x[j] - mean) * rstd;
            dx[j] = (dy[j] * gamma[j] - mean_g - xhat * mean_gx) * rstd;
        }
    }
}

void ISA(norm_rows_xhat)(size_t rows, size_t n, const float *x, const float *moments, float *xhat) {
    for (size_t r = 0; r < rows; r++, x += n, xhat += n, moments += 2) {
        float mean = moments[0], rstd = moments[1];
        IN_PLACE for (size_t j = 0; j < n; j++) xhat[j] = (x[j] - mean) * rstd;
    }
}
