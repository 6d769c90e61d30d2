/* A model file with a byte changed, any byte, is refused or predicts exactly what it predicted. */
#include "formats/yaml.h"
#include "learn/evaluate.h"
#include "learn/scaling.h"
#include "run/modelfile.h"
#include "support/test.h"
#include <unistd.h>

static const struct rt_computing computing = {.math = RT_MATH_EXACT, .kernels = "portable", .threads = 1};
enum { MOST = 8192, OUTPUTS = 2, INPUTS = 4 };

struct file {
    uint8_t bytes[MOST];
    size_t count;
};

/* Statistics of batch normalization beside the parameters, scaling, and names. */
static const char description[] =
    "{\"input\": [1, 2, 2], \"layers\": [{\"conv2d\": {\"filters\": 2, \"kernel\": 1}}, \"batchnorm\", "
    "\"flatten\", {\"dense\": 2}]}";
static const char scaling[] =
    "{\"scale\":0.5,\"offset\":1.0,\"mean\":[1.0,2.0,3.0,4.0],\"inverse\":[0.5,0.25,0.125,1.0]}";

static rt_status make_trained(struct rt_trained *trained, struct rt_error *err) {
    static const char *const names[] = {"oak", "elm"};
    struct rt_tree *tree;
    rt_status status = rt_yaml_parse(description, strlen(description), "model", &tree, err);
    if (status != RT_OK)
        return status;
    status = rt_network_create(rt_tree_get(tree, "input"), rt_tree_get(tree, "layers"), "cross_entropy",
                               &computing, &trained->network, err);
    rt_tree_destroy(tree);
    if (status == RT_OK)
        status = rt_names_copy(names, 2, &trained->names, err);
    if (status == RT_OK)
        status = rt_scaling_read(scaling, "scaling", INPUTS, &trained->scaling, err);
    trained->description = strdup(description);
    trained->update = 7;
    if (status == RT_OK)
        rt_model_init(trained->network.model, 7, trained->network.blocks.params,
                      trained->network.blocks.buffers);
    return status;
}

static void read_file(const char *path, struct file *file) {
    FILE *in = fopen(path, "rb");
    REQUIRE(in);
    file->count = fread(file->bytes, 1, sizeof file->bytes, in);
    fclose(in);
    REQUIRE(file->count > 0 && file->count < sizeof file->bytes);
}

static void make_file(struct file *file) {
    char path[300];
    const char *base = getenv("TMPDIR");
    struct rt_error err;
    struct rt_trained trained = {0};
    snprintf(path, sizeof path, "%s/ringtmp-altered-XXXXXX", base ? base : "/tmp");
    int created = mkstemp(path);
    REQUIRE(created >= 0);
    close(created);
    CHECK_OK(make_trained(&trained, &err));
    struct rt_local_state local = {.network = &trained.network};
    const struct rt_model_state numbers = rt_model_state_local(&local);
    CHECK_OK(rt_modelfile_write(path, &trained, &numbers, NULL, &err));
    read_file(path, file);
    unlink(path);
    rt_trained_deinit(&trained);
}

/* All that a prediction is made of, and told with. */
struct answer {
    float outputs[3 * OUTPUTS];
    char names[64];
};

static rt_status keep(void *user, size_t example, const float *outputs, size_t width, struct rt_error *err) {
    struct answer *answer = user;
    (void)err;
    if (example < 3 && width == OUTPUTS)
        memcpy(answer->outputs + example * OUTPUTS, outputs, width * sizeof *outputs);
    return RT_OK;
}

static rt_status ask(const struct file *file, struct answer *answer, bool *unsealed, struct rt_error *err) {
    static const float inputs[3 * INPUTS] = {0, 1, 2, 3, 7, 5, 3, 1, -4, 9, 0, 2};
    struct rt_tensors tensors;
    struct rt_trained trained;
    *answer = (struct answer){0};
    rt_status status = rt_tensors_parse(file->bytes, file->count, "file", &tensors, err);
    if (status != RT_OK)
        return status;
    status = rt_modelfile_build(&tensors, "file", &computing, &trained, err);
    rt_tensors_close(&tensors);
    if (status != RT_OK)
        return status;
    const struct rt_dataset set = {
        .count = 3, .shape = {.rank = 1, .dim = {INPUTS}}, .type = RT_DATA_F32, .inputs = inputs};
    const struct rt_forward forward = rt_forward_local(&trained.network);
    status = rt_predict(&trained.network, &forward, &set, &trained.scaling, keep, answer, err);
    for (size_t i = 0; i < trained.names.count; i++)
        snprintf(answer->names + strlen(answer->names), sizeof answer->names - strlen(answer->names), "%s,",
                 trained.names.items[i]);
    *unsealed = trained.unsealed;
    rt_trained_deinit(&trained);
    return status;
}

TEST(any_byte) {
    static const uint8_t flips[] = {0x01, 0x02, 0x20, 0x80};
    struct file file;
    struct answer right, other;
    struct rt_error err;
    bool unsealed;
    make_file(&file);
    CHECK_OK(ask(&file, &right, &unsealed, &err));
    CHECK(!unsealed && strcmp(right.names, "oak,elm,") == 0);
    size_t refused = 0;
    for (size_t i = 0; i < file.count; i++) {
        for (size_t f = 0; f < sizeof flips; f++) {
            file.bytes[i] ^= flips[f];
            rt_status status = ask(&file, &other, &unsealed, &err);
            refused += status == RT_BAD_INPUT;
            CHECK_MSG(status == RT_BAD_INPUT ||
                          (status == RT_OK && memcmp(&right, &other, sizeof right) == 0),
                      "byte %zu of %zu, '%c': status %d, other predictions", i, file.count,
                      (char)(file.bytes[i] ^ flips[f]), status);
            CHECK_MSG(status != RT_OK || !unsealed, "byte %zu: the hash is lost without a word", i);
            file.bytes[i] ^= flips[f];
        }
    }
    /* Only the blanks behind the header may become others. */
    CHECK_MSG(refused + 100 > file.count * sizeof flips, "only %zu of %zu were refused", refused,
              file.count * sizeof flips);
}

/* Puts other text in the place of one that is there once, and mends the length of the header. */
static void replace(struct file *file, const char *old, const char *new) {
    uint8_t *at = file->bytes;
    while (at < file->bytes + file->count && memcmp(at, old, strlen(old)) != 0)
        at++;
    REQUIRE(at < file->bytes + file->count && file->count + strlen(new) < sizeof file->bytes);
    const size_t before = (size_t)(at - file->bytes), after = file->count - before - strlen(old);
    memmove(at + strlen(new), at + strlen(old), after);
    memcpy(at, new, strlen(new));
    file->count = before + strlen(new) + after;
    uint64_t header;
    memcpy(&header, file->bytes, sizeof header);
    header += strlen(new) - strlen(old);
    memcpy(file->bytes, &header, sizeof header);
}

TEST(words) {
    static const struct {
        const char *old, *new, *sentence; /* NULL: nothing that matters has changed */
    } cases[] = {
        {"\"scaling\":", "\"scalinG\":", "does not match the hash"},
        {"[\\\"oak\\\",\\\"elm\\\"]", "[\\\"elm\\\",\\\"oak\\\"]", "does not match the hash"},
        {"\"loss\":\"cross_entropy\"", "\"loss\":\"mse\"", "does not match the hash"},
        {"\\\"mean\\\":[1.0", "\\\"mean\\\":[1.5", "does not match the hash"},
        {"\"update\":\"7\"", "\"update\":\"8\"", "does not match the hash"},
        {"\"ringtmp.sha256\":", "\"ringtmp.sha255\":", "does not know"},
        {"\"ringtmp.sha256\":", "\"rimgtmp.sha256\":", "looks like"},
        {"\"ringtmp.sha256\":", "\"format\":", "without `ringtmp.sha256`"},
        {"{\"__metadata__\":{", "{\"__metadata__\":{\"ringtmp.later\":\"1\",", "does not know"},
        {"{\"__metadata__\":{", "{\"__metadata__\":{\"format\":\"pt\",", NULL},
        {"{\"__metadata__\":{", "{\"__metadata__\":{\"scalings\":\"none\",", NULL}, /* others' own affair */
        {"{\"__metadata__\":{", "{\"__metadata__\":{\"a\\u0001b\":\"1\",", "control characters"},
    };
    struct file whole, file;
    struct answer right, other;
    struct rt_error err;
    bool unsealed;
    make_file(&whole);
    CHECK_OK(ask(&whole, &right, &unsealed, &err));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        file = whole;
        replace(&file, cases[i].old, cases[i].new);
        rt_status status = ask(&file, &other, &unsealed, &err);
        if (cases[i].sentence)
            CHECK_MSG(status == RT_BAD_INPUT && strstr(err.text, cases[i].sentence), "%s: status %d: %s",
                      cases[i].new, status, err.text);
        else
            CHECK_MSG(status == RT_OK && !unsealed && memcmp(&right, &other, sizeof right) == 0, "%s: %s",
                      cases[i].new, err.text);
    }
}

TEST_MAIN()
