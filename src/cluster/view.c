/* Views: the links that a ring or a mesh has, and telling all nodes their parts. form.c makes the links. */
#include "cluster/view.h"

#include "base/memory.h"
#include "base/sentence.h"
#include <stdlib.h>

static rt_status view_set_members(struct rt_view *view, const size_t *member, struct rt_error *err) {
    if (view->nodes > RT_MAX_NODES)
        return rt_fail(err, RT_BAD_INPUT, "a cluster has at most %d nodes, the master counted", RT_MAX_NODES);
    RT_TRY(rt_alloc(view->nodes, sizeof *view->member, "the nodes", &view->member, err));
    RT_TRY(rt_alloc(view->nodes, sizeof *view->name, "the nodes", &view->name, err));
    for (size_t i = 0; i + 1 < view->nodes; i++)
        view->member[i] = member ? member[i] : i;
    return RT_OK;
}

rt_status rt_view_create(uint32_t number, const size_t *member, size_t nodes, struct rt_view **view,
                         struct rt_error *err) {
    struct rt_view *made;
    RT_TRY(rt_alloc(1, sizeof *made, "a view of the cluster", &made, err));
    made->number = number;
    made->nodes = nodes;
    RT_FINISH_CREATE(view_set_members(made, member, err), made, rt_view_destroy, view);
}

void rt_view_destroy(struct rt_view *view) {
    if (!view)
        return;
    for (size_t k = 0; view->links && k < view->link_count; k++)
        rt_link_close(view->links[k]);
    free(view->member);
    free(view->name);
    free(view->wanted);
    free(view->links);
    free(view->edges);
    free(view);
}

/* ---- links ---- */

/* Room doubles, and is full exactly when the count is a power of two. */
rt_status rt_view_add_link(struct rt_view *view, size_t from, size_t to, uint16_t label,
                           struct rt_error *err) {
    const size_t count = view->link_count;
    if ((count & (count - 1)) == 0) {
        struct rt_wanted_link *more = realloc(view->wanted, (count ? 2 * count : 1) * sizeof *more);
        if (!more)
            return rt_fail(err, RT_NO_MEMORY, "not enough memory for the links of a cluster");
        view->wanted = more;
    }
    view->wanted[view->link_count++] = (struct rt_wanted_link){(uint16_t)from, (uint16_t)to, label};
    return RT_OK;
}

rt_status rt_view_add_ring(struct rt_view *view, size_t first, size_t nodes, struct rt_error *err) {
    for (size_t i = 0; i + 1 < nodes; i++)
        RT_TRY(rt_view_add_link(view, first + i, first + i + 1, RT_LABEL_NEXT, err));
    return nodes > 1 ? rt_view_add_link(view, first, first + nodes - 1, RT_LABEL_PREVIOUS, err) : RT_OK;
}

/* The links between the nodes, ordered by distance: so no node makes two in a row, and several can be made at
 * a time. */
rt_status rt_view_add_mesh(struct rt_view *view, bool (*needs)(const void *user, uint16_t a, uint16_t b),
                           const void *user, struct rt_error *err) {
    for (size_t i = 1; i < view->nodes; i++)
        RT_TRY(rt_view_add_link(view, 0, i, RT_LABEL_MESH, err));
    for (size_t distance = 1; needs && distance + 1 < view->nodes; distance++)
        for (size_t a = 1; a + distance < view->nodes; a++)
            if (needs(user, (uint16_t)a, (uint16_t)(a + distance)))
                RT_TRY(rt_view_add_link(view, a, a + distance, RT_LABEL_MESH, err));
    return RT_OK;
}

struct rt_node_names rt_view_names(const struct rt_view *view) {
    return (struct rt_node_names){(const char(*)[RT_NODE_NAME + 1]) view->name, view->nodes};
}

static void view_take_names(struct rt_view *view, struct rt_cluster *cluster) {
    rt_copy_sentence(view->name[0], sizeof *view->name, "master");
    for (size_t i = 1; i < view->nodes; i++) {
        const struct rt_member *member = rt_cluster_member(cluster, view->member[i - 1]);
        rt_copy_sentence(view->name[i], sizeof *view->name, member->name);
    }
}

rt_status rt_view_join(struct rt_view *view, struct rt_cluster *cluster, uint32_t probe_bytes,
                       struct rt_error *err) {
    RT_TRY(rt_alloc(view->link_count, sizeof *view->links, "the links", &view->links, err));
    RT_TRY(rt_alloc(view->link_count, sizeof *view->edges, "the links", &view->edges, err));
    RT_TRY(rt_cluster_join(cluster, view->number, view->member, view->nodes - 1, view->wanted,
                           view->link_count, probe_bytes, view->links, view->edges, err));
    view_take_names(view, cluster);
    return RT_OK;
}

struct rt_link *rt_view_take_link(struct rt_view *view, size_t node, uint16_t label) {
    for (size_t k = 0; k < view->link_count; k++) {
        const struct rt_wanted_link *wanted = &view->wanted[k];
        if (wanted->from == 0 && wanted->to == node && wanted->label == label) {
            struct rt_link *link = view->links[k];
            view->links[k] = NULL;
            return link;
        }
    }
    return NULL;
}

/* ---- parts ---- */

static rt_status view_request_parts(const struct rt_view *view, struct rt_cluster *cluster,
                                    const struct rt_assign *plan, uint8_t *bytes, struct rt_error *err) {
    struct rt_assign part = *plan;
    part.view = view->number;
    part.version = view->version;
    part.name = view->name;
    for (size_t i = 1; i < view->nodes; i++) {
        part.index = (uint16_t)i;
        const size_t used = rt_assign_encode(&part, bytes, RT_MAX_CONTROL);
        if (!used)
            return rt_fail(err, RT_BAD_INPUT, "the description of the run is too long to be sent");
        RT_TRY(rt_cluster_request(cluster, view->member[i - 1], RT_MESSAGE_ASSIGN, bytes, used, err));
    }
    return RT_OK;
}

rt_status rt_view_assign(const struct rt_view *view, struct rt_cluster *cluster, const struct rt_assign *plan,
                         struct rt_error *err) {
    uint8_t *bytes;
    RT_TRY(rt_alloc(RT_MAX_CONTROL, 1, "a message", &bytes, err));
    const rt_status status = view_request_parts(view, cluster, plan, bytes, err);
    free(bytes);
    if (status != RT_OK)
        return status;
    for (size_t i = 1; i < view->nodes; i++) {
        const size_t member = view->member[i - 1];
        RT_TRY(rt_cluster_answer(cluster, member, RT_MESSAGE_READY, err));
        rt_talk_next(&rt_cluster_member(cluster, member)->talk);
    }
    return RT_OK;
}
