/* The life of a cluster on its master's side; see cluster.h. */
#include "cluster/cluster_inside.h"

#include "base/clock.h"
#include "base/cores.h"
#include "base/memory.h"
#include "base/sha256.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

/* Seconds between two checks of stop and of the nodes on this machine, which send no event. */
static const double slice = 0.1;
/* Seconds in which a node whose link is gone is seen to have ended. */
static const double last_breath = 0.2;

size_t rt_cluster_count(const struct rt_cluster *cluster) {
    return cluster->count;
}

struct rt_member *rt_cluster_member(struct rt_cluster *cluster, size_t i) {
    return &cluster->members[i];
}

uint32_t rt_cluster_run(const struct rt_cluster *cluster) {
    return cluster->run;
}

uint32_t rt_cluster_view(const struct rt_cluster *cluster) {
    return cluster->view;
}

/* ---- waiting ---- */

static void cluster_take(struct rt_cluster *cluster, const struct rt_event *event) {
    if (cluster->door && rt_door_event(cluster->door, event))
        return;
    if (event->kind == RT_EVENT_ACCEPTED) {
        rt_link_close(event->link); /* the master accepts no connections */
        return;
    }
    if (rt_dial_event(&cluster->dial, event))
        return;
    for (size_t i = 0; i < cluster->count; i++)
        if (rt_talk_event(&cluster->members[i].talk, event))
            return;
    for (size_t i = 0; i < cluster->own_count && event->kind == RT_EVENT_CLOSED; i++)
        if (event->link == cluster->own[i])
            rt_fail(&cluster->lost, RT_FAILED, "%s: %s", event->link->peer, event->error.text);
}

rt_status rt_cluster_pump(struct rt_cluster *cluster, double until, struct rt_error *err) {
    struct rt_event event;
    if (cluster->stop && atomic_load(cluster->stop))
        return rt_fail(err, RT_INTERRUPTED, "interrupted while the cluster was formed");
    const bool looks = cluster->stop || cluster->local_count || cluster->door;
    const double soon = rt_endpoint_now(cluster->endpoint) + slice;
    if (rt_endpoint_wait(cluster->endpoint, looks && soon < until ? soon : until, &event))
        cluster_take(cluster, &event);
    if (cluster->door)
        rt_door_check(cluster->door);
    /* Not after each of many events: there may be a thousand of them. */
    const double now = rt_endpoint_now(cluster->endpoint);
    if (now < cluster->looked + slice)
        return RT_OK;
    cluster->looked = now;
    return rt_local_check(cluster->locals, cluster->local_count, cluster->stop, err);
}

rt_status rt_cluster_explain(struct rt_cluster *cluster, rt_status status, struct rt_error *err) {
    struct rt_error why = {0};
    const double until = rt_clock_wall() + last_breath;
    while (status == RT_FAILED && cluster->local_count && why.status == RT_OK && rt_clock_wall() < until)
        if (rt_local_check(cluster->locals, cluster->local_count, cluster->stop, &why) == RT_OK)
            nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    return why.status == RT_OK ? status : rt_fail(err, why.status, "%s", why.text);
}

bool rt_cluster_ended(struct rt_cluster *cluster, size_t member, char how[RT_HOW_ROOM]) {
    const size_t first = cluster->first_local;
    return member >= first && member < first + cluster->local_count &&
           rt_local_ended(&cluster->locals[member - first], last_breath, how);
}

/* ---- asking ---- */

/* A member as people know it: its name, once it has said it, and its address. */
const char *rt_cluster_call(const struct rt_member *member, char who[200]) {
    if (member->local || strcmp(member->name, member->address) == 0)
        snprintf(who, 200, "%.80s", member->name);
    else if (member->name[0])
        snprintf(who, 200, "%.80s (%.80s)", member->name, member->address);
    else
        snprintf(who, 200, "%.80s", member->address);
    return who;
}

rt_status rt_cluster_fail_lost(const struct rt_member *member, struct rt_error *err) {
    char who[200];
    return rt_fail(err, RT_FAILED, "%s: %s", rt_cluster_call(member, who), member->talk.error.text);
}

static rt_status request(struct rt_cluster *cluster, size_t member, uint16_t type, const uint8_t *body,
                         size_t body_bytes, struct rt_error *err) {
    struct rt_talk *talk = &cluster->members[member].talk;
    char who[200];
    rt_cluster_call(&cluster->members[member], who);
    if (body_bytes > RT_MAX_CONTROL)
        return rt_fail(err, RT_BAD_INPUT, "a message (%s) of %zu bytes is too large: the maximum is %d",
                       rt_message_name(type), body_bytes, RT_MAX_CONTROL);
    cluster->fault = member; /* unless it can be asked */
    if (!talk->link && cluster->members[member].gone)
        return rt_fail(err, RT_FAILED, "%s", cluster->members[member].lost.text);
    if (!talk->link)
        return rt_fail(err, RT_FAILED, "%s: its link is closed", who);
    /* An unsolicited message: the reason why the node leaves. */
    if (talk->ready && talk->message.type == RT_MESSAGE_ERROR)
        return rt_talk_expect(talk, type, who, err);
    if (talk->dead)
        return rt_cluster_fail_lost(&cluster->members[member], err);
    uint8_t *room = rt_talk_body(talk);
    if (!room)
        return rt_fail(err, RT_FAILED, "%s does not read what is sent to it", who);
    rt_talk_next(talk);
    if (body_bytes)
        memcpy(room, body, body_bytes);
    rt_talk_send(talk, &(struct rt_message){.type = type}, body_bytes);
    cluster->fault = SIZE_MAX;
    return RT_OK;
}

rt_status rt_cluster_request(struct rt_cluster *cluster, size_t member, uint16_t type, const uint8_t *body,
                             size_t body_bytes, struct rt_error *err) {
    return rt_cluster_explain(cluster, request(cluster, member, type, body, body_bytes, err), err);
}

/* A refusal is heard once, and in err then. */
static rt_status cluster_hear(struct rt_member *member, uint16_t answer, struct rt_error *err) {
    char who[200];
    rt_status status = rt_talk_expect(&member->talk, answer, rt_cluster_call(member, who), err);
    if (status != RT_OK)
        rt_talk_next(&member->talk);
    return status;
}

size_t rt_cluster_fault(const struct rt_cluster *cluster) {
    return cluster->fault;
}

size_t rt_cluster_fault_peer(const struct rt_cluster *cluster) {
    return cluster->fault_peer;
}

rt_status rt_cluster_await(struct rt_cluster *cluster, size_t member, uint16_t answer, double until,
                           double timeout, struct rt_error *err) {
    struct rt_member *asked = &cluster->members[member];
    char who[200];
    cluster->fault = member; /* unless it answers */
    while (!asked->talk.ready && !asked->talk.dead) {
        if (rt_endpoint_now(cluster->endpoint) >= until)
            return rt_fail(err, RT_FAILED, "%s has not answered for %g s", rt_cluster_call(asked, who),
                           timeout);
        rt_status status = rt_cluster_pump(cluster, until, err);
        if (status != RT_OK)
            return status;
    }
    if (!asked->talk.ready)
        return rt_cluster_fail_lost(asked, err);
    RT_TRY(cluster_hear(asked, answer, err));
    cluster->fault = SIZE_MAX;
    return RT_OK;
}

rt_status rt_cluster_answer(struct rt_cluster *cluster, size_t member, uint16_t answer,
                            struct rt_error *err) {
    const bool works = answer == RT_MESSAGE_PROFILED || answer == RT_MESSAGE_READY;
    const double timeout = works ? cluster->work_timeout : cluster->timeout;
    rt_status status =
        rt_cluster_await(cluster, member, answer, rt_endpoint_now(cluster->endpoint) + timeout, timeout, err);
    return rt_cluster_explain(cluster, status, err);
}

rt_status rt_cluster_ask(struct rt_cluster *cluster, size_t member, uint16_t type, const uint8_t *body,
                         size_t body_bytes, uint16_t answer, struct rt_error *err) {
    rt_status status = rt_cluster_request(cluster, member, type, body, body_bytes, err);
    if (status == RT_OK)
        status = rt_cluster_answer(cluster, member, answer, err);
    return status;
}

/* ---- opening ---- */

/* Random, so that what a former run left on the network is known for what it is. */
static uint32_t cluster_draw_run(void) {
    uint8_t random[16] = {0}, digest[32];
    double clock[2] = {rt_clock_wall(), rt_clock_process()};
    pid_t pid = getpid();
    (void)!getrandom(random, sizeof random, 0);
    struct rt_sha256 hash;
    rt_sha256_init(&hash);
    rt_sha256_add(&hash, random, sizeof random);
    rt_sha256_add(&hash, clock, sizeof clock);
    rt_sha256_add(&hash, &pid, sizeof pid);
    rt_sha256_finish(&hash, digest);
    uint32_t run = (uint32_t)digest[0] | (uint32_t)digest[1] << 8 | (uint32_t)digest[2] << 16 |
                   (uint32_t)digest[3] << 24;
    return run ? run : 1;
}

rt_status rt_cluster_draw_token(uint8_t token[RT_TOKEN_BYTES], struct rt_error *err) {
    if (getrandom(token, RT_TOKEN_BYTES, 0) != RT_TOKEN_BYTES)
        return rt_fail(err, RT_FAILED, "no random numbers for a run: %s", strerror(errno));
    return RT_OK;
}

static rt_status cluster_set_token(struct rt_cluster *cluster, const uint8_t *token, struct rt_error *err) {
    if (!token)
        return rt_cluster_draw_token(cluster->token, err);
    memcpy(cluster->token, token, sizeof cluster->token);
    return RT_OK;
}

static rt_status cluster_start_locals(struct rt_cluster *cluster, const struct rt_cluster_settings *settings,
                                      struct rt_error *err) {
    const size_t share = rt_cores_usable() / (settings->local_nodes + 1);
    rt_status status = RT_OK;
    for (size_t i = 0; i < settings->local_nodes && status == RT_OK; i++) {
        char name[32];
        snprintf(name, sizeof name, "local %zu", i + 1);
        struct rt_local_settings local = {.program = settings->program,
                                          .name = name,
                                          .threads = settings->local_threads ? settings->local_threads
                                                     : share                 ? share
                                                                             : 1,
                                          .memory = settings->local_memory,
                                          .pace = settings->pace ? &settings->pace[i] : NULL,
                                          .link = settings->emulated_links ? settings->emulated_links[i]
                                                                           : (struct rt_emulated_link){0},
                                          .key_file = settings->key_file,
                                          .certificate = settings->certificate,
                                          .private_key = settings->private_key,
                                          .authority = settings->authority,
                                          .cache = settings->cache};
        status = rt_local_start(&local, &cluster->locals[i], err);
        cluster->local_count += status == RT_OK;
    }
    double until = rt_clock_wall() + cluster->timeout;
    for (size_t i = 0; i < cluster->local_count && status == RT_OK; i++) {
        struct rt_member *member = &cluster->members[cluster->first_local + i];
        status = rt_local_wait(&cluster->locals[i], until, cluster->stop, err);
        snprintf(member->address, sizeof member->address, "%s", cluster->locals[i].address);
        snprintf(member->name, sizeof member->name, "local %zu", i + 1);
        member->local = true;
        member->pace = settings->pace ? settings->pace[i] : (struct rt_pace){0};
    }
    return status;
}

rt_status rt_cluster_open(const struct rt_cluster_settings *settings, struct rt_endpoint *endpoint,
                          const atomic_int *stop, struct rt_cluster **made, struct rt_error *err) {
    struct rt_cluster *cluster;
    size_t limit = RT_MAX_NODES - 1;
    if (settings->address_count > limit || settings->local_nodes > limit - settings->address_count)
        return rt_fail(err, RT_BAD_INPUT, "a cluster has at most %d nodes, the master counted", RT_MAX_NODES);
    const size_t taken = settings->address_count + settings->local_nodes;
    if (settings->listen && settings->wait_nodes + RT_SPARE_SEATS > limit - taken)
        return rt_fail(err, RT_BAD_INPUT, "a cluster has at most %d nodes, the master counted", RT_MAX_NODES);
    const size_t count = taken + (settings->listen ? settings->wait_nodes + RT_SPARE_SEATS : 0);
    rt_status status = rt_alloc(1, sizeof *cluster, "a cluster", &cluster, err);
    if (status != RT_OK)
        return status;
    cluster->endpoint = endpoint;
    cluster->stop = stop;
    cluster->timeout = settings->timeout > 0 ? settings->timeout : 10;
    cluster->work_timeout =
        settings->work_timeout > cluster->timeout ? settings->work_timeout : cluster->timeout;
    cluster->exact = settings->exact;
    cluster->run = cluster_draw_run();
    cluster->view = 1;
    memcpy(cluster->answer, settings->answer, sizeof cluster->answer);
    status = cluster_set_token(cluster, settings->token, err);
    if (status == RT_OK)
        status = rt_alloc(count, sizeof *cluster->members, "the nodes of a cluster", &cluster->members, err);
    if (status == RT_OK)
        status = rt_alloc(count, sizeof *cluster->joined, "the nodes of a cluster", &cluster->joined, err);
    if (status == RT_OK)
        status = rt_alloc(count, sizeof *cluster->returns, "the nodes of a cluster", &cluster->returns, err);
    if (status == RT_OK)
        status = rt_alloc(settings->local_nodes, sizeof *cluster->locals, "the nodes of a cluster",
                          &cluster->locals, err);
    cluster->first_local = settings->address_count;
    for (size_t i = taken; i < count && status == RT_OK; i++) {
        cluster->members[i].joins = true;
        rt_cluster_free_seat(&cluster->members[i]);
    }
    if (status == RT_OK && settings->listen)
        status = rt_door_open(cluster, settings->listen, &cluster->door, err);
    for (size_t i = 0; i < settings->address_count && status == RT_OK; i++)
        status = rt_cluster_address(settings->addresses[i], cluster->members[i].address, err);
    if (status == RT_OK && settings->local_nodes)
        status = cluster_start_locals(cluster, settings, err);
    if (status == RT_OK) {
        cluster->count = count;
        status = rt_cluster_explain(cluster, rt_cluster_greet_all(cluster, settings, err), err);
    }
    if (status == RT_OK)
        *made = cluster;
    else
        rt_cluster_close(cluster);
    return status;
}

/* ---- the work begins ---- */

rt_status rt_cluster_go(struct rt_cluster *cluster, struct rt_error *err) {
    rt_status status = RT_OK;
    char who[200];
    for (size_t i = 0; i < cluster->count && status == RT_OK; i++)
        if (cluster->joined[i])
            status = rt_cluster_request(cluster, i, RT_MESSAGE_GO, NULL, 0, err);
        else
            rt_talk_close(&cluster->members[i].talk);
    /* A node closes the link when it begins to work, so we know that it does. */
    double until = rt_endpoint_now(cluster->endpoint) + cluster->timeout;
    for (size_t i = 0; i < cluster->count && status == RT_OK; i++) {
        struct rt_member *member = &cluster->members[i];
        cluster->fault = i; /* unless it has started */
        while (status == RT_OK && cluster->joined[i] && !member->talk.dead && !member->talk.ready)
            if (rt_endpoint_now(cluster->endpoint) >= until)
                status = rt_fail(err, RT_FAILED, "%s has not started to work within %g s",
                                 rt_cluster_call(member, who), cluster->timeout);
            else
                status = rt_cluster_pump(cluster, until, err);
        if (status == RT_OK && member->talk.ready)
            status = cluster_hear(member, RT_MESSAGE_GO, err);
        if (status == RT_OK)
            cluster->fault = SIZE_MAX;
    }
    if (status == RT_OK && cluster->lost.text[0])
        status = rt_fail(err, RT_FAILED, "a link with a node was lost: %s", cluster->lost.text);
    for (size_t i = 0; i < cluster->count && status == RT_OK; i++) {
        rt_talk_close(&cluster->members[i].talk);
        cluster->returns[i].in_this_view = false;
    }
    return rt_cluster_explain(cluster, status, err);
}

void rt_cluster_go_alone(struct rt_cluster *cluster) {
    for (size_t i = 0; i < cluster->count; i++) {
        cluster->joined[i] = false;
        rt_talk_close(&cluster->members[i].talk);
        cluster->returns[i].in_this_view = false;
    }
}

void rt_cluster_close(struct rt_cluster *cluster) {
    if (!cluster)
        return;
    rt_dial_cancel(&cluster->dial);
    for (size_t i = 0; i < cluster->count; i++)
        rt_talk_close(&cluster->members[i].talk);
    rt_door_close(cluster->door);
    rt_local_end(cluster->locals, cluster->local_count);
    free(cluster->members);
    free(cluster->joined);
    free(cluster->returns);
    free(cluster->own);
    free(cluster->locals);
    free(cluster);
}
