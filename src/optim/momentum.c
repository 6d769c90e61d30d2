/* Gradient descent with momentum: v = momentum * v + g; w -= lr * v. */
#include "base/clones.h"
#include "optim/gradient.h"
#include "optim/rules.h"
#include "optim/velocity.h"

static inline void momentum_step(float lr, float momentum, float gradient, float *w, float *v) {
    *v = momentum * *v + gradient;
    *w -= lr * *v;
}

RT_CLONES static void update(size_t n, float lr, float decay, float scale, float momentum, float *restrict w,
                             const float *restrict g, float *restrict v) {
    if (rt_gradient_is_raw(scale, decay))
        for (size_t i = 0; i < n; i++)
            momentum_step(lr, momentum, g[i], &w[i], &v[i]);
    else
        for (size_t i = 0; i < n; i++)
            momentum_step(lr, momentum, rt_gradient(g[i], scale, decay, w[i]), &w[i], &v[i]);
}

static void momentum_apply(const struct rt_optim *optim, const struct rt_optim_step *step, size_t n, float *w,
                           const float *g, float *const *state) {
    const struct rt_velocity *settings = optim->settings;
    update(n, step->lr, step->weight_decay, step->grad_scale, (float)settings->momentum, w, g, state[0]);
}

static float momentum_factor(const struct rt_optim *optim) {
    const struct rt_velocity *settings = optim->settings;
    return (float)settings->momentum;
}

const struct rt_optim_type rt_optim_momentum = {
    .name = "momentum",
    .help = "gradient descent with momentum: v = momentum * v + g; w -= lr * v",
    .options = rt_velocity_options,
    .option_count = RT_VELOCITY_OPTIONS,
    .settings_bytes = sizeof(struct rt_velocity),
    .default_lr = "0.05",
    .state_tensors = 1,
    .apply = momentum_apply,
    .momentum = momentum_factor,
    .damp = 2,
};
