/*
 * Whether a ring is better off with another view: a device that was gone has come back, or devices have
 * become slower or faster, so that layers should change hands. Asked between updates; looks now and then.
 *
 * How fast a device is: the seconds in which it computed per update, from two reports of the nodes, against
 * those that the plan predicts for its layers. The time in which other programs had its cores (wait_cpu) is
 * part of that where the device is a machine of its own; local processes compete with one another.
 */
#include "run/ring/learner_inside.h"

#include "base/memory.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define WATCH_SECONDS 0.25 /* between two looks */
#define WATCH_WINDOW  1.0  /* seconds of reports that a speed is measured from, */
#define WATCH_UPDATES 8    /* and updates */
#define WATCH_WINDOWS 2    /* in a row, before anything is done */
#define WATCH_SPREAD  1.1  /* between the devices; less is not looked into */
#define WATCH_GAIN    1.1  /* predicted, for which layers change hands */
#define WATCH_JOINS   1.02 /* predicted, for which a device is taken in */

/* ---- a device comes back, or joins --------------------------------------------------------------------- */

/* The gain of the best plan for the devices that are there over the plan as it is. */
static rt_status watch_gain(const struct rt_ring_setup *setup, double *gain, struct rt_error *err) {
    struct rt_plan *plan;
    double now;
    RT_TRY(rt_ring_setup_rate(setup, &now, err));
    RT_TRY(rt_ring_setup_replan(setup, false, &plan, err));
    *gain = now > 0 ? plan->samples_per_s / now : 1;
    rt_plan_destroy(plan);
    return RT_OK;
}

/* Whether the devices that are there are better off with another view. */
static rt_status watch_is_better(const struct rt_ring_learner *learner, bool *better, struct rt_error *err) {
    const struct rt_ring_setup *setup = &learner->setup;
    bool more = setup->question.keep_all;
    double gain = 1;
    if (learner->rings) {
        RT_TRY(rt_rings_gain(learner->rings, setup, &gain, &more, err));
        more = more && learner->config.spec->cluster.keep_all;
    } else {
        RT_TRY(watch_gain(setup, &gain, err));
    }
    *better = gain > WATCH_JOINS || more;
    return RT_OK;
}

/* A member that is there again, or new, and that the planner knows; SIZE_MAX: none. */
static size_t watch_look(struct rt_ring_learner *learner, const char **what) {
    struct rt_membership *who = &learner->setup.who;
    size_t member;
    *what = "has joined";
    if (learner->newcomer.active)
        return rt_ring_newcomer_look(learner) ? learner->newcomer.member : SIZE_MAX;
    member = rt_cluster_call_gone(who->cluster);
    if (member == SIZE_MAX || !rt_cluster_member(who->cluster, member)->fresh) {
        *what = "is back";
        return member;
    }
    rt_membership_name(who, member + 1);
    rt_ring_newcomer_begin(learner, member);
    return SIZE_MAX;
}

static bool watch_returned(struct rt_ring_learner *learner, struct rt_error *why) {
    const struct rt_ring_setup *setup = &learner->setup;
    const char *what;
    const size_t member = watch_look(learner, &what);
    char title[RT_TITLE_ROOM];
    bool better = false;
    if (member == SIZE_MAX)
        return false;
    learner->config.gone[member + 1] = false;
    const rt_status status = watch_is_better(learner, &better, why);
    rt_membership_title(&setup->who, member + 1, title);
    if (status == RT_OK && better) {
        rt_fail(why, RT_OK, "%s %s", title, what);
        return true;
    }
    rt_talk_close(&rt_cluster_member(setup->who.cluster, member)->talk); /* it stays a spare */
    rt_fail(why, RT_OK, "%s %s; the %s not predicted to be faster with it", title, what,
            learner->rings ? "rings are" : "ring is");
    learner->config.notice(learner->config.notice_user, why->text);
    return false;
}

/* ---- devices that have changed their speed ------------------------------------------------------------- */

static double watch_busy(const struct rt_ring_learner *learner, size_t device,
                         const struct rt_metrics_row *row) {
    const struct rt_member *member =
        device ? rt_cluster_member(learner->setup.who.cluster, device - 1) : NULL;
    double busy = row->state[RT_STATE_FORWARD] + row->state[RT_STATE_BACKWARD] + row->state[RT_STATE_WEIGHT] +
                  row->state[RT_STATE_UPDATE];
    if (member && !member->local && !rt_cluster_is_loopback(member->address))
        busy += row->state[RT_STATE_WAIT_CPU];
    return busy;
}

/* Whether every node has made some updates since the reports before. */
static bool watch_is_window(const struct rt_ring_learner *learner) {
    const struct rt_watch *watch = &learner->watch;
    for (size_t i = 0; i < learner->nodes; i++)
        if (learner->rows[i].updates < watch->before[i].updates + WATCH_UPDATES ||
            learner->rows[i].seconds < watch->before[i].seconds + WATCH_WINDOW)
            return false;
    return true;
}

/* How many times slower than predicted each device of the plan was in the window; the spread between them. */
static double watch_measure(const struct rt_ring_learner *learner, double *slower) {
    const struct rt_plan *plan = learner->setup.plan;
    double least = INFINITY, most = 0;
    for (size_t i = 0; i < plan->nodes; i++) {
        const struct rt_metrics_row *row = &learner->rows[i], *before = &learner->watch.before[i];
        const size_t device = plan->node[i].device;
        const double busy = watch_busy(learner, device, row) - watch_busy(learner, device, before);
        const double predicted = plan->node[i].busy * (double)(row->updates - before->updates);
        slower[i] = busy > 0 && predicted > 0 ? busy / predicted : 1;
        least = fmin(least, slower[i]);
        most = fmax(most, slower[i]);
    }
    return most / least;
}

/* With devices that are so much slower: what another plan gains. The speeds stay in the set-up if that is
 * enough. */
static bool watch_is_worth_it(struct rt_ring_learner *learner, const double *slower) {
    struct rt_ring_setup *setup = &learner->setup;
    const struct rt_plan *plan = setup->plan;
    struct rt_error ignored;
    double gain = 1;
    for (size_t i = 0; i < plan->nodes; i++)
        setup->slower[plan->node[i].device] *= slower[i];
    const bool worth = watch_gain(setup, &gain, &ignored) == RT_OK && gain > WATCH_GAIN;
    learner->watch.windows = worth ? learner->watch.windows + 1 : 0;
    if (learner->watch.windows >= WATCH_WINDOWS)
        return true;
    for (size_t i = 0; i < plan->nodes; i++)
        setup->slower[plan->node[i].device] /= slower[i];
    return false;
}

/* "pi3 computes 4.0 times slower than predicted": the device that differs most from the others. */
static void watch_explain(const struct rt_ring_learner *learner, const double *slower, struct rt_error *why) {
    const struct rt_plan *plan = learner->setup.plan;
    char title[RT_TITLE_ROOM];
    size_t odd = 0;
    for (size_t i = 1; i < plan->nodes; i++)
        if (fabs(log(slower[i])) > fabs(log(slower[odd])))
            odd = i;
    const double factor = exp(fabs(log(slower[odd])));
    rt_membership_title(&learner->setup.who, plan->node[odd].device, title);
    rt_fail(why, RT_OK, "%s computes %.1f times %s than predicted", title, factor,
            slower[odd] > 1 ? "slower" : "faster");
}

static void watch_keep_rows(struct rt_ring_learner *learner) {
    memcpy(learner->watch.before, learner->rows, learner->nodes * sizeof *learner->rows);
    learner->watch.has_before = true;
}

static bool watch_unbalanced(struct rt_ring_learner *learner, struct rt_error *why) {
    struct rt_watch *watch = &learner->watch;
    if (learner->nodes == 1 || !rt_ring_metrics_recent(learner->ring, learner->rows))
        return false;
    if (!watch->has_before)
        watch_keep_rows(learner);
    if (!watch_is_window(learner))
        return false;
    const bool spread = watch_measure(learner, watch->slower) > WATCH_SPREAD;
    watch_keep_rows(learner);
    if (!spread)
        watch->windows = 0;
    if (!spread || !watch_is_worth_it(learner, watch->slower))
        return false;
    watch_explain(learner, watch->slower, why);
    return true;
}

/* ---- both ---------------------------------------------------------------------------------------------- */

rt_status rt_ring_learner_watch_init(struct rt_ring_learner *learner, struct rt_error *err) {
    const size_t devices = learner->setup.who.devices;
    RT_TRY(rt_alloc(devices, sizeof *learner->watch.before, "the metrics", &learner->watch.before, err));
    return rt_alloc(devices, sizeof *learner->watch.slower, "the devices", &learner->watch.slower, err);
}

void rt_ring_learner_watch_deinit(struct rt_ring_learner *learner) {
    free(learner->watch.before);
    free(learner->watch.slower);
}

void rt_ring_learner_watch_view(struct rt_ring_learner *learner) {
    learner->watch.has_before = false;
    learner->watch.windows = 0;
}

bool rt_ring_learner_wants_view(void *self, struct rt_error *why) {
    struct rt_ring_learner *learner = self;
    const struct rt_spec_cluster *cluster = &learner->config.spec->cluster;
    if (!learner->setup.who.cluster)
        return false;
    const double now = rt_endpoint_now(learner->setup.who.endpoint);
    if (now < learner->watch.at)
        return false;
    learner->watch.at = now + WATCH_SECONDS;
    return watch_returned(learner, why) ||
           (cluster->rebalance && !learner->rings && cluster->plan == 0 && watch_unbalanced(learner, why));
}
