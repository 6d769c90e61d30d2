/* Batches of a stream are kept until they are released, come again after the state has gone back, and what
 * was released before it could is counted. */
#include "formats/runfile.h"
#include "net/tcp.h"
#include "run/ring/stream_batches.h"
#include "support/datafiles.h"
#include "support/test.h"
#include <time.h>

enum { BATCH = 4, INPUTS = 2, ROOM = 5, EXAMPLES = 42 };

struct rig {
    struct rt_spec *spec;
    struct rt_network network;
    struct rt_scaling scaling;
    struct rt_training_config config;
    struct rt_endpoint *endpoint;
    struct rt_stream_batches *batches;
};

static void rig_open(struct rig *rig) {
    static const char run[] = "model: {input: 2, layers: [dense: 3], loss: cross_entropy}\n"
                              "data: {train: {stream: {from: rows.csv, buffer: 8}}}\n"
                              "train: {batch: 4}\n";
    const struct rt_computing computing = {.kernels = "auto", .threads = 1};
    char text[EXAMPLES * 16], *at = text;
    struct rt_error err;
    for (int i = 0; i < EXAMPLES; i++)
        at += sprintf(at, "%d,%d,%d\n", i, 1000 + i, i % 3);
    rt_test_write("rows.csv", text, (size_t)(at - text));
    *rig = (struct rig){.scaling = {.scale = 1}};
    CHECK_OK(rt_spec_parse(run, sizeof run - 1, rt_test_path("run.yaml"), NULL, 0, &rig->spec, &err));
    CHECK_OK(rt_network_describe(rig->spec->model.input, rig->spec->model.layers, "cross_entropy", &computing,
                                 &rig->network, &err));
    CHECK_OK(rt_tcp_create(&(struct rt_tcp_settings){0}, &rig->endpoint, &err));
    rig->config = (struct rt_training_config){.spec = rig->spec,
                                              .network = &rig->network,
                                              .scaling = &rig->scaling,
                                              .target = RT_TARGET_CLASSES,
                                              .settings = {.batch = BATCH}};
    CHECK_OK(rt_stream_batches_open(&rig->config, ROOM, rig->endpoint, &rig->batches, &err));
}

static void rig_close(struct rig *rig) {
    rt_stream_batches_close(rig->batches);
    rt_endpoint_destroy(rig->endpoint);
    rt_network_destroy(&rig->network);
    rt_spec_destroy(rig->spec);
}

/* The batch of an update, once it has arrived; NULL: the stream has ended, or there is no room. */
static const struct rt_stream_batch *rig_take(struct rig *rig, uint64_t update) {
    const struct rt_stream_batch *batch = rt_stream_batches_take(rig->batches, update);
    for (int tries = 0; tries < 5000 && !batch && !rig->batches->ended; tries++) {
        if (rt_stream_batches_full(rig->batches, update))
            return NULL;
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        batch = rt_stream_batches_take(rig->batches, update);
    }
    return batch;
}

/* Whether the batch has these examples, counted from 0. */
static void check_batch(const struct rt_stream_batch *batch, uint64_t update, size_t first, size_t rows) {
    CHECK(batch);
    if (!batch)
        return;
    CHECK(batch->update == update && batch->first == first && batch->rows == rows);
    for (size_t i = 0; i < rows; i++) {
        CHECK(batch->x[i * INPUTS] == (float)(first + i) &&
              batch->x[i * INPUTS + 1] == (float)(1000 + first + i));
        CHECK(batch->classes[i] == (int32_t)((first + i) % 3));
        CHECK(batch->examples[i] == first + i);
    }
}

/* What the loss of four examples adds. */
static void learn(struct rig *rig) {
    rig->batches->progressive.examples += BATCH;
}

TEST(kept_batches_come_again) {
    struct rig rig;
    rig_open(&rig);
    for (uint64_t update = 1; update <= 4; update++) {
        check_batch(rig_take(&rig, update), update, (update - 1) * BATCH, BATCH);
        learn(&rig);
    }
    rt_stream_batches_release(rig.batches, 2);
    const struct rt_rewound rewound = rt_stream_batches_rewind(rig.batches, 2);
    CHECK(rewound.updates == 2 && rewound.examples == 2 * BATCH); /* nothing is lost */
    for (uint64_t update = 3; update <= 5; update++) {
        check_batch(rig_take(&rig, update), update, (update - 1) * BATCH, BATCH);
        CHECK(rig.batches->progressive.examples == (update - 1) * BATCH);
        learn(&rig);
    }
    rig_close(&rig);
}

/* Back to a state that is older than the oldest batch: those that are kept follow it. */
TEST(what_was_released_is_lost) {
    struct rig rig;
    rig_open(&rig);
    for (uint64_t update = 1; update <= 6; update++) {
        check_batch(rig_take(&rig, update), update, (update - 1) * BATCH, BATCH);
        rt_stream_batches_release(rig.batches, update > 4 ? 4 : update - 1);
    }
    const struct rt_rewound rewound = rt_stream_batches_rewind(rig.batches, 1);
    CHECK(rewound.updates == 2 && rewound.examples == 4 * BATCH); /* of which the state has 1 * BATCH */
    check_batch(rig_take(&rig, 2), 2, 4 * BATCH, BATCH);
    check_batch(rig_take(&rig, 3), 3, 5 * BATCH, BATCH);
    check_batch(rig_take(&rig, 4), 4, 6 * BATCH, BATCH);
    rt_stream_batches_release(rig.batches, 4);
    const struct rt_rewound none = rt_stream_batches_rewind(rig.batches, 0);
    CHECK(none.updates == 0 && none.examples == 7 * BATCH);
    check_batch(rig_take(&rig, 1), 1, 7 * BATCH, BATCH);
    rig_close(&rig);
}

TEST(the_room_is_bounded) {
    struct rig rig;
    rig_open(&rig);
    for (uint64_t update = 1; update <= ROOM; update++) {
        CHECK(!rt_stream_batches_full(rig.batches, update));
        check_batch(rig_take(&rig, update), update, (update - 1) * BATCH, BATCH);
    }
    CHECK(rt_stream_batches_full(rig.batches, ROOM + 1));
    CHECK(!rt_stream_batches_full(rig.batches, ROOM)); /* that one is here */
    CHECK(!rig_take(&rig, ROOM + 1));
    check_batch(rig_take(&rig, 3), 3, 2 * BATCH, BATCH);
    rt_stream_batches_release(rig.batches, 1);
    check_batch(rig_take(&rig, ROOM + 1), ROOM + 1, ROOM * BATCH, BATCH);
    CHECK(!rig_take(&rig, ROOM + 2));
    rig_close(&rig);
}

/* The rest at the end is a batch like others, and comes again like others. */
TEST(the_end_can_be_repeated) {
    struct rig rig;
    rig_open(&rig);
    const uint64_t last = EXAMPLES / BATCH + 1;
    for (uint64_t update = 1; update <= last; update++) {
        check_batch(rig_take(&rig, update), update, (update - 1) * BATCH,
                    update == last ? EXAMPLES % BATCH : BATCH);
        rt_stream_batches_release(rig.batches, update < 9 ? update : 9);
    }
    CHECK(!rig_take(&rig, last + 1) && rig.batches->ended);
    CHECK(rt_stream_batches_rewind(rig.batches, 9).updates == 2);
    check_batch(rig_take(&rig, last - 1), last - 1, (last - 2) * BATCH, BATCH);
    check_batch(rig_take(&rig, last), last, (last - 1) * BATCH, EXAMPLES % BATCH);
    CHECK(!rig_take(&rig, last + 1) && rig.batches->ended);
    rig_close(&rig);
}

TEST_MAIN()
