/*
 * Hosts of the network in memory that are killed, stopped, started again, or hang.
 *
 * A host that is stopped (SIGSTOP) runs nothing: no program, no heartbeats. Its system goes on: what is sent
 * to it is taken, up to a window, and what it had sent still leaves. When it goes on it finds what has
 * arrived, and the links closed whose other ends have given it up.
 *
 * A host whose program was killed may start another one at the same address. It is a node of its own; the
 * old program ends by itself, and reaches no other node.
 */
#include "sim/network_inside.h"
#include <stdio.h>

void rt_memnet_pause(struct rt_memnet *net, size_t i, double seconds) {
    struct rt_mem_node *node = i < net->count ? net->hosts[i] : NULL;
    if (!node || node->over || !(seconds > 0 && seconds < INFINITY))
        return;
    if (!node->paused) {
        node->paused = true;
        node->paused_at = net->now;
        node->shortest = rt_mem_shortest_bound(node, net->now);
        for (struct rt_mem_side *side = node->sides; side; side = side->after)
            if (side->peer)
                rt_mem_hush(side->peer, net->now);
    }
    const double until = net->now + seconds;
    rt_mem_agenda_add(&net->agenda, &node->thaw,
                      node->thaw.slot && node->thaw.at > until ? node->thaw.at : until);
}

void rt_mem_thaw(struct rt_mem_node *node) {
    const struct rt_memnet *net = node->net;
    const double away = net->now - node->paused_at;
    const bool stalled = away > rt_silence_stall(node->shortest, &net->silence);
    node->paused = false;
    node->late = fmax(away, rt_silence_fade(node->late, net->now - node->late_at));
    node->late_at = net->now;
    if (away > net->silence.heartbeat)
        rt_endpoint_excuse(&node->endpoint, away);
    if (stalled) {
        node->measures = net->now;
        rt_endpoint_stall(&node->endpoint, away);
    }
    for (struct rt_mem_side *side = node->sides; side; side = side->after) {
        rt_mem_wake_up(side, stalled);
        if (!rt_mem_is_deaf(side))
            side->held = 0;
        rt_mem_transmit(side);
        if (!side->peer)
            continue;
        rt_mem_hear(side->peer);
        rt_mem_transmit(side->peer);
    }
    if (node->listening)
        rt_mem_answer_calls(node);
}

void rt_memnet_hang(struct rt_memnet *net, size_t i, double seconds) {
    if (i < net->count)
        rt_memnet_freeze(&net->hosts[i]->endpoint, net->now, net->now + seconds);
}

void rt_memnet_kill(struct rt_memnet *net, size_t i) {
    if (i >= net->count || net->hosts[i]->over || net->hosts[i]->state == RT_MEM_UNBORN)
        return;
    struct rt_mem_node *node = net->hosts[i];
    for (struct rt_mem_side *side = node->sides; side; side = side->after)
        if (side->state != RT_MEM_DEAD)
            rt_mem_tell(side, "is gone");
    char why[100];
    snprintf(why, sizeof why, "mem:%zu was killed", i);
    rt_mem_over(node, why);
}

void rt_memnet_restarts(struct rt_memnet *net, rt_memnet_program program, void *user) {
    net->again = program;
    net->again_user = user;
}

rt_status rt_memnet_restart(struct rt_memnet *net, size_t i, double after, struct rt_error *err) {
    struct rt_mem_node *made, *before = i < net->count ? net->hosts[i] : NULL;
    if (!before)
        return rt_fail(err, RT_BAD_INPUT, "mem:%zu: no endpoint of this network", i);
    if (before->state == RT_MEM_UNBORN || net->failed) /* it is under way, or all is over */
        return RT_OK;
    RT_TRY(rt_mem_make_node(net, i, &made, err));
    rt_memnet_kill(net, i);
    made->state = RT_MEM_UNBORN;
    made->again = true;
    made->measures = net->now + after;
    net->hosts[i] = made;
    rt_mem_hand_calls(before, made);
    rt_mem_agenda_add(&net->agenda, &made->start, net->now + fmax(after, 0));
    return RT_OK;
}

void rt_mem_start(struct rt_mem_node *node) {
    if (rt_mem_start_thread(node))
        node->state = RT_MEM_READY;
    else
        rt_mem_fail(node->net, RT_NO_MEMORY, "no thread for endpoint mem:%zu", node->index);
}
