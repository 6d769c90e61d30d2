/* Examples that are sent: which rows a part has, and what a worker takes in. */
#include "learn/batches.h"
#include "run/exchange/samples.h"
#include "support/test.h"
#include <math.h>

TEST(parts_are_those_of_the_batches) {
    struct rt_error err;
    for (size_t parts = 1; parts <= 7; parts++) {
        struct rt_batches batches;
        CHECK_OK(rt_batches_create(1, 23, 5, true, false, &batches, &err));
        for (uint64_t number = 1; number <= 11; number++) {
            struct rt_batch batch;
            size_t sum = 0;
            rt_batches_at(&batches, number, &batch);
            for (size_t part = 0; part < parts; part++) {
                const struct rt_sample_layout layout = {
                    .examples = 23, .batch = 5, .part = rt_slices_equal_part(1, parts, part), .inputs = 3};
                size_t first;
                const size_t rows = rt_sample_layout_rows(&layout, number, &first);
                CHECK(first == part * batch.rows / parts && first == sum);
                CHECK(rows * rt_sample_layout_row_floats(&layout) <= rt_sample_layout_floats(&layout));
                sum += rows;
            }
            CHECK(sum == batch.rows);
        }
        rt_batches_destroy(&batches);
    }
}

/* The second part, of 2 rows of 3 inputs and a class: 8 floats. */
static const struct rt_sample_layout layout = {
    .examples = 20, .batch = 4, .part = {2, {1, 1}}, .inputs = 3, .outputs = 5, .target = RT_TARGET_CLASSES};

TEST(pieces_are_taken_in_order) {
    struct rt_error err;
    struct rt_sample_receiver *box;
    static const float floats[8] = {1, 2, 3, 4, 5, 6, 4, 0};
    CHECK_OK(rt_sample_receiver_create(&layout, &box, &err));
    CHECK(rt_sample_receiver_take(box, 0, 0, floats, 8, &err) == RT_BAD_INPUT);
    CHECK(rt_sample_receiver_take(box, 7, 1, floats, 2, &err) == RT_BAD_INPUT);
    CHECK(rt_sample_receiver_take(box, 7, 0, floats, 9, &err) == RT_BAD_INPUT);
    CHECK(rt_sample_receiver_take(box, 7, 0, floats, 0, &err) == RT_BAD_INPUT);
    CHECK_OK(rt_sample_receiver_take(box, 7, 0, floats, 3, &err));
    CHECK(rt_sample_receiver_take(box, 8, 3, floats, 3, &err) == RT_BAD_INPUT);
    CHECK(rt_sample_receiver_take(box, 7, 0, floats, 3, &err) == RT_BAD_INPUT);
    CHECK(rt_sample_receiver_take(box, 7, 3, floats, 6, &err) == RT_BAD_INPUT);
    CHECK_OK(rt_sample_receiver_take(box, 7, 3, floats + 3, 5, &err));
    /* No more than the tickets that a node may hold. */
    for (uint64_t i = 1; i < RT_TICKETS_AHEAD; i++)
        CHECK_OK(rt_sample_receiver_take(box, 7 + i, 0, floats, 8, &err));
    CHECK(rt_sample_receiver_take(box, 20, 0, floats, 8, &err) == RT_BAD_INPUT);
    CHECK_MSG(strstr(err.text, "no room"), "%s", err.text);
    rt_sample_receiver_destroy(box);
}

TEST(rows_come_out_as_they_went_in) {
    struct rt_error err;
    struct rt_sample_receiver *box;
    struct rt_engine *engine;
    struct rt_link *links[1] = {NULL};
    const struct rt_communicator comm = {.count = 1, .links = links};
    const struct rt_engine_settings settings = {.comm = &comm};
    struct rt_received_rows rows;
    float floats[8] = {1, 2, 3, 4, 5, 6, 4, 0};
    CHECK_OK(rt_engine_create(&settings, &engine, &err));
    CHECK_OK(rt_sample_receiver_create(&layout, &box, &err));
    for (uint64_t batch = 1; batch <= 9; batch++) {
        floats[0] = (float)batch;
        CHECK_OK(rt_sample_receiver_take(box, batch, 0, floats, 8, &err));
        CHECK_OK(rt_sample_receiver_rows(box, engine, batch, &rows, &err));
        CHECK(rows.first == 2 && rows.x[0] == (float)batch && rows.x[5] == 6);
        CHECK(rows.targets.classes[0] == 4 && rows.targets.classes[1] == 0);
    }
    CHECK_OK(rt_sample_receiver_take(box, 10, 0, floats, 8, &err));
    CHECK(rt_sample_receiver_rows(box, engine, 11, &rows, &err) == RT_FAILED);
    static const float bad[] = {5, -1, 0.5f, (float)NAN, (float)INFINITY};
    for (uint64_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        floats[7] = bad[i];
        CHECK_OK(rt_sample_receiver_take(box, 12 + i, 0, floats, 8, &err));
        CHECK(rt_sample_receiver_rows(box, engine, 12 + i, &rows, &err) == RT_FAILED);
        CHECK_MSG(strstr(err.text, "class"), "%s", err.text);
    }
    rt_sample_receiver_destroy(box);
    rt_engine_destroy(engine);
}

/* Values that the loss cannot take are refused, also where the inputs are the targets. */
TEST(target_values_are_not_believed) {
    static const struct {
        const char *loss;
        float value;
        bool good;
    } cases[] = {{"mse", -7, true},   {"mse", (float)NAN, false}, {"mse", (float)INFINITY, false},
                 {"bce", 0.5f, true}, {"bce", 1, true},           {"bce", 1.1f, false},
                 {"bce", -7, false},  {"bce", (float)NAN, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int input = 0; input < 2; input++) {
            const struct rt_sample_layout values = {.inputs = 2,
                                                    .outputs = 2,
                                                    .target = input ? RT_TARGET_INPUT : RT_TARGET_VALUES,
                                                    .loss = rt_loss_find(cases[i].loss)};
            float floats[8] = {0};
            struct rt_targets targets;
            struct rt_error err = {.text = ""};
            floats[input ? 3 : 7] = cases[i].value;
            const rt_status status = rt_sample_targets(&values, floats, 2, NULL, &targets, &err);
            CHECK_MSG((status == RT_OK) == cases[i].good, "case %zu: %s", i, err.text);
            CHECK(targets.values == (input ? floats : floats + 4));
        }
}

/* Who is to stop does not wait for examples that do not come. */
TEST(examples_that_do_not_come) {
    struct rt_error err;
    struct rt_sample_receiver *box;
    struct rt_engine *engine;
    struct rt_link *links[1] = {NULL};
    atomic_int stop = 0;
    const struct rt_communicator comm = {.count = 1, .links = links};
    const struct rt_engine_settings settings = {.comm = &comm, .stop = &stop};
    static const float floats[8] = {0};
    struct rt_received_rows rows;
    CHECK_OK(rt_engine_create(&settings, &engine, &err));
    CHECK_OK(rt_sample_receiver_create(&layout, &box, &err));
    CHECK_OK(rt_sample_receiver_take(box, 3, 0, floats, 5, &err));
    CHECK_OK(rt_sample_receiver_take(box, 3, 5, floats, 3, &err));
    CHECK_OK(rt_sample_receiver_rows(box, engine, 3, &rows, &err));
    CHECK_OK(rt_sample_receiver_take(box, 4, 0, floats, 5, &err)); /* a part of them is not enough */
    atomic_store(&stop, 1);
    CHECK(rt_sample_receiver_rows(box, engine, 4, &rows, &err) == RT_INTERRUPTED);
    rt_sample_receiver_destroy(box);
    rt_engine_destroy(engine);
}

TEST_MAIN()
