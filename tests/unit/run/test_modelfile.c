/* Model files: what is written comes back, and a file gets no memory for what it only claims to hold. */
#include "formats/yaml.h"
#include "run/modelfile.h"
#include "run/run.h"
#include "support/test.h"
#include <math.h>
#include <sys/resource.h>
#include <unistd.h>

static const struct rt_computing computing = {.math = RT_MATH_EXACT, .kernels = "auto", .threads = 1};
static char dir[300], path[400];

static void make_dir(void) {
    const char *base = getenv("TMPDIR");
    snprintf(dir, sizeof dir, "%s/ringtmp-model-XXXXXX", base ? base : "/tmp");
    REQUIRE(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/model.safetensors", dir);
}

static void remove_dir(void) {
    unlink(path);
    rmdir(dir);
}

static rt_status make_network(const char *model, struct rt_network *network, struct rt_error *err) {
    struct rt_tree *tree;
    rt_status status = rt_yaml_parse(model, strlen(model), "model", &tree, err);
    if (status != RT_OK)
        return status;
    status = rt_network_create(rt_tree_get(tree, "input"), rt_tree_get(tree, "layers"), "cross_entropy",
                               &computing, network, err);
    rt_tree_destroy(tree);
    return status;
}

/* A file with the given metadata and tensors of one dimension, "name:size", NULL-terminated. */
static rt_status write_file(const char *model, const char *scaling, const char *const *tensors,
                            struct rt_error *err) {
    struct rt_tensors_out *out;
    struct rt_shape shapes[4];
    float zeros[64] = {0};
    rt_status status = rt_tensors_out_create(path, &out, err);
    if (status != RT_OK)
        return status;
    status = rt_tensors_out_meta(out, "model", model, err);
    if (status == RT_OK)
        status = rt_tensors_out_meta(out, "loss", "cross_entropy", err);
    if (status == RT_OK && scaling)
        status = rt_tensors_out_meta(out, "scaling", scaling, err);
    for (size_t i = 0; tensors[i] && status == RT_OK; i++) {
        char name[64];
        size_t rows, columns;
        int fields = sscanf(tensors[i], "%63[^:]:%zux%zu", name, &rows, &columns);
        shapes[i] = (struct rt_shape){.rank = fields == 3 ? 2 : 1, .dim = {rows, fields == 3 ? columns : 0}};
        status = rt_tensors_out_declare(out, name, &shapes[i], err);
    }
    for (size_t i = 0; tensors[i] && status == RT_OK; i++)
        status = rt_tensors_out_write(out, zeros, rt_shape_size(&shapes[i]), err);
    if (status != RT_OK) {
        rt_tensors_out_abandon(out);
        return status;
    }
    return rt_tensors_out_commit(out, err);
}

static long most_memory_kib(void) {
    struct rusage usage;
    return getrusage(RUSAGE_SELF, &usage) == 0 ? usage.ru_maxrss : 0;
}

static const char small[] = "{\"input\": 2, \"layers\": [{\"dense\": 3}]}";

TEST(comes_back_whole) {
    struct rt_error err;
    struct rt_trained written = {.scaling = {.scale = 0.5, .offset = 2}, .update = 42}, read;
    make_dir();
    CHECK_OK(make_network(small, &written.network, &err));
    rt_model_init(written.network.model, 7, written.network.blocks.params, written.network.blocks.buffers);
    const char *const names[] = {"one", "two", "three"};
    CHECK_OK(rt_names_copy(names, 3, &written.names, &err));
    written.description = strdup(small);
    struct rt_local_state local = {.network = &written.network};
    const struct rt_model_state numbers = rt_model_state_local(&local);
    char hash[65];
    CHECK_OK(rt_modelfile_write(path, &written, &numbers, hash, &err));
    CHECK_OK(rt_modelfile_read(path, &computing, &read, &err));
    CHECK(read.update == 42 && read.scaling.scale == 0.5 && read.scaling.offset == 2);
    CHECK(read.names.count == 3 && strcmp(read.names.items[2], "three") == 0);
    char before[65], after[65];
    CHECK_OK(rt_network_hash(&written.network, before, &err));
    CHECK_OK(rt_network_hash(&read.network, after, &err));
    CHECK(strcmp(before, after) == 0 && strcmp(before, hash) == 0);
    rt_trained_deinit(&read);
    rt_trained_deinit(&written);
    remove_dir();
}

TEST(numbers_that_are_not_finite_are_refused) {
    struct rt_error err;
    struct rt_trained written = {.update = 1}, read;
    make_dir();
    CHECK_OK(make_network(small, &written.network, &err));
    rt_model_init(written.network.model, 7, written.network.blocks.params, written.network.blocks.buffers);
    written.network.blocks.params[8] = (float)NAN;
    written.description = strdup(small);
    const struct rt_model_state numbers =
        rt_model_state_local(&(struct rt_local_state){.network = &written.network});
    CHECK_OK(rt_modelfile_write(path, &written, &numbers, NULL, &err));
    CHECK(rt_modelfile_read(path, &computing, &read, &err) == RT_BAD_INPUT);
    CHECK_MSG(strstr(err.text, "bias' holds a number that is not finite"), "%s", err.text);
    rt_trained_deinit(&written);
    remove_dir();
}

/* The first two would take 1.6 and 2.4 GB on the file's word. */
TEST(claims_take_no_memory) {
    static const struct {
        const char *model, *scaling, *sentence;
        const char *tensors[4];
    } cases[] = {
        {"{\"input\": 20000, \"layers\": [{\"dense\": 20000}]}", NULL, "has no tensor '0.weight'", {NULL}},
        {"{\"input\": 300000000, \"layers\": [\"flatten\"]}",
         "{\"scale\": 1, \"offset\": 0, \"mean\": [0], \"inverse\": [1]}",
         "scaling",
         {NULL}},
        {small, NULL, "the model needs [2, 3]", {"0.weight:3x2", "0.bias:3", NULL}},
        {small, NULL, "has no tensor '0.bias'", {"0.weight:2x3", NULL}},
        {small, NULL, "it has 3 tensors, the model 2", {"0.weight:2x3", "0.bias:3", "more:1", NULL}},
    };
    struct rt_error err;
    struct rt_trained trained;
    make_dir();
    long before = most_memory_kib();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        CHECK_OK(write_file(cases[i].model, cases[i].scaling, cases[i].tensors, &err));
        rt_status status = rt_modelfile_read(path, &computing, &trained, &err);
        CHECK_MSG(status == RT_BAD_INPUT && strstr(err.text, cases[i].sentence) && strstr(err.text, path),
                  "case %zu: status %d: %s", i, status, err.text);
    }
    CHECK_MSG(most_memory_kib() - before < 200 << 10, "%ld KiB were taken", most_memory_kib() - before);
    remove_dir();
}

TEST(many_classes_take_no_memory) {
    struct rt_error err;
    struct rt_run *run;
    const char *const none[] = {NULL};
    make_dir();
    long before = most_memory_kib();
    CHECK_OK(write_file("{\"input\": 100000000, \"layers\": [\"flatten\"]}", NULL, none, &err));
    CHECK_OK(rt_run_load(path, &run, &err));
    CHECK(rt_run_class_count(run) == 100000000 && !rt_run_class_name(run, 0));
    CHECK_MSG(most_memory_kib() - before < 200 << 10, "%ld KiB were taken", most_memory_kib() - before);
    rt_run_close(run);
    remove_dir();
}

/* 5,000 layers of 8.5 GB each. */
TEST(more_than_the_machine_has) {
    enum { LAYERS = 5000 };
    static char text[LAYERS * 20];
    struct rt_error err;
    struct rt_network network;
    int used = snprintf(text, sizeof text, "{input: 46000, layers: [");
    for (int i = 0; i < LAYERS; i++)
        used += snprintf(text + used, sizeof text - (size_t)used, "{dense: 46000},");
    snprintf(text + used, sizeof text - (size_t)used, "]}");
    err.text[0] = 0;
    CHECK(make_network(text, &network, &err) == RT_NO_MEMORY);
    CHECK_MSG(strstr(err.text, "the model needs 423") && strstr(err.text, "GB of memory, this machine has"),
              "%s", err.text);
}

TEST(parameters_of_a_checkpoint) {
    struct rt_error err;
    struct rt_network network;
    const char *const tensors[] = {"0.weight:2x3", "0.bias:3", "optimizer.0.0.weight:2x3", NULL};
    make_dir();
    CHECK_OK(write_file(small, NULL, tensors, &err));
    CHECK_OK(make_network(small, &network, &err));
    network.blocks.params[0] = 5;
    uint64_t update = 3;
    CHECK_OK(rt_modelfile_params(path, &network, &update, &err));
    CHECK(network.blocks.params[0] == 0 && update == 0);
    rt_network_destroy(&network);
    remove_dir();
}

TEST_MAIN()
