/* Guests: peers that connect to a node. Their identification and refusal. */
#include "cluster/node_inside.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Seconds for a guest to identify itself, to measure a link, and to read why it was refused. */
static const double hello_seconds = 5, making_seconds = 10, leaving_seconds = 2;

static double guest_master_timeout(const struct rt_node *node) {
    return node->settings->timeout > 0 ? node->settings->timeout : 60;
}

void rt_guest_drop(struct rt_guest *guest) {
    rt_talk_close(&guest->talk);
    rt_echo_deinit(&guest->echo);
    *guest = (struct rt_guest){0};
}

/* The guest that has been in a state for the longest; NULL: none is. All guests of a state get the same time.
 */
static struct rt_guest *guest_find_longest(struct rt_node *node, enum rt_guest_state state) {
    struct rt_guest *found = NULL;
    for (size_t i = 0; i < RT_NODE_GUESTS; i++) {
        struct rt_guest *guest = &node->guests[i];
        if (guest->state == state && (!found || guest->until < found->until))
            found = guest;
    }
    return found;
}

/* It has been told why. */
static void guest_let_go(struct rt_node *node, struct rt_guest *guest) {
    guest->state = RT_GUEST_LEAVING;
    guest->until = rt_endpoint_now(node->endpoint) + leaving_seconds;
}

void rt_guest_dismiss(struct rt_node *node, struct rt_guest *guest, const struct rt_error *why) {
    rt_talk_refuse(&guest->talk, why->status, node->session.index, why->text);
    guest_let_go(node, guest);
}

/* Silent connections cannot keep others out: when there are too many, the one that has been silent for the
 * longest is closed. It may be honest but slow, so it is told to try again. */
static void guest_make_way(struct rt_node *node) {
    char sentence[RT_MAX_TEXT];
    size_t heard = 0;
    for (size_t i = 0; i < RT_NODE_GUESTS; i++)
        heard += node->guests[i].state != RT_GUEST_NONE && node->guests[i].state != RT_GUEST_LEAVING;
    if (heard <= RT_NODE_LINKS)
        return;
    struct rt_guest *silent = guest_find_longest(node, RT_GUEST_NEW);
    snprintf(sentence, sizeof sentence, "%s is busy: %d others are connected, the maximum", node->name,
             RT_NODE_LINKS);
    rt_node_tell(node, RT_ABOUT_CALLERS,
                 "%s was turned away: it has not identified itself, and %d others wait",
                 silent->talk.link->peer, RT_NODE_LINKS);
    rt_talk_put_off(&silent->talk, node->session.index, sentence);
    guest_let_go(node, silent);
}

void rt_guest_accept(struct rt_node *node, struct rt_link *link) {
    struct rt_error err;
    struct rt_guest *guest = guest_find_longest(node, RT_GUEST_NONE);
    if (!guest) { /* there are more entries than active guests, so at least one is leaving */
        guest = guest_find_longest(node, RT_GUEST_LEAVING);
        rt_guest_drop(guest);
    }
    if (rt_talk_open(link, &guest->talk, &err) != RT_OK) {
        rt_node_tell(node, RT_ABOUT_CALLERS, "%s was turned away: %s", link->peer, err.text);
        rt_link_close(link);
        return;
    }
    guest->state = RT_GUEST_NEW;
    guest->until = rt_endpoint_now(node->endpoint) + hello_seconds;
    guest_make_way(node);
}

void rt_guest_refuse(struct rt_node *node, struct rt_guest *guest, rt_status status, const char *format,
                     ...) {
    struct rt_error why = {.status = status};
    va_list args;
    va_start(args, format);
    vsnprintf(why.text, sizeof why.text, format, args);
    va_end(args);
    rt_node_tell(node, RT_ABOUT_CALLERS, "%s was refused: %s", guest->talk.link->peer, why.text);
    rt_guest_dismiss(node, guest, &why);
}

void rt_guest_welcome(struct rt_node *node, struct rt_guest *guest) {
    const struct rt_node_settings *settings = node->settings;
    struct rt_welcome welcome = {.view = node->worked,
                                 .cores = settings->cores,
                                 .threads = settings->threads,
                                 .memory = settings->memory};
    memcpy(welcome.answer, settings->answer, sizeof welcome.answer);
    snprintf(welcome.name, sizeof welcome.name, "%s", node->name);
    snprintf(welcome.version, sizeof welcome.version, "%s", RT_VERSION);
    snprintf(welcome.kernels, sizeof welcome.kernels, "%s", settings->kernels ? settings->kernels : "");
    size_t bytes = rt_welcome_encode(&welcome, rt_talk_body(&guest->talk), RT_MAX_CONTROL);
    rt_talk_send(&guest->talk,
                 &(struct rt_message){.type = RT_MESSAGE_WELCOME, .source = node->session.index}, bytes);
}

/* ---- hello ---- */

static void guest_refuse_master(struct rt_node *node, struct rt_guest *guest, const struct rt_hello *hello) {
    const struct rt_session *session = &node->session;
    if (session->run != guest->talk.message.run)
        rt_guest_refuse(node, guest, RT_FAILED, "%s is busy with a run of %s", node->name, node->master_peer);
    else if (hello->view == session->view && node->master)
        rt_guest_refuse(node, guest, RT_BAD_INPUT, "%s already takes part in this run: it was named twice",
                        node->name);
    else
        rt_guest_refuse(node, guest, RT_FAILED,
                        "%s has been in view %u of this run, and is called for view %u", node->name,
                        session->view, hello->view);
}

/* It is answered when the role has returned. The role looks at the session, or at its links, which the master
 * has closed. Of several the one for the newest view stays: the master has let go of the others. */
static void guest_keep_recalling(struct rt_node *node, struct rt_guest *guest, const struct rt_hello *hello) {
    struct rt_guest *before = guest_find_longest(node, RT_GUEST_RECALLING);
    if (before && hello->view < before->view) {
        rt_guest_refuse(node, guest, RT_FAILED, "%s was called for view %u of this run, and view %u is older",
                        node->name, before->view, hello->view);
        return;
    }
    if (before)
        rt_guest_drop(before);
    guest->state = RT_GUEST_RECALLING;
    guest->view = hello->view;
    guest->until = rt_endpoint_now(node->endpoint) + guest_master_timeout(node);
    rt_link_count(guest->talk.link, &node->work->links);
    atomic_store(&node->session.recalled, true);
    rt_node_tell(node, RT_ABOUT_RUNS, "the run of %s: view %u is called for while this node works in view %u",
                 node->master_peer, hello->view, node->session.view);
}

static void guest_greet_master(struct rt_node *node, struct rt_guest *guest, const struct rt_hello *hello) {
    const uint32_t run = guest->talk.message.run;
    const bool again = node->serving && node->session.run == run && hello->view > node->session.view;
    struct rt_error why;
    /* A session that only waits is worth less than a run that is there: often it is the same one, resumed. */
    if (node->serving && node->waits && node->session.run != run) {
        rt_fail(&why, RT_FAILED, "%s has called for another run", guest->talk.link->peer);
        rt_session_end(node, &why);
    }
    if (node->serving && !again) {
        guest_refuse_master(node, guest, hello);
        return;
    }
    if (again && rt_node_is_working(node)) {
        guest_keep_recalling(node, guest, hello);
        return;
    }
    if (run == 0) {
        rt_guest_refuse(node, guest, RT_BAD_INPUT, "a run needs a number other than 0");
        return;
    }
    guest->state = RT_GUEST_MASTER;
    guest->talk.run = run;
    guest->until = rt_endpoint_now(node->endpoint) + guest_master_timeout(node);
    if (again)
        rt_session_resume(node, guest, hello->view);
    else
        rt_session_begin(node, guest, run, hello->view);
    rt_guest_welcome(node, guest);
    rt_talk_next(&guest->talk);
}

static void guest_greet_other(struct rt_node *node, struct rt_guest *guest, const struct rt_hello *hello) {
    const struct rt_session *session = &node->session;
    if (!node->serving || !node->master || !node->place.links || session->run != guest->talk.message.run) {
        rt_guest_refuse(node, guest, RT_FAILED, "%s does not expect a link of that run", node->name);
        return;
    }
    if (hello->view != session->view) {
        rt_guest_refuse(node, guest, RT_FAILED, "%s is in view %u of the run, and the link is of view %u",
                        node->name, session->view, hello->view);
        return;
    }
    const bool is_itself = (hello->role == RT_ROLE_MASTER) == (hello->from == 0);
    struct rt_link **slot =
        is_itself ? rt_links_slot(node, hello->from, rt_label_mirror(hello->label)) : NULL;
    if (!slot) {
        rt_guest_refuse(node, guest, RT_FAILED, "%s, node %u of %u, does not expect a link from node %u",
                        node->name, session->index, session->count, hello->from);
        return;
    }
    guest->state = RT_GUEST_JOINING;
    guest->slot = slot;
    guest->talk.run = session->run;
    guest->until = rt_endpoint_now(node->endpoint) + making_seconds;
    rt_guest_welcome(node, guest);
    rt_talk_next(&guest->talk);
}

static void guest_take_hello(struct rt_node *node, struct rt_guest *guest) {
    struct rt_hello hello;
    struct rt_error err;
    rt_status status = RT_OK;
    if (guest->talk.message.type != RT_MESSAGE_HELLO)
        status = rt_fail(&err, RT_BAD_INPUT, "its first message was '%s' instead of 'hello'",
                         rt_message_name(guest->talk.message.type));
    if (status == RT_OK)
        status = rt_hello_decode(guest->talk.body, guest->talk.body_bytes, &hello, &err);
    if (status != RT_OK)
        rt_guest_refuse(node, guest, status, "%s", err.text);
    else if (hello.role == RT_ROLE_MASTER && hello.label == 0)
        guest_greet_master(node, guest, &hello);
    else
        guest_greet_other(node, guest, &hello);
}

void rt_guest_recall(struct rt_node *node) {
    struct rt_guest *guest = guest_find_longest(node, RT_GUEST_RECALLING);
    if (!guest || atomic_load(node->stop))
        return;
    guest->state = RT_GUEST_NEW;
    rt_link_count(guest->talk.link, NULL);
    guest_take_hello(node, guest);
}

/* ---- events ---- */

static void guest_settle(struct rt_guest *guest) {
    *guest->slot = rt_talk_release(&guest->talk);
    rt_guest_drop(guest);
}

/* The link is gone, or sent invalid data: then the peer is told. */
static void guest_lose(struct rt_node *node, struct rt_guest *guest) {
    struct rt_error why = guest->talk.error;
    if (guest == node->master) {
        rt_fail_prefix(&why, why.status, "the master");
        rt_session_leave(node, &why);
    } else if (guest->state == RT_GUEST_LEAVING) {
        if (guest->talk.closed)
            rt_guest_drop(guest);
    } else if (!guest->talk.closed) {
        rt_guest_refuse(node, guest, why.status, "%s", why.text);
    } else {
        if (guest->state == RT_GUEST_JOINING)
            rt_fail(&node->lost, why.status, "%s: %s", guest->talk.link->peer, why.text);
        rt_node_tell(node, RT_ABOUT_CALLERS, "%s left: %s", guest->talk.link->peer, why.text);
        rt_guest_drop(guest);
    }
}

static void guest_take_message(struct rt_node *node, struct rt_guest *guest) {
    struct rt_error err;
    switch (guest->state) {
    case RT_GUEST_NEW:
        guest_take_hello(node, guest);
        break;
    case RT_GUEST_MASTER:
        guest->until = rt_endpoint_now(node->endpoint) + guest_master_timeout(node);
        rt_session_message(node);
        if (node->master == guest) /* the master is not at fault for time that the work takes */
            guest->until = rt_endpoint_now(node->endpoint) + guest_master_timeout(node);
        break;
    case RT_GUEST_JOINING:
        if (rt_echo_message(&guest->echo, &guest->talk, node->session.index, &err) != RT_OK)
            rt_guest_refuse(node, guest, err.status, "%s", err.text);
        break;
    case RT_GUEST_LEAVING:
        rt_talk_next(&guest->talk); /* too late: ignored */
        break;
    case RT_GUEST_RECALLING: /* its HELLO has yet to be answered */
    case RT_GUEST_NONE:
        break;
    }
}

bool rt_guest_event(struct rt_node *node, const struct rt_event *event) {
    struct rt_guest *guest = node->guests;
    while (guest < node->guests + RT_NODE_GUESTS && (!event->link || guest->talk.link != event->link))
        guest++;
    if (guest == node->guests + RT_NODE_GUESTS)
        return false;
    bool had = guest->talk.ready;
    if (!rt_echo_event(&guest->echo, &guest->talk, node->session.index, event))
        rt_talk_event(&guest->talk, event);
    if (guest->talk.ready && !had)
        guest_take_message(node, guest);
    if (guest->talk.link && guest->talk.dead)
        guest_lose(node, guest);
    else if (guest->state == RT_GUEST_JOINING && guest->echo.done && rt_talk_idle(&guest->talk))
        guest_settle(guest);
    return true;
}

/* ---- time ---- */

void rt_guest_expire(struct rt_node *node, double now) {
    struct rt_error why;
    for (size_t i = 0; i < RT_NODE_GUESTS; i++) {
        struct rt_guest *guest = &node->guests[i];
        if (guest->state == RT_GUEST_NONE || guest->until > now)
            continue;
        const char *peer = guest->talk.link->peer;
        if (guest->state == RT_GUEST_MASTER) {
            rt_fail(&why, RT_FAILED, "%s has been silent for %g s", peer, guest_master_timeout(node));
            rt_session_leave(node, &why);
            continue;
        }
        if (guest->state == RT_GUEST_NEW)
            rt_node_tell(node, RT_ABOUT_CALLERS, "%s was dropped: it was silent for %g s", peer,
                         hello_seconds);
        else if (guest->state == RT_GUEST_JOINING)
            rt_fail(&node->lost, RT_FAILED, "%s did not complete its link", peer);
        rt_guest_drop(guest);
    }
}

double rt_guest_deadline(const struct rt_node *node) {
    double first = INFINITY;
    for (size_t i = 0; i < RT_NODE_GUESTS; i++)
        if (node->guests[i].state != RT_GUEST_NONE && node->guests[i].until < first)
            first = node->guests[i].until;
    return first;
}
