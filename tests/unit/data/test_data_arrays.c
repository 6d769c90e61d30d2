/* IDX and NPY files, plain and compressed: what is read, where it lies, and what is refused. */
#include "base/bytes.h"
#include "support/datafiles.h"
#include "support/test.h"
#include <math.h>

enum { COUNT = 5, SIZE = 6 };

static void fill(uint8_t *pixels, uint8_t *labels) {
    for (int i = 0; i < COUNT * SIZE; i++)
        pixels[i] = (uint8_t)(i * 7 + 3);
    for (int i = 0; i < COUNT; i++)
        labels[i] = (uint8_t)(i % 3);
}

/* Writes x.idx and y.idx, and keeps a copy of their bytes compressed too. */
static void write_pair(void) {
    uint8_t pixels[COUNT * SIZE], labels[COUNT], *bytes;
    size_t size;
    fill(pixels, labels);
    bytes = rt_test_idx(8, (const uint32_t[]){COUNT, 2, 3}, 3, pixels, sizeof pixels, &size);
    rt_test_write("x.idx", bytes, size);
    rt_test_write_gz("x.idx.gz", bytes, size);
    free(bytes);
    bytes = rt_test_idx(8, (const uint32_t[]){COUNT}, 1, labels, sizeof labels, &size);
    rt_test_write("y.idx", bytes, size);
    rt_test_write_gz("y.idx.gz", bytes, size);
    free(bytes);
}

static void check_pair(const struct rt_dataset *set) {
    uint8_t pixels[COUNT * SIZE], labels[COUNT];
    fill(pixels, labels);
    CHECK(set->count == COUNT && set->type == RT_DATA_U8 && set->shape.rank == 2);
    CHECK(set->shape.dim[0] == 2 && set->shape.dim[1] == 3);
    CHECK(memcmp(set->inputs, pixels, sizeof pixels) == 0);
    CHECK(set->class_count == 3);
    for (int i = 0; i < COUNT; i++)
        CHECK(set->classes[i] == labels[i]);
}

TEST(idx_plain_and_gz) {
    struct rt_error err;
    struct rt_dataset set;
    struct rt_data_wish wish = rt_test_wish(SIZE, 3);
    write_pair();
    CHECK_OK(rt_test_open("idx: [x.idx, y.idx]", &wish, &set, &err));
    check_pair(&set);
    rt_dataset_close(&set);
    CHECK_OK(rt_test_open("idx: [x.idx.gz, y.idx.gz]", &wish, &set, &err));
    check_pair(&set);
    rt_dataset_close(&set);
    CHECK_OK(rt_test_open("idx: {inputs: x.idx, labels: y.idx, names: [a, b, c]}", &wish, &set, &err));
    check_pair(&set);
    CHECK(strcmp(set.class_names[2], "c") == 0);
    set.count = 1; /* what data.limit does: closing must not care */
    rt_dataset_close(&set);
}

TEST(idx_wide_numbers) {
    struct rt_error err;
    struct rt_dataset set;
    struct rt_data_wish wish = rt_test_wish(2, 0);
    wish.target = RT_TARGET_INPUT;
    struct {
        uint8_t code, bytes;
        enum rt_data_type type;
        uint64_t pattern[2];
        double value[2];
    } cases[] = {
        {0x09, 1, RT_DATA_I32, {0xff, 0x7f}, {-1, 127}},
        {0x0b, 2, RT_DATA_I32, {0xfffe, 0x0102}, {-2, 258}},
        {0x0c, 4, RT_DATA_I32, {0xffffffff, 0x01020304}, {-1, 16909060}},
        {0x0d, 4, RT_DATA_F32, {0x3f800000, 0xc0000000}, {1, -2}},
        {0x0e, 8, RT_DATA_F64, {0x3ff0000000000000, 0xbfe0000000000000}, {1, -0.5}},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        uint8_t data[16];
        size_t size;
        for (size_t i = 0; i < 2; i++)
            for (size_t b = 0; b < cases[c].bytes; b++)
                data[i * cases[c].bytes + b] = (uint8_t)(cases[c].pattern[i] >> 8 * (cases[c].bytes - 1 - b));
        uint8_t *bytes =
            rt_test_idx(cases[c].code, (const uint32_t[]){1, 2}, 2, data, 2u * cases[c].bytes, &size);
        rt_test_write("wide.idx", bytes, size);
        free(bytes);
        CHECK_OK(rt_test_open("idx: wide.idx", &wish, &set, &err));
        CHECK(set.type == cases[c].type);
        for (size_t i = 0; i < 2; i++) {
            double value = set.type == RT_DATA_I32   ? ((const int32_t *)set.inputs)[i]
                           : set.type == RT_DATA_F32 ? (double)((const float *)set.inputs)[i]
                                                     : ((const double *)set.inputs)[i];
            CHECK_MSG(value == cases[c].value[i], "type 0x%02x: %g", cases[c].code, value);
        }
        rt_dataset_close(&set);
    }
}

TEST(idx_refused) {
    struct rt_data_wish wish = rt_test_wish(SIZE, 3), narrow = rt_test_wish(SIZE, 2),
                        other = rt_test_wish(7, 3);
    uint8_t *bytes;
    size_t size;
    write_pair();
    uint8_t pixels[COUNT * SIZE] = {0};
    bytes = rt_test_idx(8, (const uint32_t[]){COUNT, 2, 3}, 3, pixels, sizeof pixels, &size);
    rt_test_write("short.idx", bytes, size - 1);
    rt_test_write("head.idx", bytes, 9);
    uint8_t *longer = realloc(bytes, size + 1);
    REQUIRE(longer);
    longer[size] = 1;
    rt_test_write("long.idx", longer, size + 1);
    rt_test_write_gz("long.idx.gz", longer, size + 1);
    rt_test_write_gz("short.idx.gz", longer, size - 1);
    rt_put_be32(longer + 4, 0xffffffff);
    rt_put_be32(longer + 8, 0xffffffff);
    rt_put_be32(longer + 12, 0xffffffff);
    rt_test_write("huge.idx", longer, size);
    rt_test_write_gz("huge.idx.gz", longer, size);
    longer[2] = 0x42;
    rt_test_write("type.idx", longer, size);
    free(longer);
    rt_test_write("empty.idx", "", 0);
    rt_test_write_text("text.idx", "hello, this is text");
    bytes = rt_test_idx(8, (const uint32_t[]){0, 2, 3}, 3, NULL, 0, &size);
    rt_test_write("none.idx", bytes, size);
    free(bytes);
    bytes = rt_test_idx(8, (const uint32_t[]){2}, 1, "\0\1", 2, &size);
    rt_test_write("two.idx", bytes, size);
    free(bytes);
    bytes = rt_test_idx(8, (const uint32_t[]){1, 1, 1, 1, 1, 1}, 6, "\0", 1, &size);
    rt_test_write("rank.idx", bytes, size);
    free(bytes);

    CHECK(rt_test_refused("idx: [short.idx, y.idx]", &wish, "short.idx", "cut short"));
    CHECK(rt_test_refused("idx: [head.idx, y.idx]", &wish, "head.idx", "inside its header, at offset 9"));
    CHECK(rt_test_refused("idx: [long.idx, y.idx]", &wish, "long.idx", "more bytes follow"));
    CHECK(rt_test_refused("idx: [long.idx.gz, y.idx]", &wish, "long.idx.gz", "more bytes follow"));
    CHECK(rt_test_refused("idx: [short.idx.gz, y.idx]", &wish, "short.idx.gz", "cut short"));
    CHECK(rt_test_refused("idx: [huge.idx, y.idx]", &wish, "huge.idx", "cut short"));
    CHECK(rt_test_refused("idx: [huge.idx.gz, y.idx]", &wish, "huge.idx.gz", "too small"));
    CHECK(rt_test_refused("idx: [type.idx, y.idx]", &wish, "type.idx", "0x42"));
    CHECK(rt_test_refused("idx: [empty.idx, y.idx]", &wish, "empty.idx", "not an IDX file"));
    CHECK(rt_test_refused("idx: [text.idx, y.idx]", &wish, "text.idx", "not an IDX file"));
    CHECK(rt_test_refused("idx: [none.idx, y.idx]", &wish, "none.idx", "is empty"));
    CHECK(rt_test_refused("idx: [rank.idx, y.idx]", &wish, "rank.idx", "6 dimensions"));
    CHECK(rt_test_refused("idx: [x.idx, two.idx]", &wish, "has 5 examples", "labels for 2"));
    CHECK(rt_test_refused("idx: [x.idx, x.idx]", &wish, "x.idx", "a class label is one"));
    CHECK(rt_test_refused("idx: [x.idx, y.idx]", &narrow, "y.idx: the label of example 2", "from 0 to 1"));
    CHECK(rt_test_refused("idx: [x.idx, y.idx]", &other, "[2, 3] (6 values)", "[7] (7 values)"));
    CHECK(rt_test_refused("idx: [x.idx]", &wish, "run.yaml:1", "labels is needed"));
    CHECK(rt_test_refused("idx: [x.idx, y.idx, z.idx]", &wish, "run.yaml:1", "not 3 files"));
    CHECK(rt_test_refused("idx: [nowhere.idx, y.idx]", &wish, "no file 'nowhere.idx'", rt_test_directory()));
    CHECK(rt_test_refused("idx: {inputs: x.idx, lables: y.idx}", &wish, "run.yaml:1", "'labels'"));
    CHECK(rt_test_refused("idx: {labels: y.idx}", &wish, "run.yaml:1", "inputs must be given"));
    CHECK(rt_test_refused("idx: {inputs: x.idx, labels: y.idx, names: [a, b]}", &wish, "2 class names",
                          "3 outputs"));
    CHECK(rt_test_refused("idy: x.idx", &wish, "idy", "did you mean 'idx'"));
    CHECK(rt_test_refused("[x.idx]", &wish, "run.yaml:1", "one of idx, npy, csv"));
}

TEST(gz_refused) {
    struct rt_data_wish wish = rt_test_wish(SIZE, 3);
    write_pair();
    FILE *file = fopen(rt_test_path("x.idx.gz"), "rb");
    REQUIRE(file);
    uint8_t gz[400];
    size_t size = fread(gz, 1, sizeof gz - 8, file);
    fclose(file);
    REQUIRE(size > 30 && size < 300);
    for (size_t cut = 2; cut < size; cut++) {
        rt_test_write("cut.gz", gz, cut);
        CHECK(rt_test_refused("idx: [cut.gz, y.idx]", &wish, "cut.gz", "cut short"));
    }
    memcpy(gz + size, "junk", 4);
    rt_test_write("junk.gz", gz, size + 4);
    CHECK(rt_test_refused("idx: [junk.gz, y.idx]", &wish, "junk.gz", "4 other bytes follow"));
    gz[size - 6] ^= 1; /* the CRC is in the last 8 bytes */
    rt_test_write("crc.gz", gz, size);
    CHECK(rt_test_refused("idx: [crc.gz, y.idx]", &wish, "crc.gz", "damaged at offset"));
    gz[size - 6] ^= 1;
    gz[14] ^= 0xff;
    rt_test_write("flip.gz", gz, size);
    CHECK(rt_test_refused("idx: [flip.gz, y.idx]", &wish, "flip.gz", ""));
}

TEST(gz_members) {
    /* Two members one after another are one file. */
    struct rt_error err;
    struct rt_dataset set;
    struct rt_data_wish wish = rt_test_wish(2, 0);
    wish.target = RT_TARGET_INPUT;
    size_t size;
    uint8_t *bytes = rt_test_idx(8, (const uint32_t[]){2, 2}, 2, "\1\2\3\4", 4, &size);
    rt_test_write_gz("a", bytes, 1);
    rt_test_write_gz("b", bytes + 1, size - 1);
    free(bytes);
    char command[1300];
    snprintf(command, sizeof command, "cat %s %s > %s", rt_test_path("a"), rt_test_path("b"),
             rt_test_path("ab.gz"));
    REQUIRE(system(command) == 0);
    CHECK_OK(rt_test_open("idx: ab.gz", &wish, &set, &err));
    CHECK(memcmp(set.inputs, "\1\2\3\4", 4) == 0);
    rt_dataset_close(&set);
}

TEST(gz_bomb) {
    /* 64 MiB of zeros behind a header that promises a few bytes: refused after those few. */
    struct rt_data_wish wish = rt_test_wish(SIZE, 3);
    write_pair();
    size_t bomb = 64 << 20, size;
    uint8_t pixels[COUNT * SIZE] = {0}, *zeros = calloc(1, bomb);
    REQUIRE(zeros);
    uint8_t *head = rt_test_idx(8, (const uint32_t[]){COUNT, 2, 3}, 3, pixels, sizeof pixels, &size);
    memcpy(zeros, head, size);
    free(head);
    rt_test_write_gz("bomb.gz", zeros, bomb);
    free(zeros);
    CHECK(rt_test_refused("idx: [bomb.gz, y.idx]", &wish, "bomb.gz", "more bytes follow"));
}

static void write_npy(const char *name, int version, const char *descr, const char *order, const char *shape,
                      const void *data, size_t bytes) {
    size_t size;
    uint8_t *all = rt_test_npy(version, descr, order, shape, data, bytes, &size);
    rt_test_write(name, all, size);
    free(all);
}

TEST(npy_types_and_versions) {
    struct rt_error err;
    struct rt_dataset set;
    struct rt_data_wish wish = rt_test_wish(2, 0);
    wish.target = RT_TARGET_INPUT;
    float f4[4] = {1, -2, 0.5f, 4};
    double f8[4] = {1, -2, 0.5, 4};
    int32_t i4[4] = {1, -2, 3, 4};
    int64_t i8[4] = {1, -2, 3, 4};
    struct {
        const char *descr;
        const void *data;
        size_t bytes;
        enum rt_data_type type;
    } cases[] = {{"|u1", "\1\2\3\4", 4, RT_DATA_U8},
                 {"<i4", i4, sizeof i4, RT_DATA_I32},
                 {"<i8", i8, sizeof i8, RT_DATA_I64},
                 {"<f4", f4, sizeof f4, RT_DATA_F32},
                 {"<f8", f8, sizeof f8, RT_DATA_F64}};
    for (size_t c = 0; c < 5; c++)
        for (int version = 1; version <= 3; version++) {
            write_npy("x.npy", version, cases[c].descr, "False", "(2, 2)", cases[c].data, cases[c].bytes);
            CHECK_OK(rt_test_open("npy: x.npy", &wish, &set, &err));
            CHECK(set.type == cases[c].type && set.count == 2);
            CHECK(memcmp(set.inputs, cases[c].data, cases[c].bytes) == 0);
            rt_dataset_close(&set);
        }
    wish = rt_test_wish(1, 0);
    wish.target = RT_TARGET_VALUES;
    write_npy("x1.npy", 1, "<f4", "True", "(4,)", f4,
              sizeof f4); /* in one dimension the order is no matter */
    write_npy("y2.npy", 1, "<f8", "False", "(4, 1)", f8, sizeof f8);
    CHECK_OK(rt_test_open("npy: [x1.npy, y2.npy]", &wish, &set, &err));
    CHECK(set.value_width == 1 && set.values[2] == 0.5f && !set.classes);
    rt_dataset_close(&set);
}

TEST(npy_refused) {
    struct rt_data_wish wish = rt_test_wish(2, 3);
    float f4[4] = {0, 1, 2, 2.5f};
    write_npy("x.npy", 1, "<f4", "False", "(2, 2)", f4, sizeof f4);
    write_npy("y.npy", 1, "<f4", "False", "(2,)", f4, 8);
    write_npy("half.npy", 1, "<f4", "False", "(2,)", f4 + 2, 8);
    write_npy("big.npy", 1, ">f4", "False", "(2, 2)", f4, sizeof f4);
    write_npy("fortran.npy", 1, "<f4", "True", "(2, 2)", f4, sizeof f4);
    write_npy("object.npy", 1, "|O", "False", "(2, 2)", f4, sizeof f4);
    write_npy("half_float.npy", 1, "<f2", "False", "(2, 2)", f4, 8);
    write_npy("cut.npy", 1, "<f4", "False", "(2, 2)", f4, 15);
    write_npy("long.npy", 1, "<f4", "False", "(2, 1)", f4, sizeof f4);
    write_npy("scalar.npy", 1, "<f4", "False", "()", f4, 4);
    write_npy("deep.npy", 1, "<f4", "False", "(1, 1, 1, 1, 2, 2)", f4, sizeof f4);
    write_npy("huge.npy", 1, "<f4", "False", "(4294967295, 4294967295, 4294967295)", f4, sizeof f4);
    write_npy("broken.npy", 1, "<f4", "Maybe", "(2, 2)", f4, sizeof f4);
    write_npy("version.npy", 9, "<f4", "False", "(2, 2)", f4, sizeof f4);
    rt_test_write("mark.npy", "\x93NUMPZ\1\0\0\0", 10);
    rt_test_write("header.npy", "\x93NUMPY\1\0\100\0{'descr'", 18);
    CHECK(rt_test_refused("npy: [big.npy, y.npy]", &wish, "big.npy", "big-endian"));
    CHECK(rt_test_refused("npy: [fortran.npy, y.npy]", &wish, "fortran.npy", "Fortran order"));
    CHECK(rt_test_refused("npy: [object.npy, y.npy]", &wish, "object.npy", "Python objects"));
    CHECK(rt_test_refused("npy: [half_float.npy, y.npy]", &wish, "half_float.npy", "'<f2'"));
    CHECK(rt_test_refused("npy: [cut.npy, y.npy]", &wish, "cut.npy", "cut short"));
    CHECK(rt_test_refused("npy: [long.npy, y.npy]", &wish, "long.npy", "more bytes follow"));
    CHECK(rt_test_refused("npy: [scalar.npy, y.npy]", &wish, "scalar.npy", "0 dimensions"));
    CHECK(rt_test_refused("npy: [deep.npy, y.npy]", &wish, "deep.npy", "6 dimensions"));
    CHECK(rt_test_refused("npy: [huge.npy, y.npy]", &wish, "huge.npy", "cut short"));
    CHECK(rt_test_refused("npy: [broken.npy, y.npy]", &wish, "broken.npy",
                          "cannot parse the NPY header at offset"));
    CHECK(rt_test_refused("npy: [version.npy, y.npy]", &wish, "version.npy", "version 9"));
    CHECK(rt_test_refused("npy: [mark.npy, y.npy]", &wish, "mark.npy", "not an NPY file"));
    CHECK(rt_test_refused("npy: [header.npy, y.npy]", &wish, "header.npy", "inside its header"));
    CHECK(rt_test_refused("npy: [x.npy, half.npy]", &wish, "half.npy", "the label of example 1"));
}

TEST(nan_is_found) {
    struct rt_error err;
    struct rt_dataset set;
    struct rt_data_wish wish = rt_test_wish(2, 1);
    wish.target = RT_TARGET_VALUES;
    float x[4] = {0, 1, 2, 3}, y[2] = {0, 1};
    double wide[4] = {0, 1, 1e300, 2};
    write_npy("y.npy", 1, "<f4", "False", "(2,)", y, sizeof y);
    for (int bad = 0; bad < 3; bad++) {
        float mine[4];
        memcpy(mine, x, sizeof x);
        if (bad == 1)
            mine[3] = NAN;
        if (bad == 2)
            mine[0] = -INFINITY;
        write_npy("x.npy", 1, "<f4", "False", "(2, 2)", mine, sizeof mine);
        CHECK_OK(rt_test_open("npy: [x.npy, y.npy]", &wish, &set, &err));
        err.text[0] = 0;
        rt_status status = rt_dataset_check(&set, &err);
        const char *expect[] = {"", "x.npy: example 1, value 1", "example 0, value 0"};
        CHECK_MSG(status == (bad ? RT_BAD_INPUT : RT_OK) && strstr(err.text, expect[bad]), "%s", err.text);
        rt_dataset_close(&set);
    }
    /* Among the targets: the file that has it is named. */
    y[1] = NAN;
    write_npy("nan.npy", 1, "<f4", "False", "(2,)", y, sizeof y);
    write_npy("large.npy", 1, "<f8", "False", "(4,)", wide, sizeof wide);
    write_npy("x4.npy", 1, "<f4", "False", "(4, 2)", (float[8]){0}, 8 * sizeof(float));
    CHECK(rt_test_refused("npy: [x.npy, nan.npy]", &wish, "nan.npy: target 0 of example 1 ", "is nan"));
    CHECK(rt_test_refused("npy: [x4.npy, large.npy]", &wish, "large.npy: target 0 of example 2 ", "1e+300"));
    write_npy("x.npy", 1, "<f8", "False", "(2, 2)", wide, sizeof wide);
    CHECK_OK(rt_test_open("npy: [x.npy, y.npy]", &wish, &set, &err));
    CHECK(rt_dataset_check(&set, &err) == RT_BAD_INPUT && strstr(err.text, "example 1, value 0 "));
    rt_dataset_close(&set);
}

TEST(fashion_mnist) {
    const char *folder = "/usr/share/datasets/fashion-mnist";
    struct rt_error err;
    struct rt_dataset set;
    struct rt_data_wish wish = rt_test_wish(784, 10);
    char yaml[300];
    snprintf(yaml, sizeof yaml, "idx: [%s/t10k-images-idx3-ubyte.gz, %s/t10k-labels-idx1-ubyte.gz]", folder,
             folder);
    FILE *there = fopen("/usr/share/datasets/fashion-mnist/t10k-labels-idx1-ubyte.gz", "rb");
    if (!there)
        SKIP("Fashion-MNIST is not installed (package dataset-fashion-mnist)");
    fclose(there);
    CHECK_OK(rt_test_open(yaml, &wish, &set, &err));
    CHECK(set.count == 10000 && set.shape.rank == 2 && set.class_count == 10);
    CHECK(set.classes[0] == 9 && set.classes[1] == 2 && set.classes[2] == 1);
    size_t of_class[10] = {0};
    for (size_t i = 0; i < set.count; i++)
        of_class[set.classes[i]]++;
    for (size_t i = 0; i < 10; i++)
        CHECK(of_class[i] == 1000);
    rt_dataset_close(&set);
}

TEST_MAIN()
