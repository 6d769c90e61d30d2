/* The optimizer's step of an update, for all who apply one; see collective_exchange.h. */
#include "exchange/collective/collective_exchange.h"

void rt_learning_begin(const struct rt_learning *learning, uint64_t update, const float *gradient,
                       struct rt_optim_step *step) {
    float factor = 1;
    if (gradient && learning->clip_norm > 0)
        factor = rt_optim_clip(learning->clip_norm, learning->squares(learning->user, gradient), 1);
    rt_optim_begin(learning->optim, update,
                   rt_schedule_factor(learning->schedule, update, learning->updates, learning->per_epoch),
                   factor, step);
}

void rt_learning_apply(const struct rt_learning *learning, const struct rt_optim_step *step, size_t first,
                       size_t count, size_t total, float *params, const float *gradient) {
    if (learning->apply)
        learning->apply(learning->user, step, first, count, gradient);
    else
        rt_optim_apply(learning->optim, step, first, count, total, params, gradient, learning->state);
}
