/* The other rings while the run is under way; hybrid_form.c has how they come about. */
#include "train/hybrid/inside.h"

#include "base/memory.h"
#include "train/hybrid/job.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* Seconds that the other heads have to hear why the run ends, and between two questions for metrics that
 * nobody waits for: to answer, a ring pauses. */
static const double reason_seconds = 2, ask_seconds = 1;

/* ---- life ---------------------------------------------------------------------------------------------- */

rt_status rt_rings_create(const struct rt_lesson *lesson, struct rt_rings **rings, struct rt_error *err) {
    const struct rt_way_options *options = lesson->options;
    const size_t nodes = rt_spec_devices(lesson->spec), count = rt_way_rings(options, nodes);
    struct rt_rings *made;
    rt_status status = rt_alloc(1, sizeof *made, "the rings", &made, err);
    if (status != RT_OK)
        return status;
    made->lesson = *lesson;
    made->options = *options;
    made->options.rings = (int64_t)count;
    made->lesson.options = &made->options;
    made->count = (uint16_t)count;
    made->places = (uint16_t)(nodes / count);
    status = rt_hybrid_across(&made->options, &made->way, &made->way_options, err);
    if (status == RT_OK)
        status = rt_alloc(count, sizeof *made->links, "the links", &made->links, err);
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
    if (rings->heads && !rings->stopped)
        rt_heads_fail(rings->heads, failed ? rings->failure.status : RT_INTERRUPTED,
                      failed ? rings->failure.text : "the master has ended the run", reason_seconds);
    rt_heads_destroy(rings->heads);
    rings->heads = NULL;
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
    rt_mailing_destroy(rings->mailing);
    free(rings->links);
    free(rings);
}

size_t rt_rings_count(const struct rt_rings *rings) {
    return rings ? rings->count : 1;
}

/* ---- opening ------------------------------------------------------------------------------------------- */

/* Ring 0 begins: so may the others. */
static bool may_begin(void *user, uint64_t batch) {
    struct rt_rings *rings = user;
    if (rings->mailing)
        rt_mailing_begin(rings->mailing, batch);
    rt_heads_give(rings->heads, batch);
    return true;
}

static bool take_event(void *self, const struct rt_event *event, uint16_t *lost, rt_status *status,
                       struct rt_error *err) {
    struct rt_rings *rings = self;
    const struct rt_group_talk talk = rt_heads_talk(rings->heads);
    return (rings->mailing && rt_mailing_event(rings->mailing, event)) ||
           talk.event(talk.self, event, lost, status, err);
}

static uint16_t waits_for(const void *self) {
    const struct rt_group_talk talk = rt_heads_talk(((const struct rt_rings *)self)->heads);
    return talk.waits_for(talk.self);
}

static bool may_leave(void *self) {
    const struct rt_group_talk talk = rt_heads_talk(((struct rt_rings *)self)->heads);
    return talk.may_leave(talk.self);
}

/* data.send: says so, and how much it is. */
static rt_status make_mailing(struct rt_rings *rings, uint32_t run, struct rt_error *err) {
    const struct rt_lesson *lesson = &rings->lesson;
    char sentence[200];
    rt_status status = rt_mailing_create(lesson, run, rings->count, rings->links, &rings->mailing, err);
    if (status != RT_OK || !lesson->notice)
        return status;
    snprintf(sentence, sizeof sentence,
             "data.send: examples and what they are compared with are sent to the heads of %u other ring%s, "
             "about %.3g MB in an epoch",
             rings->count - 1, rings->count == 2 ? "" : "s",
             rt_mailing_bytes(rings->mailing) * (rings->count - 1) / 1e6);
    lesson->notice(lesson->notice_user, sentence);
    return RT_OK;
}

rt_status rt_rings_open(struct rt_rings *rings, const struct rt_formation *formation,
                        struct rt_ring_source *source, struct rt_across *across, struct rt_error *err) {
    const struct rt_group_settings settings = {.way = rings->way,
                                               .options = &rings->way_options,
                                               .cost = rings->cost,
                                               .endpoint = formation->who.endpoint,
                                               .run = formation->who.run,
                                               .rings = rings->count,
                                               .places = rings->places,
                                               .links = rings->links,
                                               .patience = rings->lesson.spec->cluster.patience};
    rings->endpoint = formation->who.endpoint;
    rt_status status = rt_heads_create(formation->who.endpoint, formation->who.run, rings->count,
                                       rings->places, rings->links, &rings->heads, err);
    if (status == RT_OK)
        status = rt_group_create(&settings, &rings->group, err);
    if (status == RT_OK && rings->lesson.spec->data.send)
        status = make_mailing(rings, formation->who.run, err);
    if (status != RT_OK)
        return status;
    rt_group_set_talk(rings->group, (struct rt_group_talk){.self = rings,
                                                           .event = take_event,
                                                           .waits_for = waits_for,
                                                           .may_leave = may_leave});
    rings->feed = (struct rt_hybrid_feed){.whole = *source,
                                          .parts = rings->count,
                                          .sum = rings->options.reduce == RT_SUM,
                                          .may_begin = may_begin,
                                          .user = rings};
    *source = rt_hybrid_feed_source(&rings->feed);
    *across = rt_group_across(rings->group);
    return RT_OK;
}

/* ---- the run ------------------------------------------------------------------------------------------- */

static rt_status wait_for(struct rt_rings *rings, struct rt_ring *ring, bool (*test)(void *user), void *user,
                          struct rt_error *err) {
    rt_heads_expect(rings->heads, true);
    rt_status status = rt_ring_wait(ring, test, user, (double)INFINITY, err);
    rt_heads_expect(rings->heads, false);
    return status;
}

static bool are_done(void *user) {
    return rt_heads_done(((struct rt_rings *)user)->heads);
}

rt_status rt_rings_step(struct rt_rings *rings, struct rt_ring *ring, struct rt_ring_update *update,
                        struct rt_error *err) {
    if (rings->apart)
        return rt_fail(err, RT_FAILED, "only the first ring has the numbers that were loaded");
    rt_status status = rt_ring_step(ring, update, err);
    if (status != RT_OK)
        return status;
    rings->stepped = true;
    status = wait_for(rings, ring, are_done, rings, err);
    if (status != RT_OK)
        return status;
    struct rt_done sum = {.loss = update->loss, .correct = update->correct};
    rt_heads_take(rings->heads, &sum);
    update->loss = sum.loss;
    update->correct = (size_t)sum.correct;
    return RT_OK;
}

void rt_rings_loaded(struct rt_rings *rings) {
    rings->apart = rings->stepped; /* before the first update the others get ring 0's numbers anyway */
}

struct expected {
    struct rt_rings *rings;
    struct rt_metrics_row *rows;
};

static bool are_rows_here(void *user) {
    const struct expected *expected = user;
    return rt_heads_metrics(expected->rings->heads, expected->rows);
}

rt_status rt_rings_metrics(struct rt_rings *rings, struct rt_ring *ring, bool recent,
                           struct rt_metrics_row *rows, bool *fresh, struct rt_error *err) {
    struct expected expected = {rings, rows};
    const double now = rt_endpoint_now(rings->endpoint);
    if (recent) {
        *fresh = are_rows_here(&expected);
        if (now >= rings->asked + ask_seconds) {
            rings->asked = now;
            rt_heads_ask(rings->heads);
        }
        return RT_OK;
    }
    *fresh = true;
    /* What was asked for before may be old by now. */
    rt_heads_ask(rings->heads);
    rt_status status = wait_for(rings, ring, are_rows_here, &expected, err);
    rt_heads_ask(rings->heads);
    return status == RT_OK ? wait_for(rings, ring, are_rows_here, &expected, err) : status;
}

void rt_rings_fail(struct rt_rings *rings, rt_status status, const char *sentence) {
    if (rings->failure.status == RT_OK)
        rt_fail(&rings->failure, status, "%s", sentence);
}

rt_status rt_rings_stop(struct rt_rings *rings, struct rt_ring *ring, struct rt_error *err) {
    rt_heads_stop(rings->heads);
    rt_status status = rt_ring_stop(ring, err);
    rings->stopped = status == RT_OK;
    return status;
}
