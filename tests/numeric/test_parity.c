/*
 * Parity with PyTorch in float64: outputs, losses, all gradients, and ten updates of every optimizer, on the
 * numbers in golden/ (made by tools/make_golden.py). The bound is on the relative error of each tensor's
 * norm.
 */
#include "data/dataset.h"
#include "learn/step.h"
#include "numeric/rig.h"
#include "optim/optim.h"
#include <string.h>

#define BOUND 1e-5

struct numbers {
    double *at;
    size_t count;
};

struct golden {
    char name[64], input[64], layers[512], loss[32], optimizer[128];
    size_t rows, steps;
    double clip;
    struct numbers y, dx, grads, buffers, losses, inference, params;
};

static struct numbers read_numbers(const char *text) {
    char *end;
    struct numbers numbers = {.count = strtoul(text, &end, 10)};
    numbers.at = calloc(numbers.count + 1, sizeof *numbers.at);
    for (size_t i = 0; i < numbers.count; i++)
        numbers.at[i] = strtod(end, &end);
    return numbers;
}

static void read_text(const char *value, char *text, size_t room) {
    snprintf(text, room, "%s", value);
    CHECK_MSG(strlen(value) < room, "the golden file has a line that is too long: %s", value);
}

static void read_line(struct golden *golden, const char *key, const char *value) {
    struct {
        const char *key;
        struct numbers *numbers;
    } lists[] = {{"y", &golden->y},           {"dx", &golden->dx},
                 {"grads", &golden->grads},   {"buffers", &golden->buffers},
                 {"losses", &golden->losses}, {"inference", &golden->inference},
                 {"params", &golden->params}};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        if (strcmp(key, lists[i].key) == 0)
            *lists[i].numbers = read_numbers(value);
    if (strcmp(key, "case") == 0)
        read_text(value, golden->name, sizeof golden->name);
    if (strcmp(key, "input") == 0)
        read_text(value, golden->input, sizeof golden->input);
    if (strcmp(key, "layers") == 0)
        read_text(value, golden->layers, sizeof golden->layers);
    if (strcmp(key, "loss") == 0)
        read_text(value, golden->loss, sizeof golden->loss);
    if (strcmp(key, "optimizer") == 0)
        read_text(value, golden->optimizer, sizeof golden->optimizer);
    if (strcmp(key, "rows") == 0)
        golden->rows = strtoul(value, NULL, 10);
    if (strcmp(key, "steps") == 0)
        golden->steps = strtoul(value, NULL, 10);
    if (strcmp(key, "clip") == 0)
        golden->clip = strtod(value, NULL);
}

static void destroy_golden(struct golden *golden) {
    free(golden->y.at);
    free(golden->dx.at);
    free(golden->grads.at);
    free(golden->buffers.at);
    free(golden->losses.at);
    free(golden->inference.at);
    free(golden->params.at);
    memset(golden, 0, sizeof *golden);
}

/* Calls check for every case of the file; returns how many there were. */
static size_t for_each_case(const char *path, void (*check)(const struct golden *golden)) {
    FILE *file = fopen(path, "r");
    if (!file) {
        CHECK_MSG(false, "%s cannot be opened", path);
        return 0;
    }
    struct golden golden = {0};
    char *line = NULL;
    size_t room = 0, count = 0;
    while (getline(&line, &room, file) > 0) {
        line[strcspn(line, "\n")] = 0;
        char *value = strchr(line, ' ');
        if (line[0] == '#' || !value)
            continue;
        *value++ = 0;
        if (strcmp(line, "case") == 0 && golden.name[0]) {
            check(&golden);
            destroy_golden(&golden);
            count++;
        }
        read_line(&golden, line, value);
    }
    if (golden.name[0]) {
        check(&golden);
        destroy_golden(&golden);
        count++;
    }
    free(line);
    fclose(file);
    return count;
}

static void compare(const struct golden *golden, const char *what, size_t n, const float *ours,
                    const struct numbers *theirs) {
    if (theirs->count == 0)
        return;
    if (n != theirs->count) {
        CHECK_MSG(false, "%s: %s: %zu numbers, PyTorch has %zu", golden->name, what, n, theirs->count);
        return;
    }
    double *wide = calloc(n, sizeof *wide);
    for (size_t i = 0; i < n; i++)
        wide[i] = (double)ours[i];
    double distance = rig_distance(n, wide, theirs->at);
    CHECK_MSG(distance <= BOUND, "%s: %s differs from PyTorch's by %.2e", golden->name, what, distance);
    free(wide);
}

/* Evaluates the loss and leaves its gradient, for the mean over the rows, in rig->r. */
static void apply_loss(struct rig *rig, const struct golden *golden) {
    const struct rt_loss_type *loss = rt_loss_find(golden->loss);
    float *values = rig_floats(rig->rows * rig->out), *losses = rig_floats(rig->rows);
    int32_t *classes = calloc(rig->rows, sizeof *classes);
    rig_fill(14, 0.5f, rig->rows * rig->out, values);
    for (size_t i = 0; i < rig->rows * rig->out; i++)
        values[i] += 0.5f;
    for (size_t i = 0; i < rig->rows; i++)
        classes[i] = (int32_t)(i % rig->out);
    struct rt_targets targets = {.classes = classes, .values = values};
    loss->evaluate(&rig->device, rig->rows, rig->out, rig->y, &targets, 1.0f / (float)rig->rows, losses,
                   rig->r);
    compare(golden, "the loss", rig->rows, losses, &golden->losses);
    free(values);
    free(losses);
    free(classes);
}

static void check_layers(const struct golden *golden) {
    struct rt_error err;
    struct rig rig;
    CHECK_OK(rig_open(&rig, golden->input, golden->layers, golden->rows, RT_MATH_EXACT, "auto", 1, &err));
    rig_forward(&rig);
    compare(golden, "the output", rig.rows * rig.out, rig.y, &golden->y);
    if (strcmp(golden->loss, "-") != 0)
        apply_loss(&rig, golden);
    rig_backward(&rig, RT_BACKWARD_BOTH, NULL);
    compare(golden, "the input gradient", rig.rows * rig.in, rig.dx, &golden->dx);
    compare(golden, "the parameter gradient", rig.model->param_count, rig.grads, &golden->grads);
    compare(golden, "the running statistics", rig.model->buffer_count, rig.blocks.buffers, &golden->buffers);
    rig.pass.training = false;
    rig_forward(&rig);
    compare(golden, "the output outside of training", rig.rows * rig.out, rig.y, &golden->inference);
    rig_close(&rig);
}

static char seen[8192]; /* the names in the cases gone through */

static void note_names(const struct golden *golden) {
    size_t used = strlen(seen);
    snprintf(seen + used, sizeof seen - used, "%s %s \"%s\" ", golden->layers, golden->optimizer,
             golden->loss);
}

static bool was_seen(const char *name) {
    char quoted[64];
    snprintf(quoted, sizeof quoted, "\"%s\"", name);
    return strstr(seen, quoted) != NULL;
}

TEST(every_layer_and_loss_has_a_case) {
    for_each_case("tests/numeric/golden/layers.txt", note_names);
    for (size_t i = 0; rt_layer_types()[i]; i++)
        CHECK_MSG(was_seen(rt_layer_types()[i]->name), "layer %s has no golden numbers",
                  rt_layer_types()[i]->name);
    for (size_t i = 0; rt_loss_types()[i]; i++)
        CHECK_MSG(was_seen(rt_loss_types()[i]->name), "loss %s has no golden numbers",
                  rt_loss_types()[i]->name);
}

TEST(every_optimizer_has_a_case) {
    for_each_case("tests/numeric/golden/optimizers.txt", note_names);
    for (size_t i = 0; rt_optim_types()[i]; i++)
        CHECK_MSG(was_seen(rt_optim_types()[i]->name), "optimizer %s has no golden numbers",
                  rt_optim_types()[i]->name);
}

TEST(layers_and_losses) {
    CHECK(for_each_case("tests/numeric/golden/layers.txt", check_layers) > 20);
}

static void check_optimizer(const struct golden *golden) {
    struct rt_error err;
    struct rt_tree *input = rig_parse(golden->input), *layers = rig_parse(golden->layers);
    struct rt_tree *optimizer = rig_parse(golden->optimizer);
    struct rt_computing computing = {RT_MATH_EXACT, "auto", 1};
    struct rt_network network;
    struct rt_optim *optim;
    CHECK_OK(rt_network_create(input, layers, golden->loss, &computing, &network, &err));
    CHECK_OK(rt_optim_create(optimizer, &optim, &err));
    rig_fill(11, 0.5f, network.model->param_count, network.blocks.params);
    float *x = rig_floats(golden->rows * network.inputs);
    rig_spread(12, golden->rows * network.inputs, x);
    int32_t *classes = calloc(golden->rows, sizeof *classes);
    for (size_t i = 0; i < golden->rows; i++)
        classes[i] = (int32_t)(i % network.outputs);
    char name[] = "a test";
    struct rt_dataset set = {.count = golden->rows,
                             .shape = network.model->in,
                             .type = RT_DATA_F32,
                             .inputs = x,
                             .classes = classes,
                             .class_count = network.outputs,
                             .name = name};
    struct rt_scaling scaling = {.scale = 1};
    struct rt_schedule schedule;
    CHECK_OK(rt_schedule_read(NULL, &schedule, &err));
    struct rt_trainer_settings settings = {.seed = 1,
                                           .batch = golden->rows,
                                           .micro_batch = 5,
                                           .shards = 1,
                                           .clip_norm = golden->clip,
                                           .updates = golden->steps};
    struct rt_trainer *trainer;
    CHECK_OK(rt_trainer_create(&network, &set, &scaling, RT_TARGET_CLASSES, optim, &schedule, &settings,
                               &trainer, &err));
    float *losses = rig_floats(golden->steps);
    for (size_t i = 0; i < golden->steps; i++) {
        struct rt_step step;
        CHECK_OK(rt_trainer_step(trainer, &step, &err));
        losses[i] = (float)(step.loss / (double)golden->rows);
    }
    compare(golden, "the losses", golden->steps, losses, &golden->losses);
    compare(golden, "the parameters", network.model->param_count, network.blocks.params, &golden->params);
    rt_trainer_destroy(trainer);
    rt_optim_destroy(optim);
    rt_network_destroy(&network);
    rt_tree_destroy(input);
    rt_tree_destroy(layers);
    rt_tree_destroy(optimizer);
    free(losses);
    free(classes);
    free(x);
}

TEST(optimizers) {
    CHECK(for_each_case("tests/numeric/golden/optimizers.txt", check_optimizer) > 15);
}

TEST_MAIN()
