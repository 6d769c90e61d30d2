/* The file of a run's token: kept, private, and drawn anew where it is damaged. labels: asan */
#include "run/token.h"

#include "support/test.h"
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char dir[64], path[80];

static void make_directory(void) {
    snprintf(dir, sizeof dir, "/tmp/ringtmp-token-XXXXXX");
    CHECK(mkdtemp(dir) != NULL);
    snprintf(path, sizeof path, "%s/token", dir);
}

static void remove_directory(void) {
    rt_token_remove(dir);
    CHECK(rmdir(dir) == 0);
}

static void write_file(const char *text, size_t bytes) {
    FILE *file = fopen(path, "wb");
    CHECK(file && fwrite(text, 1, bytes, file) == bytes && fclose(file) == 0);
}

TEST(is_kept_and_private) {
    uint8_t first[RT_TOKEN_BYTES], again[RT_TOKEN_BYTES];
    struct stat info;
    struct rt_error err;
    make_directory();
    CHECK(rt_token_take(dir, first, &err) == RT_OK && rt_token_take(dir, again, &err) == RT_OK);
    CHECK(memcmp(first, again, sizeof first) == 0);
    CHECK(stat(path, &info) == 0 && (info.st_mode & 0777) == 0600);
    remove_directory();
}

/* What is not a token to the last byte is replaced, and the new file is private whatever the old one was. */
TEST(damaged_ones_are_replaced) {
    static const char whole[] = "00112233445566778899aabbccddeeff\n";
    static const char *const damaged[] = {"",
                                          "0",
                                          "00112233445566778899aabbccddeef",
                                          "00112233445566778899aabbccddeeff",
                                          "00112233445566778899aabbccddeef\n\n",
                                          "0011223344556677 899aabbccddeeff\n",
                                          "0011223344556677x899aabbccddeeff\n",
                                          "00112233445566778899aabbccddeeff\n\n"};
    uint8_t token[RT_TOKEN_BYTES];
    struct stat info;
    struct rt_error err;
    make_directory();
    write_file(whole, sizeof whole - 1);
    CHECK(rt_token_take(dir, token, &err) == RT_OK && token[0] == 0 && token[1] == 0x11 && token[15] == 0xff);
    for (size_t i = 0; i < sizeof damaged / sizeof *damaged; i++) {
        uint8_t drawn[RT_TOKEN_BYTES], kept[RT_TOKEN_BYTES];
        write_file(damaged[i], strlen(damaged[i]));
        CHECK(chmod(path, 0644) == 0);
        CHECK(rt_token_take(dir, drawn, &err) == RT_OK && rt_token_take(dir, kept, &err) == RT_OK);
        CHECK_MSG(memcmp(drawn, token, sizeof token) != 0, "taken from '%s'", damaged[i]);
        CHECK(memcmp(drawn, kept, sizeof kept) == 0);
        CHECK(stat(path, &info) == 0 && (info.st_mode & 0777) == 0600);
    }
    remove_directory();
}

TEST(cannot_be_kept) {
    uint8_t token[RT_TOKEN_BYTES];
    struct rt_error err;
    CHECK(rt_token_take("/proc/self/no/such/place", token, &err) != RT_OK);
    CHECK(strstr(err.text, "/proc/self/no") != NULL);
}

TEST_MAIN()
