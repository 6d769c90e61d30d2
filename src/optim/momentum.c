/* Gradient descent with momentum: v = momentum * v + g; w -= lr * v. */
#include "base/clones.h"
#include "optim/factors.h"
#include "optim/rules.h"
#include "optim/velocity.h"

RT_CLONES static void update(size_t n, float lr, float decay, float scale, float momentum, float *restrict w,
                             const float *restrict g, float *restrict v) {
    for (size_t i = 0; i < n; i++) {
        float gradient = g[i] * scale + decay * w[i];
        v[i] = momentum * v[i] + gradient;
        w[i] -= lr * v[i];
    }
}

static void apply(const struct rt_optim *optim, const struct rt_optim_step *step, size_t n, float *w,
                  const float *g, float *const *state) {
    const struct rt_velocity *settings = optim->settings;
    update(n, step->lr, step->weight_decay, step->grad_scale, (float)settings->momentum, w, g, state[0]);
}

RT_CLONES_FMA static void update_factors(size_t rows, size_t columns, float lr, float decay, float scale,
                                         float momentum, float *restrict w, const float *restrict left,
                                         const float *restrict right, float *restrict v) {
    for (size_t i = 0; i < rows; i++, w += columns, v += columns)
        for (size_t j = 0; j < columns; j++) {
            float gradient = rt_factors_product(left[i], right[j]) * scale + decay * w[j];
            v[j] = momentum * v[j] + gradient;
            w[j] -= lr * v[j];
        }
}

static void apply_factors(const struct rt_optim *optim, const struct rt_optim_step *step, size_t rows,
                          size_t columns, float *w, const float *left, const float *right,
                          float *const *state) {
    const struct rt_velocity *settings = optim->settings;
    update_factors(rows, columns, step->lr, step->weight_decay, step->grad_scale, (float)settings->momentum,
                   w, left, right, state[0]);
}

const struct rt_optim_type rt_optim_momentum = {
    .name = "momentum",
    .help = "gradient descent with momentum: v = momentum * v + g; w -= lr * v",
    .options = rt_velocity_options,
    .option_count = RT_VELOCITY_OPTIONS,
    .settings_bytes = sizeof(struct rt_velocity),
    .default_lr = "0.05",
    .state_words = 1,
    .apply = apply,
    .apply_factors = apply_factors,
};
