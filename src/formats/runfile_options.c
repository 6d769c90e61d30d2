/*
 * The option tables of the run file. They are the only list of keys: settings, the help and docs/runfile.md
 * follow from them.
 */
#include "formats/runfile_inside.h"

#include <stddef.h>
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

static const char *const replica_choices[] = {"auto", "memory", "disk", "off", NULL};
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
    {"listen", RT_OPTION_TEXT, AT(listen),
     .help =
         "HOST:PORT at which nodes may join, before the run and while it is going (`ringtmp node --join`)"},
    {"wait_nodes", RT_OPTION_INT, AT(wait_nodes), "auto", 0, 16, .auto_word = "auto",
     .help = "nodes that must have joined before the run begins; auto: 1 where there is no other device"},
    {"key", RT_OPTION_TEXT, AT(key), .help = "file with the cluster key, see `ringtmp keygen --help`"},
    {"certificate", RT_OPTION_TEXT, AT(certificate),
     .help = "instead of a key: this device's certificate (PEM), with private_key and authority"},
    {"private_key", RT_OPTION_TEXT, AT(private_key), .help = "the private key of the certificate"},
    {"authority", RT_OPTION_TEXT, AT(authority), .help = "the certificate that signed those of all devices"},
    {"master_tail", RT_OPTION_INT, AT(master_tail), "0", 0, 65536,
     .help = "layers at the end that stay on the master: then no worker sees the gradient at the output"},
    {"plan", RT_OPTION_CHOICE, AT(plan), "auto", .choices = plan_choices,
     .help = "layers of each device: auto: by measured speed and memory; even: as if all were equal"},
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
    {"silence", RT_OPTION_REAL, AT(silence), "5", 1, 5,
     .help = "seconds without a heartbeat after which a node counts as lost, at most; less, down to 1, "
             "where the network is quick and the run can go on"},
    {"timeout", RT_OPTION_REAL, AT(timeout), "60", 0.1, 86400, .alias = "patience",
     .help =
         "seconds without a sign of progress after which a node counts as lost; ten times that if it runs"},
    {"wait_master", RT_OPTION_REAL, AT(wait_master), "60", 0, 86400,
     .help = "seconds for which nodes that have lost the master wait for it to be started again with "
             "--resume; no other run gets them meanwhile"},
    {"wait_device", RT_OPTION_REAL, AT(wait_device), "60", 0, 86400,
     .help =
         "seconds for which a ring that has lost a device, and does not fit on the others, waits for one to "
         "come back"},
    {"recover", RT_OPTION_BOOL, AT(recover), "true",
     .help = "when a device is lost, go on with the others; false: end the run"},
    {"rebalance", RT_OPTION_BOOL, AT(rebalance), "true",
     .help = "a ring moves layers while it runs when a device has become slower or faster"},
    {"replica", RT_OPTION_CHOICE, AT(replica), "auto", .choices = replica_choices,
     .help = "where a neighbour keeps a copy of each device's state: auto: in memory, on disk where "
             "memory is short; off: checkpoints only"},
    {"replica_every", RT_OPTION_INT, AT(replica_every), "auto", 1, OPEN, .auto_word = "auto",
     .help = "updates between two such copies; auto: as often as costs at most 2 % of the speed"},
};
#undef AT

#define AT(field) offsetof(struct rt_spec_top, field)
static const struct rt_option top_options[] = {
    {"name", RT_OPTION_TEXT, AT(name),
     .help = "of the run, used for its output directory; absent: the file's name"},
    {"out", RT_OPTION_TEXT, AT(out),
     .help = "directory for model, checkpoint, journal and summary; none: no files; absent: runs/NAME-TIME"},
    {"model", RT_OPTION_TREE, AT(section[RT_SPEC_MODEL]), .help = "the network"},
    {"data", RT_OPTION_TREE, AT(section[RT_SPEC_DATA]), .help = "what it learns from"},
    {"train", RT_OPTION_TREE, AT(section[RT_SPEC_TRAIN]), .help = "how it is trained"},
    {"cluster", RT_OPTION_TREE, AT(section[RT_SPEC_CLUSTER]), .help = "where it is trained"},
};
#undef AT

const struct rt_spec_table rt_spec_top_table = {"the run file", top_options, COUNT(top_options)};

const struct rt_spec_table rt_spec_tables[RT_SPEC_SECTIONS] = {
    [RT_SPEC_MODEL] = {"model", model_options, COUNT(model_options)},
    [RT_SPEC_DATA] = {"data", data_options, COUNT(data_options)},
    [RT_SPEC_TRAIN] = {"train", train_options, COUNT(train_options)},
    [RT_SPEC_CLUSTER] = {"cluster", cluster_options, COUNT(cluster_options)},
};

bool rt_spec_find_key(const char *name, char path[64]) {
    for (size_t i = 0; i < RT_SPEC_SECTIONS; i++)
        for (size_t j = 0; j < rt_spec_tables[i].count; j++)
            if (strcmp(rt_spec_tables[i].options[j].name, name) == 0) {
                snprintf(path, 64, "%s.%s", rt_spec_tables[i].name, name);
                return true;
            }
    return false;
}

void rt_spec_help(FILE *out) {
    const size_t first = COUNT(top_options) - RT_SPEC_SECTIONS; /* the sections are the last top options */
    rt_options_help(out, top_options, first, "");
    for (size_t i = 0; i < RT_SPEC_SECTIONS; i++) {
        fprintf(out, "%s: %s\n", top_options[first + i].name, top_options[first + i].help);
        rt_options_help(out, rt_spec_tables[i].options, rt_spec_tables[i].count, "  ");
    }
}
