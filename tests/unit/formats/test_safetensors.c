/* safetensors: written and read back, the bytes on disk, and files that are cut, altered or made to mislead.
 */
#include "formats/safetensors.h"
#include "support/test.h"
#include <dirent.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static char directory[200], path[300];

static bool make_directory(void) {
    const char *base = getenv("TMPDIR");
    snprintf(directory, sizeof directory, "%s/ringtmp-tensors-XXXXXX", base ? base : "/tmp");
    if (!mkdtemp(directory))
        return false;
    snprintf(path, sizeof path, "%s/model.safetensors", directory);
    return true;
}

static size_t remove_directory(void) {
    size_t count = 0;
    DIR *list = opendir(directory);
    for (struct dirent *entry; list && (entry = readdir(list));)
        count += entry->d_name[0] != '.';
    if (list)
        closedir(list);
    unlink(path);
    rmdir(directory);
    return count;
}

static const struct rt_shape matrix = {2, {2, 3}}, vector = {1, {2}}, nothing = {2, {0, 5}},
                             scalar = {0, {0}};
static const float values[9] = {1.0f, -2.5f, 0.0f, 3e38f, -0.0f, 1e-45f, 7.0f, 8.0f, 9.0f};

static rt_status write_model(struct rt_error *err) {
    struct rt_tensors_out *out;
    rt_status status = rt_tensors_out_create(path, &out, err);
    if (status != RT_OK)
        return status;
    if (rt_tensors_out_declare(out, "0.weight", &matrix, err) != RT_OK ||
        rt_tensors_out_declare(out, "0.bias", &vector, err) != RT_OK ||
        rt_tensors_out_declare(out, "empty", &nothing, err) != RT_OK ||
        rt_tensors_out_declare(out, "scalar", &scalar, err) != RT_OK ||
        rt_tensors_out_meta(out, "model", "{\"layers\": [\"dense\"]}", err) != RT_OK ||
        rt_tensors_out_meta(out, "names", "\xc3\xa9t\xc3\xa9", err) != RT_OK ||
        rt_tensors_out_write(out, values, 4, err) != RT_OK ||
        rt_tensors_out_write(out, values + 4, 5, err) != RT_OK) {
        rt_tensors_out_abandon(out);
        return err->status;
    }
    return rt_tensors_out_commit(out, err);
}

TEST(written_and_read_back) {
    struct rt_error err;
    struct rt_tensors tensors;
    float data[6];
    REQUIRE(make_directory());
    CHECK_OK(write_model(&err));
    CHECK_OK(rt_tensors_open(path, &tensors, &err));
    CHECK(tensors.count == 4 && tensors.meta_count == 2);
    CHECK(strcmp(rt_tensors_meta(&tensors, "model"), "{\"layers\": [\"dense\"]}") == 0);
    CHECK(strcmp(rt_tensors_meta(&tensors, "names"), "\xc3\xa9t\xc3\xa9") == 0);
    CHECK(rt_tensors_meta(&tensors, "other") == NULL);
    CHECK_OK(rt_tensors_read(&tensors, "0.weight", &matrix, data, &err));
    CHECK(memcmp(data, values, sizeof data) == 0); /* the sign of zero and denormals too */
    CHECK_OK(rt_tensors_read(&tensors, "0.bias", &vector, data, &err));
    CHECK(data[0] == 7 && data[1] == 8);
    CHECK_OK(rt_tensors_read(&tensors, "empty", &nothing, data, &err));
    CHECK_OK(rt_tensors_read(&tensors, "scalar", &scalar, data, &err));
    CHECK(data[0] == 9);
    CHECK(rt_tensors_read(&tensors, "1.weight", &matrix, data, &err) == RT_BAD_INPUT);
    CHECK_MSG(strstr(err.text, "model.safetensors: has no tensor '1.weight'"), "%s", err.text);
    CHECK(rt_tensors_read(&tensors, "0.weight", &vector, data, &err) == RT_BAD_INPUT);
    CHECK_MSG(strstr(err.text, "tensor '0.weight' has the shape [2, 3], but the model needs [2]"), "%s",
              err.text);
    rt_tensors_close(&tensors);
    CHECK(remove_directory() == 1);
}

/* What other readers rely on: little-endian, the header a multiple of 8, filled up with spaces. */
TEST(the_bytes_on_disk) {
    struct rt_error err;
    struct rt_map map;
    REQUIRE(make_directory());
    CHECK_OK(write_model(&err));
    CHECK_OK(rt_map_open(path, &map, &err));
    static const char head[] =
        "{\"__metadata__\":{\"model\":\"{\\\"layers\\\": [\\\"dense\\\"]}\",\"names\":\"\xc3\xa9t\xc3\xa9\"},"
        "\"0.weight\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]},"
        "\"0.bias\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[24,32]},"
        "\"empty\":{\"dtype\":\"F32\",\"shape\":[0,5],\"data_offsets\":[32,32]},"
        "\"scalar\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[32,36]}}";
    size_t text = strlen(head), padded = (text + 7) / 8 * 8;
    REQUIRE(map.bytes == 8 + padded + 36);
    CHECK(map.data[0] == (padded & 255) && map.data[1] == padded >> 8 && map.data[2] == 0 &&
          map.data[7] == 0);
    CHECK_MSG(memcmp(map.data + 8, head, text) == 0, "%.*s", (int)padded, (const char *)map.data + 8);
    for (size_t i = text; i < padded; i++)
        CHECK(map.data[8 + i] == ' ');
    const uint8_t *data = map.data + 8 + padded;
    CHECK(data[0] == 0 && data[1] == 0 && data[2] == 0x80 && data[3] == 0x3f); /* 1.0 */
    rt_map_close(&map);
    remove_directory();
}

/* Every shorter file and every file with one byte changed must be refused or read, never crash. */
TEST(cut_and_altered_files) {
    struct rt_error err;
    struct rt_map map;
    struct rt_tensors tensors;
    REQUIRE(make_directory());
    CHECK_OK(write_model(&err));
    CHECK_OK(rt_map_open(path, &map, &err));
    for (size_t bytes = 0; bytes < map.bytes; bytes++) {
        uint8_t *copy = malloc(bytes + 1); /* of its own size, so that a sanitizer sees a step too far */
        REQUIRE(copy);
        if (bytes)
            memcpy(copy, map.data, bytes);
        CHECK_MSG(rt_tensors_parse(copy, bytes, "cut", &tensors, &err) == RT_BAD_INPUT, "%zu bytes", bytes);
        CHECK(strncmp(err.text, "cut: ", 5) == 0);
        free(copy);
    }
    uint8_t *copy = malloc(map.bytes);
    REQUIRE(copy);
    for (size_t i = 0; i < map.bytes; i++) {
        static const uint8_t flips[] = {0x01, 0x10, 0x80, 0xff};
        for (size_t f = 0; f < sizeof flips; f++) {
            memcpy(copy, map.data, map.bytes);
            copy[i] ^= flips[f];
            if (rt_tensors_parse(copy, map.bytes, "altered", &tensors, &err) == RT_OK)
                rt_tensors_close(&tensors);
        }
    }
    free(copy);
    rt_map_close(&map);
    remove_directory();
}

/* A file with this header and so many bytes of data; the sentence, "" when it was read. */
static const char *refused(const char *header, size_t data_bytes) {
    static struct rt_error err;
    struct rt_tensors tensors;
    size_t length = strlen(header), bytes = 8 + length + data_bytes;
    uint8_t *file = calloc(bytes, 1);
    if (!file)
        return "no memory";
    for (unsigned i = 0; i < 8; i++)
        file[i] = (uint8_t)((uint64_t)length >> (8 * i));
    memcpy(file + 8, header, length);
    err.text[0] = 0;
    if (rt_tensors_parse(file, bytes, "f", &tensors, &err) == RT_OK)
        rt_tensors_close(&tensors);
    free(file);
    return err.text;
}

#define TENSOR(name, type, shape, offsets)                                                                   \
    "\"" name "\":{\"dtype\":\"" type "\",\"shape\":" shape ",\"data_offsets\":" offsets "}"

TEST(headers_that_mislead) {
    static const struct {
        const char *header;
        size_t data_bytes;
        const char *sentence;
    } cases[] = {
        {"{}", 0, ""},
        {"{\"__metadata__\":{}}   ", 0, ""},
        {"{" TENSOR("a", "F32", "[2]", "[0,8]") "}", 8, ""},
        {"{" TENSOR("b", "F32", "[2]", "[8,16]") "," TENSOR("a", "F32", "[2]", "[0,8]") "}", 16, ""},
        {"", 0, "its header does not begin with '{'"},
        {"[]", 0, "its header does not begin with '{'"},
        {" {}", 0, "its header does not begin with '{'"},
        {"{} x", 0, "byte "},
        {"{\"a\":1}", 0, "tensor 'a' is not described by dtype, shape and data_offsets"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[]}}", 0, "tensor 'a' is not described"},
        {"{" TENSOR("a", "F32", "[2]", "[0,8]") "," TENSOR("a", "F32", "[2]", "[8,16]") "}", 16, "duplicate"},
        {"{\"__metadata__\":{\"k\":\"1\",\"k\":\"2\"}}", 0, "duplicate"},
        {"{\"__metadata__\":[]}", 0, "__metadata__ is not an object"},
        {"{\"__metadata__\":{\"k\":1}}", 0, "__metadata__ has a value that is not a text"},
        {"{" TENSOR("a", "BF16", "[4]", "[0,8]") "}", 8, "tensor 'a' has the type BF16; only F32 is read"},
        {"{\"a\":{\"dtype\":1,\"shape\":[2],\"data_offsets\":[0,8]}}", 8, "tensor 'a' has no dtype"},
        {"{" TENSOR("a", "F32", "2", "[0,8]") "}", 8, "tensor 'a' has no shape"},
        {"{" TENSOR("a", "F32", "[1,1,1,1,2]", "[0,8]") "}", 8,
         "tensor 'a' has 5 dimensions; at most 4 are read"},
        {"{" TENSOR("a", "F32", "[-2]", "[0,8]") "}", 8, "has a dimension that is not a count"},
        {"{" TENSOR("a", "F32", "[2.0]", "[0,8]") "}", 8, "has a dimension that is not a count"},
        {"{" TENSOR("a", "F32", "[99999999999999999999]", "[0,8]") "}", 8, "too big integer"},
        {"{" TENSOR("a", "F32", "[4611686018427387904,4]", "[0,0]") "}", 0, "has a shape that is too large"},
        {"{" TENSOR("a", "F32", "[4294967296,4294967296]", "[0,0]") "}", 0, "has a shape that is too large"},
        {"{" TENSOR("a", "F32", "[9223372036854775807,3,0]", "[0,0]") "}", 0,
         "has a shape that is too large"},
        {"{" TENSOR("a", "F32", "[2]", "[8,0]") "}", 8, "has wrong data_offsets"},
        {"{" TENSOR("a", "F32", "[2]", "[-8,0]") "}", 8, "has wrong data_offsets"},
        {"{" TENSOR("a", "F32", "[2]", "[0]") "}", 8, "has wrong data_offsets"},
        {"{" TENSOR("a", "F32", "[2]", "[0,8,9]") "}", 8, "has wrong data_offsets"},
        {"{" TENSOR("a", "F32", "[2]", "[0,\\\"8\\\"]") "}", 8, "byte "},
        {"{" TENSOR("a", "F32", "[2]", "[0,8]") "}", 7, "ends at byte 8 of the data, but there are only 7"},
        {"{" TENSOR("a", "F32", "[3]", "[0,8]") "}", 8, "tensor 'a' has 8 bytes, but its shape needs 12"},
        {"{" TENSOR("a", "F32", "[0]", "[0,8]") "}", 8, "tensor 'a' has 8 bytes, but its shape needs 0"},
        {"{" TENSOR("a", "F32", "[2]", "[0,8]") "}", 9, "1 bytes after the last tensor belong to no tensor"},
        {"{" TENSOR("a", "F32", "[2]", "[4,12]") "}", 12, "tensor 'a' leaves a hole before it at byte 4"},
        {"{" TENSOR("a", "F32", "[2]", "[0,8]") "," TENSOR("b", "F32", "[2]", "[4,12]") "}", 12,
         "tensor 'b' overlaps another one at byte 4"},
        {"{" TENSOR("a", "F32", "[2]", "[0,8]") "," TENSOR("b", "F32", "[2]", "[0,8]") "}", 8,
         "overlaps another one"},
        {"{" TENSOR("a\\u001b[2J", "F32", "[2]", "[0,8]") "}", 8,
         "a tensor's name has control characters in it"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *text = refused(cases[i].header, cases[i].data_bytes);
        bool right = *cases[i].sentence ? strstr(text, cases[i].sentence) != NULL : !*text;
        CHECK_MSG(right, "%s\n  said: %s", cases[i].header, text);
    }
}

TEST(lengths_that_mislead) {
    struct rt_error err;
    struct rt_tensors tensors;
    uint8_t huge[16] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, '{', '}'};
    CHECK(rt_tensors_parse(huge, sizeof huge, "f", &tensors, &err) == RT_BAD_INPUT);
    CHECK_MSG(strstr(err.text, "more than 16777216"), "%s", err.text);
    uint8_t longer[16] = {9, 0, 0, 0, 0, 0, 0, 0, '{', '}'};
    CHECK(rt_tensors_parse(longer, sizeof longer, "f", &tensors, &err) == RT_BAD_INPUT);
    CHECK_MSG(strstr(err.text, "should have 9 bytes, but the file ends after 8"), "%s", err.text);
    CHECK(rt_tensors_open("/nonexistent", &tensors, &err) == RT_BAD_INPUT);
}

/* The most memory this process has had, in MiB. */
static long peak(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss >> 10;
}

/* JSON that is short in the file and large in memory is refused before it gets there. */
TEST(headers_that_swell) {
    static const char *const pieces[] = {"[],", "{},", "0,", "[[", "{\"a\":"};
    static const size_t bytes = RT_MAX_HEADER;
    char *header = malloc(bytes + 1);
    REQUIRE(header);
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        size_t length = strlen(pieces[i]), at = 6;
        memcpy(header, "{\"a\":[", 6);
        for (; at + length <= bytes; at += length)
            memcpy(header + at, pieces[i], length);
        header[at] = 0;
        long before = peak();
        const char *text = refused(header, 0);
        CHECK_MSG(strstr(text, "more than 524288 values, or nested more than 3 deep"), "%s: %s", pieces[i],
                  text);
        CHECK_MSG(peak() - before < 64, "%s: %ld MiB", pieces[i], peak() - before);
    }
    free(header);
    /* What is in quotes does not count. */
    CHECK(!*refused("{\"__metadata__\":{\"a\":\"[[[[[[\\\"[[[[[{{{{\"}}", 0));
}

TEST(too_many_tensors) {
    struct rt_error err;
    struct rt_tensors_out *out;
    struct rt_shape empty = {4, {0, 1, 1, 1}};
    REQUIRE(make_directory());
    CHECK_OK(rt_tensors_out_create(path, &out, &err));
    for (int i = 0; i < 53000; i++) {
        char name[40];
        snprintf(name, sizeof name, "%d", i);
        CHECK_OK(rt_tensors_out_declare(out, name, &empty, &err));
    }
    CHECK(rt_tensors_out_commit(out, &err) == RT_FAILED);
    CHECK_MSG(strstr(err.text, "too many tensors"), "%s", err.text);
    CHECK(remove_directory() == 0);
}

TEST(a_writer_that_is_used_wrongly) {
    struct rt_error err;
    struct rt_tensors_out *out;
    REQUIRE(make_directory());
    CHECK_OK(rt_tensors_out_create(path, &out, &err));
    CHECK_OK(rt_tensors_out_declare(out, "a", &matrix, &err));
    CHECK(rt_tensors_out_declare(out, "a", &matrix, &err) == RT_FAILED);
    CHECK(rt_tensors_out_declare(out, "__metadata__", &matrix, &err) == RT_FAILED);
    struct rt_shape large = {4, {SIZE_MAX, SIZE_MAX, SIZE_MAX, SIZE_MAX}};
    CHECK(rt_tensors_out_declare(out, "large", &large, &err) == RT_FAILED);
    CHECK(rt_tensors_out_meta(out, "k", "\xff", &err) == RT_BAD_INPUT);
    CHECK_OK(rt_tensors_out_write(out, values, 5, &err));
    CHECK(rt_tensors_out_declare(out, "b", &matrix, &err) == RT_FAILED);
    CHECK(rt_tensors_out_meta(out, "k", "v", &err) == RT_FAILED);
    CHECK(rt_tensors_out_write(out, values, 2, &err) == RT_FAILED);
    CHECK(rt_tensors_out_commit(out, &err) == RT_FAILED);
    CHECK_MSG(strstr(err.text, "5 of the 6 declared floats were written"), "%s", err.text);
    rt_tensors_out_abandon(NULL);
    CHECK(remove_directory() == 0);
}

TEST(a_full_disk) {
    struct rt_error err;
    struct rt_tensors_out *out;
    struct stat info;
    static const float zeros[100000];
    struct rt_shape shape = {1, {100000}};
    if (stat("/dev/full", &info) != 0)
        SKIP("there is no /dev/full here");
    CHECK_OK(rt_tensors_out_create("/dev/full", &out, &err));
    CHECK_OK(rt_tensors_out_declare(out, "a", &shape, &err));
    CHECK(rt_tensors_out_write(out, zeros, 100000, &err) == RT_IO);
    CHECK_MSG(strcmp(err.text, "/dev/full: No space left on device") == 0, "%s", err.text);
    CHECK(rt_tensors_out_commit(out, &err) == RT_IO);
    CHECK_MSG(strcmp(err.text, "/dev/full: No space left on device") == 0, "%s", err.text);
}

TEST(many_tensors) {
    struct rt_error err;
    struct rt_tensors_out *out;
    struct rt_tensors tensors;
    struct rt_shape one = {1, {1}};
    REQUIRE(make_directory());
    CHECK_OK(rt_tensors_out_create(path, &out, &err));
    for (int i = 0; i < 5000; i++) {
        char name[40];
        snprintf(name, sizeof name, "layer.%d.weight", i);
        CHECK_OK(rt_tensors_out_declare(out, name, &one, &err));
    }
    for (int i = 0; i < 5000; i++) {
        float value = (float)i;
        CHECK_OK(rt_tensors_out_write(out, &value, 1, &err));
    }
    CHECK_OK(rt_tensors_out_commit(out, &err));
    CHECK_OK(rt_tensors_open(path, &tensors, &err));
    CHECK(tensors.count == 5000);
    float value = 0;
    CHECK_OK(rt_tensors_read(&tensors, "layer.4321.weight", &one, &value, &err));
    CHECK(value == 4321);
    rt_tensors_close(&tensors);
    remove_directory();
}

TEST_MAIN()
