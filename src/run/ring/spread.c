/* A model that is only used: a ring is formed, the numbers go from the file to the nodes, examples go round.
 */
#include "run/ring/spread.h"

#include "base/memory.h"
#include "formats/yaml.h"
#include "run/job_write.h"
#include "run/ring/setup.h"
#include <stdlib.h>
#include <string.h>

/* Rows at a time at most; the plan may cut them smaller. */
enum { MOST_ROWS = 128 };

struct rt_spread {
    struct rt_ring_setup setup;
    struct rt_ring *ring;
    const struct rt_model *model;
};

static rt_status spread_load(void *self, size_t tensors, uint64_t update, rt_state_read read, void *user,
                             struct rt_error *err) {
    return rt_ring_load(((struct rt_spread *)self)->ring, tensors, update, read, user, err);
}

static rt_status spread_form(struct rt_spread *spread, struct rt_trained *trained, const struct rt_spec *spec,
                             const char *program, const atomic_int *stop, struct rt_error *err) {
    struct rt_tree *model;
    struct rt_job *job;
    struct rt_ring_setup_settings wanted = {
        .spec = spec, .network = &trained->network, .program = program, .slots = -1, .stop = stop};
    rt_status status =
        rt_yaml_parse(trained->description, strlen(trained->description), "the model", &model, err);
    if (status != RT_OK)
        return status;
    status = rt_job_write_evaluating(rt_tree_get(model, "input"), rt_tree_get(model, "layers"),
                                     trained->network.loss->name, MOST_ROWS, &job, err);
    rt_tree_destroy(model);
    if (status != RT_OK)
        return status;
    wanted.job = job;
    status = rt_ring_setup_plan(&wanted, &spread->setup, err);
    rt_job_destroy(job);
    return status == RT_OK ? rt_ring_setup_assign(&wanted, &spread->setup, err) : status;
}

static rt_status spread_open_ring(struct rt_spread *spread, struct rt_trained *trained,
                                  const struct rt_spec *spec, const atomic_int *stop, struct rt_error *err) {
    struct rt_ring_setup *setup = &spread->setup;
    const struct rt_ring_settings settings = {.job = setup->job,
                                              .plan = setup->plan,
                                              .device = &trained->network.device,
                                              .endpoint = setup->who.endpoint,
                                              .next = setup->next,
                                              .previous = setup->previous,
                                              .run = setup->who.run,
                                              .names = rt_membership_names(&setup->who),
                                              .pace = &setup->who.pace,
                                              .timeout = spec->cluster.timeout,
                                              .stop = stop};
    setup->next = setup->previous = NULL;
    return rt_ring_create(&settings, &spread->ring, err);
}

rt_status rt_spread_open(const char *model_path, struct rt_trained *trained, const struct rt_spec *spec,
                         const char *program, const atomic_int *stop, struct rt_spread **spread,
                         struct rt_error *err) {
    struct rt_spread *made;
    rt_status status = rt_alloc(1, sizeof *made, "the ring", &made, err);
    if (status != RT_OK)
        return status;
    made->model = trained->network.model;
    const struct rt_model_state model_state = {
        .model = made->model, .tensors = 1, .self = made, .load = spread_load};
    status = spread_form(made, trained, spec, program, stop, err);
    if (status == RT_OK)
        status = spread_open_ring(made, trained, spec, stop, err);
    if (status == RT_OK)
        status = rt_modelfile_load(model_path, &model_state, 0, NULL, err);
    if (status != RT_OK)
        rt_spread_close(made);
    else
        *spread = made;
    return status;
}

void rt_spread_close(struct rt_spread *spread) {
    if (!spread)
        return;
    if (spread->ring)
        rt_ring_stop(spread->ring, NULL);
    rt_ring_destroy(spread->ring);
    rt_ring_setup_deinit(&spread->setup);
    free(spread);
}

static rt_status spread_run(void *self, size_t examples, const struct rt_forward_pass *pass,
                            struct rt_error *err) {
    return rt_ring_evaluate(((struct rt_spread *)self)->ring, examples, pass, err);
}

struct rt_forward rt_spread_forward(struct rt_spread *spread) {
    return (struct rt_forward){.self = spread, .rows = spread->setup.plan->micro_batch, .run = spread_run};
}
