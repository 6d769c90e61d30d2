/* The guests of a node: masters, and other nodes of the run. What they identify themselves as, and what is
 * refused. */
#include "cluster/node_inside.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static double guest_master_timeout(const struct rt_node *node) {
    return node->settings->timeout > 0 ? node->settings->timeout : 60;
}

void rt_guest_welcome(struct rt_node *node, struct rt_guest *guest) {
    const struct rt_node_settings *settings = node->settings;
    struct rt_welcome welcome = {.view = node->worked,
                                 .cores = settings->cores,
                                 .threads = settings->threads,
                                 .memory = settings->memory};
    if (guest->state == RT_GUEST_MASTER && node->role->holdings)
        welcome.holdings = node->role->holdings(&node->session, welcome.holding);
    memcpy(welcome.answer, settings->answer, sizeof welcome.answer);
    snprintf(welcome.name, sizeof welcome.name, "%s", node->name);
    snprintf(welcome.version, sizeof welcome.version, "%s", RT_VERSION);
    snprintf(welcome.kernels, sizeof welcome.kernels, "%s", settings->kernels ? settings->kernels : "");
    size_t bytes = rt_welcome_encode(&welcome, rt_talk_body(&guest->talk), RT_MAX_CONTROL);
    rt_talk_send(&guest->talk,
                 &(struct rt_message){.type = RT_MESSAGE_WELCOME, .source = node->session.index}, bytes);
}

/* ---- hello ---- */

static bool guest_knows_token(const struct rt_node *node, const struct rt_hello *hello) {
    return rt_token_equal(node->session.token, hello->token);
}

/* The master has been started again before this node has missed it. */
static void guest_put_off_master(struct rt_node *node, struct rt_guest *guest) {
    char sentence[RT_MAX_TEXT];
    snprintf(sentence, sizeof sentence, "%s still works for this run: it has not missed its former master",
             node->name);
    rt_guest_put_off(&node->guests, guest, sentence);
}

static void guest_refuse_master(struct rt_node *node, struct rt_guest *guest, const struct rt_hello *hello) {
    const struct rt_session *session = &node->session;
    const bool known = guest_knows_token(node, hello);
    if (session->run != guest->talk.message.run && known)
        guest_put_off_master(node, guest);
    else if (!known && rt_session_waits_for_master(node) > 0)
        rt_guest_refuse(&node->guests, guest, RT_FAILED,
                        "%s is busy: it waits for the master of a run of %s, for %.0f s more", node->name,
                        node->master_peer, ceil(rt_session_waits_for_master(node)));
    else if (session->run != guest->talk.message.run)
        rt_guest_refuse(&node->guests, guest, RT_FAILED, "%s is busy with a run of %s", node->name,
                        node->master_peer);
    else if (!known)
        rt_guest_refuse(&node->guests, guest, RT_BAD_INPUT,
                        "%s does not know this master: its token is not that of the run", node->name);
    else if (hello->view == session->view && node->master)
        rt_guest_refuse(&node->guests, guest, RT_BAD_INPUT,
                        "%s already takes part in this run: it was named twice", node->name);
    else
        rt_guest_refuse(&node->guests, guest, RT_FAILED,
                        "%s has been in view %u of this run, and is called for view %u", node->name,
                        session->view, hello->view);
}

/* It is answered when the role has returned. The role looks at the session, or at its links, which the master
 * has closed. Of several the one for the newest view stays: the master has let go of the others. */
static void guest_keep_recalling(struct rt_node *node, struct rt_guest *guest, const struct rt_hello *hello) {
    struct rt_guest *before = rt_guests_longest(&node->guests, RT_GUEST_RECALLING);
    if (before && hello->view < before->view) {
        rt_guest_refuse(&node->guests, guest, RT_FAILED,
                        "%s was called for view %u of this run, and view %u is older", node->name,
                        before->view, hello->view);
        return;
    }
    if (before)
        rt_guest_drop(before);
    guest->state = RT_GUEST_RECALLING;
    guest->view = hello->view;
    guest->until = rt_endpoint_now(node->endpoint) + guest_master_timeout(node);
    rt_link_count(guest->talk.link, &node->work->links);
    atomic_store(&node->session.recalled, true);
    rt_tell(&node->teller, RT_ABOUT_RUNS,
            "the run of %s: view %u is called for while this node works in view %u", node->master_peer,
            hello->view, node->session.view);
}

static void guest_greet_master(struct rt_node *node, struct rt_guest *guest, const struct rt_hello *hello) {
    const uint32_t run = guest->talk.message.run;
    const bool known = node->serving && guest_knows_token(node, hello);
    const bool again = known && node->session.run == run && hello->view > node->session.view;
    struct rt_error why;
    /* A session that waits for the next view is worth less than a run that is there. One without a master
     * waits for nobody but the master that resumes the run. */
    if (node->serving && node->waits && node->session.run != run &&
        (known || rt_session_waits_for_master(node) <= 0)) {
        rt_fail(&why, RT_FAILED, known ? "%s has started it again" : "%s has called for another run",
                guest->talk.link->peer);
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
        rt_guest_refuse(&node->guests, guest, RT_BAD_INPUT, "a run needs a number other than 0");
        return;
    }
    guest->state = RT_GUEST_MASTER;
    guest->talk.run = run;
    guest->until = rt_endpoint_now(node->endpoint) + guest_master_timeout(node);
    if (again)
        rt_session_resume(node, guest, hello->view);
    else
        rt_session_begin(node, guest, run, hello);
    rt_guest_welcome(node, guest);
    rt_talk_next(&guest->talk);
}

static void guest_greet_other(struct rt_node *node, struct rt_guest *guest, const struct rt_hello *hello) {
    const struct rt_session *session = &node->session;
    if (!node->serving || !node->master || !node->place.links || session->run != guest->talk.message.run ||
        !guest_knows_token(node, hello)) {
        rt_guest_refuse(&node->guests, guest, RT_FAILED, "%s does not expect a link of that run", node->name);
        return;
    }
    if (hello->view != session->view) {
        rt_guest_refuse(&node->guests, guest, RT_FAILED,
                        "%s is in view %u of the run, and the link is of view %u", node->name, session->view,
                        hello->view);
        return;
    }
    const bool is_itself = (hello->role == RT_ROLE_MASTER) == (hello->from == 0);
    struct rt_link **slot =
        is_itself ? rt_links_slot(node, hello->from, rt_label_mirror(hello->label)) : NULL;
    if (!slot) {
        rt_guest_refuse(&node->guests, guest, RT_FAILED,
                        "%s, node %u of %u, does not expect a link from node %u", node->name, session->index,
                        session->count, hello->from);
        return;
    }
    rt_guest_join(&node->guests, guest, session->run, slot);
    rt_guest_welcome(node, guest);
    rt_talk_next(&guest->talk);
}

static void guest_take_hello(struct rt_node *node, struct rt_guest *guest) {
    struct rt_hello hello;
    struct rt_error err;
    const rt_status status = rt_guest_read_hello(guest, &hello, &err);
    if (status != RT_OK)
        rt_guest_refuse(&node->guests, guest, status, "%s", err.text);
    else if (hello.role == RT_ROLE_MASTER && hello.label == 0)
        guest_greet_master(node, guest, &hello);
    else
        guest_greet_other(node, guest, &hello);
}

void rt_guest_recall(struct rt_node *node) {
    struct rt_guest *guest = rt_guests_longest(&node->guests, RT_GUEST_RECALLING);
    if (!guest || atomic_load(node->stop))
        return;
    guest->state = RT_GUEST_NEW;
    rt_link_count(guest->talk.link, NULL);
    guest_take_hello(node, guest);
}

/* ---- what becomes of guests ---- */

static void guest_hear_hello(void *user, struct rt_guest *guest) {
    guest_take_hello(user, guest);
}

static void guest_hear_master(void *user, struct rt_guest *guest) {
    struct rt_node *node = user;
    if (guest->state == RT_GUEST_OFFERING) {
        if (!rt_offer_message(node, guest))
            guest_take_hello(node, guest);
        return;
    }
    if (guest->state != RT_GUEST_MASTER) /* the HELLO of one that recalls has yet to be answered */
        return;
    guest->until = rt_endpoint_now(node->endpoint) + guest_master_timeout(node);
    rt_session_message(node);
    if (node->master == guest) /* the master is not at fault for time that the work takes */
        guest->until = rt_endpoint_now(node->endpoint) + guest_master_timeout(node);
}

static bool guest_lose_master(void *user, struct rt_guest *guest) {
    struct rt_node *node = user;
    struct rt_error why = guest->talk.error;
    if (guest != node->master)
        return rt_offer_lost(node, guest);
    rt_fail_prefix(&why, why.status, "the master");
    rt_session_leave(node, &why);
    return true;
}

static bool guest_expire_master(void *user, struct rt_guest *guest) {
    struct rt_node *node = user;
    struct rt_error why;
    if (guest->state != RT_GUEST_MASTER)
        return false;
    rt_fail(&why, RT_FAILED, "%s has been silent for %g s", guest->talk.link->peer,
            guest_master_timeout(node));
    rt_session_leave(node, &why);
    return true;
}

static void guest_lose_link(void *user, const struct rt_error *why) {
    ((struct rt_node *)user)->lost = *why;
}

struct rt_host rt_node_host(struct rt_node *node) {
    return (struct rt_host){.name = node->name,
                            .index = &node->session.index,
                            .user = node,
                            .hello = guest_hear_hello,
                            .message = guest_hear_master,
                            .lost = guest_lose_master,
                            .late = guest_expire_master,
                            .link_lost = guest_lose_link};
}
