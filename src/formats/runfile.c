/*
 * The run file: the option tables of its sections, and the checks that need more than one key. The tables are
 * the only list of keys: settings, the help and docs/runfile.md follow from them.
 */
#include "formats/runfile.h"
#include "base/utf8.h"

#include "formats/yaml.h"
#include "optim/optim.h"
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(table) (sizeof(table) / sizeof *(table))
#define ANY_COUNT    1e9  /* an upper end for counts that have no natural one */
#define ANY_REAL     1e30 /* the same for reals */
#define OPEN         9.3e18

#define AT(field) offsetof(struct rt_spec_model, field)
static const struct rt_option model_options[] = {
    {"input", RT_OPTION_TREE, AT(input), .help = "required: the shape of one example, as [1, 28, 28] or 784"},
    {"layers", RT_OPTION_TREE, AT(layers), .help = "required: the list of layers, see `ringtmp list layers`"},
    {"loss", RT_OPTION_TEXT, AT(loss), .help = "required: what is minimised: cross_entropy, mse or bce"},
    {"init", RT_OPTION_TEXT, AT(init),
     .help = "a saved model or checkpoint to start from, not random parameters"},
};
#undef AT

static const char *const target_choices[] = {"label", "input", NULL};
#define AT(field) offsetof(struct rt_spec_data, field)
static const struct rt_option data_options[] = {
    {"train", RT_OPTION_TREE, AT(train),
     .help = "required: the training data, as {idx: [FILE, FILE]} or {csv: {file: FILE}}, see docs/data.md"},
    {"test", RT_OPTION_TREE, AT(test), .help = "the data the finished model is tested on"},
    {"validation", RT_OPTION_TREE, AT(validation),
     .help = "the data the model is checked on while it is trained"},
    {"scale", RT_OPTION_REAL, AT(scale), "1", -ANY_REAL, ANY_REAL,
     .help = "every input value is multiplied by this"},
    {"offset", RT_OPTION_REAL, AT(offset), "0", -ANY_REAL, ANY_REAL, .help = "and then this is added to it"},
    {"standardize", RT_OPTION_BOOL, AT(standardize), "false",
     .help = "bring every feature to mean 0 and deviation 1, as measured on the training data"},
    {"split", RT_OPTION_REAL, AT(split), "0", 0, 1,
     .help = "the part of the training data kept for testing when no test source is given, below 1"},
    {"hold_out", RT_OPTION_REAL, AT(hold_out), "0", 0, 1,
     .help = "the part of the training data kept for validation when no source is given, below 1"},
    {"limit", RT_OPTION_INT, AT(limit), "0", 0, 4294967295.0,
     .help = "use the first N training examples; 0: all"},
    {"shuffle", RT_OPTION_BOOL, AT(shuffle), "true",
     .help = "a new order of the training examples in every epoch"},
    {"target", RT_OPTION_CHOICE, AT(target), "label", .choices = target_choices,
     .help = "what the output is compared with; input makes an auto-encoder"},
    {"send", RT_OPTION_BOOL, AT(send), "false",
     .help = "the master sends its workers their examples; otherwise each reads files of its own"},
    {"cache_above", RT_OPTION_INT, AT(cache_above), "256", 0, 1048576,
     .help = ".gz and CSV data above so many MiB are converted once to a file that can be mapped"},
    {"cache_dir", RT_OPTION_TEXT, AT(cache_dir),
     .help = "where converted files are kept; absent: $XDG_CACHE_HOME/ringtmp or ~/.cache/ringtmp"},
};
#undef AT

static const char *const math_choices[] = {"exact", "fast", "reference", NULL};
#define AT(field) offsetof(struct rt_spec_train, field)
static const struct rt_option train_options[] = {
    {"batch", RT_OPTION_INT, AT(batch), "32", 1, 1048576, .help = "examples per update"},
    {"micro_batch", RT_OPTION_INT, AT(micro_batch), "auto", 1, 1048576, .auto_word = "auto",
     .help = "examples computed at a time; the result depends on it with batchnorm only"},
    {"epochs", RT_OPTION_INT, AT(epochs), "10", 1, ANY_COUNT, .help = "passes over the training data"},
    {"updates", RT_OPTION_INT, AT(updates), "0", 0, OPEN, .help = "stop after so many updates; 0: no limit"},
    {"drop_last", RT_OPTION_BOOL, AT(drop_last), "false",
     .help = "leave out the batch at the end of an epoch that has fewer examples than the others"},
    {"optimizer", RT_OPTION_TREE, AT(optimizer), "sgd",
     .help = "the update rule, as adam or {adam: {lr: 0.001}}, see `ringtmp list optimizers`"},
    {"schedule", RT_OPTION_TREE, AT(schedule), "constant",
     .help = "how the learning rate changes, as cosine or {step: {every: 10, factor: 0.1}}"},
    {"weight_decay", RT_OPTION_REAL, AT(weight_decay), "auto", 0, ANY_REAL, .auto_word = "auto",
     .help = "pull of the parameters towards 0, unless the optimizer gives one; auto: as the rule has it"},
    {"clip_norm", RT_OPTION_REAL, AT(clip_norm), "0", 0, ANY_REAL,
     .help = "the gradient is scaled down to this norm when it is larger; 0: never"},
    {"seed", RT_OPTION_INT, AT(seed), "1", 0, OPEN,
     .help = "of all random numbers: parameters, order, dropout"},
    {"shards", RT_OPTION_INT, AT(shards), "1", 1, 65536,
     .help = "slices of a batch whose gradients are added as a tree, a power of two; part of the result"},
    {"threads", RT_OPTION_INT, AT(threads), "all", 1, 1024, .auto_word = "all",
     .help = "threads that compute; all: the cores, within a CPU quota; never changes the result"},
    {"math", RT_OPTION_CHOICE, AT(math), "exact", .choices = math_choices,
     .help = "exact: the same bits everywhere; fast: OpenBLAS; reference: plain and slow"},
    {"kernels", RT_OPTION_TEXT, AT(kernels), "auto",
     .help = "instructions for exact: auto, avx512, avx2, neon or portable; never changes the result"},
    {"validate_epochs", RT_OPTION_INT, AT(validate_epochs), "1", 0, ANY_COUNT,
     .help = "validate after every so many epochs; 0: not by epochs"},
    {"validate_updates", RT_OPTION_INT, AT(validate_updates), "0", 0, OPEN,
     .help = "validate after every so many updates; 0: not by updates"},
    {"keep_best", RT_OPTION_BOOL, AT(keep_best), "true",
     .help = "save the model with the lowest validation loss instead of the last one"},
    {"early_stop", RT_OPTION_INT, AT(early_stop), "0", 0, ANY_COUNT,
     .help = "stop after so many validations without improvement; 0: never"},
    {"checkpoint_seconds", RT_OPTION_REAL, AT(checkpoint_seconds), "60", 0, ANY_COUNT,
     .help = "time between checkpoints; 0: only at the end and on a signal"},
    {"report_seconds", RT_OPTION_REAL, AT(report_seconds), "1", 0, ANY_COUNT,
     .help = "time between lines of the journal and of the progress display"},
};
#undef AT

static const char *const plan_choices[] = {"auto", "even", NULL};
#define AT(field) offsetof(struct rt_spec_cluster, field)
static const struct rt_option cluster_options[] = {
    {"strategy", RT_OPTION_TREE, AT(strategy),
     .help = "how the training is distributed, see `ringtmp list strategies`; absent: sgd on one device, "
             "else ring"},
    {"nodes", RT_OPTION_INT, AT(nodes), "1", 1, 1024,
     .help = "processes on this machine that share the work, the master among them; --node alone: 1"},
    {"node", RT_OPTION_TREE, AT(node),
     .help = "nodes that are running elsewhere, as a list of HOST:PORT; HOST alone: port 7117"},
    {"key", RT_OPTION_TEXT, AT(key), .help = "file with the cluster key, see `ringtmp keygen --help`"},
    {"certificate", RT_OPTION_TEXT, AT(certificate),
     .help = "instead of a key: this device's certificate (PEM), with private_key and authority"},
    {"private_key", RT_OPTION_TEXT, AT(private_key), .help = "the private key of the certificate"},
    {"authority", RT_OPTION_TEXT, AT(authority), .help = "the certificate that signed those of all devices"},
    {"master_tail", RT_OPTION_INT, AT(master_tail), "0", 0, 65536,
     .help = "layers at the end that stay on the master: then no worker sees the gradient at the output"},
    {"plan", RT_OPTION_CHOICE, AT(plan), "auto", .choices = plan_choices,
     .help = "who holds which layers: auto: by measured speed and memory; even: as if all were equal"},
    {"keep_all", RT_OPTION_BOOL, AT(keep_all), "false",
     .help = "use every device, also one without which it would be faster"},
    {"memory", RT_OPTION_TEXT, AT(memory_text), "0",
     .help = "what each local process may use, as 512M or 2G; a number alone is MiB; 0: no limit"},
    {"slowdown", RT_OPTION_TREE, AT(slowdown),
     .help = "emulate slower devices: a factor for each local process, the master first, as [1, 1, 10]; see "
             "docs/runfile.md"},
    {"bandwidth", RT_OPTION_TREE, AT(bandwidth),
     .help = "emulate a slower network between local processes: bits per second of each, as 100M"},
    {"latency", RT_OPTION_TREE, AT(latency),
     .help = "emulate a slower network: the time that a message takes one way, as 1ms"},
    {"timeout", RT_OPTION_REAL, AT(timeout), "60", 0.1, 86400, .alias = "patience",
     .help =
         "seconds without a sign of progress after which a node counts as lost; ten times that if it runs"},
};
#undef AT

/* The sections, as the top level of a run file holds them. */
struct sections {
    const char *name, *out;
    const struct rt_tree *model, *data, *train, *cluster;
};

#define AT(field) offsetof(struct sections, field)
static const struct rt_option top_options[] = {
    {"name", RT_OPTION_TEXT, AT(name),
     .help = "of the run, used for its output directory; absent: the file's name"},
    {"out", RT_OPTION_TEXT, AT(out),
     .help = "directory for model, checkpoint, journal and summary; none: no files; absent: runs/NAME-TIME"},
    {"model", RT_OPTION_TREE, AT(model), .help = "the network"},
    {"data", RT_OPTION_TREE, AT(data), .help = "what it learns from"},
    {"train", RT_OPTION_TREE, AT(train), .help = "how it is trained"},
    {"cluster", RT_OPTION_TREE, AT(cluster), .help = "where it is trained"},
};
#undef AT

/* The sections: the last of the top options. */
static const struct {
    const struct rt_option *options;
    size_t count;
} tables[] = {{model_options, COUNT(model_options)},
              {data_options, COUNT(data_options)},
              {train_options, COUNT(train_options)},
              {cluster_options, COUNT(cluster_options)}};
enum { FIRST_SECTION = COUNT(top_options) - COUNT(tables) };

/* ---- checks beyond one key ----------------------------------------------------------------------------- */

/* The place of a key for a message: the key itself, else its section, else the file. */
static const struct rt_tree *place_of(const struct rt_tree *root, const char *section, const char *key) {
    const struct rt_tree *map = rt_tree_get(root, section);
    const struct rt_tree *value = rt_tree_get(map, key);
    return value ? value : map ? map : root;
}

/* section: the map that the data were read from. */
static rt_status check_data(const struct rt_tree *section, const struct rt_spec_data *data,
                            struct rt_error *err) {
    if (data->scale == 0)
        return rt_tree_fail(rt_tree_get(section, "scale"), err, "data: scale must not be 0");
    if (data->split >= 1)
        return rt_tree_fail(rt_tree_get(section, "split"), err, "data: split must be below 1");
    if (data->hold_out >= 1)
        return rt_tree_fail(rt_tree_get(section, "hold_out"), err, "data: hold_out must be below 1");
    return RT_OK;
}

static rt_status check_values(const struct rt_spec *spec, struct rt_error *err) {
    const struct rt_tree *root = spec->tree;
    const struct rt_spec_train *train = &spec->train;
    RT_TRY(check_data(rt_tree_get(root, "data"), &spec->data, err));
    if (train->shards & (train->shards - 1))
        return rt_tree_fail(place_of(root, "train", "shards"), err,
                            "train: shards must be a power of two, not %lld", (long long)train->shards);
    if (train->shards > train->batch)
        return rt_tree_fail(place_of(root, "train", "shards"), err,
                            "train: shards must not exceed batch, but %lld is more than %lld",
                            (long long)train->shards, (long long)train->batch);
    return RT_OK;
}

static bool is_absent(const struct rt_tree *tree) {
    return !tree || (tree->kind == RT_TREE_SCALAR && !*tree->text);
}

static rt_status check_required(const struct rt_spec *spec, struct rt_error *err) {
    static const char *const required[][2] = {
        {"model", "input"}, {"model", "layers"}, {"model", "loss"}, {"data", "train"}};
    for (size_t i = 0; i < COUNT(required); i++) {
        const char *section = required[i][0], *key = required[i][1];
        const struct rt_tree *map = rt_tree_get(spec->tree, section);
        if (is_absent(rt_tree_get(map, key)))
            return rt_tree_fail(map ? map : spec->tree, err, "%s.%s is missing and must be given", section,
                                key);
    }
    return RT_OK;
}

/* ---- reading ------------------------------------------------------------------------------------------- */

rt_status rt_spec_data_read(const struct rt_tree *tree, struct rt_spec_data *data, struct rt_error *err) {
    RT_TRY(rt_options_read(data_options, COUNT(data_options), NULL, tree, "data", data, err));
    RT_TRY(check_data(tree, data, err));
    return is_absent(data->train) ? rt_tree_fail(tree, err, "data.train is missing and must be given")
                                  : RT_OK;
}

/* Where it was set, for messages; *setting moves on to the key. */
static const char *typed_as(const char **setting) {
    static const char *const places[] = {"rt_run_set", "--set",      "--nodes", "--node",
                                         "--key",      "--strategy", "--seed",  "--math"};
    for (size_t i = 0; i < COUNT(places); i++) {
        const size_t length = strlen(places[i]);
        if (strncmp(*setting, places[i], length) == 0 && (*setting)[length] == ' ') {
            *setting += length + 1;
            return places[i];
        }
    }
    return "the settings";
}

static rt_status apply_setting(struct rt_tree *tree, const char *setting, struct rt_error *err) {
    const char *typed = typed_as(&setting), *equals = strchr(setting, '=');
    if (!equals || equals == setting)
        return rt_fail(err, RT_BAD_INPUT, "%s: '%s' is not of the form key=value, as in train.epochs=5",
                       typed, setting);
    char *key = strndup(setting, (size_t)(equals - setting));
    if (!key)
        return rt_fail(err, RT_NO_MEMORY, "not enough memory for a setting");
    struct rt_tree *value = NULL;
    rt_status status = rt_yaml_value(equals + 1, typed, &value, err);
    if (status == RT_OK)
        status = rt_tree_set(tree, key, value, err);
    if (status != RT_OK)
        rt_tree_destroy(value);
    free(key);
    return status;
}

static bool is_set(const char *const *settings, size_t count, const char *key) {
    const size_t length = strlen(key);
    for (size_t i = 0; i < count; i++) {
        const char *setting = settings[i];
        typed_as(&setting);
        if (strncmp(setting, key, length) == 0 && setting[length] == '=')
            return true;
    }
    return false;
}

/* Settings that say which devices take part say it all: what the file has of the other kind is left out. */
static rt_status settle_devices(struct rt_tree *tree, const char *const *settings, size_t count,
                                struct rt_error *err) {
    const bool here = is_set(settings, count, "cluster.nodes"),
               there = is_set(settings, count, "cluster.node");
    const struct rt_tree *cluster = rt_tree_get(tree, "cluster");
    if (there && !here && rt_tree_get(cluster, "nodes"))
        return apply_setting(tree, "cluster.nodes=1", err);
    return here && !there && rt_tree_get(cluster, "node") ? apply_setting(tree, "cluster.node=[]", err)
                                                          : RT_OK;
}

/* Sizes as `ringtmp node --memory` takes them. */
static rt_status read_memory(const struct rt_tree *root, struct rt_spec_cluster *cluster,
                             struct rt_error *err) {
    const uint64_t mib = UINT64_C(1) << 20, most = UINT64_C(1) << 50;
    uint64_t bytes = 0;
    const char *wish = !rt_parse_size(cluster->memory_text, mib, &bytes)
                           ? "a size such as 512M or 2G, where a number alone is MiB"
                       : bytes > most ? "at most 1024T; a number alone is MiB"
                       : bytes % mib  ? "whole MiB, as 512M"
                                      : NULL;
    if (wish)
        return rt_tree_fail(place_of(root, "cluster", "memory"), err, "cluster: memory must be %s, not '%s'",
                            wish, cluster->memory_text);
    cluster->memory = (int64_t)(bytes / mib);
    return RT_OK;
}

/* train: {optimizer: sgd, lr: 0.1} is what others write. */
static rt_status point_to_optimizer(const struct rt_tree *train, rt_status status, struct rt_error *err) {
    for (size_t i = 0; train && train->kind == RT_TREE_MAP && i < train->count; i++) {
        const char *key = train->items[i]->key;
        bool known = false;
        for (size_t j = 0; j < COUNT(train_options); j++)
            known |= strcmp(train_options[j].name, key) == 0;
        const char *option = strcmp(key, "learning_rate") == 0 ? "lr" : key;
        const struct rt_optim_type *type = known ? NULL : rt_optim_type_with(option);
        if (type)
            return rt_fail_more(err, status, "; %s is an option of the optimizer: optimizer: {%s: {%s: ...}}",
                                option, type->name, option);
    }
    return status;
}

static rt_status read_sections(struct rt_spec *spec, const char **name, struct rt_error *err) {
    struct sections top;
    rt_status status =
        rt_options_read(top_options, COUNT(top_options), NULL, spec->tree, "the run file", &top, err);
    if (status == RT_OK)
        status =
            rt_options_read(model_options, COUNT(model_options), NULL, top.model, "model", &spec->model, err);
    if (status == RT_OK)
        status = rt_options_read(data_options, COUNT(data_options), NULL, top.data, "data", &spec->data, err);
    if (status == RT_OK) {
        status =
            rt_options_read(train_options, COUNT(train_options), NULL, top.train, "train", &spec->train, err);
        if (status != RT_OK)
            return point_to_optimizer(top.train, status, err);
    }
    if (status == RT_OK)
        status = rt_options_read(cluster_options, COUNT(cluster_options), NULL, top.cluster, "cluster",
                                 &spec->cluster, err);
    if (status == RT_OK)
        status = read_memory(spec->tree, &spec->cluster, err);
    if (status == RT_OK)
        *name = top.name;
    if (status == RT_OK && top.out && *top.out)
        spec->out = top.out;
    return status;
}

/* The directory of a path, and its base name without the extension, or the name given in the file. */
static rt_status name_spec(struct rt_spec *spec, const char *given, struct rt_error *err) {
    const char *slash = strrchr(spec->file, '/');
    const char *base = slash ? slash + 1 : spec->file;
    const char *dot = strrchr(base, '.');
    if (given && (!*given || strchr(given, '/')))
        return rt_tree_fail(rt_tree_get(spec->tree, "name"), err, "name must be a word without '/', not '%s'",
                            given);
    if (given && !rt_utf8_plain(given))
        return rt_tree_fail(rt_tree_get(spec->tree, "name"), err,
                            "name must be plain text, without control characters, not '%s'", given);
    spec->base_dir =
        slash ? strndup(spec->file, slash == spec->file ? 1 : (size_t)(slash - spec->file)) : strdup(".");
    spec->name = given                ? strdup(given)
                 : dot && dot != base ? strndup(base, (size_t)(dot - base))
                                      : strdup(base);
    if (!spec->name || !spec->base_dir)
        return rt_fail(err, RT_NO_MEMORY, "%s: not enough memory to read it", spec->file);
    /* What is no plain text of a file's name is not taken into that of the run. */
    for (size_t at = 0, length; !given && spec->name[at]; at += length) {
        uint32_t code = 0;
        length = rt_utf8_decode(spec->name + at, &code);
        length += !length;
        if (rt_utf8_is_control(code))
            memset(spec->name + at, '_', length);
    }
    return RT_OK;
}

/* An empty spec with its file name; NULL when there is no memory. */
static struct rt_spec *begin(const char *file, struct rt_error *err) {
    struct rt_spec *spec = calloc(1, sizeof *spec);
    char *copy = strdup(file);
    if (!spec || !copy) {
        free(spec);
        free(copy);
        rt_fail(err, RT_NO_MEMORY, "%s: not enough memory to read it", file);
        return NULL;
    }
    spec->file = copy;
    return spec;
}

/* Keys under old names get their present ones. */
static rt_status rename_keys(struct rt_spec *spec, bool replace, struct rt_error *err) {
    for (size_t i = 0; i < COUNT(tables); i++) {
        const char *section = top_options[FIRST_SECTION + i].name;
        const struct rt_option *renamed = NULL;
        RT_TRY(rt_options_rename(tables[i].options, tables[i].count, rt_tree_get(spec->tree, section),
                                 replace, &renamed, err));
        if (renamed)
            snprintf(spec->notice, sizeof spec->notice,
                     "%s.%s is now called %s.%s; the old name will be removed in the next version", section,
                     renamed->alias, section, renamed->name);
    }
    return RT_OK;
}

/* From a tree that has been read to a spec; what concerns one key alone is checked. */
static rt_status complete(struct rt_spec *spec, const char *const *settings, size_t setting_count,
                          struct rt_error *err) {
    rt_status status = RT_OK;
    if (spec->tree->kind != RT_TREE_MAP)
        status = rt_tree_fail(spec->tree, err, "a run file is a map with the keys model, data and train");
    if (status == RT_OK)
        status = rename_keys(spec, false, err);
    for (size_t i = 0; i < setting_count && status == RT_OK; i++) {
        status = apply_setting(spec->tree, settings[i], err);
        if (status == RT_OK)
            status = rename_keys(spec, true, err);
    }
    if (status == RT_OK)
        status = settle_devices(spec->tree, settings, setting_count, err);
    const char *name = NULL;
    if (status == RT_OK)
        status = read_sections(spec, &name, err);
    if (status == RT_OK)
        status = name_spec(spec, name, err);
    return status;
}

rt_status rt_spec_check(const struct rt_spec *spec, struct rt_error *err) {
    rt_status status = check_values(spec, err);
    return status == RT_OK ? check_required(spec, err) : status;
}

rt_status rt_spec_draft(const struct rt_tree *tree, const char *name, const char *const *settings,
                        size_t setting_count, struct rt_spec **spec, struct rt_error *err) {
    struct rt_spec *made = begin(name, err);
    if (!made)
        return RT_NO_MEMORY;
    rt_status status = rt_tree_copy(tree, &made->tree, err);
    if (status == RT_OK)
        status = complete(made, settings, setting_count, err);
    if (status != RT_OK)
        rt_spec_destroy(made);
    else
        *spec = made;
    return status;
}

rt_status rt_spec_parse(const char *text, size_t bytes, const char *name, const char *const *settings,
                        size_t setting_count, struct rt_spec **spec, struct rt_error *err) {
    struct rt_spec *made = begin(name, err);
    if (!made)
        return RT_NO_MEMORY;
    rt_status status = rt_yaml_parse(text, bytes, made->file, &made->tree, err);
    if (status == RT_OK)
        status = complete(made, settings, setting_count, err);
    if (status == RT_OK)
        status = check_values(made, err);
    if (status != RT_OK)
        rt_spec_destroy(made);
    else
        *spec = made;
    return status;
}

rt_status rt_spec_load(const char *path, const char *const *settings, size_t setting_count,
                       struct rt_spec **spec, struct rt_error *err) {
    struct rt_spec *made = begin(path, err);
    if (!made)
        return RT_NO_MEMORY;
    rt_status status = rt_yaml_load(made->file, &made->tree, err);
    if (status == RT_OK)
        status = complete(made, settings, setting_count, err);
    if (status == RT_OK)
        status = rt_spec_check(made, err);
    if (status != RT_OK)
        rt_spec_destroy(made);
    else
        *spec = made;
    return status;
}

void rt_spec_destroy(struct rt_spec *spec) {
    if (!spec)
        return;
    rt_tree_destroy(spec->tree);
    free(spec->file);
    free(spec->name);
    free(spec->base_dir);
    free(spec);
}

size_t rt_spec_devices(const struct rt_spec *spec) {
    const struct rt_tree *node = spec->cluster.node;
    const size_t running = !node ? 0 : node->kind == RT_TREE_LIST ? node->count : 1;
    return (size_t)spec->cluster.nodes + running;
}

bool rt_spec_find_key(const char *name, char path[64]) {
    for (size_t i = 0; i < COUNT(tables); i++)
        for (size_t j = 0; j < tables[i].count; j++)
            if (strcmp(tables[i].options[j].name, name) == 0) {
                snprintf(path, 64, "%s.%s", top_options[FIRST_SECTION + i].name, name);
                return true;
            }
    return false;
}

void rt_spec_help(FILE *out) {
    rt_options_help(out, top_options, FIRST_SECTION, "");
    for (size_t i = 0; i < COUNT(tables); i++) {
        const struct rt_option *section = &top_options[FIRST_SECTION + i];
        fprintf(out, "%s: %s\n", section->name, section->help);
        rt_options_help(out, tables[i].options, tables[i].count, "  ");
    }
}
