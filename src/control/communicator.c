/* Names and ranks of a communicator; see communicator.h. */
#include "control/communicator.h"

uint16_t rt_communicator_node(const struct rt_communicator *comm, uint16_t rank) {
    return comm->stride ? (uint16_t)(comm->first + rank * comm->stride) : rank;
}

const char *rt_communicator_name(const struct rt_communicator *comm, uint16_t rank, char text[RT_NAME_ROOM]) {
    return rt_node_name(&comm->names, rt_communicator_node(comm, rank), text);
}

double rt_communicator_timeout(const struct rt_communicator *comm) {
    return comm->timeout > 0 ? comm->timeout : 60;
}

enum rt_state rt_communicator_enter(const struct rt_communicator *comm, enum rt_state state) {
    const enum rt_state before = rt_states_swap(comm->clock, state);
    if (comm->clock && comm->count > 1) /* what was computed goes to others, or is what they wait for */
        rt_states_catch_up(comm->clock);
    return before;
}

uint16_t rt_communicator_rank(const struct rt_communicator *comm, const struct rt_link *link) {
    for (uint16_t rank = 0; link && rank < comm->count; rank++)
        if (comm->links[rank] == link)
            return rank;
    return UINT16_MAX;
}
