/* The run file: defaults, --set, what is checked across keys, and that the documentation knows every key. */
#include "formats/runfile.h"
#include "support/test.h"
#include <unistd.h>

static const char run[] = "model:\n"
                          "  input: [1, 28, 28]\n"
                          "  layers:\n"
                          "    - dense: 128\n"
                          "    - relu\n"
                          "    - dense: 10\n"
                          "  loss: cross_entropy\n"
                          "data:\n"
                          "  train: {idx: [images, labels]}\n"
                          "  scale: 0.00392156862745098\n"
                          "train:\n"
                          "  batch: 128\n"
                          "  optimizer: {momentum: {lr: 0.05}}\n"
                          "cluster:\n";

/* Reads the run with one setting (or none); the sentence is "" when it was fine. */
static const char *with(const char *setting, struct rt_spec **spec) {
    static struct rt_error err;
    struct rt_spec *own = NULL;
    err.text[0] = 0;
    if (rt_spec_parse(run, sizeof run - 1, "dir/run.yaml", &setting, setting ? 1 : 0, &own, &err) != RT_OK)
        return err.text;
    if (spec)
        *spec = own;
    else
        rt_spec_destroy(own);
    return "";
}

TEST(values_and_defaults) {
    struct rt_spec *spec = NULL;
    CHECK(!*with(NULL, &spec));
    REQUIRE(spec);
    CHECK(strcmp(spec->name, "run") == 0 && strcmp(spec->base_dir, "dir") == 0);
    CHECK(spec->model.input->count == 3 && spec->model.layers->count == 3 && spec->model.init == NULL);
    CHECK(strcmp(spec->model.loss, "cross_entropy") == 0);
    CHECK(rt_tree_get(spec->data.train, "idx") && !spec->data.test && !spec->data.validation);
    CHECK(spec->data.scale == 0.00392156862745098 && spec->data.offset == 0 && !spec->data.standardize);
    CHECK(spec->data.split == 0 && spec->data.hold_out == 0 && spec->data.limit == 0 && spec->data.shuffle);
    CHECK(spec->data.target == 0 && spec->data.cache_above == 256 && !spec->data.cache_dir);
    const struct rt_spec_train *train = &spec->train;
    CHECK(train->batch == 128 && train->micro_batch == -1 && train->epochs == 10 && train->updates == 0);
    CHECK(rt_tree_get(train->optimizer, "momentum") && train->schedule == NULL);
    CHECK(train->weight_decay == -1 && train->clip_norm == 0 && train->seed == 1 && train->shards == 1);
    CHECK(train->threads == -1 && train->math == 0 && strcmp(train->kernels, "auto") == 0);
    CHECK(train->validate_epochs == 1 && train->validate_updates == 0 && train->keep_best &&
          train->early_stop == 0);
    CHECK(train->checkpoint_seconds == 60 && train->report_seconds == 1);
    CHECK(!spec->cluster.strategy && spec->cluster.nodes == 1);
    rt_spec_destroy(spec);
}

TEST(settings) {
    static const char *const settings[] = {"train.epochs=3",
                                           "train.optimizer={adam: {lr: 0.001}}",
                                           "model.layers.2.dense=100",
                                           "cluster.nodes=2",
                                           "train.epochs=4",
                                           "data.test={csv: a=b.csv}",
                                           "name=other",
                                           "train.math=fast",
                                           "data.target=input",
                                           "train.threads=2"};
    struct rt_error err;
    struct rt_spec *spec;
    CHECK_OK(rt_spec_parse(run, sizeof run - 1, "run.yaml", settings, sizeof settings / sizeof *settings,
                           &spec, &err));
    CHECK(spec->train.epochs == 4 && spec->cluster.nodes == 2 && spec->train.math == 1 &&
          spec->data.target == 1);
    CHECK(spec->train.threads == 2);
    CHECK(rt_tree_get(spec->train.optimizer, "adam") && !rt_tree_get(spec->train.optimizer, "momentum"));
    CHECK(strcmp(rt_tree_get(spec->model.layers->items[2], "dense")->text, "100") == 0);
    CHECK(strcmp(rt_tree_get(spec->data.test, "csv")->text, "a=b.csv") == 0);
    CHECK(strcmp(spec->name, "other") == 0 && strcmp(spec->base_dir, ".") == 0);
    rt_spec_destroy(spec);
}

/* cluster.patience is the old name of cluster.timeout: it works, with a notice, from the file and from --set.
 */
TEST(an_old_name_of_a_key) {
    static const char with_old[] = "{cluster: {patience: 7, nodes: 2}}";
    static const char with_both[] = "{cluster: {patience: 7, timeout: 8}}";
    static const char *const old_one[] = {"cluster.patience=9"}, *const new_one[] = {"cluster.timeout=9"};
    static const char notice[] =
        "cluster.patience is now called cluster.timeout; the old name will be removed in the next version";
    struct rt_error err;
    struct rt_spec *spec;
    CHECK_OK(rt_spec_parse(with_old, sizeof with_old - 1, "run.yaml", NULL, 0, &spec, &err));
    CHECK(spec->cluster.timeout == 7 && spec->cluster.nodes == 2);
    CHECK_MSG(strcmp(spec->notice, notice) == 0, "%s", spec->notice);
    CHECK(rt_tree_get(rt_tree_get(spec->tree, "cluster"), "timeout") &&
          !rt_tree_get(rt_tree_get(spec->tree, "cluster"), "patience"));
    rt_spec_destroy(spec);
    /* --set replaces what the file says, whichever name either uses */
    CHECK_OK(rt_spec_parse(with_old, sizeof with_old - 1, "run.yaml", new_one, 1, &spec, &err));
    CHECK(spec->cluster.timeout == 9 && spec->cluster.nodes == 2);
    rt_spec_destroy(spec);
    CHECK_OK(rt_spec_parse(run, sizeof run - 1, "run.yaml", old_one, 1, &spec, &err));
    CHECK(spec->cluster.timeout == 9 && strcmp(spec->notice, notice) == 0);
    rt_spec_destroy(spec);
    CHECK_OK(rt_spec_parse(run, sizeof run - 1, "run.yaml", new_one, 1, &spec, &err));
    CHECK(spec->cluster.timeout == 9 && !spec->notice[0]);
    rt_spec_destroy(spec);
    CHECK(rt_spec_parse(with_both, sizeof with_both - 1, "run.yaml", NULL, 0, &spec, &err) == RT_BAD_INPUT);
    CHECK_MSG(
        strcmp(err.text, "run.yaml:1: patience is the old name of timeout: give one of them, not both") == 0,
        "%s", err.text);
    CHECK(strcmp(with("cluster.patience=0", NULL),
                 "the settings: cluster: timeout must be between 0.1 and 86400, not '0'") == 0);
}

/* Devices named by settings are meant, not those that the file adds to them. */
TEST(devices_of_settings_replace_those_of_the_file) {
    static const char both[] = "model: {input: [4], layers: [dense: 2], loss: cross_entropy}\n"
                               "data: {train: {csv: a.csv}}\ncluster: {nodes: 4, node: [a, b, c]}\n";
    static const struct {
        const char *settings[2];
        int64_t nodes;
        size_t devices;
    } cases[] = {{{NULL}, 4, 7},
                 {{"--node cluster.node=['x:1', 'y:2']"}, 1, 3},
                 {{"cluster.node=x"}, 1, 2},
                 {{"--nodes cluster.nodes=3"}, 3, 3},
                 {{"--nodes cluster.nodes=3", "--node cluster.node=['x:1', 'y:2']"}, 3, 5}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct rt_error err;
        struct rt_spec *spec;
        const size_t count = !cases[i].settings[0] ? 0 : cases[i].settings[1] ? 2 : 1;
        CHECK_OK(rt_spec_parse(both, sizeof both - 1, "run.yaml", cases[i].settings, count, &spec, &err));
        CHECK(spec->cluster.nodes == cases[i].nodes && rt_spec_devices(spec) == cases[i].devices);
        rt_spec_destroy(spec);
    }
}

TEST(sentences) {
    static const struct {
        const char *setting, *sentence;
    } cases[] = {
        {"train.epocs=3", "the settings: unknown key 'epocs' in train; did you mean 'epochs'?"},
        {"trian.epochs=3", "the settings: unknown key 'trian' in the run file; did you mean 'train'?"},
        {"train.epochs=0", "the settings: train: epochs must be between 1 and 1000000000, not '0'"},
        {"train.epochs=[1", "the settings: did not find expected ',' or ']' while parsing a flow sequence"},
        {"train.micro_batch=0",
         "the settings: train: micro_batch must be between 1 and 1048576 or 'auto', not '0'"},
        {"train.seed=-1", "the settings: train: seed must be at least 0, not '-1'"},
        {"train.shards=3", "the settings: train: shards must be a power of two, not 3"},
        {"train.shards=256", "the settings: train: shards must not exceed batch, but 256 is more than 128"},
        {"train.math=quick", "the settings: train: math must be one of exact, fast, reference, not 'quick'"},
        {"train=5", "the settings: train takes its options as a map, like {batch: ...}, not a single value"},
        {"data.split=1", "the settings: data: split must be below 1"},
        {"data.hold_out=1.0", "the settings: data: hold_out must be below 1"},
        {"data.hold_out=1.5", "the settings: data: hold_out must be between 0 and 1, not '1.5'"},
        {"data.scale=0", "the settings: data: scale must not be 0"},
        {"data.target=output", "the settings: data: target must be one of label, input, not 'output'"},
        {"cluster.nodes=0", "the settings: cluster: nodes must be between 1 and 1024, not '0'"},
        {"cluster.memory=512MB",
         "the settings: cluster: memory must be a size such as 512M or 2G, where a number "
         "alone is MiB, not '512MB'"},
        {"cluster.memory=-1", "the settings: cluster: memory must be a size such as 512M or 2G, where a "
                              "number alone is MiB, not '-1'"},
        {"cluster.memory=512K", "the settings: cluster: memory must be whole MiB, as 512M, not '512K'"},
        {"cluster.memory=1025T",
         "the settings: cluster: memory must be at most 1024T; a number alone is MiB, not '1025T'"},
        {"cluster.memory=[1]", "the settings: cluster: memory must be a single value, not a list"},
        {"name=a/b", "the settings: name must be a word without '/', not 'a/b'"},
        {"model.layers.3=relu",
         "the settings: model.layers has 3 items, numbered from 0: there is no item 3"},
        {"epochs", "the settings: 'epochs' is not of the form key=value, as in train.epochs=5"},
        {"=5", "the settings: '=5' is not of the form key=value, as in train.epochs=5"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *text = with(cases[i].setting, NULL);
        CHECK_MSG(strcmp(text, cases[i].sentence) == 0, "%s\n  said: %s", cases[i].setting, text);
    }
}

/* As `ringtmp node --memory` takes them, but a number alone is MiB. */
TEST(sizes_of_memory) {
    static const struct {
        const char *text;
        int64_t mib;
    } cases[] = {{"memory: 0", 0},     {"memory: 13", 13},    {"memory: 512M", 512},
                 {"memory: 2G", 2048}, {"memory: 2048K", 2},  {"memory: 1T", 1048576},
                 {"nodes: 2", 0},      {"memory: '64M'", 64}, {"memory: 1073741824", 1073741824}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[100];
        struct rt_error err;
        struct rt_spec *spec;
        snprintf(text, sizeof text, "cluster: {%s}", cases[i].text);
        const rt_status status = rt_spec_parse(text, strlen(text), "run.yaml", NULL, 0, &spec, &err);
        CHECK_MSG(status == RT_OK, "%s: %s", text, err.text);
        if (status != RT_OK)
            continue;
        CHECK_MSG(spec->cluster.memory == cases[i].mib, "%s: %lld MiB", text,
                  (long long)spec->cluster.memory);
        rt_spec_destroy(spec);
    }
}

static char directory[200], path[300];

static bool write_run(const char *text) {
    const char *base = getenv("TMPDIR");
    snprintf(directory, sizeof directory, "%s/ringtmp-run-XXXXXX", base ? base : "/tmp");
    if (!mkdtemp(directory))
        return false;
    snprintf(path, sizeof path, "%s/my.run.yaml", directory);
    FILE *file = fopen(path, "w");
    if (!file)
        return false;
    fputs(text, file);
    return fclose(file) == 0;
}

static void remove_run(void) {
    unlink(path);
    rmdir(directory);
}

TEST(files) {
    struct rt_error err;
    struct rt_spec *spec;
    REQUIRE(write_run(run));
    CHECK_OK(rt_spec_load(path, NULL, 0, &spec, &err));
    CHECK(strcmp(spec->name, "my.run") == 0 && strcmp(spec->base_dir, directory) == 0);
    rt_spec_destroy(spec);
    static const struct {
        const char *setting, *sentence;
    } missing[] = {
        {"model.input=", "model.input is missing and must be given"},
        {"model.layers=", "model.layers is missing and must be given"},
        {"model.loss=", "model.loss is missing and must be given"},
        {"data.train=", "data.train is missing and must be given"},
        {"data={scale: 1}", "data.train is missing and must be given"},
        {"model=", "model.input is missing and must be given"},
    };
    for (size_t i = 0; i < sizeof missing / sizeof *missing; i++) {
        CHECK(rt_spec_load(path, &missing[i].setting, 1, &spec, &err) == RT_BAD_INPUT);
        CHECK_MSG(strstr(err.text, missing[i].sentence), "%s\n  said: %s", missing[i].setting, err.text);
    }
    remove_run();
    CHECK(rt_spec_load(path, NULL, 0, &spec, &err) == RT_BAD_INPUT);
    CHECK_MSG(strstr(err.text, "No such file or directory"), "%s", err.text);
    REQUIRE(write_run("- a\n- b\n"));
    CHECK(rt_spec_load(path, NULL, 0, &spec, &err) == RT_BAD_INPUT);
    CHECK_MSG(strstr(err.text, ":1: a run file is a map with the keys model, data and train"), "%s",
              err.text);
    remove_run();
    REQUIRE(write_run("model: {input: 4}\n\ntrain:\n  epochs: 3\n  epocs: 4\n"));
    CHECK(rt_spec_load(path, NULL, 0, &spec, &err) == RT_BAD_INPUT);
    CHECK_MSG(strstr(err.text, "my.run.yaml:5: unknown key 'epocs' in train; did you mean 'epochs'?"), "%s",
              err.text);
    remove_run();
}

static char *read_text(FILE *file) {
    size_t room = 1 << 20;
    char *text = malloc(room);
    if (text)
        text[fread(text, 1, room - 1, file)] = 0;
    return text;
}

/* docs/runfile.md holds the help as it is printed, so that it cannot fall behind. */
TEST(the_documentation_has_every_key) {
    FILE *doc = fopen("docs/runfile.md", "r");
    REQUIRE(doc);
    char *text = read_text(doc), *help = NULL;
    fclose(doc);
    size_t bytes = 0;
    FILE *out = open_memstream(&help, &bytes);
    REQUIRE(text && out);
    rt_spec_help(out);
    fclose(out);
    CHECK_MSG(strstr(text, help), "docs/runfile.md differs from the help, which is:\n%s", help);
    free(help);
    free(text);
}

/* The worked example of the documentation must be a run file. */
TEST(the_example_of_the_documentation) {
    FILE *doc = fopen("docs/runfile.md", "r");
    REQUIRE(doc);
    char *text = read_text(doc);
    fclose(doc);
    REQUIRE(text);
    char *begin = strstr(text, "```yaml\n");
    char *end = begin ? strstr(begin, "\n```\n") : NULL;
    REQUIRE(end);
    end[1] = 0;
    struct rt_error err;
    struct rt_spec *spec;
    REQUIRE(write_run(begin + 8));
    CHECK_OK(rt_spec_load(path, NULL, 0, &spec, &err));
    rt_spec_destroy(spec);
    remove_run();
    free(text);
}

TEST_MAIN()
