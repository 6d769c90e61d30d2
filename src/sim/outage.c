/*
 * Outages of the network in memory: what no longer gets through, when that is noticed, and what happens when
 * the way is open again. It follows TCP and net/silence.h.
 *
 * Where nothing passes from A to B, B's side of each link is deaf: what A sends is taken by A's system, up to
 * a window, and held up. B's acknowledgements still reach A, but A's do not reach B: so B's system soon stops
 * sending anything new, and A's side is deaf, too, from the first repetition on. Both notice by the other's
 * silence. Once packets pass again in both directions, the next repetition gets through, and with it all that
 * was held up; the longer the outage was, the rarer they are.
 *
 * Heartbeats are no events here, or a net in which all wait would never be a deadlock. When they stop it is
 * worked out when the last one came, how long the round trips were, and so when the silence will be too long.
 */
#include "base/rng.h"
#include "sim/network_inside.h"

/* Seconds after which a system repeats what was not acknowledged; then twice as long, and so on. */
static const double first_repeat = 0.2;

static double outage_next_repeat(double outage, double now) {
    double after = first_repeat;
    while (outage + after < now)
        after = 2 * after + first_repeat;
    return outage + after;
}

static double outage_latency_to(const struct rt_mem_side *side, double at) {
    double bandwidth, random_delay;
    return rt_mem_latency(rt_mem_net_of(side), side->to, side->node->index, at, &bandwidth, &random_delay);
}

/* ---- silence ---- */

/* Of the heartbeat of that number since the link was opened. */
static double outage_round_trip(const struct rt_mem_side *side, double at, uint64_t number) {
    const struct rt_memnet *net = rt_mem_net_of(side);
    double bandwidth, there, back;
    double trip = rt_mem_latency(net, side->node->index, side->to, at, &bandwidth, &there);
    trip += rt_mem_latency(net, side->to, side->node->index, at, &bandwidth, &back);
    if (there > 0 || back > 0) {
        uint32_t words[4];
        rt_rng_block(net->settings.seed, RT_PURPOSE_DELAY, 1, number,
                     (uint32_t)(side->node->index * net->count + side->to), words);
        trip += there * (words[0] * 0x1p-32) + back * (words[1] * 0x1p-32);
    }
    return trip;
}

static double outage_bound_at(const struct rt_mem_side *side, double at) {
    enum { REMEMBERED = 64 }; /* of older round trips next to nothing is left */
    const struct rt_memnet *net = rt_mem_net_of(side);
    const double beat = net->silence.heartbeat, since = fmax(side->opened, side->node->measures);
    const uint64_t beats = at > since ? (uint64_t)((at - since) / beat) : 0;
    struct rt_silence silence = {0};
    for (uint64_t k = beats > REMEMBERED ? beats - REMEMBERED : 0; k < beats; k++)
        rt_silence_sample(&silence, outage_round_trip(side, since + (double)k * beat, k));
    if (side->peer) {
        const struct rt_mem_node *there = side->peer->node;
        silence.late =
            rt_silence_told(rt_silence_fade(there->late, net->now - there->late_at), there->attended);
    }
    return rt_silence_bound(&silence, &net->silence);
}

void rt_mem_hush(struct rt_mem_side *side, double last) {
    const struct rt_memnet *net = rt_mem_net_of(side);
    const double beat = net->silence.heartbeat;
    const double heard = fmax(floor(last / beat) * beat + outage_latency_to(side, last), side->opened);
    if (side->state != RT_MEM_LIVE || (side->quiet && side->heard <= heard))
        return;
    side->quiet = true;
    side->heard = heard;
    side->last = side->peer ? rt_mem_heartbeat_of(side->peer->node) : (struct rt_heartbeat){0};
    side->bound = outage_bound_at(side, last);
    rt_mem_plan(side, &side->silence, fmax(heard + side->bound, net->now));
}

void rt_mem_hear(struct rt_mem_side *side) {
    const double now = rt_mem_net_of(side)->now;
    if (!side->quiet || rt_mem_is_deaf(side) || (side->peer && side->peer->node->paused) ||
        (side->silence.slot && side->silence.at <= now + outage_latency_to(side, now)))
        return;
    side->quiet = false;
    rt_mem_unplan(side, &side->silence);
}

void rt_mem_silent(struct rt_mem_side *side) {
    struct rt_error why;
    if (side->node->paused) /* which looks when it goes on */
        return;
    (void)rt_silence_fail(side->bound, &why);
    rt_mem_die(side, "%s", why.text);
    rt_mem_tell(side, "closed the link");
}

void rt_mem_wake_up(struct rt_mem_side *side, bool stalled) {
    const struct rt_memnet *net = rt_mem_net_of(side);
    if (!side->quiet || side->state != RT_MEM_LIVE)
        return;
    if (stalled) {
        side->heard = fmax(side->heard, net->now - net->silence.most / 2);
        side->bound = net->silence.most;
    }
    rt_mem_plan(side, &side->silence, fmax(side->heard + side->bound, net->now));
}

double rt_mem_shortest_bound(const struct rt_mem_node *node, double at) {
    double shortest = node->net->silence.most;
    for (const struct rt_mem_side *side = node->sides; side; side = side->after)
        if (side->state == RT_MEM_LIVE)
            shortest = fmin(shortest, outage_bound_at(side, at));
    return shortest;
}

/* ---- one side of a link ---- */

/* What is on its way to it is held up. */
static void outage_hold_up(struct rt_mem_side *side) {
    for (unsigned c = 0; c < RT_CHANNELS; c++) {
        rt_mem_unplan(side, &side->channels[c].arrival);
        for (const struct rt_receive *receive = side->channels[c].coming.first; receive;
             receive = receive->next)
            side->held += receive->head_bytes + receive->body_bytes;
    }
    side->answered = side->answered || side->opening.slot;
    side->untold = side->untold || side->closing.slot;
    rt_mem_unplan(side, &side->opening);
    rt_mem_unplan(side, &side->closing);
}

/* Nothing more comes from its peer then. */
static void outage_block(struct rt_mem_side *side, double from) {
    const double now = rt_mem_net_of(side)->now;
    side->outage = fmin(side->outage, now);
    rt_mem_unplan(side, &side->resume);
    if (from >= side->deaf_from)
        return;
    side->deaf_from = from;
    if (from > now) {
        rt_mem_hush(side, from);
        return;
    }
    outage_hold_up(side);
    rt_mem_hush(side, from - outage_latency_to(side, from));
}

void rt_mem_resume(struct rt_mem_side *side) {
    const double now = rt_mem_net_of(side)->now;
    double at = now + outage_latency_to(side, now);
    side->deaf_from = side->outage = INFINITY;
    rt_mem_release(side);
    if (side->answered)
        rt_mem_plan(side, &side->opening, at);
    for (unsigned c = 0; c < RT_CHANNELS; c++)
        at = fmax(at, side->channels[c].last);
    if (side->untold)
        rt_mem_plan(side, &side->closing, at);
    side->answered = side->untold = false;
    rt_mem_hear(side);
}

static void outage_unblock(struct rt_mem_side *side) {
    const double now = rt_mem_net_of(side)->now;
    if (side->outage == INFINITY)
        return;
    if (now < side->deaf_from) { /* nothing was missed */
        side->deaf_from = side->outage = INFINITY;
        rt_mem_hear(side);
    } else {
        rt_mem_plan(side, &side->resume, outage_next_repeat(side->outage, now));
    }
}

/* ---- hosts ---- */

static void outage_cut_links(struct rt_memnet *net, size_t at, size_t other, double from) {
    for (struct rt_mem_side *side = net->hosts[at]->sides; side; side = side->after) {
        if (side->to != other || !rt_mem_is_alive(side))
            continue;
        if (side->peer && rt_mem_is_unknown(side->peer))
            rt_mem_unplan(side->peer, &side->peer->opening); /* the request is lost */
        else
            outage_block(side, from);
    }
}

void rt_memnet_cut_one_way(struct rt_memnet *net, size_t from, size_t to) {
    if (from >= net->count || to >= net->count || from == to || net->cuts[from * net->count + to]++ > 0)
        return;
    outage_cut_links(net, to, from, net->now);
    outage_cut_links(net, from, to, net->now + first_repeat);
}

void rt_memnet_heal_one_way(struct rt_memnet *net, size_t from, size_t to) {
    if (from >= net->count || to >= net->count || !rt_mem_is_cut(net, from, to) ||
        --net->cuts[from * net->count + to] > 0 || rt_mem_is_cut(net, to, from))
        return;
    const size_t ends[2] = {from, to};
    for (int end = 0; end < 2; end++)
        for (struct rt_mem_side *side = net->hosts[ends[end]]->sides; side; side = side->after)
            if (side->to == ends[!end] && rt_mem_is_alive(side)) {
                outage_unblock(side);
                rt_mem_ask_again(side);
            }
}

void rt_memnet_cut(struct rt_memnet *net, size_t a, size_t b) {
    rt_memnet_cut_one_way(net, a, b);
    rt_memnet_cut_one_way(net, b, a);
}

void rt_memnet_heal(struct rt_memnet *net, size_t a, size_t b) {
    rt_memnet_heal_one_way(net, a, b);
    rt_memnet_heal_one_way(net, b, a);
}

void rt_memnet_unplug(struct rt_memnet *net, size_t i) {
    for (size_t other = 0; other < net->count; other++)
        rt_memnet_cut(net, i, other);
}

void rt_memnet_plug(struct rt_memnet *net, size_t i) {
    for (size_t other = 0; other < net->count; other++)
        rt_memnet_heal(net, i, other);
}
