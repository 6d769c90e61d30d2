/* Which node is stuck; see liveness.h. */
#include "cluster/liveness.h"

double rt_wait_seconds(struct rt_wait *wait, uint16_t node, double heard, double now) {
    if (node != wait->node)
        *wait = (struct rt_wait){.node = node, .since = now};
    if (node == UINT16_MAX)
        return 0;
    return now - (heard > wait->since ? heard : wait->since);
}

bool rt_liveness_is_stuck(uint16_t node, size_t nodes, double waited, double timeout,
                          const struct rt_heartbeat *last) {
    /* A heartbeat from before the wait says nothing about it. */
    if (node == 0 || waited < timeout || !last->known || last->ago >= waited)
        return false;
    return last->age >= timeout || last->note > nodes;
}

void rt_liveness_count(double waited, double timeout, const struct rt_heartbeat *last, uint16_t *note) {
    const bool long_ago = waited >= timeout / 2 && last->known;
    const uint16_t here = long_ago ? (uint16_t)(last->note + (last->note < UINT16_MAX - 1)) : 0;
    *note = here < *note ? here : *note;
}
