/* Plain gradient descent: w -= lr * (g + weight_decay * w). */
#include "base/clones.h"
#include "optim/gradient.h"
#include "optim/rules.h"

RT_CLONES static void update(size_t n, float lr, float decay, float scale, float *restrict w,
                             const float *restrict g) {
    if (rt_gradient_is_raw(scale, decay))
        for (size_t i = 0; i < n; i++)
            w[i] -= lr * g[i];
    else
        for (size_t i = 0; i < n; i++)
            w[i] -= lr * rt_gradient(g[i], scale, decay, w[i]);
}

static void sgd_apply(const struct rt_optim *optim, const struct rt_optim_step *step, size_t n, float *w,
                      const float *g, float *const *state) {
    (void)optim, (void)state;
    update(n, step->lr, step->weight_decay, step->grad_scale, w, g);
}

static float sgd_momentum(const struct rt_optim *optim) {
    (void)optim;
    return 0;
}

const struct rt_optim_type rt_optim_sgd = {
    .name = "sgd",
    .help = "plain gradient descent: w -= lr * g; no state",
    .default_lr = "0.05",
    .apply = sgd_apply,
    .momentum = sgd_momentum,
};
