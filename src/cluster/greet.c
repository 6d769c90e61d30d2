/* Greetings of a master: HELLO and WELCOME, of all members at a time when a cluster is opened. */
#include "cluster/cluster_inside.h"

#include "base/sentence.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

struct rt_hello rt_cluster_hello(const struct rt_cluster *cluster, uint16_t label) {
    struct rt_hello hello = {.role = RT_ROLE_MASTER, .label = label, .view = cluster->view};
    memcpy(hello.token, cluster->token, sizeof hello.token);
    memcpy(hello.answer, cluster->answer, sizeof hello.answer);
    snprintf(hello.version, sizeof hello.version, "%s", RT_VERSION);
    return hello;
}

static rt_status cluster_connect(struct rt_cluster *cluster, struct rt_member *member, double refused,
                                 double until, struct rt_error *err) {
    struct rt_link *link;
    RT_TRY(rt_endpoint_call(cluster->endpoint, member->address, refused, until, &link, err));
    const rt_status status = rt_talk_open(link, &member->talk, err);
    if (status != RT_OK)
        rt_link_close(link);
    return status;
}

rt_status rt_cluster_greet(struct rt_cluster *cluster, struct rt_member *member, double refused, double until,
                           struct rt_error *err) {
    if (member->joins) {
        struct rt_guest *guest = rt_door_find(cluster->door, member->own);
        if (!guest)
            return rt_fail(err, RT_FAILED, "%s is not connected", member->name);
        RT_TRY(rt_door_take(cluster->door, guest, member, err));
    } else {
        RT_TRY(cluster_connect(cluster, member, refused, until, err));
    }
    member->talk.run = cluster->run;
    struct rt_hello hello = rt_cluster_hello(cluster, 0);
    size_t bytes = rt_hello_encode(&hello, rt_talk_body(&member->talk), RT_MAX_CONTROL);
    rt_talk_send(&member->talk, &(struct rt_message){.type = RT_MESSAGE_HELLO}, bytes);
    return RT_OK;
}

rt_status rt_cluster_check_welcome(struct rt_cluster *cluster, struct rt_member *member,
                                   struct rt_error *err) {
    char who[200];
    struct rt_welcome welcome;
    rt_status status = rt_talk_expect(&member->talk, RT_MESSAGE_WELCOME, rt_cluster_call(member, who), err);
    if (status == RT_OK) {
        status = rt_welcome_decode(member->talk.body, member->talk.body_bytes, &welcome, err);
        if (status != RT_OK)
            rt_fail_prefix(err, status, "%s", who);
    }
    if (status == RT_OK && welcome.view >= cluster->view)
        status =
            rt_fail(err, RT_BAD_INPUT, "%s says that it has worked in view %u, and view %u is only formed",
                    who, welcome.view, cluster->view);
    if (status != RT_OK)
        return status;
    member->welcome = welcome;
    if (!member->name[0])
        snprintf(member->name, sizeof member->name, "%s", welcome.name[0] ? welcome.name : member->address);
    rt_talk_next(&member->talk);
    if (cluster->exact && memcmp(welcome.answer, cluster->answer, sizeof welcome.answer) != 0)
        return rt_fail(
            err, RT_FAILED,
            "%s (ringtmp %.20s, kernels %.40s) computes other bits than this machine (ringtmp %s): "
            "it cannot take part in an exact run",
            rt_cluster_call(member, who), welcome.version, welcome.kernels, RT_VERSION);
    return RT_OK;
}

/* Seconds for a node that was too busy to answer when it is called again. */
static const double call_seconds = 0.5;

bool rt_cluster_is_put_off(const struct rt_cluster *cluster, const struct rt_member *member, double until) {
    return !member->joins && member->talk.message.type == RT_MESSAGE_ERROR &&
           (member->talk.message.flags & RT_FLAG_AGAIN) &&
           rt_endpoint_now(cluster->endpoint) + RT_CLUSTER_CALL_PAUSE + call_seconds < until;
}

/* ---- nodes that join ---- */

bool rt_cluster_listens(const struct rt_cluster *cluster) {
    return cluster->door != NULL;
}

bool rt_cluster_is_free(const struct rt_member *member) {
    return member->joins && !member->name[0] && !member->talk.link;
}

void rt_cluster_free_seat(struct rt_member *member) {
    rt_talk_close(&member->talk);
    *member = (struct rt_member){.joins = true, .gone = true};
}

bool rt_cluster_can_call(struct rt_cluster *cluster, const struct rt_member *member) {
    return !member->joins || rt_door_find(cluster->door, member->own);
}

/* The seat, freed, of one that joined, is gone, and does not wait at the door; count: there is none. */
static size_t cluster_find_abandoned(struct rt_cluster *cluster) {
    for (size_t i = 0; i < cluster->count; i++) {
        struct rt_member *member = &cluster->members[i];
        if (member->joins && member->gone && !member->talk.link &&
            !rt_door_find(cluster->door, member->own)) {
            rt_cluster_free_seat(member);
            return i;
        }
    }
    return cluster->count;
}

rt_status rt_cluster_seat(struct rt_cluster *cluster, struct rt_guest *guest, size_t *seat,
                          struct rt_error *err) {
    size_t i = 0;
    while (i < cluster->count && !rt_cluster_is_free(&cluster->members[i]))
        i++;
    if (i == cluster->count)
        i = cluster_find_abandoned(cluster);
    if (i == cluster->count)
        return rt_fail(err, RT_FAILED, "the run has no room for another node");
    struct rt_member *member = &cluster->members[i];
    memcpy(member->own, guest->token, sizeof member->own);
    RT_TRY(rt_cluster_greet(cluster, member, 0, 0, err));
    member->fresh = true;
    *seat = i;
    return RT_OK;
}

static void cluster_tell_joining(const struct rt_cluster *cluster,
                                 const struct rt_cluster_settings *settings) {
    const size_t here = rt_door_offers(cluster->door);
    char sentence[RT_MAX_TEXT];
    if (!settings->waits)
        return;
    snprintf(sentence, sizeof sentence, "waiting for %s to join at %s: `ringtmp node --join`; %zu %s there",
             RT_COUNTED(settings->wait_nodes, "node"), cluster->endpoint->address, here,
             here == 1 ? "is" : "are");
    settings->waits(settings->waits_user, sentence);
}

/* Nodes that join are started by people, who have their time: there is no limit. */
static rt_status cluster_wait_for_offers(struct rt_cluster *cluster,
                                         const struct rt_cluster_settings *settings, struct rt_error *err) {
    const double start = rt_endpoint_now(cluster->endpoint), silence = 1;
    bool told = false;
    while (rt_door_offers(cluster->door) < settings->wait_nodes) {
        if (!told && rt_endpoint_now(cluster->endpoint) >= start + silence) {
            cluster_tell_joining(cluster, settings);
            told = true;
        }
        RT_TRY(rt_cluster_pump(cluster, told ? INFINITY : start + silence, err));
    }
    for (size_t i = 0, member; i < settings->wait_nodes; i++)
        RT_TRY(rt_cluster_seat(cluster, rt_door_find(cluster->door, NULL), &member, err));
    for (size_t i = 0; i < cluster->count; i++)
        cluster->members[i].gone = rt_cluster_is_free(&cluster->members[i]);
    return RT_OK;
}

/* ---- all of them ---- */

static rt_status cluster_greet_again(struct rt_cluster *cluster, struct rt_member *member, double until,
                                     struct rt_error *err) {
    const double then = rt_endpoint_now(cluster->endpoint) + RT_CLUSTER_CALL_PAUSE;
    rt_status status = RT_OK;
    rt_talk_close(&member->talk);
    while (status == RT_OK && rt_endpoint_now(cluster->endpoint) < then)
        status = rt_cluster_pump(cluster, then, err);
    return status == RT_OK ? rt_cluster_greet(cluster, member, until, until, err) : status;
}

static void cluster_tell_waiting(const struct rt_cluster *cluster,
                                 const struct rt_cluster_settings *settings) {
    for (size_t i = 0; i < cluster->count && settings->waits; i++) {
        const struct rt_member *member = &cluster->members[i];
        char sentence[RT_MAX_TEXT + 20];
        if (member->local || member->gone || member->talk.ready || member->welcome.name[0])
            continue;
        snprintf(sentence, sizeof sentence, "waiting for %s", member->address);
        settings->waits(settings->waits_user, sentence);
    }
}

/* A name that is not unique, or that is the master's, is replaced by the address. */
static void cluster_tell_apart(struct rt_cluster *cluster) {
    for (size_t i = 0; i < cluster->count; i++) {
        if (cluster->members[i].gone)
            continue;
        bool shared = strcmp(cluster->members[i].welcome.name, "master") == 0;
        for (size_t j = 0; j < cluster->count; j++)
            shared |=
                j != i && strcmp(cluster->members[i].welcome.name, cluster->members[j].welcome.name) == 0;
        struct rt_member *member = &cluster->members[i];
        if (shared && !member->local)
            memcpy(member->name, member->address, sizeof member->name);
    }
}

/* Greets all members at the same time; the first that is lost fails it. A link that cannot be made is given
 * up a moment before the wait for its answer, so that the reason is known. */
rt_status rt_cluster_greet_all(struct rt_cluster *cluster, const struct rt_cluster_settings *settings,
                               struct rt_error *err) {
    const double moment = 0.5, silence = 1;
    bool told = false;
    char who[200];
    rt_status status = cluster->door ? cluster_wait_for_offers(cluster, settings, err) : RT_OK;
    const double start = rt_endpoint_now(cluster->endpoint);
    const double last = start + cluster->timeout, until = last + moment;
    for (size_t i = 0; i < cluster->count && status == RT_OK; i++)
        if (!cluster->members[i].joins)
            status = rt_cluster_greet(cluster, &cluster->members[i], last, last, err);
    for (size_t i = 0; i < cluster->count && status == RT_OK; i++) {
        struct rt_member *member = &cluster->members[i];
        if (member->gone) /* a seat that is free */
            continue;
        while (status == RT_OK && (!member->talk.ready || rt_cluster_is_put_off(cluster, member, last))) {
            if (member->talk.ready)
                status = cluster_greet_again(cluster, member, last, err);
            for (size_t j = i; j < cluster->count && status == RT_OK; j++)
                if (cluster->members[j].talk.dead && !cluster->members[j].talk.ready)
                    status = rt_cluster_fail_lost(&cluster->members[j], err);
            if (status == RT_OK && rt_endpoint_now(cluster->endpoint) >= until)
                status = rt_fail(err, RT_FAILED, "%s has not answered for %g s", rt_cluster_call(member, who),
                                 cluster->timeout);
            if (status == RT_OK && !told && rt_endpoint_now(cluster->endpoint) >= start + silence) {
                cluster_tell_waiting(cluster, settings);
                told = true;
            }
            const double look = told || until < start + silence ? until : start + silence;
            if (status == RT_OK)
                status = rt_cluster_pump(cluster, look, err);
        }
        if (status == RT_OK)
            status = rt_cluster_check_welcome(cluster, member, err);
    }
    if (status == RT_OK)
        cluster_tell_apart(cluster);
    return status;
}
