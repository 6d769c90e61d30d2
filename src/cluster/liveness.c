/* Which node is stuck; see liveness.h. */
#include "cluster/liveness.h"

#include <math.h>

/* Timeouts after which a node that takes steps, and delivers nothing, is named; and, for each node of the
 * run, after how many more the master ends the run: a message may have to pass all of them. */
static const double most_timeouts = 10, per_node = 4;
/* Seconds between two looks that can be no more than waiting: beyond, the one who waits was away itself. */
static const double most_between_looks = 1;

double rt_wait_look(struct rt_wait *wait, uint16_t node, double heard, bool idle, double now) {
    if (node != wait->node)
        *wait = (struct rt_wait){.node = node, .since = now, .looked = now, .note = RT_NOTE_NONE};
    if (node == UINT16_MAX)
        return 0;
    if (heard >= wait->looked) {
        wait->idle = wait->excused = 0;
        wait->note = RT_NOTE_NONE;
    } else if (idle)
        wait->idle += fmin(now - wait->looked, most_between_looks);
    wait->looked = now;
    return now - fmax(heard, wait->since);
}

/* Idle seconds in which the node had no good reason to deliver nothing. It has one while it waits for the
 * master. When the node at the end of its chain stops working and waits, that node's neighbour begins to
 * count, and so must we. When a node has delivered, the others need time to continue. */
static double liveness_fruitless(struct rt_wait *wait, uint16_t note) {
    if (note >= RT_NOTE_MASTER || (wait->note != RT_NOTE_NONE && note != wait->note))
        wait->excused = wait->idle;
    wait->note = note;
    return wait->idle - wait->excused;
}

enum rt_liveness rt_liveness_judge(const struct rt_liveness_terms *terms, struct rt_wait *wait, double waited,
                                   const struct rt_heartbeat *last, struct rt_error *err) {
    const double timeout = terms->timeout;
    /* A heartbeat from before the wait says nothing about it. */
    if (wait->node == 0 || waited < timeout || !last->known || last->ago >= waited)
        return RT_LIVENESS_GOOD;
    if (last->age >= timeout) {
        rt_fail(err, RT_FAILED, "made no progress for %g seconds (its program hangs)", timeout);
        return RT_LIVENESS_STUCK;
    }
    if (liveness_fruitless(wait, last->note) >= (most_timeouts + last->note) * timeout) {
        rt_fail(err, RT_FAILED, "runs, but has delivered nothing for %.0f seconds", wait->idle);
        return RT_LIVENESS_STUCK;
    }
    if (terms->self == 0 && wait->idle >= (most_timeouts + per_node * terms->nodes) * timeout) {
        rt_fail(err, RT_FAILED,
                "all nodes have waited for one another for %.0f seconds: an error in RingTMP, or a node that "
                "reports a wrong state",
                wait->idle);
        return RT_LIVENESS_DEADLOCK;
    }
    return RT_LIVENESS_GOOD;
}

/* The note of a node that waits for this one. */
static uint16_t liveness_note_for(const struct rt_liveness_terms *terms, uint16_t node, uint16_t note) {
    if (node == 0 || (note >= RT_NOTE_MASTER && terms->self != 0))
        return RT_NOTE_MASTER;
    return note < RT_NOTE_MASTER - 1 ? (uint16_t)(note + 1) : RT_NOTE_MASTER - 1;
}

/* The best reason to deliver nothing: it works; it waits for the master; the chain is the shorter one. */
static bool liveness_is_better(uint16_t a, uint16_t b) {
    if (a == 0 || b == 0)
        return b != 0;
    return b == RT_NOTE_NONE || (b != RT_NOTE_MASTER && (a == RT_NOTE_MASTER || a < b));
}

void rt_liveness_count(const struct rt_liveness_terms *terms, uint16_t node, double waited,
                       const struct rt_heartbeat *last, uint16_t *note) {
    const bool long_ago = waited >= terms->timeout / 2 && last->known;
    const uint16_t here = long_ago ? liveness_note_for(terms, node, last->note) : 0;
    if (liveness_is_better(here, *note))
        *note = here;
}
