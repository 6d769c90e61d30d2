/* The records of a stream: what is accepted, with the bits of a file, and what is refused with which place.
 */
#include "stream_rig.h"
#include <math.h>

/* Opens a file as a stream, and takes one example. */
static rt_status take_one(const char *yaml, const struct rt_data_wish *wish, float *x, int32_t *class,
                          float *values, struct rt_error *err) {
    struct waiter waiter = WAITER;
    struct rt_stream *stream;
    size_t taken;
    rt_status status = open_stream(yaml, wish, 0, &waiter, &stream, err);
    if (status != RT_OK)
        return status;
    status = take(stream, &waiter, 1, x, class, values, &taken, err);
    if (status == RT_OK && taken != 1)
        status = rt_fail(err, RT_FAILED, "there is no example");
    rt_stream_close(stream);
    return status;
}

TEST(csv_is_read_as_from_a_file) {
    static const char *const same[][2] = {
        {"stream: a", "1.5,-2e1,2\n"},
        {"stream: {from: a, label: last}", "1.5,-2e1,2"},
        {"stream: {from: a, label: first}", "2,1.5,-2e1\n"},
        {"stream: a", "\xef\xbb\xbf 1.5 ; -20 ; 2 \r\n"},
        {"stream: a", "\n  \n1.5\t-20\t2\n\n"},
        {"stream: {from: a, separator: space}", " 1.5  -20 2.0\n"},
        {"stream: {from: a, separator: tab}", "1.5\t-20\t2\n"},
        {"stream: {from: a, separator: '|'}", "1.5|-20|2\n"},
        {"stream: a", "\"1.5\",\"-20\",\"2\"\n"},
        {"stream: {from: a, skip: 2}", "made by hand\na,b,\"c\n1.5,-20,2\n"},
        {"stream: {from: a, names: [x, y, z]}", "1.5,-20,z\n"},
        {"stream: {from: a, names: [x, y, z]}", "1.5,-20,2\n"},
    };
    struct rt_data_wish wish = rt_test_wish(2, 3);
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        struct rt_error err = {.text = ""};
        float x[2] = {0};
        int32_t class = -1;
        rt_test_write_text("a", same[i][1]);
        rt_status status = take_one(same[i][0], &wish, x, &class, NULL, &err);
        CHECK_MSG(status == RT_OK && x[0] == 1.5f && x[1] == -20 && class == 2, "%s with %s: %s", same[i][0],
                  same[i][1], err.text);
    }
}

TEST(values_and_own_inputs) {
    struct rt_error err;
    struct rt_data_wish wish = rt_test_wish(2, 3);
    float x[2], values[3];
    wish.target = RT_TARGET_VALUES;
    rt_test_write_text("a", "1,2,3,4,5\n");
    CHECK_OK(take_one("stream: a", &wish, x, NULL, values, &err));
    CHECK(x[0] == 1 && x[1] == 2 && values[0] == 3 && values[2] == 5);
    CHECK_OK(take_one("stream: {from: a, label: first}", &wish, x, NULL, values, &err));
    CHECK(x[0] == 4 && x[1] == 5 && values[0] == 1 && values[2] == 3);
    uint8_t record[24];
    put_record(record, (float[]){1, 2, 3, 4, 5}, 5);
    rt_test_write("b", record, sizeof record);
    CHECK_OK(take_one("stream: {from: b, format: f32}", &wish, x, NULL, values, &err));
    CHECK(x[0] == 1 && x[1] == 2 && values[0] == 3 && values[2] == 5);
    wish.target = RT_TARGET_INPUT;
    rt_test_write_text("c", "1,2\n");
    CHECK_OK(take_one("stream: c", &wish, x, NULL, values, &err));
    CHECK(x[0] == 1 && x[1] == 2 && values[0] == 1 && values[1] == 2);
}

static void refused(const char *yaml, const void *data, size_t bytes, const char *sentence) {
    struct rt_error err = {.text = ""};
    struct rt_data_wish wish = rt_test_wish(2, 3);
    float x[2];
    int32_t class;
    rt_test_write("bad", data, bytes);
    rt_status status = take_one(yaml, &wish, x, &class, NULL, &err);
    CHECK_MSG(status == RT_BAD_INPUT && strstr(err.text, sentence), "status %d: %s\n  expected: %s",
              (int)status, err.text, sentence);
}

static void refused_text(const char *text, const char *sentence) {
    refused("stream: bad", text, strlen(text), sentence);
}

TEST(refused_lines) {
    refused_text("1,2\n", "bad:1: this line has 2 fields, but an example 3 (2 inputs and the class)");
    refused_text("\n1,2,3,4\n", "bad:2: this line has 4 fields");
    refused_text("length,width,kind\n1,2,0\n",
                 "bad:1:1: 'length' is not a finite number (a stream has no header; `skip: 1` leaves this");
    refused_text("1,nan,0\n", "bad:1:2: the value is missing ('nan')");
    refused_text("1,inf,0\n", "bad:1:2: 'inf' is not a finite number");
    refused_text("1,1e39,0\n", "bad:1:2: '1e39' is too large for a float");
    refused_text("1,,0\n", "bad:1:2: the value is missing");
    refused_text("1,2,\n", "bad:1:3: the value is missing");
    refused_text("1,2,3\n", "bad:1:3: the class is '3', but the model has 3 outputs: classes go from 0 to 2");
    refused_text("1,2,-1\n", "the class is '-1'");
    refused_text("1,2,0.5\n", "the class is '0.5'");
    refused_text("1,2,rose\n", "the class is 'rose'");
    refused_text("1,\"2\n,0\n", "bad:1:2: the quote that opens here is never closed");
    refused("stream: bad", "1,2\0,0\n", 7, "bad:1: holds a zero byte");
    refused("stream: {from: bad, names: [a, b, c]}", "1,2,d\n", 6,
            "bad:1:3: 'd' is not one of the class names");
    static char line[1 << 20];
    memset(line, '1', sizeof line);
    refused("stream: bad", line, sizeof line, "bad:1: this line has more than 4288 bytes");
    line[5000] = '\n';
    refused("stream: bad", line, sizeof line, "bad:1: this line has more than 4288 bytes");
    memset(line, ',', sizeof line);
    line[4000] = '\n';
    refused("stream: bad", line, sizeof line, "bad:1: this line has 4001 fields");
}

/* A record with three numbers, as the model of `refused` wants them, and its first 4 + more bytes. */
static void refused_numbers(const float *numbers, size_t more, const char *sentence) {
    uint8_t record[16];
    put_record(record, numbers, 3);
    refused("stream: {from: bad, format: f32}", record, 4 + more, sentence);
}

TEST(refused_records) {
    static const char yaml[] = "stream: {from: bad, format: f32}";
    const float good[3] = {1, 2, 0};
    refused(yaml, "\4\0\0\0abcd", 8,
            "bad: record 0 (counted from 0) at offset 0: its length is 4, but an example has 12 bytes "
            "(2 inputs and a class)");
    refused(yaml, "\xff\xff\xff\xff", 4, "its length is 4294967295");
    refused(yaml, "\x0c\0", 2, "the stream ends in the middle of it");
    refused_numbers(good, 0, "the stream ends in the middle of it");
    refused_numbers(good, 11, "the stream ends in the middle of it");
    refused_numbers((float[]){1, NAN, 0}, 12, "input 1 (counted from 0) is NaN");
    refused_numbers((float[]){-INFINITY, 1, 0}, 12, "input 0 (counted from 0) is infinite");
    refused_numbers((float[]){1, 1, NAN}, 12, "its class is nan");
    refused_numbers((float[]){1, 1, 3}, 12,
                    "its class is 3, but the model has 3 outputs: classes go from 0 to 2");
    refused_numbers((float[]){1, 1, -1}, 12, "its class is -1");
    refused_numbers((float[]){1, 1, 1.5f}, 12, "its class is 1.5");
    refused_numbers((float[]){1, 1, 3e38f}, 12, "its class is 3");
}

/* The place of a wrong record that is not the first. */
TEST(names_the_record) {
    struct rt_error err;
    struct waiter waiter = WAITER;
    struct rt_stream *stream;
    struct rt_data_wish wish = rt_test_wish(2, 3);
    uint8_t data[48];
    float x[2];
    int32_t class;
    size_t taken;
    put_record(put_record(put_record(data, (float[]){1, 2, 0}, 3), (float[]){1, 2, 1}, 3),
               (float[]){1, INFINITY, 1}, 3);
    rt_test_write("bad", data, sizeof data);
    CHECK_OK(open_stream("stream: {from: bad, format: f32}", &wish, 0, &waiter, &stream, &err));
    CHECK_OK(take(stream, &waiter, 1, x, &class, NULL, &taken, &err));
    CHECK_OK(take(stream, &waiter, 1, x, &class, NULL, &taken, &err));
    CHECK(class == 1);
    CHECK(take(stream, &waiter, 1, x, &class, NULL, &taken, &err) == RT_BAD_INPUT);
    CHECK_MSG(strstr(err.text, "record 2 (counted from 0) at offset 32: input 1"), "%s", err.text);
    rt_stream_close(stream);
}

/* ---- the bits of a file -------------------------------------------------------------------------------- */

enum { EXAMPLES = 300, WIDTH = 261, OUTPUTS = 4 };

/* A table with numbers of all sizes, the target in the last columns. */
static void write_table(size_t targets) {
    FILE *file = fopen(rt_test_path("table.csv"), "w");
    uint32_t state = 12345;
    for (int i = 0; i < EXAMPLES; i++) {
        for (int j = 0; j < WIDTH; j++) {
            state = state * 1664525u + 1013904223u;
            int digits = (int)(state >> 28) + 1, power = (int)(state >> 8 & 15) - 8;
            fprintf(file, "%s%s%.*fe%d", j ? "," : "", state & 1 ? "-" : "", digits,
                    (double)state / 4294967296.0, power);
        }
        for (size_t j = 0; j < targets; j++)
            fprintf(file, ",%d", (i + (int)j) % OUTPUTS);
        fputc('\n', file);
    }
    fclose(file);
}

static void check_bits(enum rt_target target, bool standardised, double scale, double offset) {
    struct rt_error err;
    struct rt_dataset set;
    struct rt_device device;
    struct waiter waiter = WAITER;
    struct rt_stream *stream;
    struct rt_data_wish wish = rt_test_wish(WIDTH, OUTPUTS);
    struct rt_scaling scaling = {.scale = scale, .offset = offset};
    size_t values_width = target == RT_TARGET_INPUT ? WIDTH : OUTPUTS, taken;
    static float x[EXAMPLES][WIDTH], y[EXAMPLES][WIDTH], v[EXAMPLES * WIDTH], w[EXAMPLES * WIDTH];
    static int32_t c[EXAMPLES], d[EXAMPLES];
    uint32_t indices[EXAMPLES];
    wish.target = target;
    write_table(target == RT_TARGET_CLASSES ? 1 : target == RT_TARGET_VALUES ? OUTPUTS : 0);
    CHECK_OK(rt_device_open(RT_MATH_EXACT, "auto", 2, &device, &err));
    CHECK_OK(rt_test_open(target == RT_TARGET_VALUES
                              ? "csv: {file: table.csv, header: no, targets: [-4, -3, -2, -1]}"
                              : "csv: {file: table.csv, header: no}",
                          &wish, &set, &err));
    if (standardised)
        CHECK_OK(rt_scaling_measure(&set, &scaling, &err));
    for (uint32_t i = 0; i < EXAMPLES; i++)
        indices[i] = i;
    rt_dataset_inputs(&set, &scaling, &device, indices, EXAMPLES, x[0]);
    rt_dataset_targets(&set, &scaling, target, indices, EXAMPLES, c, v);
    CHECK_OK(open_stream("stream: {from: table.csv, buffer: 70}", &wish, 64, &waiter, &stream, &err));
    for (size_t all = 0; all < EXAMPLES; all += taken) {
        CHECK_OK(rt_stream_take(stream, 64, &scaling, &device, y[all], d + all, w + all * values_width,
                                &taken, &err));
        REQUIRE(taken > 0 || await_wake(&waiter));
    }
    CHECK(memcmp(x, y, sizeof x) == 0);
    if (target == RT_TARGET_CLASSES)
        CHECK(memcmp(c, d, sizeof c) == 0);
    else
        CHECK(memcmp(v, w, EXAMPLES * values_width * sizeof *v) == 0);
    rt_stream_close(stream);
    rt_dataset_close(&set);
    rt_scaling_deinit(&scaling);
    rt_device_close(&device);
}

TEST(bits_of_a_file) {
    check_bits(RT_TARGET_CLASSES, false, 1, 0);
    check_bits(RT_TARGET_CLASSES, false, 1, 0.125);
    check_bits(RT_TARGET_CLASSES, false, 0.00392156862745098, -0.5);
    check_bits(RT_TARGET_CLASSES, true, 0.1, 0.7);
    check_bits(RT_TARGET_VALUES, true, 0.3, 0);
    check_bits(RT_TARGET_INPUT, true, 0.3, 0.2);
}

TEST(class_names) {
    struct rt_error err;
    struct waiter waiter = WAITER;
    struct rt_stream *stream;
    struct rt_data_wish wish = rt_test_wish(2, 2);
    size_t count = 9;
    rt_test_write_text("a", "1,2,no\n");
    CHECK_OK(open_stream("stream: {from: a, names: [no, yes]}", &wish, 0, &waiter, &stream, &err));
    const char *const *names = rt_stream_names(stream, &count);
    CHECK(names && count == 2 && strcmp(names[1], "yes") == 0);
    rt_stream_close(stream);
    CHECK_OK(open_stream("stream: a", &wish, 0, &waiter, &stream, &err));
    CHECK(!rt_stream_names(stream, &count) && count == 0);
    rt_stream_close(stream);
}

TEST_MAIN()
