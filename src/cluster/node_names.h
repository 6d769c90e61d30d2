/*
 * What the nodes of a run are called. Nodes know one another by number; in a sentence a node has its name. A
 * failure says by number which node it is about, and its sentence is the reason without that node's name:
 * "closed the connection". The name is put in front where a whole sentence is made: "pi1: closed the
 * connection".
 */
#ifndef RT_CLUSTER_NODE_NAMES_H
#define RT_CLUSTER_NODE_NAMES_H

#include "base/status.h"
#include "wire/message.h"
#include <stddef.h>

enum { RT_NODE_NONE = UINT16_MAX }; /* in place of a number: no node */

struct rt_node_names {
    const char (*name)[RT_NODE_NAME + 1]; /* [count], by number; borrowed. "": not known */
    size_t count;                         /* 0: none is known */
};

/* "pi1"; "the master"; "node 3" where no name is known. */
enum { RT_NAME_ROOM = 32 };
const char *rt_node_name(const struct rt_node_names *names, size_t node, char text[RT_NAME_ROOM]);

/* err, which is about this node, becomes a whole sentence. RT_NODE_NONE: it is one. Returns err->status. */
rt_status rt_node_names_blame(const struct rt_node_names *names, uint16_t node, struct rt_error *err);

/* What node `self` tells the others of its end (ERROR). lost: the node that caused it, and `why` the reason
 * without its name; RT_NODE_NONE: none is, and `why` is what is wrong here. */
void rt_node_names_report(const struct rt_node_names *names, uint16_t self, uint16_t lost,
                          const struct rt_error *why, struct rt_error_message *report);

#endif
