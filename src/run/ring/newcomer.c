/*
 * A device that joins a ring for the first time while it runs: before the planner can judge it, it measures
 * the layers as the others did at the beginning. Nobody waits for it meanwhile. Its links are taken for as
 * good as the worst that the ring has, until there is something better to say.
 */
#include "run/ring/learner_inside.h"

#include <math.h>

static size_t newcomer_rows(const struct rt_ring_learner *learner) {
    const struct rt_plan_question *question = &learner->setup.question;
    return learner->newcomer.asked == 1 ? question->rows : question->more_rows;
}

static void newcomer_give_up(struct rt_ring_learner *learner) {
    struct rt_member *member = rt_cluster_member(learner->setup.who.cluster, learner->newcomer.member);
    rt_talk_close(&member->talk);
    member->gone = true; /* it may be called again */
    learner->newcomer.active = false;
}

/* The next of the two sizes of micro-batches. */
static void newcomer_ask(struct rt_ring_learner *learner) {
    struct rt_ring_setup *setup = &learner->setup;
    struct rt_error ignored;
    learner->newcomer.asked++;
    learner->newcomer.until = rt_endpoint_now(setup->who.endpoint) + learner->config.spec->cluster.timeout;
    if (rt_membership_request_profile(&setup->who, setup->job, learner->newcomer.member,
                                      newcomer_rows(learner), &ignored) != RT_OK)
        newcomer_give_up(learner);
}

void rt_ring_newcomer_begin(struct rt_ring_learner *learner, size_t member) {
    learner->newcomer = (struct rt_newcomer){.active = true, .member = member};
    learner->config.gone[member + 1] = true; /* no other view waits for it */
    newcomer_ask(learner);
}

static void newcomer_assume_links(struct rt_ring_setup *setup, struct rt_plan_device *device) {
    device->latency = device->bandwidth = 0;
    for (size_t i = 0; i < setup->plan->nodes; i++) {
        const struct rt_plan_device *other = &setup->device[setup->plan->node[i].device];
        device->latency = fmax(device->latency, other->latency);
        if (other->bandwidth > 0 && (device->bandwidth <= 0 || other->bandwidth < device->bandwidth))
            device->bandwidth = other->bandwidth;
    }
}

/* The planner knows it from now on. */
static void newcomer_enter(struct rt_ring_learner *learner) {
    struct rt_ring_setup *setup = &learner->setup;
    struct rt_member *member = rt_cluster_member(setup->who.cluster, learner->newcomer.member);
    const size_t i = learner->newcomer.member + 1;
    newcomer_assume_links(setup, &setup->device[i]);
    setup->device[i].memory = member->welcome.memory;
    setup->device[i].hidden = member->hidden;
    setup->slower[i] = 1;
    member->fresh = false;
    learner->newcomer.active = false;
}

bool rt_ring_newcomer_look(struct rt_ring_learner *learner) {
    struct rt_ring_setup *setup = &learner->setup;
    struct rt_newcomer *newcomer = &learner->newcomer;
    const struct rt_talk *talk = &rt_cluster_member(setup->who.cluster, newcomer->member)->talk;
    struct rt_layer_times *const *times = setup->times + (newcomer->asked == 1 ? 0 : setup->who.devices);
    struct rt_error ignored;
    if (!talk->ready && !talk->dead && rt_endpoint_now(setup->who.endpoint) < newcomer->until)
        return false;
    if (!talk->ready || rt_membership_take_profile(&setup->who, newcomer->member, times[newcomer->member + 1],
                                                   setup->question.model->count, &ignored) != RT_OK)
        newcomer_give_up(learner);
    else if (newcomer->asked == 1 && setup->question.more_rows)
        newcomer_ask(learner);
    else
        newcomer_enter(learner);
    return !newcomer->active && !rt_cluster_member(setup->who.cluster, newcomer->member)->fresh;
}

void rt_ring_newcomers_forget(struct rt_ring_learner *learner) {
    const struct rt_membership *who = &learner->setup.who;
    learner->newcomer.active = false;
    for (size_t i = 1; i < who->devices; i++) {
        struct rt_member *member = rt_cluster_member(who->cluster, i - 1);
        if (member->joins && member->fresh)
            member->gone = learner->config.gone[i] = true;
    }
}
