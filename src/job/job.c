/* The tables of a job's keys, by which it is read and written, and the checks that need more than one key. */
#include "job/job.h"

#include "base/memory.h"
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(table) (sizeof(table) / sizeof *(table))
#define OPEN         9.3e18 /* an upper end for counts that have no natural one */

static const char *const learners[] = {
    [RT_JOB_RING] = "ring", [RT_JOB_EXCHANGE] = "exchange", [RT_JOB_HYBRID] = "hybrid", NULL};
static const char *const modes[] = {[RT_RING_EXACT] = "ring", [RT_RING_FLOW] = "ring-flow", NULL};
static const char *const replica_places[] = {[RT_REPLICA_AUTO] = "auto",
                                             [RT_REPLICA_MEMORY] = "memory",
                                             [RT_REPLICA_DISK] = "disk",
                                             [RT_REPLICA_OFF] = "off",
                                             NULL};
static const char *const orders[] = {[RT_RING_SPLIT] = "split", [RT_RING_1F1B] = "1f1b", NULL};
static const char *const maths[] = {
    [RT_MATH_EXACT] = "exact", [RT_MATH_FAST] = "fast", [RT_MATH_REFERENCE] = "reference", NULL};

/* A job as the tables see it: its values, and its sections in the tree. */
struct fields {
    struct rt_job job;
    const struct rt_tree *ring, *exchange, *data;
};

#define AT(field) offsetof(struct fields, field)
static const struct rt_option job_options[] = {
    {"learner", RT_OPTION_CHOICE, AT(job.learner), .choices = learners, .help = "what trains"},
    {"input", RT_OPTION_TREE, AT(job.input), .help = "the shape of one example"},
    {"layers", RT_OPTION_TREE, AT(job.layers), .help = "the list of layers"},
    {"loss", RT_OPTION_TEXT, AT(job.loss), .help = "what is minimised"},
    {"seed", RT_OPTION_INT, AT(job.seed), "1", 0, OPEN, .help = "of all random numbers"},
    {"batch", RT_OPTION_INT, AT(job.batch), NULL, 1, 1048576, .help = "examples per update"},
    {"micro_batch", RT_OPTION_INT, AT(job.micro_batch), "auto", 1, 1048576, .auto_word = "auto",
     .help = "examples computed at a time; auto: the planner's choice"},
    {"shards", RT_OPTION_INT, AT(job.shards), "1", 1, 65536,
     .help = "slices of a batch whose gradients are added as a tree, a power of two"},
    {"updates", RT_OPTION_INT, AT(job.updates), "1", 1, OPEN, .help = "planned in all"},
    {"per_epoch", RT_OPTION_INT, AT(job.per_epoch), "1", 1, OPEN, .help = "updates in an epoch"},
    {"clip_norm", RT_OPTION_REAL, AT(job.clip_norm), "0", 0, 1e30,
     .help = "the gradient is scaled down to this norm when it is larger; 0: never"},
    {"weight_decay", RT_OPTION_REAL, AT(job.weight_decay), "auto", 0, 1e30, .auto_word = "auto",
     .help = "pull of the parameters towards 0; auto: what the optimizer says"},
    {"optimizer", RT_OPTION_TREE, AT(job.optimizer), .help = "the update rule"},
    {"lr_schedule", RT_OPTION_TREE, AT(job.schedule), .help = "how the learning rate changes"},
    {"math", RT_OPTION_CHOICE, AT(job.math), "exact", .choices = maths, .help = "the kernels"},
    {"evaluate_only", RT_OPTION_BOOL, AT(job.evaluate_only), "false", .help = "nothing will be trained"},
    {"timeout", RT_OPTION_REAL, AT(job.timeout), "60", 0.1, 86400,
     .help = "seconds in which a peer must make progress"},
    {"silence", RT_OPTION_REAL, AT(job.silence), "5", 1, 5,
     .help = "seconds without a heartbeat after which a peer is gone, at most"},
    {"keep", RT_OPTION_REAL, AT(job.keep), "0", 0, RT_JOB_KEEP,
     .help = "seconds for which a node waits for another view when this one is over"},
    {"wait_master", RT_OPTION_REAL, AT(job.wait_master), "0", 0, 86400,
     .help = "seconds for which a node waits for its master when that is gone"},
    {"rings", RT_OPTION_INT, AT(job.rings), "1", 1, 1024, .help = "side by side, of a hybrid"},
    {"ring", RT_OPTION_TREE, AT(ring), .help = "how a ring works"},
    {"exchange", RT_OPTION_TREE, AT(exchange), .help = "how gradients are exchanged"},
    {"data", RT_OPTION_TREE, AT(data), .help = "what a node needs that opens its own training data"},
};

static const struct rt_option ring_options[] = {
    {"mode", RT_OPTION_CHOICE, AT(job.ring.mode), "ring", .choices = modes,
     .help = "ring: exact; ring-flow: an update per micro-batch"},
    {"order", RT_OPTION_CHOICE, AT(job.ring.order), "split", .choices = orders,
     .help = "split: weight gradients fill the time that would be waited; 1f1b: backward in one piece"},
    {"damp", RT_OPTION_INT, AT(job.ring.damp), "0", 0, 8,
     .help = "ring-flow: the rate of a stale gradient is divided by (1 + staleness) ^ damp"},
    {"part", RT_OPTION_INT, AT(job.ring.part), "0", 0, 65535,
     .help = "the part of each batch that is this ring's"},
    {"parts", RT_OPTION_INT, AT(job.ring.parts), "1", 1, 65535, .help = "rings that share each batch"},
    {"served", RT_OPTION_BOOL, AT(job.ring.with_servers), "false",
     .help = "parameters come from servers between rings, each at its own pace"},
    {"replica", RT_OPTION_CHOICE, AT(job.ring.replica), "off", .choices = replica_places,
     .help = "where the state of the node before is kept"},
    {"replica_rate", RT_OPTION_REAL, AT(job.ring.replica_rate), "0", 0, 1e30,
     .help = "bytes per second at which it is sent; 0: no limit"},
};

static const struct rt_option exchange_options[] = {
    {"strategy", RT_OPTION_TEXT, AT(job.exchange.strategy), .help = "its name"},
    {"options", RT_OPTION_TREE, AT(job.exchange.options), .help = "of the strategy"},
    {"latency", RT_OPTION_REAL, AT(job.exchange.latency), "0", 0, 1e6, .help = "seconds, of a link"},
    {"bandwidth", RT_OPTION_REAL, AT(job.exchange.bandwidth), "0", 0, 1e30,
     .help = "bytes per second, of a link"},
    {"adding", RT_OPTION_REAL, AT(job.exchange.adding), "0", 0, 1e6, .help = "seconds per float"},
    {"shares", RT_OPTION_TREE, AT(job.exchange.shares), .help = "of a batch's slices, each worker's"},
};

static const struct rt_option data_options[] = {
    {"directory", RT_OPTION_TEXT, AT(job.data.directory), ".", .help = "where the run file is"},
    {"fingerprint", RT_OPTION_TEXT, AT(job.data.fingerprint), "", .help = "of the training data"},
    {"examples", RT_OPTION_INT, AT(job.data.examples), NULL, 1, 4294967295.0, .help = "in the training data"},
    {"drop_last", RT_OPTION_BOOL, AT(job.data.drop_last), "false",
     .help = "the incomplete batch at the end of an epoch is left out"},
    {"options", RT_OPTION_TREE, AT(job.data.options), .help = "the run file's data section"},
};
#undef AT

/* The sections, the learners that have them, and their fields. */
static const struct section {
    const char *name;
    const struct rt_option *options;
    size_t count;
    size_t offset;              /* of the tree, in struct fields */
    bool of[RT_JOB_HYBRID + 1]; /* learners */
    bool required;              /* of those; otherwise its absence means the defaults */
} sections[] = {
    {"ring",
     ring_options,
     COUNT(ring_options),
     offsetof(struct fields, ring),
     {[RT_JOB_RING] = true, [RT_JOB_HYBRID] = true},
     false},
    {"exchange",
     exchange_options,
     COUNT(exchange_options),
     offsetof(struct fields, exchange),
     {[RT_JOB_EXCHANGE] = true, [RT_JOB_HYBRID] = true},
     true},
    {"data",
     data_options,
     COUNT(data_options),
     offsetof(struct fields, data),
     {[RT_JOB_EXCHANGE] = true, [RT_JOB_HYBRID] = true},
     true},
};

static const struct rt_tree **job_section(const struct section *section, struct fields *fields) {
    return (const struct rt_tree **)(void *)((char *)fields + section->offset);
}

/* ---- checks ---- */

static rt_status job_check_training(const struct rt_job *job, struct rt_error *err) {
    static const char *const required[] = {"input", "layers", "loss"};
    for (size_t i = 0; i < COUNT(required); i++)
        if (!rt_tree_get(job->tree, required[i]))
            return rt_tree_fail(job->tree, err, "the job's %s is missing and must be given", required[i]);
    if (!rt_loss_find(job->loss))
        return rt_tree_fail(rt_tree_get(job->tree, "loss"), err, "the job's loss: there is no '%s'",
                            job->loss);
    if (job->shards & (job->shards - 1))
        return rt_tree_fail(rt_tree_get(job->tree, "shards"), err,
                            "the job's shards must be a power of two, not %lld", (long long)job->shards);
    if (job->learner != RT_JOB_HYBRID && job->rings > 1)
        return rt_tree_fail(rt_tree_get(job->tree, "rings"), err,
                            "a job for a learner '%s' has no %lld rings", learners[job->learner],
                            (long long)job->rings);
    return RT_OK;
}

static rt_status job_check_ring(const struct rt_job *job, struct rt_error *err) {
    const struct rt_job_ring *ring = &job->ring;
    const bool flows = ring->mode == RT_RING_FLOW;
    if (flows && job->shards > 1)
        return rt_tree_fail(rt_tree_get(job->tree, "shards"), err,
                            "ring-flow makes an update of every micro-batch, so it has no shards, but %lld "
                            "are wanted",
                            (long long)job->shards);
    if (ring->part >= ring->parts || ring->parts > job->batch || (ring->parts > 1 && flows))
        return rt_tree_fail(job->tree, err, "the job's part is %lld of %lld of a batch of %lld",
                            (long long)ring->part, (long long)ring->parts, (long long)job->batch);
    if (ring->with_servers && (flows || job->clip_norm > 0))
        return rt_tree_fail(rt_tree_get(rt_tree_get(job->tree, "ring"), "served"), err,
                            "the job's updates are made by servers, which know neither ring-flow nor the "
                            "norm of the whole gradient");
    return RT_OK;
}

/* The workers' slices follow one another, and are all of them. */
static rt_status job_read_shares(struct rt_job *job, struct rt_error *err) {
    static const struct rt_option share[] = {
        {"slices", RT_OPTION_INT, 0, NULL, 0, RT_MAX_SLICES, .help = "of a worker"}};
    const struct rt_tree *shares = job->exchange.shares;
    int64_t all = 0;
    if (!shares)
        return RT_OK;
    if (job->learner != RT_JOB_EXCHANGE || shares->kind != RT_TREE_LIST || shares->count == 0 ||
        shares->count > RT_MAX_SLICES)
        return rt_tree_fail(shares, err, "the job's shares must be a list, of the workers of an exchange");
    job->exchange.workers = shares->count;
    RT_TRY(
        rt_alloc(shares->count, sizeof *job->exchange.runs, "the workers' slices", &job->exchange.runs, err));
    for (size_t i = 0; i < shares->count; i++) {
        int64_t count;
        RT_TRY(rt_options_read(share, 1, "slices", shares->items[i], "the job's shares", &count, err));
        job->exchange.runs[i] = (struct rt_slice_run){(uint32_t)all, (uint32_t)count};
        all += count;
        if (all > job->shards)
            break;
    }
    if (all != job->shards)
        return rt_tree_fail(shares, err, "the job's shares must add up to its %lld shards",
                            (long long)job->shards);
    return RT_OK;
}

/* What an exchange needs in addition. */
static rt_status job_check_exchange(struct rt_job *job, struct rt_error *err) {
    static const char *const required[] = {"updates", "per_epoch"};
    for (size_t i = 0; i < COUNT(required); i++)
        if (!rt_tree_get(job->tree, required[i]))
            return rt_tree_fail(job->tree, err, "the job's %s is missing and must be given", required[i]);
    if (job->per_epoch > UINT32_MAX)
        return rt_tree_fail(rt_tree_get(job->tree, "per_epoch"), err,
                            "the job's per_epoch must be at most %u, not %lld", UINT32_MAX,
                            (long long)job->per_epoch);
    if (job->shards > job->batch)
        return rt_tree_fail(rt_tree_get(job->tree, "shards"), err,
                            "the job's shards must not exceed its batch, but %lld is more than %lld",
                            (long long)job->shards, (long long)job->batch);
    if (!job->exchange.strategy)
        return rt_tree_fail(rt_tree_get(job->tree, "exchange"), err, "the job has no strategy");
    RT_TRY(job_read_shares(job, err));
    if (!job->data.options)
        return rt_tree_fail(rt_tree_get(job->tree, "data"), err, "the job has no data options");
    return rt_job_data_read(job->data.options, &job->data.set, err);
}

/* ---- decoding ---- */

static rt_status job_read_section(const struct section *section, struct fields *fields,
                                  struct rt_error *err) {
    const struct rt_tree *tree = *job_section(section, fields);
    char what[40];
    if (!section->of[fields->job.learner]) {
        if (tree)
            return rt_tree_fail(tree, err, "the job has a section '%s', but is for a learner '%s'",
                                section->name, learners[fields->job.learner]);
        return section->required ? RT_OK
                                 : rt_options_read(section->options, section->count, NULL, NULL,
                                                   section->name, fields, err);
    }
    if (section->required && !tree)
        return rt_tree_fail(fields->job.tree, err, "the job has no section '%s'", section->name);
    if (tree && tree->kind != RT_TREE_MAP)
        return rt_tree_fail(tree, err, "the job's %s must be a map", section->name);
    snprintf(what, sizeof what, "the job's %s", section->name);
    return rt_options_read(section->options, section->count, NULL, tree, what, fields, err);
}

static rt_status job_read(struct rt_tree *tree, struct rt_job *job, struct rt_error *err) {
    struct fields fields = {.job.tree = tree};
    RT_TRY(rt_options_read(job_options, COUNT(job_options), NULL, tree, "the job", &fields, err));
    for (size_t i = 0; i < COUNT(sections); i++)
        RT_TRY(job_read_section(&sections[i], &fields, err));
    *job = fields.job;
    RT_TRY(job_check_training(job, err));
    RT_TRY(job_check_ring(job, err));
    if (job->learner != RT_JOB_RING)
        RT_TRY(job_check_exchange(job, err));
    job->all_slices = job->shards % job->ring.parts == 0 ? job->shards : job->ring.parts;
    if (job->micro_batch > job->batch || job->ring.mode == RT_RING_FLOW)
        job->micro_batch = job->batch;
    RT_TRY(rt_shape_read(job->input, &job->in, err));
    RT_TRY(rt_schedule_read(job->schedule, &job->lr_schedule, err));
    RT_TRY(rt_optim_create(job->optimizer, &job->optim, err));
    rt_optim_decay(job->optim, job->optimizer, job->weight_decay);
    return RT_OK;
}

rt_status rt_job_create(struct rt_tree *tree, struct rt_job **job, struct rt_error *err) {
    struct rt_job *made = NULL;
    const rt_status status = rt_alloc(1, sizeof *made, "a job", &made, err);
    if (status != RT_OK) {
        rt_tree_destroy(tree);
        return status;
    }
    made->tree = tree;
    RT_FINISH_CREATE(job_read(tree, made, err), made, rt_job_destroy, job);
}

void rt_job_destroy(struct rt_job *job) {
    if (!job)
        return;
    rt_optim_destroy(job->optim);
    free(job->exchange.runs);
    rt_tree_destroy(job->tree);
    free(job);
}

/* One value of a job, without the others. */
static rt_status job_read_one(const struct rt_tree *tree, const char *name, struct fields *fields,
                              struct rt_error *err) {
    const struct rt_option *option = job_options;
    while (strcmp(option->name, name) != 0)
        option++;
    struct rt_tree *item = rt_tree_get(tree, name);
    const struct rt_tree only = {.kind = RT_TREE_MAP, .items = &item, .count = item ? 1 : 0};
    return rt_options_read(option, 1, NULL, &only, "the job", fields, err);
}

rt_status rt_job_learner_of(const struct rt_tree *tree, enum rt_job_learner *learner, struct rt_error *err) {
    struct fields fields;
    RT_TRY(job_read_one(tree, "learner", &fields, err));
    *learner = (enum rt_job_learner)fields.job.learner;
    return RT_OK;
}

rt_status rt_job_silence_of(const struct rt_tree *tree, double *most, double *least, struct rt_error *err) {
    struct fields fields;
    RT_TRY(job_read_one(tree, "silence", &fields, err));
    RT_TRY(job_read_one(tree, "keep", &fields, err));
    *most = fields.job.silence;
    *least = fields.job.keep > 0 ? RT_JOB_SILENCE_LEAST : 0;
    return RT_OK;
}

rt_status rt_job_wait_of(const struct rt_tree *tree, double *wait_master, struct rt_error *err) {
    struct fields fields;
    RT_TRY(job_read_one(tree, "wait_master", &fields, err));
    *wait_master = fields.job.wait_master;
    return RT_OK;
}

/* ---- encoding ---- */

void rt_job_defaults(struct rt_job *values) {
    struct fields fields = {0};
    /* A required key has no default; the error is ignored. */
    rt_options_read(job_options, COUNT(job_options), NULL, NULL, "the job", &fields, NULL);
    for (size_t i = 0; i < COUNT(sections); i++)
        rt_options_read(sections[i].options, sections[i].count, NULL, NULL, "the job", &fields, NULL);
    *values = fields.job;
}

/* The value of an option as a tree; *tree stays NULL if it has none. */
static rt_status job_option_tree(const struct rt_option *option, const struct fields *fields,
                                 struct rt_tree **tree, struct rt_error *err) {
    const void *pointer = NULL;
    char text[RT_OPTION_TEXT_ROOM];
    *tree = NULL;
    if (option->kind != RT_OPTION_TREE && option->kind != RT_OPTION_TEXT)
        return rt_tree_create(RT_TREE_SCALAR, rt_option_text(option, fields, text), "the run", 0, tree, err);
    memcpy(&pointer, (const char *)fields + option->offset, sizeof pointer);
    if (!pointer)
        return RT_OK;
    return option->kind == RT_OPTION_TREE ? rt_tree_copy(pointer, tree, err)
                                          : rt_tree_create(RT_TREE_SCALAR, pointer, "the run", 0, tree, err);
}

static rt_status job_fill_map(const struct rt_option *options, size_t count, const struct fields *fields,
                              struct rt_tree *map, struct rt_error *err) {
    for (size_t i = 0; i < count; i++) {
        struct rt_tree *value;
        RT_TRY(job_option_tree(&options[i], fields, &value, err));
        const rt_status status = value ? rt_tree_add(map, options[i].name, value, err) : RT_OK;
        if (status != RT_OK) {
            rt_tree_destroy(value);
            return status;
        }
    }
    return RT_OK;
}

static rt_status job_write_map(const struct rt_option *options, size_t count, const struct fields *fields,
                               struct rt_tree **map, struct rt_error *err) {
    struct rt_tree *made;
    RT_TRY(rt_tree_create(RT_TREE_MAP, NULL, "the run", 0, &made, err));
    RT_FINISH_CREATE(job_fill_map(options, count, fields, made, err), made, rt_tree_destroy, map);
}

rt_status rt_job_write(const struct rt_job *values, struct rt_job **job, struct rt_error *err) {
    struct fields fields = {.job = *values};
    struct rt_tree *made[COUNT(sections)] = {NULL}, *tree = NULL;
    rt_status status = RT_OK;
    for (size_t i = 0; i < COUNT(sections) && status == RT_OK; i++)
        if (sections[i].of[values->learner]) {
            status = job_write_map(sections[i].options, sections[i].count, &fields, &made[i], err);
            *job_section(&sections[i], &fields) = made[i];
        }
    if (status == RT_OK)
        status = job_write_map(job_options, COUNT(job_options), &fields, &tree, err);
    for (size_t i = 0; i < COUNT(sections); i++)
        rt_tree_destroy(made[i]);
    return status == RT_OK ? rt_job_create(tree, job, err) : status;
}
