/* The sections of a job that an exchange has: what the master writes a node reads; what makes no sense is
 * refused. */
#include "exchange/section.h"
#include "formats/yaml.h"
#include "run/job_write.h"
#include "run/strategy.h"
#include "support/test.h"
#include <stdlib.h>

static const char run[] = "{model: {input: 12, layers: [{dense: 5}], loss: mse, init: secret.safetensors}, "
                          "data: {train: {csv: a.csv}, test: {csv: b.csv}, split: 0.1, hold_out: 0.2, "
                          "cache_dir: /somewhere}, train: {batch: 24, shards: 4, threads: 3, seed: 9}, "
                          "cluster: {key: cluster.key, patience: 7, nodes: 3}}";

/* rings: that exchange; 0: workers do. */
static rt_status write_job(const char *text, const char *strategy, uint16_t rings, struct rt_job **job,
                           struct rt_error *err) {
    static const struct rt_slice_run runs[] = {{0, 3}, {3, 0}, {3, 1}};
    static const struct rt_ring_options ring_options = {.schedule = 1};
    struct rt_spec *spec;
    struct rt_exchange_options options;
    struct rt_job *planned = NULL;
    struct rt_network network = {.loss = rt_loss_find("mse")};
    const struct rt_dataset set = {.count = 100};
    RT_TRY(rt_spec_parse(text, strlen(text), "dir/run.yaml", NULL, 0, &spec, err));
    rt_status status = rt_exchange_options_read(rt_exchange_strategy_find(strategy), NULL, &options, err);
    const struct rt_training_config config = {
        .spec = spec,
        .network = &network,
        .set = &set,
        .strategy = strategy,
        .exchange = rt_exchange_strategy_find(strategy),
        .options = &ring_options,
        .per_epoch = 5,
        .settings = {.updates = 50, .batch = 24, .shards = 4, .seed = 9, .drop_last = true}};
    const struct rt_job_facts facts = {.fingerprint = "abc123",
                                       .cost = {1e-4, 2e9, 3e-10},
                                       .strategy = config.exchange,
                                       .options = &options,
                                       .rings = rings,
                                       .runs = rings ? NULL : runs,
                                       .workers = 3};
    if (status == RT_OK && rings)
        status = rt_job_write_training(&config, NULL, NULL, &planned, err);
    if (status == RT_OK)
        status = rt_job_write_training(&config, planned, &facts, job, err);
    rt_job_destroy(planned);
    rt_spec_destroy(spec);
    return status;
}

TEST(what_is_written_is_read) {
    struct rt_error err;
    struct rt_job *job;
    struct rt_exchange_section section;
    for (size_t i = 0; rt_exchange_strategies()[i]; i++)
        for (uint16_t rings = 0; rings < 4; rings = (uint16_t)(rings + 3)) {
            CHECK_OK(write_job(run, rt_exchange_strategies()[i]->name, rings, &job, &err));
            CHECK(job->learner == (rings ? RT_JOB_HYBRID : RT_JOB_EXCHANGE));
            CHECK(job->rings == (rings ? rings : 1));
            CHECK(job->ring.order == (rings ? RT_RING_1F1B : RT_RING_SPLIT));
            CHECK_OK(rt_exchange_section_read(job, &section, &err));
            CHECK(section.strategy == rt_exchange_strategies()[i]);
            CHECK(section.cost.latency == 1e-4 && section.cost.bandwidth == 2e9 &&
                  section.cost.adding == 3e-10);
            CHECK(job->data.examples == 100 && job->updates == 50 && job->per_epoch == 5 &&
                  job->timeout == 7);
            CHECK(strcmp(job->data.fingerprint, "abc123") == 0 && strcmp(job->data.directory, "dir") == 0);
            CHECK(job->batch == 24 && job->shards == 4 && job->seed == 9 && job->data.drop_last);
            CHECK(job->exchange.workers == (rings ? 0 : 3) && !job->exchange.runs == (rings > 0));
            for (size_t w = 0; w < job->exchange.workers; w++)
                CHECK(job->exchange.runs[w].first == (w > 0 ? 3 : 0) &&
                      job->exchange.runs[w].count == (uint32_t)(w == 0   ? 3
                                                                : w == 1 ? 0
                                                                         : 1));
            CHECK(job->micro_batch == -1 && job->data.set.hold_out == 0.2);
            /* The run file names no optimizer: it is the one that the strategy wants. */
            CHECK(strcmp(job->optim->type->name, section.strategy->optimizer ? "adagrad" : "sgd") == 0);
            rt_job_destroy(job);
        }
}

/* What is the master's own business does not travel: keys, files that a worker has no use for. */
TEST(what_concerns_nobody_else_stays) {
    struct rt_error err;
    struct rt_job *job;
    char *json;
    CHECK_OK(write_job(run, "ps-sync", 0, &job, &err));
    CHECK_OK(rt_tree_json(job->tree, &json, &err));
    static const char *const absent[] = {"cluster.key", "secret", "b.csv", "split", "cache_dir", "threads"};
    for (size_t i = 0; i < sizeof absent / sizeof *absent; i++)
        CHECK_MSG(!strstr(json, absent[i]), "%s is in %s", absent[i], json);
    CHECK(strstr(json, "a.csv"));
    free(json);
    rt_job_destroy(job);
}

TEST(what_makes_no_sense_is_refused) {
    static const char model[] = "input: 2, layers: [{dense: 1}], loss: mse";
    static const char counts[] = "batch: 8, updates: 5, per_epoch: 5";
    static const char exchange[] = "exchange: {strategy: ps-sync}";
    static const char data[] = "data: {examples: 10, options: {train: {csv: a}}}";
    const struct {
        const char *model, *counts, *exchange, *data, *said;
    } cases[] = {
        {model, counts, exchange, data, NULL},
        {model, counts, "exchange: {strategy: ps-sink}", data, "no strategy 'ps-sink'"},
        {model, counts, "exchange: {strategy: ps-sync, options: {what: 1}}", data, "unknown key 'what'"},
        {model, counts, "exchange: {strategy: ps-sync, more: 1}", data, "unknown key 'more'"},
        {model, counts, "exchange: {strategy: ps-sync, latency: -1}", data, "latency"},
        {model, counts, "exchange: {latency: 1}", data, "has no strategy"},
        {model, "batch: 8, updates: 5, per_epoch: 5, shards: 8",
         "exchange: {strategy: ps-sync, shares: [3, 0, 5]}", data, NULL},
        {model, counts, "exchange: {strategy: ps-sync, shares: [3, 5]}", data, "add up to its 1 shards"},
        {model, counts, "exchange: {strategy: ps-sync, shares: [-1, 2]}", data, "slices"},
        {model, counts, "exchange: {strategy: ps-sync, shares: [65537, 1]}", data, "slices"},
        {model, counts, "exchange: {strategy: ps-sync, shares: [[1]]}", data, "the job's shares"},
        {model, counts, "exchange: {strategy: ps-sync, shares: []}", data, "must be a list"},
        {model, counts, "exchange: {strategy: ps-sync, shares: 1}", data, "must be a list"},
        {model, counts, "exchange: ps-sync", data, "exchange must be a map"},
        {model, counts, "seed: 1", data, "no section 'exchange'"},
        {model, counts, exchange, "seed: 1", "no section 'data'"},
        {model, counts, exchange, "data: 7", "data must be a map"},
        {model, counts, exchange, "data: {examples: 10}", "no data options"},
        {model, counts, exchange, "data: {examples: 10, options: 7}", "data takes its options as a map"},
        {model, counts, exchange, "data: {examples: 10, options: {scale: 2}}", "data.train is missing"},
        {model, counts, exchange, "data: {examples: 0, options: {train: {csv: a}}}", "examples"},
        {model, counts, exchange, "data: {options: {train: {csv: a}}}", "examples"},
        {model, counts, exchange, "data: {examples: 4294967296, options: {train: {csv: a}}}", "examples"},
        {model, counts, exchange, "data: {examples: 10, options: {train: {csv: a}, scale: 0}}", "scale"},
        {model, counts, exchange, "data: {examples: 10, options: {train: {csv: a}, split: 1}}", "split"},
        {model, counts, exchange, "data: {examples: 10, options: {train: {csv: a}, hold_out: 1}}",
         "hold_out"},
        {model, counts, exchange, "data: {examples: 10, options: {train: {stream: {}}}}", "stream"},
        {model, counts, exchange, "data: {examples: 10, options: {train: {csv: a}, cache_dir: /etc}}",
         "sets data.cache_dir"},
        {model, counts, exchange, "data: {examples: 10, options: {train: {csv: a}, cache_above: 0}}",
         "sets data.cache_above"},
        {model, counts, exchange, "data: {examples: 10, options: {train: {csv: a}, test: {csv: b}}}",
         "sets data.test"},
        {model, counts, exchange, "data: {examples: 10, options: {train: {csv: a}, validation: {csv: b}}}",
         "sets data.validation"},
        {model, counts, exchange, "data: {examples: 10, options: {train: {csv: a}}, cache_dir: /etc}",
         "unknown key 'cache_dir'"},
        {"input: 2, loss: mse", counts, exchange, data, "layers"},
        {"input: 2, layers: [{dense: 1}], loss: mse, init: x", counts, exchange, data, "unknown key 'init'"},
        {model, "batch: 0, updates: 5, per_epoch: 5", exchange, data, "batch"},
        {model, "batch: 8, per_epoch: 5", exchange, data, "updates is missing"},
        {model, "batch: 8, updates: 5", exchange, data, "per_epoch is missing"},
        {model, "batch: 8, updates: 5, per_epoch: 4294967296", exchange, data, "per_epoch"},
        {model, "batch: 8, updates: 5, per_epoch: 5, shards: 16", exchange, data, "must not exceed"},
        {model, "batch: 8, updates: 5, per_epoch: 5, shards: 3", exchange, data, "power of two"},
        {model, "batch: 8, updates: 5, per_epoch: 5, threads: 9", exchange, data, "unknown key 'threads'"},
        {model, "batch: 8, updates: 5, per_epoch: 5, kernels: x", exchange, data, "unknown key 'kernels'"},
        {model, "batch: 8, updates: 5, per_epoch: 5, cluster: {key: /etc/shadow}", exchange, data,
         "unknown key 'cluster'"},
        {model, "batch: 8, updates: 5, per_epoch: 5, rings: 2", exchange, data, "has no 2 rings"},
        {model, "batch: 8, updates: 5, per_epoch: 5, ring: {mode: ring}", exchange, data,
         "section 'ring', but is for a learner 'exchange'"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct rt_error err;
        struct rt_tree *tree;
        struct rt_job *job = NULL;
        struct rt_exchange_section section;
        char text[600];
        snprintf(text, sizeof text, "{learner: exchange, %s, %s, %s, %s}", cases[i].model, cases[i].counts,
                 cases[i].exchange, cases[i].data);
        REQUIRE(rt_yaml_parse(text, strlen(text), "job", &tree, &err) == RT_OK);
        rt_status status = rt_job_create(tree, &job, &err);
        if (status == RT_OK) {
            status = rt_exchange_section_read(job, &section, &err);
            rt_job_destroy(job);
        }
        if (!cases[i].said)
            CHECK_OK(status);
        else
            CHECK_MSG(status == RT_BAD_INPUT && strstr(err.text, cases[i].said), "%s: %s", text, err.text);
    }
}

TEST_MAIN()
