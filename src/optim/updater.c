/* The steps of an updater; see updater.h. */
#include "optim/updater.h"

void rt_updater_begin(const struct rt_updater *updater, const struct rt_update *update, const float *gradient,
                      struct rt_optim_step *step) {
    const double factor =
        rt_schedule_factor(updater->schedule, update->batch, updater->updates, updater->per_epoch);
    const bool clips = gradient && updater->clip_norm > 0 && updater->squares;
    const double squares = clips ? updater->squares(updater->user, gradient) : 0;
    rt_optim_begin(updater->optim, update->number, factor / update->damping,
                   rt_optim_clip(clips ? updater->clip_norm : 0, squares, update->scale), step);
}

void rt_updater_apply(const struct rt_updater *updater, const struct rt_optim_step *step, size_t first,
                      size_t count, size_t total, float *params, const float *gradient) {
    if (updater->apply)
        updater->apply(updater->user, step, first, count, gradient);
    else
        rt_optim_apply(updater->optim, step, first, count, total, params, gradient, updater->state);
}
