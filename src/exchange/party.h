/*
 * Who takes part in an exchange: a place in a group, and a link to everybody one talks to. Everything in this
 * directory sees flat spans of floats, never a layer.
 */
#ifndef RT_EXCHANGE_PARTY_H
#define RT_EXCHANGE_PARTY_H

#include "net/transport.h"
#include "wire/message.h"

struct rt_party {
    struct rt_endpoint *endpoint; /* borrowed */
    uint32_t run;
    uint16_t rank, count;   /* the master of the run is 0 */
    struct rt_link **links; /* [count], by rank; NULL: none, as to oneself. Borrowed. link->user is the
                               owner's: on the links to and from the master an rt_talk, which the owner has
                               opened, with its run set, before there is a crew or a duty. */
    double patience;        /* seconds in which somebody who owes something must make progress; 0: 60. Nodes
                               wait twice as long as the master, who knows best whom all wait for. */
};

/* "the master", "node 3": for messages. */
const char *rt_party_name(uint16_t rank, char text[32]);
/* Its patience, as the master has it. */
double rt_party_patience(const struct rt_party *party);
/* Whose link it is; UINT16_MAX: nobody's, or NULL. */
uint16_t rt_party_rank(const struct rt_party *party, const struct rt_link *link);

#endif
