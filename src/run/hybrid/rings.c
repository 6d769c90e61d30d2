/* The rings beside the first, in a run; form.c has how they come about, rings_apart.c what they do apart. */
#include "run/hybrid/inside.h"

#include "base/memory.h"
#include "base/sentence.h"
#include "run/hybrid/job.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* Seconds that the other heads have to hear why the run ends, and between two questions for metrics that
 * nobody waits for: to answer, a ring pauses. */
static const double reason_seconds = 2, ask_seconds = 1;

/* ---- life ---------------------------------------------------------------------------------------------- */

rt_status rt_rings_create(const struct rt_training_config *config, struct rt_rings **rings,
                          struct rt_error *err) {
    const struct rt_exchange_options *options = config->options;
    const size_t nodes = rt_spec_devices(config->spec), count = rt_exchange_rings(options, nodes);
    struct rt_rings *made;
    rt_status status = rt_alloc(1, sizeof *made, "the rings", &made, err);
    if (status != RT_OK)
        return status;
    made->config = *config;
    made->options = *options;
    made->options.rings = (int64_t)count;
    made->config.options = &made->options;
    made->count = (uint16_t)count;
    made->places = (uint16_t)(nodes / count);
    status = rt_hybrid_strategy(&made->options, &made->strategy, &made->exchange_options, err);
    if (status == RT_OK)
        status = rt_alloc(count, sizeof *made->links, "the links", &made->links, err);
    if (status == RT_OK) {
        made->with_servers = rt_hybrid_has_servers(made->strategy, &made->exchange_options);
        made->shares = rt_hybrid_shares(made->strategy, &made->exchange_options);
    }
    if (status != RT_OK)
        rt_rings_destroy(made);
    else
        *rings = made;
    return status;
}

void rt_rings_hang_up(struct rt_rings *rings) {
    if (!rings)
        return;
    const bool failed = rings->failure.status != RT_OK;
    if (rings->leaders && !rings->stopped)
        rt_leaders_fail(rings->leaders, failed ? rings->failure.status : RT_INTERRUPTED,
                        failed ? rings->failure.text : "the master has ended the run", reason_seconds);
    rt_leaders_destroy(rings->leaders);
    rings->leaders = NULL;
    for (size_t i = 0; rings->links && i < rings->count; i++) {
        rt_link_close(rings->links[i]);
        rings->links[i] = NULL;
    }
}

void rt_rings_destroy(struct rt_rings *rings) {
    if (!rings)
        return;
    rt_rings_hang_up(rings);
    rt_group_destroy(rings->group);
    rt_ring_sample_sender_destroy(rings->sample_sender);
    rt_scheduler_destroy(rings->scheduler);
    free(rings->worker);
    free(rings->links);
    free(rings);
}

size_t rt_rings_count(const struct rt_rings *rings) {
    return rings ? rings->count : 1;
}

/* ---- opening ------------------------------------------------------------------------------------------- */

/* Ring 0 begins: so may the others, where they stay together. */
static bool may_begin(void *user, uint64_t update) {
    struct rt_rings *rings = user;
    if (rings->sample_sender && !rings->with_servers)
        rt_ring_sample_sender_begin(rings->sample_sender, update);
    for (uint16_t ring = 1; ring < rings->count && !rings->with_servers; ring++)
        rt_leaders_give(rings->leaders, ring, update);
    return true;
}

static bool take_event(void *self, const struct rt_event *event, uint16_t *lost, rt_status *status,
                       struct rt_error *err) {
    struct rt_rings *rings = self;
    const struct rt_group_talk talk = rt_leaders_talk(rings->leaders);
    if (rings->sample_sender && rt_ring_sample_sender_event(rings->sample_sender, event))
        return true;
    if (!talk.event(talk.self, event, lost, status, err))
        return false;
    if (rings->scheduler && *status == RT_OK)
        rt_scheduler_dispense(rings->scheduler);
    return true;
}

static bool waits_for(const void *self, uint16_t ring) {
    const struct rt_group_talk talk = rt_leaders_talk(((const struct rt_rings *)self)->leaders);
    return talk.waits_for(talk.self, ring);
}

static bool may_leave(void *self) {
    const struct rt_group_talk talk = rt_leaders_talk(((struct rt_rings *)self)->leaders);
    return talk.may_leave(talk.self);
}

/* Where the rings stay together the updates are theirs to number. */
static struct rt_hybrid_numbering numbering_of(const struct rt_rings *rings) {
    const struct rt_training_config *config = &rings->config;
    const size_t batch = config->settings.batch;
    if (rings->with_servers)
        return (struct rt_hybrid_numbering){0};
    return (struct rt_hybrid_numbering){
        .per_epoch = config->per_epoch,
        .batches = rt_batches_count(config->set->count, batch, config->settings.drop_last)};
}

/* data.send: says so, and how much it is. */
static rt_status make_mailing(struct rt_rings *rings, uint32_t run, struct rt_error *err) {
    const struct rt_training_config *config = &rings->config;
    const struct rt_ring_sample_sender_settings settings = {.config = config,
                                                            .run = run,
                                                            .rings = rings->count,
                                                            .parts = rings->shares ? rings->count : 1,
                                                            .links = rings->links,
                                                            .with_servers = rings->with_servers,
                                                            .numbering = numbering_of(rings)};
    char sentence[200];
    rt_status status = rt_ring_sample_sender_create(&settings, &rings->sample_sender, err);
    if (status != RT_OK || !config->notice)
        return status;
    snprintf(sentence, sizeof sentence,
             "data.send: examples and what they are compared with are sent to the heads of %s, "
             "about %.3g MB in an epoch",
             RT_COUNTED(rings->count - 1, "other ring"),
             rt_ring_sample_sender_bytes(rings->sample_sender) * (rings->count - 1) /
                 (rings->shares ? 1 : (double)rings->count) / 1e6);
    config->notice(config->notice_user, sentence);
    return RT_OK;
}

rt_status rt_rings_open(struct rt_rings *rings, const struct rt_ring_setup *setup,
                        struct rt_ring_source *source, struct rt_inter_ring *inter_ring,
                        struct rt_error *err) {
    const struct rt_group_settings settings = {.strategy = rings->strategy,
                                               .options = &rings->exchange_options,
                                               .cost = rings->cost,
                                               .endpoint = setup->who.endpoint,
                                               .run = setup->who.run,
                                               .rings = rings->count,
                                               .places = rings->places,
                                               .links = rings->links,
                                               .timeout = rings->config.spec->cluster.timeout,
                                               .examples = rings->config.set->count,
                                               .updated = rt_rings_updated,
                                               .judged = rt_rings_judged,
                                               .user = rings};
    rings->endpoint = setup->who.endpoint;
    rt_status status = rt_leaders_create(setup->who.endpoint, setup->who.run, rings->count, rings->places,
                                         rings->links, &rings->leaders, err);
    if (status == RT_OK)
        status = rt_group_create(&settings, &rings->group, err);
    if (status == RT_OK && rings->config.spec->data.send)
        status = make_mailing(rings, setup->who.run, err);
    if (status == RT_OK && rings->with_servers)
        status = rt_rings_make_scheduler(rings, setup->plan, err);
    if (status != RT_OK)
        return status;
    rt_group_set_talk(rings->group, (struct rt_group_talk){.self = rings,
                                                           .event = take_event,
                                                           .waits_for = waits_for,
                                                           .may_leave = may_leave});
    rings->part_pipeline = (struct rt_part_pipeline){.whole = *source,
                                                     .parts = rings->shares ? rings->count : 1,
                                                     .sum = rings->exchange_options.reduce == RT_SUM,
                                                     .numbering = numbering_of(rings),
                                                     .may_begin = may_begin,
                                                     .user = rings};
    *source = rt_part_pipeline_source(&rings->part_pipeline);
    *inter_ring = rt_group_inter_ring(rings->group);
    return RT_OK;
}

/* ---- the run ------------------------------------------------------------------------------------------- */

rt_status rt_rings_wait(struct rt_rings *rings, bool rest, bool (*test)(void *user), void *user,
                        struct rt_error *err) {
    rt_leaders_expect_rest(rings->leaders, rest);
    rt_status status = rt_ring_wait(rings->ring, test, user, (double)INFINITY, err);
    rt_leaders_expect_rest(rings->leaders, false);
    return status;
}

static bool are_done(void *user) {
    const struct rt_rings *rings = user;
    for (uint16_t ring = 1; ring < rings->count; ring++)
        if (rt_leaders_held(rings->leaders, ring) > 0)
            return false;
    return true;
}

/* All rings make the update together. The results are added in the order of the rings. */
static rt_status step_together(struct rt_rings *rings, struct rt_ring_update *update, struct rt_error *err) {
    struct rt_done done;
    rt_status status = rt_ring_step(rings->ring, update, err);
    if (status != RT_OK)
        return status;
    rings->stepped = true;
    status = rt_rings_wait(rings, false, are_done, rings, err);
    for (uint16_t ring = 1; ring < rings->count && status == RT_OK; ring++)
        if (rt_leaders_take(rings->leaders, ring, &done)) {
            update->loss += done.loss;
            update->correct += (size_t)done.correct;
        }
    return status;
}

rt_status rt_rings_step(struct rt_rings *rings, struct rt_ring *ring, struct rt_ring_update *update,
                        struct rt_error *err) {
    if (rings->reloaded)
        return rt_fail(err, RT_FAILED, "only the first ring has the numbers that were loaded");
    rings->ring = ring;
    return rings->with_servers ? rt_rings_step_apart(rings, update, err) : step_together(rings, update, err);
}

bool rt_rings_drain(struct rt_rings *rings) {
    return !rings->with_servers || rt_scheduler_drain(rings->scheduler);
}

rt_status rt_rings_rest(struct rt_rings *rings, struct rt_ring *ring, struct rt_error *err) {
    rings->ring = ring;
    /* Once ring 0 has numbers of its own, those of the servers must not come over them. */
    return rings->with_servers && rings->stepped && !rings->reloaded ? rt_rings_rest_apart(rings, err)
                                                                     : RT_OK;
}

void rt_rings_loaded(struct rt_rings *rings, uint64_t update) {
    rings->reloaded = rings->stepped; /* before the first update the others get ring 0's numbers anyway */
    if (rings->scheduler)
        rt_scheduler_set(rings->scheduler, update);
}

struct expected {
    struct rt_rings *rings;
    struct rt_metrics_row *rows;
};

static bool are_rows_here(void *user) {
    const struct expected *expected = user;
    return rt_leaders_metrics(expected->rings->leaders, expected->rows);
}

rt_status rt_rings_metrics(struct rt_rings *rings, struct rt_ring *ring, bool recent,
                           struct rt_metrics_row *rows, bool *fresh, struct rt_error *err) {
    struct expected expected = {rings, rows};
    const double now = rt_endpoint_now(rings->endpoint);
    if (recent) {
        *fresh = are_rows_here(&expected);
        if (now >= rings->asked + ask_seconds) {
            rings->asked = now;
            rt_leaders_ask(rings->leaders);
        }
        return RT_OK;
    }
    *fresh = true;
    rings->ring = ring;
    /* What was asked for before may be old by now. */
    rt_leaders_ask(rings->leaders);
    rt_status status = rt_rings_wait(rings, false, are_rows_here, &expected, err);
    rt_leaders_ask(rings->leaders);
    return status == RT_OK ? rt_rings_wait(rings, false, are_rows_here, &expected, err) : status;
}

void rt_rings_fail(struct rt_rings *rings, rt_status status, const char *sentence) {
    if (rings->failure.status == RT_OK)
        rt_fail(&rings->failure, status, "%s", sentence);
}

rt_status rt_rings_stop(struct rt_rings *rings, struct rt_ring *ring, struct rt_error *err) {
    rt_status status = rt_rings_rest(rings, ring, err);
    if (status != RT_OK)
        return status;
    rt_leaders_stop(rings->leaders);
    status = rt_ring_stop(ring, err);
    rings->stopped = status == RT_OK;
    return status;
}
