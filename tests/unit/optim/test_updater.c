/* The updater: what of an update the schedule, the rule and the clipping each see. */
#include "optim/updater.h"
#include "support/test.h"
#include <math.h>
#include <stdlib.h>

struct applied {
    size_t calls, first, count;
    float lr;
};

static double squares(void *user, const float *gradient) {
    (void)user;
    return (double)gradient[0] * gradient[0] + (double)gradient[1] * gradient[1];
}

static void apply(void *user, const struct rt_optim_step *step, size_t first, size_t count,
                  const float *gradient) {
    (void)gradient;
    *(struct applied *)user = (struct applied){((struct applied *)user)->calls + 1, first, count, step->lr};
}

static struct rt_optim *make(void) {
    struct rt_error err;
    struct rt_optim *optim = NULL;
    if (rt_optim_create(NULL, &optim, &err) != RT_OK)
        exit(1);
    return optim;
}

TEST(the_schedule_goes_by_batches_and_the_rule_by_updates) {
    struct rt_optim *optim = make();
    const struct rt_schedule schedule = {.kind = RT_SCHEDULE_CONSTANT, .warmup = 1};
    const struct rt_updater updater = {
        .optim = optim, .schedule = &schedule, .updates = 100, .per_epoch = 10};
    const struct rt_update update = {.number = 3, .batch = 5, .damping = 4, .scale = 0.5};
    struct rt_optim_step step;
    rt_updater_begin(&updater, &update, NULL, &step);
    CHECK(step.update == 3);
    CHECK(fabs(step.lr - optim->lr * 0.5 / 4) < 1e-7);
    CHECK(step.grad_scale == 0.5f);
    rt_optim_destroy(optim);
}

TEST(a_gradient_is_clipped_after_it_is_scaled) {
    struct rt_optim *optim = make();
    const struct rt_schedule schedule = {.kind = RT_SCHEDULE_CONSTANT};
    const float gradient[] = {6, 8};
    struct rt_updater updater = {.optim = optim,
                                 .schedule = &schedule,
                                 .updates = 100,
                                 .per_epoch = 10,
                                 .clip_norm = 2,
                                 .squares = squares};
    struct rt_update update = {.number = 1, .batch = 1, .damping = 1, .scale = 0.5};
    struct rt_optim_step step;
    rt_updater_begin(&updater, &update, gradient, &step);
    CHECK(fabs(step.grad_scale - 0.2) < 1e-7); /* the norm 10 becomes 5, and then 2 */
    rt_updater_begin(&updater, &update, NULL, &step);
    CHECK(step.grad_scale == 0.5f);
    update.scale = 0.1;
    rt_updater_begin(&updater, &update, gradient, &step);
    CHECK(step.grad_scale == 0.1f);
    updater.clip_norm = 0;
    update.scale = 1;
    rt_updater_begin(&updater, &update, gradient, &step);
    CHECK(step.grad_scale == 1);
    rt_optim_destroy(optim);
}

TEST(a_span_is_applied_here_or_by_the_owner) {
    struct rt_optim *optim = make();
    const struct rt_schedule schedule = {.kind = RT_SCHEDULE_CONSTANT};
    const float gradient[] = {1, -1};
    float params[] = {1, 2, 3, 4};
    struct applied applied = {0};
    struct rt_updater updater = {.optim = optim, .schedule = &schedule, .updates = 1, .per_epoch = 1};
    const struct rt_update update = {.number = 1, .batch = 1, .damping = 1, .scale = 1};
    struct rt_optim_step step;
    rt_updater_begin(&updater, &update, NULL, &step);
    rt_updater_apply(&updater, &step, 1, 2, 4, params, gradient);
    CHECK(params[0] == 1 && params[3] == 4);
    CHECK(params[1] == 2 - step.lr && params[2] == 3 + step.lr);
    updater.apply = apply;
    updater.user = &applied;
    rt_updater_apply(&updater, &step, 1, 2, 4, params, gradient);
    CHECK(applied.calls == 1 && applied.first == 1 && applied.count == 2 && applied.lr == step.lr);
    CHECK(params[1] == 2 - step.lr && params[2] == 3 + step.lr);
    rt_optim_destroy(optim);
}

TEST_MAIN()
