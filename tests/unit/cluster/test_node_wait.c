/* A node between two views, and while the second is formed: what others say to it, in the network in memory.
 */
#include "support/views.h"

static struct rt_link *call(struct rt_endpoint *endpoint, struct rt_talk *talk, const struct rt_hello *hello,
                            uint32_t run) {
    struct rt_error err;
    struct rt_link *link = NULL;
    if (rt_endpoint_connect(endpoint, "mem:1", rt_endpoint_now(endpoint) + 5, &link, &err) != RT_OK ||
        rt_talk_open(link, talk, &err) != RT_OK)
        rt_test_fail(__FILE__, __LINE__, "%s", err.text);
    talk->run = run;
    rt_talk_send(talk, &(struct rt_message){.type = RT_MESSAGE_HELLO},
                 rt_hello_encode(hello, rt_talk_body(talk), RT_MAX_CONTROL));
    talk->run = 0;
    return link;
}

/* Waits for an answer. other: a conversation that goes on meanwhile; may be NULL. */
static void hear(struct rt_endpoint *endpoint, struct rt_talk *talk, struct rt_talk *other) {
    struct rt_event event;
    const double until = rt_endpoint_now(endpoint) + 5;
    while (!talk->ready && !talk->dead && rt_endpoint_wait(endpoint, until, &event))
        if (!rt_talk_event(talk, &event) && other)
            rt_talk_event(other, &event);
}

/* What node 1 answers to a greeting is an error with these words. */
static void refused(struct rt_endpoint *endpoint, struct rt_hello hello, uint32_t run, const char *words) {
    struct rt_talk talk = {0};
    struct rt_error err = {0};
    snprintf(hello.version, sizeof hello.version, "1");
    call(endpoint, &talk, &hello, run);
    hear(endpoint, &talk, NULL);
    CHECK(talk.ready);
    CHECK_MSG(talk.ready && rt_talk_expect(&talk, RT_MESSAGE_WELCOME, "it", &err) != RT_OK &&
                  strstr(err.text, words),
              "%s: %s", words, err.text);
    rt_talk_close(&talk);
}

static struct rt_hello a_master(uint32_t view) {
    return (struct rt_hello){.role = RT_ROLE_MASTER, .view = view};
}

static struct rt_hello a_node(uint16_t from, uint16_t label, uint32_t view) {
    return (struct rt_hello){.role = RT_ROLE_NODE, .from = from, .label = label, .view = view};
}

/* ---- what the master itself may not ask for ---- */

static rt_status settle(struct view_master *master, uint32_t view, struct rt_error *err) {
    struct rt_settle_link links[] = {{0, RT_LABEL_PREVIOUS}, {2, RT_LABEL_NEXT}};
    uint8_t body[64];
    const size_t bytes =
        rt_settle_encode(&(struct rt_settle){.index = 1, .count = 3, .view = view, .links = 2, .link = links},
                         body, sizeof body);
    RT_TRY(rt_cluster_ask(master->cluster, 0, RT_MESSAGE_SETTLE, body, bytes, RT_MESSAGE_SETTLED, err));
    rt_talk_next(&rt_cluster_member(master->cluster, 0)->talk);
    return RT_OK;
}

static rt_status give_work(struct view_master *master, uint32_t view, struct rt_error *err) {
    struct rt_assigned_node parts[3] = {{0, 1, 2}};
    struct rt_assign plan = {.index = 1, .view = view, .nodes = 3, .node = parts};
    uint8_t body[200];
    RT_TRY(rt_tree_create(RT_TREE_MAP, NULL, "test", 0, &plan.job, err));
    const size_t bytes = rt_assign_encode(&plan, body, sizeof body);
    rt_tree_destroy(plan.job);
    RT_TRY(rt_cluster_ask(master->cluster, 0, RT_MESSAGE_ASSIGN, body, bytes, RT_MESSAGE_READY, err));
    rt_talk_next(&rt_cluster_member(master->cluster, 0)->talk);
    return RT_OK;
}

#define REFUSED(status_, words_)                                                                             \
    do {                                                                                                     \
        const rt_status status = (status_);                                                                  \
        CHECK_MSG(status != RT_OK && strstr(err.text, words_), "%d: %s", status, err.text);                  \
    } while (0)

static void ask_for_other_views(struct view_master *master) {
    struct rt_error err = {0};
    REFUSED(give_work(master, 3, &err), "pi1 has no place in view 3 of the run");
    REFUSED(settle(master, 2, &err), "pi1 is in view 3 of the run, and view 2 is older");
    CHECK_OK(settle(master, 3, &err));
    REFUSED(give_work(master, 1, &err), "pi1 has no place in view 1 of the run");
    REFUSED(give_work(master, 4, &err), "pi1 has no place in view 4 of the run");
    CHECK_OK(give_work(master, 3, &err));
    CHECK_OK(settle(master, 4, &err)); /* what it was told for view 3 does not count in view 4 */
    REFUSED(rt_cluster_ask(master->cluster, 0, RT_MESSAGE_GO, NULL, 0, RT_MESSAGE_READY, &err),
            "told to start without a job");
    REFUSED(settle(master, 3, &err), "pi1 is in view 4 of the run, and view 3 is older");
}

static void call_between_views(struct cluster_place *place, struct rt_endpoint *endpoint) {
    struct view_master master;
    struct rt_error err;
    struct rt_hello stranger = a_master(7);
    stranger.token[0] = 1;
    view_open(&master, place, endpoint, 2);
    const uint32_t run = rt_cluster_run(master.cluster);
    view_form_all(&master, 1, 0);
    /* while it works */
    refused(endpoint, stranger, run + 1, "pi1 is busy with a run of mem:0");
    refused(endpoint, a_master(1), run, "pi1 has been in view 1 of this run, and is called for view 1");
    refused(endpoint, a_node(2, RT_LABEL_PREVIOUS, 1), run, "pi1 does not expect a link of that run");
    CHECK(view_round(&master, 0) == 2);
    view_leave(&master);
    view_pass(&master, 1);
    /* while it waits */
    refused(endpoint, a_master(1), run, "pi1 has been in view 1 of this run, and is called for view 1");
    refused(endpoint, a_node(2, RT_LABEL_PREVIOUS, 1), run, "pi1 does not expect a link of that run");
    refused(endpoint, a_node(2, RT_LABEL_PREVIOUS, 2), run, "pi1 does not expect a link of that run");
    CHECK(place->world->place[1].ends == 0);
    /* while another is formed */
    view_reopen(&master, 3, NULL, 5);
    refused(endpoint, a_master(2), run, "pi1 has been in view 3 of this run, and is called for view 2");
    refused(endpoint, a_master(3), run, "pi1 already takes part in this run: it was named twice");
    ask_for_other_views(&master);
    refused(endpoint, a_node(2, RT_LABEL_PREVIOUS, 1), run,
            "pi1 is in view 4 of the run, and the link is of view 1");
    refused(endpoint, a_node(2, RT_LABEL_PREVIOUS, 9), run,
            "pi1 is in view 4 of the run, and the link is of view 9");
    CHECK_OK(view_form(&master, 4, 12, (size_t[]){0, 1}, 2, &err));
    CHECK(view_round(&master, 0) == 2 && view_nodes[1].held.views == 2 && view_nodes[1].made == 1);
    CHECK(view_round(&master, VIEW_STOP) == VIEW_STOP);
    view_close(&master);
    CHECK(place->world->place[1].ends == 1);
}

TEST(messages_of_other_views_and_other_runs) {
    view_run(2, 30, 0, call_between_views);
}

/* Who knows the number of a run, and not its token. */
static void call_without_the_token(struct cluster_place *place, struct rt_endpoint *endpoint) {
    struct view_master master;
    struct rt_error err;
    struct rt_hello stranger = a_master(7), node = a_node(2, RT_LABEL_PREVIOUS, 3);
    stranger.token[15] = node.token[0] = 1;
    view_open(&master, place, endpoint, 2);
    const uint32_t run = rt_cluster_run(master.cluster);
    view_form_all(&master, 1, 0);
    refused(endpoint, stranger, run, "pi1 does not know this master: its token is not that of the run");
    CHECK(view_round(&master, 0) == 2 && !view_nodes[1].seen_recall);
    view_leave(&master);
    view_pass(&master, 1);
    refused(endpoint, stranger, run, "pi1 does not know this master: its token is not that of the run");
    view_reopen(&master, 3, NULL, 5);
    refused(endpoint, stranger, run, "pi1 does not know this master: its token is not that of the run");
    CHECK_OK(settle(&master, 3, &err));
    refused(endpoint, node, run, "pi1 does not expect a link of that run");
    CHECK_OK(view_form(&master, 3, 12, (size_t[]){0, 1}, 2, &err));
    CHECK(view_round(&master, 0) == 2 && view_nodes[1].held.views == 2 && view_nodes[1].made == 1);
    CHECK(view_round(&master, VIEW_STOP) == VIEW_STOP);
    view_close(&master);
}

TEST(messages_without_the_token_of_the_run) {
    view_run(2, 30, 0, call_without_the_token);
}

/* ---- the master is gone ---- */

/* A node waits for its master, and for no other, until its time is over. */
static void wait_for_the_master(struct cluster_place *place, struct rt_endpoint *endpoint) {
    struct view_master master, other, resumed;
    struct rt_hello stranger = a_master(1);
    stranger.token[0] = 1;
    view_nodes[1].orphaned = view_nodes[2].orphaned = 20;
    view_open(&master, place, endpoint, 2);
    const uint32_t run = rt_cluster_run(master.cluster);
    view_form_all(&master, 1, 0);
    view_leave(&master);
    view_pass(&master, 1);
    CHECK(cluster_told(&place->world->place[1], "its master is waited for, for 20 s"));
    refused(endpoint, stranger, run + 1,
            "pi1 is busy: it waits for the master of a run of mem:0, for 19 s more");
    refused(endpoint, stranger, run, "pi1 is busy: it waits for the master of a run of mem:0");
    CHECK(place->world->place[1].ends == 0);
    /* the master, started again: a new number, the same token */
    view_open(&resumed, place, endpoint, 2);
    CHECK(place->world->place[1].ends == 1 && view_member(&resumed, 0)->welcome.view == 0);
    view_form_all(&resumed, 1, 0);
    CHECK(view_round(&resumed, 0) == 2);
    view_leave(&resumed);
    view_pass(&resumed, 18);
    CHECK(place->world->place[1].ends == 1);
    view_pass(&resumed, 3);
    CHECK(place->world->place[1].ends == 2);
    CHECK(cluster_told(&place->world->place[1], "its master has not come back for 20 s"));
    place->world->token[0] = 1;
    view_open(&other, place, endpoint, 2);
    view_close(&other);
    view_close(&resumed);
    view_close(&master);
}

TEST(a_node_waits_for_the_master_that_it_has_lost) {
    view_run(2, 0, 0, wait_for_the_master);
}

/* It has been started again before its node has missed it: the node is called until it has. */
static void call_too_early(struct cluster_place *place, struct rt_endpoint *endpoint) {
    struct view_master master, resumed;
    view_nodes[1].looks_away = true;
    view_open(&master, place, endpoint, 2);
    view_form_all(&master, 1, 0);
    refused(endpoint, a_master(1), rt_cluster_run(master.cluster) + 1,
            "pi1 still works for this run: it has not missed its former master");
    CHECK(view_round(&master, 0) == 2);
    view_nodes[1].looks_away = false;
    view_leave(&master);
    view_open(&resumed, place, endpoint, 2);
    view_form_all(&resumed, 1, 0);
    CHECK(view_round(&resumed, 0) == 2 && view_round(&resumed, VIEW_STOP) == VIEW_STOP);
    CHECK(!view_nodes[1].seen_recall);
    view_close(&resumed);
    view_close(&master);
}

TEST(a_node_that_works_is_not_taken_away) {
    view_run(2, 0, 0, call_too_early);
}

/* A session that waits for its next view gives way to a run that is there. */
static void call_for_another_run(struct cluster_place *place, struct rt_endpoint *endpoint) {
    struct view_master master, resumed;
    view_open(&master, place, endpoint, 2);
    view_form_all(&master, 1, 0);
    view_leave(&master);
    view_pass(&master, 1);
    CHECK(place->world->place[1].ends == 0);
    place->world->token[0] = 1;
    view_open(&resumed, place, endpoint, 2);
    CHECK(place->world->place[1].ends == 1);
    view_form_all(&resumed, 1, 0);
    CHECK(view_round(&resumed, 0) == 2 && view_round(&resumed, VIEW_STOP) == VIEW_STOP);
    view_close(&resumed);
    view_close(&master);
    CHECK(place->world->place[1].ends == 2);
}

TEST(another_run_takes_the_place_of_a_session_that_waits) {
    view_run(2, 30, 0, call_for_another_run);
}

/* ---- the master thinks again, before the node sees that it has left ---- */

static void take_the_place(struct cluster_place *place, struct rt_endpoint *endpoint) {
    struct view_master master;
    struct rt_error err = {0};
    struct rt_talk talk = {0};
    struct rt_hello hello = a_master(5);
    struct rt_assigned_node parts[3] = {{0, 1, 2}};
    struct rt_assign plan = {.index = 1, .view = 5, .nodes = 3, .node = parts};
    view_open(&master, place, endpoint, 2);
    view_form_all(&master, 1, 0);
    view_leave(&master);
    view_pass(&master, 1);
    view_reopen(&master, 3, NULL, 5);
    CHECK_OK(settle(&master, 3, &err));
    snprintf(hello.version, sizeof hello.version, "1");
    call(endpoint, &talk, &hello, rt_cluster_run(master.cluster));
    hear(endpoint, &talk, &rt_cluster_member(master.cluster, 0)->talk);
    CHECK(talk.ready && talk.message.type == RT_MESSAGE_WELCOME);
    /* nothing is left of view 3: neither its place nor its master */
    rt_talk_next(&talk);
    CHECK_OK(rt_tree_create(RT_TREE_MAP, NULL, "test", 0, &plan.job, &err));
    talk.run = rt_cluster_run(master.cluster);
    rt_talk_send(&talk, &(struct rt_message){.type = RT_MESSAGE_ASSIGN},
                 rt_assign_encode(&plan, rt_talk_body(&talk), RT_MAX_CONTROL));
    rt_tree_destroy(plan.job);
    hear(endpoint, &talk, &rt_cluster_member(master.cluster, 0)->talk);
    CHECK(talk.ready);
    REFUSED(rt_talk_expect(&talk, RT_MESSAGE_READY, "it", &err), "pi1 has no place in view 5 of the run");
    REFUSED(settle(&master, 3, &err), "pi1 (mem:1): closed the link");
    rt_talk_close(&talk);
    view_reopen(&master, 6, NULL, 5);
    CHECK(!view_member(&master, 0)->gone && view_member(&master, 0)->welcome.view == 1);
    CHECK_OK(view_form(&master, 6, 1, (size_t[]){0, 1}, 2, &err));
    CHECK(view_round(&master, VIEW_STOP) == VIEW_STOP);
    view_close(&master);
    CHECK(place->world->place[1].ends == 1);
}

TEST(a_higher_view_takes_the_place_of_the_one_that_is_formed) {
    view_run(2, 30, 0, take_the_place);
}

/* ---- several who call it back from its work ---- */

static void recall_often(struct cluster_place *place, struct rt_endpoint *endpoint) {
    struct view_master master;
    struct rt_error err;
    struct rt_talk calls[3] = {{0}};
    struct rt_event event;
    view_nodes[1].slow = 4;
    view_open(&master, place, endpoint, 2);
    const uint32_t run = rt_cluster_run(master.cluster);
    view_form_all(&master, 1, 0);
    for (uint32_t k = 0; k < 3; k++) {
        struct rt_hello hello = a_master((uint32_t[]){3, 5, 4}[k]);
        snprintf(hello.version, sizeof hello.version, "1");
        call(endpoint, &calls[k], &hello, run);
        view_pass(&master, 0.1);
    }
    view_pass(&master, 1);
    CHECK(atomic_load(&view_nodes[1].work.links) == 3); /* of the ring, and of the one that recalls it */
    CHECK(!cluster_told(&place->world->place[1], "goes on"));
    const double until = rt_endpoint_now(endpoint) + 12;
    while (rt_endpoint_wait(endpoint, until, &event))
        for (size_t k = 0; k < 3; k++)
            rt_talk_event(&calls[k], &event);
    CHECK(view_nodes[1].seen_recall && cluster_told(&place->world->place[1], "goes on with view 5"));
    CHECK(calls[1].ready && calls[1].message.type == RT_MESSAGE_WELCOME);
    CHECK_MSG(calls[0].dead && !calls[0].ready, "the first was answered with %u", calls[0].message.type);
    CHECK(calls[2].ready && rt_talk_expect(&calls[2], RT_MESSAGE_WELCOME, "it", &err) != RT_OK);
    for (size_t k = 0; k < 3; k++)
        rt_talk_close(&calls[k]);
    view_close(&master);
}

TEST(the_highest_view_is_answered) {
    view_run(2, 30, 0, recall_often);
}

/* ---- a node that does not tell the truth, or has no time ---- */

static void lie(struct cluster_place *place, struct rt_endpoint *endpoint) {
    struct rt_talk talks[8] = {{0}};
    struct rt_event event;
    struct rt_error err;
    size_t calls = 0;
    CHECK_OK(rt_endpoint_listen(endpoint, "mem:*", &err));
    while (!atomic_load(&place->stop) && rt_endpoint_wait(endpoint, 200, &event)) {
        if (event.kind == RT_EVENT_ACCEPTED && calls < 8) {
            CHECK_OK(rt_talk_open(event.link, &talks[calls++], &err));
            continue;
        }
        for (size_t i = 0; i < calls; i++) {
            struct rt_talk *talk = &talks[i];
            if (!rt_talk_event(talk, &event) || !talk->ready || talk->message.type != RT_MESSAGE_HELLO)
                continue;
            struct rt_welcome welcome = {.view = i == 0 ? 0 : 7, .cores = 1, .name = "liar", .version = "1"};
            memcpy(welcome.answer, place->world->answer, sizeof welcome.answer);
            talk->run = talk->message.run;
            if (i == 1)
                rt_talk_put_off(talk, 0, "no time");
            else
                rt_talk_send(talk, &(struct rt_message){.type = RT_MESSAGE_WELCOME},
                             rt_welcome_encode(&welcome, rt_talk_body(talk), RT_MAX_CONTROL));
            rt_talk_next(talk);
        }
    }
    for (size_t i = 0; i < calls; i++)
        rt_talk_close(&talks[i]);
    view_nodes[2].made = (unsigned)calls;
}

static void reopen_with_a_liar(struct cluster_place *place, struct rt_endpoint *endpoint) {
    struct view_master master;
    struct rt_error err;
    view_open(&master, place, endpoint, 2);
    CHECK_OK(view_form(&master, 1, 0, (size_t[]){0}, 1, &err));
    view_leave(&master);
    view_reopen(&master, 2, NULL, 5);
    CHECK(!view_member(&master, 0)->gone && view_member(&master, 1)->gone);
    CHECK_MSG(strcmp(view_member(&master, 1)->lost.text,
                     "liar (mem:2) says that it has worked in view 7, and view 2 is only formed") == 0,
              "%s", view_member(&master, 1)->lost.text);
    CHECK_OK(view_form(&master, 2, 3, (size_t[]){0}, 1, &err));
    CHECK(view_round(&master, 0) == 1 && view_round(&master, VIEW_STOP) == VIEW_STOP);
    view_close(&master);
}

TEST(a_node_that_claims_a_view_that_there_was_not) {
    static struct cluster_world world;
    cluster_init(&world, 3, 0);
    memset(view_nodes, 0, sizeof view_nodes);
    view_nodes[1].keep = 30;
    world.place[0].program = reopen_with_a_liar;
    world.place[1].program = view_serve;
    world.place[2].program = lie;
    cluster_run(&world, 100);
    CHECK_MSG(view_nodes[2].made == 3, "it was called %u times", view_nodes[2].made);
    cluster_deinit(&world);
}

TEST_MAIN()
