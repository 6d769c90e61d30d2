/* A ring or a mesh of a cluster's members in one call, with what came of it, for tests. */
#ifndef RT_TEST_JOINS_H
#define RT_TEST_JOINS_H

#include "cluster/view.h"

/* Joins master, members[order[0]], members[order[1]], ... in a ring. next and previous: the master's links.
 * edges: [count + 1], edge i leads from node i to the next. */
rt_status join_ring(struct rt_cluster *cluster, const size_t *order, size_t count, uint32_t probe_bytes,
                    struct rt_link **next, struct rt_link **previous, struct rt_edge *edges,
                    struct rt_error *err);

/* Joins master and members in a mesh, see rt_view_add_mesh. links: [count + 1], the master's own by node,
 * links[0] is NULL. edges: [(count + 1) * (count + 1)], the link between a and b is edges[a * (count + 1) +
 * b], and the same the other way round; may be NULL. */
rt_status join_mesh(struct rt_cluster *cluster, const size_t *order, size_t count,
                    bool (*needs)(const void *user, uint16_t a, uint16_t b), const void *user,
                    uint32_t probe_bytes, struct rt_link **links, struct rt_edge *edges,
                    struct rt_error *err);

#endif
