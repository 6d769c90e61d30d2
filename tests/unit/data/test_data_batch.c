/* From stored examples to batches: the bits of inputs, targets, views, standardising, and hashes. */
#include "support/datafiles.h"
#include "support/test.h"
#include <math.h>

enum { COUNT = 40, SIZE = 300 }; /* more values than one piece of the conversion */

/* A set in memory of each type, not aligned on purpose. */
static void make_set(enum rt_data_type type, uint8_t *memory, int32_t *classes, float *values,
                     struct rt_dataset *set) {
    uint8_t *data = memory + 1;
    for (int i = 0; i < COUNT * SIZE; i++) {
        double value = ((i * 7919) % 1000 - 500) * 0.37;
        uint8_t u8 = (uint8_t)(i * 13);
        float f32 = (float)value;
        int32_t i32 = (int32_t)(value * 1e6);
        int64_t i64 = (int64_t)(value * 1e12);
        size_t width = rt_data_type_bytes(type);
        const void *from = type == RT_DATA_U8    ? (const void *)&u8
                           : type == RT_DATA_F32 ? (const void *)&f32
                           : type == RT_DATA_F64 ? (const void *)&value
                           : type == RT_DATA_I32 ? (const void *)&i32
                                                 : (const void *)&i64;
        memcpy(data + (size_t)i * width, from, width);
    }
    for (int i = 0; i < COUNT; i++) {
        classes[i] = i % 5;
        values[2 * i] = (float)i;
        values[2 * i + 1] = (float)-i;
    }
    *set = (struct rt_dataset){.count = COUNT,
                               .type = type,
                               .shape = {.rank = 2, .dim = {3, SIZE / 3}},
                               .inputs = data,
                               .classes = classes,
                               .class_count = 5,
                               .values = values,
                               .value_width = 2};
}

/* What the header promises, one value at a time. */
static float expected(const struct rt_dataset *set, const struct rt_scaling *scaling, size_t row, size_t j) {
    const uint8_t *place = (const uint8_t *)set->inputs + (row * SIZE + j) * rt_data_type_bytes(set->type);
    float x = 0;
    double f64;
    int32_t i32;
    int64_t i64;
    if (set->type == RT_DATA_U8)
        x = *place;
    if (set->type == RT_DATA_F32)
        memcpy(&x, place, sizeof x);
    if (set->type == RT_DATA_F64)
        memcpy(&f64, place, sizeof f64), x = (float)f64;
    if (set->type == RT_DATA_I32)
        memcpy(&i32, place, sizeof i32), x = (float)i32;
    if (set->type == RT_DATA_I64)
        memcpy(&i64, place, sizeof i64), x = (float)i64;
    x = fmaf(x, (float)scaling->scale, (float)scaling->offset);
    return scaling->features ? (x - scaling->mean[j]) * scaling->inverse[j] : x;
}

static uint8_t memory[COUNT * SIZE * 8 + 1];
static int32_t classes[COUNT];
static float values[COUNT * 2], x[COUNT * SIZE], again[COUNT * SIZE];

TEST(inputs_bit_for_bit) {
    struct rt_error err;
    struct rt_dataset set;
    const struct rt_kernels *tables[8];
    size_t count = rt_kernels_exact_all(tables, 7);
    tables[count++] = &rt_kernels_reference;
    uint32_t indices[COUNT];
    for (uint32_t i = 0; i < COUNT; i++)
        indices[i] = (i * 17) % COUNT;
    for (int type = RT_DATA_U8; type <= RT_DATA_I64; type++)
        for (int scaled = 0; scaled < 3; scaled++) {
            struct rt_scaling scaling = {.scale = scaled ? 0.00392156862745098 : 1,
                                         .offset = scaled ? -0.5 : 0};
            make_set((enum rt_data_type)type, memory, classes, values, &set);
            if (scaled == 2)
                CHECK_OK(rt_scaling_measure(&set, &scaling, &err));
            for (size_t t = 0; t < count; t++)
                for (size_t threads = 1; threads <= 3; threads += 2) {
                    struct rt_device device = {.kernels = tables[t]};
                    CHECK_OK(rt_pool_create(threads, 64, &device.pool, &err));
                    memset(x, 0xee, sizeof x);
                    rt_dataset_inputs(&set, &scaling, &device, indices, COUNT, x);
                    size_t wrong = 0;
                    for (size_t i = 0; i < COUNT * SIZE; i++) {
                        float value = expected(&set, &scaling, indices[i / SIZE], i % SIZE);
                        wrong += memcmp(&value, &x[i], sizeof value) != 0;
                    }
                    CHECK_MSG(wrong == 0, "type %d, scaled %d, %s, %zu threads: %zu differ", type, scaled,
                              tables[t]->name, threads, wrong);
                    rt_pool_destroy(device.pool);
                }
            rt_dataset_targets(&set, &scaling, RT_TARGET_INPUT, indices, COUNT, NULL, again);
            CHECK_MSG(memcmp(x, again, sizeof x) == 0, "targets differ from inputs: type %d, scaled %d", type,
                      scaled);
            rt_scaling_deinit(&scaling);
        }
}

TEST(targets) {
    struct rt_dataset set;
    struct rt_scaling scaling = {.scale = 1};
    uint32_t indices[3] = {7, 0, 39};
    int32_t got[3];
    float pairs[6];
    make_set(RT_DATA_U8, memory, classes, values, &set);
    rt_dataset_targets(&set, &scaling, RT_TARGET_CLASSES, indices, 3, got, NULL);
    CHECK(got[0] == 2 && got[1] == 0 && got[2] == 4);
    rt_dataset_targets(&set, &scaling, RT_TARGET_VALUES, indices, 3, NULL, pairs);
    CHECK(pairs[0] == 7 && pairs[1] == -7 && pairs[2] == 0 && pairs[4] == 39 && pairs[5] == -39);
}

TEST(standardising) {
    struct rt_error err;
    struct rt_dataset set;
    struct rt_scaling scaling = {.scale = 2, .offset = 1};
    /* Three features: a varying one, a constant one whose mean rounds, a large one. */
    float data[4 * 3] = {1, 0.1f, 1e6f, 2, 0.1f, 2e6f, 3, 0.1f, 3e6f, 4, 0.1f, 4e6f};
    set = (struct rt_dataset){
        .count = 4, .shape = {.rank = 1, .dim = {3}}, .type = RT_DATA_F32, .inputs = data};
    CHECK_OK(rt_scaling_measure(&set, &scaling, &err));
    CHECK(scaling.features == 3 && scaling.scale == 2 && scaling.offset == 1);
    CHECK(scaling.mean[0] == 6 && fabs((double)scaling.inverse[0] - 1 / sqrt(5)) < 1e-7);
    CHECK(scaling.mean[1] == fmaf(0.1f, 2, 1) && scaling.inverse[1] == 1);
    uint32_t indices[4] = {0, 1, 2, 3};
    float row[12];
    rt_dataset_targets(&set, &scaling, RT_TARGET_INPUT, indices, 4, NULL, row);
    for (size_t j = 0; j < 3; j++) {
        double sum = 0, square = 0;
        for (size_t i = 0; i < 4; i++) {
            sum += (double)row[3 * i + j];
            square += (double)row[3 * i + j] * (double)row[3 * i + j];
        }
        CHECK(fabs(sum) < 1e-5 && fabs(square / 4 - (j != 1)) < 1e-5);
    }
    rt_scaling_deinit(&scaling);
    CHECK(!scaling.mean && scaling.features == 0);
}

TEST(split) {
    struct rt_error err;
    struct rt_dataset set, rest, taken, rest2, taken2, other_rest, other;
    make_set(RT_DATA_U8, memory, classes, values, &set);
    CHECK_OK(rt_dataset_split(&set, 0.25, 9, &rest, &taken, &err));
    CHECK(taken.count == 10 && rest.count == 30 && !taken.store && !rest.store);
    int seen[COUNT] = {0};
    for (size_t i = 0; i < taken.count; i++)
        seen[taken.index[i]]++;
    for (size_t i = 0; i < rest.count; i++)
        seen[rest.index[i]]++;
    for (size_t i = 0; i < COUNT; i++)
        CHECK(seen[i] == 1);
    for (size_t i = 1; i < rest.count; i++)
        CHECK(rest.index[i] > rest.index[i - 1]);

    /* The same seed gives the same part, another seed another. */
    CHECK_OK(rt_dataset_split(&set, 0.25, 9, &rest2, &taken2, &err));
    CHECK(memcmp(taken.index, taken2.index, 10 * sizeof *taken.index) == 0);
    CHECK_OK(rt_dataset_split(&set, 0.25, 10, &other_rest, &other, &err));
    CHECK(memcmp(taken.index, other.index, 10 * sizeof *taken.index) != 0);
    rt_dataset_close(&other_rest);
    rt_dataset_close(&other);
    rt_dataset_close(&rest2);
    rt_dataset_close(&taken2);

    /* A view is read through its index; and can be split again. */
    uint32_t indices[2] = {0, 29};
    int32_t got[2];
    struct rt_scaling scaling = {.scale = 1};
    rt_dataset_targets(&rest, &scaling, RT_TARGET_CLASSES, indices, 2, got, NULL);
    CHECK(got[0] == classes[rest.index[0]] && got[1] == classes[rest.index[29]]);
    rt_dataset_targets(&rest, &scaling, RT_TARGET_INPUT, indices, 2, NULL, x);
    CHECK(x[SIZE + 5] == expected(&set, &scaling, rest.index[29], 5));
    CHECK_OK(rt_dataset_split(&rest, 0.5, 9, &rest2, &taken2, &err));
    CHECK(rest2.count == 15 && taken2.count == 15);
    for (size_t i = 0; i < 15; i++) {
        size_t inside = 0;
        for (size_t j = 0; j < rest.count; j++)
            inside += rest.index[j] == taken2.index[i];
        CHECK(inside == 1);
    }
    rt_dataset_close(&rest2);
    rt_dataset_close(&taken2);
    rt_dataset_close(&rest);
    rt_dataset_close(&taken);

    /* Both parts have at least one example. */
    CHECK_OK(rt_dataset_split(&set, 1e-9, 9, &rest, &taken, &err));
    CHECK(taken.count == 1 && rest.count == COUNT - 1);
    rt_dataset_close(&rest);
    rt_dataset_close(&taken);
    CHECK(rt_dataset_split(&set, 1, 9, &rest, &taken, &err) == RT_BAD_INPUT);
    set.count = 1;
    CHECK(rt_dataset_split(&set, 0.5, 9, &rest, &taken, &err) == RT_BAD_INPUT);
}

TEST(hash) {
    struct rt_error err;
    struct rt_dataset set, rest, taken;
    uint8_t first[32], second[32];
    make_set(RT_DATA_F32, memory, classes, values, &set);
    rt_dataset_hash(&set, first);
    rt_dataset_hash(&set, second);
    CHECK(memcmp(first, second, 32) == 0);
    classes[39] ^= 1;
    rt_dataset_hash(&set, second);
    CHECK(memcmp(first, second, 32) != 0);
    classes[39] ^= 1;
    memory[sizeof(float) * COUNT * SIZE] ^= 1; /* the last byte of the inputs */
    rt_dataset_hash(&set, second);
    CHECK(memcmp(first, second, 32) != 0);
    CHECK_OK(rt_dataset_split(&set, 0.5, 1, &rest, &taken, &err));
    rt_dataset_hash(&rest, first);
    rt_dataset_hash(&taken, second);
    CHECK(memcmp(first, second, 32) != 0);
    rt_dataset_close(&rest);
    rt_dataset_close(&taken);
}

TEST_MAIN()
