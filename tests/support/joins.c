#include "support/joins.h"

rt_status join_ring(struct rt_cluster *cluster, const size_t *order, size_t count, uint32_t probe_bytes,
                    struct rt_link **next, struct rt_link **previous, struct rt_edge *edges,
                    struct rt_error *err) {
    struct rt_view *view;
    RT_TRY(rt_view_create(1, order, count + 1, &view, err));
    rt_status status = rt_view_add_ring(view, 0, count + 1, err);
    if (status == RT_OK)
        status = rt_view_join(view, cluster, probe_bytes, err);
    if (status == RT_OK) {
        *next = rt_view_take_link(view, 1, RT_LABEL_NEXT);
        *previous = rt_view_take_link(view, count, RT_LABEL_PREVIOUS);
        for (size_t i = 0; i <= count; i++)
            edges[i] = view->edges[i];
    }
    rt_view_destroy(view);
    return status;
}

static void fill_edges(const struct rt_view *view, struct rt_edge *edges) {
    for (size_t i = 0; i < view->nodes * view->nodes; i++)
        edges[i] = (struct rt_edge){0};
    for (size_t k = 0; k < view->link_count; k++) {
        const struct rt_wanted_link *link = &view->wanted[k];
        edges[link->from * view->nodes + link->to] = view->edges[k];
        edges[link->to * view->nodes + link->from] = view->edges[k];
    }
}

rt_status join_mesh(struct rt_cluster *cluster, const size_t *order, size_t count,
                    bool (*needs)(const void *user, uint16_t a, uint16_t b), const void *user,
                    uint32_t probe_bytes, struct rt_link **links, struct rt_edge *edges,
                    struct rt_error *err) {
    struct rt_view *view;
    RT_TRY(rt_view_create(1, order, count + 1, &view, err));
    rt_status status = rt_view_add_mesh(view, needs, user, err);
    if (status == RT_OK)
        status = rt_view_join(view, cluster, probe_bytes, err);
    if (status == RT_OK && edges)
        fill_edges(view, edges);
    for (size_t i = 0; i <= count && status == RT_OK; i++)
        links[i] = rt_view_take_link(view, i, RT_LABEL_MESH);
    rt_view_destroy(view);
    return status;
}
