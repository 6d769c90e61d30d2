/*
 * The learner that is a ring: the run's data and loss are the master's, the rest is the ring's. Where several
 * rings share each batch, this is the first of them, and what is evaluated, saved and loaded is its; what it
 * has to do with the others is in run/hybrid/rings.h.
 */
#include "run/ring/learner_inside.h"

#include "base/memory.h"
#include "run/job_write.h"
#include "run/strategy.h"
#include <math.h>
#include <stdlib.h>

/* ---- nodes --------------------------------------------------------------------------------------------- */

/* All rings are cut as the first one is. */
static const struct rt_plan_node *ring_learner_plan_of(const struct rt_ring_learner *learner, size_t node) {
    const struct rt_plan *plan = learner->setup.plan;
    return &plan->node[node % plan->nodes];
}

static const char *ring_learner_name_of(const struct rt_ring_learner *learner, size_t node) {
    return learner->setup.who.name[rt_ring_setup_device(&learner->setup, node)];
}

static const char *ring_learner_role_of(const struct rt_ring_learner *learner, size_t node) {
    return node == 0 ? "master" : node % learner->setup.plan->nodes == 0 ? "leader" : "worker";
}

/* If a node was lost, says which device that is. Keeps the reason, to tell the other rings. */
rt_status rt_ring_learner_explain(const struct rt_ring_learner *learner, rt_status status,
                                  struct rt_error *err) {
    if (status == RT_OK)
        return status;
    if (learner->rings)
        rt_rings_fail(learner->rings, status, err->text);
    struct rt_error why;
    const uint16_t lost = rt_ring_lost(learner->ring, &why);
    if (status != RT_FAILED || lost >= learner->nodes)
        return status;
    *err = why;
    return rt_membership_lost(&learner->setup.who, rt_ring_setup_device(&learner->setup, lost),
                              learner->config.lost, err);
}

/* ---- updates ------------------------------------------------------------------------------------------- */

static rt_status ring_learner_step(void *self, struct rt_step *result, struct rt_error *err) {
    struct rt_ring_learner *learner = self;
    struct rt_ring_update update;
    struct rt_input_pipeline *pipeline = &learner->pipeline;
    if (pipeline->stream) {
        atomic_store(&pipeline->halt, learner->config.stop && atomic_load(learner->config.stop));
        rt_ring_learner_release(learner);
    }
    rt_status status = learner->rings ? rt_rings_step(learner->rings, learner->ring, &update, err)
                                      : rt_ring_step(learner->ring, &update, err);
    status = rt_ring_learner_explain(learner, status, err);
    if (pipeline->stream) {
        atomic_store(&pipeline->halt, 0);
        const struct rt_error *failure = &pipeline->stream->failure;
        if (status == RT_INTERRUPTED && failure->status != RT_OK)
            return rt_fail(err, failure->status, "%s", failure->text);
        if (status == RT_INTERRUPTED && pipeline->stream->ended) {
            *result = (struct rt_step){0};
            return RT_OK;
        }
    }
    if (status == RT_OK)
        *result = (struct rt_step){.update = update.update,
                                   .rows = update.rows,
                                   .loss = update.loss,
                                   .correct = update.correct,
                                   .start = update.start,
                                   .end = update.end};
    return status;
}

static bool ring_learner_at_rest(void *self) {
    struct rt_ring_learner *learner = self;
    return learner->rings ? rt_rings_drain(learner->rings) : rt_ring_drain(learner->ring);
}

static rt_status ring_learner_set_apart(void *self, bool is_apart, struct rt_error *err) {
    (void)err;
    rt_ring_set_apart(((struct rt_ring_learner *)self)->ring, is_apart);
    return RT_OK;
}

/* Before ring 0 is asked for what it has. */
static rt_status ring_learner_rest(const struct rt_ring_learner *learner, struct rt_error *err) {
    return learner->rings ? rt_rings_rest(learner->rings, learner->ring, err) : RT_OK;
}

static rt_status ring_learner_forward(void *self, size_t examples, const struct rt_forward_pass *pass,
                                      struct rt_error *err) {
    struct rt_ring_learner *learner = self;
    rt_status status = ring_learner_rest(learner, err);
    if (status == RT_OK)
        status = rt_ring_evaluate(learner->ring, examples, pass, err);
    return rt_ring_learner_explain(learner, status, err);
}

/* ---- numbers ------------------------------------------------------------------------------------------- */

static bool ring_learner_is_replicated(void *self) {
    const struct rt_ring_learner *learner = self;
    return rt_ring_replicated(learner->ring) >= learner->replicating;
}

/* An image takes the place of a replica that is still under way. Where that happens twice in a row the
 * replica is waited for: else none might ever be complete. */
rt_status rt_ring_learner_take_image(struct rt_ring_learner *learner, struct rt_error *err) {
    if (rt_ring_is_imaged(learner->ring)) /* one image serves replica and checkpoint */
        return RT_OK;
    if (learner->superseded && !ring_learner_is_replicated(learner))
        RT_TRY(rt_ring_wait(learner->ring, ring_learner_is_replicated, learner, (double)INFINITY, err));
    learner->superseded = !ring_learner_is_replicated(learner);
    RT_TRY(rt_ring_snapshot(learner->ring, err));
    if (!rt_ring_is_imaged(learner->ring))
        return RT_OK;
    learner->replicating = rt_ring_version(learner->ring); /* it becomes a replica */
    learner->config.replicating(learner->config.replicating_user);
    return RT_OK;
}

static rt_status ring_learner_begin(void *self, size_t tensors, rt_state_write write, void *user,
                                    struct rt_error *err) {
    struct rt_ring_learner *learner = self;
    /* One image at a time: an earlier collection is finished first. */
    rt_status status = rt_ring_collect_finish(learner->ring, err);
    if (status == RT_OK)
        status = ring_learner_rest(learner, err);
    if (status == RT_OK)
        status = rt_ring_learner_take_image(learner, err);
    if (status == RT_OK)
        status = rt_ring_collect_begin(learner->ring, 0, tensors, write, user, err);
    return rt_ring_learner_explain(learner, status, err);
}

static bool ring_learner_done(void *self) {
    return rt_ring_collect_done(((struct rt_ring_learner *)self)->ring);
}

static rt_status ring_learner_finish(void *self, struct rt_error *err) {
    struct rt_ring_learner *learner = self;
    return rt_ring_learner_explain(learner, rt_ring_collect_finish(learner->ring, err), err);
}

static rt_status ring_learner_load(void *self, size_t tensors, uint64_t update, rt_state_read read,
                                   void *user, struct rt_error *err) {
    struct rt_ring_learner *learner = self;
    rt_status status = ring_learner_rest(learner, err); /* nothing comes any more that was asked for before */
    if (status != RT_OK)
        return rt_ring_learner_explain(learner, status, err);
    if (learner->rings)
        rt_rings_loaded(learner->rings, update);
    return rt_ring_learner_explain(learner, rt_ring_load(learner->ring, tensors, update, read, user, err),
                                   err);
}

/* ---- reports ------------------------------------------------------------------------------------------- */

static rt_status ring_learner_collect_rows(struct rt_ring_learner *learner, bool recent, bool *fresh,
                                           struct rt_error *err) {
    rt_status status = RT_OK;
    *fresh = true;
    if (learner->rings)
        status = rt_rings_metrics(learner->rings, learner->ring, recent, learner->rows, fresh, err);
    if (status == RT_OK && !recent)
        status = rt_ring_metrics(learner->ring, learner->rows, err);
    else if (status == RT_OK)
        *fresh = rt_ring_metrics_recent(learner->ring, learner->rows) && *fresh;
    return status;
}

static rt_status ring_learner_report(void *self, bool recent, struct rt_node_report *reports, bool *fresh,
                                     struct rt_error *err) {
    struct rt_ring_learner *learner = self;
    rt_status status = ring_learner_collect_rows(learner, recent, fresh, err);
    if (status != RT_OK)
        return rt_ring_learner_explain(learner, status, err);
    for (size_t i = 0; *fresh && i < learner->nodes; i++) {
        const struct rt_plan_node *node = ring_learner_plan_of(learner, i);
        const struct rt_plan *plan = learner->setup.plan;
        reports[i] = (struct rt_node_report){
            .role = ring_learner_role_of(learner, i),
            .name = ring_learner_name_of(learner, i),
            .address = learner->setup.who.address[rt_ring_setup_device(&learner->setup, i)],
            .first = node->first,
            .count = node->count,
            .tail = i % plan->nodes ? 0 : plan->tail,
            .row = learner->rows[i],
            .predicted_idle = node->idle_fraction,
            .predicted_memory = node->memory};
    }
    return RT_OK;
}

static bool ring_learner_exchange_counts(void *self, struct rt_exchange_counts *counts) {
    const struct rt_ring_learner *learner = self;
    return rt_rings_counts(learner->rings, counts);
}

/* ---- the end ------------------------------------------------------------------------------------------- */

static rt_status ring_learner_stop(void *self, struct rt_error *err) {
    struct rt_ring_learner *learner = self;
    return rt_ring_learner_explain(learner,
                                   learner->rings ? rt_rings_stop(learner->rings, learner->ring, err)
                                                  : rt_ring_stop(learner->ring, err),
                                   err);
}

static void ring_learner_destroy(void *self) {
    struct rt_ring_learner *learner = self;
    rt_rings_hang_up(learner->rings);
    if (learner->ring)
        rt_ring_abandon(learner->ring);
    rt_ring_destroy(learner->ring);
    rt_rings_destroy(learner->rings);
    /* A stream's thread wakes the set-up's endpoint: it ends first. */
    rt_input_pipeline_close(&learner->pipeline);
    rt_stream_batches_close(learner->stream);
    rt_ring_setup_deinit(&learner->setup);
    rt_replicas_destroy(learner->replicas);
    rt_ring_learner_watch_deinit(learner);
    free(learner->rows);
    free(learner);
}

/* ---- the beginning ------------------------------------------------------------------------------------- */

static void ring_learner_tell_plan(const struct rt_ring_learner *learner) {
    const struct rt_plan *plan = learner->setup.plan;
    char *sentence = NULL;
    size_t bytes;
    FILE *out = plan->left_out_count ? open_memstream(&sentence, &bytes) : NULL;
    if (!out)
        return;
    rt_plan_print_left_out(plan, &learner->setup.question, out);
    if (fclose(out) == 0)
        learner->config.warn(learner->config.notice_user, sentence);
    free(sentence);
}

struct rt_ring_setup_settings rt_ring_learner_wants(const struct rt_ring_learner *learner) {
    const struct rt_training_config *config = &learner->config;
    const struct rt_ring_options *options = config->options;
    return (struct rt_ring_setup_settings){
        .spec = config->spec,
        .network = config->network,
        .program = config->program,
        .token = config->token,
        .endpoint = config->endpoint,
        .start = {.gone = config->spec->cluster.recover ? config->gone : NULL,
                  .warn = config->warn,
                  .user = config->notice_user},
        .slots = options->slots,
        .stop = config->stop,
        .waits = config->waits,
        .waits_user = config->waits_user,
        .warn = config->warn,
        .warn_user = config->notice_user,
        .set = config->set,
        .scaling = config->scaling};
}

static rt_status ring_learner_form(struct rt_ring_learner *learner, struct rt_error *err) {
    struct rt_ring_setup_settings wanted = rt_ring_learner_wants(learner);
    struct rt_job *job;
    RT_TRY(rt_job_write_training(&learner->config, NULL, NULL, &job, err));
    wanted.job = job;
    if (learner->rings)
        rt_rings_want(learner->rings, &wanted);
    rt_status status = rt_ring_setup_plan(&wanted, &learner->setup, err);
    rt_job_destroy(job);
    if (status == RT_OK && learner->rings)
        status = rt_rings_planned(learner->rings, &learner->setup, err);
    if (status != RT_OK)
        return status;
    ring_learner_tell_plan(learner);
    status = learner->rings ? rt_rings_begin(&learner->rings, &wanted, &learner->setup, err)
                            : rt_ring_setup_begin(&wanted, &learner->setup, err);
    learner->nodes = learner->setup.plan->nodes * rt_rings_count(learner->rings);
    return status;
}

static void ring_learner_stray(void *user, const struct rt_event *event) {
    rt_cluster_stray(user, event);
}

rt_status rt_ring_learner_open_ring(struct rt_ring_learner *learner, struct rt_error *err) {
    const struct rt_training_config *config = &learner->config;
    struct rt_ring_setup *setup = &learner->setup;
    const size_t micro = setup->plan->micro_batch;
    rt_status status = rt_ring_learner_open_stream(learner, err);
    if (status == RT_OK)
        status = rt_input_pipeline_open(config, micro, learner->stream, &learner->pipeline, err);
    if (status == RT_OK && !learner->rows) /* another view may have more nodes than this one */
        status = rt_alloc(setup->who.devices, sizeof *learner->rows, "the metrics", &learner->rows, err);
    if (status != RT_OK)
        return status;
    struct rt_ring_settings settings = {.job = setup->job,
                                        .plan = setup->plan,
                                        .device = &config->network->device,
                                        .endpoint = setup->who.endpoint,
                                        .next = setup->next,
                                        .previous = setup->previous,
                                        .run = setup->who.run,
                                        .names = rt_membership_names(&setup->who),
                                        .source = rt_input_pipeline_source(&learner->pipeline),
                                        .pace = &setup->who.pace,
                                        .timeout = config->spec->cluster.timeout,
                                        .rests = config->rests,
                                        .stop =
                                            learner->pipeline.stream ? &learner->pipeline.halt : config->stop,
                                        .version = setup->version,
                                        .replicas_on_disk = setup->replica_on_disk};
    if (setup->job->ring.replica != RT_REPLICA_OFF && (setup->plan->nodes > 1 || learner->replicas))
        settings.replicas = &learner->replicas;
    if (setup->who.cluster) {
        settings.stray = ring_learner_stray;
        settings.user = setup->who.cluster;
    }
    if (learner->rings)
        status = rt_rings_open(learner->rings, setup, &settings.source, &settings.inter_ring, err);
    if (status != RT_OK)
        return status;
    setup->next = setup->previous = NULL;
    learner->replicating = 0;
    learner->superseded = false;
    return rt_ring_create(&settings, &learner->ring, err);
}

rt_status rt_ring_learner_open(const struct rt_training_config *config, struct rt_rings *rings,
                               struct rt_learner *learner, struct rt_error *err) {
    struct rt_ring_learner *made;
    rt_status status = rt_alloc(1, sizeof *made, "the ring", &made, err);
    if (status != RT_OK) {
        rt_rings_destroy(rings);
        return status;
    }
    made->config = *config;
    made->rings = rings;
    status = ring_learner_form(made, err);
    if (status == RT_OK)
        status = rt_ring_learner_watch_init(made, err);
    if (status == RT_OK)
        status = rt_ring_learner_open_ring(made, err);
    if (status != RT_OK) {
        if (made->rings)
            rt_rings_fail(made->rings, status, err->text);
        ring_learner_destroy(made);
        return status;
    }
    const struct rt_plan *plan = made->setup.plan;
    *learner = (struct rt_learner){
        .self = made,
        .model_state = {.model = config->network->model,
                        .tensors = 1 + config->optim->type->state_tensors,
                        .self = made,
                        .begin = ring_learner_begin,
                        .done = ring_learner_done,
                        .finish = ring_learner_finish,
                        .load = ring_learner_load},
        .forward = {.self = made, .rows = plan->micro_batch, .run = ring_learner_forward},
        .micro_batch = plan->micro_batch,
        .plan = rings ? rt_rings_print(made->rings, &made->setup) : rt_ring_setup_print(&made->setup),
        .step = ring_learner_step,
        .at_rest = ring_learner_at_rest,
        .set_apart = ring_learner_set_apart,
        .report = ring_learner_report,
        .exchange_counts = rings ? ring_learner_exchange_counts : NULL,
        .stop = ring_learner_stop,
        .destroy = ring_learner_destroy,
    };
    rt_ring_learner_describe_stream(made, learner);
    rt_ring_learner_can_recover(made, learner);
    rt_ring_learner_describe(made, learner);
    return RT_OK;
}

rt_status rt_learner_ring(const struct rt_training_config *config, struct rt_learner *learner,
                          struct rt_error *err) {
    return rt_ring_learner_open(config, NULL, learner, err);
}
