/* The job of a node in an exchange: what the master writes a node reads; what makes no sense is refused. */
#include "formats/yaml.h"
#include "run/exchange/job.h"
#include "support/test.h"
#include <stdlib.h>

static const char run[] = "{model: {input: 12, layers: [{dense: 5}], loss: mse, init: secret.safetensors}, "
                          "data: {train: {csv: a.csv}, test: {csv: b.csv}, split: 0.1, hold_out: 0.2, "
                          "cache_dir: /somewhere}, train: {batch: 24, shards: 4, threads: 3, seed: 9}, "
                          "cluster: {key: cluster.key, patience: 7, nodes: 3}}";

static rt_status write_job(const char *text, const char *strategy, struct rt_tree **tree,
                           struct rt_error *err) {
    struct rt_spec *spec;
    struct rt_exchange_options options;
    const struct rt_dataset set = {.count = 100};
    const struct rt_link_cost cost = {1e-4, 2e9, 3e-10};
    rt_status status = rt_spec_parse(text, strlen(text), "dir/run.yaml", NULL, 0, &spec, err);
    if (status != RT_OK)
        return status;
    status = rt_exchange_options_read(rt_exchange_strategy_find(strategy), NULL, &options, err);
    const struct rt_training_config config = {.spec = spec,
                                              .set = &set,
                                              .exchange = rt_exchange_strategy_find(strategy),
                                              .options = &options,
                                              .per_epoch = 5,
                                              .settings = {.updates = 50, .batch = 24}};
    if (status == RT_OK)
        status = rt_exchange_job_tree(&config, "abc123", &cost, tree, err);
    rt_spec_destroy(spec);
    return status;
}

TEST(what_is_written_is_read) {
    struct rt_error err;
    struct rt_tree *tree;
    struct rt_exchange_job *job;
    for (size_t i = 0; rt_exchange_strategies()[i]; i++) {
        CHECK_OK(write_job(run, rt_exchange_strategies()[i]->name, &tree, &err));
        CHECK(rt_exchange_job_is(tree));
        CHECK_OK(rt_exchange_job_create(tree, &job, &err));
        CHECK(job->strategy == rt_exchange_strategies()[i]);
        CHECK(job->examples == 100 && job->updates == 50 && job->per_epoch == 5 && job->timeout == 7);
        CHECK(strcmp(job->fingerprint, "abc123") == 0 && strcmp(job->directory, "dir") == 0);
        CHECK(job->cost.latency == 1e-4 && job->cost.bandwidth == 2e9 && job->cost.adding == 3e-10);
        CHECK(job->spec->train.batch == 24 && job->spec->train.shards == 4 && job->spec->train.seed == 9);
        CHECK(job->spec->data.hold_out == 0.2);
        rt_exchange_job_destroy(job);
        rt_tree_destroy(tree);
    }
}

/* What is the master's own business does not travel: keys, files that a worker has no use for. */
TEST(what_concerns_nobody_else_stays) {
    struct rt_error err;
    struct rt_tree *tree;
    char *json;
    CHECK_OK(write_job(run, "ps-sync", &tree, &err));
    CHECK_OK(rt_tree_json(tree, &json, &err));
    static const char *const absent[] = {"cluster.key", "secret", "b.csv", "split", "cache_dir", "threads"};
    for (size_t i = 0; i < sizeof absent / sizeof *absent; i++)
        CHECK_MSG(!strstr(json, absent[i]), "%s is in %s", absent[i], json);
    CHECK(strstr(json, "a.csv"));
    free(json);
    rt_tree_destroy(tree);
}

TEST(what_makes_no_sense_is_refused) {
    static const char head[] = "examples: 10, updates: 5, per_epoch: 5, run: ";
    static const char good[] =
        "{model: {input: 2, layers: [{dense: 1}], loss: mse}, data: {train: {csv: a}}}";
    static const struct {
        const char *text, *with, *said;
    } cases[] = {
        {"{exchange: ps-sync, %s%s}", good, NULL},
        {"{exchange: ps-sink, %s%s}", good, "no strategy 'ps-sink'"},
        {"{exchange: ps-sync, options: {what: 1}, %s%s}", good, "unknown key 'what'"},
        {"{exchange: ps-sync, more: 1, %s%s}", good, "unknown key 'more'"},
        {"{exchange: ps-sync, latency: -1, %s%s}", good, "latency"},
        {"{exchange: ps-sync, %s%s}", "7", "has no run"},
        {"{exchange: ps-sync, %s%s}", "{model: {input: 2, loss: mse}, data: {train: {csv: a}}}", "layers"},
        {"{exchange: ps-sync, %s%s}",
         "{model: {input: 2, layers: [{dense: 1}], loss: mse}, data: {train: {csv: a}}, train: {batch: 0}}",
         "batch"},
        {"{exchange: ps-sync, %s%s}",
         "{model: {input: 2, layers: [{dense: 1}], loss: mse}, data: {train: {stream: {}}}}", "stream"},
        {"{exchange: ps-sync, %s%s}",
         "{model: {input: 2, layers: [{dense: 1}], loss: mse}, data: {train: {csv: a}, cache_dir: /etc}}",
         "sets data.cache_dir, which a node decides for itself"},
        {"{exchange: ps-sync, %s%s}",
         "{model: {input: 2, layers: [{dense: 1}], loss: mse}, data: {train: {csv: a}, cache_above: 0}}",
         "sets data.cache_above"},
        {"{exchange: ps-sync, %s%s}",
         "{model: {input: 2, layers: [{dense: 1}], loss: mse}, data: {train: {csv: a}, test: {csv: b}}}",
         "sets data.test"},
        {"{exchange: ps-sync, %s%s}",
         "{model: {input: 2, layers: [{dense: 1}], loss: mse, init: x}, data: {train: {csv: a}}}",
         "sets model.init"},
        {"{exchange: ps-sync, %s%s}",
         "{model: {input: 2, layers: [{dense: 1}], loss: mse}, data: {train: {csv: a}}, "
         "train: {threads: 9}}",
         "sets train.threads"},
        {"{exchange: ps-sync, %s%s}",
         "{model: {input: 2, layers: [{dense: 1}], loss: mse}, data: {train: {csv: a}}, "
         "cluster: {key: /etc/shadow}}",
         "has 'cluster', which is no business of a node"},
        {"{exchange: ps-sync, examples: 0, updates: 5, per_epoch: 5, run: %.0s%s}", good, "examples"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct rt_error err;
        struct rt_tree *tree;
        struct rt_exchange_job *job = NULL;
        char text[600];
        snprintf(text, sizeof text, cases[i].text, head, cases[i].with);
        REQUIRE(rt_yaml_parse(text, strlen(text), "job", &tree, &err) == RT_OK);
        const rt_status status = rt_exchange_job_create(tree, &job, &err);
        if (!cases[i].said)
            CHECK_OK(status);
        else
            CHECK_MSG(status == RT_BAD_INPUT && strstr(err.text, cases[i].said), "%s: %s", text, err.text);
        if (status == RT_OK)
            rt_exchange_job_destroy(job);
        rt_tree_destroy(tree);
    }
}

TEST_MAIN()
