/* Greetings of a master: HELLO and WELCOME, of all members at a time when a cluster is opened. */
#include "cluster/cluster_inside.h"

#include <stdio.h>
#include <string.h>

struct rt_hello rt_cluster_hello(const struct rt_cluster *cluster, uint16_t label) {
    struct rt_hello hello = {.role = RT_ROLE_MASTER, .label = label, .view = cluster->view};
    memcpy(hello.answer, cluster->answer, sizeof hello.answer);
    snprintf(hello.version, sizeof hello.version, "%s", RT_VERSION);
    return hello;
}

rt_status rt_cluster_greet(struct rt_cluster *cluster, struct rt_member *member, double until,
                           struct rt_error *err) {
    struct rt_link *link;
    rt_status status = rt_endpoint_connect(cluster->endpoint, member->address, until, &link, err);
    if (status != RT_OK)
        return status;
    status = rt_talk_open(link, &member->talk, err);
    if (status != RT_OK) {
        rt_link_close(link);
        return status;
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
    return member->talk.message.type == RT_MESSAGE_ERROR && (member->talk.message.flags & RT_FLAG_AGAIN) &&
           rt_endpoint_now(cluster->endpoint) + RT_CLUSTER_CALL_PAUSE + call_seconds < until;
}

static rt_status cluster_greet_again(struct rt_cluster *cluster, struct rt_member *member, double until,
                                     struct rt_error *err) {
    const double then = rt_endpoint_now(cluster->endpoint) + RT_CLUSTER_CALL_PAUSE;
    rt_status status = RT_OK;
    rt_talk_close(&member->talk);
    while (status == RT_OK && rt_endpoint_now(cluster->endpoint) < then)
        status = rt_cluster_pump(cluster, then, err);
    return status == RT_OK ? rt_cluster_greet(cluster, member, until, err) : status;
}

static void cluster_tell_waiting(const struct rt_cluster *cluster,
                                 const struct rt_cluster_settings *settings) {
    for (size_t i = 0; i < cluster->count && settings->waits; i++) {
        const struct rt_member *member = &cluster->members[i];
        char sentence[RT_MAX_TEXT + 20];
        if (member->local || member->talk.ready || member->welcome.name[0])
            continue;
        snprintf(sentence, sizeof sentence, "waiting for %s", member->address);
        settings->waits(settings->waits_user, sentence);
    }
}

/* A name that is not unique, or that is the master's, is replaced by the address. */
static void cluster_tell_apart(struct rt_cluster *cluster) {
    for (size_t i = 0; i < cluster->count; i++) {
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
    const double start = rt_endpoint_now(cluster->endpoint);
    const double last = start + cluster->timeout, until = last + moment;
    bool told = false;
    rt_status status = RT_OK;
    char who[200];
    for (size_t i = 0; i < cluster->count && status == RT_OK; i++)
        status = rt_cluster_greet(cluster, &cluster->members[i], last, err);
    for (size_t i = 0; i < cluster->count && status == RT_OK; i++) {
        struct rt_member *member = &cluster->members[i];
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
