/* What decides about the result of a run: everything but its length, which may change. */
#include "run/training.h"

#include "base/sha256.h"
#include "learn/batches.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static void fingerprint_hash_set(const struct rt_dataset *set, char hex[65]) {
    uint8_t digest[32];
    if (set->count == 0) {
        snprintf(hex, 65, "none");
        return;
    }
    rt_dataset_hash(set, digest);
    rt_sha256_hex(digest, hex);
}

/* ---- what was built, as text: however the run file spells it, and with every default ---- */

static void fingerprint_put_real(FILE *out, double value) {
    char text[RT_REAL_ROOM];
    fputs(rt_real_text(value, text), out);
}

/* What -1 stands for by a word was written as a number in the first checkpoints, and so it is. */
static void fingerprint_put_value(FILE *out, const struct rt_option *option, const void *settings) {
    if (option->kind == RT_OPTION_TEXT) {
        const char *text;
        memcpy(&text, (const char *)settings + option->offset, sizeof text);
        fprintf(out, "'%s'", text ? text : "");
        return;
    }
    struct rt_option plain = *option;
    char value[RT_OPTION_TEXT_ROOM];
    plain.auto_word = NULL;
    fputs(rt_option_text(&plain, settings, value), out);
}

static void fingerprint_put_options(FILE *out, const struct rt_option *options, size_t count,
                                    const void *settings) {
    for (size_t i = 0; i < count; i++) {
        fprintf(out, "%s%s: ", i ? ", " : ": {", options[i].name);
        fingerprint_put_value(out, &options[i], settings);
    }
    fputs(count ? "}" : "", out);
}

static void fingerprint_put_layers(FILE *out, const struct rt_model *model) {
    for (size_t i = 0; i < model->count; i++) {
        const struct rt_layer *layer = model->layers[i];
        fprintf(out, "%s%s", i ? ", " : "[", layer->type->name);
        if (layer->body) {
            fputs(": ", out);
            fingerprint_put_layers(out, layer->body);
        } else {
            fingerprint_put_options(out, layer->type->options, layer->type->option_count, layer->settings);
        }
    }
    fputc(']', out);
}

/* Without the weight decay, which is a setting of its own, wherever it was said. */
static void fingerprint_put_optimizer(FILE *out, const struct rt_optim *optim) {
    struct rt_option options[RT_OPTIM_OPTIONS], kept[RT_OPTIM_OPTIONS];
    const size_t count = rt_optim_options(optim->type, options);
    size_t keeps = 0;
    for (size_t i = 0; i < count; i++)
        if (strcmp(options[i].name, "weight_decay") != 0)
            kept[keeps++] = options[i];
    fputs(optim->type->name, out);
    fingerprint_put_options(out, kept, keeps, optim);
}

static void fingerprint_put_schedule(FILE *out, const struct rt_schedule *schedule) {
    switch ((enum rt_schedule_kind)schedule->kind) {
    case RT_SCHEDULE_CONSTANT:
        fputs("constant: {", out);
        break;
    case RT_SCHEDULE_STEP:
        fputs("step: {every: ", out);
        fingerprint_put_real(out, schedule->every);
        fputs(", factor: ", out);
        fingerprint_put_real(out, schedule->factor);
        fputs(", ", out);
        break;
    case RT_SCHEDULE_COSINE:
        fputs("cosine: {floor: ", out);
        fingerprint_put_real(out, schedule->floor);
        fputs(", ", out);
        break;
    }
    fputs("warmup: ", out);
    fingerprint_put_real(out, schedule->warmup);
    fputc('}', out);
}

/* Any number of devices gives the same, up to the order of additions, except where updates overlap, are made
 * of other gradients, or are of other batches because epochs are cut short. What is compared says so, and
 * what is shown is the strategy by its own name. */
static void fingerprint_put_strategy(FILE *out, const struct rt_training *training) {
    const struct rt_strategy *strategy = training->choice.strategy;
    const struct rt_exchange_strategy *exchange = rt_strategy_exchange(&training->choice);
    const struct rt_exchange_options *options = exchange ? training->choice.settings : NULL;
    const uint64_t batches =
        rt_batches_count(training->datasets.train.count, training->batch, training->spec->train.drop_last);
    const bool own = strategy->flows || (options && rt_exchange_rules(exchange, options)),
               stale = strategy->flows || (options && rt_exchange_is_asynchronous(exchange, options));
    const char *kind = stale ? "asynchronous" : "synchronous",
               *sum = options && options->reduce == RT_SUM ? ", reduce=sum" : "";
    char epochs[64] = "";
    if (options && training->per_epoch < batches)
        snprintf(epochs, sizeof epochs, ", epochs of %" PRIu64 " updates", training->per_epoch);
    /* Workers or rings, it is the strategy between them that makes the updates. */
    const char *maker = exchange ? exchange->name : strategy->name;
    fprintf(out, "%s%s%s", strategy->name, own && exchange != strategy->exchange ? ",exchange=" : "",
            own && exchange != strategy->exchange ? maker : "");
    if (!strategy->alone)
        fprintf(out, " (%s%s%s)", kind, sum, epochs);
    fprintf(out, "|%s%s%s%s%s", kind, own ? " " : "", own ? maker : "", sum, epochs);
}

enum part { LAYERS, OPTIMIZER, SCHEDULE, CLIP_NORM, WEIGHT_DECAY, STRATEGY };

/* To be freed; NULL: memory is short. */
static char *fingerprint_text_of(const struct rt_training *training, enum part part) {
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    if (!out)
        return NULL;
    switch (part) {
    case LAYERS:
        fingerprint_put_layers(out, training->run->trained.network.model);
        break;
    case OPTIMIZER:
        fingerprint_put_optimizer(out, training->optim);
        break;
    case SCHEDULE:
        fingerprint_put_schedule(out, &training->schedule);
        break;
    case CLIP_NORM:
        fingerprint_put_real(out, training->spec->train.clip_norm);
        break;
    case WEIGHT_DECAY:
        fingerprint_put_real(out, training->optim->weight_decay);
        break;
    case STRATEGY:
        fingerprint_put_strategy(out, training);
        break;
    }
    if (fclose(out) == 0)
        return text;
    free(text);
    return NULL;
}

rt_status rt_training_fingerprint(struct rt_training *training, struct rt_error *err) {
    const struct rt_spec *spec = training->spec;
    const struct rt_spec_train *train = &spec->train;
    const struct rt_network *network = &training->run->trained.network;
    struct rt_fingerprint *print = &training->fingerprint;
    if (print->count)
        return RT_OK;
    char data[65], validation[65], input[96];
    rt_datasets_fingerprint(&training->datasets, &training->run->trained.scaling, data);
    fingerprint_hash_set(&training->datasets.validation, validation);
    const struct {
        const char *key;
        char *value;
    } settings[] = {
        {"model.input", rt_training_text("%s", rt_shape_text(&network->model->in, input))},
        {"model.layers", fingerprint_text_of(training, LAYERS)},
        {"model.loss", rt_training_text("%s", network->loss->name)},
        {"the number of training examples", rt_training_text("%zu", training->datasets.train.count)},
        {"the training data (with their scaling, by hash)", rt_training_text("%s", data)},
        {"data.shuffle", rt_training_text("%s", spec->data.shuffle ? "true" : "false")},
        {"train.batch", rt_training_text("%" PRIu64 "%s", training->batch,
                                         train->drop_last ? ", whole ones only (train.drop_last)" : "")},
        {"train.optimizer", fingerprint_text_of(training, OPTIMIZER)},
        {"train.schedule", fingerprint_text_of(training, SCHEDULE)},
        {"train.weight_decay", fingerprint_text_of(training, WEIGHT_DECAY)},
        {"train.clip_norm", fingerprint_text_of(training, CLIP_NORM)},
        {"train.seed", rt_training_text("%" PRId64, train->seed)},
        {"train.shards", rt_training_text("%" PRId64, train->shards)},
        {"cluster.strategy", fingerprint_text_of(training, STRATEGY)},
        /* The size of a micro-batch changes a result only where a layer measures it. */
        {"train.micro_batch", rt_train_measures_batch(network->model)
                                  ? rt_training_text("%zu", training->learner.micro_batch)
                                  : rt_training_text("any")},
        /* The reference is exact too. */
        {"train.math", rt_training_text("%s", train->math == RT_MATH_FAST ? "fast" : "exact")},
        /* Those that only say how models are scored: the last SCORING. */
        {"the validation data (by hash)", rt_training_text("%s", validation)},
        {"train.validate_epochs", rt_training_text("%" PRId64, train->validate_epochs)},
        {"train.validate_updates", rt_training_text("%" PRId64, train->validate_updates)},
    };
    rt_status status = RT_OK;
    enum { COUNT = sizeof settings / sizeof *settings, SCORING = 3 };
    for (size_t i = 0; i < COUNT; i++) {
        if (status == RT_OK)
            status = rt_fingerprint_add(print, settings[i].key, i >= COUNT - SCORING, settings[i].value, err);
        else
            free(settings[i].value);
    }
    return status;
}
