/* Reading a job, and how a batch is cut into micro-batches. */
#include "job/job.h"

#include "base/memory.h"
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(table) (sizeof(table) / sizeof *(table))
#define OPEN         9.2e18 /* an upper end for counts that have no natural one */

/* A job as the table reads it. */
struct reading {
    struct rt_job job;
    int order;
};

static const char *const modes[] = {[RT_RING_EXACT] = "ring", [RT_RING_FLOW] = "ring-flow", NULL};
static const char *const orders[] = {"split", "1f1b", NULL};
static const char *const maths[] = {
    [RT_MATH_EXACT] = "exact", [RT_MATH_FAST] = "fast", [RT_MATH_REFERENCE] = "reference", NULL};

#define AT(field) offsetof(struct reading, field)
static const struct rt_option job_options[] = {
    {"input", RT_OPTION_TREE, AT(job.input), .help = "the shape of one example"},
    {"layers", RT_OPTION_TREE, AT(job.layers), .help = "the list of layers"},
    {"loss", RT_OPTION_TEXT, AT(job.loss), .help = "what is minimised"},
    {"mode", RT_OPTION_CHOICE, AT(job.mode), "ring", .choices = modes,
     .help = "ring: exact; ring-flow: an update per micro-batch"},
    {"order", RT_OPTION_CHOICE, AT(order), "split", .choices = orders,
     .help = "split: weight gradients fill the time that would be waited; 1f1b: backward in one piece"},
    {"seed", RT_OPTION_INT, AT(job.seed), "1", 0, OPEN, .help = "of all random numbers"},
    {"batch", RT_OPTION_INT, AT(job.batch), NULL, 1, 1048576, .help = "examples per update"},
    {"micro_batch", RT_OPTION_INT, AT(job.micro_batch), "auto", 1, 1048576, .auto_word = "auto",
     .help = "examples computed at a time"},
    {"shards", RT_OPTION_INT, AT(job.shards), "1", 1, 65536,
     .help = "slices of a batch whose gradients are added as a tree, a power of two"},
    {"part", RT_OPTION_INT, AT(job.part), "0", 0, 65535,
     .help = "the part of each batch that is this ring's"},
    {"parts", RT_OPTION_INT, AT(job.parts), "1", 1, 65535, .help = "rings that share each batch"},
    {"served", RT_OPTION_BOOL, AT(job.with_servers), "false",
     .help = "parameters come from servers between rings, each at its own pace"},
    {"updates", RT_OPTION_INT, AT(job.updates), "1", 1, OPEN, .help = "planned in all"},
    {"per_epoch", RT_OPTION_INT, AT(job.per_epoch), "1", 1, OPEN, .help = "updates in an epoch"},
    {"damp", RT_OPTION_INT, AT(job.damp), "0", 0, 8,
     .help = "ring-flow: the rate of a stale gradient is divided by (1 + staleness) ^ damp"},
    {"clip_norm", RT_OPTION_REAL, AT(job.clip_norm), "0", 0, 1e30,
     .help = "the gradient is scaled down to this norm when it is larger; 0: never"},
    {"weight_decay", RT_OPTION_REAL, AT(job.weight_decay), "auto", 0, 1e30, .auto_word = "auto",
     .help = "pull of the parameters towards 0; auto: what the optimizer says"},
    {"optimizer", RT_OPTION_TREE, AT(job.optimizer), .help = "the update rule"},
    {"lr_schedule", RT_OPTION_TREE, AT(job.schedule), .help = "how the learning rate changes"},
    {"math", RT_OPTION_CHOICE, AT(job.math), "exact", .choices = maths, .help = "the kernels"},
    {"evaluate_only", RT_OPTION_BOOL, AT(job.evaluate_only), "false", .help = "nothing will be trained"},
    {"patience", RT_OPTION_REAL, AT(job.timeout), "60", 0.001, 1e9,
     .help = "seconds in which a neighbour must make progress"},
};
#undef AT

static rt_status check_values(struct rt_job *job, struct rt_error *err) {
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
    if (job->mode == RT_RING_FLOW && job->shards > 1)
        return rt_tree_fail(rt_tree_get(job->tree, "shards"), err,
                            "ring-flow makes an update of every micro-batch, so it has no shards, but %lld "
                            "are wanted",
                            (long long)job->shards);
    if (job->part >= job->parts || job->parts > job->batch || (job->parts > 1 && job->mode == RT_RING_FLOW))
        return rt_tree_fail(job->tree, err, "the job's part is %lld of %lld of a batch of %lld",
                            (long long)job->part, (long long)job->parts, (long long)job->batch);
    if (job->with_servers && (job->mode == RT_RING_FLOW || job->clip_norm > 0))
        return rt_tree_fail(rt_tree_get(job->tree, "served"), err,
                            "the job's updates are made by servers, who know neither ring-flow nor the norm "
                            "of the whole gradient");
    if (job->shards % job->parts != 0)
        job->shards = job->parts;
    if (job->micro_batch > job->batch || job->mode == RT_RING_FLOW)
        job->micro_batch = job->batch;
    return rt_shape_read(job->input, &job->in, err);
}

static rt_status make_rules(struct rt_job *job, struct rt_error *err) {
    rt_status status = rt_schedule_read(job->schedule, &job->lr_schedule, err);
    if (status == RT_OK)
        status = rt_optim_create(job->optimizer, &job->optim, err);
    if (status == RT_OK)
        rt_optim_decay(job->optim, job->optimizer, job->weight_decay);
    return status;
}

rt_status rt_job_create(struct rt_tree *tree, struct rt_job **job, struct rt_error *err) {
    struct rt_job *made = NULL;
    rt_status status = rt_alloc(1, sizeof *made, "a job", &made, err);
    if (status != RT_OK) {
        rt_tree_destroy(tree);
        return status;
    }
    struct reading reading = {0};
    status = rt_options_read(job_options, COUNT(job_options), NULL, tree, "the job", &reading, err);
    *made = reading.job;
    made->tree = tree;
    made->optim = NULL;
    made->split = reading.order == 0;
    if (status == RT_OK)
        status = check_values(made, err);
    if (status == RT_OK)
        status = make_rules(made, err);
    if (status != RT_OK)
        rt_job_destroy(made);
    else
        *job = made;
    return status;
}

void rt_job_destroy(struct rt_job *job) {
    if (!job)
        return;
    rt_optim_destroy(job->optim);
    rt_tree_destroy(job->tree);
    free(job);
}

/* ---- micro-batches ---- */

size_t rt_job_micro_rows(const struct rt_job *job) {
    return (size_t)(job->micro_batch > 0 ? job->micro_batch : job->batch);
}

/* Row of the batch at which a slice begins. */
static size_t slice_start(const struct rt_job *job, size_t rows, uint64_t slice) {
    return (size_t)(slice * rows / (uint64_t)job->shards);
}

/* Parts in the slices before `slice`. A slice has rows / shards rows or one more, and of the first s slices
 * s * (rows mod shards) / shards have one more: so nothing needs to be counted slice by slice. */
static size_t parts_before(const struct rt_job *job, size_t rows, uint64_t slice) {
    const uint64_t micro = rt_job_micro_rows(job), shards = (uint64_t)job->shards;
    const uint64_t fewer = rows / shards, longer = slice * (rows % shards) / shards;
    return (size_t)((slice - longer) * ((fewer + micro - 1) / micro) + longer * (fewer / micro + 1));
}

size_t rt_job_slices(const struct rt_job *job) {
    return (size_t)(job->shards / job->parts);
}

size_t rt_job_micros(const struct rt_job *job, size_t rows) {
    const uint64_t slices = rt_job_slices(job), first = (uint64_t)job->part * slices;
    const size_t parts = parts_before(job, rows, first + slices) - parts_before(job, rows, first);
    return parts > 0 ? parts : 1;
}

struct rt_micro rt_job_micro(const struct rt_job *job, size_t batch_rows, size_t i) {
    /* The last slice with at most i parts before it: an empty one has as many before it as the next. */
    const uint64_t slices = rt_job_slices(job), ours = (uint64_t)job->part * slices;
    uint64_t slice = ours, beyond = ours + slices;
    if (parts_before(job, batch_rows, ours) == parts_before(job, batch_rows, beyond))
        return (struct rt_micro){
            .first = slice_start(job, batch_rows, ours), .first_of_slice = true, .last_of_slice = true};
    i += parts_before(job, batch_rows, ours);
    while (beyond - slice > 1) {
        const uint64_t middle = slice + (beyond - slice) / 2;
        if (parts_before(job, batch_rows, middle) <= i)
            slice = middle;
        else
            beyond = middle;
    }
    const size_t micro = rt_job_micro_rows(job), end = slice_start(job, batch_rows, slice + 1);
    const size_t place = i - parts_before(job, batch_rows, slice);
    struct rt_micro part = {.slice = (size_t)(slice - ours), .first_of_slice = place == 0};
    part.first = slice_start(job, batch_rows, slice) + place * micro;
    part.rows = end - part.first < micro ? end - part.first : micro;
    part.last_of_slice = part.first + part.rows == end;
    return part;
}
