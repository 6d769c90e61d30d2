/*
 * Rings side by side, over the network in memory, with the roles that real nodes have: the parameters of one
 * device to the bit, whatever the shape, the collective and the delays; and an end in bounded time, with a
 * sentence that names the node, when one of them does not do its part. Heads get their examples from the
 * master (data.send), so that nothing is read from files. Rings of two nodes, where one node is both
 * neighbours, are left to tests/cluster/test_hybrid.sh.
 */
#include "support/mesh.h"
#include "support/ringrig.h"
#include "support/test.h"
#include "train/hybrid/inside.h"
#include "train/hybrid/job.h"
#include "train/ring/job_tree.h"
#include "train/roles.h"
#include "train/strategy.h"

static const char mlp[] = "{input: 12, loss: cross_entropy, layers: [{dense: 16}, tanh, {dense: 14}, "
                          "{dropout: 0.2}, {dense: 12}, tanh, {dense: 5}]}";

static const char tiny_layers[] =
    "{input: 1, loss: cross_entropy, layers: [{dense: 1}, tanh, {dense: 1}, {dense: 2}]}";

enum fault { NONE, SLEEPS, HANGS_UP, TALKS_NONSENSE, IS_STOPPED };

/* Zeros mean: allreduce-rd, sgd, no tail, no clipping, patience 60. */
struct shape {
    const char *model; /* NULL: the one above */
    size_t rings, places, tail;
    const char *way;
    bool late; /* wfbp=off */
    size_t examples, batch, micro_batch, shards, updates;
    const char *optimizer;
    double clip_norm;
    size_t begin; /* ring 0 is loaded with the numbers after so many updates */
    double patience;
    enum fault fault;
    uint16_t who; /* it is */
};

struct run {
    struct shape shape;
    struct rig rig; /* one device, the data, and the plan of a ring */
    struct rt_spec *spec;
    struct rt_way_options options;
    struct rt_lesson lesson;
    struct rt_job *job;   /* of ring 0 */
    struct rt_tree *tree; /* what every node gets */
    float *floats;        /* as gathered from ring 0 */
    double loss;
    size_t correct, nodes;
    struct rt_metrics_row rows[MESH_MOST];
    size_t lost; /* whom the master blames */
    atomic_int stop;
    rt_status status[MESH_MOST];
    struct rt_error errors[MESH_MOST];
    double ended[MESH_MOST];
};

/* ---- opening ------------------------------------------------------------------------------------------- */

static rt_status parse_spec(struct run *run, struct rt_error *err) {
    const struct shape *shape = &run->shape;
    char text[1000];
    snprintf(text, sizeof text,
             "{model: %s, data: {train: {csv: none.csv}, send: true}, train: {seed: 5, batch: %zu, shards: "
             "%zu, micro_batch: %zu, clip_norm: %g, optimizer: %s}, cluster: {nodes: %zu, patience: %g, "
             "strategy: {hybrid: {rings: %zu, exchange: %s, wfbp: %s}}}}",
             shape->model, shape->batch, shape->shards, shape->micro_batch, shape->clip_norm,
             shape->optimizer, run->nodes, shape->patience, shape->rings, shape->way,
             shape->late ? "off" : "on");
    return rt_spec_parse(text, strlen(text), "run.yaml", NULL, 0, &run->spec, err);
}

/* As rt_formation_plan leaves it. */
static rt_status make_job(struct run *run, struct rt_error *err) {
    static const struct rt_ring_options options = {.slots = -1};
    struct rt_lesson ring = run->lesson;
    struct rt_tree *tree;
    ring.options = &options;
    rt_status status = rt_job_tree(&ring, &tree, err);
    if (status != RT_OK)
        return status;
    status = rt_job_put(tree, "parts", err, "%zu", run->shape.rings);
    if (status == RT_OK)
        return rt_job_create(tree, &run->job, err);
    rt_tree_destroy(tree);
    return status;
}

static rt_status open_run(const struct shape *given, struct run *run, struct rt_error *err) {
    *run = (struct run){.shape = *given, .nodes = given->rings * given->places};
    struct shape *shape = &run->shape;
    struct rt_strategy_choice choice = {0};
    shape->model = shape->model ? shape->model : mlp;
    shape->way = shape->way ? shape->way : "allreduce-rd";
    shape->optimizer = shape->optimizer ? shape->optimizer : "{sgd: {lr: 0.1}}";
    shape->patience = shape->patience > 0 ? shape->patience : 60;
    const struct rig_settings settings = {.model = shape->model,
                                          .optimizer = shape->optimizer,
                                          .nodes = shape->places,
                                          .tail = shape->tail,
                                          .slots = 3,
                                          .examples = shape->examples,
                                          .batch = shape->batch,
                                          .micro_batch = shape->micro_batch,
                                          .shards = shape->shards,
                                          .clip_norm = shape->clip_norm,
                                          .updates = shape->updates};
    rt_status status = rig_open(&settings, &run->rig, err);
    if (status == RT_OK)
        status = parse_spec(run, err);
    if (status == RT_OK)
        status = rt_strategy_read(run->spec, &choice, err);
    if (status != RT_OK)
        return status;
    run->options = *(const struct rt_way_options *)choice.settings;
    rt_strategy_choice_deinit(&choice);
    run->options.rings = (int64_t)shape->rings;
    run->lesson = (struct rt_lesson){.spec = run->spec,
                                     .network = &run->rig.tiny.network,
                                     .set = &run->rig.tiny.set,
                                     .scaling = &run->rig.tiny.scaling,
                                     .target = RT_TARGET_CLASSES,
                                     .optim = run->rig.tiny.optim,
                                     .schedule = &run->rig.tiny.schedule,
                                     .settings = {.seed = 5,
                                                  .batch = shape->batch,
                                                  .micro_batch = shape->micro_batch,
                                                  .shards = shape->shards,
                                                  .shuffle = true,
                                                  .clip_norm = shape->clip_norm,
                                                  .updates = shape->updates},
                                     .per_epoch = run->rig.batches.per_epoch,
                                     .strategy = "hybrid",
                                     .options = &run->options};
    const struct rt_link_cost cost = {.latency = 1e-4, .bandwidth = 1e9, .adding = 5e-10};
    status = make_job(run, err);
    if (status == RT_OK)
        status = rt_hybrid_job_tree(&run->lesson, "", &cost, run->job->tree, &run->tree, err);
    run->floats = calloc(rig_floats(&run->rig), sizeof(float));
    return status;
}

static void close_run(struct run *run) {
    free(run->floats);
    rt_tree_destroy(run->tree);
    rt_job_destroy(run->job);
    rt_spec_destroy(run->spec);
    rig_close(&run->rig);
}

/* ---- what the parties do ------------------------------------------------------------------------------- */

static void ring_links(const struct run *run, const struct rt_party *party, struct rt_link **next,
                       struct rt_link **previous) {
    const size_t places = run->shape.places, place = party->rank % places, first = party->rank - place;
    *next = *previous = NULL;
    if (places == 1)
        return;
    *next = party->links[first + (place + 1) % places];
    *previous = party->links[first + (place + places - 1) % places];
}

static rt_status load(struct run *run, struct rt_ring *ring, struct rt_error *err) {
    for (size_t i = 0; i < run->shape.begin; i++) {
        struct rt_step step;
        rt_status status = rt_trainer_step(run->rig.tiny.trainer, &step, err);
        if (status != RT_OK)
            return status;
    }
    rig_single(&run->rig, run->floats);
    struct rig_words words = {run->floats, 0};
    return rt_ring_load(ring, 1 + run->rig.tiny.optim->type->state_words, run->shape.begin, rig_read, &words,
                        err);
}

static rt_status learn(struct run *run, struct rt_rings *rings, struct rt_ring *ring, struct rt_error *err) {
    rt_status status = run->shape.begin ? load(run, ring, err) : RT_OK;
    for (size_t i = run->shape.begin; status == RT_OK && i < run->shape.updates; i++) {
        struct rt_ring_update update;
        status = rt_rings_step(rings, ring, &update, err);
        if (status != RT_OK)
            return status;
        CHECK(update.update == i + 1);
        run->loss += update.loss;
        run->correct += update.correct;
        atomic_store(&run->stop, i > 0);
    }
    bool fresh = false;
    if (status == RT_OK)
        status = rig_gather(&run->rig, ring, run->floats, err);
    if (status == RT_OK)
        status = rt_rings_metrics(rings, ring, false, run->rows, &fresh, err);
    if (status == RT_OK)
        status = rt_ring_metrics(ring, run->rows, err);
    return status == RT_OK ? rt_rings_stop(rings, ring, err) : status;
}

static void be_master(struct run *run, struct rt_party *party) {
    struct rt_error *err = &run->errors[0];
    struct rt_rings *rings = NULL;
    struct rt_ring *ring = NULL;
    struct rt_supply supply;
    struct rt_formation formation = {.who = {.endpoint = party->endpoint, .run = MESH_RUN}};
    struct rt_ring_settings settings = {.job = run->job,
                                        .plan = &run->rig.plan,
                                        .device = &run->rig.device,
                                        .endpoint = party->endpoint,
                                        .run = MESH_RUN,
                                        .patience = run->shape.patience};
    ring_links(run, party, &settings.next, &settings.previous);
    rt_status status =
        rt_supply_open(&run->lesson, rt_job_micro_rows(run->job), party->endpoint, &supply, err);
    if (status == RT_OK)
        status = rt_rings_create(&run->lesson, &rings, err);
    for (size_t i = 1; status == RT_OK && i < run->shape.rings; i++)
        rings->links[i] = party->links[i * run->shape.places];
    settings.source = rt_supply_source(&supply);
    if (status == RT_OK)
        status = rt_rings_open(rings, &formation, &settings.source, &settings.across, err);
    if (status == RT_OK)
        status = rt_ring_create(&settings, &ring, err);
    if (status == RT_OK)
        status = learn(run, rings, ring, err);
    run->status[0] = status;
    run->lost = ring ? rt_ring_lost(ring) : 0;
    run->ended[0] = rt_endpoint_now(party->endpoint);
    if (status != RT_OK)
        rt_rings_fail(rings, status, err->text);
    rt_rings_hang_up(rings);
    rt_ring_destroy(ring);
    rt_rings_destroy(rings);
    rt_supply_close(&supply);
}

static void be_node(struct run *run, struct rt_party *party) {
    static atomic_int go_on;
    const size_t places = run->shape.places, rank = party->rank;
    const struct rt_node_device device = {.ring = {.kernels = "auto", .threads = 1, .slowdown = 1}};
    struct rt_link *links[MESH_MOST] = {NULL};
    struct rt_assigned_node nodes[MESH_MOST];
    for (size_t i = 0; i < run->nodes; i++) {
        const struct rt_plan_node *node = &run->rig.plan_nodes[i % places];
        nodes[i] = (struct rt_assigned_node){
            .first = (uint32_t)node->first, .count = (uint32_t)node->count, .slots = (uint32_t)node->slots};
        links[i] = i % places == rank % places ? party->links[i] : NULL;
    }
    const struct rt_assign asked = {
        .index = (uint16_t)rank, .nodes = run->nodes, .node = nodes, .job = run->tree};
    const bool stops = run->shape.fault == IS_STOPPED && rank == run->shape.who;
    struct rt_session session = {.endpoint = party->endpoint,
                                 .run = MESH_RUN,
                                 .index = (uint16_t)rank,
                                 .count = (uint16_t)run->nodes,
                                 .links = links,
                                 .stop = stops ? &run->stop : &go_on,
                                 .user = (void *)(uintptr_t)&device};
    ring_links(run, party, &session.next, &session.previous);
    uint64_t memory;
    rt_status status = rt_hybrid_role.assign(&session, &asked, &memory, &run->errors[rank]);
    if (status == RT_OK)
        status = rt_hybrid_role.run(&session, &run->errors[rank]);
    run->status[rank] = status;
    run->ended[rank] = rt_endpoint_now(party->endpoint);
    rt_hybrid_role.end(&session);
}

static void hang_up(struct rt_party *party) {
    rt_endpoint_sleep(party->endpoint, rt_endpoint_now(party->endpoint) + 1); /* all have joined by then */
    for (uint16_t i = 0; i < party->count; i++)
        rt_link_close(party->links[i]);
}

/* Sends a head of zeros wherever there is room for one. */
static void talk_nonsense(struct rt_party *party) {
    struct rt_send sends[MESH_MOST][RT_CHANNELS];
    for (uint16_t i = 0; i < party->count; i++)
        for (unsigned k = 0; party->links[i] && k < RT_CHANNELS; k++) {
            sends[i][k] = (struct rt_send){.channel = k, .head_bytes = RT_MESSAGE_HEAD};
            rt_link_send(party->links[i], &sends[i][k]);
        }
    rt_endpoint_sleep(party->endpoint, rt_endpoint_now(party->endpoint) + 500);
    for (uint16_t i = 0; i < party->count; i++)
        rt_link_close(party->links[i]);
}

static void attend(void *user, struct rt_party *party) {
    struct run *run = user;
    const enum fault fault = party->rank == run->shape.who ? run->shape.fault : NONE;
    if (fault == SLEEPS)
        rt_endpoint_sleep(party->endpoint, rt_endpoint_now(party->endpoint) + 500);
    else if (fault == TALKS_NONSENSE)
        talk_nonsense(party);
    else if (fault == HANGS_UP)
        hang_up(party);
    else if (party->rank == 0)
        be_master(run, party);
    else
        be_node(run, party);
}

/* ---- the bits of one device ---------------------------------------------------------------------------- */

static void check_rows(const struct run *run) {
    for (size_t i = 0; i < run->nodes; i++) {
        const struct rt_metrics_row *row = &run->rows[i];
        const struct rt_plan_node *node = &run->rig.plan_nodes[i % run->shape.places];
        size_t params = 0;
        for (size_t k = node->first; k < node->first + node->count; k++)
            params += run->rig.tiny.network.model->layers[k]->param_count;
        CHECK(row->updates == run->shape.updates);
        CHECK_MSG(params == 0 ||
                      (row->sent[2][RT_CHANNEL_SECOND] > 0 && row->received[2][RT_CHANNEL_SECOND] > 0),
                  "node %zu has counted no gradients between rings", i);
    }
}

/* net: NULL: an ordinary one. */
static void compare_over(const struct rt_memnet_settings *net, const struct shape *shape, const char *what) {
    struct rt_error err;
    static struct run run;
    CHECK_OK(open_run(shape, &run, &err));
    mesh_in_memory(net, run.nodes, attend, &run);
    for (size_t i = 0; i < run.nodes; i++)
        CHECK_MSG(run.status[i] == RT_OK, "%s: node %zu: %s", what, i, run.errors[i].text);
    double loss = 0;
    size_t correct = 0;
    for (size_t i = shape->begin; i < shape->updates; i++) {
        struct rt_step step;
        CHECK_OK(rt_trainer_step(run.rig.tiny.trainer, &step, &err));
        loss += step.loss;
        correct += step.correct;
    }
    float *single = calloc(rig_floats(&run.rig), sizeof *single);
    rig_single(&run.rig, single);
    CHECK_MSG(memcmp(single, run.floats, rig_floats(&run.rig) * sizeof *single) == 0,
              "%s: %zu rings of %zu nodes by %s: other bits than one device", what, shape->rings,
              shape->places, run.shape.way);
    CHECK_MSG(run.correct == correct && run.loss > 0.999999 * loss && run.loss < 1.000001 * loss,
              "%s: a loss of %.17g instead of %.17g", what, run.loss, loss);
    check_rows(&run);
    free(single);
    close_run(&run);
}

static void compare(const struct shape *shape, const char *what) {
    compare_over(NULL, shape, what);
}

/* 7 batches of 16 and one of 3: of 4 or 8 rings some have no example in it. */
static const struct shape plain = {.rings = 2,
                                   .places = 3,
                                   .examples = 115,
                                   .batch = 16,
                                   .micro_batch = 2,
                                   .shards = 8,
                                   .updates = 10,
                                   .optimizer = "{adam: {lr: 0.01}}"};

TEST(any_shape) {
    static const size_t shapes[][2] = {{2, 1}, {4, 1}, {8, 1}, {2, 3}, {4, 3}, {2, 4}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        struct shape shape = plain;
        shape.rings = shapes[i][0];
        shape.places = shapes[i][1];
        compare(&shape, "plain");
    }
}

/* Frames that overtake one another between links, and links of very different speeds. */
static void shape_links(void *user, size_t from, size_t to, double now, double *latency, double *bandwidth,
                        double *random_delay) {
    (void)user, (void)now, (void)random_delay;
    *latency *= (double)(1 + (from * 7 + to * 3) % 11);
    *bandwidth /= (double)(1 + (from * 5 + to) % 7);
}

TEST(any_delays) {
    static const char *const ways[] = {"allreduce-rd", "ps-sync", "allreduce-hd"};
    for (uint64_t seed = 1; seed <= 6; seed++) {
        const struct rt_memnet_settings net = {
            .seed = seed, .latency = 1e-4, .bandwidth = 1e6, .random_delay = 5e-3, .shape = shape_links};
        struct shape shape = plain;
        shape.rings = seed % 2 ? 4 : 2;
        shape.places = seed % 2 ? 3 : 4;
        shape.tail = seed % 3;
        shape.way = ways[seed % 3];
        shape.clip_norm = seed % 4 ? 0 : 0.3;
        compare_over(&net, &shape, "delays");
    }
}

TEST(any_way_that_adds_in_the_tree) {
    static const char *const ways[] = {"allreduce-hd", "ps-sync", "ps-tree", "ps-shard"};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        struct shape shape = plain;
        shape.rings = 4;
        shape.way = ways[i];
        compare(&shape, "ways");
    }
}

TEST(layers_at_once_or_each_when_it_is_ready) {
    struct shape shape = plain;
    shape.late = true;
    compare(&shape, "wfbp=off");
    shape.rings = 4;
    shape.shards = 4; /* a ring has one slice */
    compare(&shape, "wfbp=off");
    shape.late = false;
    compare(&shape, "wfbp=on");
}

TEST(clipping_and_a_tail) {
    struct shape shape = plain;
    shape.clip_norm = 0.3;
    compare(&shape, "clipping");
    shape.tail = 2;
    compare(&shape, "clipping and a tail");
    shape.clip_norm = 0;
    shape.rings = 4;
    compare(&shape, "a tail");
}

TEST(numbers_that_were_loaded) {
    struct shape shape = plain;
    shape.begin = 4;
    compare(&shape, "loaded");
    shape.rings = 4;
    shape.tail = 1;
    compare(&shape, "loaded");
}

/* They may be there before a head has heard which batch comes next. */
TEST(numbers_that_come_before_the_first_ticket) {
    for (uint64_t seed = 1; seed <= 20; seed++) {
        const struct rt_memnet_settings net = {
            .seed = seed, .latency = 1e-4, .bandwidth = 1e9, .random_delay = 1e-2};
        struct shape shape = plain;
        shape.rings = 4;
        shape.places = seed % 4 ? 1 : 3;
        shape.updates = 6;
        shape.begin = 4;
        shape.optimizer = "{sgd: {lr: 0.1}}";
        compare_over(&net, &shape, "loaded, in any order");
    }
}

/* Fewer examples than rings in every batch. */
TEST(hardly_any_examples) {
    struct shape shape = plain;
    shape.rings = 4;
    shape.examples = 3;
    compare(&shape, "three examples");
}

/* Fewer parameters in a layer than rings: whoever would have a part of them has none. */
TEST(layers_of_two_parameters) {
    static const char *const ways[] = {"allreduce-rd", "allreduce-hd", "ps-sync", "ps-tree", "ps-shard"};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        struct shape shape = plain;
        shape.model = tiny_layers;
        shape.rings = 8;
        shape.places = 1;
        shape.way = ways[i];
        compare(&shape, "two parameters");
    }
}

/* ---- another order of additions ------------------------------------------------------------------------ */

/* Layers are exchanged each by itself, so it does not count where the rings are cut. */
TEST(the_cut_does_not_count) {
    static const char *const ways[] = {"allreduce-ring", "ps-peer", "ps-scatter", "allreduce-rd", "ps-hier"};
    struct rt_error err;
    static struct run run;
    for (size_t k = 0; k < 2 * sizeof ways / sizeof *ways; k++) {
        const size_t i = k / 2;
        const bool few = k % 2; /* parameters in a layer */
        float *before = NULL;
        for (size_t places = 1; places <= (few ? 3 : 4); places += places == 1 ? 2 : 1) {
            struct shape shape = plain;
            shape.rings = 3;
            shape.places = places;
            shape.way = ways[i];
            shape.late = places == 4;
            shape.model = few ? tiny_layers : NULL;
            CHECK_OK(open_run(&shape, &run, &err));
            mesh_in_memory(NULL, run.nodes, attend, &run);
            for (size_t n = 0; n < run.nodes; n++)
                CHECK_MSG(run.status[n] == RT_OK, "%s: node %zu: %s", ways[i], n, run.errors[n].text);
            const size_t bytes = rig_floats(&run.rig) * sizeof(float);
            if (before)
                CHECK_MSG(memcmp(before, run.floats, bytes) == 0,
                          "%s: rings of %zu nodes have other bits than rings of one", ways[i], places);
            else
                before = memcpy(malloc(bytes), run.floats, bytes);
            close_run(&run);
        }
        free(before);
    }
}

/* ---- somebody does not do his part --------------------------------------------------------------------- */

static void fail_with(enum fault fault, uint16_t who, const char *said) {
    struct rt_error err;
    static struct run run;
    struct shape shape = plain;
    char name[16];
    shape.updates = 200;
    shape.patience = 10;
    shape.fault = fault;
    shape.who = who;
    snprintf(name, sizeof name, "node %u", who);
    CHECK_OK(open_run(&shape, &run, &err));
    mesh_in_memory(NULL, run.nodes, attend, &run);
    CHECK_MSG(run.status[0] == RT_FAILED && strstr(run.errors[0].text, name) &&
                  strstr(run.errors[0].text, said),
              "fault %d of node %u: the master says: %s", (int)fault, who, run.errors[0].text);
    CHECK_MSG(run.lost == who, "fault %d of node %u: node %zu is blamed: %s", (int)fault, who, run.lost,
              run.errors[0].text);
    for (size_t i = 0; i < run.nodes; i++) {
        if (i == who)
            continue;
        CHECK_MSG(run.status[i] != RT_OK, "fault %d of node %u: node %zu is content", (int)fault, who, i);
        CHECK_MSG(run.ended[i] < 45, "fault %d of node %u: node %zu ends after %g seconds", (int)fault, who,
                  i, run.ended[i]);
    }
    close_run(&run);
}

/* In ring 0; the head of ring 1; another node of it. As far as the network can tell they answer. */
TEST(a_silent_node_is_named) {
    fail_with(SLEEPS, 1, "nothing came from it");
    fail_with(SLEEPS, 2, "nothing came from it");
    fail_with(SLEEPS, 3, "nothing came from it");
    fail_with(SLEEPS, 4, "nothing came from it");
    fail_with(SLEEPS, 5, "nothing came from it");
}

TEST(a_lost_node_is_named) {
    fail_with(HANGS_UP, 1, "");
    fail_with(HANGS_UP, 3, "");
    fail_with(HANGS_UP, 4, "");
}

TEST(a_node_that_talks_nonsense_is_named) {
    fail_with(TALKS_NONSENSE, 1, "");
    fail_with(TALKS_NONSENSE, 3, "");
    fail_with(TALKS_NONSENSE, 5, "node 5 (mem:5): what came is no message");
}

TEST(a_node_that_is_told_to_end_is_named) {
    fail_with(IS_STOPPED, 2, "the node is stopped");
    fail_with(IS_STOPPED, 3, "the node is stopped");
    fail_with(IS_STOPPED, 5, "the node is stopped");
}

TEST_MAIN()
