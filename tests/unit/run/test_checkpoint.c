/* Checkpoints: what is written comes back, and nothing else is taken for it. */
#include "run/checkpoint.h"
#include "run/modelfile.h"
#include "run/training_state.h"
#include "support/test.h"
#include "support/tiny.h"
#include <math.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static const char model[] = "{input: [1, 6, 6], loss: cross_entropy, layers: [{conv2d: {filters: 4, kernel: "
                            "3}}, batchnorm, relu, flatten, "
                            "{dense: 5}]}";
static const char small[] =
    "{input: [1, 1, 2], loss: cross_entropy, layers: [batchnorm, flatten, {dense: 2}]}";
static const struct rt_trainer_settings settings = {.seed = 5, .batch = 8, .micro_batch = 8, .shards = 1};

static char dir[300];

static void make_dir(void) {
    const char *base = getenv("TMPDIR");
    snprintf(dir, sizeof dir, "%s/ringtmp-checkpoint-XXXXXX", base ? base : "/tmp");
    if (!mkdtemp(dir))
        dir[0] = 0;
}

static char *path_of(const char *file) {
    static char path[4][400];
    static int next;
    char *text = path[next++ % 4];
    snprintf(text, sizeof path[0], "%s/%s", dir, file);
    return text;
}

static void remove_dir(void) {
    static const char *const files[] = {"state.safetensors", "previous.safetensors", "damaged.safetensors"};
    for (size_t i = 0; i < 3; i++)
        unlink(path_of(files[i]));
    CHECK_MSG(rmdir(dir) == 0, "%s holds files that were not expected", dir);
}

static const char *validate = "1", *rescored; /* of the next save or load; what the last load said */

static struct rt_fingerprint print_of(const char *seed) {
    struct rt_fingerprint print = {0};
    rt_fingerprint_add(&print, "train.seed", false, strdup(seed), NULL);
    rt_fingerprint_add(&print, "train.batch", false, strdup("8"), NULL);
    rt_fingerprint_add(&print, "train.validate_epochs", true, strdup(validate), NULL);
    return print;
}

static const struct rt_training_state some = {.update = 7,
                                              .samples = 56,
                                              .seconds = 1.25,
                                              .step_seconds = 0.1,
                                              .epoch_loss = 1.0 / 3,
                                              .epoch_correct = 5,
                                              .epoch_samples = 9,
                                              .best_loss = (double)INFINITY};

static rt_status save(struct tiny *tiny, const struct rt_training_state *state, const char *seed,
                      struct rt_error *err) {
    struct rt_local_state local = {&tiny->network, rt_trainer_state(tiny->trainer),
                                   tiny->optim->type->state_tensors};
    const struct rt_model_state numbers = rt_model_state_local(&local);
    struct rt_fingerprint print = print_of(seed);
    rt_status status = rt_checkpoint_save(dir, &numbers, state, &print, err);
    rt_fingerprint_deinit(&print);
    return status;
}

static rt_status load(struct tiny *tiny, const char *seed, struct rt_training_state *state,
                      struct rt_error *notice, struct rt_error *err) {
    struct rt_local_state local = {&tiny->network, rt_trainer_state(tiny->trainer),
                                   tiny->optim->type->state_tensors};
    const struct rt_model_state numbers = rt_model_state_local(&local);
    struct rt_fingerprint print = print_of(seed);
    rt_status status = rt_checkpoint_load(dir, &numbers, &print, state, &rescored, notice, err);
    rt_fingerprint_deinit(&print);
    return status;
}

static rt_status train(struct tiny *tiny, int updates, struct rt_error *err) {
    rt_status status = RT_OK;
    struct rt_step step;
    while (status == RT_OK && updates-- > 0)
        status = rt_trainer_step(tiny->trainer, &step, err);
    return status;
}

/* Two generations, the older after one update and the newer after two; the hashes of their parameters. */
static rt_status two_generations(char older[65], char newer[65], struct rt_error *err) {
    struct tiny tiny;
    rt_status status = tiny_open(model, "adam", 20, &(struct tiny_way){0}, &settings, &tiny, err);
    if (status != RT_OK)
        return status;
    struct rt_training_state state = some;
    status = train(&tiny, 1, err);
    state.update = 1;
    if (status == RT_OK)
        status = save(&tiny, &state, "5", err);
    if (status == RT_OK)
        status = rt_network_hash(&tiny.network, older, err);
    if (status == RT_OK)
        status = train(&tiny, 1, err);
    state.update = 2;
    if (status == RT_OK)
        status = save(&tiny, &state, "5", err);
    if (status == RT_OK)
        status = rt_network_hash(&tiny.network, newer, err);
    tiny_close(&tiny);
    return status;
}

TEST(comes_back_whole) {
    struct rt_error err, notice;
    struct tiny first, second;
    make_dir();
    CHECK_OK(tiny_open(model, "adam", 20, &(struct tiny_way){0}, &settings, &first, &err));
    CHECK_OK(tiny_open(model, "adam", 20, &(struct tiny_way){0}, &settings, &second, &err));
    CHECK(!rt_checkpoint_exists(dir));
    CHECK_OK(train(&first, 3, &err));
    struct rt_training_state state = some, read;
    state.best_loss = 0.1;
    state.best_update = state.validated = 2;
    state.best_accuracy = 0.75;
    CHECK_OK(save(&first, &state, "5", &err));
    CHECK(rt_checkpoint_exists(dir));
    CHECK_OK(load(&second, "5", &read, &notice, &err));
    CHECK(notice.text[0] == 0);
    CHECK(memcmp(&state, &read, sizeof read) == 0);
    const struct rt_model *m = first.network.model;
    CHECK(memcmp(first.network.blocks.params, second.network.blocks.params, m->param_count * 4) == 0);
    CHECK(memcmp(first.network.blocks.buffers, second.network.blocks.buffers, m->buffer_count * 4) == 0);
    CHECK(memcmp(rt_trainer_state(first.trainer), rt_trainer_state(second.trainer), 2 * m->param_count * 4) ==
          0);
    CHECK_OK(save(&first, &some, "5", &err));
    CHECK_OK(load(&second, "5", &read, &notice, &err));
    CHECK(isinf(read.best_loss) && read.best_update == 0);
    tiny_close(&first);
    tiny_close(&second);
    remove_dir();
}

TEST(other_settings_are_refused_by_name) {
    struct rt_error err, notice;
    struct tiny tiny;
    struct rt_training_state read;
    char older[65], newer[65];
    make_dir();
    CHECK_OK(two_generations(older, newer, &err));
    CHECK_OK(tiny_open(model, "adam", 20, &(struct tiny_way){0}, &settings, &tiny, &err));
    CHECK(load(&tiny, "6", &read, &notice, &err) == RT_BAD_INPUT);
    CHECK_MSG(strstr(err.text, "train.seed") && strstr(err.text, "was 5") && strstr(err.text, "now 6"), "%s",
              err.text);
    tiny_close(&tiny);
    remove_dir();
}

/* Says what differs: two values of one setting, then and now; "" when they are taken for the same. */
static const char *difference(const char *key, const char *then, const char *now) {
    static struct rt_error err;
    const struct rt_training_state state = some;
    struct rt_training_state read;
    const char *ignored;
    char *json = NULL;
    struct rt_fingerprint old = {0}, new = {0};
    rt_status status = rt_fingerprint_add(&old, key, false, strdup(then), &err);
    if (status == RT_OK)
        status = rt_fingerprint_add(&new, key, false, strdup(now), &err);
    if (status == RT_OK)
        status = rt_training_state_json(&state, &old, &json, &err);
    if (status == RT_OK)
        status = rt_training_state_read(json, "file", &new, &read, &ignored, &err);
    if (status == RT_OK)
        err.text[0] = 0;
    free(json);
    rt_fingerprint_deinit(&old);
    rt_fingerprint_deinit(&new);
    return err.text;
}

TEST(difference_is_shown) {
    CHECK(!*difference("a", "one", "one"));
    CHECK(strstr(difference("a", "one", "two"), "because a has changed: it was one and is now two"));
    /* one part to be compared, another for people */
    CHECK(!*difference("a", "one|same", "two|same"));
    const char *text = difference("a", "one|this", "two|that");
    CHECK_MSG(strstr(text, "it was one and is now two") && !strstr(text, "this"), "%s", text);
    text = difference("cluster.strategy", "x|asynchronous x", "y|synchronous");
    CHECK_MSG(strstr(text, "is now y; ") && strstr(text, "nor the other way round"), "%s", text);
    text = difference("cluster.strategy", "x|synchronous, reduce=sum", "y|synchronous");
    CHECK_MSG(strstr(text, "is now y; ") && strstr(text, "the same updates"), "%s", text);
    /* long ones, from shortly before the place where they differ */
    char then[500] = {0}, now[500] = {0};
    memset(then, 'x', 400);
    memcpy(now, then, sizeof now);
    memcpy(then + 300, "this", 4);
    memcpy(now + 300, "that", 4);
    text = difference("a", then, now);
    CHECK_MSG(strstr(text, "it was ...xxxx") && strstr(text, "xthisx") && strstr(text, "is now ...xxxx") &&
                  strstr(text, "xthatx"),
              "%s", text);
    now[300] = 0;
    text = difference("a", then, now);
    CHECK_MSG(strstr(text, "xthisx") && strstr(text, "is now ...xxxx"), "%s", text);
}

/* Another way of scoring is told, not refused. */
TEST(other_scoring_is_told) {
    struct rt_error err, notice;
    struct tiny tiny;
    struct rt_training_state read;
    char older[65], newer[65];
    make_dir();
    CHECK_OK(two_generations(older, newer, &err));
    CHECK_OK(tiny_open(model, "adam", 20, &(struct tiny_way){0}, &settings, &tiny, &err));
    CHECK_OK(load(&tiny, "5", &read, &notice, &err));
    CHECK(rescored == NULL);
    validate = "2";
    CHECK_OK(load(&tiny, "5", &read, &notice, &err));
    CHECK(rescored && strcmp(rescored, "train.validate_epochs") == 0 && read.update == 2);
    tiny_close(&tiny);
    remove_dir();
}

/* A file that cannot be opened is not a damaged one: nothing is moved, nothing older is used. */
TEST(unreadable_is_not_damaged) {
    struct rt_error err, notice;
    struct tiny tiny;
    struct rt_training_state read;
    char older[65], newer[65];
    make_dir();
    CHECK_OK(two_generations(older, newer, &err));
    CHECK_OK(tiny_open(model, "adam", 20, &(struct tiny_way){0}, &settings, &tiny, &err));
    /* A link to itself: root may read everything else. */
    CHECK(unlink(path_of("state.safetensors")) == 0);
    CHECK(symlink("state.safetensors", path_of("state.safetensors")) == 0);
    CHECK(load(&tiny, "5", &read, &notice, &err) == RT_IO);
    CHECK_MSG(strstr(err.text, "state.safetensors: cannot be read"), "%s", err.text);
    struct stat info;
    CHECK(lstat(path_of("state.safetensors"), &info) == 0 &&
          access(path_of("damaged.safetensors"), F_OK) != 0);
    tiny_close(&tiny);
    remove_dir();
}

/* A save that fails to reach the disk has not moved the good one aside. */
TEST(failed_save_rotates_nothing) {
    struct rt_error err, notice;
    struct tiny tiny;
    struct rt_training_state read;
    char older[65], newer[65];
    make_dir();
    CHECK_OK(two_generations(older, newer, &err));
    CHECK_OK(tiny_open(model, "adam", 20, &(struct tiny_way){0}, &settings, &tiny, &err));
    /* Small enough to stay in the buffer of the writer until the sync: only that can fail. */
    struct stat info;
    CHECK(stat(path_of("state.safetensors"), &info) == 0);
    signal(SIGXFSZ, SIG_IGN);
    const struct rlimit limit = {(rlim_t)info.st_size - 1, (rlim_t)info.st_size - 1};
    REQUIRE(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    CHECK(save(&tiny, &some, "5", &err) == RT_IO);
    CHECK_OK(load(&tiny, "5", &read, &notice, &err));
    CHECK_MSG(read.update == 2 && notice.text[0] == 0, "update %llu, %s", (unsigned long long)read.update,
              notice.text);
    /* The older one can make room; the newer one never does. */
    CHECK(access(path_of("previous.safetensors"), F_OK) == 0);
    CHECK(rt_checkpoint_make_room(dir) && !rt_checkpoint_make_room(dir));
    CHECK_OK(load(&tiny, "5", &read, &notice, &err));
    CHECK(read.update == 2);
    CHECK(rename(path_of("state.safetensors"), path_of("previous.safetensors")) == 0);
    CHECK(!rt_checkpoint_make_room(dir) && access(path_of("previous.safetensors"), F_OK) == 0);
    tiny_close(&tiny);
    remove_dir();
}

/* Every way to damage the newest file leads to the one before it, with a notice. */
static void check_fallback(void (*damage)(const char *path)) {
    struct rt_error err, notice;
    struct tiny tiny;
    struct rt_training_state read;
    char older[65], newer[65], hash[65];
    make_dir();
    CHECK_OK(two_generations(older, newer, &err));
    CHECK_OK(tiny_open(model, "adam", 20, &(struct tiny_way){0}, &settings, &tiny, &err));
    damage(path_of("state.safetensors"));
    CHECK_OK(load(&tiny, "5", &read, &notice, &err));
    CHECK(read.update == 1);
    CHECK_MSG(strstr(notice.text, "the newest checkpoint cannot be used (") &&
                  strstr(notice.text, "state.safetensors: ") &&
                  strstr(notice.text, "previous.safetensors is, of update 1"),
              "notice: %s", notice.text);
    CHECK_OK(rt_network_hash(&tiny.network, hash, &err));
    CHECK(strcmp(hash, older) == 0);
    /* The damaged one is not in the way of the next two generations. */
    CHECK_OK(save(&tiny, &some, "5", &err));
    damage(path_of("state.safetensors"));
    CHECK_OK(load(&tiny, "5", &read, &notice, &err));
    CHECK(read.update == 1);
    tiny_close(&tiny);
    remove_dir();
}

static void cut(const char *path) {
    struct stat info;
    CHECK(stat(path, &info) == 0 && truncate(path, info.st_size - 5) == 0);
}

static void empty(const char *path) {
    CHECK(truncate(path, 0) == 0);
}

static void flip(const char *path) {
    FILE *file = fopen(path, "r+b");
    CHECK(file && fseek(file, -30, SEEK_END) == 0);
    int byte = file ? fgetc(file) : 0;
    CHECK(file && fseek(file, -30, SEEK_END) == 0 && fputc(byte ^ 1, file) != EOF && fclose(file) == 0);
}

/* A digit inside the metadata: the header still parses. */
static void alter_state(const char *path) {
    static char bytes[200000];
    FILE *file = fopen(path, "r+b");
    size_t count = file ? fread(bytes, 1, sizeof bytes - 1, file) : 0;
    for (size_t i = 0; i + 12 < count; i++) {
        if (memcmp(bytes + i, "samples\\\":", 10) != 0)
            continue;
        CHECK(fseek(file, (long)i + 10, SEEK_SET) == 0 &&
              fputc(bytes[i + 10] == '1' ? '2' : '1', file) != EOF);
        CHECK(fclose(file) == 0);
        return;
    }
    CHECK_MSG(false, "there is no count of samples in %s", path);
}

TEST(torn_file) {
    check_fallback(cut);
}

TEST(empty_file) {
    check_fallback(empty);
}

TEST(flipped_bit) {
    check_fallback(flip);
}

TEST(numbers_that_are_not_finite_are_refused) {
    struct rt_error err, notice;
    struct tiny tiny;
    struct rt_training_state read;
    make_dir();
    CHECK_OK(tiny_open(model, "momentum", 24, &(struct tiny_way){0}, &settings, &tiny, &err));
    rt_trainer_state(tiny.trainer)[3] = (float)INFINITY;
    CHECK_OK(save(&tiny, &some, "5", &err)); /* a learner would not have let it come to this */
    CHECK(load(&tiny, "5", &read, &notice, &err) == RT_BAD_INPUT);
    CHECK_MSG(strstr(err.text, "state.safetensors: holds a number that is not finite"), "%s", err.text);
    tiny_close(&tiny);
    remove_dir();
}

/* model.init takes parameters from a checkpoint too. */
TEST(altered_is_no_start) {
    struct rt_error err;
    struct tiny tiny;
    make_dir();
    CHECK_OK(tiny_open(model, "momentum", 24, &(struct tiny_way){0}, &settings, &tiny, &err));
    CHECK_OK(save(&tiny, &some, "5", &err));
    CHECK_OK(rt_modelfile_params(path_of("state.safetensors"), &tiny.network, NULL, &err));
    flip(path_of("state.safetensors"));
    CHECK(rt_modelfile_params(path_of("state.safetensors"), &tiny.network, NULL, &err) == RT_BAD_INPUT);
    CHECK_MSG(strstr(err.text, "does not match its hash"), "%s", err.text);
    tiny_close(&tiny);
    remove_dir();
}

static void put_file(const char *path, const uint8_t *bytes, size_t count) {
    FILE *out = fopen(path, "wb");
    REQUIRE(out && fwrite(bytes, 1, count, out) == count);
    fclose(out);
}

/* Whatever byte is changed, and by whom it is read: it is refused, or nothing that matters has changed. */
TEST(any_byte) {
    static uint8_t bytes[1 << 16];
    struct rt_error err, notice;
    struct tiny tiny, other;
    struct rt_training_state state;
    char right[65], hash[65];
    make_dir();
    CHECK_OK(tiny_open(small, "momentum", 24, &(struct tiny_way){0}, &settings, &tiny, &err));
    CHECK_OK(tiny_open(small, "momentum", 24, &(struct tiny_way){0}, &settings, &other, &err));
    CHECK_OK(train(&tiny, 2, &err));
    CHECK_OK(save(&tiny, &some, "5", &err));
    CHECK_OK(rt_network_hash(&tiny.network, right, &err));
    const char *path = path_of("state.safetensors");
    FILE *in = fopen(path, "rb");
    REQUIRE(in);
    const size_t count = fread(bytes, 1, sizeof bytes, in), params = tiny.network.model->param_count;
    fclose(in);
    REQUIRE(count > 1000 && count < sizeof bytes);
    size_t refused = 0;
    for (size_t i = 0; i < count; i++) {
        const uint8_t bit = (uint8_t)(1 << i % 8), was = bytes[i];
        bytes[i] ^= bit;
        put_file(path, bytes, count);
        bytes[i] = was;
        if (load(&other, "5", &state, &notice, &err) == RT_OK) {
            CHECK_OK(rt_network_hash(&other.network, hash, &err));
            CHECK_MSG(strcmp(right, hash) == 0 && memcmp(&state, &some, sizeof some) == 0 &&
                          memcmp(rt_trainer_state(tiny.trainer), rt_trainer_state(other.trainer),
                                 params * sizeof(float)) == 0,
                      "byte %zu: goes on from something else", i);
        } else {
            refused++;
        }
        if (rt_modelfile_params(path, &other.network, NULL, &err) == RT_OK) {
            CHECK_OK(rt_network_hash(&other.network, hash, &err));
            CHECK_MSG(strcmp(right, hash) == 0 &&
                          memcmp(tiny.network.blocks.buffers, other.network.blocks.buffers,
                                 tiny.network.model->buffer_count * sizeof(float)) == 0,
                      "byte %zu: starts from something else", i);
        }
    }
    CHECK_MSG(refused + 16 > count, "only %zu of %zu were refused", refused, count);
    tiny_close(&tiny);
    tiny_close(&other);
    remove_dir();
}

TEST(altered_state) {
    check_fallback(alter_state);
}

static void remove_file(const char *path) {
    CHECK(unlink(path) == 0);
}

TEST(missing_newest) {
    check_fallback(remove_file);
}

TEST(both_damaged) {
    struct rt_error err, notice;
    struct tiny tiny;
    struct rt_training_state read;
    char older[65], newer[65], before[65], after[65];
    make_dir();
    CHECK_OK(two_generations(older, newer, &err));
    cut(path_of("state.safetensors"));
    flip(path_of("previous.safetensors"));
    CHECK_OK(tiny_open(model, "adam", 20, &(struct tiny_way){0}, &settings, &tiny, &err));
    CHECK_OK(rt_network_hash(&tiny.network, before, &err));
    CHECK(load(&tiny, "5", &read, &notice, &err) == RT_BAD_INPUT);
    CHECK_MSG(strstr(err.text, "state.safetensors") && strstr(err.text, "previous.safetensors"), "%s",
              err.text);
    CHECK(rt_network_hash(&tiny.network, after, NULL) == RT_OK && strcmp(before, after) == 0);
    tiny_close(&tiny);
    remove_dir();
}

TEST(nothing_there) {
    struct rt_error err, notice;
    struct tiny tiny;
    struct rt_training_state read;
    make_dir();
    CHECK_OK(tiny_open(model, "adam", 20, &(struct tiny_way){0}, &settings, &tiny, &err));
    CHECK(load(&tiny, "5", &read, &notice, &err) == RT_BAD_INPUT);
    CHECK_MSG(strstr(err.text, "no checkpoint"), "%s", err.text);
    tiny_close(&tiny);
    remove_dir();
}

/* The checkpoint of another optimizer does not fit. */
TEST(other_tensors_are_refused) {
    struct rt_error err, notice;
    struct tiny tiny;
    struct rt_training_state read;
    char older[65], newer[65];
    make_dir();
    CHECK_OK(two_generations(older, newer, &err));
    CHECK_OK(tiny_open(model, "sgd", 20, &(struct tiny_way){0}, &settings, &tiny, &err));
    CHECK(load(&tiny, "5", &read, &notice, &err) == RT_BAD_INPUT);
    tiny_close(&tiny);
    remove_dir();
}

TEST_MAIN()
