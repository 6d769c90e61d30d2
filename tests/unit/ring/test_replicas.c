/* What a node keeps of the model's state: an image that does not match its checksum any more is dropped, and
 * said to be damaged, and the others are held all the same. How replicas travel is in test_ring.c and in
 * cluster/test_ring_recovery.sh. */
#include "learn/snapshot.h"
#include "ring/replicas.h"
#include "support/chain.h"
#include "support/test.h"

static const char model[] = "{input: 12, loss: cross_entropy, layers: [{dense: 16}, tanh, {dense: 5}]}";
static const struct rt_trainer_settings settings = {
    .seed = 5, .batch = 8, .micro_batch = 8, .shards = 1, .shuffle = true};
static const size_t one_cut[] = {1, 0};

struct held {
    struct tiny tiny;
    struct chain chain;
    struct rt_replicas *replicas; /* of the first stage, and of the second one as of the node before */
};

/* The second stage's image, as it comes over the link. */
static void store_previous(struct held *held) {
    struct rt_stage *stage = held->chain.stages[1];
    const struct rt_state_map *map = rt_replicas_map(held->replicas);
    struct rt_error err;
    CHECK_OK(rt_stage_snapshot(stage, &err));
    for (size_t tensor = 0; tensor < map->tensors; tensor++) {
        float floats[200];
        size_t first;
        const size_t count = rt_replicas_previous_floats(held->replicas, tensor, &first);
        REQUIRE(count <= 200);
        rt_stage_state_read(stage, tensor, 0, count, floats);
        rt_replicas_store(held->replicas,
                          &(struct rt_state_range){
                              .version = stage->update, .tensor = tensor, .first = first, .count = count},
                          floats);
    }
}

static void open_held(struct held *held) {
    struct rt_error err;
    CHECK_OK(tiny_open(model, "momentum", 20, &(struct tiny_way){0}, &settings, &held->tiny, &err));
    CHECK_OK(chain_open(&held->tiny, model, "batch: 8, seed: 5, optimizer: momentum", one_cut, 2, 1, 3,
                        &held->chain, &err));
    const struct rt_replicas_settings wanted = {.job = held->chain.job,
                                                .kernels = held->chain.device.kernels,
                                                .stage = {held->chain.stages[0]},
                                                .previous_first = 1,
                                                .previous_count = 2};
    CHECK_OK(rt_replicas_create(&wanted, 0, NULL, &held->replicas, &err));
    chain_update(&held->chain);
    CHECK_OK(rt_replicas_snapshot(held->replicas, 0, &err));
    store_previous(held);
    CHECK(rt_replicas_is_stored(held->replicas));
}

static void close_held(struct held *held) {
    rt_replicas_destroy(held->replicas);
    chain_close(&held->chain);
    tiny_close(&held->tiny);
}

TEST(a_damaged_image_is_dropped) {
    struct held held;
    struct rt_holding holding[RT_MAX_HOLDINGS];
    size_t damaged;
    open_held(&held);
    CHECK(rt_replicas_holdings(held.replicas, holding, &damaged) == 2 && damaged == 0);
    CHECK(rt_replicas_hold(held.replicas, 1, 0) && rt_replicas_hold(held.replicas, 1, 2));
    float *image = held.chain.stages[0]->image;
    uint32_t bits;
    memcpy(&bits, image + 3, sizeof bits);
    bits ^= 1;
    memcpy(image + 3, &bits, sizeof bits);
    REQUIRE(rt_replicas_holdings(held.replicas, holding, &damaged) == 1);
    CHECK(damaged == 1 && holding[0].version == 1 && holding[0].first == 1 && holding[0].count == 2);
    CHECK(!rt_replicas_hold(held.replicas, 1, 0) && rt_replicas_hold(held.replicas, 1, 2));
    /* it is said once, and the next image is as good as any */
    CHECK(rt_replicas_holdings(held.replicas, holding, &damaged) == 1 && damaged == 0);
    struct rt_error err;
    CHECK_OK(rt_replicas_snapshot(held.replicas, 0, &err));
    store_previous(&held);
    CHECK(rt_replicas_holdings(held.replicas, holding, &damaged) == 2 && damaged == 0);
    close_held(&held);
}

/* The one before it is held still: of the version whose replicas were complete. */
TEST(the_version_before_is_left) {
    struct held held;
    struct rt_holding holding[RT_MAX_HOLDINGS];
    struct rt_error err;
    size_t damaged;
    open_held(&held);
    chain_update(&held.chain);
    CHECK_OK(rt_replicas_snapshot(held.replicas, 1, &err));
    store_previous(&held);
    CHECK(rt_replicas_holdings(held.replicas, holding, &damaged) == 4 && damaged == 0);
    held.chain.stages[0]->image[0] += 1;
    CHECK(rt_replicas_holdings(held.replicas, holding, &damaged) == 3 && damaged == 1);
    CHECK(!rt_replicas_hold(held.replicas, 2, 0) && rt_replicas_hold(held.replicas, 1, 0));
    CHECK(rt_replicas_hold(held.replicas, 2, 1) && rt_replicas_hold(held.replicas, 1, 1));
    close_held(&held);
}

/* The image that the master keeps for a run with servers. */
TEST(a_damaged_snapshot_is_found_out) {
    struct tiny tiny;
    struct rt_error err;
    struct rt_snapshot snapshot = {0};
    CHECK_OK(tiny_open(model, "momentum", 20, &(struct tiny_way){0}, &settings, &tiny, &err));
    struct rt_local_state local = {
        .network = &tiny.network, .state = rt_trainer_state(tiny.trainer), .optim_tensors = 1};
    const struct rt_model_state state = rt_model_state_local(&local);
    CHECK(!rt_snapshot_is_sound(&snapshot));
    CHECK_OK(rt_snapshot_take(&snapshot, &state, state.tensors, false, NULL, &err));
    CHECK(rt_snapshot_is_sound(&snapshot));
    uint8_t *bytes = snapshot.memory.bytes;
    for (size_t i = 0; i < snapshot.memory.count; i += 101) {
        bytes[i] ^= 0x10;
        CHECK_MSG(!rt_snapshot_is_sound(&snapshot), "byte %zu", i);
        bytes[i] ^= 0x10;
    }
    CHECK(rt_snapshot_is_sound(&snapshot));
    rt_snapshot_deinit(&snapshot);
    tiny_close(&tiny);
}

TEST_MAIN()
