/* What travels to the nodes of several rings, written and read. */
#include "run/hybrid/job.h"

#include "base/memory.h"
#include "exchange/strategies/strategies.h"
#include "learn/batches.h"
#include "run/ring/job_tree.h"
#include <stdlib.h>

rt_status rt_hybrid_strategy(const struct rt_exchange_options *hybrid,
                             const struct rt_exchange_strategy **strategy,
                             struct rt_exchange_options *options, struct rt_error *err) {
    *strategy = rt_exchange_inner(&rt_strategy_hybrid, hybrid);
    *options = *hybrid;
    if (rt_hybrid_has_servers(*strategy, options) && options->servers < 0)
        options->servers = 1; /* at each place */
    return rt_exchange_check(*strategy, options, (size_t)hybrid->rings, 0, err);
}

bool rt_hybrid_has_servers(const struct rt_exchange_strategy *strategy,
                           const struct rt_exchange_options *options) {
    return rt_exchange_rules(strategy, options) != NULL;
}

bool rt_hybrid_shares(const struct rt_exchange_strategy *strategy,
                      const struct rt_exchange_options *options) {
    return !rt_exchange_is_asynchronous(strategy, options);
}

struct rt_hybrid_numbering rt_hybrid_numbering(const struct rt_hybrid_job *job) {
    const struct rt_exchange_job *inter_ring = job->inter_ring;
    const uint64_t batch = (uint64_t)inter_ring->spec->train.batch;
    if (job->with_servers)
        return (struct rt_hybrid_numbering){0};
    return (struct rt_hybrid_numbering){
        .per_epoch = inter_ring->per_epoch,
        .batches = rt_batches_count(inter_ring->examples, batch, inter_ring->spec->train.drop_last)};
}

/* ---- writing ---- */

static rt_status put_across(struct rt_tree *job, const struct rt_training_config *config,
                            const char *fingerprint, const struct rt_link_cost *cost, struct rt_error *err) {
    struct rt_training_config inner = *config;
    struct rt_exchange_options options;
    struct rt_tree *inter_ring;
    rt_status status = rt_hybrid_strategy(config->options, &inner.exchange, &options, err);
    inner.options = &options;
    if (status == RT_OK)
        status = rt_exchange_job_tree(&inner, fingerprint, cost, &inter_ring, err);
    if (status != RT_OK)
        return status;
    status = rt_tree_add(job, "across", inter_ring, err);
    if (status != RT_OK)
        rt_tree_destroy(inter_ring);
    return status;
}

rt_status rt_hybrid_job_tree(const struct rt_training_config *config, const char *fingerprint,
                             const struct rt_link_cost *cost, const struct rt_tree *ring,
                             struct rt_tree **tree, struct rt_error *err) {
    const struct rt_exchange_options *options = config->options;
    struct rt_tree *made;
    rt_status status = rt_tree_create(RT_TREE_MAP, NULL, "the run", 0, &made, err);
    if (status != RT_OK)
        return status;
    status = rt_job_put(made, "rings", err, "%lld", (long long)options->rings);
    if (status == RT_OK)
        status = rt_job_put_tree(made, "ring", ring, err);
    if (status == RT_OK)
        status = put_across(made, config, fingerprint, cost, err);
    if (status != RT_OK)
        rt_tree_destroy(made);
    else
        *tree = made;
    return status;
}

static rt_status set_word(struct rt_tree *ring, const char *key, const char *text, struct rt_error *err) {
    struct rt_tree *value;
    rt_status status = rt_tree_create(RT_TREE_SCALAR, text, "the run", 0, &value, err);
    if (status != RT_OK)
        return status;
    status = rt_tree_set(ring, key, value, err);
    if (status != RT_OK)
        rt_tree_destroy(value);
    return status;
}

static rt_status set_number(struct rt_tree *ring, const char *key, uint16_t number, struct rt_error *err) {
    char text[8];
    snprintf(text, sizeof text, "%u", number);
    return set_word(ring, key, text, err);
}

/* ---- reading ---- */

struct fields {
    int64_t rings;
    const struct rt_tree *ring, *inter_ring;
};

#define AT(field) offsetof(struct fields, field)
static const struct rt_option options[] = {
    {"rings", RT_OPTION_INT, AT(rings), NULL, 2, RT_MAX_NODES, .help = "rings side by side"},
    {"ring", RT_OPTION_TREE, AT(ring), .help = "the job of a ring"},
    {"across", RT_OPTION_TREE, AT(inter_ring), .help = "the job of the exchange between them"},
};
#undef AT

bool rt_hybrid_job_is(const struct rt_tree *tree) {
    return rt_tree_get(tree, "rings") != NULL;
}

/* The model is described twice: the ring computes the outputs of the one, the loss is of the other. */
static rt_status check_model(const struct rt_hybrid_job *job, struct rt_error *err) {
    const struct rt_tree *model = rt_tree_get(job->inter_ring->spec->tree, "model");
    static const char *const keys[] = {"input", "layers", "loss"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (!rt_tree_equal(rt_tree_get(job->ring, keys[i]), rt_tree_get(model, keys[i])))
            return rt_fail(err, RT_BAD_INPUT,
                           "the job of the ring and that of the exchange differ in the "
                           "model's %s",
                           keys[i]);
    return RT_OK;
}

static rt_status read_job(const struct rt_tree *tree, size_t nodes, struct rt_hybrid_job *job,
                          struct rt_error *err) {
    struct fields fields;
    rt_status status =
        rt_options_read(options, sizeof options / sizeof *options, NULL, tree, "the job", &fields, err);
    if (status != RT_OK)
        return status;
    if (!fields.ring || fields.ring->kind != RT_TREE_MAP || !fields.inter_ring)
        return rt_fail(err, RT_BAD_INPUT, "the job has no %s", fields.inter_ring ? "ring" : "exchange");
    if (nodes < 2 || nodes > RT_MAX_NODES || nodes % (size_t)fields.rings != 0 || job->index >= nodes)
        return rt_fail(err, RT_BAD_INPUT, "%lld rings cannot be made of %zu nodes", (long long)fields.rings,
                       nodes);
    job->rings = (uint16_t)fields.rings;
    job->places = (uint16_t)(nodes / job->rings);
    job->ours = (uint16_t)(job->index / job->places);
    job->place = (uint16_t)(job->index % job->places);
    status = rt_tree_copy(fields.ring, &job->ring, err);
    if (status == RT_OK)
        status = rt_exchange_job_create(fields.inter_ring, &job->inter_ring, err);
    if (status == RT_OK)
        status = check_model(job, err);
    if (status != RT_OK)
        return status;
    const struct rt_exchange_strategy *strategy = job->inter_ring->strategy;
    const struct rt_exchange_options *how = &job->inter_ring->options;
    if (strategy->inner || how->dedicated)
        return rt_fail(err, RT_BAD_INPUT, "rings cannot exchange gradients by %s%s", strategy->name,
                       how->dedicated ? ", dedicated" : "");
    status = rt_exchange_check(strategy, how, job->rings, 0, err);
    if (status != RT_OK)
        return status;
    const bool shares = rt_hybrid_shares(strategy, how);
    job->with_servers = rt_hybrid_has_servers(strategy, how);
    if (job->with_servers && rt_exchange_servers(strategy, how, job->rings) != 1)
        return rt_fail(err, RT_BAD_INPUT, "rings that exchange by %s have one server at each place",
                       strategy->name);
    status = set_word(job->ring, "served", job->with_servers ? "true" : "false", err);
    if (status == RT_OK)
        status = set_number(job->ring, "part", shares ? job->ours : 0, err);
    return status == RT_OK ? set_number(job->ring, "parts", shares ? job->rings : 1, err) : status;
}

rt_status rt_hybrid_job_create(const struct rt_tree *tree, uint16_t index, size_t nodes,
                               struct rt_hybrid_job **job, struct rt_error *err) {
    struct rt_hybrid_job *made;
    rt_status status = rt_alloc(1, sizeof *made, "the job", &made, err);
    if (status != RT_OK)
        return status;
    made->index = index;
    status = read_job(tree, nodes, made, err);
    if (status != RT_OK)
        rt_hybrid_job_destroy(made);
    else
        *job = made;
    return status;
}

void rt_hybrid_job_destroy(struct rt_hybrid_job *job) {
    if (!job)
        return;
    rt_tree_destroy(job->ring);
    rt_exchange_job_destroy(job->inter_ring);
    free(job);
}
