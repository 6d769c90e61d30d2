/* The optimizer's step of an update, for all who apply one; see learning.h. */
#include "exchange/learning.h"

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

enum rt_state rt_learning_enter(const struct rt_learning *learning, enum rt_state state) {
    struct rt_states *states = learning->states;
    if (!states)
        return state;
    const enum rt_state before = states->now;
    rt_states_enter(states, state);
    return before;
}
