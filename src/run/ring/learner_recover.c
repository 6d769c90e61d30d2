/*
 * A ring goes on when a device is lost: the state is replicated at neighbours meanwhile (ring/replicas.h),
 * and another view is formed without the device (run/ring/recover.c).
 */
#include "run/ring/learner_inside.h"

#include "base/memory.h"
#include <stdio.h>
#include <string.h>

void rt_ring_learner_describe(const struct rt_ring_learner *learner, struct rt_learner *described) {
    const struct rt_plan *plan = learner->setup.plan;
    described->nodes = learner->nodes;
    described->predicted_samples_per_s = plan->samples_per_s;
    described->predicted_at_most = plan->crowded;
    described->replica_bytes = (uint64_t)learner->setup.replica_bytes;
    described->image_on_disk = learner->rings && rt_rings_image_is_on_disk(learner->rings, &learner->setup);
}

static rt_status ring_learner_replicate(void *self, uint64_t update, struct rt_error *err) {
    struct rt_ring_learner *learner = self;
    (void)update;
    if (learner->nodes == 1)
        return RT_OK;
    return rt_ring_learner_explain(learner, rt_ring_learner_take_image(learner, err), err);
}

static uint64_t ring_learner_replicated(void *self) {
    const struct rt_ring_learner *learner = self;
    return rt_ring_replicated(learner->ring);
}

static double ring_learner_replica_interval(void *self) {
    return ((const struct rt_ring_learner *)self)->setup.replica_interval;
}

/* ---- a device is lost ---------------------------------------------------------------------------------- */

/* Nothing is left of the view before but what the master keeps. */
static void ring_learner_leave(struct rt_ring_learner *learner) {
    if (learner->rings)
        rt_rings_end_view(learner->rings);
    rt_ring_give_up(learner->ring);
    if (learner->rings)
        rt_rings_leave(learner->rings);
    rt_ring_destroy(learner->ring);
    learner->ring = NULL;
    rt_input_pipeline_close(&learner->pipeline);
    learner->pipeline = (struct rt_input_pipeline){0};
}

/* The layers that a device has, if it has any. */
static struct rt_holding ring_learner_layers_of(const struct rt_plan *plan, size_t device) {
    for (size_t i = 0; i < plan->nodes; i++)
        if (plan->node[i].device == device)
            return (struct rt_holding){.first = (uint32_t)plan->node[i].first,
                                       .count = (uint32_t)plan->node[i].count};
    return (struct rt_holding){0};
}

/* "pi3 has layers 4-5, master layers 6-7": who has now what the lost device had. */
static void ring_learner_tell_taken(const struct rt_ring_learner *learner, const struct rt_holding *lost,
                                    char *text, size_t room) {
    const struct rt_plan *plan = learner->setup.plan;
    size_t at = 0;
    for (size_t i = 0; i < plan->nodes && lost->count; i++) {
        const struct rt_plan_node *node = &plan->node[i];
        const size_t first = node->first > lost->first ? node->first : lost->first;
        const size_t end = node->first + node->count, stop = (size_t)lost->first + lost->count;
        const size_t last = end < stop ? end : stop;
        if (last <= first || at >= room)
            continue;
        const char *name = learner->setup.who.name[node->device];
        const int added = last - first == 1 ? snprintf(text + at, room - at, "%s%s has layer %zu",
                                                       at ? ", " : "", name, first)
                                            : snprintf(text + at, room - at, "%s%s has layers %zu-%zu",
                                                       at ? ", " : "", name, first, last - 1);
        at += added > 0 ? (size_t)added : room;
    }
}

static rt_status ring_learner_form_rings_again(struct rt_ring_learner *learner,
                                               struct rt_recovered *recovered, struct rt_error *err) {
    const struct rt_ring_setup_settings wanted = rt_ring_learner_wants(learner);
    struct rt_ring_setup *setup = &learner->setup;
    RT_TRY(rt_rings_form_again(&learner->rings, &wanted, setup, learner->config.gone, recovered, err));
    learner->nodes = setup->plan->nodes * rt_rings_count(learner->rings);
    return rt_ring_learner_open_ring(learner, err);
}

static rt_status ring_learner_form_again(struct rt_ring_learner *learner, const struct rt_versions *known,
                                         struct rt_recovered *recovered, struct rt_error *err) {
    const struct rt_ring_setup_settings wanted = rt_ring_learner_wants(learner);
    struct rt_ring_setup *setup = &learner->setup;
    if (learner->rings)
        return ring_learner_form_rings_again(learner, recovered, err);
    struct rt_holding holding[RT_MAX_HOLDINGS];
    size_t damaged;
    const size_t holdings = rt_replicas_holdings(learner->replicas, holding, &damaged);
    if (damaged)
        learner->config.warn(learner->config.notice_user, RT_REPLICAS_DAMAGED);
    const struct rt_ring_past past = {
        .gone = learner->config.gone, .known = known, .holding = holding, .holdings = holdings};
    RT_TRY(rt_ring_setup_recover(&wanted, setup, &past, recovered, err));
    learner->nodes = setup->plan->nodes;
    RT_TRY(rt_ring_learner_open_ring(learner, err));
    if (setup->version == 0)
        return RT_OK;
    return rt_ring_learner_explain(learner, rt_ring_restore(learner->ring, setup->holder, err), err);
}

static rt_status ring_learner_recover(void *self, struct rt_learner *described,
                                      const struct rt_versions *known, struct rt_recovered *recovered,
                                      struct rt_error *err) {
    struct rt_ring_learner *learner = self;
    const size_t lost = *learner->config.lost;
    struct rt_holding layers = {0};
    if (!learner->ring) /* an attempt before has failed for good */
        return err->status = RT_FAILED;
    if (lost == 0 && !learner->rings && learner->nodes == 1) /* the master alone keeps no replicas */
        RT_TRY(rt_ring_learner_explain(learner, rt_ring_snapshot(learner->ring, err), err));
    if (lost == 0 && !learner->rings)
        RT_TRY(rt_ring_learner_explain(learner, rt_ring_snapshot_finish(learner->ring, err), err));
    else if (!learner->rings)
        layers = ring_learner_layers_of(learner->setup.plan, lost);
    ring_learner_leave(learner);
    rt_ring_newcomers_forget(learner);
    if (lost > 0 && lost != RT_LOST_MASTER)
        learner->config.gone[lost] = true;
    RT_TRY(ring_learner_form_again(learner, known, recovered, err));
    rt_ring_learner_describe(learner, described);
    rt_ring_learner_watch_view(learner);
    recovered->version = learner->setup.version;
    if (!learner->rings)
        ring_learner_tell_taken(learner, &layers, recovered->taken, sizeof recovered->taken);
    return RT_OK;
}

static uint64_t ring_learner_moved(void *self) {
    return rt_ring_moved(((const struct rt_ring_learner *)self)->ring);
}

void rt_ring_learner_can_recover(const struct rt_ring_learner *learner, struct rt_learner *described) {
    const struct rt_spec_cluster *cluster = &learner->config.spec->cluster;
    if (!cluster->recover)
        return;
    described->recover = ring_learner_recover;
    described->moved = ring_learner_moved;
    if (learner->rings) { /* the run keeps an image on the master, from which ring 0 gets its state, and gives
                             it to the others */
        described->wants_view = cluster->replica != RT_REPLICA_OFF ? rt_ring_learner_wants_view : NULL;
        return;
    }
    if (learner->setup.job->ring.replica == RT_REPLICA_OFF)
        return;
    described->replicate = ring_learner_replicate;
    described->replicated = ring_learner_replicated;
    described->replica_interval = ring_learner_replica_interval;
    described->wants_view = rt_ring_learner_wants_view;
}
