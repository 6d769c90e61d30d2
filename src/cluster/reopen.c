/* Calling the members again in the middle of a run, for its next view: who is still there, and who is gone.
 * All are called at a time; one that does not come back fails nothing. */
#include "cluster/cluster_inside.h"

#include "base/memory.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* Seconds in which a node that joins finds that its view is over, and connects again. */
static const double joins_seconds = 3;
/* Seconds after which it is looked again whether a process on this machine has ended. */
static const double slice = 0.1;

/* A node listens as long as it is there: a host which says that nothing does is asked again for so long, and
 * no longer. One that is started anew comes back into the run all the same (return.c). */
static const double refused_seconds = 0.1;

enum call {
    CALL_DUE,  /* at its time */
    CALL_MADE, /* to be answered */
    CALL_OVER, /* it is there, or gone */
};

struct reopen {
    struct rt_cluster *cluster;
    double until;       /* for answers */
    double joins_until; /* for those that have to connect to us */
    double link_timeout, timeout;
    struct called {
        enum call call;
        double due;
    } * called; /* [members] */
    double looked;
};

static void reopen_give_up(struct reopen *reopen, size_t i, const struct rt_error *why) {
    struct rt_member *member = &reopen->cluster->members[i];
    rt_talk_close(&member->talk);
    member->gone = true;
    member->lost = *why;
    reopen->called[i].call = CALL_OVER;
}

static void reopen_call(struct reopen *reopen, size_t i) {
    const double now = rt_endpoint_now(reopen->cluster->endpoint);
    const double until = fmin(now + reopen->link_timeout, reopen->until);
    struct rt_error err;
    if (rt_cluster_greet(reopen->cluster, &reopen->cluster->members[i], now + refused_seconds, until, &err) !=
        RT_OK)
        reopen_give_up(reopen, i, &err);
    else
        reopen->called[i].call = CALL_MADE;
}

/* It was too busy with other callers. */
static void reopen_call_later(struct reopen *reopen, size_t i) {
    rt_talk_close(&reopen->cluster->members[i].talk);
    reopen->called[i].call = CALL_DUE;
    reopen->called[i].due = rt_endpoint_now(reopen->cluster->endpoint) + RT_CLUSTER_CALL_PAUSE;
}

/* Something has come of a call. */
static void reopen_hear(struct reopen *reopen, size_t i) {
    struct rt_cluster *cluster = reopen->cluster;
    struct rt_member *member = &cluster->members[i];
    struct rt_error err;
    if (!member->talk.ready && rt_cluster_fail_lost(member, &err) != RT_OK)
        reopen_give_up(reopen, i, &err);
    else if (rt_cluster_is_put_off(cluster, member, reopen->until))
        reopen_call_later(reopen, i);
    else if (rt_cluster_check_welcome(cluster, member, &err) != RT_OK)
        reopen_give_up(reopen, i, &err);
    else
        reopen->called[i].call = CALL_OVER;
}

/* What has become possible, or too late; whether a member has yet to answer. */
static bool reopen_look(struct reopen *reopen, size_t i) {
    struct called *called = &reopen->called[i];
    const struct rt_talk *talk = &reopen->cluster->members[i].talk;
    const double now = rt_endpoint_now(reopen->cluster->endpoint);
    char who[200];
    struct rt_error err;
    const struct rt_member *member = &reopen->cluster->members[i];
    if (called->call == CALL_DUE && now >= called->due && rt_cluster_can_call(reopen->cluster, member))
        reopen_call(reopen, i);
    if (called->call == CALL_MADE && (talk->ready || talk->dead))
        reopen_hear(reopen, i);
    const bool absent = called->call == CALL_DUE && member->joins && now >= reopen->joins_until;
    if (called->call != CALL_OVER && (absent || now >= reopen->until)) {
        rt_fail(&err, RT_FAILED, "%s has not answered for %g s",
                rt_cluster_call(&reopen->cluster->members[i], who), reopen->timeout);
        reopen_give_up(reopen, i, &err);
    }
    return called->call != CALL_OVER;
}

/* A process that has ended does not answer: there is no need to wait for it. */
static void reopen_check_locals(struct reopen *reopen) {
    struct rt_cluster *cluster = reopen->cluster;
    const size_t first = cluster->first_local;
    const double now = rt_endpoint_now(cluster->endpoint);
    char how[RT_HOW_ROOM];
    struct rt_error err;
    if (now < reopen->looked + slice)
        return;
    reopen->looked = now;
    for (size_t i = 0; i < cluster->local_count; i++)
        if (!cluster->members[first + i].gone && rt_local_ended(&cluster->locals[i], 0, how)) {
            rt_fail(&err, RT_FAILED, "%s %s", cluster->members[first + i].name, how);
            reopen_give_up(reopen, first + i, &err);
        }
}

/* When something is to be done though nothing has come. */
static double reopen_deadline(const struct reopen *reopen) {
    const struct rt_cluster *cluster = reopen->cluster;
    double until = reopen->until;
    if (cluster->local_count)
        until = fmin(until, reopen->looked + slice);
    for (size_t i = 0; i < cluster->count; i++)
        if (reopen->called[i].call == CALL_DUE)
            until = fmin(until, cluster->members[i].joins ? reopen->joins_until : reopen->called[i].due);
    return until;
}

static rt_status reopen_call_all(struct reopen *reopen, struct rt_error *err) {
    for (;;) {
        bool waits = false;
        reopen_check_locals(reopen);
        for (size_t i = 0; i < reopen->cluster->count; i++)
            waits |= reopen_look(reopen, i);
        if (!waits)
            return RT_OK;
        RT_TRY(rt_cluster_pump(reopen->cluster, reopen_deadline(reopen), err));
    }
}

/* Nothing is left of the view before. */
static void reopen_forget(struct reopen *reopen, const bool *lost) {
    struct rt_cluster *cluster = reopen->cluster;
    char who[200];
    struct rt_error err;
    rt_dial_cancel(&cluster->dial);
    cluster->own_count = 0;
    cluster->lost.text[0] = 0;
    for (size_t i = 0; i < cluster->count; i++) {
        struct rt_member *member = &cluster->members[i];
        rt_talk_close(&member->talk);
        cluster->joined[i] = member->gone = false;
        if (lost && lost[i]) {
            rt_fail(&err, RT_FAILED, "%s is lost", rt_cluster_call(member, who));
            reopen_give_up(reopen, i, &err);
        } else if (rt_cluster_is_free(member)) {
            rt_fail(&err, RT_FAILED, "no node has joined");
            reopen_give_up(reopen, i, &err);
        }
    }
    for (size_t i = 0; i < cluster->local_count; i++)
        cluster->locals[i].given_up = true; /* for as long as it is found out */
}

rt_status rt_cluster_reopen(struct rt_cluster *cluster, const struct rt_reopen_settings *settings,
                            struct rt_error *err) {
    struct reopen reopen = {.cluster = cluster, .looked = -INFINITY};
    if (settings->view <= cluster->view)
        return rt_fail(err, RT_BAD_INPUT, "view %u of a run cannot be formed after view %u", settings->view,
                       cluster->view);
    RT_TRY(rt_alloc(cluster->count, sizeof *reopen.called, "the nodes of a cluster", &reopen.called, err));
    const double now = rt_endpoint_now(cluster->endpoint);
    reopen.timeout = settings->timeout > 0 ? settings->timeout : cluster->timeout;
    reopen.until = now + reopen.timeout;
    reopen.joins_until = now + fmin(joins_seconds, reopen.timeout);
    reopen.link_timeout = settings->link_timeout > 0 ? settings->link_timeout : reopen.timeout;
    cluster->view = settings->view;
    cluster->fault = cluster->fault_peer = SIZE_MAX;
    cluster->calls = false;
    reopen_forget(&reopen, settings->lost);
    rt_status status = reopen_call_all(&reopen, err);
    const size_t first = cluster->first_local;
    for (size_t i = 0; i < cluster->local_count; i++)
        cluster->locals[i].given_up = cluster->members[first + i].gone;
    free(reopen.called);
    return status;
}
