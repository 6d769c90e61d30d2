/* A run on a node, from its master's greeting to its end: what the master asks for, and the node's links to
 * its neighbours in the ring. */
#include "cluster/node_inside.h"

#include <stdio.h>
#include <string.h>

static const double dial_seconds = 5; /* less than a master's patience, so that he is told the reason */

void rt_session_begin(struct rt_node *node, struct rt_guest *master, uint32_t run) {
    node->serving = true;
    node->master = master;
    node->assigned = node->placed = node->go = false;
    node->lost.text[0] = 0;
    snprintf(node->master_peer, sizeof node->master_peer, "%s", master->talk.link->peer);
    node->session = (struct rt_session){
        .node = node, .endpoint = node->endpoint, .run = run, .stop = node->stop, .user = node->role->user};
    rt_node_tell(node, "a run of %s begins", node->master_peer);
}

static void drop_links(struct rt_node *node) {
    rt_dial_cancel(&node->dial);
    for (size_t i = 0; i < RT_NODE_LINKS; i++)
        if (node->guests[i].state == RT_GUEST_NEIGHBOUR)
            rt_guest_drop(&node->guests[i]);
    rt_link_close(node->session.next);
    rt_link_close(node->session.previous);
    node->session.next = node->session.previous = NULL;
    node->lost.text[0] = 0;
}

void rt_session_end(struct rt_node *node, const struct rt_error *why) {
    struct rt_guest *master = node->master;
    node->master = NULL;
    drop_links(node);
    node->role->end(&node->session);
    node->serving = false;
    if (why)
        rt_node_tell(node, "the run of %s ended%s: %s", node->master_peer,
                     master ? " before this node had to work" : "", why->text);
    else
        rt_node_tell(node, "the run of %s has ended", node->master_peer);
    if (master && why && !master->talk.closed)
        rt_guest_dismiss(node, master, why);
    else if (master)
        rt_guest_drop(master);
    node->session = (struct rt_session){0};
}

/* ---- what the master asks for ---- */

static void answer(struct rt_node *node, uint16_t type, size_t body_bytes) {
    rt_talk_send(&node->master->talk, &(struct rt_message){.type = type, .source = node->session.index},
                 body_bytes);
}

static rt_status fail_answer(const struct rt_node *node, struct rt_error *err) {
    return rt_fail(err, RT_FAILED, "the answer of %s does not fit into a message", node->name);
}

static rt_status profile(struct rt_node *node, struct rt_error *err) {
    struct rt_talk *talk = &node->master->talk;
    struct rt_profile asked;
    struct rt_profiled found = {0};
    rt_status status = rt_profile_decode(talk->body, talk->body_bytes, &asked, err);
    if (status != RT_OK)
        return status;
    status = node->role->profile(&node->session, &asked, &found, err);
    rt_profile_deinit(&asked);
    if (status != RT_OK)
        return status;
    uint8_t *body = rt_talk_body(talk);
    size_t bytes = body ? rt_profiled_encode(&found, body, RT_MAX_CONTROL) : 0;
    rt_profiled_deinit(&found);
    if (!bytes)
        return fail_answer(node, err);
    answer(node, RT_MESSAGE_PROFILED, bytes);
    return RT_OK;
}

static rt_status assign(struct rt_node *node, struct rt_error *err) {
    struct rt_talk *talk = &node->master->talk;
    struct rt_assign asked;
    struct rt_ready ready = {0};
    rt_status status = rt_assign_decode(talk->body, talk->body_bytes, &asked, err);
    if (status != RT_OK)
        return status;
    status = node->role->assign(&node->session, &asked, &ready.memory, err);
    node->assigned = status == RT_OK;
    rt_assign_deinit(&asked);
    if (status != RT_OK)
        return status;
    uint8_t *body = rt_talk_body(talk);
    size_t bytes = body ? rt_ready_encode(&ready, body, RT_MAX_CONTROL) : 0;
    if (!bytes)
        return fail_answer(node, err);
    answer(node, RT_MESSAGE_READY, bytes);
    return RT_OK;
}

static rt_status answer_joined(struct rt_node *node, double latency, double bandwidth, struct rt_error *err) {
    uint8_t *body = rt_talk_body(&node->master->talk);
    uint16_t next = (uint16_t)((node->session.index + 1) % node->session.count);
    struct rt_joined joined = {
        .peer = next, .label = RT_LABEL_RING, .latency = latency, .bandwidth = bandwidth};
    size_t bytes = body ? rt_joined_encode(&joined, body, RT_MAX_CONTROL) : 0;
    if (!bytes)
        return fail_answer(node, err);
    answer(node, RT_MESSAGE_JOINED, bytes);
    return RT_OK;
}

/* The last node of a ring has no address to dial: its next is the master, who connects to it. */
static rt_status join(struct rt_node *node, struct rt_error *err) {
    const struct rt_talk *talk = &node->master->talk;
    struct rt_join asked;
    rt_status status = rt_join_decode(talk->body, talk->body_bytes, &asked, err);
    if (status != RT_OK)
        return status;
    if (asked.label != RT_LABEL_RING || asked.index == 0 || asked.peer != (asked.index + 1) % asked.count ||
        (asked.peer == 0) != (asked.address[0] == 0))
        return rt_fail(err, RT_BAD_INPUT, "%s was asked for a link that is none of a ring", node->name);
    /* Each look-up of a name may outlive its link: they must not pile up. */
    if (node->dial.stage != RT_DIAL_IDLE)
        return rt_fail(err, RT_FAILED, "%s is still connecting to the node it was asked for before",
                       node->name);
    drop_links(node);
    node->session.index = asked.index;
    node->session.count = asked.count;
    node->placed = true;
    if (asked.peer == 0)
        return answer_joined(node, 0, 0, err);
    struct rt_dial_settings settings = {
        .address = asked.address,
        .hello = {.role = RT_ROLE_NODE, .from = asked.index, .label = asked.label},
        .run = node->session.run,
        .to = asked.peer,
        .count = asked.count,
        .probe_bytes = asked.probe_bytes,
        .until = rt_endpoint_now(node->endpoint) + dial_seconds};
    memcpy(settings.hello.answer, node->settings->answer, sizeof settings.hello.answer);
    snprintf(settings.hello.version, sizeof settings.hello.version, "%s", RT_VERSION);
    return rt_dial_start(node->endpoint, &settings, &node->dial, err);
}

void rt_session_message(struct rt_node *node) {
    struct rt_talk *talk = &node->master->talk;
    struct rt_error err;
    rt_status status = RT_OK;
    /* The work may begin at any moment: nothing about it may change. */
    if (node->go) {
        rt_fail(&err, RT_BAD_INPUT, "%s: it said '%s' after 'go'", talk->link->peer,
                rt_message_name(talk->message.type));
        rt_session_end(node, &err);
        return;
    }
    switch (talk->message.type) {
    case RT_MESSAGE_PROFILE:
        status = profile(node, &err);
        break;
    case RT_MESSAGE_ASSIGN:
        status = assign(node, &err);
        break;
    case RT_MESSAGE_JOIN:
        status = join(node, &err);
        break;
    case RT_MESSAGE_GO:
        node->go = node->assigned && node->placed;
        if (!node->go)
            status = rt_fail(&err, RT_BAD_INPUT, "%s has no work, or no place in a ring, to begin with",
                             node->name);
        break;
    default:
        rt_talk_expect(talk, RT_MESSAGE_GO, talk->link->peer, &err);
        rt_session_end(node, &err);
        return;
    }
    /* A refusal does not end the run: the master may ask for something else. */
    if (status != RT_OK) {
        rt_node_tell(node, "the run of %s: %s", node->master_peer, err.text);
        rt_talk_refuse(talk, status, node->session.index, err.text);
    }
    rt_talk_next(talk);
}

/* ---- links ---- */

static void lose_link(struct rt_node *node, struct rt_link **link, const struct rt_error *why) {
    rt_link_close(*link);
    *link = NULL;
    node->lost = *why;
}

static void check_dial(struct rt_node *node) {
    struct rt_error err;
    rt_dial_check(&node->dial);
    if (node->dial.stage == RT_DIAL_DONE) {
        double latency = node->dial.latency, bandwidth = node->dial.bandwidth;
        node->session.next = rt_dial_take(&node->dial);
        if (answer_joined(node, latency, bandwidth, &err) != RT_OK)
            rt_session_end(node, &err);
    } else if (node->dial.stage == RT_DIAL_FAILED) {
        err = node->dial.error;
        rt_dial_cancel(&node->dial);
        rt_fail_prefix(&err, err.status, "%s cannot reach the next node", node->name);
        node->lost = err;
        rt_node_tell(node, "the run of %s: %s", node->master_peer, err.text);
        rt_talk_refuse(&node->master->talk, err.status, node->session.index, err.text);
    }
}

bool rt_session_event(struct rt_node *node, const struct rt_event *event) {
    if (!node->serving || !node->master)
        return false;
    if (rt_dial_event(&node->dial, event))
        return true;
    if (event->kind != RT_EVENT_CLOSED)
        return false;
    if (event->link == node->session.next)
        lose_link(node, &node->session.next, &event->error);
    else if (event->link == node->session.previous)
        lose_link(node, &node->session.previous, &event->error);
    else
        return false;
    return true;
}

static void work(struct rt_node *node) {
    struct rt_error err;
    struct rt_guest *master = node->master;
    node->master = NULL;
    rt_guest_drop(master);
    rt_status status = node->role->run(&node->session, &err);
    node->session.next = node->session.previous = NULL; /* the role's, and closed by it */
    rt_session_end(node, status == RT_OK ? NULL : &err);
}

void rt_session_check(struct rt_node *node) {
    if (!node->serving || !node->master)
        return;
    check_dial(node);
    if (!node->serving || !node->go)
        return;
    if (node->session.next && node->session.previous) {
        work(node);
    } else if (node->lost.text[0]) {
        struct rt_error why = node->lost;
        rt_session_end(node, &why);
    }
}
