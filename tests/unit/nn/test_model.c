/* Models: shapes, names, initial weights, the plan of the slot, and what is refused with which words. */
#include "base/rng.h"
#include "numeric/rig.h"
#include "support/tiny.h"
#include <math.h>

/* Creates the model and destroys it at once; returns the sentence of the failure, or "". */
static const char *refusal(const char *input, const char *layers) {
    static struct rt_error err;
    err.text[0] = 0;
    struct rig rig;
    if (rig_open(&rig, input, layers, 2, RT_MATH_REFERENCE, "auto", 1, &err) == RT_OK)
        rig_close(&rig);
    else
        rt_device_close(&rig.device);
    return err.text;
}

static void check_refused(const char *input, const char *layers, const char *words) {
    const char *text = refusal(input, layers);
    CHECK_MSG(strstr(text, words), "%s %s: expected \"...%s...\", got \"%s\"", input, layers, words, text);
}

TEST(what_is_refused) {
    check_refused("[1, 28, 28]", "[dense: 10]", "gets [1, 28, 28]: put `flatten` before it");
    check_refused("[5]", "[dens: 10]", "unknown layer 'dens'; did you mean 'dense'?");
    check_refused("[5]", "[transmogrify: 10]", "unknown layer 'transmogrify'");
    check_refused("[5]", "[dense: {unit: 10}]", "did you mean 'units'?");
    check_refused("[5]", "[dense]", "units must be given");
    check_refused("[5]", "[dense: 0]", "units must be");
    check_refused("[5]", "[{dense: 3, relu: 1}]", "one name with its options");
    check_refused("[5]", "[[relu]]", "a layer is a name");
    check_refused("[5]", "[relu: 3]", "relu has no options");
    check_refused("[5]", "[]", "at least one layer");
    check_refused("[5]", "relu", "at least one layer");
    check_refused("[5]", "[conv2d: 4]", "[channels, height, width] but gets [5]");
    check_refused("[5]", "[maxpool: 2]", "[channels, height, width] but gets [5]");
    check_refused("[2, 2]", "[batchnorm]", "gets [2, 2]");
    check_refused("[1, 4, 4]", "[conv2d: {filters: 2, kernel: 7}]", "a window of 7 does not fit into 4");
    check_refused("[1, 4, 4]", "[conv2d: {filters: 2, kernel: 4, pad: same}]", "odd size, not 4 x 4");
    check_refused("[3, 4, 4]", "[conv2d: {filters: 4, groups: 2}]", "groups (2) must divide");
    check_refused("[1, 4, 4]", "[maxpool: {kernel: 2, pad: 2}]", "at most half of the window");
    check_refused("[5]", "[dropout: 1]", "rate must be");
    check_refused("[5]", "[residual: [dense: 4]]", "its input [5] to the output of its layers");
    check_refused("[5]", "[residual]", "residual needs a list of layers");
    check_refused("[5]", "[residual: []]", "residual needs a list of layers");
    check_refused("[5]", "[residual: {layer: [relu]}]", "did you mean 'layers'?");
    check_refused("[5]", "[residual: [nonsense]]", "unknown layer 'nonsense'");
    check_refused("[2000000]", "[dense: 1000000000]", "more than 2^31 values");
    check_refused("[1, 40000, 40000]", "[conv2d: {filters: 1000000, kernel: 1}]", "more than 2^31 values");
    check_refused("[1048576, 1, 1]", "[conv2d: {filters: 1, kernel: 2, stride: 1048575, pad: 1048576}]",
                  "padded input would have the shape [1048576, 2097153, 2097153], which is more than 2^31");
    check_refused("[1, 1, 1]", "[conv2d: {filters: 1048576, kernel: 1048576, stride: 1048576, pad: 524288}]",
                  "more than 2^31 values");
    check_refused("[1, 1, 1048576]", "[conv2d: {filters: 2048, kernel_h: 1, kernel_w: 1048576}]",
                  "padded gradient would have the shape [2048, 1, 2097151]");
    check_refused("[1, 1, 1048576]", "[conv2d: {filters: 1, kernel_h: 1, kernel_w: 524288}]",
                  "row of windows would have the shape [524289, 1, 1, 524288]");
    check_refused("[5]", "[relu, dense: 3, dense: {units: x}]", "test:1:");
}

/* A few bytes of description must not take gigabytes: refused before any memory is taken. */
TEST(scratch_memory_is_bounded) {
    struct rt_error err = {0};
    struct rig rig;
    CHECK(rig_open(&rig, "[1, 1, 1]", "[conv2d: {filters: 1, kernel: 1, pad: 20000}]", 1, RT_MATH_EXACT,
                   "portable", 1, &err) == RT_BAD_INPUT);
    CHECK_MSG(strstr(err.text, "MiB of scratch memory per thread"), "%s", err.text);
    rt_device_close(&rig.device);
}

TEST(the_range_of_layers_must_exist) {
    struct rt_error err;
    struct rig rig;
    const size_t wrong[][2] = {{2, 1}, {0, 0}, {0, 3}, {1, 2}, {SIZE_MAX, 1}, {1, SIZE_MAX - 1}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        CHECK(rig_open_part(&rig, "[5]", "[dense: 3, relu]", wrong[i][0], wrong[i][1], 1, false,
                            RT_MATH_REFERENCE, "auto", 1, &err) == RT_BAD_INPUT);
        rt_device_close(&rig.device);
    }
}

struct names {
    char text[600];
    size_t next_param, next_buffer;
};

static rt_status note_name(void *user, const char *name, const struct rt_shape *shape, size_t offset,
                           bool is_buffer, struct rt_error *err) {
    (void)err;
    struct names *names = user;
    char text[96];
    size_t used = strlen(names->text), *next = is_buffer ? &names->next_buffer : &names->next_param;
    snprintf(names->text + used, sizeof names->text - used, "%s%s %s;", is_buffer ? "buffer " : "", name,
             rt_shape_text(shape, text));
    CHECK_MSG(offset == *next, "%s lies at %zu, not at %zu", name, offset, *next);
    *next = offset + rt_shape_size(shape);
    return RT_OK;
}

#define NAMED                                                                                                \
    "[conv2d: {filters: 4, kernel: 3}, relu, residual: [batchnorm, tanh], flatten, residual: [dense: 4, "    \
    "relu, dense: 16], layernorm]"

TEST(tensors_are_named_in_the_order_of_the_block) {
    struct rt_error err;
    struct rig rig;
    CHECK_OK(rig_open(&rig, "[2, 4, 4]", NAMED, 2, RT_MATH_REFERENCE, "auto", 1, &err));
    struct names names = {0};
    CHECK_OK(rt_model_visit(rig.model, note_name, &names, &err));
    const char *expected =
        "0.weight [4, 2, 3, 3];0.bias [4];"
        "2.0.weight [4];2.0.bias [4];buffer 2.0.running_mean [4];buffer 2.0.running_var [4];"
        "4.0.weight [16, 4];4.0.bias [4];4.2.weight [4, 16];4.2.bias [16];"
        "5.weight [16];5.bias [16];";
    CHECK_MSG(strcmp(names.text, expected) == 0, "%s", names.text);
    CHECK(names.next_param == rig.model->param_count && names.next_buffer == rig.model->buffer_count);
    rig_close(&rig);
}

static rt_status fail_visit(void *user, const char *name, const struct rt_shape *shape, size_t offset,
                            bool is_buffer, struct rt_error *err) {
    (void)name, (void)shape, (void)offset, (void)is_buffer;
    ++*(int *)user;
    return rt_fail(err, RT_IO, "enough");
}

TEST(a_visit_stops_at_the_first_failure) {
    struct rt_error err;
    struct rig rig;
    int calls = 0;
    CHECK_OK(rig_open(&rig, "[5]", "[residual: [dense: 5]]", 2, RT_MATH_REFERENCE, "auto", 1, &err));
    CHECK(rt_model_visit(rig.model, fail_visit, &calls, &err) == RT_IO);
    CHECK(calls == 1);
    rig_close(&rig);
}

TEST(a_part_of_a_model_keeps_names_and_numbers) {
    struct rt_error err;
    struct rig whole;
    CHECK_OK(rig_open(&whole, "[2, 4, 4]", NAMED, 2, RT_MATH_REFERENCE, "auto", 1, &err));
    rt_model_init(whole.model, 9, whole.blocks.params, whole.blocks.buffers);
    struct names all = {0}, parts = {0};
    CHECK_OK(rt_model_visit(whole.model, note_name, &all, &err));
    for (size_t i = 0; i < whole.model->count; i += 2) {
        struct rig part;
        CHECK_OK(rig_open_part(&part, "[2, 4, 4]", NAMED, i, 2, 2, true, RT_MATH_REFERENCE, "auto", 1, &err));
        rt_model_init(part.model, 9, part.blocks.params, part.blocks.buffers);
        CHECK(part.model->first_index == whole.model->layers[i]->index);
        CHECK(rig_same(part.blocks.params, whole.blocks.params + whole.model->param_at[i],
                       part.model->param_count));
        CHECK(rig_same(part.blocks.buffers, whole.blocks.buffers + whole.model->buffer_at[i],
                       part.model->buffer_count));
        parts.next_param = parts.next_buffer = 0;
        CHECK_OK(rt_model_visit(part.model, note_name, &parts, &err));
        rig_close(&part);
    }
    CHECK_MSG(strcmp(all.text, parts.text) == 0, "%s", parts.text);
    rig_close(&whole);
}

TEST(initial_weights) {
    struct rt_error err;
    struct rig rig;
    CHECK_OK(rig_open(&rig, "[6]",
                      "[relu, dense: {units: 5, init: glorot}, dense: 3, dense: {units: 2, init: zeros}]", 2,
                      RT_MATH_REFERENCE, "auto", 1, &err));
    rt_model_init(rig.model, 77, rig.blocks.params, rig.blocks.buffers);
    const float limits[] = {0, sqrtf(6.0f / 11.0f), sqrtf(6.0f / 5.0f), 0};
    for (size_t layer = 1; layer < 4; layer++) {
        const struct rt_layer *l = rig.model->layers[layer];
        const float *params = rig.blocks.params + rig.model->param_at[layer];
        size_t weights = rt_shape_size(&l->params[0].shape);
        CHECK(l->index == layer);
        for (size_t e = 0; e < l->param_count; e++) {
            uint32_t words[4];
            rt_rng_block(77, RT_PURPOSE_INIT, (uint32_t)layer, e / 4, 0, words);
            float value = e < weights ? (2.0f * rt_rng_unit(words[e % 4]) - 1.0f) * limits[layer] : 0;
            CHECK_MSG(params[e] == value, "layer %zu, element %zu", layer, e);
        }
    }
    rig_close(&rig);
}

TEST(shapes_and_costs) {
    struct rt_error err;
    struct rig rig;
    CHECK_OK(
        rig_open_part(&rig, "[1, 28, 28]",
                      "[conv2d: {filters: 32, kernel: 3, pad: same}, relu, maxpool: 2, flatten, dense: 10]",
                      0, SIZE_MAX, 2, false, RT_MATH_REFERENCE, "auto", 1, &err));
    const char *shapes[] = {"[32, 28, 28]", "[32, 28, 28]", "[32, 14, 14]", "[6272]", "[10]"};
    char text[96];
    for (size_t i = 0; i < 5; i++)
        CHECK_MSG(strcmp(rt_shape_text(&rig.model->layers[i]->out, text), shapes[i]) == 0, "layer %zu: %s", i,
                  text);
    CHECK(rig.model->param_count == 32 * 9 + 32 + 6272 * 10 + 10);
    CHECK(rig.model->layers[0]->flops_forward == 2.0 * 32 * 9 * 28 * 28);
    CHECK(rig.model->layers[0]->flops_input == 0); /* not needed */
    CHECK(rig.model->layers[4]->flops_input == 2.0 * 6272 * 10);
    CHECK(rig.model->layers[4]->flops_weights == 2.0 * 6272 * 10);
    rig_close(&rig);
}

static size_t sum_of_activation_bytes(const struct rt_model *model, size_t rows) {
    size_t bytes = 0;
    for (size_t i = 0; i < model->count; i++)
        bytes += rt_layer_activation_bytes(model->layers[i], rows);
    return bytes;
}

/* What the layers keep, and the memory they share, make up the slot. */
TEST(activation_bytes_account_for_the_slot) {
    const struct {
        const char *input, *layers;
        size_t shared; /* floats per row of the gradients that take turns */
    } cases[] = {
        {"[16]", "[dense: 32]", 0},
        {"[16]", "[dense: 32, relu, dense: 16, tanh, dense: 5]", 0},
        {"[16]", "[dense: 32, layernorm, softmax]", 32},
        {"[2, 4, 4]", "[conv2d: {filters: 3, kernel: 1}, relu, maxpool: 2, flatten, dense: 7]", 16},
        {"[16]", "[residual: [dense: 8, relu, dense: 16], batchnorm]", 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (size_t rows = 1; rows < 40; rows += 19) {
            struct rt_error err;
            struct rig rig;
            CHECK_OK(
                rig_open(&rig, cases[i].input, cases[i].layers, rows, RT_MATH_REFERENCE, "auto", 1, &err));
            size_t kept = sum_of_activation_bytes(rig.model, rows);
            size_t slot = rt_model_activation_bytes(rig.model, rows);
            CHECK(slot == rt_model_slot_floats(rig.model, rows, true) * sizeof(float));
            CHECK_MSG(slot == kept + rows * cases[i].shared * sizeof(float), "%s: slot %zu, kept %zu",
                      cases[i].layers, slot, kept);
            for (size_t l = 0; l < rig.model->count; l++)
                CHECK(rt_layer_activation_bytes(rig.model->layers[l], SIZE_MAX) == SIZE_MAX ||
                      rt_layer_activation_bytes(rig.model->layers[l], SIZE_MAX) == 0);
            CHECK(rt_model_activation_bytes(rig.model, SIZE_MAX) == SIZE_MAX);
            rig_close(&rig);
        }
}

TEST(activation_bytes_of_one_layer) {
    struct rt_error err;
    struct rig rig;
    CHECK_OK(rig_open(&rig, "[16]", "[dense: 32, relu, layernorm, dropout, softmax]", 3, RT_MATH_REFERENCE,
                      "auto", 1, &err));
    /* output and its gradient; absorbed; output, gradient and two moments per row, padded; in place; output
     */
    const size_t floats[] = {3 * 64, 0, 3 * 64 + 16, 0, 3 * 32};
    for (size_t i = 0; i < 5; i++)
        CHECK_MSG(rt_layer_activation_bytes(rig.model->layers[i], 3) == floats[i] * sizeof(float),
                  "layer %zu: %zu", i, rt_layer_activation_bytes(rig.model->layers[i], 3));
    rig_close(&rig);
}

TEST(memory_is_shared_where_it_can_be) {
    struct rt_error err;
    struct rig rig;
    CHECK_OK(rig_open(&rig, "[16]", "[flatten, dense: 16, relu, tanh, gelu, dense: 16, dropout, relu]", 2,
                      RT_MATH_REFERENCE, "auto", 1, &err));
    const struct rt_layer_offsets *offsets = rig.model->offsets;
    struct rt_layer *const *layers = rig.model->layers;
    CHECK(offsets[0].y == RT_OFFSET_INPUT);
    CHECK(layers[2]->absorbed && layers[1]->act == RT_ACT_RELU && offsets[2].y == offsets[1].y);
    CHECK(!layers[3]->absorbed && offsets[3].y != offsets[2].y); /* relu's backward reads its output */
    CHECK(!layers[4]->absorbed && offsets[4].y != offsets[3].y); /* gelu's backward reads its input */
    CHECK(offsets[6].y == offsets[5].y && offsets[7].y == offsets[5].y);
    CHECK(offsets[2].dy == offsets[1].dy && offsets[3].dy == offsets[1].dy && offsets[4].dy == offsets[1].dy);
    CHECK(offsets[7].dy == offsets[5].dy && offsets[5].dy != offsets[1].dy);
    rig_close(&rig);
}

TEST(a_slot_grows_with_its_rows_and_never_overflows) {
    struct rt_error err;
    struct rig rig;
    CHECK_OK(rig_open(&rig, "[1, 8, 8]",
                      "[conv2d: 4, relu, maxpool: 2, flatten, residual: [dense: 36], dense: 3]", 2,
                      RT_MATH_EXACT, "auto", 1, &err));
    size_t before = 0;
    for (size_t rows = 1; rows < 70; rows++) {
        size_t floats = rt_model_slot_floats(rig.model, rows, true);
        CHECK(floats >= before && floats < SIZE_MAX);
        CHECK(rt_model_slot_floats(rig.model, rows, false) < floats);
        before = floats;
    }
    CHECK(rt_model_slot_floats(rig.model, SIZE_MAX / 2, true) == SIZE_MAX);
    CHECK(rt_model_slot_floats(rig.model, SIZE_MAX / 1000, false) == SIZE_MAX);
    rig_close(&rig);
}

/* ---- watching a model ---- */

struct watched {
    char text[40]; /* what was told, in order: '<' before a layer, '>' after it */
};

static void note(struct watched *watched, char kind, size_t layer) {
    const size_t used = strlen(watched->text);
    snprintf(watched->text + used, sizeof watched->text - used, "%c%zu", kind, layer);
}

static void before_layer(void *self, size_t layer) {
    note(self, '<', layer);
}

static void after_layer(void *self, size_t layer) {
    note(self, '>', layer);
}

/* Layers with parameters are told of, in order, and not those nested in them. */
TEST(a_watch_is_told_of_layers) {
    struct rt_error err;
    struct tiny tiny;
    const struct rt_trainer_settings settings = {.seed = 1, .batch = 4, .micro_batch = 4, .shards = 1};
    CHECK_OK(tiny_open("{input: 6, loss: mse, layers: [tanh, {dense: 6}, relu, {residual: [{dense: 6}, "
                       "{dense: 6}]}, {dropout: 0.1}, {dense: 2}]}",
                       "sgd", 4, &(struct tiny_way){0}, &settings, &tiny, &err));
    struct rt_network *network = &tiny.network;
    struct watched watched = {""};
    struct rt_layer_watch watch = {.self = &watched, .before = before_layer, .after = after_layer};
    static const uint32_t examples[4] = {0, 1, 2, 3};
    static float slot[4000], gradient[1000], rising[1000];
    const struct rt_pass pass = {
        .device = &network->device, .rows = 4, .training = true, .seed = 1, .examples = examples};
    REQUIRE(rt_model_slot_floats(network->model, 4, true) <= 4000 && network->model->param_count <= 1000);
    network->blocks.watch = &watch;
    rt_model_forward(network->model, &pass, &network->blocks, slot, tiny.inputs);
    CHECK_MSG(strcmp(watched.text, "<1<3<5") == 0, "%s", watched.text);
    rt_model_backward(network->model, &pass, &network->blocks, slot, tiny.inputs, RT_BACKWARD_INPUT, NULL,
                      gradient, false, NULL);
    CHECK_MSG(strcmp(watched.text, "<1<3<5") == 0, "%s", watched.text);
    rt_model_backward(network->model, &pass, &network->blocks, slot, tiny.inputs, RT_BACKWARD_BOTH, NULL,
                      gradient, false, NULL);
    CHECK_MSG(strcmp(watched.text, "<1<3<5>5>3>1") == 0, "%s", watched.text);
    watched = (struct watched){""};
    watch.rising = true;
    rt_model_forward(network->model, &pass, &network->blocks, slot, tiny.inputs);
    for (size_t i = 0; i < 8; i++)
        rt_model_output_gradient(network->model, &pass, slot)[i] = 0.1f * (float)i;
    rt_model_backward(network->model, &pass, &network->blocks, slot, tiny.inputs, RT_BACKWARD_BOTH, NULL,
                      rising, false, NULL);
    CHECK_MSG(strcmp(watched.text, "<1<3<5>1>3>5") == 0, "%s", watched.text);
    network->blocks.watch = NULL;
    rt_model_forward(network->model, &pass, &network->blocks, slot, tiny.inputs);
    for (size_t i = 0; i < 8; i++)
        rt_model_output_gradient(network->model, &pass, slot)[i] = 0.1f * (float)i;
    rt_model_backward(network->model, &pass, &network->blocks, slot, tiny.inputs, RT_BACKWARD_BOTH, NULL,
                      gradient, false, NULL);
    CHECK(memcmp(gradient, rising, network->model->param_count * sizeof(float)) == 0);
    tiny_close(&tiny);
}

TEST(dropout_keeps_the_mean_and_does_nothing_outside_training) {
    struct rt_error err;
    struct rig rig;
    CHECK_OK(rig_open(&rig, "[5000]", "[dropout: 0.3]", 4, RT_MATH_EXACT, "auto", 1, &err));
    for (size_t i = 0; i < rig.rows * rig.in; i++)
        rig.x[i] = 1;
    rig_forward(&rig);
    double sum = 0;
    size_t dropped = 0;
    for (size_t i = 0; i < rig.rows * rig.out; i++) {
        sum += (double)rig.y[i];
        dropped += rig.y[i] == 0;
    }
    double n = (double)(rig.rows * rig.out);
    CHECK_MSG(fabs(sum / n - 1) < 0.02 && fabs((double)dropped / n - 0.3) < 0.02, "mean %g, dropped %zu",
              sum / n, dropped);
    rig.pass.training = false;
    rig_forward(&rig);
    CHECK(rig_same(rig.x, rig.y, rig.rows * rig.out));
    rig_close(&rig);
}

/* So small a rate that 1 less the rate rounds to 1, and one just above. */
TEST(a_tiny_dropout_rate_drops_nothing) {
    struct rt_error err;
    const char *const layers[] = {"[dropout: 1e-17]", "[dropout: 1e-300]", "[dropout: 2e-16]"};
    for (size_t l = 0; l < sizeof layers / sizeof *layers; l++) {
        struct rig rig;
        CHECK_OK(rig_open(&rig, "[500]", layers[l], 4, RT_MATH_EXACT, "auto", 1, &err));
        for (size_t i = 0; i < rig.rows * rig.in; i++)
            rig.x[i] = 1;
        rig_forward(&rig);
        CHECK_MSG(rig_same(rig.x, rig.y, rig.rows * rig.out), "%s", layers[l]);
        rig_close(&rig);
    }
}

TEST(every_layer_and_loss_has_a_help_text) {
    for (size_t i = 0; rt_layer_types()[i]; i++) {
        const struct rt_layer_type *type = rt_layer_types()[i];
        CHECK(type->help && *type->help && rt_layer_type_find(type->name) == type);
        for (size_t o = 0; o < type->option_count; o++)
            CHECK_MSG(type->options[o].help && *type->options[o].help, "%s %s", type->name,
                      type->options[o].name);
    }
    CHECK(strstr(rt_layer_type_find("batchnorm")->help, "micro_batch"));
    for (size_t i = 0; rt_loss_types()[i]; i++)
        CHECK(*rt_loss_types()[i]->help && rt_loss_find(rt_loss_types()[i]->name) == rt_loss_types()[i]);
}

TEST_MAIN()
