/*
 * A network as a worker's replica: the parts of a batch, added in the tree, are the gradient that the trainer
 * of one device has; layers are needed before they are used, and a gradient does not change once it is ready.
 */
#include "learn/step.h"
#include "run/exchange/replica.h"
#include "support/test.h"
#include "support/tiny.h"

static const char model[] =
    "{input: 12, loss: cross_entropy, layers: [{dense: 20}, tanh, {residual: [{dense: 20}, tanh]}, "
    "{dropout: 0.2}, {dense: 5}]}";

enum { EXAMPLES = 26, BATCH = 10, ROOM = 1000, PARTS = 24, SPANS = 8 };

/* An exchange that only watches. */
struct watcher {
    struct rt_replica *replica;
    size_t needed[SPANS], ready[SPANS];
    size_t ready_count; /* spans are ready in the order that the replica says */
    float seen[ROOM];   /* the gradient of each span when it became ready */
    bool wrong;
};

static ptrdiff_t watcher_due(const void *self, size_t span) {
    struct watcher *watcher = *(struct watcher *const *)self;
    watcher->needed[span]++;
    watcher->wrong |= watcher->ready[span] > 0;
    return RT_NO_SPAN; /* there is nothing to wait for */
}

static bool watcher_give(void *self, size_t span) {
    struct watcher *watcher = *(struct watcher **)self;
    const struct rt_span *at = &watcher->replica->spans[span];
    const size_t turn = watcher->ready_count++;
    watcher->wrong |= span != (watcher->replica->rising ? turn : watcher->replica->span_count - 1 - turn);
    watcher->ready[span]++;
    memcpy(watcher->seen + at->first, watcher->replica->gradient + at->first, at->count * sizeof(float));
    return false;
}

static struct rt_net_replica_settings settings_of(struct tiny *tiny, struct rt_slice_part part,
                                                  size_t micro) {
    return (struct rt_net_replica_settings){.network = &tiny->network,
                                            .set = &tiny->set,
                                            .scaling = &tiny->scaling,
                                            .target = RT_TARGET_CLASSES,
                                            .count = EXAMPLES,
                                            .seed = 5,
                                            .batch = BATCH,
                                            .part = part,
                                            .micro_batch = micro,
                                            .shuffle = true,
                                            .computes = true,
                                            .between = RT_STATE_WAIT_INPUT};
}

/* The gradient of one part of a batch, piece by piece, and what the watcher saw. */
static void compute_part(const struct rt_net_replica_settings *settings, uint64_t batch,
                         float (*gradient)[ROOM], struct rt_done *done) {
    struct rt_error err;
    struct rt_net_replica *replica;
    CHECK_OK(rt_net_replica_create(settings, &replica, &err));
    struct rt_replica *base = rt_net_replica_base(replica);
    static struct watcher watcher;
    struct watcher *self = &watcher;
    watcher = (struct watcher){.replica = base};
    struct rt_blocking_exchange exchange = {
        .exchange = {.self = &self, .due = watcher_due, .give = watcher_give}};
    const struct rt_ticket ticket = {.batch = batch, .parts = 1};
    REQUIRE(base->param_count <= ROOM && base->span_count <= SPANS);
    CHECK_OK(base->compute(base->self, &ticket, &exchange, done, &err));
    CHECK(!watcher.wrong && watcher.ready_count == base->span_count);
    for (size_t i = 0; i < base->span_count; i++)
        CHECK(watcher.needed[i] == 1 && watcher.ready[i] == 1);
    CHECK_MSG(memcmp(watcher.seen, base->gradient, base->param_count * sizeof(float)) == 0,
              "a gradient changed after it was ready (slices %u + %u of %u)", settings->part.run.first,
              settings->part.run.count, settings->part.all);
    memcpy(gradient, base->gradient, base->param_count * sizeof(float));
    for (size_t i = 0; i < base->more_pieces; i++)
        memcpy(gradient[1 + i], base->pieces[i], base->param_count * sizeof(float));
    rt_net_replica_destroy(replica);
}

/* The sum of a tree of `all` slices from those of pieces that are given in the order of slices. */
static void add_tree(float (*blocks)[ROOM], struct rt_slice_run *piece, size_t count, uint32_t all,
                     size_t floats) {
    for (uint32_t half = 1; half < all; half *= 2) {
        size_t left = 0;
        for (size_t i = 0; i < count; i++, left++) {
            const bool pair = piece[i].count == half && i + 1 < count;
            piece[left] = (struct rt_slice_run){piece[i].first, pair ? 2 * half : piece[i].count};
            memmove(blocks[left], blocks[i], floats * sizeof(float));
            for (size_t j = 0; pair && j < floats; j++)
                blocks[left][j] += blocks[i + 1][j];
            i += pair;
        }
        count = left;
    }
    CHECK(count == 1);
}

/* Batch `batch` on one device with sgd of rate 1, and by `parts` workers that have so many slices each. */
static void check_order(size_t parts, const uint32_t *share, size_t shards, size_t micro, uint64_t batch,
                        size_t bucket, bool rising) {
    struct rt_error err;
    struct tiny tiny;
    static float blocks[PARTS][ROOM], before[ROOM];
    struct rt_slice_run piece[PARTS + RT_MAX_PIECES];
    size_t pieces = 0;
    const struct rt_trainer_settings single = {
        .seed = 5, .batch = BATCH, .micro_batch = BATCH, .shards = shards, .shuffle = true};
    CHECK_OK(
        tiny_open(model, "{sgd: {lr: 1}}", EXAMPLES, &(struct tiny_way){.threads = 2}, &single, &tiny, &err));
    struct rt_slice_part slices = {.all = (uint32_t)shards};
    const size_t count = tiny.network.model->param_count;
    struct rt_done all = {0};
    for (size_t part = 0; part < parts; part++) {
        slices.run.count = share[part];
        struct rt_net_replica_settings settings = settings_of(&tiny, slices, micro);
        settings.bucket = bucket;
        settings.rising = rising;
        struct rt_done done;
        compute_part(&settings, batch, blocks + pieces, &done);
        pieces += rt_slices_pieces(slices.run, piece + pieces);
        slices.run.first += share[part];
        CHECK(done.batch == batch);
        all.rows += done.rows;
        all.loss += done.loss;
        all.correct += done.correct;
    }
    add_tree(blocks, piece, pieces, slices.all, count);
    memcpy(before, tiny.network.blocks.params, count * sizeof *before);
    rt_trainer_set_update(tiny.trainer, batch - 1);
    struct rt_step step;
    CHECK_OK(rt_trainer_step(tiny.trainer, &step, &err));
    size_t wrong = 0;
    for (size_t i = 0; i < count; i++)
        wrong += tiny.network.blocks.params[i] != before[i] - blocks[0][i];
    CHECK_MSG(wrong == 0, "%zu of %zu parameters differ (%zu parts, %zu shards, batch %llu)", wrong, count,
              parts, shards, (unsigned long long)batch);
    CHECK(all.rows == step.rows && all.correct == step.correct);
    CHECK_MSG(all.loss - step.loss < 1e-6 && step.loss - all.loss < 1e-6, "%g %g", all.loss, step.loss);
    tiny_close(&tiny);
}

static void check_parts(size_t parts, size_t shards, size_t micro, uint64_t batch, size_t bucket) {
    uint32_t share[PARTS];
    for (size_t i = 0; i < parts; i++)
        share[i] = (uint32_t)(shards / parts);
    check_order(parts, share, shards, micro, batch, bucket, false);
    check_order(parts, share, shards, micro, batch, bucket, true);
}

/* The third batch of an epoch has 6 rows: with 16 parts most have none. */
TEST(parts_add_up_to_the_trainers_gradient) {
    for (size_t parts = 1; parts <= 16; parts *= 2)
        for (uint64_t batch = 2; batch <= 3; batch++) {
            check_parts(parts, 16, BATCH, batch, 0);
            check_parts(parts, 16, 1, batch, 0);
            check_parts(parts, 16, 2, batch, 500);
        }
    check_parts(1, 1, 3, 6, 0);
    check_parts(1, 1, 0, 6, 100000);
}

/* A few partial sums for each worker; one may have no slice. */
TEST(parts_of_any_number_of_slices) {
    static const uint32_t shares[][4] = {
        {5, 5, 5, 1}, {3, 0, 11, 2}, {1, 14, 1, 0}, {7, 1, 8, 0}, {0, 0, 0, 16}};
    for (size_t k = 0; k < sizeof shares / sizeof *shares; k++)
        for (uint64_t batch = 2; batch <= 3; batch++) {
            check_order(4, shares[k], 16, BATCH, batch, 0, false);
            check_order(4, shares[k], 16, 1, batch, 500, true);
        }
}

/* Where the workers do not divide the shards, and have no runs of slices, every part is one slice, in order.
 */
TEST(parts_that_do_not_divide_the_shards) {
    struct rt_error err;
    struct tiny tiny;
    static float parted[3][ROOM], whole[1][ROOM];
    const struct rt_trainer_settings single = {
        .seed = 5, .batch = BATCH, .micro_batch = BATCH, .shards = 1, .shuffle = true};
    CHECK_OK(tiny_open(model, "sgd", EXAMPLES, &(struct tiny_way){0}, &single, &tiny, &err));
    struct rt_net_replica_settings settings;
    struct rt_done done;
    const size_t counts[] = {3, 3, 4};
    for (size_t part = 0; part < 3; part++) {
        settings = settings_of(&tiny, rt_slices_equal_part(8, 3, part), 0);
        compute_part(&settings, 1, parted + part, &done);
        CHECK(done.rows == counts[part]);
    }
    settings = settings_of(&tiny, rt_slices_equal_part(1, 1, 0), 0);
    compute_part(&settings, 1, whole, &done);
    for (size_t i = 0; i < tiny.network.model->param_count; i++) {
        const float sum = parted[0][i] + parted[1][i] + parted[2][i], off = sum - whole[0][i];
        CHECK(off < 1e-6f && off > -1e-6f);
    }
    /* reduce=sum: the mean of the part's own rows */
    settings = settings_of(&tiny, rt_slices_equal_part(1, 3, 2), 0);
    settings.sum = true;
    compute_part(&settings, 1, whole, &done);
    for (size_t i = 0; i < tiny.network.model->param_count; i++) {
        const float off = whole[0][i] - parted[2][i] * 2.5f;
        CHECK(off < 1e-6f && off > -1e-6f);
    }
    tiny_close(&tiny);
}

/* Examples that are sent are the same as those of one's own data. */
struct sent {
    struct tiny *tiny;
    struct rt_batches batches;
    float x[BATCH][12];
    int32_t classes[BATCH];
};

static rt_status give_rows(void *user, uint64_t number, size_t first, size_t rows,
                           struct rt_received_rows *sent, struct rt_error *err) {
    (void)err;
    struct sent *box = user;
    struct rt_batch batch;
    rt_batches_at(&box->batches, number, &batch);
    for (size_t i = 0; i < rows; i++) {
        const uint32_t example = batch.examples[first + i];
        memcpy(box->x[i], box->tiny->inputs + example * 12, sizeof box->x[i]);
        box->classes[i] = box->tiny->classes[example];
    }
    *sent = (struct rt_received_rows){.first = first, .x = box->x[0], .targets.classes = box->classes};
    return RT_OK;
}

TEST(sent_examples_give_the_same) {
    struct rt_error err;
    struct tiny tiny;
    static float own[2][ROOM], got[2][ROOM];
    const struct rt_trainer_settings single = {
        .seed = 5, .batch = BATCH, .micro_batch = BATCH, .shards = 1, .shuffle = true};
    CHECK_OK(tiny_open(model, "sgd", EXAMPLES, &(struct tiny_way){0}, &single, &tiny, &err));
    static struct sent box;
    box.tiny = &tiny;
    CHECK_OK(rt_batches_create(5, EXAMPLES, BATCH, true, false, &box.batches, &err));
    struct rt_net_replica_settings settings = settings_of(&tiny, rt_slices_equal_part(4, 2, 1), 2);
    struct rt_done done, other;
    compute_part(&settings, 2, own, &done);
    settings.set = NULL;
    settings.rows = give_rows;
    settings.user = &box;
    compute_part(&settings, 2, got, &other);
    CHECK(memcmp(own[0], got[0], tiny.network.model->param_count * sizeof **own) == 0);
    CHECK(done.loss == other.loss && done.correct == other.correct && done.rows == other.rows);
    rt_batches_destroy(&box.batches);
    tiny_close(&tiny);
}

TEST(loss_that_is_not_finite_names_the_update) {
    struct rt_error err;
    struct tiny tiny;
    const struct rt_trainer_settings single = {
        .seed = 5, .batch = BATCH, .micro_batch = BATCH, .shards = 1, .shuffle = true};
    CHECK_OK(tiny_open(model, "sgd", EXAMPLES, &(struct tiny_way){0}, &single, &tiny, &err));
    struct rt_net_replica_settings settings = settings_of(&tiny, rt_slices_equal_part(1, 1, 0), 0);
    struct rt_net_replica *replica;
    CHECK_OK(rt_net_replica_create(&settings, &replica, &err));
    for (size_t i = 0; i < tiny.network.model->param_count; i++)
        tiny.network.blocks.params[i] = 1e38f;
    struct rt_replica *base = rt_net_replica_base(replica);
    struct watcher watcher = {.replica = base}, *self = &watcher;
    struct rt_blocking_exchange exchange = {
        .exchange = {.self = &self, .due = watcher_due, .give = watcher_give}};
    const struct rt_ticket ticket = {.batch = 7, .parts = 1};
    struct rt_done done;
    CHECK(base->compute(base->self, &ticket, &exchange, &done, &err) == RT_DIVERGED);
    CHECK_MSG(strstr(err.text, "at update 7 "), "%s", err.text);
    CHECK(watcher.ready[0] == 0);
    rt_net_replica_destroy(replica);
    tiny_close(&tiny);
}

TEST_MAIN()
