/* The file of a cluster key. */
#include "net/tcp.h"
#include "support/test.h"
#include <sys/stat.h>
#include <unistd.h>

static char directory[200], path[300];

static bool make_directory(void) {
    const char *base = getenv("TMPDIR");
    snprintf(directory, sizeof directory, "%s/ringtmp-key-XXXXXX", base ? base : "/tmp");
    bool made = mkdtemp(directory) != NULL;
    snprintf(path, sizeof path, "%s/cluster.key", directory);
    return made;
}

static void remove_directory(void) {
    unlink(path);
    rmdir(directory);
}

static void write_text(const char *text) {
    FILE *file = fopen(path, "w");
    if (file) {
        fputs(text, file);
        fclose(file);
    }
}

TEST(a_key_is_written_for_its_owner_and_never_replaced) {
    struct rt_error err;
    struct stat info;
    uint8_t first[RT_KEY_BYTES], second[RT_KEY_BYTES];
    REQUIRE(make_directory());
    CHECK_OK(rt_key_write(path, &err));
    CHECK(stat(path, &info) == 0 && (info.st_mode & 0777) == 0600 && info.st_size == 65);
    CHECK_OK(rt_key_read(path, first, &err));
    CHECK(rt_key_write(path, &err) == RT_BAD_INPUT);
    CHECK_MSG(strstr(err.text, path) && strstr(err.text, "never replaced"), "%s", err.text);
    CHECK_OK(rt_key_read(path, second, &err));
    CHECK(memcmp(first, second, RT_KEY_BYTES) == 0);
    unlink(path);
    CHECK_OK(rt_key_write(path, &err));
    CHECK_OK(rt_key_read(path, second, &err));
    CHECK(memcmp(first, second, RT_KEY_BYTES) != 0);
    remove_directory();
    CHECK(rt_key_write("/no/such/directory/key", &err) == RT_BAD_INPUT &&
          strstr(err.text, "/no/such/directory/key"));
}

TEST(digits_are_read_with_space_around_them) {
    struct rt_error err;
    uint8_t key[RT_KEY_BYTES];
    REQUIRE(make_directory());
    write_text(" 000102030405060708090a0b0c0d0e0f101112131415161718191A1B1C1D1E1F\r\n\n");
    CHECK_OK(rt_key_read(path, key, &err));
    for (int i = 0; i < RT_KEY_BYTES; i++)
        CHECK(key[i] == i);
    write_text("\xef\xbb\xbf"
               "100102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\n");
    CHECK_OK(rt_key_read(path, key, &err));
    CHECK(key[0] == 0x10 && key[31] == 0x1f);
    remove_directory();
}

TEST(what_is_no_key_is_refused) {
    static const char *const wrong[] = {
        "",
        "\n",
        "0001",
        "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1",
        "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f0",
        "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1g",
        "000102030405060708090a0b0c0d0e0f 101112131415161718191a1b1c1d1e1f",
        "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\n"
        "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\n",
    };
    struct rt_error err;
    uint8_t key[RT_KEY_BYTES];
    REQUIRE(make_directory());
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        write_text(wrong[i]);
        CHECK_MSG(rt_key_read(path, key, &err) == RT_BAD_INPUT, "case %zu", i);
        CHECK_MSG(strstr(err.text, path) && strstr(err.text, "64 hexadecimal digits"), "%s", err.text);
    }
    remove_directory();
    CHECK(rt_key_read(path, key, &err) == RT_BAD_INPUT && strstr(err.text, "cannot be read"));
    CHECK(rt_key_read("/", key, &err) == RT_BAD_INPUT && strstr(err.text, "cannot be read"));
}

TEST_MAIN()
