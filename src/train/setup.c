/* Setting up a training run: network, data, optimizer, trainer, and the parameters it starts from. */
#include "train/drive.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* printf into memory; NULL when there is none. */
RT_PRINTF(1, 2) static char *text_of(const char *format, ...) {
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

static rt_status check_strategy(const struct rt_spec *spec, struct rt_error *err) {
    if (strcmp(spec->cluster.strategy, "sgd") != 0)
        return rt_fail(err, RT_BAD_INPUT,
                       "cluster.strategy: \"%s\" is not there; the strategies are: sgd (one device)",
                       spec->cluster.strategy);
    if (spec->cluster.nodes != 1)
        return rt_fail(err, RT_BAD_INPUT, "cluster.nodes: the strategy sgd trains on 1 node, not on %" PRId64,
                       spec->cluster.nodes);
    return RT_OK;
}

/* ---- network and data ---- */

static rt_status open_network(struct rt_drive *drive, struct rt_error *err) {
    const struct rt_spec *spec = drive->spec;
    struct rt_trained *trained = &drive->run->trained;
    const struct rt_computing computing = {.math = (enum rt_math)spec->train.math,
                                           .kernels = spec->train.kernels,
                                           .threads =
                                               spec->train.threads < 0 ? 0 : (size_t)spec->train.threads};
    rt_trained_deinit(trained);
    rt_status status = rt_network_create(spec->model.input, spec->model.layers, spec->model.loss, &computing,
                                         &trained->network, err);
    if (status == RT_OK)
        status = rt_tree_json(rt_tree_get(spec->tree, "model"), &trained->description, err);
    return status;
}

static rt_status open_data(struct rt_drive *drive, struct rt_error *err) {
    struct rt_trained *trained = &drive->run->trained;
    rt_status status =
        rt_materials_open(drive->spec, &trained->network, &drive->materials, &trained->scaling, err);
    const struct rt_dataset *train = &drive->materials.train;
    if (status == RT_OK && drive->materials.target == RT_TARGET_CLASSES && train->class_names)
        status = rt_names_copy(train->class_names, train->class_count, &trained->names, err);
    if (status == RT_OK)
        status = rt_run_label(drive->run, err);
    if (status == RT_OK && drive->spec->train.early_stop > 0 && drive->materials.validation.count == 0)
        status = rt_fail(
            err, RT_BAD_INPUT,
            "train.early_stop needs validation data: give data.validation, or data.hold_out, a part of "
            "the training data");
    return status;
}

/* ---- trainer ---- */

static rt_status open_trainer(struct rt_drive *drive, struct rt_error *err) {
    const struct rt_spec_train *train = &drive->spec->train;
    struct rt_trained *trained = &drive->run->trained;
    rt_status status = rt_optim_create(train->optimizer, &drive->optim, err);
    if (status == RT_OK)
        status = rt_schedule_read(train->schedule, &drive->schedule, err);
    if (status != RT_OK)
        return status;
    /* What the optimizer says itself wins. */
    const struct rt_tree *rule =
        train->optimizer && train->optimizer->kind == RT_TREE_MAP && train->optimizer->count
            ? train->optimizer->items[0]
            : NULL;
    if (train->weight_decay > 0 && !rt_tree_get(rule, "weight_decay"))
        drive->optim->weight_decay = train->weight_decay;

    const uint64_t examples = drive->materials.train.count, batch = (uint64_t)train->batch;
    drive->per_epoch = (examples + batch - 1) / batch;
    drive->epochs = (uint64_t)train->epochs;
    drive->updates = drive->epochs * drive->per_epoch;
    if (train->updates > 0 && (uint64_t)train->updates < drive->updates) {
        drive->updates = (uint64_t)train->updates;
        drive->epochs = (drive->updates + drive->per_epoch - 1) / drive->per_epoch;
    }
    const struct rt_trainer_settings settings = {.seed = (uint64_t)train->seed,
                                                 .batch = (size_t)train->batch,
                                                 .micro_batch =
                                                     train->micro_batch < 0 ? 0 : (size_t)train->micro_batch,
                                                 .shards = (size_t)train->shards,
                                                 .shuffle = drive->spec->data.shuffle,
                                                 .clip_norm = train->clip_norm,
                                                 .updates = drive->updates};
    return rt_trainer_create(&trained->network, &drive->materials.train, &trained->scaling,
                             drive->materials.target, drive->optim, &drive->schedule, &settings,
                             &drive->trainer, err);
}

/* ---- where it starts from ---- */

/* model.init: as given, else relative to the run file, as data files are. */
static rt_status load_init(struct rt_drive *drive, struct rt_error *err) {
    const char *init = drive->spec->model.init;
    struct rt_network *network = &drive->run->trained.network;
    if (init[0] == '/' || access(init, F_OK) == 0)
        return rt_modelfile_params(init, network, NULL, err);
    char *path = text_of("%s/%s", drive->spec->base_dir, init);
    if (!path)
        return rt_fail(err, RT_NO_MEMORY, "%s: not enough memory to read it", init);
    rt_status status = rt_modelfile_params(path, network, NULL, err);
    free(path);
    return status;
}

/* Everything that decides about the result but the length of the run, which may change. */
static rt_status make_fingerprint(struct rt_drive *drive, struct rt_error *err) {
    const struct rt_spec *spec = drive->spec;
    const struct rt_spec_train *train = &spec->train;
    const struct rt_network *network = &drive->run->trained.network;
    struct rt_fingerprint *print = &drive->fingerprint;
    if (print->count)
        return RT_OK;
    char data[65];
    char *input = NULL, *layers = NULL, *schedule = NULL, *optimizer = NULL;
    rt_status status =
        rt_materials_fingerprint(&drive->materials, &drive->run->trained.scaling, network, data, err);
    if (status == RT_OK)
        status = rt_tree_json(spec->model.input, &input, err);
    if (status == RT_OK)
        status = rt_tree_json(spec->model.layers, &layers, err);
    if (status == RT_OK && train->optimizer)
        status = rt_tree_json(train->optimizer, &optimizer, err);
    if (status == RT_OK && train->schedule)
        status = rt_tree_json(train->schedule, &schedule, err);
    const struct {
        const char *key;
        char *value;
    } settings[] = {
        {"model.input", text_of("%s", input ? input : "")},
        {"model.layers", text_of("%s", layers ? layers : "")},
        {"model.loss", text_of("%s", network->loss->name)},
        {"the number of training examples", text_of("%zu", drive->materials.train.count)},
        {"the training data (as converted, by hash)", text_of("%s", status == RT_OK ? data : "")},
        {"data.shuffle", text_of("%s", spec->data.shuffle ? "true" : "false")},
        {"train.batch", text_of("%" PRId64, train->batch)},
        {"train.optimizer", text_of("%s", optimizer ? optimizer : drive->optim->type->name)},
        {"train.schedule", text_of("%s", schedule ? schedule : "constant")},
        {"train.weight_decay", text_of("%.17g", drive->optim->weight_decay)},
        {"train.clip_norm", text_of("%.17g", train->clip_norm)},
        {"train.seed", text_of("%" PRId64, train->seed)},
        {"train.shards", text_of("%" PRId64, train->shards)},
        /* The size of a micro-batch changes a result only where a layer measures it. */
        {"train.micro_batch", rt_train_measures_batch(network->model)
                                  ? text_of("%zu", rt_trainer_micro_batch(drive->trainer))
                                  : text_of("any")},
    };
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        if (status == RT_OK)
            status = rt_fingerprint_add(print, settings[i].key, settings[i].value, err);
        else
            free(settings[i].value);
    }
    free(input);
    free(layers);
    free(schedule);
    free(optimizer);
    return status;
}

static struct rt_checkpointed checkpointed(struct rt_drive *drive) {
    return (struct rt_checkpointed){.network = &drive->run->trained.network,
                                    .optim_state = rt_trainer_state(drive->trainer),
                                    .optim_words = drive->optim->type->state_words};
}

rt_status rt_drive_save(struct rt_drive *drive, struct rt_error *err) {
    rt_states_enter(&drive->states, RT_STATE_ENCODE);
    double start = rt_clock_wall();
    drive->standing.seconds = drive->seconds_before + start - drive->start;
    drive->standing.planned = drive->updates;
    const struct rt_checkpointed what = checkpointed(drive);
    rt_status status = make_fingerprint(drive, err);
    if (status == RT_OK)
        status = rt_checkpoint_save(drive->checkpoint_dir, &what, &drive->standing, &drive->fingerprint, err);
    drive->checkpoint_at = rt_clock_wall();
    const struct rt_field fields[] = {RT_INT("update", drive->standing.update),
                                      RT_REAL("seconds", drive->checkpoint_at - start)};
    if (status == RT_OK)
        rt_journal_write(drive->journal, "checkpoint", fields, 2);
    rt_states_enter(&drive->states, RT_STATE_BACKWARD);
    return status;
}

rt_status rt_drive_restore(struct rt_drive *drive, struct rt_error *err) {
    const struct rt_checkpointed what = checkpointed(drive);
    struct rt_standing standing;
    struct rt_error notice;
    return rt_checkpoint_load(drive->checkpoint_dir, &what, &drive->fingerprint, &standing, &notice, err);
}

static rt_status resume(struct rt_drive *drive, struct rt_error *notice, struct rt_error *err) {
    const struct rt_checkpointed what = checkpointed(drive);
    rt_status status = make_fingerprint(drive, err);
    if (status == RT_OK)
        status = rt_checkpoint_load(drive->checkpoint_dir, &what, &drive->fingerprint, &drive->standing,
                                    notice, err);
    if (status != RT_OK)
        return status;
    rt_trainer_set_update(drive->trainer, drive->standing.update);
    drive->seconds_before = drive->standing.seconds;
    drive->first_update = drive->standing.update;
    if (!notice->text[0] && drive->schedule.kind == RT_SCHEDULE_COSINE &&
        drive->standing.planned != drive->updates)
        rt_fail(notice, RT_OK,
                "the run was planned for %" PRIu64 " updates and now has %" PRIu64
                "; the cosine schedule depends on it, so the result is not that of an unbroken run",
                drive->standing.planned, drive->updates);
    return RT_OK;
}

static rt_status open_out(struct rt_drive *drive, struct rt_error *err) {
    char *path = text_of("%s/journal.jsonl", drive->run->out_dir);
    rt_status status = path ? rt_make_directory(drive->checkpoint_dir, err)
                            : rt_fail(err, RT_NO_MEMORY, "not enough memory to open the journal");
    if (status == RT_OK)
        status = rt_journal_open(path, drive->run->resume, &drive->journal, err);
    free(path);
    return status;
}

static void note_facts(struct rt_drive *drive) {
    const struct rt_network *network = &drive->run->trained.network;
    drive->run->facts = (struct rt_run_facts){.name = drive->spec->name,
                                              .kernels = network->device.kernels->name,
                                              .loss = network->loss->name,
                                              .optimizer = drive->optim->type->name,
                                              .threads = rt_pool_threads(network->device.pool),
                                              .params = network->model->param_count,
                                              .train_examples = drive->materials.train.count,
                                              .validation_examples = drive->materials.validation.count,
                                              .test_examples = drive->materials.test.count,
                                              .batch = (size_t)drive->spec->train.batch,
                                              .micro_batch = rt_trainer_micro_batch(drive->trainer),
                                              .resumed_update = drive->first_update};
    drive->run->has_facts = true;
}

rt_status rt_drive_open(struct rt_run *run, struct rt_drive *drive, struct rt_error *err) {
    *drive = (struct rt_drive){.run = run,
                               .spec = run->spec,
                               .start = rt_clock_wall(),
                               .cpu_start = rt_clock_process(),
                               .standing.best_loss = (double)INFINITY,
                               .tested_update = UINT64_MAX,
                               .first_step = (double)NAN,
                               .validation_loss = (double)NAN,
                               .validation_accuracy = (double)NAN};
    struct rt_error notice = {.text = ""};
    rt_states_start(&drive->states, RT_STATE_WAIT_DATA);
    run->has_facts = run->has_result = false;
    rt_owned_evaluation_deinit(&run->test);
    rt_status status = check_strategy(run->spec, err);
    if (status == RT_OK)
        status = rt_run_choose_out(run, err);
    if (status == RT_OK) {
        drive->checkpoint_dir = text_of("%s/checkpoint", run->out_dir);
        drive->best_path = text_of("%s/checkpoint/best.safetensors", run->out_dir);
        if (!drive->checkpoint_dir || !drive->best_path)
            status = rt_fail(err, RT_NO_MEMORY, "not enough memory to start the run");
    }
    if (status == RT_OK)
        status = open_network(drive, err);
    if (status == RT_OK)
        status = open_data(drive, err);
    if (status == RT_OK)
        status = open_trainer(drive, err);
    struct rt_network *network = &run->trained.network;
    if (status == RT_OK && run->resume) {
        status = resume(drive, &notice, err);
    } else if (status == RT_OK) {
        rt_model_init(network->model, (uint64_t)run->spec->train.seed, network->blocks.params,
                      network->blocks.buffers);
        if (run->spec->model.init)
            status = load_init(drive, err);
    }
    if (status == RT_OK)
        status = open_out(drive, err);
    if (status != RT_OK)
        return status;
    note_facts(drive);
    rt_drive_journal_start(drive);
    if (notice.text[0])
        rt_drive_notice(drive, notice.text);
    return RT_OK;
}

void rt_drive_close(struct rt_drive *drive) {
    rt_trainer_destroy(drive->trainer);
    rt_optim_destroy(drive->optim);
    rt_materials_close(&drive->materials);
    rt_fingerprint_deinit(&drive->fingerprint);
    if (drive->journal)
        rt_journal_close(drive->journal);
    free(drive->checkpoint_dir);
    free(drive->best_path);
}
