/* How fast devices are: see setup.h. */
#include "learn/datasets.h"
#include "run/ring/master_work.h"
#include "run/ring/setup_inside.h"

rt_status rt_ring_setup_measure(const struct rt_ring_setup_settings *settings, struct rt_ring_setup *setup,
                                size_t rows, struct rt_layer_times *const *times, struct rt_error *err) {
    const struct rt_measured measured = {.job = setup->job,
                                         .layers = settings->network->model->count,
                                         .device = &settings->network->device,
                                         .memory = (uint64_t)settings->spec->cluster.memory << 20};
    return rt_membership_measure(&setup->who, &measured, rows, times, err);
}

/* What the master has to do besides its layers. */
rt_status rt_ring_setup_measure_master(const struct rt_ring_setup_settings *settings,
                                       struct rt_ring_setup *setup, struct rt_error *err) {
    struct rt_plan_question *question = &setup->question;
    struct rt_data_wish wish;
    struct rt_master_work work;
    rt_status status = rt_datasets_wish(&settings->spec->data, settings->network, &wish, err);
    if (status == RT_OK)
        status = rt_master_work_measure(settings->network, settings->set, settings->scaling, wish.target,
                                        question->rows, &work, err);
    if (status == RT_OK) {
        const double slowdown = rt_pace_factor(&setup->who.pace, 1);
        question->master_inputs = work.inputs * slowdown;
        question->master_loss = work.loss * slowdown;
    }
    return status;
}
