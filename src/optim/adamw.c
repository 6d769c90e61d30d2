/* AdamW: Adam with decoupled weight decay: w *= 1 - lr * weight_decay, then Adam's step. So the decay is the
 * same for every parameter, however large its gradients are. */
#include "base/clones.h"
#include "optim/moments.h"
#include "optim/rules.h"
#include <math.h>

RT_CLONES static void update(size_t n, const struct rt_optim_step *step, const struct rt_moments *moments,
                             float *restrict w, const float *restrict g, float *restrict m,
                             float *restrict v) {
    const float size = step->correction[0], root = step->correction[1];
    const float scale = step->grad_scale, eps = (float)moments->eps;
    const float shrink = (float)(1 - (double)step->lr * (double)step->weight_decay);
    const float keep1 = (float)moments->beta1, take1 = (float)(1 - moments->beta1);
    const float keep2 = (float)moments->beta2, take2 = (float)(1 - moments->beta2);
    for (size_t i = 0; i < n; i++) {
        float gradient = g[i] * scale;
        m[i] = keep1 * m[i] + take1 * gradient;
        v[i] = keep2 * v[i] + take2 * gradient * gradient;
        w[i] = w[i] * shrink - size * (m[i] / (sqrtf(v[i]) / root + eps));
    }
}

static void adamw_apply(const struct rt_optim *optim, const struct rt_optim_step *step, size_t n, float *w,
                        const float *g, float *const *state) {
    update(n, step, optim->settings, w, g, state[0], state[1]);
}

const struct rt_optim_type rt_optim_adamw = {
    .name = "adamw",
    .help = "adam with weight decay applied to the weights themselves, not through the gradient",
    .options = rt_moments_options,
    .option_count = RT_MOMENTS_OPTIONS,
    .settings_bytes = sizeof(struct rt_moments),
    .default_lr = "0.001",
    .default_weight_decay = "0.01",
    .state_tensors = 2,
    .begin = rt_moments_begin,
    .apply = adamw_apply,
    .damp = 1,
};
