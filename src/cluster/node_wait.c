/* Between two views of a run: a node whose role can go on keeps the session, and waits for its master to form
 * the next view. What a view had (links, a place, work to do) goes with it; what the role holds stays. */
#include "cluster/node_inside.h"

#include <math.h>
#include <stdio.h>

static void session_suspend(struct rt_node *node, const struct rt_error *why) {
    struct rt_guest *master = node->master;
    const double seconds = node->session.keep;
    node->master = NULL;
    node->assigned = 0;
    node->go = false;
    rt_links_drop(node);
    node->waits = true;
    node->waits_until = rt_endpoint_now(node->endpoint) + seconds;
    /* It has no link and a use all the same: its work is not what is to be ended. */
    atomic_store(&node->work->works, false);
    rt_node_tell(node, RT_ABOUT_RUNS, "the run of %s: view %u is over: %s; the next is waited for, for %g s",
                 node->master_peer, node->session.view, why->text, seconds);
    if (master)
        rt_session_release(node, master, why);
}

void rt_session_leave(struct rt_node *node, const struct rt_error *why) {
    if (node->worked && node->session.keep > 0 && !atomic_load(node->stop))
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
    atomic_store(&node->session.recalled, false);
    rt_session_serve(node, master);
    rt_node_tell(node, RT_ABOUT_RUNS, "the run of %s goes on with view %u", node->master_peer, view);
}

double rt_session_deadline(const struct rt_node *node) {
    return node->waits ? node->waits_until : INFINITY;
}

void rt_session_expire(struct rt_node *node, double now) {
    struct rt_error why;
    if (now < rt_session_deadline(node))
        return;
    rt_fail(&why, RT_FAILED, "its master has formed no other view for %g s", node->session.keep);
    rt_session_end(node, &why);
}
