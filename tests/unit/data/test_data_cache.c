/* The cache of converted files: made once, used again, made anew when it does not fit, and clear when it
 * cannot be made. */
#include "base/bytes.h"
#include "data/cache.h"
#include "support/datafiles.h"
#include "support/test.h"
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

enum { COUNT = 700, SIZE = 5 };

static struct rt_data_wish cached_wish(void) {
    static char folder[400];
    snprintf(folder, sizeof folder, "%s", rt_test_path("cache/of mine"));
    struct rt_data_wish wish = rt_test_wish(SIZE, 3);
    wish.cache_above = 1000;
    wish.cache_dir = folder;
    return wish;
}

/* The one file in the cache directory, and its inode: a rebuilt cache has another. */
static ino_t cache_file(char path[400], size_t *files) {
    DIR *folder = opendir(rt_test_path("cache/of mine"));
    struct stat info = {0};
    *files = 0;
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        if (entry->d_name[0] == '.')
            continue;
        ++*files;
        snprintf(path, 400, "%s/cache/of mine/%.99s", rt_test_directory(), entry->d_name);
        stat(path, &info);
    }
    if (folder)
        closedir(folder);
    return info.st_ino;
}

static void write_csv(int first) {
    FILE *file = fopen(rt_test_path("t.csv"), "w");
    if (!file)
        exit(1);
    fputs("a,b,c,d,e,kind\n", file);
    for (int i = 0; i < COUNT; i++)
        fprintf(file, "%d,%d.5,%d,%d,0.25,%s\n", i + first, i, -i, 2 * i,
                i % 3 == 0   ? "rose"
                : i % 3 == 1 ? "aster"
                             : "tulip");
    fclose(file);
}

static void write_images(void) {
    uint8_t pixels[COUNT * SIZE], labels[COUNT], *bytes;
    size_t size;
    for (int i = 0; i < COUNT * SIZE; i++)
        pixels[i] = (uint8_t)(i * 31);
    for (int i = 0; i < COUNT; i++)
        labels[i] = (uint8_t)(i % 3);
    bytes = rt_test_idx(8, (const uint32_t[]){COUNT, SIZE}, 2, pixels, sizeof pixels, &size);
    rt_test_write_gz("x.idx.gz", bytes, size);
    free(bytes);
    bytes = rt_test_idx(8, (const uint32_t[]){COUNT}, 1, labels, sizeof labels, &size);
    rt_test_write_gz("y.idx.gz", bytes, size);
    free(bytes);
}

/* Opens through the cache and in memory and compares. Returns false when it did not open. */
static bool same_as_memory(const char *yaml, const struct rt_data_wish *wish) {
    struct rt_error err = {.text = ""};
    struct rt_dataset set, plain;
    struct rt_data_wish in_memory = *wish;
    in_memory.cache_above = 1 << 30;
    if (rt_test_open(yaml, wish, &set, &err) != RT_OK ||
        rt_test_open(yaml, &in_memory, &plain, &err) != RT_OK) {
        fprintf(stderr, "%s\n", err.text);
        return false;
    }
    uint8_t ours[32], theirs[32];
    rt_dataset_hash(&set, ours);
    rt_dataset_hash(&plain, theirs);
    CHECK(memcmp(ours, theirs, 32) == 0);
    CHECK(set.class_count == plain.class_count && !set.class_names == !plain.class_names);
    for (size_t i = 0; set.class_names && i < set.class_count; i++)
        CHECK(strcmp(set.class_names[i], plain.class_names[i]) == 0);
    rt_dataset_close(&set);
    rt_dataset_close(&plain);
    return true;
}

TEST(csv_once) {
    struct rt_data_wish wish = cached_wish();
    char path[400];
    size_t files;
    write_csv(0);
    REQUIRE(same_as_memory("csv: t.csv", &wish));
    ino_t first = cache_file(path, &files);
    CHECK(files == 1);
    REQUIRE(same_as_memory("csv: t.csv", &wish));
    CHECK(cache_file(path, &files) == first && files == 1);

    /* The original changes: same place, new content. */
    write_csv(1000);
    REQUIRE(same_as_memory("csv: t.csv", &wish));
    CHECK(cache_file(path, &files) != first && files == 1);

    /* Other options have a cache of their own. */
    wish.target = RT_TARGET_VALUES;
    wish.outputs = 1;
    wish.input.dim[0] = 4;
    REQUIRE(same_as_memory("csv: {file: t.csv, columns: [a, b, c, d], label: e}", &wish));
    cache_file(path, &files);
    CHECK(files == 2);
}

TEST(idx_gz_once) {
    struct rt_data_wish wish = cached_wish();
    char path[400];
    size_t files;
    write_images();
    REQUIRE(same_as_memory("idx: [x.idx.gz, y.idx.gz]", &wish));
    ino_t first = cache_file(path, &files);
    CHECK(files == 1); /* the labels are small */
    REQUIRE(same_as_memory("idx: [x.idx.gz, y.idx.gz]", &wish));
    CHECK(cache_file(path, &files) == first && files == 1);
}

TEST(damaged_is_rebuilt) {
    struct rt_data_wish wish = cached_wish();
    char path[400];
    size_t files;
    write_csv(0);
    REQUIRE(same_as_memory("csv: t.csv", &wish));
    cache_file(path, &files);
    struct stat info;
    REQUIRE(stat(path, &info) == 0 && info.st_size > COUNT * SIZE * 4);
    /* Cut anywhere, or changed in the mark, the labels, the footer, the inputs (an infinity), the padding or
     * the names. */
    for (int damage = 0; damage < 14; damage++) {
        ino_t before = cache_file(path, &files);
        int file = open(path, O_RDWR);
        REQUIRE(file >= 0);
        const uint8_t bad[4] = {0xff, 0xff, 0xff, 0x7f},
                      one_less[4] = {(COUNT - 1) & 0xff, (COUNT - 1) >> 8, 0, 0},
                      infinity[4] = {0, 0, 0x80, 0x7f};
        const off_t labels = 64 + (COUNT * SIZE * 4 + 63) / 64 * 64, footer = info.st_size - 192;
        const off_t at[] = {0,
                            0,
                            0,
                            0,
                            0,
                            labels,
                            footer + 2,
                            footer + 102,
                            footer + 96,
                            64,
                            64 + COUNT * SIZE * 2,
                            64 + COUNT * SIZE * 4 - 4,
                            labels - 4,
                            footer - 4};
        const off_t cut[] = {0, 1, 100, info.st_size - 1};
        if (damage < 4)
            REQUIRE(ftruncate(file, cut[damage]) == 0);
        else
            REQUIRE(pwrite(file, damage == 8 ? one_less : damage > 8 ? infinity : bad, 4, at[damage]) == 4);
        close(file);
        REQUIRE(same_as_memory("csv: t.csv", &wish));
        CHECK_MSG(cache_file(path, &files) != before && files == 1, "damage %d", damage);
    }
}

/* A file that is replaced while it is read: the key is that of the one that was opened. */
TEST(the_key_is_of_the_open_file) {
    struct rt_error err;
    struct rt_data_wish wish = cached_wish();
    struct rt_input input;
    struct rt_cache first, again, other;
    write_csv(0);
    const struct rt_input *const inputs[] = {&input};
    CHECK_OK(rt_input_open(rt_test_path("t.csv"), &input, &err));
    CHECK_OK(rt_cache_locate(&wish, inputs, 1, "x", &first, &err));
    rt_test_write_text("new.csv", "1,2\n");
    REQUIRE(rename(rt_test_path("new.csv"), rt_test_path("t.csv")) == 0);
    CHECK_OK(rt_cache_locate(&wish, inputs, 1, "x", &again, &err));
    rt_input_close(&input);
    CHECK_OK(rt_input_open(rt_test_path("t.csv"), &input, &err));
    CHECK_OK(rt_cache_locate(&wish, inputs, 1, "x", &other, &err));
    rt_input_close(&input);
    CHECK(memcmp(first.key, again.key, 32) == 0 && memcmp(first.key, other.key, 32) != 0);
    CHECK(strcmp(first.path, other.path) == 0);
    rt_cache_close(&first);
    rt_cache_close(&again);
    rt_cache_close(&other);
}

static uint64_t sum_of(const uint8_t *data, size_t bytes, size_t piece) {
    struct rt_checksum sum = {0};
    for (size_t at = 0; at < bytes; at += piece)
        rt_checksum_add(&sum, data + at, bytes - at < piece ? bytes - at : piece);
    return rt_checksum_value(&sum);
}

TEST(checksum) {
    uint8_t data[200] = {0};
    for (size_t i = 0; i < 150; i++)
        data[i] = (uint8_t)(i * 7);
    /* The pieces do not matter; the length and every bit do. */
    for (size_t bytes = 0; bytes < sizeof data; bytes++) {
        uint64_t whole = sum_of(data, bytes, sizeof data);
        for (size_t piece = 1; piece < 70; piece += 3)
            CHECK_MSG(sum_of(data, bytes, piece) == whole, "%zu bytes by %zu", bytes, piece);
        CHECK_MSG(whole != sum_of(data, bytes + 1, sizeof data), "%zu bytes", bytes);
    }
    uint64_t whole = sum_of(data, sizeof data, sizeof data);
    for (size_t bit = 0; bit < 8 * sizeof data; bit++) {
        data[bit / 8] ^= (uint8_t)(1 << bit % 8);
        CHECK_MSG(sum_of(data, sizeof data, sizeof data) != whole, "bit %zu", bit);
        data[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
}

TEST(no_place) {
    struct rt_error err = {.text = ""};
    struct rt_dataset set;
    struct rt_data_wish wish = cached_wish();
    write_csv(0);
    rt_test_write_text("cache", "a file where the directory should be");
    rt_status status = rt_test_open("csv: t.csv", &wish, &set, &err);
    CHECK_MSG((status == RT_IO || status == RT_BAD_INPUT) && strstr(err.text, "data.cache_dir"), "%s",
              err.text);
    write_images();
    status = rt_test_open("idx: [x.idx.gz, y.idx.gz]", &wish, &set, &err);
    CHECK_MSG((status == RT_IO || status == RT_BAD_INPUT) && strstr(err.text, "data.cache_dir"), "%s",
              err.text);

    /* Without HOME there is no default place; that matters only when one is needed. */
    unsetenv("HOME");
    unsetenv("XDG_CACHE_HOME");
    wish.cache_dir = NULL;
    status = rt_test_open("csv: t.csv", &wish, &set, &err);
    CHECK_MSG(status == RT_BAD_INPUT && strstr(err.text, "HOME is not set"), "%s", err.text);
    rt_test_write_gz("small.csv.gz", "1,2,3,4,5,0\n", 12);
    CHECK_OK(rt_test_open("csv: small.csv.gz", &wish, &set, &err));
    rt_dataset_close(&set);
}

TEST(default_place) {
    struct rt_data_wish wish = cached_wish();
    char path[400];
    size_t files;
    write_csv(0);
    wish.cache_dir = NULL;
    setenv("XDG_CACHE_HOME", rt_test_path("xdg"), 1);
    REQUIRE(same_as_memory("csv: t.csv", &wish));
    CHECK(access(rt_test_path("xdg/ringtmp"), R_OK) == 0);
    unsetenv("XDG_CACHE_HOME");
    setenv("HOME", rt_test_path("home"), 1);
    REQUIRE(same_as_memory("csv: t.csv", &wish));
    CHECK(access(rt_test_path("home/.cache/ringtmp"), R_OK) == 0);
    cache_file(path, &files);
    CHECK(files == 0);
}

TEST(bad_rows_leave_no_cache) {
    struct rt_data_wish wish = cached_wish();
    char path[400];
    size_t files;
    write_csv(0);
    FILE *file = fopen(rt_test_path("t.csv"), "a");
    REQUIRE(file);
    fputs("1,2,3,4,oops,rose\n", file);
    fclose(file);
    CHECK(rt_test_refused("csv: t.csv", &wish, "t.csv:702:5: column 'e'", "'oops'"));
    cache_file(path, &files);
    CHECK(files == 0);
}

/* Reading a file that is cut short meanwhile is an error, no signal. */
TEST(cut_short_while_it_is_read) {
    enum { BYTES = 300000 };
    uint8_t *bytes = malloc(BYTES), buffer[1000];
    uint32_t word = 1;
    REQUIRE(bytes);
    for (size_t i = 0; i < BYTES; i++) {
        word = word * 1664525u + 1013904223u;
        bytes[i] = (uint8_t)(word >> 24);
    }
    for (int packed = 0; packed < 2; packed++) {
        struct rt_input input;
        struct rt_error err;
        size_t got, given = 0;
        rt_status status = RT_OK;
        if (packed)
            rt_test_write_gz("cut", bytes, BYTES);
        else
            rt_test_write("cut", bytes, BYTES);
        REQUIRE(rt_input_open(rt_test_path("cut"), &input, &err) == RT_OK);
        CHECK_OK(rt_input_read(&input, buffer, sizeof buffer, &got, &err));
        CHECK(got == sizeof buffer && memcmp(buffer, bytes, got) == 0);
        CHECK(truncate(rt_test_path("cut"), 10000) == 0);
        while (status == RT_OK && given < BYTES) {
            status = rt_input_read(&input, buffer, sizeof buffer, &got, &err);
            given += got;
        }
        CHECK_MSG(status == RT_IO && strstr(err.text, "was cut short while it was read"), "%s", err.text);
        rt_input_close(&input);
    }
    free(bytes);
}

/* A process that was killed while it converted a large file has left half of it. */
TEST(what_a_killed_conversion_left_goes) {
    struct rt_data_wish wish = cached_wish();
    char path[400], left[440];
    size_t files;
    write_csv(0);
    REQUIRE(same_as_memory("csv: t.csv", &wish));
    cache_file(path, &files);
    snprintf(left, sizeof left, "%s.%ld-0.tmp", path, (long)getpid());
    FILE *file = fopen(left, "w");
    REQUIRE(file && fputs("half", file) >= 0 && fclose(file) == 0);
    write_csv(2000);
    REQUIRE(same_as_memory("csv: t.csv", &wish));
    cache_file(path, &files);
    CHECK_MSG(files == 1, "%zu files", files);
}

TEST_MAIN()
