/*
 * Rings that go at their own pace, as the master of the run has them: the foreman gives batches to the heads,
 * and to ring 0, which is the master's own worker. Everything happens on one thread: events are taken while
 * ring 0 works or waits.
 */
#include "train/hybrid/inside.h"

#include "base/clock.h"
#include "base/memory.h"

/* ---- the heads as the foreman's crew ------------------------------------------------------------------- */

static bool give(void *self, uint16_t ring, uint64_t batch) {
    struct rt_rings *rings = self;
    if (!rt_heads_give(rings->heads, ring, batch))
        return false;
    if (rings->mailing)
        rt_mailing_give(rings->mailing, ring, batch);
    return true;
}

static size_t held(const void *self, uint16_t ring) {
    return rt_heads_held(((const struct rt_rings *)self)->heads, ring);
}

static size_t waiting(const void *self, uint16_t ring) {
    return rt_heads_waiting(((const struct rt_rings *)self)->heads, ring);
}

static bool take(void *self, uint16_t ring, struct rt_done *done) {
    return rt_heads_take(((struct rt_rings *)self)->heads, ring, done);
}

/* A talk sends what it is given at once. */
static void flush(void *self) {
    (void)self;
}

/* ---- ring 0 as the master's own worker ----------------------------------------------------------------- */

static rt_status learn(void *self, uint64_t batch, struct rt_done *done, struct rt_error *err) {
    struct rt_rings *rings = self;
    struct rt_ring_update update;
    rings->resting = false;
    rt_ring_follow(rings->ring, batch - 1);
    rt_status status = rt_ring_step(rings->ring, &update, err);
    if (status == RT_OK)
        *done = (struct rt_done){.batch = batch,
                                 .rows = rt_hybrid_rows(update.rows, 0, rings->feed.parts),
                                 .correct = update.correct,
                                 .loss = update.loss};
    return status;
}

static rt_status settle(void *self, struct rt_error *err) {
    struct rt_rings *rings = self;
    if (rings->resting)
        return RT_OK;
    rings->resting = true;
    return rt_ring_rest(rings->ring, err);
}

/* While time passes somebody may be late with a batch of an epoch that is cut short. */
struct waiting {
    struct rt_rings *rings;
    bool (*test)(void *user);
    void *user;
};

static bool look(void *self) {
    const struct waiting *waits = self;
    if (rt_foreman_cuts(waits->rings->foreman))
        rt_foreman_look_again(waits->rings->foreman);
    return waits->test(waits->user);
}

static rt_status await(void *self, bool (*test)(void *user), void *user, struct rt_error *err) {
    struct waiting waits = {self, test, user};
    return rt_rings_wait(self, false, look, &waits, err);
}

/* There is one thread: nobody else touches what the foreman has. */
static void pass(void *self) {
    (void)self;
}

static double now(const void *self) {
    return rt_endpoint_now(((const struct rt_rings *)self)->endpoint);
}

/* ---- the foreman --------------------------------------------------------------------------------------- */

void rt_rings_updated(void *user, uint64_t version, size_t pushes, const struct rt_push *const *push) {
    const struct rt_rings *rings = user;
    if (rings->foreman)
        rt_foreman_updated(rings->foreman, version, pushes, push);
}

void rt_rings_judged(void *user, const struct rt_push *push, enum rt_verdict verdict) {
    const struct rt_rings *rings = user;
    if (rings->foreman)
        rt_foreman_judged(rings->foreman, push, verdict);
}

/* Whether the server on the master will see every gradient: its layers have parameters. */
static bool sees_all(const struct rt_rings *rings, const struct rt_plan *plan) {
    const struct rt_model *model = rings->lesson.network->model;
    const size_t layers = plan->nodes == 1 ? plan->layers : plan->node[0].count;
    bool has = false;
    for (size_t i = 0; i < layers; i++)
        has |= model->layers[i]->param_count > 0;
    return has && rings->way_options.push_every <= 1;
}

rt_status rt_rings_make_foreman(struct rt_rings *rings, const struct rt_plan *plan, struct rt_error *err) {
    const struct rt_lesson *lesson = &rings->lesson;
    const size_t batch = lesson->settings.batch;
    const struct rt_rules *rules = rt_way_rules(rings->way, &rings->way_options);
    const bool tracks = sees_all(rings, plan);
    if (!tracks && rings->shares)
        return rt_fail(
            err, RT_BAD_INPUT,
            "exchange: the first layers, which the master holds, have no parameters, so it cannot see "
            "which gradients %s takes: give it more layers, or have fewer nodes in a ring",
            rings->way->name);
    rt_status status = rt_alloc(rings->count, sizeof *rings->worker, "the rings", &rings->worker, err);
    if (status == RT_OK)
        status =
            rt_way_roles(rings->way, &rings->way_options, rings->count, rings->worker, &rings->roles, err);
    if (status != RT_OK)
        return status;
    const struct rt_foreman_settings settings = {
        .crew = {.self = rings,
                 .ahead = RT_HEAD_AHEAD,
                 .give = give,
                 .held = held,
                 .waiting = waiting,
                 .take = take,
                 .flush = flush},
        .own = {.self = rings,
                .learn = learn,
                .settle = settle,
                .await = await,
                .enter = pass,
                .leave = pass,
                .now = now},
        .roles = &rings->roles,
        .rules = rules,
        .tracks = tracks,
        .warm_start = rings->way_options.warm_start,
        .updates = lesson->settings.updates,
        .batches = rt_batches_count(lesson->set->count, batch, lesson->settings.drop_last),
        .per_epoch = lesson->per_epoch,
        .rests = lesson->rests,
    };
    return rt_foreman_create(&settings, &rings->foreman, err);
}

rt_status rt_rings_step_apart(struct rt_rings *rings, struct rt_ring_update *update, struct rt_error *err) {
    struct rt_done sum;
    *update = (struct rt_ring_update){.start = rt_clock_wall()};
    if (!rings->stepped)
        rt_heads_begin(rings->heads);
    rings->stepped = true;
    rt_status status = rt_foreman_step(rings->foreman, &sum, err);
    if (status != RT_OK)
        return status;
    update->update = rt_foreman_returned(rings->foreman);
    update->rows = sum.rows;
    update->loss = sum.loss;
    update->correct = (size_t)sum.correct;
    update->end = rt_clock_wall();
    /* Whatever a head says of it: an update of nothing would be taken for the end of the examples. */
    return sum.rows > 0 ? RT_OK
                        : rt_fail(err, RT_FAILED, "update %llu was made of no examples",
                                  (unsigned long long)update->update);
}

static bool do_others_rest(void *user) {
    return rt_heads_rest(((const struct rt_rings *)user)->heads);
}

/* Ring 0 is the last, and has then what all gradients have led to. */
rt_status rt_rings_rest_apart(struct rt_rings *rings, struct rt_error *err) {
    rt_status status = rt_rings_wait(rings, true, do_others_rest, rings, err);
    if (status != RT_OK)
        return status;
    rings->resting = true;
    return rt_ring_rest(rings->ring, err);
}

bool rt_rings_counts(const struct rt_rings *rings, struct rt_exchange_counts *counts) {
    const struct rt_server *server = rings->group ? rt_group_server(rings->group) : NULL;
    if (!server)
        return false;
    const struct rt_server_counts *its = rt_server_counts(server);
    uint64_t all = 0;
    *counts = (struct rt_exchange_counts){.bins = RT_EXCHANGE_BINS,
                                          .most = its->staleness_max,
                                          .applied = its->applied,
                                          .dropped = its->dropped,
                                          .forced = its->forced,
                                          .held = its->held};
    for (size_t i = 0; i < RT_STALENESS_BINS && i < RT_EXCHANGE_BINS; i++)
        all += counts->staleness[i] = its->staleness[i];
    counts->mean = its->staleness_sum / (all ? (double)all : 1);
    while (counts->bins > 1 && counts->staleness[counts->bins - 1] == 0)
        counts->bins--;
    return true;
}
