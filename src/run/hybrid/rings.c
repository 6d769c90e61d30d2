/* The other rings of a run, on the master. setup.c forms them; rings_apart.c has rings that go at their own
 * pace. */
#include "run/hybrid/inside.h"

#include "base/memory.h"
#include "base/sentence.h"
#include "exchange/strategies/strategies.h"
#include "run/hybrid/position.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Seconds for the leaders to receive the reason of a failure; seconds between two periodic requests for
 * metrics, since a ring pauses to answer. */
static const double reason_seconds = 2, ask_seconds = 1;

/* Seconds in which leaders that are there leave a view. */
static const double leaving_seconds = 0.5;

/* ---- life ---------------------------------------------------------------------------------------------- */

static rt_status rings_init(struct rt_rings *rings, size_t count, size_t ring_size, struct rt_error *err) {
    rings->options.rings = (int64_t)count;
    rings->config.options = &rings->options;
    rings->count = (uint16_t)count;
    rings->ring_size = (uint16_t)ring_size;
    RT_TRY(rt_hybrid_strategy(&rings->options, &rings->strategy, &rings->exchange_options, err));
    rings->with_servers = rt_hybrid_has_servers(rings->strategy, &rings->exchange_options);
    rings->shares = rt_hybrid_shares(rings->strategy, &rings->exchange_options);
    return rt_alloc(count, sizeof *rings->links, "the links", &rings->links, err);
}

static rt_status rings_init_first(struct rt_rings *rings, size_t nodes, struct rt_error *err) {
    const size_t count = rt_exchange_rings(&rings->options, nodes);
    const int64_t shards = (int64_t)rings->config.settings.shards;
    rings->backups = rings->options.backups;
    RT_TRY(rings_init(rings, count, nodes / count, err));
    rings->most = rings->count;
    /* Rings that do not divide the shards have a slice each. */
    rings->slices = rings->shares && shards % rings->count ? rings->count : shards;
    return RT_OK;
}

rt_status rt_rings_create(const struct rt_training_config *config, struct rt_rings **rings,
                          struct rt_error *err) {
    struct rt_rings *made;
    RT_TRY(rt_alloc(1, sizeof *made, "the rings", &made, err));
    made->config = *config;
    made->options = *(const struct rt_exchange_options *)config->options;
    RT_FINISH_CREATE(rings_init_first(made, rt_spec_devices(config->spec), err), made, rt_rings_destroy,
                     rings);
}

/* A strategy that asks for more spare rings than there are has as many as there can be. */
static rt_status rings_init_again(struct rt_rings *rings, const struct rt_rings *before, size_t count,
                                  size_t ring_size, struct rt_error *err) {
    rings->config = before->config;
    rings->options = before->options;
    rings->options.rings = (int64_t)count;
    rings->options.backups = rings->backups = before->backups;
    rings->most = before->most;
    rings->slices = before->slices;
    rings->cost = before->cost;
    memcpy(rings->fingerprint, before->fingerprint, sizeof rings->fingerprint);
    rt_exchange_shrink(&rt_strategy_hybrid, &rings->options, count * ring_size);
    return rings_init(rings, count, ring_size, err);
}

rt_status rt_rings_create_again(const struct rt_rings *before, size_t count, size_t ring_size,
                                struct rt_rings **rings, struct rt_error *err) {
    struct rt_rings *made;
    RT_TRY(rt_alloc(1, sizeof *made, "the rings", &made, err));
    RT_FINISH_CREATE(rings_init_again(made, before, count, ring_size, err), made, rt_rings_destroy, rings);
}

static bool rings_are_closed(const struct rt_rings *rings) {
    for (uint16_t ring = 1; ring < rings->count; ring++)
        if (!rings->talks[ring].closed)
            return false;
    return true;
}

/* Until all leaders have hung up. Takes all events of the endpoint. */
static void rings_linger(struct rt_rings *rings, double seconds) {
    const struct rt_engine_part part = rt_coordinator_part(rings->coordinator);
    const double until = rt_endpoint_now(rings->endpoint) + seconds;
    struct rt_event event;
    struct rt_error ignored;
    rt_status too_late;
    while (!rings_are_closed(rings) && rt_endpoint_wait(rings->endpoint, until, &event))
        part.event(part.self, &event, &too_late, &ignored);
}

/* Tells the leaders why the run ends, and gives them a moment to hear it. */
static void rings_tell_why(struct rt_rings *rings, rt_status status, const char *sentence) {
    rt_coordinator_fail(rings->coordinator, status, sentence);
    rt_rings_flush(rings);
    rings_linger(rings, reason_seconds);
}

void rt_rings_hang_up(struct rt_rings *rings) {
    if (!rings)
        return;
    const bool failed = rings->failure.status != RT_OK;
    if (rings->coordinator && !rings->stopped)
        rings_tell_why(rings, failed ? rings->failure.status : RT_INTERRUPTED,
                       failed ? rings->failure.text : "the master has ended the run");
    for (size_t i = 0; rings->links && i < rings->count; i++) {
        if (rings->talks && rings->talks[i].link)
            rt_talk_close(&rings->talks[i]);
        else
            rt_link_close(rings->links[i]);
        rings->links[i] = NULL;
    }
    rt_coordinator_destroy(rings->coordinator);
    rings->coordinator = NULL;
}

void rt_rings_end_view(struct rt_rings *rings) {
    const bool failed = rings->failure.status != RT_OK;
    if (!rings->coordinator)
        return;
    rt_coordinator_end_view(rings->coordinator, failed ? rings->failure.text : "another view is formed");
    rt_rings_flush(rings);
}

void rt_rings_leave(struct rt_rings *rings) {
    if (rings->coordinator)
        rings_linger(rings, leaving_seconds);
    rings->stopped = true;
    rt_rings_hang_up(rings);
}

void rt_rings_destroy(struct rt_rings *rings) {
    if (!rings)
        return;
    rt_rings_hang_up(rings);
    rt_group_destroy(rings->group);
    rt_sample_sender_destroy(rings->sender);
    rt_scheduler_destroy(rings->scheduler);
    free(rings->worker);
    free(rings->talks);
    free(rings->links);
    free(rings);
}

size_t rt_rings_count(const struct rt_rings *rings) {
    return rings ? rings->count : 1;
}

/* ---- opening ------------------------------------------------------------------------------------------- */

/* Where the rings stay together the updates are theirs to number. */
static struct rt_hybrid_numbering rings_numbering_of(const struct rt_rings *rings) {
    const struct rt_training_config *config = &rings->config;
    const size_t batch = config->settings.batch;
    if (rings->with_servers)
        return (struct rt_hybrid_numbering){0};
    return (struct rt_hybrid_numbering){
        .per_epoch = config->per_epoch,
        .batches = rt_batches_count(config->set->count, batch, config->settings.drop_last)};
}

/* A failure of the coordinator stays, and is found with its next event. */
void rt_rings_flush(struct rt_rings *rings) {
    const struct rt_engine_part part = rt_coordinator_part(rings->coordinator);
    struct rt_error ignored;
    part.turn(part.self, &ignored);
}

/* Updates follow one another, so the examples of the next one go along. */
static void rings_send_samples(struct rt_rings *rings, uint64_t update) {
    const struct rt_hybrid_numbering numbering = rings_numbering_of(rings);
    const uint64_t last = update < rings->config.settings.updates ? update + 1 : update;
    if (rings->samples_sent < update)
        rings->samples_sent = update - 1;
    while (rings->samples_sent < last) {
        const uint64_t batch = rt_hybrid_batch(&numbering, ++rings->samples_sent);
        for (uint16_t ring = 1; ring < rings->count; ring++)
            rt_sample_sender_send(rings->sender, rings->coordinator, ring, batch,
                                  rt_slices_equal_part(1, rings->count, ring));
    }
}

/* Ring 0 begins: so may the others, where they stay together. */
static bool rings_may_begin(void *user, uint64_t update) {
    struct rt_rings *rings = user;
    if (rings->with_servers)
        return true;
    for (uint16_t ring = 1; ring < rings->count; ring++)
        if (rt_coordinator_held(rings->coordinator, ring) >= RT_LEADER_TICKETS_AHEAD ||
            (rings->sender && !rt_coordinator_has_sample_room(rings->coordinator, ring)))
            return false; /* asked again when something has come */
    for (uint16_t ring = 1; ring < rings->count; ring++)
        rt_coordinator_give(rings->coordinator, ring, update);
    if (rings->sender)
        rings_send_samples(rings, update);
    rt_rings_flush(rings);
    return true;
}

static bool rings_take_event(void *self, const struct rt_event *event, uint16_t *lost, rt_status *status,
                             struct rt_error *err) {
    struct rt_rings *rings = self;
    const struct rt_engine_part part = rt_coordinator_part(rings->coordinator);
    const uint16_t ring = rt_communicator_rank(&rings->comm, event->link);
    if (!part.event(part.self, event, status, err))
        return false;
    *lost = rt_coordinator_lost(rings->coordinator);
    if (*status == RT_OK && event->kind == RT_EVENT_CLOSED && ring != UINT16_MAX &&
        !rt_coordinator_has_left(rings->coordinator, ring)) {
        *lost = rt_communicator_node(&rings->comm, ring);
        *err = event->error;
        *status = RT_FAILED;
    }
    if (rings->scheduler && *status == RT_OK)
        rt_scheduler_dispense(rings->scheduler);
    if (*status == RT_OK)
        rt_rings_flush(rings);
    return true;
}

static bool rings_waits_for(const void *self, uint16_t ring) {
    return rt_coordinator_is_owed(((const struct rt_rings *)self)->coordinator, ring);
}

static bool rings_may_leave(void *self) {
    return rt_coordinator_gone(((struct rt_rings *)self)->coordinator);
}

static rt_status rings_make_coordinator(struct rt_rings *rings, uint32_t run, struct rt_error *err) {
    rings->comm = (struct rt_communicator){.endpoint = rings->endpoint,
                                           .run = run,
                                           .count = rings->count,
                                           .stride = rings->ring_size,
                                           .names = rings->names,
                                           .links = rings->links,
                                           .timeout = rings->config.spec->cluster.timeout};
    RT_TRY(rt_alloc(rings->count, sizeof *rings->talks, "the conversations with the leaders", &rings->talks,
                    err));
    for (uint16_t ring = 1; ring < rings->count; ring++) {
        RT_TRY(rt_talk_open(rings->links[ring], &rings->talks[ring], err));
        rings->talks[ring].run = run;
    }
    const struct rt_coordinator_settings settings = {
        .comm = &rings->comm, .ahead = RT_LEADER_TICKETS_AHEAD, .rows = rings->ring_size};
    return rt_coordinator_create(&settings, &rings->coordinator, err);
}

/* data.send: says so, and how much it is. */
static rt_status rings_make_sender(struct rt_rings *rings, struct rt_error *err) {
    const struct rt_training_config *config = &rings->config;
    const size_t parts = rings->shares ? rings->count : 1;
    const struct rt_sample_sender_settings settings =
        rt_sample_sender_of(config, rt_slices_equal_part(1, parts, 0), rings->count);
    char sentence[200];
    RT_TRY(rt_sample_sender_create(&settings, &rings->sender, err));
    if (!config->notice)
        return RT_OK;
    const double bytes = (double)settings.layout.examples * sizeof(float) *
                         (double)rt_sample_layout_row_floats(&settings.layout) * (rings->count - 1) /
                         rings->count;
    snprintf(sentence, sizeof sentence,
             "data.send: examples and their targets are sent to the leaders of %s, about %.3g MB per epoch",
             RT_COUNTED(rings->count - 1, "other ring"), bytes / 1e6);
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
                                               .names = rt_membership_names(&setup->who),
                                               .rings = rings->count,
                                               .ring_size = rings->ring_size,
                                               .links = rings->links,
                                               .timeout = rings->config.spec->cluster.timeout,
                                               .examples = rings->config.set->count,
                                               .updated = rt_rings_updated,
                                               .judged = rt_rings_judged,
                                               .user = rings};
    rings->endpoint = setup->who.endpoint;
    rings->names = rt_membership_names(&setup->who);
    rt_status status = rings_make_coordinator(rings, setup->who.run, err);
    if (status == RT_OK)
        status = rt_group_create(&settings, &rings->group, err);
    if (status == RT_OK && rings->config.spec->data.send)
        status = rings_make_sender(rings, err);
    if (status == RT_OK && rings->with_servers)
        status = rt_rings_make_scheduler(rings, setup->plan, err);
    if (status != RT_OK)
        return status;
    rt_group_set_talk(rings->group, (struct rt_group_talk){.self = rings,
                                                           .event = rings_take_event,
                                                           .waits_for = rings_waits_for,
                                                           .may_leave = rings_may_leave});
    rings->part_pipeline = (struct rt_part_pipeline){.whole = *source,
                                                     .parts = rings->shares ? rings->count : 1,
                                                     .sum = rings->exchange_options.reduce == RT_SUM,
                                                     .numbering = rings_numbering_of(rings),
                                                     .may_begin = rings_may_begin,
                                                     .user = rings};
    *source = rt_part_pipeline_source(&rings->part_pipeline);
    *inter_ring = rt_group_inter_ring(rings->group);
    return RT_OK;
}

/* ---- the run ------------------------------------------------------------------------------------------- */

rt_status rt_rings_wait(struct rt_rings *rings, bool rest, bool (*test)(void *user), void *user,
                        struct rt_error *err) {
    rt_coordinator_expect_rest(rings->coordinator, rest);
    rt_status status = rt_ring_wait(rings->ring, test, user, (double)INFINITY, err);
    rt_coordinator_expect_rest(rings->coordinator, false);
    return status;
}

static bool rings_are_done(void *user) {
    const struct rt_rings *rings = user;
    for (uint16_t ring = 1; ring < rings->count; ring++)
        if (rt_coordinator_held(rings->coordinator, ring) > 0)
            return false;
    return true;
}

/* All rings make the update together. The results are added in the order of the rings. */
static rt_status rings_step_together(struct rt_rings *rings, struct rt_ring_update *update,
                                     struct rt_error *err) {
    struct rt_done done;
    rt_status status = rt_ring_step(rings->ring, update, err);
    if (status != RT_OK)
        return status;
    rings->stepped = true;
    status = rt_rings_wait(rings, false, rings_are_done, rings, err);
    for (uint16_t ring = 1; ring < rings->count && status == RT_OK; ring++)
        if (rt_coordinator_take(rings->coordinator, ring, &done)) {
            update->loss += done.loss;
            update->correct += (size_t)done.correct;
        }
    return status;
}

rt_status rt_rings_step(struct rt_rings *rings, struct rt_ring *ring, struct rt_ring_update *update,
                        struct rt_error *err) {
    if (rings->reloaded)
        return rt_fail(err, RT_FAILED, "only the first ring has the state that was loaded");
    rings->ring = ring;
    return rings->with_servers ? rt_rings_step_apart(rings, update, err)
                               : rings_step_together(rings, update, err);
}

bool rt_rings_drain(struct rt_rings *rings) {
    return !rings->with_servers || rt_scheduler_drain(rings->scheduler);
}

rt_status rt_rings_rest(struct rt_rings *rings, struct rt_ring *ring, struct rt_error *err) {
    rings->ring = ring;
    /* Once ring 0 has a state of its own, that of the servers must not overwrite it. */
    return rings->with_servers && rings->stepped && !rings->reloaded ? rt_rings_rest_apart(rings, err)
                                                                     : RT_OK;
}

void rt_rings_loaded(struct rt_rings *rings, uint64_t update) {
    rings->reloaded = rings->stepped; /* before the first update the others get ring 0's state anyway */
    if (rings->scheduler)
        rt_scheduler_set(rings->scheduler, update);
}

struct expected {
    struct rt_rings *rings;
    struct rt_metrics_row *rows;
};

static bool rings_are_rows_here(void *user) {
    const struct expected *expected = user;
    return rt_coordinator_metrics(expected->rings->coordinator, expected->rows);
}

rt_status rt_rings_metrics(struct rt_rings *rings, struct rt_ring *ring, bool recent,
                           struct rt_metrics_row *rows, bool *fresh, struct rt_error *err) {
    struct expected expected = {rings, rows};
    const double now = rt_endpoint_now(rings->endpoint);
    if (recent) {
        *fresh = rings_are_rows_here(&expected);
        if (now >= rings->asked + ask_seconds) {
            rings->asked = now;
            rt_coordinator_ask_metrics(rings->coordinator);
            rt_rings_flush(rings);
        }
        return RT_OK;
    }
    *fresh = true;
    rings->ring = ring;
    /* What was asked for before may be old by now. */
    rt_coordinator_ask_metrics(rings->coordinator);
    rt_rings_flush(rings);
    rt_status status = rt_rings_wait(rings, false, rings_are_rows_here, &expected, err);
    rt_coordinator_ask_metrics(rings->coordinator);
    rt_rings_flush(rings);
    return status == RT_OK ? rt_rings_wait(rings, false, rings_are_rows_here, &expected, err) : status;
}

void rt_rings_fail(struct rt_rings *rings, rt_status status, const char *sentence) {
    if (rings->failure.status == RT_OK)
        rt_fail(&rings->failure, status, "%s", sentence);
}

rt_status rt_rings_stop(struct rt_rings *rings, struct rt_ring *ring, struct rt_error *err) {
    rt_status status = rt_rings_rest(rings, ring, err);
    if (status != RT_OK)
        return status;
    rt_coordinator_stop(rings->coordinator);
    rt_rings_flush(rings);
    status = rt_ring_stop(ring, err);
    rings->stopped = status == RT_OK;
    return status;
}
