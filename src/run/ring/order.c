/*
 * The order of the devices round a ring, and the links between neighbours. It is that of all devices, but for
 * those that nobody can connect to: they lie between devices that they can connect to, never two of them side
 * by side. Where there is no such place, one is left out.
 */
#include "run/ring/setup_inside.h"

#include "base/memory.h"
#include <stdlib.h>

/* Bytes that a link is measured with: enough to see its bandwidth, few enough to be quick on a slow one. */
enum { PROBE_BYTES = 256 << 10 };

/* ---- the order ---- */

size_t rt_ring_setup_order(const struct rt_ring_setup *setup, size_t *order) {
    size_t count = 0;
    for (size_t i = 0; i < setup->who.devices; i++)
        if (rt_ring_setup_is_there(setup, i))
            order[count++] = i;
    return rt_membership_set_apart(&setup->who, order, count);
}

/* ---- the links ---- */

rt_status rt_ring_setup_add_ring(void *user, struct rt_view *view, struct rt_error *err) {
    (void)user;
    return rt_view_add_ring(view, 0, view->nodes, err);
}

/* places: the length of the master's ring. */
void rt_ring_setup_take_links(struct rt_ring_setup *setup, size_t places) {
    setup->next = rt_view_take_link(setup->who.view, 1, RT_LABEL_NEXT);
    setup->previous = rt_view_take_link(setup->who.view, places - 1, RT_LABEL_PREVIOUS);
}

/* Every device has the link that leads on from it in its ring; the last link of a ring is made by its first
 * node, and leads on from the last. order: the device of each node; NULL: node i is device i. */
static void order_take_edges(struct rt_ring_setup *setup, const size_t *order) {
    const struct rt_view *view = setup->who.view;
    for (size_t k = 0; k < view->link_count; k++) {
        const struct rt_wanted_link *wanted = &view->wanted[k];
        if (wanted->label == RT_LABEL_MESH)
            continue;
        const size_t node = wanted->label == RT_LABEL_NEXT ? wanted->from : wanted->to;
        struct rt_plan_device *device = &setup->device[order ? order[node] : node];
        device->latency = view->edges[k].latency;
        device->bandwidth = view->edges[k].bandwidth;
    }
}

static void order_tell_left(const struct rt_ring_setup_settings *settings, const struct rt_ring_setup *setup,
                            const size_t *order, size_t count) {
    char sentence[RT_TITLE_ROOM + 200], title[RT_TITLE_ROOM];
    for (size_t i = 1; i < setup->who.devices && settings->waits; i++) {
        size_t at = 0;
        while (at < count && order[at] != i)
            at++;
        if (!rt_ring_setup_is_there(setup, i) || at < count)
            continue;
        snprintf(sentence, sizeof sentence,
                 "%s has no place in the ring: it cannot be connected to, and neither can a neighbour; start "
                 "it with --listen HOST:PORT as well",
                 rt_membership_title(&setup->who, i, title));
        settings->waits(settings->waits_user, sentence);
    }
}

static rt_status order_probe(const struct rt_ring_setup_settings *settings, struct rt_ring_setup *setup,
                             const size_t *order, size_t count, bool shaped, struct rt_error *err) {
    const struct rt_view_settings all = {.devices = order,
                                         .nodes = count,
                                         .shape = shaped ? settings->shape : rt_ring_setup_add_ring,
                                         .user = settings->user,
                                         .probe_bytes = PROBE_BYTES};
    RT_TRY(rt_membership_form_view(&setup->who, &all, err));
    rt_ring_setup_take_links(setup, shaped ? count / settings->rings : count);
    order_take_edges(setup, order);
    if (shaped && settings->joined)
        settings->joined(settings->user, setup->who.view);
    return RT_OK;
}

/* Of several rings, whose places are another matter. Where some are not there, the links of a single ring of
 * the others are measured. */
static size_t order_list(const struct rt_ring_setup *setup, size_t *order) {
    size_t count = 0;
    for (size_t i = 0; i < setup->who.devices; i++)
        if (rt_ring_setup_is_there(setup, i))
            order[count++] = i;
    return count;
}

rt_status rt_ring_setup_probe_links(const struct rt_ring_setup_settings *settings,
                                    struct rt_ring_setup *setup, struct rt_error *err) {
    const size_t devices = setup->who.devices;
    size_t *order;
    RT_TRY(rt_alloc(devices, sizeof *order, "the order of the devices", &order, err));
    const bool shaped =
        settings->shape && order_list(setup, order) == setup->question.count * settings->rings;
    const size_t count = shaped ? setup->question.count * settings->rings : rt_ring_setup_order(setup, order);
    if (!settings->shape)
        order_tell_left(settings, setup, order, count);
    const rt_status status = count > 1 ? order_probe(settings, setup, order, count, shaped, err) : RT_OK;
    free(order);
    for (size_t i = 1; i < devices; i++)
        if (!rt_ring_setup_is_there(setup, i)) {
            setup->device[i].latency = setup->device[0].latency;
            setup->device[i].bandwidth = setup->device[0].bandwidth;
        }
    return status;
}
