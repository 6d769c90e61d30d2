/* The shapes that a cluster is joined in: which links a ring has, and which a mesh. form.c makes them. */
#include "cluster/cluster_inside.h"

#include "base/memory.h"
#include <stdlib.h>

/* A list of links, and what came of each of them. */
struct shape {
    size_t count;
    struct rt_wanted_link *wanted;
    struct rt_link **links;
    struct rt_edge *edges;
};

static rt_status shape_init(struct shape *shape, size_t room, struct rt_error *err) {
    *shape = (struct shape){0};
    rt_status status = rt_alloc(room, sizeof *shape->wanted, "the links of a cluster", &shape->wanted, err);
    if (status == RT_OK)
        status = rt_alloc(room, sizeof *shape->links, "the links of a cluster", &shape->links, err);
    if (status == RT_OK)
        status = rt_alloc(room, sizeof *shape->edges, "the links of a cluster", &shape->edges, err);
    return status;
}

static void shape_deinit(struct shape *shape) {
    free(shape->wanted);
    free(shape->links);
    free(shape->edges);
}

static void add(struct shape *shape, size_t from, size_t to, uint16_t label) {
    shape->wanted[shape->count++] = (struct rt_wanted_link){(uint16_t)from, (uint16_t)to, label};
}

static rt_status make(struct shape *shape, struct rt_cluster *cluster, const size_t *order, size_t count,
                      uint32_t probe_bytes, struct rt_error *err) {
    return rt_cluster_join(cluster, order, count, shape->wanted, shape->count, probe_bytes, shape->links,
                           shape->edges, err);
}

/* The edges first, in their order; the last of them is made by the master, who does not listen. */
rt_status rt_cluster_ring(struct rt_cluster *cluster, const size_t *order, size_t count, uint32_t probe_bytes,
                          struct rt_link **next, struct rt_link **previous, struct rt_edge *edges,
                          struct rt_error *err) {
    struct shape shape;
    rt_status status = shape_init(&shape, count + 1, err);
    for (size_t i = 0; i < count && status == RT_OK; i++)
        add(&shape, i, i + 1, RT_LABEL_NEXT);
    if (status == RT_OK) {
        add(&shape, 0, count, RT_LABEL_PREVIOUS);
        status = make(&shape, cluster, order, count, probe_bytes, err);
    }
    if (status == RT_OK) {
        *next = shape.links[0];
        *previous = shape.links[count];
        for (size_t i = 0; i <= count; i++)
            edges[i] = shape.edges[i];
    }
    shape_deinit(&shape);
    return status;
}

static size_t count_links(size_t count, bool (*needs)(const void *user, uint16_t a, uint16_t b),
                          const void *user) {
    size_t links = count;
    for (size_t a = 1; a <= count && needs; a++)
        for (size_t b = a + 1; b <= count; b++)
            links += needs(user, (uint16_t)a, (uint16_t)b);
    return links;
}

/* Those between the nodes by their distance: so nobody makes two in a row, and several can be made at a time.
 */
rt_status rt_cluster_mesh(struct rt_cluster *cluster, const size_t *order, size_t count,
                          bool (*needs)(const void *user, uint16_t a, uint16_t b), const void *user,
                          uint32_t probe_bytes, struct rt_link **links, struct rt_edge *edges,
                          struct rt_error *err) {
    struct shape shape;
    if (count >= RT_MAX_NODES)
        return rt_fail(err, RT_BAD_INPUT, "a cluster has at most %d nodes, the master counted", RT_MAX_NODES);
    rt_status status = shape_init(&shape, count_links(count, needs, user), err);
    if (status == RT_OK) {
        for (size_t i = 1; i <= count; i++)
            add(&shape, 0, i, RT_LABEL_MESH);
        for (size_t distance = 1; distance < count && needs; distance++)
            for (size_t a = 1; a + distance <= count; a++)
                if (needs(user, (uint16_t)a, (uint16_t)(a + distance)))
                    add(&shape, a, a + distance, RT_LABEL_MESH);
        status = make(&shape, cluster, order, count, probe_bytes, err);
    }
    for (size_t i = 0; i < (count + 1) * (count + 1) && status == RT_OK && edges; i++)
        edges[i] = (struct rt_edge){0};
    for (size_t k = 0; k < shape.count && status == RT_OK && edges; k++) {
        const struct rt_wanted_link *link = &shape.wanted[k];
        edges[link->from * (count + 1) + link->to] = shape.edges[k];
        edges[link->to * (count + 1) + link->from] = shape.edges[k];
    }
    if (status == RT_OK)
        links[0] = NULL;
    for (size_t i = 1; i <= count && status == RT_OK; i++)
        links[i] = shape.links[i - 1];
    shape_deinit(&shape);
    return status;
}
