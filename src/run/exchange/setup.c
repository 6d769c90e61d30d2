/* Forming an exchange: nodes are found, joined as the strategy needs it, and told what to do. */
#include "run/exchange/inside.h"

#include "base/memory.h"
#include "base/sentence.h"
#include "learn/datasets.h"
#include "run/image.h"
#include "run/job_write.h"
#include <stdio.h>
#include <stdlib.h>

/* Bytes that a link is measured with. */
enum { PROBE_BYTES = 256 << 10 };

/* Seconds to add two floats, for the choice of a collective: a core of a small board. */
static const double adding = 5e-10;

struct needs {
    const struct rt_exchange_strategy *strategy;
    const struct rt_exchange_options *options;
    struct rt_roles roles;
};

static bool exchange_needs_link(const void *user, uint16_t a, uint16_t b) {
    const struct needs *needs = user;
    return rt_exchange_links(needs->strategy, needs->options, &needs->roles, a, b);
}

static rt_status exchange_add_mesh(void *user, struct rt_view *view, struct rt_error *err) {
    return rt_view_add_mesh(view, exchange_needs_link, user, err);
}

/* The slowest link decides, and all nodes must be told the same. */
static struct rt_link_cost exchange_cost_of(const struct rt_view *view) {
    struct rt_link_cost cost = {.latency = 1e-4, .bandwidth = 1e9, .adding = adding};
    bool measured = false;
    for (size_t k = 0; k < view->link_count; k++) {
        const struct rt_edge *edge = &view->edges[k];
        if (!(edge->bandwidth > 0))
            continue;
        if (!measured || edge->latency > cost.latency)
            cost.latency = edge->latency;
        if (!measured || edge->bandwidth < cost.bandwidth)
            cost.bandwidth = edge->bandwidth;
        measured = true;
    }
    return cost;
}

/* The links, measured once, where the strategy chooses by what they cost. */
static rt_status exchange_join(struct rt_exchange_learner *learner, struct rt_error *err) {
    const size_t nodes = learner->count;
    const bool measured = learner->cost.bandwidth > 0;
    struct needs needs = {.strategy = learner->config.exchange, .options = learner->options};
    uint16_t *worker;
    RT_TRY(rt_alloc(nodes, sizeof *worker, "the roles of the nodes", &worker, err));
    const struct rt_view_settings wanted = {.devices = learner->device,
                                            .nodes = nodes,
                                            .shape = exchange_add_mesh,
                                            .user = &needs,
                                            .probe_bytes =
                                                needs.strategy->mesh && !measured ? PROBE_BYTES : 0};
    rt_status status = rt_exchange_roles(needs.strategy, needs.options, nodes, worker, &needs.roles, err);
    needs.roles.runs = learner->runs;
    if (status == RT_OK)
        status = rt_membership_form_view(&learner->who, &wanted, err);
    free(worker);
    if (status != RT_OK)
        return status;
    if (!measured)
        learner->cost = exchange_cost_of(learner->who.view);
    for (size_t i = 1; i < nodes; i++)
        learner->links[i] = rt_view_take_link(learner->who.view, i, RT_LABEL_MESH);
    return RT_OK;
}

static rt_status exchange_assign(struct rt_exchange_learner *learner, struct rt_error *err) {
    const struct rt_training_config *config = &learner->config;
    const struct rt_datasets datasets = {.train = *config->set, .target = config->target};
    struct rt_job *job;
    if (!learner->fingerprint[0]) /* takes a while, and is the same in every view */
        rt_datasets_fingerprint(&datasets, config->scaling, learner->fingerprint);
    const struct rt_job_facts facts = {.fingerprint = learner->fingerprint,
                                       .cost = learner->cost,
                                       .strategy = config->exchange,
                                       .options = learner->options,
                                       .runs = learner->runs,
                                       .workers = learner->workers};
    RT_TRY(rt_job_write_training(config, NULL, &facts, &job, err));
    struct rt_assign part = {.nodes = learner->count, .job = job->tree};
    rt_status status = rt_alloc(part.nodes, sizeof *part.node, "the nodes", &part.node, err);
    for (size_t i = 0; status == RT_OK && i < part.nodes; i++)
        part.node[i] = (struct rt_assigned_node){.count = (uint32_t)config->network->model->count};
    if (status == RT_OK)
        status = rt_view_assign(learner->who.view, learner->who.cluster, &part, err);
    free(part.node);
    rt_job_destroy(job);
    return status;
}

static rt_status exchange_open_talks(struct rt_exchange_learner *learner, struct rt_error *err) {
    rt_status status =
        rt_alloc(learner->count, sizeof *learner->talks, "the master's talks", &learner->talks, err);
    for (size_t i = 1; status == RT_OK && i < learner->count; i++) {
        status = rt_talk_open(learner->links[i], &learner->talks[i], err);
        learner->talks[i].run = learner->who.run;
    }
    return status;
}

static struct rt_exchanger_settings exchange_site_settings(struct rt_exchange_learner *learner) {
    const struct rt_training_config *config = &learner->config;
    const struct rt_trainer_settings *settings = &config->settings;
    return (struct rt_exchanger_settings){
        .strategy = config->exchange,
        .options = learner->options,
        .cost = learner->cost,
        .comm = {.endpoint = learner->count > 1 ? learner->who.endpoint : NULL,
                 .run = learner->who.run,
                 .rank = 0,
                 .count = learner->count,
                 .names = rt_membership_names(&learner->who),
                 .links = learner->links,
                 .timeout = config->spec->cluster.timeout},
        .optim = config->optim,
        .schedule = config->schedule,
        .updates = settings->updates,
        .per_epoch = config->per_epoch,
        .clip_norm = settings->clip_norm,
        .shards = settings->shards,
        .runs = learner->runs,
        .replica = {.network = config->network,
                    .set = config->set,
                    .scaling = config->scaling,
                    .target = config->target,
                    .count = config->set->count,
                    .seed = settings->seed,
                    .batch = settings->batch,
                    .micro_batch = settings->micro_batch,
                    .shuffle = settings->shuffle,
                    .drop_last = settings->drop_last,
                    .pace = &learner->who.pace,
                    .endpoint = learner->count > 1 ? learner->who.endpoint : NULL,
                    .between = RT_STATE_ENCODE},
        .updated = rt_exchange_updated,
        .judged = rt_exchange_judged,
        .user = learner,
    };
}

static rt_status exchange_make_site(struct rt_exchange_learner *learner, struct rt_error *err) {
    const struct rt_exchanger_settings wanted = exchange_site_settings(learner);
    return rt_exchanger_create(&wanted, &learner->exchanger, err);
}

size_t rt_exchange_image_bytes(const struct rt_exchange_learner *learner) {
    return rt_image_bytes(learner->config.network->model, learner->config.optim);
}

/* cluster.memory holds for the master too. */
static rt_status exchange_check_memory(struct rt_exchange_learner *learner, struct rt_error *err) {
    struct rt_exchanger_settings wanted = exchange_site_settings(learner);
    const uint64_t limit = (uint64_t)learner->config.spec->cluster.memory << 20;
    uint64_t memory;
    struct rt_roles roles;
    uint16_t *ranks;
    rt_status status = rt_alloc(learner->count, sizeof *ranks, "the roles of the nodes", &ranks, err);
    if (status != RT_OK)
        return status;
    status = rt_exchange_roles(wanted.strategy, wanted.options, learner->count, ranks, &roles, err);
    if (status == RT_OK)
        status = rt_exchange_share_slices(learner, &roles, err);
    if (status == RT_OK) {
        wanted.runs = roles.runs = learner->runs;
        status =
            rt_exchanger_check_memory(&wanted, &roles, learner->config.network->model, limit, &memory, err);
        if (status != RT_OK)
            rt_fail_prefix(err, status, "the master");
        learner->image_on_disk = rt_image_is_on_disk(&learner->config.spec->cluster,
                                                     rt_exchange_image_bytes(learner), (double)memory);
    }
    free(ranks);
    return status;
}

static struct rt_slice_part exchange_largest_part(const struct rt_exchange_learner *learner) {
    const struct rt_roles *roles = &learner->exchanger->roles;
    struct rt_slice_part largest = {.all = 1};
    for (size_t i = 0; i < roles->workers; i++) {
        const struct rt_slice_part part = rt_exchange_part(learner->config.exchange, learner->options, roles,
                                                           learner->config.settings.shards, roles->worker[i]);
        if (part.run.count * (uint64_t)largest.all > largest.run.count * (uint64_t)part.all)
            largest = part;
    }
    return largest;
}

/* data.send: says so, and how much it is. */
static rt_status exchange_make_sender(struct rt_exchange_learner *learner, struct rt_error *err) {
    const struct rt_training_config *config = &learner->config;
    const struct rt_roles *roles = &learner->exchanger->roles;
    const struct rt_sample_sender_settings settings =
        rt_sample_sender_of(config, exchange_largest_part(learner), learner->count);
    rt_status status = rt_sample_sender_create(&settings, &learner->sender, err);
    if (status != RT_OK || !config->notice)
        return status;
    const size_t others = roles->workers - (learner->exchanger->works ? 1 : 0);
    char sentence[200];
    snprintf(sentence, sizeof sentence,
             "data.send: examples and their targets are sent to %s, about %.3g MB in "
             "an epoch",
             RT_COUNTED(others, "worker"),
             (double)config->set->count * (double)rt_sample_layout_row_floats(&settings.layout) *
                 sizeof(float) * (double)others / (double)roles->workers / 1e6);
    config->notice(config->notice_user, sentence);
    return RT_OK;
}

rt_status rt_exchange_gather(struct rt_exchange_learner *learner, struct rt_error *err) {
    const struct rt_training_config *config = &learner->config;
    struct rt_network *network = config->network;
    const struct rt_membership_settings settings = {.spec = config->spec,
                                                    .network = network,
                                                    .exact = config->spec->train.math != RT_MATH_FAST,
                                                    .program = config->program,
                                                    .token = config->token,
                                                    .endpoint = config->endpoint,
                                                    .stop = config->stop,
                                                    .waits = config->waits,
                                                    .waits_user = config->waits_user};
    learner->cost = (struct rt_link_cost){.adding = adding};
    RT_TRY(rt_exchange_check(config->exchange, config->options, rt_spec_devices(config->spec),
                             network->model->param_count, err));
    RT_TRY(rt_membership_form(&settings, &learner->who, err));
    const size_t devices = learner->who.devices;
    RT_TRY(rt_alloc(devices, sizeof *learner->device, "the devices", &learner->device, err));
    return rt_exchange_measure(learner, err);
}

/* The master's part in a view of several nodes. */
static rt_status exchange_make_coordinator(struct rt_exchange_learner *learner, struct rt_error *err) {
    const struct rt_coordinator_settings settings = {.comm = &learner->exchanger->settings.comm};
    RT_TRY(rt_coordinator_create(&settings, &learner->coordinator, err));
    return learner->config.spec->data.send ? exchange_make_sender(learner, err) : RT_OK;
}

/* Parameters are those of the seed. */
static rt_status exchange_make_network(struct rt_exchange_learner *learner, struct rt_error *err) {
    struct rt_network *network = learner->config.network;
    if (!network->blocks.params)
        RT_TRY(rt_network_allocate(network, err));
    rt_model_init(network->model, learner->config.settings.seed, network->blocks.params,
                  network->blocks.buffers);
    return RT_OK;
}

rt_status rt_exchange_form(struct rt_exchange_learner *learner, struct rt_error *err) {
    RT_TRY(rt_exchange_number_nodes(learner, err));
    const bool several = learner->count > 1;
    RT_TRY(rt_alloc(learner->count, sizeof *learner->links, "the links", &learner->links, err));
    RT_TRY(exchange_check_memory(learner, err));
    if (several) {
        RT_TRY(exchange_join(learner, err));
        RT_TRY(exchange_assign(learner, err));
    }
    RT_TRY(exchange_make_network(learner, err));
    if (several)
        RT_TRY(rt_cluster_go(learner->who.cluster, err));
    else if (learner->who.cluster)
        rt_cluster_go_alone(learner->who.cluster);
    if (several)
        RT_TRY(exchange_open_talks(learner, err));
    RT_TRY(exchange_make_site(learner, err));
    return several ? exchange_make_coordinator(learner, err) : RT_OK;
}

/* Whether the server here sees every gradient, one for each batch. */
static bool exchange_sees_all(const struct rt_exchange_learner *learner) {
    const struct rt_exchanger *exchanger = learner->exchanger;
    const struct rt_replica *replica = exchanger->replica;
    bool owns = false;
    for (size_t i = 0; i < replica->span_count; i++)
        owns |= rt_exchange_owned_part(learner->config.exchange, learner->options, &exchanger->roles, 0,
                                       &replica->spans[i], replica->param_count)
                    .count > 0;
    return exchanger->member.server && owns && learner->options->push_every <= 1;
}

rt_status rt_exchange_start(struct rt_exchange_learner *learner, struct rt_error *err) {
    const bool several = learner->coordinator != NULL;
    struct rt_engine_part parts[2];
    const struct rt_exchanger_run run = {.parts = parts,
                                         .part_count = several ? 2 : 0,
                                         .stray = several ? rt_exchange_stray : NULL,
                                         .user = learner,
                                         .stop = learner->config.stop,
                                         .finishes = true};
    RT_TRY(rt_alloc(learner->count, sizeof *learner->rows, "the metrics", &learner->rows, err));
    RT_TRY(rt_exchange_make_scheduler(learner, exchange_sees_all(learner), err));
    learner->returns.member = SIZE_MAX;
    if (several) {
        parts[0] = rt_exchange_coordinator_part(learner);
        parts[1] = rt_exchange_returns_part(learner);
    }
    return rt_exchanger_start(learner->exchanger, &run, err);
}
