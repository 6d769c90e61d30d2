/* View after view in one run, over the network in memory: nodes are lost and come back, and those that are
 * left keep what they hold. */
#include "support/views.h"

#include <math.h>

enum { NODES = 4 };

/* ---- one is lost, the others go on; one that has lost what it held comes back ---- */

static void lose_and_regain(struct cluster_place *place, struct rt_endpoint *endpoint) {
    struct view_master master;
    struct rt_error err;
    view_open(&master, place, endpoint, NODES);
    CHECK(rt_cluster_view(master.cluster) == 1 && view_member(&master, 0)->welcome.view == 0);
    view_form_all(&master, 1, 0);
    CHECK(view_round(&master, 0) == NODES && view_round(&master, 10) == 10 + NODES);
    CHECK(view_nodes[1].held.view == 1 && view_nodes[1].held.version == 0);

    rt_memnet_kill(place->world->net, 2);
    CHECK(view_round(&master, 0) == -1);
    view_leave(&master);
    view_reopen(&master, 2, (bool[NODES]){false, true, false, false}, 5);
    CHECK(view_member(&master, 1)->gone &&
          strcmp(view_member(&master, 1)->lost.text, "pi2 (mem:2) is lost") == 0);
    for (size_t i = 0; i < NODES; i++)
        if (i != 1)
            CHECK_MSG(!view_member(&master, i)->gone && view_member(&master, i)->welcome.view == 1,
                      "member %zu: view %u", i, view_member(&master, i)->welcome.view);
    CHECK(rt_cluster_request(master.cluster, 1, RT_MESSAGE_GO, NULL, 0, &err) == RT_FAILED);
    CHECK_MSG(strcmp(err.text, "pi2 (mem:2) is lost") == 0, "%s", err.text);
    CHECK_OK(view_form(&master, 2, 70, (size_t[]){3, 0, 2}, 3, &err));
    CHECK(view_round(&master, 0) == 3 && view_round(&master, 5) == 8);
    for (size_t i = 1; i <= NODES; i++)
        if (i != 2)
            CHECK(view_nodes[i].held.views == 2 && view_nodes[i].held.view == 2 &&
                  view_nodes[i].held.version == 70 && view_nodes[i].made == 1 &&
                  place->world->place[i].ends == 0);

    /* One that holds nothing any more is as one that is new. */
    view_nodes[4].keep = 0;
    view_leave(&master);
    view_reopen(&master, 3, NULL, 5);
    CHECK(view_member(&master, 1)->gone && view_member(&master, 0)->welcome.view == 2);
    CHECK_MSG(!view_member(&master, 3)->gone && view_member(&master, 3)->welcome.view == 0, "%s",
              view_member(&master, 3)->lost.text);
    CHECK_OK(view_form(&master, 3, 75, (size_t[]){0, 2, 3}, 3, &err));
    CHECK(view_round(&master, 0) == 3);
    CHECK(view_nodes[1].held.views == 3 && view_nodes[1].made == 1 && place->world->place[1].ends == 0);
    CHECK(view_nodes[4].held.views == 1 && view_nodes[4].made == 2 && place->world->place[4].ends == 1);
    CHECK(view_nodes[4].held.view == 3 && view_nodes[4].held.version == 75);
    CHECK(view_round(&master, VIEW_STOP) == VIEW_STOP);
    view_close(&master);
    CHECK(place->world->place[1].ends == 1 && place->world->place[4].ends == 2);
    CHECK(cluster_told(&place->world->place[1], "the run of mem:0 goes on with view 3"));
    CHECK(cluster_told(&place->world->place[1], "the run of mem:0 has ended"));
}

TEST(a_run_goes_on_with_those_that_are_left) {
    view_run(NODES, 30, 0, lose_and_regain);
    view_run(NODES, 30, 0.02, lose_and_regain);
}

/* ---- nobody says who is lost: it is found out, and takes no longer than a link may ---- */

static void find_the_lost(struct cluster_place *place, struct rt_endpoint *endpoint) {
    struct view_master master;
    struct rt_error err;
    view_open(&master, place, endpoint, NODES);
    view_form_all(&master, 1, 0);
    rt_memnet_kill(place->world->net, 3);
    rt_memnet_cut(place->world->net, 0, 4);
    CHECK(view_round(&master, 0) == -1);
    view_leave(&master);
    const double start = rt_endpoint_now(endpoint);
    const struct rt_reopen_settings settings = {.view = 2, .link_timeout = 1, .timeout = 10};
    CHECK_OK(rt_cluster_reopen(master.cluster, &settings, &err));
    CHECK_MSG(rt_endpoint_now(endpoint) - start < 1.5, "after %g s", rt_endpoint_now(endpoint) - start);
    CHECK(!view_member(&master, 0)->gone && !view_member(&master, 1)->gone);
    CHECK_MSG(view_member(&master, 2)->gone && strstr(view_member(&master, 2)->lost.text, "pi3 (mem:3): "),
              "%s", view_member(&master, 2)->lost.text);
    CHECK_MSG(view_member(&master, 3)->gone && strstr(view_member(&master, 3)->lost.text, "pi4 (mem:4): "),
              "%s", view_member(&master, 3)->lost.text);
    CHECK(rt_cluster_reopen(master.cluster, &settings, &err) == RT_BAD_INPUT);
    CHECK_MSG(strstr(err.text, "view 2 of a run cannot be formed after view 2"), "%s", err.text);
    CHECK_OK(view_form(&master, 2, 1, (size_t[]){1, 0}, 2, &err));
    CHECK(view_round(&master, 0) == 2 && view_round(&master, VIEW_STOP) == VIEW_STOP);
    view_close(&master);
}

TEST(those_that_are_gone_are_found_out) {
    view_run(NODES, 30, 0, find_the_lost);
}

/* ---- the forming of a view fails, too ---- */

static void fail_to_form(struct cluster_place *place, struct rt_endpoint *endpoint) {
    struct view_master master;
    struct rt_error err;
    view_open(&master, place, endpoint, NODES);
    view_form_all(&master, 1, 0);
    view_leave(&master);
    view_pass(&master, 0.5);
    view_reopen(&master, 2, NULL, 5);
    view_reopen(&master, 3, NULL, 5); /* it has thought again */
    CHECK(view_member(&master, 0)->welcome.view == 1 && view_member(&master, 3)->welcome.view == 1);
    /* one is lost when all have a place, and one behind GO */
    rt_memnet_cut(place->world->net, 1, 2);
    CHECK(view_form(&master, 3, 5, (size_t[]){0, 1, 2, 3}, 4, &err) == RT_FAILED);
    CHECK_MSG(strstr(err.text, "cannot reach pi2"), "%s", err.text);
    view_leave(&master);
    view_reopen(&master, 4, NULL, 5);
    CHECK(view_member(&master, 0)->welcome.view == 1 && !view_member(&master, 1)->gone);
    CHECK_OK(rt_view_create(4, (size_t[]){0, 2, 3}, 4, &master.view, &err));
    CHECK_OK(rt_view_add_ring(master.view, 0, 4, &err));
    CHECK_OK(rt_view_join(master.view, master.cluster, 0, &err));
    CHECK_OK(view_assign(&master, &err));
    rt_memnet_kill(place->world->net, 3);
    CHECK(rt_cluster_go(master.cluster, &err) == RT_FAILED);
    view_pass(&master, 1);
    view_leave(&master);
    view_reopen(&master, 5, NULL, 5);
    CHECK(view_member(&master, 2)->gone && !view_member(&master, 1)->gone);
    /* it may have heard GO before it heard of the loss */
    const uint32_t last = view_member(&master, 0)->welcome.view;
    CHECK_MSG(last == 1 || last == 4, "view %u", last);
    CHECK_OK(view_form(&master, 5, 6, (size_t[]){0, 3}, 2, &err));
    CHECK(view_round(&master, 0) == 2);
    CHECK(view_nodes[1].held.views == (last == 4 ? 3 : 2) && view_nodes[1].made == 1 &&
          view_nodes[1].held.view == 5 && view_nodes[1].held.version == 6);
    CHECK(view_round(&master, VIEW_STOP) == VIEW_STOP);
    view_close(&master);
    CHECK(place->world->place[1].ends == 1);
}

TEST(a_view_that_cannot_be_formed_is_followed_by_another) {
    view_run(NODES, 30, 0, fail_to_form);
    view_run(NODES, 30, 0.02, fail_to_form);
}

/* ---- a node that waits ---- */

static void never_come_back(struct cluster_place *place, struct rt_endpoint *endpoint) {
    struct view_master master;
    const struct cluster_place *node = place->world->place;
    view_open(&master, place, endpoint, 2);
    view_form_all(&master, 1, 0);
    CHECK(atomic_load(&view_nodes[1].work.works) && atomic_load(&view_nodes[1].work.links) == 2);
    const double start = rt_endpoint_now(endpoint);
    view_leave(&master);
    view_pass(&master, 10);
    /* it waits, and that is a use */
    CHECK(!rt_node_is_orphaned(&view_nodes[1].work) && atomic_load(&view_nodes[1].work.links) == 0);
    CHECK(node[1].ends == 0 && node[2].ends == 0);
    view_pass(&master, 30);
    CHECK(node[1].ends == 1 && node[2].ends == 1);
    CHECK_MSG(fabs(view_nodes[1].ended - start - 20) < 0.5, "after %g s", view_nodes[1].ended - start);
    CHECK(cluster_told(&node[1], "view 1 is over: a neighbour is lost; the next is waited for, for 20 s"));
    CHECK(cluster_told(&node[1], "the run of mem:0 ended: its master has formed no other view for 20 s"));
    CHECK(!rt_node_is_orphaned(&view_nodes[1].work));
    /* too late: it is as one that is new */
    view_reopen(&master, 2, NULL, 5);
    CHECK(!view_member(&master, 0)->gone && view_member(&master, 0)->welcome.view == 0);
    view_close(&master);
}

TEST(a_master_that_does_not_come_back) {
    view_run(2, 20, 0, never_come_back);
}

static void stop_one_that_waits(struct cluster_place *place, struct rt_endpoint *endpoint) {
    struct view_master master;
    struct cluster_place *node = place->world->place;
    view_open(&master, place, endpoint, 2);
    view_form_all(&master, 1, 0);
    view_leave(&master);
    view_pass(&master, 2);
    const double start = rt_endpoint_now(endpoint);
    CHECK(node[1].ends == 0);
    atomic_store(&node[1].stop, 1);
    rt_endpoint_wake(rt_memnet_endpoint(place->world->net, 1));
    view_pass(&master, 5);
    CHECK_MSG(node[1].ends == 1 && view_nodes[1].ended - start < 1, "after %g s",
              view_nodes[1].ended - start);
    CHECK(cluster_told(&node[1], "the run of mem:0 ended: pi1 was told to end"));
    view_close(&master);
}

TEST(a_node_is_stopped_while_it_waits) {
    view_run(2, 100, 0, stop_one_that_waits);
}

/* ---- a node that works when it is called ---- */

static void recall(struct cluster_place *place, struct rt_endpoint *endpoint) {
    struct view_master master;
    struct rt_error err;
    view_nodes[2].looks_away = true;
    view_nodes[2].slow = 3;
    view_open(&master, place, endpoint, 3);
    CHECK_OK(view_form(&master, 1, 0, (size_t[]){0, 1, 2}, 3, &err));
    view_leave(&master);
    view_pass(&master, 1);
    CHECK(cluster_told(&place->world->place[1], "view 1 is over") &&
          !cluster_told(&place->world->place[2], "view 1 is over"));
    /* it is looked after while it is waited for: it has no other link */
    const double start = rt_endpoint_now(endpoint);
    view_reopen(&master, 2, NULL, 1);
    CHECK(!view_member(&master, 0)->gone && view_member(&master, 1)->gone && !view_member(&master, 2)->gone);
    CHECK_MSG(strstr(view_member(&master, 1)->lost.text, "pi2 (mem:2) has not answered for 1 s"), "%s",
              view_member(&master, 1)->lost.text);
    view_reopen(&master, 3, NULL, 10);
    CHECK_MSG(fabs(rt_endpoint_now(endpoint) - start - 3) < 0.5, "after %g s",
              rt_endpoint_now(endpoint) - start);
    CHECK(view_nodes[2].seen_recall && !view_nodes[1].seen_recall);
    CHECK_MSG(!view_member(&master, 1)->gone && view_member(&master, 1)->welcome.view == 1, "%s",
              view_member(&master, 1)->lost.text);
    CHECK_OK(view_form(&master, 3, 9, (size_t[]){2, 1, 0}, 3, &err));
    CHECK(view_round(&master, 0) == 3 && view_nodes[2].held.views == 2 && view_nodes[2].made == 1);
    CHECK(view_round(&master, VIEW_STOP) == VIEW_STOP);
    view_close(&master);
}

TEST(a_node_is_recalled_from_its_work) {
    view_run(3, 30, 0, recall);
}

/* The role holds nothing when it returns: the master that waits finds a node that is new. */
static void recall_one_that_forgets(struct cluster_place *place, struct rt_endpoint *endpoint) {
    struct view_master master;
    struct rt_error err;
    view_nodes[1].looks_away = true;
    view_open(&master, place, endpoint, 2);
    view_form_all(&master, 1, 0);
    view_leave(&master);
    view_pass(&master, 1);
    view_nodes[1].looks_away = false;
    view_nodes[1].slow = 2;
    view_reopen(&master, 2, NULL, 10);
    CHECK(!view_member(&master, 0)->gone && view_member(&master, 0)->welcome.view == 0);
    CHECK(place->world->place[1].ends == 1);
    CHECK_OK(view_form(&master, 2, 9, (size_t[]){0, 1}, 2, &err));
    CHECK(view_round(&master, VIEW_STOP) == VIEW_STOP);
    view_close(&master);
}

TEST(a_node_that_is_recalled_and_holds_nothing) {
    view_run(2, 0, 0, recall_one_that_forgets);
}

/* ---- one that comes back and is lost again, over and over ---- */

/* Seconds until member 1 is back. */
static double wait_for_return(struct view_master *master, struct rt_endpoint *endpoint) {
    const double start = rt_endpoint_now(endpoint);
    struct rt_event event;
    while (rt_cluster_call_gone(master->cluster) != 1 && rt_endpoint_now(endpoint) < start + 1000)
        if (rt_endpoint_wait(endpoint, rt_endpoint_now(endpoint) + 0.1, &event))
            rt_cluster_stray(master->cluster, &event);
    return rt_endpoint_now(endpoint) - start;
}

static void come_and_go(struct cluster_place *place, struct rt_endpoint *endpoint) {
    static const double pause[] = {0, 1, 2, 4, 8};
    struct view_master master;
    struct rt_error err;
    uint32_t view = 1;
    view_open(&master, place, endpoint, 3);
    view_form_all(&master, view, 0);
    for (size_t i = 0; i < sizeof pause / sizeof *pause; i++) {
        CHECK(!rt_cluster_is_back(master.cluster, 1));
        view_leave(&master);
        view = rt_cluster_view(master.cluster) + 1;
        view_reopen(&master, view, (bool[]){false, true, false}, 5);
        CHECK_OK(view_form(&master, view, 1, (size_t[]){0, 2}, 2, &err));
        const double waited = wait_for_return(&master, endpoint);
        CHECK_MSG(waited >= pause[i] - 0.3 && waited < pause[i] + 1, "return %zu: after %g s", i, waited);
        CHECK(rt_cluster_is_back(master.cluster, 1));
        view_leave(&master);
        view = rt_cluster_view(master.cluster) + 1;
        view_reopen(&master, view, NULL, 5);
        CHECK_OK(view_form(&master, view, 1, (size_t[]){0, 1, 2}, 3, &err));
    }
    CHECK(view_round(&master, VIEW_STOP) == VIEW_STOP);
    view_close(&master);
}

TEST(one_that_comes_and_goes_is_called_less_often) {
    view_run(3, 2000, 0, come_and_go);
}

TEST_MAIN()
