/* Rings side by side over the network in memory; see hybridrig.h. */
#include "support/hybridrig.h"

#include "run/hybrid/position.h"
#include "run/job_write.h"
#include "run/ring/input_pipeline.h"
#include "run/roles.h"
#include "run/strategy.h"
#include "support/test.h"

static const char mlp[] = "{input: 12, loss: cross_entropy, layers: [{dense: 16}, tanh, {dense: 14}, "
                          "{dropout: 0.2}, {dense: 12}, tanh, {dense: 5}]}";

/* ---- opening ------------------------------------------------------------------------------------------- */

static rt_status parse_spec(struct hybrid_run *run, struct rt_error *err) {
    const struct hybrid_shape *shape = &run->shape;
    char text[1000];
    snprintf(text, sizeof text,
             "{model: %s, data: {train: {csv: none.csv}, send: true}, train: {seed: 5, batch: %zu, shards: "
             "%zu, micro_batch: %zu, clip_norm: %g, optimizer: %s}, cluster: {nodes: %zu, patience: %g, "
             "strategy: {hybrid: {rings: %zu, exchange: %s, wfbp: %s%s%s}}}}",
             shape->model, shape->batch, shape->shards, shape->micro_batch, shape->clip_norm,
             shape->optimizer, run->nodes, shape->timeout, shape->rings, shape->strategy,
             shape->late ? "off" : "on", shape->options ? ", " : "", shape->options ? shape->options : "");
    return rt_spec_parse(text, strlen(text), "run.yaml", NULL, 0, &run->spec, err);
}

/* That of ring 0 as rt_ring_setup_plan leaves it, and that of all rings. */
static rt_status make_jobs(struct hybrid_run *run, struct rt_error *err) {
    static const struct rt_ring_options options = {.slots = -1};
    struct rt_training_config ring = run->config;
    struct rt_exchange_options its;
    struct rt_job_facts facts = {.fingerprint = "",
                                 .cost = {.latency = 1e-4, .bandwidth = 1e9, .adding = 5e-10},
                                 .options = &its,
                                 .rings = (uint16_t)run->shape.rings};
    struct rt_job *job;
    ring.options = &options;
    RT_TRY(rt_hybrid_strategy(&run->options, &facts.strategy, &its, err));
    RT_TRY(rt_job_write_training(&ring, NULL, NULL, &job, err));
    struct rt_job values = *job;
    values.ring.parts = rt_hybrid_shares(facts.strategy, &its) ? (int64_t)run->shape.rings : 1;
    values.ring.with_servers = rt_hybrid_has_servers(facts.strategy, &its);
    const rt_status status = rt_job_write(&values, &run->job, err);
    rt_job_destroy(job);
    return status == RT_OK ? rt_job_write_training(&ring, run->job, &facts, &run->all, err) : status;
}

rt_status hybrid_open(const struct hybrid_shape *given, struct hybrid_run *run, struct rt_error *err) {
    *run = (struct hybrid_run){.shape = *given, .nodes = given->rings * given->places};
    struct hybrid_shape *shape = &run->shape;
    struct rt_strategy_choice choice = {0};
    shape->model = shape->model ? shape->model : mlp;
    shape->strategy = shape->strategy ? shape->strategy : "allreduce-rd";
    shape->optimizer = shape->optimizer ? shape->optimizer : "{sgd: {lr: 0.1}}";
    shape->timeout = shape->timeout > 0 ? shape->timeout : 60;
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
    run->options = *(const struct rt_exchange_options *)choice.settings;
    rt_strategy_choice_deinit(&choice);
    run->options.rings = (int64_t)shape->rings;
    run->config = (struct rt_training_config){
        .spec = run->spec,
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
        .per_epoch = rt_exchange_per_epoch(&run->options, run->rig.batches.per_epoch),
        .strategy = "hybrid",
        .options = &run->options};
    status = make_jobs(run, err);
    run->floats = calloc(rig_floats(&run->rig), sizeof(float));
    return status;
}

void hybrid_close(struct hybrid_run *run) {
    free(run->floats);
    rt_job_destroy(run->all);
    rt_job_destroy(run->job);
    rt_spec_destroy(run->spec);
    rig_close(&run->rig);
}

/* ---- what the parties do ------------------------------------------------------------------------------- */

static void ring_links(const struct hybrid_run *run, const struct rt_communicator *comm,
                       struct rt_link **next, struct rt_link **previous) {
    const size_t places = run->shape.places, place = comm->rank % places, first = comm->rank - place;
    *next = *previous = NULL;
    if (places == 1)
        return;
    *next = comm->links[first + (place + 1) % places];
    *previous = comm->links[first + (place + places - 1) % places];
}

static rt_status load(struct hybrid_run *run, struct rt_rings *rings, struct rt_ring *ring,
                      struct rt_error *err) {
    for (size_t i = 0; i < run->shape.begin; i++) {
        struct rt_step step;
        rt_status status = rt_trainer_step(run->rig.tiny.trainer, &step, err);
        if (status != RT_OK)
            return status;
    }
    rig_single(&run->rig, run->floats);
    rt_rings_loaded(rings, run->shape.begin);
    struct rig_words words = {run->floats, 0};
    return rt_ring_load(ring, 1 + run->rig.tiny.optim->type->state_tensors, run->shape.begin, rig_read,
                        &words, err);
}

static rt_status learn(struct hybrid_run *run, struct rt_endpoint *endpoint, struct rt_rings *rings,
                       struct rt_ring *ring, struct rt_error *err) {
    rt_status status = run->shape.begin ? load(run, rings, ring, err) : RT_OK;
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
    if (status == RT_OK) {
        CHECK(rt_rings_drain(rings));
        status = rt_rings_rest(rings, ring, err);
    }
    if (run->shape.pauses > 0)
        rt_endpoint_sleep(endpoint, rt_endpoint_now(endpoint) + run->shape.pauses);
    if (status == RT_OK)
        status = rig_gather(&run->rig, ring, run->floats, err);
    if (status == RT_OK)
        status = rt_rings_metrics(rings, ring, false, run->rows, &fresh, err);
    if (status == RT_OK)
        status = rt_ring_metrics(ring, run->rows, err);
    run->counted = rt_rings_counts(rings, &run->counts);
    return status == RT_OK ? rt_rings_stop(rings, ring, err) : status;
}

static void be_master(struct hybrid_run *run, struct rt_communicator *comm) {
    struct rt_error *err = &run->errors[0];
    struct rt_rings *rings = NULL;
    struct rt_ring *ring = NULL;
    struct rt_input_pipeline pipeline;
    struct rt_ring_setup setup = {.who = {.endpoint = comm->endpoint, .run = MESH_RUN},
                                  .plan = &run->rig.plan};
    struct rt_ring_settings settings = {.job = run->job,
                                        .plan = &run->rig.plan,
                                        .device = &run->rig.device,
                                        .endpoint = comm->endpoint,
                                        .run = MESH_RUN,
                                        .timeout = run->shape.timeout};
    ring_links(run, comm, &settings.next, &settings.previous);
    rt_status status =
        rt_input_pipeline_open(&run->config, rt_job_micro_rows(run->job), NULL, &pipeline, err);
    if (status == RT_OK)
        status = rt_rings_create(&run->config, &rings, err);
    for (size_t i = 1; status == RT_OK && i < run->shape.rings; i++)
        rings->links[i] = comm->links[i * run->shape.places];
    settings.source = rt_input_pipeline_source(&pipeline);
    if (status == RT_OK)
        status = rt_rings_open(rings, &setup, &settings.source, &settings.inter_ring, err);
    if (status == RT_OK)
        status = rt_ring_create(&settings, &ring, err);
    if (status == RT_OK)
        status = learn(run, comm->endpoint, rings, ring, err);
    run->status[0] = status;
    run->lost = ring ? rt_ring_lost(ring, NULL) : RT_NODE_NONE;
    run->ended[0] = rt_endpoint_now(comm->endpoint);
    if (status != RT_OK)
        rt_rings_fail(rings, status, err->text);
    rt_rings_hang_up(rings);
    rt_ring_destroy(ring);
    rt_rings_destroy(rings);
    rt_input_pipeline_close(&pipeline);
}

static void be_node(struct hybrid_run *run, struct rt_communicator *comm) {
    static atomic_int go_on;
    const size_t places = run->shape.places, rank = comm->rank;
    const struct rt_node_device device = {.ring = {.kernels = "auto", .threads = 1}};
    struct rt_link *links[MESH_MOST] = {NULL};
    struct rt_assigned_node nodes[MESH_MOST];
    for (size_t i = 0; i < run->nodes; i++) {
        const struct rt_plan_node *node = &run->rig.plan_nodes[i % places];
        nodes[i] = (struct rt_assigned_node){
            .first = (uint32_t)node->first, .count = (uint32_t)node->count, .slots = (uint32_t)node->slots};
        links[i] = i % places == rank % places ? comm->links[i] : NULL;
    }
    const struct rt_assign asked = {
        .index = (uint16_t)rank, .nodes = run->nodes, .node = nodes, .job = run->all->tree};
    const bool stops = run->shape.fault == IS_STOPPED && rank == run->shape.who;
    struct rt_session session = {.endpoint = comm->endpoint,
                                 .run = MESH_RUN,
                                 .index = (uint16_t)rank,
                                 .count = (uint16_t)run->nodes,
                                 .links = links,
                                 .stop = stops ? &run->stop : &go_on,
                                 .user = (void *)(uintptr_t)&device};
    ring_links(run, comm, &session.next, &session.previous);
    uint64_t memory;
    rt_status status = rt_hybrid_node_role.assign(&session, &asked, &memory, &run->errors[rank]);
    if (status == RT_OK)
        status = rt_hybrid_node_role.run(&session, &run->errors[rank]);
    run->status[rank] = status;
    run->ended[rank] = rt_endpoint_now(comm->endpoint);
    rt_hybrid_node_role.end(&session);
}

static void hang_up(struct rt_communicator *comm) {
    rt_endpoint_sleep(comm->endpoint, rt_endpoint_now(comm->endpoint) + 1); /* all have joined by then */
    for (uint16_t i = 0; i < comm->count; i++)
        rt_link_close(comm->links[i]);
}

/* Sends a head of zeros to every link that has room for one. */
static void talk_nonsense(struct rt_communicator *comm) {
    struct rt_send sends[MESH_MOST][RT_CHANNELS];
    for (uint16_t i = 0; i < comm->count; i++)
        for (unsigned k = 0; comm->links[i] && k < RT_CHANNELS; k++) {
            sends[i][k] = (struct rt_send){.channel = k, .head_bytes = RT_MESSAGE_HEAD};
            rt_link_send(comm->links[i], &sends[i][k]);
        }
    rt_endpoint_sleep(comm->endpoint, rt_endpoint_now(comm->endpoint) + 500);
    for (uint16_t i = 0; i < comm->count; i++)
        rt_link_close(comm->links[i]);
}

void hybrid_attend(void *user, struct rt_communicator *comm) {
    struct hybrid_run *run = user;
    const enum hybrid_fault fault = comm->rank == run->shape.who ? run->shape.fault : NONE;
    if (fault == FREEZES) {
        rt_memnet_freeze(comm->endpoint, run->shape.freezes, run->shape.thaws);
        rt_memnet_freeze_again(comm->endpoint, run->shape.again);
        if (run->shape.pretends)
            rt_memnet_pretend(comm->endpoint, run->shape.freezes, run->shape.note);
    }
    if (fault == SLEEPS)
        rt_endpoint_sleep(comm->endpoint, rt_endpoint_now(comm->endpoint) + 500);
    else if (fault == TALKS_NONSENSE)
        talk_nonsense(comm);
    else if (fault == HANGS_UP)
        hang_up(comm);
    else if (comm->rank == 0)
        be_master(run, comm);
    else
        be_node(run, comm);
}
