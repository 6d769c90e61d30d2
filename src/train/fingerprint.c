/* What decides about the result of a run: everything but its length, which may change. */
#include "train/drive.h"

#include "base/sha256.h"
#include <inttypes.h>
#include <stdlib.h>

static void hash_set(const struct rt_dataset *set, char hex[65]) {
    uint8_t digest[32];
    if (set->count == 0) {
        snprintf(hex, 65, "none");
        return;
    }
    rt_dataset_hash(set, digest);
    rt_sha256_hex(digest, hex);
}

/* Any number of devices gives the same, up to the order of additions, except where updates overlap, are made
 * of other gradients, or are of other batches because epochs are cut short. */
static char *kind_of(const struct rt_drive *drive) {
    const struct rt_strategy *strategy = drive->choice.strategy;
    const struct rt_way_options *options = strategy->way ? drive->choice.settings : NULL;
    const uint64_t batches = (drive->materials.train.count + drive->batch - 1) / drive->batch;
    const char *kind = strategy->flows                                   ? "ring-flow"
                       : options && rt_way_rules(strategy->way, options) ? strategy->name
                                                                         : "exact",
               *sum = options && options->reduce == RT_SUM ? ", reduce=sum" : "";
    if (options && drive->per_epoch < batches)
        return rt_drive_text("%s%s, epochs of %" PRIu64 " updates", kind, sum, drive->per_epoch);
    return rt_drive_text("%s%s", kind, sum);
}

rt_status rt_drive_fingerprint(struct rt_drive *drive, struct rt_error *err) {
    const struct rt_spec *spec = drive->spec;
    const struct rt_spec_train *train = &spec->train;
    const struct rt_network *network = &drive->run->trained.network;
    struct rt_fingerprint *print = &drive->fingerprint;
    if (print->count)
        return RT_OK;
    char data[65], validation[65];
    char *input = NULL, *layers = NULL, *schedule = NULL, *optimizer = NULL;
    rt_materials_fingerprint(&drive->materials, &drive->run->trained.scaling, data);
    hash_set(&drive->materials.validation, validation);
    rt_status status = rt_tree_json(spec->model.input, &input, err);
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
        {"model.input", rt_drive_text("%s", input ? input : "")},
        {"model.layers", rt_drive_text("%s", layers ? layers : "")},
        {"model.loss", rt_drive_text("%s", network->loss->name)},
        {"the number of training examples", rt_drive_text("%zu", drive->materials.train.count)},
        {"the training data (with their scaling, by hash)", rt_drive_text("%s", data)},
        {"data.shuffle", rt_drive_text("%s", spec->data.shuffle ? "true" : "false")},
        {"train.batch", rt_drive_text("%" PRIu64, drive->batch)},
        {"train.optimizer", rt_drive_text("%s", optimizer ? optimizer : drive->optim->type->name)},
        {"train.schedule", rt_drive_text("%s", schedule ? schedule : "constant")},
        {"train.weight_decay", rt_drive_text("%.17g", drive->optim->weight_decay)},
        {"train.clip_norm", rt_drive_text("%.17g", train->clip_norm)},
        {"train.seed", rt_drive_text("%" PRId64, train->seed)},
        {"train.shards", rt_drive_text("%" PRId64, train->shards)},
        {"cluster.strategy", kind_of(drive)},
        /* The size of a micro-batch changes a result only where a layer measures it. */
        {"train.micro_batch", rt_train_measures_batch(network->model)
                                  ? rt_drive_text("%zu", drive->learner.micro_batch)
                                  : rt_drive_text("any")},
        /* The reference is exact too. */
        {"train.math", rt_drive_text("%s", train->math == RT_MATH_FAST ? "fast" : "exact")},
        /* Those that only say how models are scored: the last SCORING. */
        {"the validation data (by hash)", rt_drive_text("%s", validation)},
        {"train.validate_epochs", rt_drive_text("%" PRId64, train->validate_epochs)},
        {"train.validate_updates", rt_drive_text("%" PRId64, train->validate_updates)},
    };
    enum { COUNT = sizeof settings / sizeof *settings, SCORING = 3 };
    for (size_t i = 0; i < COUNT; i++) {
        if (status == RT_OK)
            status = rt_fingerprint_add(print, settings[i].key, i >= COUNT - SCORING, settings[i].value, err);
        else
            free(settings[i].value);
    }
    free(input);
    free(layers);
    free(schedule);
    free(optimizer);
    return status;
}
