/*
 * A group of nodes of a run, as one of them sees it: its own rank, and a link to each node that it talks to.
 */
#ifndef RT_CONTROL_COMMUNICATOR_H
#define RT_CONTROL_COMMUNICATOR_H

#include "cluster/node_names.h"
#include "metrics/states.h"
#include "net/transport.h"
#include "wire/message.h"

struct rt_communicator {
    struct rt_endpoint *endpoint; /* borrowed */
    uint32_t run;
    uint16_t rank, count; /* the master of the run is 0 */
    /* Rank r is node first + r * stride of the run, the number its messages name it by; stride 0: node r. */
    uint16_t first, stride;
    struct rt_node_names names; /* of all nodes of the run */
    struct rt_link **links;     /* [count], by rank; NULL: none, as to oneself. Borrowed. link->user is the
                                   owner's: on the links to and from the master an rt_talk, which the owner has
                                   opened, with its run set, before there is a coordinator or an agent. */
    double timeout;             /* seconds without a step after which a rank that owes something is stuck
                                   (cluster/liveness.h); 0: 60 */
    const struct rt_pace *pace; /* of this device; NULL: it is not emulated */
    struct rt_states *clock;    /* of the thread that takes the events; NULL: states are not recorded */
};

/* The node of the run that has this rank here. */
uint16_t rt_communicator_node(const struct rt_communicator *comm, uint16_t rank);
/* The name of that node, for messages. */
const char *rt_communicator_name(const struct rt_communicator *comm, uint16_t rank, char text[RT_NAME_ROOM]);
double rt_communicator_timeout(const struct rt_communicator *comm);
/* Begins an operation; called with the returned state, ends it. For the thread that takes events. Send the
 * result after the end: an emulated device sleeps before it. */
enum rt_state rt_communicator_enter(const struct rt_communicator *comm, enum rt_state state);
/* The rank at the other end of the link; UINT16_MAX: not a link of this communicator, or NULL. */
uint16_t rt_communicator_rank(const struct rt_communicator *comm, const struct rt_link *link);

#endif
