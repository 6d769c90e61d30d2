/* The journal: what is written can be read as JSON, line by line, also after a crash or on a full disk. */
#include "metrics/journal.h"
#include "support/test.h"
#include <jansson.h>
#include <math.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static char directory[200], path[256];

static void make_place(void) {
    const char *base = getenv("TMPDIR");
    snprintf(directory, sizeof directory, "%s/rt-journal-XXXXXX", base && strlen(base) < 150 ? base : "/tmp");
    if (!mkdtemp(directory))
        exit(1);
    snprintf(path, sizeof path, "%s/journal.jsonl", directory);
}

static void remove_place(void) {
    unlink(path);
    rmdir(directory);
}

/* The line of the journal, parsed; NULL when there is none. *lines counts them. */
static json_t *read_line(size_t index, size_t *lines) {
    static char text[200000];
    json_t *found = NULL;
    *lines = 0;
    FILE *file = fopen(path, "r");
    while (file && fgets(text, sizeof text, file)) {
        json_t *line = json_loads(text, 0, NULL);
        CHECK_MSG(line, "not JSON: %s", text);
        CHECK(text[strlen(text) - 1] == '\n');
        if ((*lines)++ == index)
            found = line;
        else
            json_decref(line);
    }
    if (file)
        fclose(file);
    return found;
}

TEST(fields_come_back) {
    make_place();
    struct rt_error err;
    struct rt_journal *journal;
    CHECK_OK(rt_journal_open(path, false, &journal, &err));
    const struct rt_field fields[] = {
        RT_REAL("loss", 0.1),        RT_REAL("tiny", 5e-324),
        RT_REAL("nan", NAN),         RT_REAL("inf", -INFINITY),
        RT_INT("update", INT64_MIN), RT_TEXT("name", "a \"quoted\" \\ tab\t newline\n \x7f é \xff end"),
        RT_TEXT("none", NULL),       {.name = "null", .kind = RT_FIELD_NULL}};
    rt_journal_write(journal, "step", fields, sizeof fields / sizeof *fields);
    rt_journal_write(journal, "end", NULL, 0);
    CHECK_OK(rt_journal_status(journal, &err));
    rt_journal_close(journal);

    size_t lines;
    json_t *line = read_line(0, &lines);
    CHECK(lines == 2);
    REQUIRE(line);
    CHECK(strcmp(json_string_value(json_object_get(line, "event")), "step") == 0);
    double t = json_real_value(json_object_get(line, "t"));
    CHECK(t >= 0 && t < 60);
    CHECK(json_real_value(json_object_get(line, "loss")) == 0.1);
    CHECK(json_real_value(json_object_get(line, "tiny")) == 5e-324);
    CHECK(json_is_null(json_object_get(line, "nan")) && json_is_null(json_object_get(line, "inf")));
    CHECK(json_integer_value(json_object_get(line, "update")) == INT64_MIN);
    CHECK(strcmp(json_string_value(json_object_get(line, "name")),
                 "a \"quoted\" \\ tab\t newline\n \x7f é \xef\xbf\xbd end") == 0);
    CHECK(json_is_null(json_object_get(line, "none")) && json_is_null(json_object_get(line, "null")));
    json_decref(line);
    remove_place();
}

TEST(a_line_may_be_long) {
    make_place();
    struct rt_error err;
    struct rt_journal *journal;
    static char text[100001];
    memset(text, 'x', sizeof text - 1);
    CHECK_OK(rt_journal_open(path, false, &journal, &err));
    rt_journal_write(journal, "long", &RT_TEXT("text", text), 1);
    rt_journal_close(journal);
    size_t lines;
    json_t *line = read_line(0, &lines);
    CHECK(lines == 1 && json_string_length(json_object_get(line, "text")) == sizeof text - 1);
    json_decref(line);
    remove_place();
}

static void append_and_count(const char *before, size_t expected) {
    struct rt_error err;
    struct rt_journal *journal;
    FILE *file = fopen(path, "w");
    REQUIRE(file);
    fputs(before, file);
    fclose(file);
    CHECK_OK(rt_journal_open(path, true, &journal, &err));
    rt_journal_write(journal, "resumed", NULL, 0);
    rt_journal_close(journal);
    size_t lines;
    json_t *line = read_line(expected - 1, &lines);
    CHECK_MSG(lines == expected, "%zu lines, not %zu", lines, expected);
    CHECK(line && strcmp(json_string_value(json_object_get(line, "event")), "resumed") == 0);
    json_decref(line);
}

TEST(appending_cuts_a_torn_line) {
    make_place();
    append_and_count("", 1);
    append_and_count("{\"event\": \"a\"}\n", 2);
    append_and_count("{\"event\": \"a\"}\n{\"event\": \"b\", \"lo", 2);
    append_and_count("{\"eve", 1);
    static char torn[20000]; /* longer than one block of the search */
    memset(torn, 'x', sizeof torn - 1);
    append_and_count(torn, 1);
    memcpy(torn, "{}\n", 3);
    append_and_count(torn, 2);
    remove_place();
}

TEST(opening_anew_empties_it) {
    make_place();
    struct rt_error err;
    struct rt_journal *journal;
    for (int i = 0; i < 2; i++) {
        CHECK_OK(rt_journal_open(path, false, &journal, &err));
        rt_journal_write(journal, "start", NULL, 0);
        rt_journal_close(journal);
    }
    size_t lines;
    json_decref(read_line(0, &lines));
    CHECK(lines == 1);
    remove_place();
}

/* Only a field counts, not what looks like one in a text; and only a whole number. */
TEST(a_field_can_be_read_back) {
    make_place();
    struct rt_error err;
    struct rt_journal *journal;
    CHECK(rt_journal_last(path, "samples") == UINT64_MAX); /* there is no such file */
    CHECK_OK(rt_journal_open(path, false, &journal, &err));
    CHECK(rt_journal_last(path, "samples") == UINT64_MAX);
    const struct rt_field first[] = {RT_INT("update", 3), RT_INT("samples", 60)},
                          second[] = {RT_INT("samples", 6000000000), RT_REAL("loss", 0.5)},
                          text[] = {RT_TEXT("text", "a, \"samples\": 7, b")},
                          real[] = {RT_REAL("samples", 0.25)};
    rt_journal_write(journal, "step", first, 2);
    CHECK(rt_journal_last(path, "samples") == 60);
    rt_journal_write(journal, "step", second, 2);
    rt_journal_write(journal, "notice", text, 1);
    rt_journal_write(journal, "step", real, 1);
    CHECK(rt_journal_last(path, "samples") == 6000000000);
    CHECK(rt_journal_last(path, "update") == 3);
    for (int i = 0; i < 8000; i++) /* only the end is looked at */
        rt_journal_write(journal, "step", second, 2);
    CHECK(rt_journal_last(path, "samples") == 6000000000);
    CHECK(rt_journal_last(path, "update") == UINT64_MAX);
    rt_journal_close(journal);
    remove_place();
}

TEST(failures_are_told) {
    struct rt_error err = {0};
    struct rt_journal *journal;
    CHECK(rt_journal_open("/nonexistent-directory/journal.jsonl", false, &journal, &err) == RT_IO);
    CHECK(strstr(err.text, "/nonexistent-directory/journal.jsonl"));
    if (access("/dev/full", W_OK) != 0)
        SKIP("no /dev/full here");
    CHECK_OK(rt_journal_open("/dev/full", false, &journal, &err));
    CHECK(rt_journal_status(journal, &err) == RT_OK);
    rt_journal_write(journal, "step", NULL, 0);
    rt_journal_write(journal, "step", NULL, 0);
    CHECK(rt_journal_status(journal, &err) == RT_IO);
    CHECK_MSG(strstr(err.text, "/dev/full") && strstr(err.text, "space"), "%s", err.text);
    CHECK(rt_journal_missing(journal) == 2);
    rt_journal_close(journal);
}

static void limit_size(rlim_t bytes) {
    struct rlimit limit;
    REQUIRE(getrlimit(RLIMIT_FSIZE, &limit) == 0);
    limit.rlim_cur = bytes;
    REQUIRE(setrlimit(RLIMIT_FSIZE, &limit) == 0);
}

/* A disk that is full for a while, whatever part of a line still finds room: what is there are whole lines.
 */
TEST(goes_on_when_there_is_room_again) {
    make_place();
    signal(SIGXFSZ, SIG_IGN);
    struct rt_error err;
    struct rt_journal *journal;
    CHECK_OK(rt_journal_open(path, false, &journal, &err));
    uint64_t written = 0, missing = 0;
    for (off_t room = 0; room < 60; room++) {
        struct stat info;
        REQUIRE(stat(path, &info) == 0);
        limit_size((rlim_t)(info.st_size + room));
        rt_journal_write(journal, "full", &RT_INT("room", room), 1);
        const bool fits = rt_journal_status(journal, &err) == RT_OK;
        written += fits;
        missing += !fits;
        CHECK_MSG(fits || (strstr(err.text, path) && strstr(err.text, "cannot be written")), "%s", err.text);
        limit_size(RLIM_INFINITY);
        rt_journal_write(journal, "room", NULL, 0);
        CHECK(rt_journal_status(journal, &err) == RT_OK);
        written++;
    }
    CHECK(missing > 30 && rt_journal_missing(journal) == missing);
    rt_journal_close(journal);
    size_t lines;
    for (size_t i = 0; i < written; i++) {
        json_t *line = read_line(i, &lines);
        CHECK_MSG(line, "line %zu is none", i);
        json_decref(line);
    }
    CHECK_MSG(lines == written, "%zu lines, not %zu", lines, (size_t)written);
    remove_place();
}

TEST_MAIN()
