/* Setting up a training run: network, data, optimizer, trainer, and its files. */
#include "run/training.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"
#include "data/stream.h"
#include "learn/batches.h"
#include "run/membership.h"
#include "run/optimizer.h"
#include "run/resilience.h"
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

char *rt_training_text(const char *format, ...) {
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
static rt_status training_check_strategy(struct rt_training *training, struct rt_error *err) {
    const struct rt_strategy *strategy = training->choice.strategy;
    const struct rt_spec_train *train = &training->spec->train;
    char *taken = rt_strategy_explain(&training->choice);
    if (training->spec->notice[0])
        rt_training_notice(training, "%s", training->spec->notice);
    if (taken)
        rt_training_notice(training, "%s", taken);
    free(taken);
    training->batch = strategy->single ? 1 : (uint64_t)train->batch;
    if (strategy->single && train->batch != 1)
        rt_training_notice(training, "%s updates after every example: train.batch is taken as 1",
                           strategy->name);
    const bool stream = rt_stream_named(training->spec->data.train);
    if (strategy->streams && !stream)
        return rt_tree_fail(training->spec->data.train, err,
                            "%s needs a stream as data.train: see docs/streams.md", strategy->name);
    if (stream && !strategy->streams)
        return rt_tree_fail(training->spec->data.train, err,
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

/* Refuses networks that can be evaluated but not trained. A model file may hold such a network. */
static rt_status training_check_model(struct rt_training *training, struct rt_error *err) {
    const struct rt_network *network = &training->run->trained.network;
    if (network->model->param_count == 0)
        return rt_fail(
            err, RT_BAD_INPUT,
            "no layer of the model has parameters, so there is nothing to train; add one that has, such as "
            "dense or conv2d");
    const size_t doubtful = rt_loss_doubtful(network->loss, network->model);
    if (doubtful != SIZE_MAX)
        rt_training_notice(
            training,
            "layer %zu of the model, counted from 0, is %s, and %s applies %s to the output itself: "
            "twice it learns badly",
            doubtful, network->loss->contains, network->loss->name, network->loss->contains);
    return RT_OK;
}

static rt_status training_open_network(struct rt_training *training, struct rt_error *err) {
    const struct rt_spec *spec = training->spec;
    struct rt_trained *trained = &training->run->trained;
    const struct rt_computing computing = {.math = (enum rt_math)spec->train.math,
                                           .kernels = spec->train.kernels,
                                           .threads = rt_membership_threads(spec)};
    rt_status status = rt_network_describe(spec->model.input, spec->model.layers, spec->model.loss,
                                           &computing, &trained->network, err);
    if (status == RT_OK)
        status = training_check_model(training, err);
    if (status == RT_OK)
        status = rt_tree_json(rt_tree_get(spec->tree, "model"), &trained->description, err);
    return status;
}

static rt_status training_open_data(struct rt_training *training, struct rt_error *err) {
    struct rt_trained *trained = &training->run->trained;
    rt_status status = rt_datasets_open(training->spec, &trained->network, &training->run->stop,
                                        &training->datasets, &trained->scaling, err);
    const struct rt_dataset *train = &training->datasets.train;
    if (status == RT_OK && training->datasets.target != RT_TARGET_INPUT && train->class_names)
        status = rt_names_copy(train->class_names, train->class_count, &trained->names, err);
    if (status == RT_OK && train->columns)
        status = rt_names_copy(train->columns, rt_shape_size(&train->shape), &trained->columns, err);
    for (size_t i = 0; i < training->datasets.file_count; i++)
        if (training->datasets.files[i].remark)
            rt_training_notice(training, "%s", training->datasets.files[i].remark);
    if (status == RT_OK)
        status = rt_run_label(training->run, err);
    if (status == RT_OK && training->spec->train.early_stop > 0 && training->datasets.validation.count == 0)
        status = rt_fail(
            err, RT_BAD_INPUT,
            "train.early_stop needs validation data: give data.validation, or data.hold_out, a part of "
            "the training data");
    return status;
}

/* ---- learner ---- */

static void training_tell(void *user, const char *sentence) {
    rt_training_notice(user, "%s", sentence);
}

static void warn(void *user, const char *sentence) {
    rt_training_warn(user, sentence);
}

static struct rt_periods training_validations_of(const struct rt_training *training) {
    const struct rt_spec_train *train = &training->spec->train;
    const uint64_t epochs = (uint64_t)train->validate_epochs;
    if (training->datasets.validation.count == 0 && training->datasets.test.count == 0)
        return (struct rt_periods){{0}};
    return (struct rt_periods){{(uint64_t)train->validate_updates, epochs > UINT64_MAX / training->per_epoch
                                                                       ? UINT64_MAX
                                                                       : epochs * training->per_epoch}};
}

/* A layer with statistics over the micro-batch needs more than one example. */
static rt_status training_check_rows_per_pass(const struct rt_training *training, struct rt_error *err) {
    const struct rt_spec_train *train = &training->spec->train;
    const struct rt_strategy *strategy = training->choice.strategy;
    const uint64_t examples = training->datasets.train.count, batch = training->batch;
    if (!rt_model_needs_several_rows(training->run->trained.network.model) || (examples == 0 && batch > 1))
        return RT_OK;
    const uint64_t sharers = rt_strategy_sharers(&training->choice, training->spec),
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

static rt_status training_open_learner(struct rt_training *training, struct rt_error *err) {
    const struct rt_spec_train *train = &training->spec->train;
    struct rt_trained *trained = &training->run->trained;
    const struct rt_exchange_strategy *exchange = rt_strategy_exchange(&training->choice);
    rt_status status =
        rt_strategy_fits(&training->choice, training->spec, trained->network.model->param_count,
                         trained->network.model->buffer_count, err);
    if (status == RT_OK)
        status = training_check_rows_per_pass(training, err);
    if (status == RT_OK)
        status = rt_train_optimizer(train, exchange, &training->optim, err);
    if (status == RT_OK)
        status = rt_schedule_read(train->schedule, &training->schedule, err);
    if (status == RT_OK && training->choice.strategy->streams && train->updates == 0 &&
        training->schedule.kind == RT_SCHEDULE_COSINE)
        status = rt_fail(err, RT_BAD_INPUT,
                         "the cosine schedule needs to know the end of a stream: give train.updates");
    if (status != RT_OK)
        return status;
    const uint64_t examples = training->datasets.train.count, batch = training->batch;
    training->per_epoch = rt_batches_count(examples, batch, train->drop_last);
    if (exchange)
        training->per_epoch = rt_exchange_per_epoch(training->choice.settings, training->per_epoch);
    /* A stream is one pass of unknown length. */
    if (training->choice.strategy->streams)
        training->per_epoch = RT_ENDLESS;
    training->epochs = training->choice.strategy->streams ? 1 : (uint64_t)train->epochs;
    training->updates = training->epochs * training->per_epoch;
    if (train->updates > 0 && (uint64_t)train->updates < training->updates) {
        training->updates = (uint64_t)train->updates;
        training->epochs = (training->updates + training->per_epoch - 1) / training->per_epoch;
    }
    training->validations = training_validations_of(training);
    const struct rt_training_config config = {
        .spec = training->spec,
        .network = &trained->network,
        .set = &training->datasets.train,
        .scaling = &trained->scaling,
        .target = training->datasets.target,
        .optim = training->optim,
        .schedule = &training->schedule,
        .per_epoch = training->per_epoch,
        .rests = training->validations,
        .token = training->has_token ? training->token : NULL,
        .stop = &training->run->stop,
        .lost = &training->run->lost,
        .gone = training->run->gone,
        .replicating = rt_training_note_replica,
        .replicating_user = training,
        .notice = training_tell,
        .warn = warn,
        .notice_user = training,
        .waits = training->run->notice,
        .waits_user = training->run->notice_user,
        .strategy = training->choice.strategy->name,
        .options = training->choice.settings,
        .exchange = exchange,
        .program = training->run->program,
        .endpoint = training->run->endpoint,
        .settings = {.seed = (uint64_t)train->seed,
                     .batch = (size_t)training->batch,
                     .micro_batch = train->micro_batch < 0 ? 0 : (size_t)train->micro_batch,
                     .shards = (size_t)train->shards,
                     .shuffle = training->spec->data.shuffle,
                     .drop_last = train->drop_last,
                     .clip_norm = train->clip_norm,
                     .updates = training->updates}};
    return training->choice.strategy->open(&config, &training->learner, err);
}

/* ---- files ---- */

/* A device that is lost while the state is loaded is done without, as later. */
static rt_status training_begin(struct rt_training *training, struct rt_error *err) {
    const bool resumes = training->run->resume && !training->out.begins;
    for (;;) {
        const rt_status status =
            resumes ? rt_training_resume(training, err) : rt_training_start_parameters(training, err);
        if (!rt_training_can_recover(training, status))
            return status;
        RT_TRY(rt_training_recover(training, err));
    }
}

/* Nodes on other machines wait for a master that is started again. */
static void training_take_token(struct rt_training *training) {
    struct rt_error err;
    if (training->out.none || !rt_run_node(training->run, 0))
        return;
    training->has_token = rt_token_take(training->checkpoint_dir, training->token, &err) == RT_OK;
    if (training->has_token)
        return;
    rt_fail_more(&err, err.status, "; if this machine fails, its nodes will not wait for it");
    rt_training_warn(training, err.text);
}

static rt_status training_open_out(struct rt_training *training, struct rt_error *err) {
    if (training->out.none)
        return RT_OK;
    char *path = rt_training_text("%s/journal.jsonl", training->run->out_dir);
    rt_status status = path ? rt_make_directory(training->checkpoint_dir, err)
                            : rt_fail(err, RT_NO_MEMORY, "not enough memory to open the journal");
    if (status == RT_OK)
        status = rt_journal_open(path, training->run->resume, &training->journal, err);
    free(path);
    return status;
}

static void training_note_facts(struct rt_training *training) {
    const struct rt_network *network = &training->run->trained.network;
    training->run->facts =
        (struct rt_run_facts){.name = training->spec->name,
                              .kernels = network->device.kernels->name,
                              .loss = network->loss->name,
                              .optimizer = training->optim->type->name,
                              .threads = rt_pool_threads(network->device.pool),
                              .params = network->model->param_count,
                              .train_examples = training->datasets.train.count,
                              .validation_examples = training->datasets.validation.count,
                              .test_examples = training->datasets.test.count,
                              .batch = (size_t)training->batch,
                              .micro_batch = training->learner.micro_batch,
                              .resumed_update = training->first_update,
                              .strategy = training->choice.strategy->name,
                              .nodes = training->learner.nodes,
                              .nodes_offered = rt_spec_devices(training->spec),
                              .predicted_samples_per_s = training->learner.predicted_samples_per_s,
                              .predicted_at_most = training->learner.predicted_at_most};
    training->run->plan = training->out.none
                              ? training->learner.plan
                              : rt_resilience_add_checkpoint(
                                    training->learner.plan, training->spec,
                                    rt_snapshot_bytes(network->model, training->learner.model_state.tensors));
    training->learner.plan = NULL;
    training->run->has_facts = true;
}

static rt_status training_count_devices(struct rt_run *run, struct rt_error *err) {
    const size_t devices = rt_membership_most(run->spec);
    free(run->gone);
    run->lost = run->gone_count = 0;
    run->too_few = false;
    RT_TRY(rt_alloc(devices, sizeof *run->gone, "the devices", &run->gone, err));
    run->gone_count = devices;
    return RT_OK;
}

rt_status rt_training_open(struct rt_run *run, struct rt_training *training, struct rt_error *err) {
    *training = (struct rt_training){.run = run,
                                     .spec = run->spec,
                                     .start = rt_clock_wall(),
                                     .state.best_loss = (double)INFINITY,
                                     .tested_update = UINT64_MAX,
                                     .first_step = (double)NAN,
                                     .validation_loss = (double)NAN,
                                     .validation_accuracy = (double)NAN,
                                     .state.best_accuracy = (double)NAN,
                                     .validation_update = UINT64_MAX,
                                     .out.lock = -1};
    run->has_facts = false;
    free(run->plan);
    free(run->views);
    run->plan = NULL;
    run->views = NULL;
    run->view_count = 0;
    run->has_exchange = false;
    rt_status status = training_count_devices(run, err);
    if (status == RT_OK)
        status = rt_strategy_read(run->spec, &training->choice, err);
    if (status == RT_OK)
        status = training_check_strategy(training, err);
    if (status == RT_OK)
        status = rt_out_claim(run, &training->out, err);
    if (status == RT_OK && !training->out.none) {
        training->checkpoint_dir = rt_training_text("%s/checkpoint", run->out_dir);
        training->best_path = rt_training_text("%s/checkpoint/best.safetensors", run->out_dir);
        if (!training->checkpoint_dir || !training->best_path)
            status = rt_fail(err, RT_NO_MEMORY, "not enough memory to start the run");
    }
    if (status == RT_OK)
        status = training_open_network(training, err);
    if (status == RT_OK)
        training_take_token(training);
    if (status == RT_OK)
        status = training_open_data(training, err);
    if (status == RT_OK)
        status = training_open_learner(training, err);
    if (status == RT_OK && training->out.begins)
        rt_training_notice(training, "%s holds no checkpoint yet: the run starts from the beginning",
                           run->out_dir);
    if (status == RT_OK)
        status = training_begin(training, err);
    if (status == RT_OK)
        status = training_open_out(training, err);
    if (status != RT_OK)
        return status;
    training->started = true;
    training_note_facts(training);
    rt_training_journal_start(training);
    return RT_OK;
}

void rt_training_close(struct rt_training *training) {
    rt_keep_awake_stop(training->awake);
    rt_checkpoint_abandon(training->saving);
    free(training->learner.plan);
    if (training->learner.self)
        training->learner.destroy(training->learner.self);
    rt_optim_destroy(training->optim);
    rt_strategy_choice_deinit(&training->choice);
    free(training->reports);
    free(training->before);
    for (size_t i = 0; i < training->recoveries.count; i++)
        free(training->recoveries.recovery[i].cause);
    free(training->recoveries.recovery);
    rt_datasets_close(&training->datasets);
    rt_fingerprint_deinit(&training->fingerprint);
    rt_journal_close(training->journal);
    rt_snapshot_deinit(&training->best);
    rt_snapshot_deinit(&training->replicas.image);
    rt_out_release(training->run, training->started, &training->out);
    free(training->checkpoint_dir);
    free(training->best_path);
}
