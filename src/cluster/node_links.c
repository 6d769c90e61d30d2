/* A node's links with the others of a run: which it will have, how they are made, and how they are lost
 * before the work begins. Each has a slot in the session, where the role finds it. */
#include "cluster/node_inside.h"

#include "base/memory.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Seconds to reach another node, whatever the master says: a name that is looked up may outlive its link. */
static const double longest_dial = 60;

static struct rt_link **node_links_slot_of(struct rt_node *node, const struct rt_settle_link *link) {
    switch (link->label) {
    case RT_LABEL_NEXT:
        return &node->session.next;
    case RT_LABEL_PREVIOUS:
        return &node->session.previous;
    default:
        return &node->session.links[link->peer];
    }
}

/* Whether a link for it is there already, or being made. */
static bool node_links_is_taken(const struct rt_node *node, struct rt_link **slot) {
    return *slot || (node->dial.stage != RT_DIAL_IDLE && node->slot == slot) ||
           rt_guests_make(&node->guests, slot);
}

struct rt_link **rt_links_slot(struct rt_node *node, uint16_t peer, uint16_t label) {
    for (size_t i = 0; i < node->place.links; i++) {
        const struct rt_settle_link *link = &node->place.link[i];
        if (link->peer == peer && link->label == label)
            return node_links_is_taken(node, node_links_slot_of(node, link)) ? NULL
                                                                             : node_links_slot_of(node, link);
    }
    return NULL;
}

bool rt_links_complete(struct rt_node *node) {
    for (size_t i = 0; i < node->place.links; i++)
        if (!*node_links_slot_of(node, &node->place.link[i]))
            return false;
    return node->place.links > 0;
}

/* The link with the master where there is one; in a ring, where few have one, any. */
void rt_links_count(struct rt_node *node) {
    struct rt_session *session = &node->session;
    const bool direct = session->links && session->links[0];
    for (size_t i = 0; i < node->place.links; i++) {
        struct rt_link *link = *node_links_slot_of(node, &node->place.link[i]);
        if (link && (!direct || link == session->links[0]))
            rt_link_count(link, &node->work->links);
    }
}

void rt_links_forget(struct rt_node *node) {
    for (size_t i = 0; i < node->place.links; i++)
        *node_links_slot_of(node, &node->place.link[i]) = NULL;
}

void rt_links_drop(struct rt_node *node) {
    rt_dial_cancel(&node->dial);
    rt_guests_drop_joining(&node->guests);
    for (size_t i = 0; i < node->place.links; i++) {
        struct rt_link **slot = node_links_slot_of(node, &node->place.link[i]);
        rt_link_close(*slot);
        *slot = NULL;
    }
    free(node->session.links);
    node->session.links = NULL;
    rt_settle_deinit(&node->place);
    node->lost.text[0] = 0;
}

/* Each look-up of a name may outlive its link: they must not pile up. */
static rt_status node_links_check_idle(const struct rt_node *node, struct rt_error *err) {
    if (node->dial.stage == RT_DIAL_IDLE)
        return RT_OK;
    return rt_fail(err, RT_FAILED, "%s is still connecting to the node it was asked for before", node->name);
}

rt_status rt_links_settle(struct rt_node *node, struct rt_settle *place, struct rt_error *err) {
    struct rt_link **links = NULL;
    bool mesh = false;
    for (size_t i = 0; i < place->links; i++)
        mesh |= place->link[i].label == RT_LABEL_MESH;
    rt_status status = node_links_check_idle(node, err);
    if (status == RT_OK && place->view < node->session.view)
        status = rt_fail(err, RT_BAD_INPUT, "%s is in view %u of the run, and view %u is older", node->name,
                         node->session.view, place->view);
    if (status == RT_OK && mesh)
        status = rt_alloc(place->count, sizeof *links, "the links of a node", &links, err);
    if (status != RT_OK) {
        rt_settle_deinit(place);
        return status;
    }
    rt_links_drop(node);
    node->place = *place;
    node->session.view = place->view;
    node->session.index = place->index;
    node->session.count = place->count;
    node->session.links = links;
    node->session.names = (struct rt_node_names){0}; /* those were of another view */
    return RT_OK;
}

rt_status rt_links_join(struct rt_node *node, const struct rt_join *join, struct rt_error *err) {
    const double wish = join->milliseconds / 1000.0;
    rt_status status = node_links_check_idle(node, err);
    if (status != RT_OK)
        return status;
    struct rt_link **slot = rt_links_slot(node, join->peer, join->label);
    if (join->name[0])
        memcpy(node->dialled, join->name, sizeof node->dialled);
    else
        snprintf(node->dialled, sizeof node->dialled, "node %u", join->peer);
    if (!slot || (join->peer == 0 && !node->settings->join))
        return rt_fail(err, RT_BAD_INPUT, "%s was asked for an unknown link with %s", node->name,
                       node->dialled);
    struct rt_dial_settings settings = {.address = join->peer ? join->address : node->settings->join,
                                        .hello = {.role = RT_ROLE_NODE,
                                                  .from = node->session.index,
                                                  .label = join->label,
                                                  .view = node->session.view},
                                        .run = node->session.run,
                                        .to = join->peer,
                                        .probe_bytes = join->probe_bytes,
                                        .until = rt_endpoint_now(node->endpoint) +
                                                 (wish < longest_dial ? wish : longest_dial)};
    memcpy(settings.hello.token, node->session.token, sizeof settings.hello.token);
    memcpy(settings.hello.answer, node->settings->answer, sizeof settings.hello.answer);
    snprintf(settings.hello.version, sizeof settings.hello.version, "%s", RT_VERSION);
    node->slot = slot;
    return rt_dial_start(node->endpoint, &settings, &node->dial, err);
}

/* The address of one that has connected says nothing, so its name is better where the assignment has come. */
static const char *node_links_who(const struct rt_node *node, const struct rt_settle_link *link,
                                  const struct rt_link *lost) {
    const struct rt_node_names *names = &node->session.names;
    return link->peer < names->count && names->name[link->peer][0] ? names->name[link->peer] : lost->peer;
}

bool rt_links_event(struct rt_node *node, const struct rt_event *event) {
    if (!node->serving || !node->master)
        return false;
    if (rt_dial_event(&node->dial, event))
        return true;
    for (size_t i = 0; i < node->place.links && event->kind == RT_EVENT_CLOSED; i++) {
        struct rt_link **slot = node_links_slot_of(node, &node->place.link[i]);
        if (*slot != event->link)
            continue;
        rt_fail(&node->lost, RT_FAILED, "%s: %s", node_links_who(node, &node->place.link[i], event->link),
                event->error.text);
        rt_link_close(*slot);
        *slot = NULL;
        return true;
    }
    return false;
}
