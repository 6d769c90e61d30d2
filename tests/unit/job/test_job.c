/* Jobs: what they must say and may not say, and how a batch is cut into micro-batches. */
#include "formats/yaml.h"
#include "job/job.h"
#include "support/chain.h"
#include "support/test.h"

static const char model[] = "{input: 12, loss: cross_entropy, layers: [{dense: 5}]}";

TEST(a_job_has_defaults) {
    struct rt_error err;
    struct rt_job *job;
    CHECK_OK(chain_job(model, "batch: 32", &job, &err));
    CHECK(job->ring.mode == RT_RING_EXACT && job->ring.order == RT_RING_SPLIT && job->seed == 1 &&
          job->batch == 32);
    CHECK(job->micro_batch == -1 && rt_job_micro_rows(job) == 32 && rt_job_micros(job, 32) == 1);
    CHECK(job->shards == 1 && job->clip_norm == 0 && !job->evaluate_only && job->math == RT_MATH_EXACT);
    CHECK(strcmp(job->optim->type->name, "sgd") == 0 && job->lr_schedule.kind == RT_SCHEDULE_CONSTANT);
    CHECK(job->in.rank == 1 && job->in.dim[0] == 12 && job->layers->count == 1);
    rt_job_destroy(job);
}

TEST(a_job_has_what_it_says) {
    struct rt_error err;
    struct rt_job *job;
    CHECK_OK(
        chain_job(model,
                  "batch: 32, micro_batch: 8, shards: 4, ring: {mode: ring, order: 1f1b}, seed: 77, updates: "
                  "900, per_epoch: 30, clip_norm: 0.5, weight_decay: 0.25, optimizer: {adam: {lr: "
                  "0.125}}, lr_schedule: {step: {every: 2}}, math: reference, evaluate_only: true",
                  &job, &err));
    CHECK(job->ring.order == RT_RING_1F1B && job->seed == 77 && job->micro_batch == 8 && job->shards == 4);
    CHECK(job->updates == 900 && job->per_epoch == 30 && job->clip_norm == 0.5 && job->evaluate_only);
    CHECK(job->optim->lr == 0.125 && job->optim->weight_decay == 0.25 && job->math == RT_MATH_REFERENCE);
    CHECK(job->lr_schedule.kind == RT_SCHEDULE_STEP && job->lr_schedule.every == 2);
    rt_job_destroy(job);

    CHECK_OK(chain_job(model,
                       "batch: 8, micro_batch: 16, weight_decay: 1, optimizer: {sgd: {weight_decay: 0}}",
                       &job, &err));
    CHECK(job->micro_batch == 8);         /* never more than there are */
    CHECK(job->optim->weight_decay == 0); /* what the optimizer says itself wins */
    rt_job_destroy(job);

    /* None that is given, and 0 that is given. */
    CHECK_OK(chain_job(model, "batch: 8, optimizer: adamw", &job, &err));
    CHECK(job->optim->weight_decay == 0.01);
    rt_job_destroy(job);
    CHECK_OK(chain_job(model, "batch: 8, optimizer: adamw, weight_decay: 0", &job, &err));
    CHECK(job->optim->weight_decay == 0);
    rt_job_destroy(job);

    CHECK_OK(chain_job(model, "batch: 8, micro_batch: 2, ring: {mode: ring-flow}", &job, &err));
    CHECK(job->ring.mode == RT_RING_FLOW && rt_job_micros(job, 8) == 1);
    rt_job_destroy(job);
}

TEST(bad_jobs_are_refused) {
    static const struct {
        const char *model, *keys, *said;
    } cases[] = {
        {model, "seed: 3", "batch"},
        {model, "batch: 0", "batch"},
        {model, "batch: 1048577", "batch"},
        {model, "batch: 8, micro_batch: 0", "micro_batch"},
        {model, "batch: 8, micro_batch: -1", "micro_batch"},
        {model, "batch: 8, shards: 3", "power of two"},
        {model, "batch: 8, shards: 131072", "shards"},
        {model, "batch: 8, shards: 2, ring: {mode: ring-flow}", "ring-flow"},
        {model, "batch: 8, ring: {mode: rind}", "mode"},
        {model, "batch: 8, ring: {order: gpipe}", "order"},
        {model, "batch: 8, seed: -1", "seed"},
        {model, "batch: 8, updates: 0", "updates"},
        {model, "batch: 8, per_epoch: 0", "per_epoch"},
        {model, "batch: 8, clip_norm: -1", "clip_norm"},
        {model, "batch: 8, clip_norm: nan", "clip_norm"},
        {model, "batch: 8, weight_decay: -1", "weight_decay"},
        {model, "batch: 8, optimizer: adamm", "adamm"},
        {model, "batch: 8, lr_schedule: cosin", "cosin"},
        {model, "batch: 8, math: quick", "math"},
        {model, "batch: 8, evaluate_only: maybe", "evaluate_only"},
        {model, "batch: 8, batches: 8", "batches"},
        {model, "batch: 8, timeout: 0.05", "timeout"},
        {model, "batch: 8, timeout: 86401", "timeout"},
        {model, "batch: 8, rings: 2", "a learner 'ring' has no 2 rings"},
        {model, "batch: 8, ring: 7", "ring must be a map"},
        {model, "batch: 8, ring: {modes: ring}", "unknown key 'modes'"},
        {model, "batch: 8, ring: {damp: 9}", "damp"},
        {model, "batch: 8, mode: ring", "unknown key 'mode'"},
        {model, "batch: 8, clip_norm: 1, ring: {served: true}", "by servers"},
        {model, "batch: 8, ring: {served: true, mode: ring-flow}", "by servers"},
        {model, "batch: 8, exchange: {strategy: ps-sync}", "section 'exchange', but is for a learner 'ring'"},
        {model, "batch: 8, data: {examples: 8}", "section 'data', but is for a learner 'ring'"},
        {"{loss: mse, layers: [relu]}", "batch: 8", "input"},
        {"{input: 4, layers: [relu]}", "batch: 8", "loss"},
        {"{input: 4, loss: mse}", "batch: 8", "layers"},
        {"{input: 4, loss: mean, layers: [relu]}", "batch: 8", "mean"},
        {"{input: [0], loss: mse, layers: [relu]}", "batch: 8", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct rt_error err = {.text = ""};
        struct rt_job *job = NULL;
        const rt_status status = chain_job(cases[i].model, cases[i].keys, &job, &err);
        CHECK_MSG(status == RT_BAD_INPUT, "\"%s\" gave %d", cases[i].keys, (int)status);
        CHECK_MSG(strstr(err.text, cases[i].said), "\"%s\" said: %s", cases[i].keys, err.text);
        CHECK_MSG(err.text[0], "\"%s\" said nothing", cases[i].keys);
        if (status == RT_OK)
            rt_job_destroy(job);
    }
}

TEST(a_job_that_is_no_map_is_refused) {
    struct rt_error err;
    struct rt_tree *tree;
    struct rt_job *job;
    CHECK_OK(rt_yaml_parse("[1, 2]", 6, "job", &tree, &err));
    CHECK(rt_job_create(tree, &job, &err) == RT_BAD_INPUT);
}

static struct rt_tree *parse(const char *text) {
    struct rt_error err = {.text = ""};
    struct rt_tree *tree = NULL;
    CHECK_MSG(rt_yaml_parse(text, strlen(text), "job", &tree, &err) == RT_OK, "%s: %s", text, err.text);
    return tree;
}

TEST(a_job_says_which_learner_it_is_for) {
    static const struct {
        const char *text;
        int learner; /* -1: refused */
    } cases[] = {
        {"{learner: ring, what: ever}", RT_JOB_RING},
        {"{learner: exchange}", RT_JOB_EXCHANGE},
        {"{rings: 2, learner: hybrid}", RT_JOB_HYBRID},
        {"{learner: rings}", -1},
        {"{learner: [ring]}", -1},
        {"{rings: 2}", -1},
        {"{exchange: ps-sync}", -1},
        {"[ring]", -1},
        {"ring", -1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct rt_error err = {.text = ""};
        enum rt_job_learner learner;
        struct rt_tree *tree = parse(cases[i].text);
        const rt_status status = rt_job_learner_of(tree, &learner, &err);
        if (cases[i].learner < 0)
            CHECK_MSG(status == RT_BAD_INPUT && strstr(err.text, "learner"), "%s: %s", cases[i].text,
                      err.text);
        else
            CHECK_MSG(status == RT_OK && (int)learner == cases[i].learner, "%s: %s", cases[i].text, err.text);
        rt_tree_destroy(tree);
    }
    struct rt_error err = {.text = ""};
    struct rt_job *job;
    CHECK(rt_job_create(parse("{input: 4, loss: mse, layers: [relu], batch: 8}"), &job, &err) ==
          RT_BAD_INPUT);
    CHECK_MSG(strstr(err.text, "learner must be given"), "%s", err.text);
}

/* What is written reads back as the same values, and they write the same tree again. */
static void check_written(const char *text) {
    struct rt_error err = {.text = ""};
    struct rt_job *job, *again;
    CHECK_OK(rt_job_create(parse(text), &job, &err));
    CHECK_OK(rt_job_write(job, &again, &err));
    CHECK(job->tree != again->tree && job->optim != again->optim);
    CHECK(again->learner == job->learner && rt_tree_equal(again->input, job->input) &&
          rt_tree_equal(again->layers, job->layers) && strcmp(again->loss, job->loss) == 0);
    CHECK(again->seed == job->seed && again->batch == job->batch && again->micro_batch == job->micro_batch &&
          again->shards == job->shards && again->all_slices == job->all_slices);
    CHECK(again->updates == job->updates && again->per_epoch == job->per_epoch &&
          again->clip_norm == job->clip_norm && again->weight_decay == job->weight_decay &&
          again->math == job->math && again->evaluate_only == job->evaluate_only &&
          again->timeout == job->timeout && again->rings == job->rings);
    CHECK(rt_tree_equal(again->optimizer, job->optimizer) && rt_tree_equal(again->schedule, job->schedule) &&
          again->optim->lr == job->optim->lr && again->optim->weight_decay == job->optim->weight_decay);
    CHECK(again->ring.mode == job->ring.mode && again->ring.order == job->ring.order &&
          again->ring.damp == job->ring.damp && again->ring.part == job->ring.part &&
          again->ring.parts == job->ring.parts && again->ring.with_servers == job->ring.with_servers);
    if (job->learner != RT_JOB_RING) {
        CHECK(strcmp(again->exchange.strategy, job->exchange.strategy) == 0 &&
              rt_tree_equal(again->exchange.options, job->exchange.options) &&
              again->exchange.latency == job->exchange.latency &&
              again->exchange.bandwidth == job->exchange.bandwidth &&
              again->exchange.adding == job->exchange.adding);
        CHECK(strcmp(again->data.directory, job->data.directory) == 0 &&
              strcmp(again->data.fingerprint, job->data.fingerprint) == 0 &&
              again->data.examples == job->data.examples && again->data.drop_last == job->data.drop_last &&
              rt_tree_equal(again->data.options, job->data.options));
        CHECK(again->data.set.scale == job->data.set.scale && again->data.set.send == job->data.set.send);
    }
    struct rt_job *third;
    CHECK_OK(rt_job_write(again, &third, &err));
    CHECK(rt_tree_equal(third->tree, again->tree));
    rt_job_destroy(third);
    rt_job_destroy(again);
    rt_job_destroy(job);
}

TEST(what_is_written_is_read) {
    static const char exchange[] = "input: [1, 2, 2], layers: [flatten, {dense: 5}], loss: mse, batch: 24, "
                                   "shards: 4, micro_batch: 3, seed: "
                                   "9223372036854775807, updates: 9000000000000000000, per_epoch: "
                                   "4294967295, clip_norm: 0.3, timeout: 7.25, "
                                   "math: reference, weight_decay: 0.1, optimizer: {adamw: {lr: 0.07}}, "
                                   "lr_schedule: {step: {every: 3}}, "
                                   "exchange: {strategy: ps-async, options: {damp: 2}, latency: 0.0001, "
                                   "bandwidth: 2e9, adding: 3e-10}, data: "
                                   "{directory: over/there, fingerprint: abc, examples: 4294967295, "
                                   "drop_last: true, options: {train: {csv: "
                                   "a.csv}, scale: 0.00392, send: true}}";
    char text[1200];
    check_written("{learner: ring, input: 4, loss: mse, layers: [{dense: 2}], batch: 8}");
    check_written(
        "{learner: ring, input: 4, loss: mse, layers: [{dense: 2}], batch: 8, evaluate_only: true}");
    check_written(
        "{learner: ring, input: 4, loss: mse, layers: [{dense: 2}], batch: 8, micro_batch: 9, ring: {mode: "
        "ring-flow, order: 1f1b, damp: 3}}");
    /* The shards as they were given, not what the parts make of them. */
    check_written(
        "{learner: ring, input: 4, loss: mse, layers: [{dense: 2}], batch: 8, shards: 4, ring: {part: 1, "
        "parts: 3, served: true}}");
    snprintf(text, sizeof text, "{learner: exchange, %s}", exchange);
    check_written(text);
    snprintf(text, sizeof text, "{learner: hybrid, rings: 3, ring: {part: 1, parts: 2}, %s}", exchange);
    check_written(text);
}

/* Values that a node would refuse are refused where they are written. */
TEST(what_makes_no_sense_is_not_written) {
    struct rt_error err = {.text = ""};
    struct rt_job *job, *other = NULL;
    CHECK_OK(chain_job(model, "batch: 8", &job, &err));
    struct rt_job values = *job;
    values.shards = 3;
    CHECK(rt_job_write(&values, &other, &err) == RT_BAD_INPUT && strstr(err.text, "power of two"));
    values = *job;
    values.learner = RT_JOB_HYBRID;
    CHECK(rt_job_write(&values, &other, &err) == RT_BAD_INPUT);
    rt_job_destroy(job);
}

/* Against the definition, slice by slice. */
static void check_parts(const struct rt_job *job, size_t rows) {
    const size_t micro = rt_job_micro_rows(job), shards = (size_t)job->shards;
    size_t i = 0;
    for (size_t v = 0; v < shards; v++) {
        const size_t begin = v * rows / shards, end = (v + 1) * rows / shards;
        for (size_t at = begin; at < end; at += micro, i++) {
            const struct rt_micro part = rt_job_micro(job, rows, i);
            const size_t left = end - at;
            CHECK_MSG(part.first == at && part.rows == (left < micro ? left : micro) && part.slice == v &&
                          part.first_of_slice == (at == begin) && part.last_of_slice == (left <= micro),
                      "%zu rows, %zu shards, micro_batch %zu: part %zu is wrong", rows, shards, micro, i);
        }
    }
    CHECK_MSG(rt_job_micros(job, rows) == i, "%zu rows, %zu shards, micro_batch %zu: %zu parts, not %zu",
              rows, shards, micro, rt_job_micros(job, rows), i);
}

TEST(parts_follow_the_definition) {
    static const size_t micros[] = {1, 2, 3, 7, 50, 64};
    for (size_t shards = 1; shards <= 64; shards *= 2)
        for (size_t i = 0; i < 6; i++) {
            struct rt_error err;
            struct rt_job *job;
            char keys[100];
            snprintf(keys, sizeof keys, "batch: 64, micro_batch: %zu, shards: %zu", micros[i], shards);
            CHECK_OK(chain_job(model, keys, &job, &err));
            for (size_t rows = 1; rows <= 64; rows++)
                check_parts(job, rows);
            rt_job_destroy(job);
        }
}

/* Rings that share a batch have its micro-batches between them, one after another, in whole slices. */
static void check_rings(const struct rt_job *whole, const char *keys, size_t rings, size_t rows) {
    const size_t slices = (size_t)whole->shards / rings;
    size_t next = 0;
    for (size_t part = 0; part < rings; part++) {
        struct rt_error err;
        struct rt_job *job;
        char text[200];
        snprintf(text, sizeof text, "%s, ring: {part: %zu, parts: %zu}", keys, part, rings);
        CHECK_OK(chain_job(model, text, &job, &err));
        const size_t begin = part * rows / rings, end = (part + 1) * rows / rings;
        CHECK(rt_job_slices(job) == slices);
        if (begin == end) { /* it takes part all the same */
            const struct rt_micro none = rt_job_micro(job, rows, 0);
            CHECK_MSG(rt_job_micros(job, rows) == 1 && none.rows == 0 && none.first == begin &&
                          none.slice == 0 && none.first_of_slice && none.last_of_slice,
                      "part %zu of %zu of %zu rows is wrong", part, rings, rows);
        } else {
            for (size_t i = 0; i < rt_job_micros(job, rows); i++, next++) {
                const struct rt_micro own = rt_job_micro(job, rows, i), all = rt_job_micro(whole, rows, next);
                CHECK_MSG(
                    own.first == all.first && own.rows == all.rows && own.rows > 0 && own.first >= begin &&
                        own.first + own.rows <= end && own.slice + part * slices == all.slice &&
                        own.first_of_slice == all.first_of_slice && own.last_of_slice == all.last_of_slice,
                    "%s, %zu rows: micro-batch %zu of part %zu of %zu is wrong", keys, rows, i, part, rings);
            }
        }
        rt_job_destroy(job);
    }
    CHECK(next == rt_job_micros(whole, rows));
}

TEST(rings_share_a_batch) {
    static const size_t micros[] = {1, 3, 16};
    for (size_t shards = 2; shards <= 16; shards *= 2)
        for (size_t rings = 2; rings <= shards; rings *= 2)
            for (size_t i = 0; i < 3; i++) {
                struct rt_error err;
                struct rt_job *whole;
                char keys[100];
                snprintf(keys, sizeof keys, "batch: 16, micro_batch: %zu, shards: %zu", micros[i], shards);
                CHECK_OK(chain_job(model, keys, &whole, &err));
                for (size_t rows = 1; rows <= 16; rows++)
                    check_rings(whole, keys, rings, rows);
                rt_job_destroy(whole);
            }
}

/* Where they cannot share the slices, each has one of its own. */
TEST(rings_that_do_not_divide_the_shards) {
    struct rt_error err;
    struct rt_job *job;
    CHECK_OK(chain_job(model, "batch: 16, micro_batch: 4, shards: 8, ring: {part: 1, parts: 3}", &job, &err));
    CHECK(rt_job_slices(job) == 1 && rt_job_micros(job, 16) == 2);
    const struct rt_micro micro = rt_job_micro(job, 16, 1);
    CHECK(micro.first == 9 && micro.rows == 1 && micro.slice == 0 && micro.last_of_slice);
    rt_job_destroy(job);
}

TEST(parts_that_cannot_be_are_refused) {
    static const char *const keys[] = {"batch: 8, ring: {part: 2, parts: 2}",
                                       "batch: 8, ring: {part: 0, parts: 9}",
                                       "batch: 8, ring: {part: 0, parts: 2, mode: ring-flow}",
                                       "batch: 8, ring: {parts: 0}", "batch: 8, ring: {part: -1, parts: 2}"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        struct rt_error err = {.text = ""};
        struct rt_job *job = NULL;
        CHECK_MSG(chain_job(model, keys[i], &job, &err) == RT_BAD_INPUT && strstr(err.text, "part"),
                  "\"%s\" said: %s", keys[i], err.text);
    }
}

TEST_MAIN()
