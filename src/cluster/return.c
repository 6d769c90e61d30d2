/*
 * Members that come back, and nodes that join. While a view works, those that are gone are called now and
 * then: each call is a greeting for the view after it, and nobody waits for the answer. A member that answers
 * keeps its session, and is called again with all others when the next view is formed (reopen.c).
 */
#include "cluster/cluster_inside.h"

#include <math.h>
#include <string.h>

/* Seconds between two calls, and for which one may take. A member that is lost again soon after it came back
 * (it cannot take its part, or the others cannot reach it) is left alone for twice as long each time. */
static const double return_pause = 1, return_seconds = 3;
static const double return_soon = 60, return_pause_longest = 600;

static bool return_is_calling(const struct rt_member *member) {
    return member->gone && member->talk.link;
}

/* The node must not take the call for one of the view that works. */
static void return_count_view(struct rt_cluster *cluster) {
    if (!cluster->calls)
        cluster->view++;
    cluster->calls = true;
}

static void return_call(struct rt_cluster *cluster, size_t i) {
    const double until = rt_endpoint_now(cluster->endpoint) + return_seconds;
    struct rt_error ignored;
    return_count_view(cluster);
    cluster->returns[i].call_at = until;
    (void)rt_cluster_greet(cluster, &cluster->members[i], until, until, &ignored);
}

/* When it is called the next time, should it be lost again. */
static void return_note(struct rt_return *back, double now) {
    const bool soon = back->pause > 0 && now < back->at + back->pause + return_soon;
    back->pause = soon ? fmin(2 * back->pause, return_pause_longest) : return_pause;
    back->at = now;
    back->call_at = now + back->pause;
    back->in_this_view = true;
}

/* ---- nodes that join ---- */

/* Its name, and that of nobody else: a node that was started again takes the place of the one before. */
static void return_name(struct rt_cluster *cluster, size_t joined) {
    struct rt_member *member = &cluster->members[joined];
    bool shared = strcmp(member->name, "master") == 0;
    for (size_t i = 0; i < cluster->count; i++) {
        struct rt_member *other = &cluster->members[i];
        if (i == joined || strcmp(other->name, member->name) != 0)
            continue;
        if (other->joins && other->gone && !other->talk.link)
            rt_cluster_free_seat(other);
        else
            shared = true;
    }
    if (shared)
        memcpy(member->name, member->address, sizeof member->name);
}

/* One that cannot take part keeps its seat, so that it is not asked again. */
static void return_refuse(struct rt_cluster *cluster, size_t i) {
    struct rt_member *member = &cluster->members[i];
    if (!member->name[0]) {
        rt_cluster_free_seat(member);
    } else if (member->fresh) {
        rt_talk_close(&member->talk);
        cluster->returns[i].call_at = INFINITY;
    }
}

static void return_seat(struct rt_cluster *cluster) {
    struct rt_guest *guest = cluster->door ? rt_door_find(cluster->door, NULL) : NULL;
    struct rt_error ignored;
    size_t seat;
    if (!guest)
        return;
    return_count_view(cluster);
    if (rt_cluster_seat(cluster, guest, &seat, &ignored) == RT_OK)
        cluster->returns[seat] =
            (struct rt_return){.call_at = rt_endpoint_now(cluster->endpoint) + return_seconds};
}

/* ---- both ---- */

/* false: it is busy, or another program than before. */
static bool return_hear(struct rt_cluster *cluster, size_t i) {
    struct rt_member *member = &cluster->members[i];
    const double now = rt_endpoint_now(cluster->endpoint);
    const bool is_new = !member->name[0];
    struct rt_error ignored;
    if (member->talk.ready && rt_cluster_check_welcome(cluster, member, &ignored) == RT_OK) {
        member->gone = false;
        if (is_new)
            return_name(cluster, i);
        return_note(&cluster->returns[i], now);
        return true;
    }
    if (member->talk.ready || member->talk.dead || now >= cluster->returns[i].call_at) {
        rt_talk_close(&member->talk);
        cluster->returns[i].call_at = now + return_pause;
        if (member->joins)
            return_refuse(cluster, i);
    }
    return false;
}

static bool return_can_call(struct rt_cluster *cluster, const struct rt_member *member) {
    return member->gone && !member->local && !member->talk.link && !rt_cluster_is_free(member) &&
           rt_cluster_can_call(cluster, member);
}

size_t rt_cluster_call_gone(struct rt_cluster *cluster) {
    if (cluster->door)
        rt_door_check(cluster->door);
    return_seat(cluster);
    for (size_t i = 0; i < cluster->count; i++) {
        struct rt_member *member = &cluster->members[i];
        if (return_is_calling(member) && return_hear(cluster, i))
            return i;
        if (return_can_call(cluster, member) &&
            rt_endpoint_now(cluster->endpoint) >= cluster->returns[i].call_at)
            return_call(cluster, i);
    }
    return SIZE_MAX;
}

bool rt_cluster_is_back(const struct rt_cluster *cluster, size_t member) {
    return member < cluster->count && cluster->returns[member].in_this_view;
}

void rt_cluster_stray(struct rt_cluster *cluster, const struct rt_event *event) {
    if (cluster->door && rt_door_event(cluster->door, event))
        return;
    if (event->kind == RT_EVENT_ACCEPTED) {
        rt_link_close(event->link); /* the master accepts no connections */
        return;
    }
    for (size_t i = 0; i < cluster->count; i++)
        if (rt_talk_event(&cluster->members[i].talk, event))
            return;
}
