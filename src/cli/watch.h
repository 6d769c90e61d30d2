/*
 * The watch over a node: a thread of its own that ends the node on a signal, or when the master that started
 * it on the same machine is gone, within a second and whatever the node is doing; and that starts the node
 * again when it goes on working for a master that is gone, or when a data file that it has mapped is cut
 * short, which ends the run but not the node.
 */
#ifndef RT_CLI_WATCH_H
#define RT_CLI_WATCH_H

#include "cluster/node.h"

struct rt_watch {
    struct rt_endpoint *endpoint; /* of the node, woken when it has to end */
    int lifeline;                 /* connected to the master that started the node; -1: none */
    struct rt_node_work work;     /* kept up to date by the node */
    char **again;                 /* the command line that starts the node again; NULL: it ends instead */
};

/* Catches SIGINT, SIGTERM and SIGHUP until the end of the process. One watch at a time. */
rt_status rt_watch_start(struct rt_watch *watch, struct rt_error *err);
/* For rt_node_serve: set when the node has to end. */
const atomic_int *rt_watch_stop_flag(void);
/* The node has ended. */
void rt_watch_finish(void);

#endif
