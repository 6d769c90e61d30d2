/* Gradient descent after a single example, as the reference has it. */
#include "tensor/reference/reference.h"

void rt_reference_descend(const struct rt_descent *descent, size_t rows, size_t n, const float *left,
                          const float *right, const float *next, float *sums) {
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < n; j++) {
            float *w = &descent->w[i * n + j];
            float g = __builtin_fmaf(left[i], right[j], 0.0f);
            if (descent->scale != 1 || descent->decay != 0)
                g = g * descent->scale + descent->decay * *w;
            if (descent->v)
                descent->v[i * n + j] = g = descent->momentum * descent->v[i * n + j] + g;
            *w -= descent->lr * g;
            if (next)
                sums[j] = __builtin_fmaf(next[i], *w, sums[j]);
        }
}
