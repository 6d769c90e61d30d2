/* Forming an exchange: nodes are found, joined as the strategy needs it, and told what to do. */
#include "run/exchange/inside.h"

#include "base/memory.h"
#include "base/sentence.h"
#include "learn/datasets.h"
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

/* The links, measured where the strategy chooses by what they cost. */
static rt_status exchange_join(struct rt_exchange_learner *learner, struct rt_link_cost *cost,
                               struct rt_error *err) {
    const size_t nodes = learner->count;
    struct needs needs = {.strategy = learner->config.exchange, .options = learner->options};
    uint16_t *worker;
    RT_TRY(rt_alloc(nodes, sizeof *worker, "the roles of the nodes", &worker, err));
    const struct rt_view_settings wanted = {.nodes = nodes,
                                            .shape = exchange_add_mesh,
                                            .user = &needs,
                                            .probe_bytes = needs.strategy->mesh ? PROBE_BYTES : 0};
    rt_status status = rt_exchange_roles(needs.strategy, needs.options, nodes, worker, &needs.roles, err);
    if (status == RT_OK)
        status = rt_membership_form_view(&learner->who, &wanted, err);
    free(worker);
    if (status != RT_OK)
        return status;
    *cost = exchange_cost_of(learner->who.view);
    for (size_t i = 1; i < nodes; i++)
        learner->links[i] = rt_view_take_link(learner->who.view, i, RT_LABEL_MESH);
    return RT_OK;
}

static rt_status exchange_assign(struct rt_exchange_learner *learner, const struct rt_link_cost *cost,
                                 struct rt_error *err) {
    const struct rt_training_config *config = &learner->config;
    const struct rt_datasets datasets = {.train = *config->set, .target = config->target};
    char fingerprint[65];
    struct rt_job *job;
    rt_datasets_fingerprint(&datasets, config->scaling, fingerprint);
    const struct rt_job_facts facts = {
        .fingerprint = fingerprint, .cost = *cost, .strategy = config->exchange, .options = config->options};
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

static struct rt_exchanger_settings exchange_site_settings(struct rt_exchange_learner *learner,
                                                           const struct rt_link_cost *cost) {
    const struct rt_training_config *config = &learner->config;
    const struct rt_trainer_settings *settings = &config->settings;
    return (struct rt_exchanger_settings){
        .strategy = config->exchange,
        .options = learner->options,
        .cost = *cost,
        .comm = {.endpoint = learner->who.cluster ? learner->who.endpoint : NULL,
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
        .replica = {.network = config->network,
                    .set = config->set,
                    .scaling = config->scaling,
                    .target = config->target,
                    .count = config->set->count,
                    .seed = settings->seed,
                    .batch = settings->batch,
                    .shards = settings->shards,
                    .micro_batch = settings->micro_batch,
                    .shuffle = settings->shuffle,
                    .drop_last = settings->drop_last,
                    .pace = &learner->who.pace,
                    .endpoint = learner->who.cluster ? learner->who.endpoint : NULL,
                    .between = RT_STATE_ENCODE},
        .updated = rt_exchange_updated,
        .judged = rt_exchange_judged,
        .user = learner,
    };
}

static rt_status exchange_make_site(struct rt_exchange_learner *learner, const struct rt_link_cost *cost,
                                    struct rt_error *err) {
    const struct rt_exchanger_settings wanted = exchange_site_settings(learner, cost);
    return rt_exchanger_create(&wanted, &learner->exchanger, err);
}

/* cluster.memory holds for the master too. */
static rt_status exchange_check_memory(struct rt_exchange_learner *learner, const struct rt_link_cost *cost,
                                       struct rt_error *err) {
    const struct rt_exchanger_settings wanted = exchange_site_settings(learner, cost);
    const uint64_t limit = (uint64_t)learner->config.spec->cluster.memory << 20;
    uint64_t memory;
    struct rt_roles roles;
    uint16_t *ranks;
    rt_status status = rt_alloc(learner->count, sizeof *ranks, "the roles of the nodes", &ranks, err);
    if (status != RT_OK)
        return status;
    status = rt_exchange_roles(wanted.strategy, wanted.options, learner->count, ranks, &roles, err);
    if (status == RT_OK) {
        status =
            rt_exchanger_check_memory(&wanted, &roles, learner->config.network->model, limit, &memory, err);
        if (status != RT_OK)
            rt_fail_prefix(err, status, "the master");
    }
    free(ranks);
    return status;
}

/* data.send: says so, and how much it is. */
static rt_status exchange_make_sender(struct rt_exchange_learner *learner, struct rt_error *err) {
    const struct rt_training_config *config = &learner->config;
    const struct rt_roles *roles = &learner->exchanger->roles;
    /* Of groups the last one has the fewest members. */
    const struct rt_team team =
        rt_exchange_team(config->exchange, learner->options, roles, roles->worker[roles->workers - 1]);
    const struct rt_sample_sender_settings settings = rt_sample_sender_of(config, team.count, learner->count);
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

rt_status rt_exchange_form(struct rt_exchange_learner *learner, struct rt_error *err) {
    const struct rt_training_config *config = &learner->config;
    struct rt_network *network = config->network;
    const struct rt_membership_settings settings = {.spec = config->spec,
                                                    .network = network,
                                                    .exact = config->spec->train.math != RT_MATH_FAST,
                                                    .program = config->program,
                                                    .stop = config->stop,
                                                    .waits = config->waits,
                                                    .waits_user = config->waits_user};
    struct rt_link_cost cost = {.latency = 0, .bandwidth = 1e9, .adding = adding};
    rt_status status = rt_exchange_check(config->exchange, learner->options, rt_spec_devices(config->spec),
                                         network->model->param_count, err);
    if (status == RT_OK)
        status = rt_membership_form(&settings, &learner->who, err);
    if (status != RT_OK)
        return status;
    learner->count = (uint16_t)learner->who.devices;
    status = rt_alloc(learner->count, sizeof *learner->links, "the links", &learner->links, err);
    if (status == RT_OK)
        status = exchange_check_memory(learner, &cost, err);
    if (status == RT_OK && learner->who.cluster)
        status = exchange_join(learner, &cost, err);
    if (status == RT_OK && learner->who.cluster)
        status = exchange_assign(learner, &cost, err);
    if (status == RT_OK)
        status = rt_network_allocate(network, err);
    if (status != RT_OK)
        return status;
    rt_model_init(network->model, config->settings.seed, network->blocks.params, network->blocks.buffers);
    if (learner->who.cluster)
        status = rt_cluster_go(learner->who.cluster, err);
    if (status == RT_OK && learner->who.cluster)
        status = exchange_open_talks(learner, err);
    if (status == RT_OK)
        status = exchange_make_site(learner, &cost, err);
    if (status == RT_OK && learner->who.cluster)
        status = rt_coordinator_create(
            &(struct rt_coordinator_settings){.comm = &learner->exchanger->settings.comm},
            &learner->coordinator, err);
    if (status == RT_OK && learner->who.cluster && config->spec->data.send)
        status = exchange_make_sender(learner, err);
    return status;
}
