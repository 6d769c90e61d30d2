/* Files: mapping, replacing a file in one step, and what is said when it fails. */
#include "base/file.h"
#include "support/test.h"
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static char directory[200];

static const char *make_directory(void) {
    const char *base = getenv("TMPDIR");
    snprintf(directory, sizeof directory, "%s/ringtmp-file-XXXXXX", base ? base : "/tmp");
    return mkdtemp(directory);
}

static void remove_all(void) {
    DIR *list = opendir(directory);
    for (struct dirent *entry; list && (entry = readdir(list));) {
        char path[500];
        snprintf(path, sizeof path, "%s/%s", directory, entry->d_name);
        if (entry->d_name[0] != '.' && unlink(path) != 0)
            rmdir(path);
    }
    if (list)
        closedir(list);
    rmdir(directory);
}

static size_t count_files(void) {
    DIR *list = opendir(directory);
    size_t count = 0;
    for (struct dirent *entry; list && (entry = readdir(list));)
        count += entry->d_name[0] != '.';
    if (list)
        closedir(list);
    return count;
}

static bool has_content(const char *path, const char *content) {
    struct rt_map map;
    if (rt_map_open(path, &map, NULL) != RT_OK)
        return false;
    bool same = map.bytes == strlen(content) && (map.bytes == 0 || memcmp(map.data, content, map.bytes) == 0);
    rt_map_close(&map);
    return same;
}

TEST(a_file_appears_only_when_complete) {
    struct rt_error err;
    struct rt_writer writer;
    char path[300];
    REQUIRE(make_directory());
    snprintf(path, sizeof path, "%s/model", directory);
    CHECK_OK(rt_writer_open(path, &writer, &err));
    rt_writer_write(&writer, "first", 5);
    CHECK(access(path, F_OK) != 0);
    CHECK_OK(rt_writer_commit(&writer, &err));
    CHECK(has_content(path, "first"));

    CHECK_OK(rt_writer_open(path, &writer, &err));
    rt_writer_write(&writer, "half", 4);
    CHECK(has_content(path, "first"));
    rt_writer_abandon(&writer);
    CHECK(has_content(path, "first"));
    CHECK(count_files() == 1);

    CHECK_OK(rt_writer_open(path, &writer, &err));
    rt_writer_write(&writer, "sec", 3);
    rt_writer_write(&writer, "", 0);
    rt_writer_write(&writer, "ond", 3);
    CHECK(writer.bytes == 6);
    CHECK_OK(rt_writer_commit(&writer, &err));
    CHECK(has_content(path, "second"));
    CHECK(count_files() == 1);
    remove_all();
}

/* Two writers of one path, as two runs with the same output directory: each file is whole, the last wins. */
TEST(two_writers_do_not_mix) {
    struct rt_error err;
    struct rt_writer one, two;
    char path[300];
    REQUIRE(make_directory());
    snprintf(path, sizeof path, "%s/model", directory);
    CHECK_OK(rt_writer_open(path, &one, &err));
    CHECK_OK(rt_writer_open(path, &two, &err));
    rt_writer_write(&one, "one", 3);
    rt_writer_write(&two, "two", 3);
    CHECK_OK(rt_writer_commit(&two, &err));
    CHECK(has_content(path, "two"));
    CHECK_OK(rt_writer_commit(&one, &err));
    CHECK(has_content(path, "one"));
    CHECK(count_files() == 1);
    remove_all();
}

TEST(a_full_disk_is_reported) {
    struct rt_error err;
    struct rt_writer writer;
    struct stat info;
    if (stat("/dev/full", &info) != 0)
        SKIP("there is no /dev/full here");
    static char data[100000];
    /* Small data fail when they leave the buffer, large ones at once: both must be told. */
    for (size_t bytes = 1; bytes <= sizeof data; bytes += sizeof data - 1) {
        CHECK_OK(rt_writer_open("/dev/full", &writer, &err));
        rt_writer_write(&writer, data, bytes);
        rt_writer_write(&writer, data, bytes);
        CHECK(rt_writer_commit(&writer, &err) == RT_IO);
        CHECK_MSG(strcmp(err.text, "/dev/full: No space left on device") == 0, "%s", err.text);
    }
    /* The device must still be one. */
    CHECK(stat("/dev/full", &info) == 0 && S_ISCHR(info.st_mode));
}

/* A limit on the size of files makes a real temporary file fail half-way. */
TEST(a_failed_write_keeps_the_old_file) {
    struct rt_error err;
    struct rt_writer writer;
    char path[300];
    static char data[100000];
    REQUIRE(make_directory());
    snprintf(path, sizeof path, "%s/model", directory);
    CHECK_OK(rt_writer_open(path, &writer, &err));
    rt_writer_write(&writer, "good", 4);
    CHECK_OK(rt_writer_commit(&writer, &err));
    signal(SIGXFSZ, SIG_IGN);
    struct rlimit limit = {50000, 50000};
    REQUIRE(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    CHECK_OK(rt_writer_open(path, &writer, &err));
    rt_writer_write(&writer, data, sizeof data);
    CHECK(rt_writer_commit(&writer, &err) == RT_IO);
    CHECK_MSG(strstr(err.text, "File too large") && strstr(err.text, path), "%s", err.text);
    CHECK(has_content(path, "good"));
    CHECK(count_files() == 1);
    remove_all();
}

TEST(what_cannot_be_opened) {
    struct rt_error err;
    struct rt_map map;
    struct rt_writer writer;
    REQUIRE(make_directory());
    char path[300];
    snprintf(path, sizeof path, "%s/absent", directory);
    CHECK(rt_map_open(path, &map, &err) == RT_BAD_INPUT);
    CHECK_MSG(strstr(err.text, "absent: No such file or directory"), "%s", err.text);
    CHECK(rt_map_open(directory, &map, &err) == RT_BAD_INPUT);
    CHECK_MSG(strstr(err.text, "is a directory"), "%s", err.text);
    CHECK(rt_map_open("/dev/null", &map, &err) == RT_BAD_INPUT);
    CHECK_MSG(strstr(err.text, "is not a regular file"), "%s", err.text);
    CHECK(rt_writer_open(directory, &writer, &err) == RT_BAD_INPUT);
    snprintf(path, sizeof path, "%s/absent/model", directory);
    CHECK(rt_writer_open(path, &writer, &err) == RT_IO);
    CHECK_MSG(strstr(err.text, "No such file or directory"), "%s", err.text);
    rt_writer_abandon(&writer);
    remove_all();
}

TEST(an_empty_file_maps_to_nothing) {
    struct rt_error err;
    struct rt_map map;
    char path[300];
    REQUIRE(make_directory());
    snprintf(path, sizeof path, "%s/empty", directory);
    int file = open(path, O_WRONLY | O_CREAT, 0666);
    REQUIRE(file >= 0);
    close(file);
    CHECK_OK(rt_map_open(path, &map, &err));
    CHECK(map.data == NULL && map.bytes == 0);
    rt_map_close(&map);
    remove_all();
}

/* Synced is on the disk, not yet in place: a checkpoint moves the one before it aside in between. */
TEST(synced_is_not_yet_in_place) {
    struct rt_error err;
    struct rt_writer writer;
    char path[300];
    REQUIRE(make_directory());
    snprintf(path, sizeof path, "%s/model", directory);
    CHECK_OK(rt_writer_open(path, &writer, &err));
    rt_writer_write(&writer, "whole", 5);
    CHECK_OK(rt_writer_sync(&writer, &err));
    CHECK(access(path, F_OK) != 0 && has_content(writer.temporary, "whole"));
    CHECK_OK(rt_writer_commit(&writer, &err));
    CHECK(has_content(path, "whole") && count_files() == 1);
    /* A failure shows at the sync already. */
    struct stat info;
    if (stat("/dev/full", &info) == 0) {
        CHECK_OK(rt_writer_open("/dev/full", &writer, &err));
        rt_writer_write(&writer, "x", 1);
        CHECK(rt_writer_sync(&writer, &err) == RT_IO);
        CHECK(rt_writer_commit(&writer, &err) == RT_IO);
    }
    remove_all();
}

TEST(leftovers_of_killed_writers_go) {
    static const char *const left[] = {"model.17-0.tmp", "model.99999-12.tmp"};
    static const char *const kept[] = {"model",           "model.17-0",    "model.tmp",
                                       "model.old-1.tmp", "model.17-.tmp", "other.model.17-0.tmp"};
    char path[300];
    REQUIRE(make_directory());
    for (size_t i = 0; i < 8; i++) {
        snprintf(path, sizeof path, "%s/%s", directory, i < 2 ? left[i] : kept[i - 2]);
        int file = open(path, O_WRONLY | O_CREAT, 0666);
        REQUIRE(file >= 0);
        close(file);
    }
    snprintf(path, sizeof path, "%s/model", directory);
    rt_remove_temporaries(path);
    CHECK_MSG(count_files() == 6, "%zu files", count_files());
    for (size_t i = 0; i < 6; i++) {
        snprintf(path, sizeof path, "%s/%s", directory, kept[i]);
        CHECK_MSG(access(path, F_OK) == 0, "%s is gone", path);
    }
    /* that of a writer at work stays, and becomes the file */
    struct rt_writer writer;
    struct rt_error err;
    snprintf(path, sizeof path, "%s/model", directory);
    CHECK_OK(rt_writer_open(path, &writer, &err));
    rt_remove_temporaries(path);
    rt_writer_write(&writer, "abc", 3);
    CHECK_OK(rt_writer_commit(&writer, &err));
    CHECK_MSG(count_files() == 6, "%zu files", count_files());
    snprintf(path, sizeof path, "%s/absent/model", directory);
    rt_remove_temporaries(path);
    remove_all();
}

/* One of several processes that make the same file, each removing abandoned temporaries of the others. */
static void *write_often(void *user) {
    const char *path = user;
    struct rt_writer writer;
    struct rt_error err;
    for (size_t i = 0; i < 200; i++) {
        rt_remove_temporaries(path);
        rt_status status = rt_writer_open(path, &writer, &err);
        if (status == RT_OK) {
            rt_writer_write(&writer, "abc", 3);
            status = rt_writer_commit(&writer, &err);
        }
        if (status != RT_OK) {
            rt_test_fail(__FILE__, __LINE__, "file %zu: %s", i, err.text);
            break;
        }
    }
    return NULL;
}

TEST(no_writer_at_work_loses_its_file) {
    enum { WRITERS = 3 };
    pthread_t writers[WRITERS];
    char path[300];
    REQUIRE(make_directory());
    snprintf(path, sizeof path, "%s/model", directory);
    for (size_t i = 0; i < WRITERS; i++)
        REQUIRE(pthread_create(&writers[i], NULL, write_often, path) == 0);
    for (size_t i = 0; i < WRITERS; i++)
        pthread_join(writers[i], NULL);
    CHECK_MSG(count_files() == 1 && has_content(path, "abc"), "%zu files", count_files());
    remove_all();
}

TEST(a_directory_is_claimed_once) {
    struct rt_error err;
    char path[300];
    bool made;
    REQUIRE(make_directory());
    snprintf(path, sizeof path, "%s/a/", directory);
    CHECK_OK(rt_claim_directory(path, &made, &err));
    CHECK(made);
    CHECK_OK(rt_claim_directory(path, &made, &err));
    CHECK(!made);
    remove_all();
}

TEST(directories_with_their_parents) {
    struct rt_error err;
    struct stat info;
    char path[300];
    REQUIRE(make_directory());
    snprintf(path, sizeof path, "%s/a/b//c/", directory);
    CHECK_OK(rt_make_directory(path, &err));
    CHECK(stat(path, &info) == 0 && S_ISDIR(info.st_mode));
    CHECK_OK(rt_make_directory(path, &err));
    CHECK_OK(rt_make_directory("/", &err));
    snprintf(path, sizeof path, "%s/file", directory);
    int file = open(path, O_WRONLY | O_CREAT, 0666);
    REQUIRE(file >= 0);
    close(file);
    snprintf(path, sizeof path, "%s/file/below", directory);
    CHECK(rt_make_directory(path, &err) == RT_IO);
    CHECK_MSG(strstr(err.text, "file: is not a directory"), "%s", err.text);
    CHECK(rt_make_directory("", &err) == RT_BAD_INPUT);
    snprintf(path, sizeof path, "%s/a/b/c", directory);
    rmdir(path);
    snprintf(path, sizeof path, "%s/a/b", directory);
    rmdir(path);
    remove_all();
}

TEST_MAIN()
