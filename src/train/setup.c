/* Setting up a training run: network, data, optimizer, trainer, and the parameters it starts from. */
#include "train/drive.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"
#include "data/stream.h"
#include "train/batches.h"
#include "train/gather.h"
#include "train/optimizer.h"
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

char *rt_drive_text(const char *format, ...) {
    va_list args;
    va_start(args, format);
    va_list again;
    va_copy(again, args);
    int length = vsnprintf(NULL, 0, format, args);
    va_end(args);
    char *text = length < 0 ? NULL : malloc((size_t)length + 1);
    if (text)
        vsnprintf(text, (size_t)length + 1, format, again);
    va_end(again);
    return text;
}

/* What the strategy makes of the run file. */
static rt_status check_strategy(struct rt_drive *drive, struct rt_error *err) {
    const struct rt_strategy *strategy = drive->choice.strategy;
    const struct rt_spec_train *train = &drive->spec->train;
    char *taken = rt_strategy_explain(&drive->choice);
    if (taken)
        rt_drive_notice(drive, "%s", taken);
    free(taken);
    drive->batch = strategy->single ? 1 : (uint64_t)train->batch;
    if (strategy->single && train->batch != 1)
        rt_drive_notice(drive, "%s updates after every example: train.batch is taken as 1", strategy->name);
    const bool stream = rt_stream_named(drive->spec->data.train);
    if (strategy->streams && !stream)
        return rt_tree_fail(drive->spec->data.train, err,
                            "%s needs a stream as data.train: see docs/streams.md", strategy->name);
    if (stream && !strategy->streams)
        return rt_tree_fail(drive->spec->data.train, err,
                            "a stream is learnt from with the strategy ring-stream, not with %s",
                            strategy->name);
    if (strategy->flows && train->shards > 1)
        return rt_fail(err, RT_BAD_INPUT, "%s has no shards: train.shards must be 1", strategy->name);
    if (strategy->flows && train->clip_norm > 0)
        return rt_fail(err, RT_BAD_INPUT,
                       "%s cannot clip: the norm of the whole gradient is never there at one time; take "
                       "train.clip_norm: 0 or the strategy ring",
                       strategy->name);
    return RT_OK;
}

/* ---- network and data ---- */

/* What can be computed, but not learnt. A model file may hold such a network all the same. */
static rt_status check_model(struct rt_drive *drive, struct rt_error *err) {
    const struct rt_network *network = &drive->run->trained.network;
    if (network->model->param_count == 0)
        return rt_fail(
            err, RT_BAD_INPUT,
            "no layer of the model has parameters, so there is nothing to train; add one that has, such as "
            "dense or conv2d");
    const size_t doubtful = rt_loss_doubtful(network->loss, network->model);
    if (doubtful != SIZE_MAX)
        rt_drive_notice(
            drive,
            "layer %zu of the model, counted from 0, is %s, and %s applies %s to the output itself: "
            "twice it learns badly",
            doubtful, network->loss->contains, network->loss->name, network->loss->contains);
    return RT_OK;
}

static rt_status open_network(struct rt_drive *drive, struct rt_error *err) {
    const struct rt_spec *spec = drive->spec;
    struct rt_trained *trained = &drive->run->trained;
    const struct rt_computing computing = {.math = (enum rt_math)spec->train.math,
                                           .kernels = spec->train.kernels,
                                           .threads = rt_gather_threads(spec)};
    rt_status status = rt_network_describe(spec->model.input, spec->model.layers, spec->model.loss,
                                           &computing, &trained->network, err);
    if (status == RT_OK)
        status = check_model(drive, err);
    if (status == RT_OK)
        status = rt_tree_json(rt_tree_get(spec->tree, "model"), &trained->description, err);
    return status;
}

static rt_status open_data(struct rt_drive *drive, struct rt_error *err) {
    struct rt_trained *trained = &drive->run->trained;
    rt_status status = rt_materials_open(drive->spec, &trained->network, &drive->run->stop, &drive->materials,
                                         &trained->scaling, err);
    const struct rt_dataset *train = &drive->materials.train;
    if (status == RT_OK && drive->materials.target != RT_TARGET_INPUT && train->class_names)
        status = rt_names_copy(train->class_names, train->class_count, &trained->names, err);
    if (status == RT_OK && train->columns)
        status = rt_names_copy(train->columns, rt_shape_size(&train->shape), &trained->columns, err);
    for (size_t i = 0; i < drive->materials.file_count; i++)
        if (drive->materials.files[i].remark)
            rt_drive_notice(drive, "%s", drive->materials.files[i].remark);
    if (status == RT_OK)
        status = rt_run_label(drive->run, err);
    if (status == RT_OK && drive->spec->train.early_stop > 0 && drive->materials.validation.count == 0)
        status = rt_fail(
            err, RT_BAD_INPUT,
            "train.early_stop needs validation data: give data.validation, or data.hold_out, a part of "
            "the training data");
    return status;
}

/* ---- learner ---- */

static void tell(void *user, const char *sentence) {
    rt_drive_notice(user, "%s", sentence);
}

static void warn(void *user, const char *sentence) {
    rt_drive_warn(user, sentence);
}

static struct rt_periods validations_of(const struct rt_drive *drive) {
    const struct rt_spec_train *train = &drive->spec->train;
    const uint64_t epochs = (uint64_t)train->validate_epochs;
    if (drive->materials.validation.count == 0 && drive->materials.test.count == 0)
        return (struct rt_periods){{0}};
    return (struct rt_periods){{(uint64_t)train->validate_updates, epochs > UINT64_MAX / drive->per_epoch
                                                                       ? UINT64_MAX
                                                                       : epochs * drive->per_epoch}};
}

/* A layer that measures the micro-batch has nothing to measure in a single example. */
static rt_status check_rows_per_pass(const struct rt_drive *drive, struct rt_error *err) {
    const struct rt_spec_train *train = &drive->spec->train;
    const struct rt_strategy *strategy = drive->choice.strategy;
    const uint64_t examples = drive->materials.train.count, batch = drive->batch;
    if (!rt_model_needs_several_rows(drive->run->trained.network.model) || (examples == 0 && batch > 1))
        return RT_OK;
    const uint64_t sharers = rt_strategy_sharers(&drive->choice, drive->spec),
                   shards = (uint64_t)train->shards, slices = shards % sharers == 0 ? shards : sharers,
                   micro = train->micro_batch < 0 || strategy->flows ? 0 : (uint64_t)train->micro_batch;
    static const char sentence[] = "batchnorm of flat inputs cannot learn from a single example at a time";
    char micro_text[24] = "auto";
    if (micro)
        snprintf(micro_text, sizeof micro_text, "%" PRIu64, micro);
    if (batch == 1 || rt_batches_fewest(examples, batch, true, slices, micro) == 1)
        return rt_fail(err, RT_BAD_INPUT,
                       "%s, but a part of a batch of %" PRIu64 " is one: it is cut into %" PRIu64
                       " (train.shards, and those who share it) and train.micro_batch is %s",
                       sentence, batch, slices, micro_text);
    if (rt_batches_fewest(examples, batch, train->drop_last, slices, micro) == 1)
        return rt_fail(err, RT_BAD_INPUT,
                       "%s, and %" PRIu64 " examples in batches of %" PRIu64
                       " leave one alone at the end of an epoch: train.drop_last: true leaves that batch out",
                       sentence, examples, batch);
    return RT_OK;
}

static rt_status open_learner(struct rt_drive *drive, struct rt_error *err) {
    const struct rt_spec_train *train = &drive->spec->train;
    struct rt_trained *trained = &drive->run->trained;
    const struct rt_way *way = rt_strategy_way(&drive->choice);
    rt_status status = rt_strategy_fits(&drive->choice, drive->spec, trained->network.model->param_count,
                                        trained->network.model->buffer_count, err);
    if (status == RT_OK)
        status = check_rows_per_pass(drive, err);
    if (status == RT_OK)
        status = rt_train_optimizer(train, way, &drive->optim, err);
    if (status == RT_OK)
        status = rt_schedule_read(train->schedule, &drive->schedule, err);
    if (status == RT_OK && drive->choice.strategy->streams && train->updates == 0 &&
        drive->schedule.kind == RT_SCHEDULE_COSINE)
        status = rt_fail(err, RT_BAD_INPUT,
                         "the cosine schedule needs to know the end of a stream: give train.updates");
    if (status != RT_OK)
        return status;
    const uint64_t examples = drive->materials.train.count, batch = drive->batch;
    drive->per_epoch = rt_batches_count(examples, batch, train->drop_last);
    if (way)
        drive->per_epoch = rt_exchange_per_epoch(drive->choice.settings, drive->per_epoch);
    /* A stream is one pass of a length that nobody knows. */
    if (drive->choice.strategy->streams)
        drive->per_epoch = RT_ENDLESS;
    drive->epochs = drive->choice.strategy->streams ? 1 : (uint64_t)train->epochs;
    drive->updates = drive->epochs * drive->per_epoch;
    if (train->updates > 0 && (uint64_t)train->updates < drive->updates) {
        drive->updates = (uint64_t)train->updates;
        drive->epochs = (drive->updates + drive->per_epoch - 1) / drive->per_epoch;
    }
    drive->validations = validations_of(drive);
    const struct rt_lesson lesson = {
        .spec = drive->spec,
        .network = &trained->network,
        .set = &drive->materials.train,
        .scaling = &trained->scaling,
        .target = drive->materials.target,
        .optim = drive->optim,
        .schedule = &drive->schedule,
        .per_epoch = drive->per_epoch,
        .rests = drive->validations,
        .stop = &drive->run->stop,
        .lost = &drive->run->lost,
        .notice = tell,
        .warn = warn,
        .notice_user = drive,
        .waits = drive->run->notice,
        .waits_user = drive->run->notice_user,
        .strategy = drive->choice.strategy->name,
        .options = drive->choice.settings,
        .way = way,
        .program = drive->run->program,
        .settings = {.seed = (uint64_t)train->seed,
                     .batch = (size_t)drive->batch,
                     .micro_batch = train->micro_batch < 0 ? 0 : (size_t)train->micro_batch,
                     .shards = (size_t)train->shards,
                     .shuffle = drive->spec->data.shuffle,
                     .drop_last = train->drop_last,
                     .clip_norm = train->clip_norm,
                     .updates = drive->updates}};
    return drive->choice.strategy->open(&lesson, &drive->learner, err);
}

/* ---- where it starts from ---- */

/* A file that another program made may have a matrix the other way round. */
static rt_status load_init_from(struct rt_drive *drive, const char *path, struct rt_error *err) {
    char name[64];
    rt_status status = rt_modelfile_load(path, &drive->learner.numbers, 0, NULL, err);
    if (status == RT_OK)
        status = rt_modelfile_doubt(path, drive->run->trained.network.model, name, err);
    if (status == RT_OK && name[0])
        rt_drive_notice(
            drive,
            "%s was not written by ringtmp: the square '%s' is taken as [inputs, units], but PyTorch "
            "keeps a Linear's weight as [units, inputs]; docs/outputs.md has the conversion",
            path, name);
    return status;
}

/* model.init: as given, else relative to the run file, as data files are. */
static rt_status load_init(struct rt_drive *drive, struct rt_error *err) {
    const char *init = drive->spec->model.init;
    if (init[0] == '/' || access(init, F_OK) == 0)
        return load_init_from(drive, init, err);
    char *path = rt_drive_text("%s/%s", drive->spec->base_dir, init);
    if (!path)
        return rt_fail(err, RT_NO_MEMORY, "%s: not enough memory to read it", init);
    rt_status status = load_init_from(drive, path, err);
    free(path);
    return status;
}

static rt_status open_out(struct rt_drive *drive, struct rt_error *err) {
    if (drive->out.none)
        return RT_OK;
    char *path = rt_drive_text("%s/journal.jsonl", drive->run->out_dir);
    rt_status status = path ? rt_make_directory(drive->checkpoint_dir, err)
                            : rt_fail(err, RT_NO_MEMORY, "not enough memory to open the journal");
    if (status == RT_OK)
        status = rt_journal_open(path, drive->run->resume, &drive->journal, err);
    free(path);
    return status;
}

static void note_facts(struct rt_drive *drive) {
    const struct rt_network *network = &drive->run->trained.network;
    drive->run->facts =
        (struct rt_run_facts){.name = drive->spec->name,
                              .kernels = network->device.kernels->name,
                              .loss = network->loss->name,
                              .optimizer = drive->optim->type->name,
                              .threads = rt_pool_threads(network->device.pool),
                              .params = network->model->param_count,
                              .train_examples = drive->materials.train.count,
                              .validation_examples = drive->materials.validation.count,
                              .test_examples = drive->materials.test.count,
                              .batch = (size_t)drive->batch,
                              .micro_batch = drive->learner.micro_batch,
                              .resumed_update = drive->first_update,
                              .strategy = drive->choice.strategy->name,
                              .nodes = drive->learner.nodes,
                              .nodes_offered = rt_spec_devices(drive->spec),
                              .predicted_samples_per_s = drive->learner.predicted_samples_per_s,
                              .predicted_at_most = drive->learner.predicted_at_most};
    drive->run->plan = drive->learner.plan;
    drive->learner.plan = NULL;
    drive->run->has_facts = true;
}

rt_status rt_drive_open(struct rt_run *run, struct rt_drive *drive, struct rt_error *err) {
    *drive = (struct rt_drive){.run = run,
                               .spec = run->spec,
                               .start = rt_clock_wall(),
                               .standing.best_loss = (double)INFINITY,
                               .tested_update = UINT64_MAX,
                               .first_step = (double)NAN,
                               .validation_loss = (double)NAN,
                               .validation_accuracy = (double)NAN,
                               .standing.best_accuracy = (double)NAN,
                               .validation_update = UINT64_MAX,
                               .out.lock = -1};
    run->has_facts = false;
    free(run->plan);
    free(run->views);
    run->plan = NULL;
    run->views = NULL;
    run->view_count = 0;
    run->has_exchange = false;
    run->lost = 0;
    rt_status status = rt_strategy_read(run->spec, &drive->choice, err);
    if (status == RT_OK)
        status = check_strategy(drive, err);
    if (status == RT_OK)
        status = rt_out_claim(run, &drive->out, err);
    if (status == RT_OK && !drive->out.none) {
        drive->checkpoint_dir = rt_drive_text("%s/checkpoint", run->out_dir);
        drive->best_path = rt_drive_text("%s/checkpoint/best.safetensors", run->out_dir);
        if (!drive->checkpoint_dir || !drive->best_path)
            status = rt_fail(err, RT_NO_MEMORY, "not enough memory to start the run");
    }
    if (status == RT_OK)
        status = open_network(drive, err);
    if (status == RT_OK)
        status = open_data(drive, err);
    if (status == RT_OK)
        status = open_learner(drive, err);
    if (status == RT_OK && drive->out.begins)
        rt_drive_notice(drive, "%s holds no checkpoint yet: the run starts from the beginning", run->out_dir);
    if (status == RT_OK && run->resume && !drive->out.begins)
        status = rt_drive_resume(drive, err);
    else if (status == RT_OK && run->spec->model.init)
        status = load_init(drive, err);
    if (status == RT_OK)
        status = open_out(drive, err);
    if (status != RT_OK)
        return status;
    drive->started = true;
    note_facts(drive);
    rt_drive_journal_start(drive);
    return RT_OK;
}

void rt_drive_close(struct rt_drive *drive) {
    rt_checkpoint_abandon(drive->saving);
    free(drive->learner.plan);
    if (drive->learner.self)
        drive->learner.destroy(drive->learner.self);
    rt_optim_destroy(drive->optim);
    rt_strategy_choice_deinit(&drive->choice);
    free(drive->reports);
    free(drive->before);
    rt_materials_close(&drive->materials);
    rt_fingerprint_deinit(&drive->fingerprint);
    rt_journal_close(drive->journal);
    rt_snapshot_deinit(&drive->best);
    rt_out_release(drive->run, drive->started, &drive->out);
    free(drive->checkpoint_dir);
    free(drive->best_path);
}
