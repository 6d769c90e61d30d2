/* Adagrad: each parameter's rate shrinks with the gradients it has seen:
 * sum += g^2; w -= lr * g / (sqrt(sum) + eps). */
#include "base/clones.h"
#include "optim/gradient.h"
#include "optim/rules.h"
#include <math.h>
#include <stddef.h>

struct settings {
    double eps;
};

static const struct rt_option options[] = {
    {.name = "eps",
     .kind = RT_OPTION_REAL,
     .offset = offsetof(struct settings, eps),
     .fallback = "1e-10",
     .min = 1e-30,
     .max = 1,
     .help = "keeps the division away from zero"},
};

RT_CLONES static void update(size_t n, float lr, float decay, float scale, float eps, float *restrict w,
                             const float *restrict g, float *restrict sum) {
    for (size_t i = 0; i < n; i++) {
        float gradient = rt_gradient(g[i], scale, decay, w[i]);
        sum[i] += gradient * gradient;
        w[i] -= lr * (gradient / (sqrtf(sum[i]) + eps));
    }
}

static void adagrad_apply(const struct rt_optim *optim, const struct rt_optim_step *step, size_t n, float *w,
                          const float *g, float *const *state) {
    const struct settings *settings = optim->settings;
    update(n, step->lr, step->weight_decay, step->grad_scale, (float)settings->eps, w, g, state[0]);
}

const struct rt_optim_type rt_optim_adagrad = {
    .name = "adagrad",
    .help =
        "a rate per parameter that shrinks with the gradients seen: w -= lr * g / (sqrt(sum of g^2) + eps)",
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .settings_bytes = sizeof(struct settings),
    .default_lr = "0.01",
    .state_tensors = 1,
    .apply = adagrad_apply,
};
