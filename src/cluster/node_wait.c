/* Between two views of a run: a node whose role can go on keeps the session, and waits for its master to form
 * the next view. What a view had (links, a place, work to do) goes with it; what the role holds stays. A node
 * that has lost the master itself waits in the same way, for it or for one that resumes the run. */
#include "cluster/node_inside.h"

#include <math.h>
#include <stdio.h>

static double session_patience(const struct rt_session *session) {
    return fmax(session->keep, session->orphaned ? session->wait_master : 0);
}

static void session_suspend(struct rt_node *node, const struct rt_error *why) {
    struct rt_guest *master = node->master;
    const double seconds = session_patience(&node->session);
    node->master = NULL;
    node->assigned = 0;
    node->go = false;
    rt_links_drop(node);
    node->waits = true;
    node->waits_since = rt_endpoint_now(node->endpoint);
    node->waits_until = node->waits_since + seconds;
    /* It has no link and a use all the same: its work is not what is to be ended. */
    atomic_store(&node->work->works, false);
    rt_tell(&node->teller, RT_ABOUT_RUNS, "the run of %s: view %u is over: %s; %s is waited for, for %g s",
            node->master_peer, node->session.view, why->text,
            node->session.orphaned ? "its master" : "the next", seconds);
    if (master)
        rt_session_release(node, master, why);
}

void rt_session_leave(struct rt_node *node, const struct rt_error *why) {
    if (rt_endpoint_stalled(node->endpoint) >
        0) /* this node did not run: it was given up, by a live master */
        node->session.orphaned = false;
    if (node->worked && session_patience(&node->session) > 0 && !atomic_load(node->stop))
        session_suspend(node, why);
    else
        rt_session_end(node, why);
}

void rt_session_resume(struct rt_node *node, struct rt_guest *master, uint32_t view) {
    struct rt_guest *before = node->master;
    node->master = NULL;
    if (before) /* the master has given up the view that was being formed */
        rt_guest_drop(before);
    rt_links_drop(node);
    node->waits = false;
    node->assigned = 0;
    node->go = false;
    node->session.view = view;
    node->session.orphaned = false;
    atomic_store(&node->session.recalled, false);
    rt_session_serve(node, master);
    rt_tell(&node->teller, RT_ABOUT_RUNS, "the run of %s goes on with view %u", node->master_peer, view);
}

/* Not without the master, and this node is out of it if it was lost itself; but the master may be calling
 * already. */
bool rt_session_may_go_on(const struct rt_session *session, uint16_t lost, bool over) {
    const bool other = lost != RT_NODE_NONE && lost != 0 && lost != session->index;
    return other || over || atomic_load(&session->recalled);
}

double rt_session_deadline(const struct rt_node *node) {
    return node->waits ? node->waits_until : INFINITY;
}

double rt_session_waits_for_master(const struct rt_node *node) {
    if (!node->waits || !node->session.orphaned)
        return 0;
    return fmax(0, node->waits_since + node->session.wait_master - rt_endpoint_now(node->endpoint));
}

void rt_session_expire(struct rt_node *node, double now) {
    struct rt_error why;
    if (now < rt_session_deadline(node))
        return;
    rt_fail(&why, RT_FAILED,
            node->session.orphaned ? "its master has not come back for %g s"
                                   : "its master has formed no other view for %g s",
            session_patience(&node->session));
    rt_session_end(node, &why);
}
