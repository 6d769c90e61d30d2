/*
 * Rings that go at their own pace, as the master of the run has them: the batch scheduler gives batches to
 * the leaders, and to ring 0, which is the master's own worker. Everything happens on one thread: events are
 * taken while ring 0 works or waits.
 */
#include "run/hybrid/inside.h"

#include "base/clock.h"
#include "base/memory.h"

/* ---- the leaders, as the batch scheduler sees them
 * ------------------------------------------------------------------- */

static bool rings_give(void *self, uint16_t ring, uint64_t batch) {
    struct rt_rings *rings = self;
    if ((rings->sender && !rt_coordinator_has_sample_room(rings->coordinator, ring)) ||
        !rt_coordinator_give(rings->coordinator, ring, batch))
        return false;
    if (rings->sender)
        rt_sample_sender_send(
            rings->sender, rings->coordinator, ring, batch,
            rt_slices_equal_part(1, rings->shares ? rings->count : 1, rings->shares ? ring : 0));
    rt_rings_flush(rings); /* also after a server's verdict, which is followed by no turn */
    return true;
}

static size_t rings_held(const void *self, uint16_t ring) {
    return rt_coordinator_held(((const struct rt_rings *)self)->coordinator, ring);
}

static size_t rings_waiting(const void *self, uint16_t ring) {
    return rt_coordinator_waiting(((const struct rt_rings *)self)->coordinator, ring);
}

static bool rings_take(void *self, uint16_t ring, struct rt_done *done) {
    return rt_coordinator_take(((struct rt_rings *)self)->coordinator, ring, done);
}

static void flush(void *self) {
    rt_rings_flush(self);
}

/* ---- ring 0 as the master's own worker ----------------------------------------------------------------- */

static rt_status rings_learn(void *self, uint64_t batch, struct rt_done *done, struct rt_error *err) {
    struct rt_rings *rings = self;
    struct rt_ring_update update;
    rings->resting = false;
    rt_ring_follow(rings->ring, batch - 1);
    rt_status status = rt_ring_step(rings->ring, &update, err);
    if (status == RT_OK)
        *done = (struct rt_done){.batch = batch,
                                 .rows = rt_hybrid_rows(update.rows, 0, rings->part_pipeline.parts),
                                 .correct = update.correct,
                                 .loss = update.loss};
    return status;
}

static rt_status rings_settle(void *self, struct rt_error *err) {
    struct rt_rings *rings = self;
    if (rings->resting)
        return RT_OK;
    rings->resting = true;
    return rt_ring_rest(rings->ring, err);
}

/* A wait during which a worker may become late with a batch of an epoch that is cut short. */
struct rings_waiting {
    struct rt_rings *rings;
    bool (*test)(void *user);
    void *user;
};

static bool rings_look(void *self) {
    const struct rings_waiting *waits = self;
    if (rt_scheduler_cuts(waits->rings->scheduler))
        rt_scheduler_look_again(waits->rings->scheduler);
    return waits->test(waits->user);
}

static rt_status rings_await(void *self, bool (*test)(void *user), void *user, struct rt_error *err) {
    struct rings_waiting waits = {self, test, user};
    return rt_rings_wait(self, false, rings_look, &waits, err);
}

/* There is one thread, so the state of the batch scheduler needs no guard. */
static void rings_pass(void *self) {
    (void)self;
}

static double rings_now(const void *self) {
    return rt_endpoint_now(((const struct rt_rings *)self)->endpoint);
}

/* ---- the batch scheduler
 * --------------------------------------------------------------------------------------- */

void rt_rings_updated(void *user, uint64_t version, size_t pushes, const struct rt_push *const *push) {
    const struct rt_rings *rings = user;
    if (rings->scheduler)
        rt_scheduler_updated(rings->scheduler, version, pushes, push);
}

void rt_rings_judged(void *user, const struct rt_push *push, enum rt_verdict verdict) {
    const struct rt_rings *rings = user;
    if (rings->scheduler)
        rt_scheduler_judged(rings->scheduler, push, verdict);
}

/* Whether the server on the master will see every gradient: its layers have parameters. */
static bool rings_sees_all(const struct rt_rings *rings, const struct rt_plan *plan) {
    const struct rt_model *model = rings->config.network->model;
    const size_t layers = plan->nodes == 1 ? plan->layers : plan->node[0].count;
    bool has = false;
    for (size_t i = 0; i < layers; i++)
        has |= model->layers[i]->param_count > 0;
    return has && rings->exchange_options.push_every <= 1;
}

rt_status rt_rings_make_scheduler(struct rt_rings *rings, const struct rt_plan *plan, struct rt_error *err) {
    const struct rt_training_config *config = &rings->config;
    const size_t batch = config->settings.batch;
    const struct rt_rules *rules = rt_exchange_rules(rings->strategy, &rings->exchange_options);
    const bool tracks = rings_sees_all(rings, plan);
    if (!tracks && rings->shares)
        return rt_fail(
            err, RT_BAD_INPUT,
            "exchange: the first layers, which the master holds, have no parameters, so it cannot see "
            "which gradients %s takes: give it more layers, or have fewer nodes in a ring",
            rings->strategy->name);
    rt_status status = rt_alloc(rings->count, sizeof *rings->worker, "the rings", &rings->worker, err);
    if (status == RT_OK)
        status = rt_exchange_roles(rings->strategy, &rings->exchange_options, rings->count, rings->worker,
                                   &rings->roles, err);
    if (status != RT_OK)
        return status;
    const struct rt_scheduler_settings settings = {
        .workers = {.self = rings,
                    .ahead = RT_LEADER_TICKETS_AHEAD,
                    .give = rings_give,
                    .held = rings_held,
                    .waiting = rings_waiting,
                    .take = rings_take,
                    .flush = flush},
        .own = {.self = rings,
                .worker = {.self = rings, .learn = rings_learn, .settle = rings_settle},
                .await = rings_await,
                .enter = rings_pass,
                .leave = rings_pass,
                .now = rings_now},
        .roles = &rings->roles,
        .servers = rules != NULL,
        .asynchronous = rt_exchange_is_asynchronous(rings->strategy, &rings->exchange_options),
        .tracks = tracks,
        .warm_start = rings->exchange_options.warm_start,
        .updates = config->settings.updates,
        .batches = rt_batches_count(config->set->count, batch, config->settings.drop_last),
        .per_epoch = config->per_epoch,
        .rests = config->rests,
    };
    return rt_scheduler_create(&settings, &rings->scheduler, err);
}

rt_status rt_rings_step_apart(struct rt_rings *rings, struct rt_ring_update *update, struct rt_error *err) {
    struct rt_done sum;
    *update = (struct rt_ring_update){.start = rt_clock_wall()};
    if (!rings->stepped) {
        rt_coordinator_begin(rings->coordinator);
        rt_rings_flush(rings);
    }
    rings->stepped = true;
    rt_status status = rt_scheduler_step(rings->scheduler, &sum, err);
    if (status != RT_OK)
        return status;
    update->update = rt_scheduler_returned(rings->scheduler);
    update->rows = sum.rows;
    update->loss = sum.loss;
    update->correct = (size_t)sum.correct;
    update->end = rt_clock_wall();
    /* An update of 0 rows would be taken for the end of the examples, so it is refused. */
    return sum.rows > 0 ? RT_OK
                        : rt_fail(err, RT_FAILED, "update %llu was made of no examples",
                                  (unsigned long long)update->update);
}

static bool rings_do_others_rest(void *user) {
    return rt_coordinator_all_rest(((const struct rt_rings *)user)->coordinator);
}

/* Ring 0 rests last, and then has the parameters after all gradients. */
rt_status rt_rings_rest_apart(struct rt_rings *rings, struct rt_error *err) {
    rt_status status = rt_rings_wait(rings, true, rings_do_others_rest, rings, err);
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
