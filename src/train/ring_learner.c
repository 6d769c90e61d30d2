/* The learner that is a ring: the run's data and loss are the master's, the rest is the ring's. */
#include "train/batches.h"
#include "train/formation.h"
#include "train/job_tree.h"
#include "train/strategy.h"

#include "base/memory.h"
#include <math.h>
#include <stdlib.h>

struct ring_learner {
    struct rt_lesson lesson;
    struct rt_formation formation;
    struct rt_ring *ring;
    struct rt_batches batches;
    struct rt_feed feed; /* for the targets of a micro-batch */
    float *losses;
    struct rt_metrics_row *rows;
};

/* ---- the master's data and loss ---- */

static rt_status batch(void *self, uint64_t update, size_t *rows, uint32_t *epoch, const uint32_t **examples,
                       struct rt_error *err) {
    (void)err;
    struct ring_learner *learner = self;
    struct rt_batch found;
    rt_batches_at(&learner->batches, update, &found);
    *rows = found.rows;
    *epoch = found.epoch;
    *examples = found.examples;
    return RT_OK;
}

static void inputs(void *self, const uint32_t *examples, size_t rows, float *x) {
    const struct ring_learner *learner = self;
    rt_dataset_inputs(learner->lesson.set, learner->lesson.scaling, &learner->lesson.network->device,
                      examples, rows, x);
}

static void loss(void *self, const uint32_t *examples, size_t rows, size_t batch_rows, const float *y,
                 float *dy, double *sum, size_t *correct) {
    struct ring_learner *learner = self;
    const struct rt_network *network = learner->lesson.network;
    struct rt_feed *feed = &learner->feed;
    rt_feed_targets(feed, &network->device, examples, rows);
    if (feed->accuracy)
        *correct += rt_loss_correct(network->loss, rows, network->outputs, y, &feed->targets);
    network->loss->evaluate(&network->device, rows, network->outputs, y, &feed->targets,
                            1.0f / (float)batch_rows, learner->losses, dy);
    for (size_t i = 0; i < rows; i++)
        *sum += (double)learner->losses[i];
}

/* ---- the learner ---- */

static rt_status step(void *self, struct rt_step *result, struct rt_error *err) {
    struct ring_learner *learner = self;
    struct rt_ring_update update;
    rt_status status = rt_ring_step(learner->ring, &update, err);
    if (status == RT_OK)
        *result = (struct rt_step){.update = update.update,
                                   .rows = update.rows,
                                   .loss = update.loss,
                                   .correct = update.correct,
                                   .start = update.start,
                                   .end = update.end};
    return status;
}

static bool at_rest(void *self) {
    return rt_ring_drain(((struct ring_learner *)self)->ring);
}

static rt_status forward(void *self, size_t examples, const struct rt_ring_pass *pass, struct rt_error *err) {
    return rt_ring_evaluate(((struct ring_learner *)self)->ring, examples, pass, err);
}

static rt_status begin(void *self, size_t words, rt_words_write write, void *user, struct rt_error *err) {
    struct ring_learner *learner = self;
    /* One image at a time: whoever began before us gets the rest of his first. */
    rt_status status = rt_ring_collect_finish(learner->ring, err);
    if (status == RT_OK)
        status = rt_ring_snapshot(learner->ring, err);
    return status == RT_OK ? rt_ring_collect_begin(learner->ring, 0, words, write, user, err) : status;
}

static bool done(void *self) {
    return rt_ring_collect_done(((struct ring_learner *)self)->ring);
}

static rt_status finish(void *self, struct rt_error *err) {
    return rt_ring_collect_finish(((struct ring_learner *)self)->ring, err);
}

static rt_status load(void *self, size_t words, uint64_t update, rt_words_read read, void *user,
                      struct rt_error *err) {
    return rt_ring_load(((struct ring_learner *)self)->ring, words, update, read, user, err);
}

static rt_status report(void *self, bool recent, struct rt_node_report *reports, bool *fresh,
                        struct rt_error *err) {
    struct ring_learner *learner = self;
    const struct rt_plan *plan = learner->formation.plan;
    *fresh = true;
    if (recent)
        *fresh = rt_ring_metrics_recent(learner->ring, learner->rows);
    else {
        rt_status status = rt_ring_metrics(learner->ring, learner->rows, err);
        if (status != RT_OK)
            return status;
    }
    for (size_t i = 0; *fresh && i < plan->nodes; i++)
        reports[i] = (struct rt_node_report){.role = i ? "worker" : "master",
                                             .name = learner->formation.name[plan->node[i].device],
                                             .first = plan->node[i].first,
                                             .count = plan->node[i].count,
                                             .row = learner->rows[i],
                                             .predicted_idle = plan->node[i].idle_fraction,
                                             .predicted_memory = plan->node[i].memory};
    return RT_OK;
}

static rt_status stop(void *self, struct rt_error *err) {
    return rt_ring_stop(((struct ring_learner *)self)->ring, err);
}

static void destroy(void *self) {
    struct ring_learner *learner = self;
    rt_ring_destroy(learner->ring);
    rt_formation_deinit(&learner->formation);
    rt_batches_destroy(&learner->batches);
    rt_feed_destroy(&learner->feed);
    free(learner->losses);
    free(learner->rows);
    free(learner);
}

static void tell_plan(const struct ring_learner *learner) {
    const struct rt_plan *plan = learner->formation.plan;
    char sentence[400];
    for (size_t i = 0; i < plan->left_out_count; i++) {
        snprintf(
            sentence, sizeof sentence,
            "%.100s is left out: the ring is predicted to reach %.0f samples/s without it and %.0f with it",
            learner->formation.name[plan->left_out[i]], plan->without_them, plan->with_them);
        learner->lesson.notice(learner->lesson.notice_user, sentence);
    }
}

static rt_status form(struct ring_learner *learner, struct rt_error *err) {
    const struct rt_lesson *lesson = &learner->lesson;
    const struct rt_ring_options *options = lesson->options;
    struct rt_formation_settings wanted = {.spec = lesson->spec,
                                           .network = lesson->network,
                                           .program = lesson->program,
                                           .slots = options->slots,
                                           .stop = lesson->stop};
    rt_status status = rt_job_tree(lesson, &wanted.job, err);
    if (status == RT_OK)
        status = rt_formation_plan(&wanted, &learner->formation, err);
    if (status == RT_OK) {
        tell_plan(learner);
        status = rt_formation_assign(&wanted, &learner->formation, err);
    }
    return status;
}

static rt_status open_ring(struct ring_learner *learner, struct rt_error *err) {
    const struct rt_lesson *lesson = &learner->lesson;
    struct rt_formation *formation = &learner->formation;
    const size_t micro = formation->plan->micro_batch;
    rt_status status = rt_batches_create(lesson->settings.seed, lesson->set->count, lesson->settings.batch,
                                         lesson->settings.shuffle, &learner->batches, err);
    if (status == RT_OK)
        status = rt_feed_create(lesson->network, lesson->set, lesson->scaling, lesson->target, micro,
                                &learner->feed, err);
    if (status == RT_OK)
        status = rt_floats_create(micro, "the losses", &learner->losses, err);
    if (status == RT_OK)
        status = rt_alloc(formation->plan->nodes, sizeof *learner->rows, "the metrics", &learner->rows, err);
    if (status != RT_OK)
        return status;
    const struct rt_ring_settings settings = {
        .job = formation->job,
        .plan = formation->plan,
        .device = &lesson->network->device,
        .endpoint = formation->endpoint,
        .next = formation->next,
        .previous = formation->previous,
        .run = formation->run,
        .source = {.self = learner, .batch = batch, .inputs = inputs, .loss = loss},
        .slowdown = formation->slowdown,
        .patience = lesson->spec->cluster.patience,
        .stop = lesson->stop};
    formation->next = formation->previous = NULL;
    return rt_ring_create(&settings, &learner->ring, err);
}

rt_status rt_learner_ring(const struct rt_lesson *lesson, struct rt_learner *learner, struct rt_error *err) {
    struct ring_learner *made;
    rt_status status = rt_alloc(1, sizeof *made, "the ring", &made, err);
    if (status != RT_OK)
        return status;
    made->lesson = *lesson;
    status = form(made, err);
    if (status == RT_OK)
        status = open_ring(made, err);
    if (status != RT_OK) {
        destroy(made);
        return status;
    }
    const struct rt_plan *plan = made->formation.plan;
    *learner = (struct rt_learner){
        .self = made,
        .numbers = {.model = lesson->network->model,
                    .words = 1 + lesson->optim->type->state_words,
                    .self = made,
                    .begin = begin,
                    .done = done,
                    .finish = finish,
                    .load = load},
        .forward = {.self = made, .rows = plan->micro_batch, .run = forward},
        .micro_batch = plan->micro_batch,
        .nodes = plan->nodes,
        .predicted_samples_per_s = plan->samples_per_s,
        .plan = rt_formation_print(&made->formation),
        .step = step,
        .at_rest = at_rest,
        .report = report,
        .stop = stop,
        .destroy = destroy,
    };
    return RT_OK;
}
