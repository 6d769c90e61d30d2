/* A run on a node, from its master's greeting to its end, and what the master asks for. */
#include "cluster/node_inside.h"

#include "base/memory.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void rt_session_serve(struct rt_node *node, struct rt_guest *master) {
    node->master = master;
    snprintf(node->master_peer, sizeof node->master_peer, "%s", master->talk.link->peer);
    rt_link_count(master->talk.link, &node->work->links);
    atomic_store(&node->work->works, true);
}

/* It is told why, unless it cannot hear it. */
void rt_session_release(struct rt_node *node, struct rt_guest *master, const struct rt_error *why) {
    rt_link_count(master->talk.link, NULL);
    if (why && !master->talk.closed)
        rt_guest_dismiss(&node->guests, master, why);
    else
        rt_guest_drop(master);
}

void rt_session_begin(struct rt_node *node, struct rt_guest *master, uint32_t run,
                      const struct rt_hello *hello) {
    node->serving = true;
    node->waits = false;
    node->worked = node->assigned = 0;
    node->go = false;
    node->lost.text[0] = 0;
    node->session = (struct rt_session){.node = node,
                                        .endpoint = node->endpoint,
                                        .run = run,
                                        .view = hello->view,
                                        .stop = node->stop,
                                        .user = node->role->user};
    memcpy(node->session.token, hello->token, sizeof node->session.token);
    rt_session_serve(node, master);
    rt_memory_peak_reset();
    rt_tell(&node->teller, RT_ABOUT_RUNS, "a run of %s begins", node->master_peer);
}

void rt_session_end(struct rt_node *node, const struct rt_error *why) {
    struct rt_guest *master = node->master;
    const bool keeps = node->session.keep > 0;
    node->master = NULL;
    node->role->end(&node->session);
    if (!master && !keeps)
        rt_links_forget(node);
    rt_links_drop(node);
    node->serving = node->waits = false;
    atomic_store(&node->work->works, false);
    if (why)
        rt_tell(&node->teller, RT_ABOUT_RUNS, "the run of %s ended%s: %s", node->master_peer,
                master && !node->worked ? " before this node had to work" : "", why->text);
    else
        rt_tell(&node->teller, RT_ABOUT_RUNS, "the run of %s has ended", node->master_peer);
    if (master)
        rt_session_release(node, master, why);
    free(node->names);
    node->names = NULL;
    node->session = (struct rt_session){0};
}

/* ---- what the master asks for ---- */

static void session_answer(struct rt_node *node, uint16_t type, size_t body_bytes) {
    rt_talk_send(&node->master->talk, &(struct rt_message){.type = type, .source = node->session.index},
                 body_bytes);
}

static rt_status session_fail_answer(const struct rt_node *node, struct rt_error *err) {
    return rt_fail(err, RT_FAILED, "the answer of %s does not fit into a message", node->name);
}

static rt_status session_profile(struct rt_node *node, struct rt_error *err) {
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
        return session_fail_answer(node, err);
    session_answer(node, RT_MESSAGE_PROFILED, bytes);
    return RT_OK;
}

static void session_take_names(struct rt_node *node, struct rt_assign *asked) {
    node->names = asked->name;
    node->session.names = (struct rt_node_names){(const char(*)[RT_NODE_NAME + 1]) node->names, asked->nodes};
    asked->name = NULL;
}

static rt_status session_assign(struct rt_node *node, struct rt_error *err) {
    struct rt_talk *talk = &node->master->talk;
    struct rt_assign asked;
    struct rt_ready ready = {0};
    rt_status status = rt_assign_decode(talk->body, talk->body_bytes, &asked, err);
    if (status != RT_OK)
        return status;
    char(*const before)[RT_NODE_NAME + 1] = node->names; /* which the role may have used up to now */
    if (!node->place.links || asked.view != node->session.view)
        status = rt_fail(err, RT_BAD_INPUT, "%s has no place in view %u of the run", node->name, asked.view);
    if (status == RT_OK) {
        session_take_names(node, &asked);
        node->session.version = asked.version;
        status = node->role->assign(&node->session, &asked, &ready.memory, err);
        node->assigned = status == RT_OK ? asked.view : 0;
        free(before);
    }
    rt_assign_deinit(&asked);
    if (status != RT_OK)
        return status;
    uint8_t *body = rt_talk_body(talk);
    size_t bytes = body ? rt_ready_encode(&ready, body, RT_MAX_CONTROL) : 0;
    if (!bytes)
        return session_fail_answer(node, err);
    session_answer(node, RT_MESSAGE_READY, bytes);
    return RT_OK;
}

static rt_status session_take_place(struct rt_node *node, struct rt_error *err) {
    const struct rt_talk *talk = &node->master->talk;
    struct rt_settle asked;
    rt_status status = rt_settle_decode(talk->body, talk->body_bytes, &asked, err);
    if (status == RT_OK)
        status = rt_links_settle(node, &asked, err);
    if (status == RT_OK)
        session_answer(node, RT_MESSAGE_SETTLED, 0);
    return status;
}

/* Answered when the link is made. */
static rt_status session_join(struct rt_node *node, struct rt_error *err) {
    const struct rt_talk *talk = &node->master->talk;
    struct rt_join asked;
    rt_status status = rt_join_decode(talk->body, talk->body_bytes, &asked, err);
    return status == RT_OK ? rt_links_join(node, &asked, err) : status;
}

void rt_session_message(struct rt_node *node) {
    struct rt_talk *talk = &node->master->talk;
    struct rt_error err;
    rt_status status = RT_OK;
    /* The work may begin at any moment: nothing about it may change. */
    if (node->go) {
        rt_fail(&err, RT_BAD_INPUT, "%s: sent '%s' after 'go'", talk->link->peer,
                rt_message_name(talk->message.type));
        rt_session_leave(node, &err);
        return;
    }
    switch (talk->message.type) {
    case RT_MESSAGE_PROFILE:
        status = session_profile(node, &err);
        break;
    case RT_MESSAGE_ASSIGN:
        status = session_assign(node, &err);
        break;
    case RT_MESSAGE_SETTLE:
        status = session_take_place(node, &err);
        break;
    case RT_MESSAGE_JOIN:
        status = session_join(node, &err);
        break;
    case RT_MESSAGE_GO:
        node->go = node->assigned == node->session.view && node->place.links;
        if (!node->go)
            status = rt_fail(&err, RT_BAD_INPUT, "%s was told to start without a job or without links",
                             node->name);
        break;
    default:
        rt_talk_expect(talk, RT_MESSAGE_GO, talk->link->peer, &err);
        rt_session_leave(node, &err);
        return;
    }
    /* A refusal does not end the run: the master may ask for something else. */
    if (status != RT_OK) {
        rt_tell(&node->teller, RT_ABOUT_RUNS, "the run of %s: %s", node->master_peer, err.text);
        rt_talk_refuse(talk, status, node->session.index, err.text);
    }
    rt_talk_next(talk);
}

/* ---- what becomes of it ---- */

static rt_status session_answer_joined(struct rt_node *node, const struct rt_joined *joined,
                                       struct rt_error *err) {
    uint8_t *body = rt_talk_body(&node->master->talk);
    size_t bytes = body ? rt_joined_encode(joined, body, RT_MAX_CONTROL) : 0;
    if (!bytes)
        return session_fail_answer(node, err);
    session_answer(node, RT_MESSAGE_JOINED, bytes);
    return RT_OK;
}

static void session_check_dial(struct rt_node *node) {
    struct rt_dial *dial = &node->dial;
    struct rt_error err;
    rt_dial_check(dial);
    if (dial->stage == RT_DIAL_DONE) {
        const struct rt_joined joined = {.peer = dial->settings.to,
                                         .label = dial->settings.hello.label,
                                         .latency = dial->latency,
                                         .bandwidth = dial->bandwidth};
        *node->slot = rt_dial_take(dial);
        if (session_answer_joined(node, &joined, &err) != RT_OK)
            rt_session_leave(node, &err);
    } else if (dial->stage == RT_DIAL_FAILED) {
        err = dial->error;
        rt_dial_cancel(dial);
        rt_fail_prefix(&err, err.status, "cannot reach %s", node->dialled);
        node->lost = err;
        rt_tell(&node->teller, RT_ABOUT_RUNS, "the run of %s: %s", node->master_peer, err.text);
        rt_talk_refuse(&node->master->talk, err.status, node->session.index, err.text);
    }
}

static void session_work(struct rt_node *node) {
    struct rt_session *session = &node->session;
    struct rt_error err;
    struct rt_guest *master = node->master;
    rt_links_count(node);
    node->master = NULL;
    rt_guest_drop(master);
    node->worked = session->view;
    if (node->role->run(session, &err) == RT_OK)
        rt_session_end(node, NULL);
    else
        rt_session_leave(node, &err);
    rt_guest_recall(node);
    rt_offer_again(node);
}

void rt_session_check(struct rt_node *node) {
    if (!node->serving || !node->master)
        return;
    session_check_dial(node);
    if (!node->serving || !node->go)
        return;
    if (rt_links_complete(node)) {
        session_work(node);
    } else if (node->lost.text[0]) {
        struct rt_error why = node->lost;
        rt_session_leave(node, &why);
    }
}
