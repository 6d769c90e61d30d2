#include "support/views.h"

#include <math.h>

/* ---- the role ----
 * A number comes from the previous node, and goes on with one added, again and again, until it is VIEW_STOP.
 * What the node holds is how many views it has worked in. */

struct view_node view_nodes[CLUSTER_PLACES];

static struct view_node *behaviour_of(const struct rt_session *session) {
    return &view_nodes[((struct cluster_place *)session->user)->index];
}

static rt_status hold(struct rt_session *session, const struct rt_assign *asked, uint64_t *memory,
                      struct rt_error *err) {
    struct view_node *behaviour = behaviour_of(session);
    CHECK(asked->view == session->view && asked->version == session->version);
    if (!session->role) {
        session->role = calloc(1, sizeof(struct view_held));
        behaviour->made++;
    }
    struct view_held *held = session->role;
    if (!held)
        return rt_fail(err, RT_NO_MEMORY, "no memory");
    held->view = session->view;
    held->version = session->version;
    *memory = 1001 + (asked->index - 1u);
    return RT_OK;
}

/* What is posted on the links until they are closed. */
struct posted {
    uint8_t number;
    struct rt_receive receive;
    struct rt_send send;
};

/* Until the view is over, or (number VIEW_STOP) the run. */
static void count_on(struct rt_session *session, struct posted *posted) {
    uint8_t *number = &posted->number;
    posted->receive = (struct rt_receive){.channel = RT_CHANNEL_FIRST, .body = number, .body_room = 1};
    posted->send = (struct rt_send){.channel = RT_CHANNEL_FIRST, .body = {{number, 1}}};
    struct view_node *behaviour = behaviour_of(session);
    struct rt_event event;
    rt_link_receive(session->previous, &posted->receive);
    double until = INFINITY;
    while (rt_endpoint_wait(session->endpoint, until, &event) && !atomic_load(session->stop)) {
        const bool own = event.link == session->next || event.link == session->previous;
        if (event.kind == RT_EVENT_CLOSED && own) {
            if (!behaviour->looks_away)
                return;
        } else if (event.kind == RT_EVENT_RECEIVED && own) {
            *number = *number < VIEW_STOP ? (uint8_t)(*number + 1) : *number;
            rt_link_send(session->next, &posted->send);
        } else if (event.kind == RT_EVENT_SENT && own) {
            if (*number == VIEW_STOP)
                return;
            rt_link_receive(session->previous, &posted->receive);
        } else {
            rt_node_stray(session, &event);
        }
        if (atomic_load(&session->recalled) && isinf(until)) {
            behaviour->seen_recall = true;
            until = rt_endpoint_now(session->endpoint) + behaviour->slow;
        }
    }
}

static rt_status work(struct rt_session *session, struct rt_error *err) {
    struct view_node *behaviour = behaviour_of(session);
    struct view_held *held = session->role;
    struct posted posted = {.number = 0};
    held->views++;
    behaviour->held = *held;
    count_on(session, &posted);
    session->keep = behaviour->keep;
    session->orphaned = behaviour->orphaned > 0;
    session->wait_master = behaviour->orphaned;
    const bool stops = posted.number == VIEW_STOP;
    if (stops) /* the next one must have it before the link closes */
        rt_endpoint_sleep(session->endpoint, rt_endpoint_now(session->endpoint) + 1);
    rt_link_close(session->next);
    rt_link_close(session->previous);
    session->next = session->previous = NULL;
    return stops ? RT_OK : rt_fail(err, RT_FAILED, "a neighbour is lost");
}

static void let_go(struct rt_session *session) {
    free(session->role);
    session->role = NULL;
    behaviour_of(session)->ended = rt_endpoint_now(session->endpoint);
    ((struct cluster_place *)session->user)->ends++;
}

struct rt_role view_role(struct cluster_place *place) {
    return (struct rt_role){.assign = hold, .run = work, .end = let_go, .user = place};
}

void view_serve(struct cluster_place *place, struct rt_endpoint *endpoint) {
    const struct rt_role role = view_role(place);
    struct rt_error err;
    CHECK_OK(rt_endpoint_listen(endpoint, "mem:*", &err));
    rt_status status = rt_node_serve(&place->settings, endpoint, &role, &place->stop, &err);
    CHECK_MSG(status == RT_OK || strstr(err.text, "has ended"), "%s", err.text);
}

/* ---- the master ---- */

void view_open(struct view_master *master, struct cluster_place *place, struct rt_endpoint *endpoint,
               size_t nodes) {
    struct rt_error err;
    *master = (struct view_master){.place = place, .endpoint = endpoint};
    CHECK_OK(cluster_open(place->world, endpoint, 1, nodes, &master->cluster, &err));
}

void view_leave(struct view_master *master) {
    rt_link_close(master->next);
    rt_link_close(master->previous);
    rt_view_destroy(master->view);
    master->view = NULL;
    master->next = master->previous = NULL;
}

rt_status view_assign(struct view_master *master, struct rt_error *err) {
    struct rt_assigned_node parts[CLUSTER_PLACES] = {{0, 1, 2}};
    struct rt_assign plan = {.nodes = master->view->nodes, .node = parts};
    RT_TRY(rt_tree_create(RT_TREE_MAP, NULL, "test", 0, &plan.job, err));
    rt_status status = rt_view_assign(master->view, master->cluster, &plan, err);
    rt_tree_destroy(plan.job);
    return status;
}

/* A ring of these members. */
rt_status view_form(struct view_master *master, uint32_t number, uint64_t version, const size_t *members,
                    size_t count, struct rt_error *err) {
    view_leave(master);
    RT_TRY(rt_view_create(number, members, count + 1, &master->view, err));
    master->view->version = version;
    RT_TRY(rt_view_add_ring(master->view, 0, count + 1, err));
    RT_TRY(rt_view_join(master->view, master->cluster, 0, err));
    RT_TRY(view_assign(master, err));
    RT_TRY(rt_cluster_go(master->cluster, err));
    master->next = rt_view_take_link(master->view, 1, RT_LABEL_NEXT);
    master->previous = rt_view_take_link(master->view, count, RT_LABEL_PREVIOUS);
    return RT_OK;
}

void view_form_all(struct view_master *master, uint32_t number, uint64_t version) {
    struct rt_error err;
    CHECK_OK(
        view_form(master, number, version, (size_t[]){0, 1, 2, 3}, rt_cluster_count(master->cluster), &err));
}

/* What comes back of a number; -1: nothing. */
int view_round(struct view_master *master, uint8_t number) {
    struct rt_event event;
    const double until = rt_endpoint_now(master->endpoint) + 20;
    master->number = number;
    master->receive = (struct rt_receive){.channel = RT_CHANNEL_FIRST, .body = &master->back, .body_room = 1};
    master->send = (struct rt_send){.channel = RT_CHANNEL_FIRST, .body = {{&master->number, 1}}};
    rt_link_receive(master->previous, &master->receive);
    rt_link_send(master->next, &master->send);
    for (unsigned done = 0; done < 2 && rt_endpoint_wait(master->endpoint, until, &event);) {
        if (event.kind == RT_EVENT_CLOSED)
            return -1;
        done += event.kind == RT_EVENT_SENT || event.kind == RT_EVENT_RECEIVED;
    }
    return master->back;
}

void view_close(struct view_master *master) {
    view_leave(master);
    rt_cluster_close(master->cluster);
    rt_endpoint_sleep(master->endpoint, rt_endpoint_now(master->endpoint) + 3);
}

void view_pass(struct view_master *master, double seconds) {
    rt_endpoint_sleep(master->endpoint, rt_endpoint_now(master->endpoint) + seconds);
}

void view_reopen(struct view_master *master, uint32_t view, const bool *lost, double timeout) {
    struct rt_error err = {0};
    const struct rt_reopen_settings settings = {.view = view, .lost = lost, .timeout = timeout};
    CHECK_OK(rt_cluster_reopen(master->cluster, &settings, &err));
}

const struct rt_member *view_member(const struct view_master *master, size_t i) {
    return rt_cluster_member(master->cluster, i);
}

void view_run(size_t nodes, double keep, double random_delay,
              void (*program)(struct cluster_place *place, struct rt_endpoint *endpoint)) {
    static struct cluster_world world;
    cluster_init(&world, nodes + 1, random_delay);
    memset(view_nodes, 0, sizeof view_nodes);
    world.place[0].program = program;
    for (size_t i = 1; i <= nodes; i++) {
        world.place[i].program = view_serve;
        world.place[i].settings.work = &view_nodes[i].work;
        view_nodes[i].keep = keep;
    }
    cluster_run(&world, 300);
    cluster_deinit(&world);
}
