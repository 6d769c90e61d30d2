/* Gradient descent after a single example, as the reference has it. */
#include "tensor/reference/reference.h"

void rt_reference_descend(const struct rt_descent *how, size_t rows, size_t n, const float *left,
                          const float *right, float *w, float *v, const float *next, float *sums) {
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < n; j++) {
            const size_t at = i * n + j;
            float g = __builtin_fmaf(left[i], right[j], 0.0f);
            if (how->scale != 1 || how->decay != 0)
                g = g * how->scale + how->decay * w[at];
            if (v)
                v[at] = g = how->momentum * v[at] + g;
            w[at] -= how->lr * g;
            if (next)
                sums[j] = __builtin_fmaf(next[i], w[at], sums[j]);
        }
}
