/*
 * The learner that is several rings side by side: each holds the whole network and learns from its part of
 * every batch; equal places of the rings add up their gradients (train/hybrid_group.h). This is the master of
 * the run: the head of ring 0, who tells the other heads when to begin (train/hybrid_talk.h). What is
 * evaluated, saved and loaded is ring 0's.
 */
#include "train/hybrid_inside.h"

#include "base/memory.h"
#include "train/hybrid_job.h"
#include "train/strategy.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Seconds that the other heads have to hear why the run ends. */
static const double reason_seconds = 2;

/* Where a node was lost, says which in the user's words; keeps the reason for the others. */
static rt_status explain(struct rt_hybrid_learner *learner, rt_status status, struct rt_error *err) {
    if (status == RT_OK)
        return status;
    if (learner->failure.status == RT_OK)
        rt_fail(&learner->failure, status, "%s", err->text);
    const size_t lost = status == RT_FAILED ? rt_ring_lost(learner->ring) : 0;
    if (lost == 0 || lost >= learner->formation.who.devices)
        return status;
    return rt_fail_prefix(err, RT_LOST, "%s is lost", learner->formation.who.name[lost]);
}

/* ---- updates ---- */

/* Ring 0 begins: so may the others. */
static bool may_begin(void *user, uint64_t batch) {
    rt_heads_give(((struct rt_hybrid_learner *)user)->heads, batch);
    return true;
}

static bool are_done(void *user) {
    return rt_heads_done(((struct rt_hybrid_learner *)user)->heads);
}

static rt_status step(void *self, struct rt_step *result, struct rt_error *err) {
    struct rt_hybrid_learner *learner = self;
    struct rt_ring_update update;
    if (learner->apart)
        return rt_fail(err, RT_FAILED, "only the first ring has the numbers that were loaded");
    rt_status status = rt_ring_step(learner->ring, &update, err);
    if (status == RT_OK) {
        learner->stepped = true;
        status = rt_ring_wait(learner->ring, are_done, learner, (double)INFINITY, err);
    }
    if (status != RT_OK)
        return explain(learner, status, err);
    struct rt_done sum = {.loss = update.loss, .correct = update.correct};
    rt_heads_take(learner->heads, &sum);
    *result = (struct rt_step){.update = update.update,
                               .rows = update.rows,
                               .loss = sum.loss,
                               .correct = sum.correct,
                               .start = update.start,
                               .end = update.end};
    return RT_OK;
}

static bool at_rest(void *self) {
    return rt_ring_drain(((struct rt_hybrid_learner *)self)->ring);
}

static rt_status forward(void *self, size_t examples, const struct rt_ring_pass *pass, struct rt_error *err) {
    struct rt_hybrid_learner *learner = self;
    return explain(learner, rt_ring_evaluate(learner->ring, examples, pass, err), err);
}

/* ---- numbers ---- */

static rt_status begin(void *self, size_t words, rt_words_write write, void *user, struct rt_error *err) {
    struct rt_hybrid_learner *learner = self;
    /* One image at a time: whoever began before us gets the rest of his first. */
    rt_status status = rt_ring_collect_finish(learner->ring, err);
    if (status == RT_OK)
        status = rt_ring_snapshot(learner->ring, err);
    if (status == RT_OK)
        status = rt_ring_collect_begin(learner->ring, 0, words, write, user, err);
    return explain(learner, status, err);
}

static bool done(void *self) {
    return rt_ring_collect_done(((struct rt_hybrid_learner *)self)->ring);
}

static rt_status finish(void *self, struct rt_error *err) {
    struct rt_hybrid_learner *learner = self;
    return explain(learner, rt_ring_collect_finish(learner->ring, err), err);
}

/* Before the first update the other rings get ring 0's numbers anyway. */
static rt_status load(void *self, size_t words, uint64_t update, rt_words_read read, void *user,
                      struct rt_error *err) {
    struct rt_hybrid_learner *learner = self;
    learner->apart = learner->stepped;
    return explain(learner, rt_ring_load(learner->ring, words, update, read, user, err), err);
}

/* ---- reports ---- */

static bool are_rows_here(void *user) {
    struct rt_hybrid_learner *learner = user;
    return rt_heads_metrics(learner->heads, learner->rows);
}

static rt_status collect_rows(struct rt_hybrid_learner *learner, bool recent, bool *fresh,
                              struct rt_error *err) {
    rt_status status = RT_OK;
    if (recent) {
        *fresh = rt_ring_metrics_recent(learner->ring, learner->rows) && are_rows_here(learner);
        rt_heads_ask(learner->heads);
        return RT_OK;
    }
    *fresh = true;
    /* What was asked for before may be old by now. */
    rt_heads_ask(learner->heads);
    status = rt_ring_wait(learner->ring, are_rows_here, learner, (double)INFINITY, err);
    rt_heads_ask(learner->heads);
    if (status == RT_OK)
        status = rt_ring_wait(learner->ring, are_rows_here, learner, (double)INFINITY, err);
    if (status == RT_OK)
        status = rt_ring_metrics(learner->ring, learner->rows, err);
    return status;
}

static rt_status report(void *self, bool recent, struct rt_node_report *reports, bool *fresh,
                        struct rt_error *err) {
    struct rt_hybrid_learner *learner = self;
    const struct rt_plan *plan = learner->formation.plan;
    rt_status status = collect_rows(learner, recent, fresh, err);
    if (status != RT_OK)
        return explain(learner, status, err);
    for (size_t i = 0; *fresh && i < learner->formation.who.devices; i++) {
        const struct rt_plan_node *node = &plan->node[i % plan->nodes];
        reports[i] = (struct rt_node_report){.role = i == 0                 ? "master"
                                                     : i % plan->nodes == 0 ? "head"
                                                                            : "worker",
                                             .name = learner->formation.who.name[i],
                                             .first = node->first,
                                             .count = node->count,
                                             .tail = i % plan->nodes ? 0 : plan->tail,
                                             .row = learner->rows[i],
                                             .predicted_idle = node->idle_fraction,
                                             .predicted_memory = node->memory};
    }
    return RT_OK;
}

/* ---- the end ---- */

static rt_status stop(void *self, struct rt_error *err) {
    struct rt_hybrid_learner *learner = self;
    rt_heads_stop(learner->heads);
    rt_status status = rt_ring_stop(learner->ring, err);
    learner->stopped = status == RT_OK;
    return explain(learner, status, err);
}

static void destroy(void *self) {
    struct rt_hybrid_learner *learner = self;
    const bool failed = learner->failure.status != RT_OK;
    if (learner->heads && !learner->stopped)
        rt_heads_fail(learner->heads, failed ? learner->failure.status : RT_INTERRUPTED,
                      failed ? learner->failure.text : "the master has ended the run", reason_seconds);
    for (size_t i = 1; learner->links && !learner->heads && i < learner->rings; i++)
        rt_link_close(learner->links[i]);
    rt_ring_destroy(learner->ring);
    rt_heads_destroy(learner->heads);
    rt_group_destroy(learner->group);
    rt_hybrid_feed_close(&learner->feed);
    rt_formation_deinit(&learner->formation);
    free(learner->links);
    free(learner->rows);
    free(learner);
}

/* ---- the beginning ---- */

static rt_status make_group(struct rt_hybrid_learner *learner, struct rt_error *err) {
    const struct rt_formation *formation = &learner->formation;
    const struct rt_group_settings settings = {.way = learner->way,
                                               .options = &learner->way_options,
                                               .cost = learner->cost,
                                               .endpoint = formation->who.endpoint,
                                               .run = formation->who.run,
                                               .rings = learner->rings,
                                               .places = learner->places,
                                               .links = learner->links,
                                               .patience = learner->lesson.spec->cluster.patience};
    rt_status status = rt_heads_create(formation->who.endpoint, formation->who.run, learner->rings,
                                       learner->places, learner->links, &learner->heads, err);
    if (status == RT_OK)
        status = rt_group_create(&settings, &learner->group, err);
    if (status == RT_OK)
        rt_group_set_talk(learner->group, rt_heads_talk(learner->heads));
    return status;
}

static rt_status open_ring(struct rt_hybrid_learner *learner, struct rt_error *err) {
    const struct rt_lesson *lesson = &learner->lesson;
    struct rt_formation *formation = &learner->formation;
    const struct rt_ring_settings settings = {.job = formation->job,
                                              .plan = formation->plan,
                                              .device = &lesson->network->device,
                                              .endpoint = formation->who.endpoint,
                                              .next = formation->next,
                                              .previous = formation->previous,
                                              .run = formation->who.run,
                                              .source = rt_hybrid_feed_source(&learner->feed),
                                              .slowdown = formation->who.slowdown,
                                              .patience = lesson->spec->cluster.patience,
                                              .stop = lesson->stop,
                                              .across = rt_group_across(learner->group)};
    formation->next = formation->previous = NULL;
    return rt_ring_create(&settings, &learner->ring, err);
}

static rt_status open_all(struct rt_hybrid_learner *learner, struct rt_error *err) {
    rt_status status = rt_hybrid_form(learner, err);
    if (status == RT_OK)
        status = make_group(learner, err);
    learner->feed.parts = learner->rings;
    learner->feed.sum = learner->options.reduce == RT_SUM;
    learner->feed.may_begin = may_begin;
    learner->feed.user = learner;
    if (status == RT_OK)
        status = rt_hybrid_feed_open(&learner->lesson, learner->formation.plan->micro_batch,
                                     learner->formation.who.endpoint, &learner->feed, err);
    if (status == RT_OK)
        status = rt_alloc(learner->formation.who.devices, sizeof *learner->rows, "the metrics",
                          &learner->rows, err);
    return status == RT_OK ? open_ring(learner, err) : status;
}

/* What the rings cannot share. */
static rt_status check(const struct rt_hybrid_learner *learner, struct rt_error *err) {
    const size_t count = learner->lesson.set->count, batch = learner->lesson.settings.batch;
    const size_t last = count < batch ? count : count % batch ? count % batch : batch;
    if (last >= learner->rings)
        return RT_OK;
    return rt_fail(
        err, RT_BAD_INPUT,
        "hybrid: the last batch of an epoch has %zu example%s, fewer than there are rings (%u); take "
        "another train.batch",
        last, last == 1 ? "" : "s", learner->rings);
}

/* Who does what, as lines to print. NULL: memory is short. */
static char *describe(const struct rt_hybrid_learner *learner) {
    char *plan = rt_formation_print(&learner->formation), *text = NULL;
    size_t bytes;
    FILE *out = plan ? open_memstream(&text, &bytes) : NULL;
    if (out) {
        fprintf(out,
                "%u rings of %u node%s share each batch; equal places exchange gradients by %s. The first "
                "ring, and how all are cut:\n%s",
                learner->rings, learner->places, learner->places == 1 ? "" : "s", learner->way->name, plan);
        if (fclose(out) != 0) {
            free(text);
            text = NULL;
        }
    }
    free(plan);
    return text;
}

rt_status rt_learner_hybrid(const struct rt_lesson *lesson, struct rt_learner *learner,
                            struct rt_error *err) {
    static const struct rt_ring_options one = {.slots = -1};
    const struct rt_way_options *options = lesson->options;
    struct rt_hybrid_learner *made;
    const size_t nodes = rt_spec_devices(lesson->spec), rings = rt_way_rings(options, nodes);
    if (rings == 1) {
        struct rt_lesson alone = *lesson;
        alone.options = &one;
        return rt_learner_ring(&alone, learner, err);
    }
    rt_status status = rt_alloc(1, sizeof *made, "the rings", &made, err);
    if (status != RT_OK)
        return status;
    made->lesson = *lesson;
    made->options = *options;
    made->options.rings = (int64_t)rings;
    made->lesson.options = &made->options;
    made->rings = (uint16_t)rings;
    made->places = (uint16_t)(nodes / rings);
    status = rt_hybrid_across(&made->options, &made->way, &made->way_options, err);
    if (status == RT_OK)
        status = check(made, err);
    if (status == RT_OK)
        status = open_all(made, err);
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
        .nodes = made->formation.who.devices,
        .predicted_samples_per_s = plan->samples_per_s,
        .plan = describe(made),
        .step = step,
        .at_rest = at_rest,
        .report = report,
        .stop = stop,
        .destroy = destroy,
    };
    return RT_OK;
}
