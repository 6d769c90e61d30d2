/* CSV files: columns, headers, labels, quoting, and what is refused with which place. */
#include "data/labels.h"
#include "support/datafiles.h"
#include "support/test.h"
#include <unistd.h>

static const char flowers[] = "length,width,kind\n1.5,2,rose\n3,-4e1,tulip\n.5,6,rose\n";

static const float *inputs_of(const struct rt_dataset *set) {
    return set->inputs;
}

static void check_flowers(const struct rt_dataset *set) {
    CHECK(set->count == 3 && set->type == RT_DATA_F32 && set->shape.rank == 1 && set->shape.dim[0] == 2);
    const float expect[6] = {1.5f, 2, 3, -40, 0.5f, 6};
    CHECK(memcmp(set->inputs, expect, sizeof expect) == 0);
    REQUIRE(set->classes && set->class_count == 2 && set->class_names);
    CHECK(set->classes[0] == 0 && set->classes[1] == 1 && set->classes[2] == 0);
    CHECK(strcmp(set->class_names[0], "rose") == 0 && strcmp(set->class_names[1], "tulip") == 0);
}

TEST(header_and_label) {
    struct rt_error err;
    struct rt_dataset set;
    struct rt_data_wish wish = rt_test_wish(2, 2);
    rt_test_write_text("a.csv", flowers);
    rt_test_write_gz("a.csv.gz", flowers, strlen(flowers));
    rt_test_write_text("b.csv", strchr(flowers, '\n') + 1);
    rt_test_write_text("crlf.csv", "length;width;kind\r\n1.5; 2 ;\"rose\"\r\n\r\n3;-4e1;tulip\r\n.5;6;rose");
    rt_test_write_text("tab.csv", "\xef\xbb\xbf"
                                  "1.5\t2\trose\n3\t-4e1\ttulip\n.5\t6\trose\n\n");
    rt_test_write_text("blank.csv", "  1.5   2\trose  \n3 -4e1 tulip\n .5 6 \"rose\"\n");
    rt_test_write_text(
        "front.csv",
        "made by hand\n\"on\nMonday\",2,3\nkind,length,width\nrose,1.5,2\ntulip,3,-40\nrose,.5,6\n");
    const char *sources[] = {
        "csv: a.csv",
        "csv: a.csv.gz",
        "csv: b.csv",
        "csv: {file: a.csv, label: kind}",
        "csv: {file: a.csv, label: 2, header: yes}",
        "csv: {file: a.csv, label: -1, header: true, separator: ','}",
        "csv: {file: b.csv, label: -1, header: no}",
        "csv: {file: b.csv, header: false, columns: [0, 1]}",
        "csv: {file: a.csv, columns: [length, width], label: kind}",
        "csv: crlf.csv",
        "csv: {file: crlf.csv, separator: ;}",
        "csv: tab.csv",
        "csv: {file: tab.csv, separator: tab}",
        "csv: {file: blank.csv, separator: space}",
        "csv: {file: blank.csv, separator: ' '}",
        "csv: {file: front.csv, skip: 3, label: kind}",
        "csv: {file: front.csv, skip: 3, label: 0}",
        "csv: {file: a.csv, names: [rose, tulip]}",
    };
    for (size_t i = 0; i < sizeof sources / sizeof *sources; i++) {
        err.text[0] = 0;
        rt_status status = rt_test_open(sources[i], &wish, &set, &err);
        CHECK_MSG(status == RT_OK, "%s: %s", sources[i], err.text);
        if (status != RT_OK)
            continue;
        int before = rt_test_failures;
        check_flowers(&set);
        CHECK_MSG(before == rt_test_failures, "in %s", sources[i]);
        rt_dataset_close(&set);
    }
}

TEST(column_order_and_targets) {
    struct rt_error err;
    struct rt_dataset set;
    struct rt_data_wish wish = rt_test_wish(2, 2);
    wish.target = RT_TARGET_VALUES;
    rt_test_write_text("t.csv", "a,b,c,d\n1,2,3,4\n5,6,7,8\n");
    CHECK_OK(rt_test_open("csv: {file: t.csv, columns: [d, a], targets: [c, b]}", &wish, &set, &err));
    CHECK(inputs_of(&set)[0] == 4 && inputs_of(&set)[1] == 1 && inputs_of(&set)[2] == 8);
    REQUIRE(set.values && set.value_width == 2 && !set.classes);
    CHECK(set.values[0] == 3 && set.values[1] == 2 && set.values[2] == 7 && set.values[3] == 6);
    rt_dataset_close(&set);

    wish.outputs = 1;
    wish.input.dim[0] = 3;
    CHECK_OK(rt_test_open("csv: t.csv", &wish, &set, &err));
    CHECK(set.value_width == 1 && set.values[1] == 8);
    rt_dataset_close(&set);

    wish.target = RT_TARGET_INPUT;
    wish.input.dim[0] = 4;
    CHECK_OK(rt_test_open("csv: t.csv", &wish, &set, &err));
    CHECK(inputs_of(&set)[3] == 4 && !set.values && !set.classes);
    rt_dataset_close(&set);
    wish.input.dim[0] = 3;
    CHECK_OK(rt_test_open("csv: {file: t.csv, label: b}", &wish, &set, &err));
    CHECK(inputs_of(&set)[1] == 3);
    rt_dataset_close(&set);

    /* Text labels as numbers, for a loss over values. */
    wish.target = RT_TARGET_VALUES;
    wish.input.dim[0] = 1;
    rt_test_write_text("yes.csv", "1,yes\n2,no\n3,yes\n");
    CHECK_OK(rt_test_open("csv: {file: yes.csv, names: [no, yes]}", &wish, &set, &err));
    CHECK(set.values[0] == 1 && set.values[1] == 0 && set.values[2] == 1);
    rt_dataset_close(&set);
    CHECK(rt_test_refused("csv: yes.csv", &wish, "yes.csv:1:2: 'yes' is not a finite number",
                          "`names` in the source turns text into numbers"));
    CHECK(rt_test_refused("csv: {file: yes.csv, names: [no, maybe]}", &wish, "yes.csv:1:2",
                          "nor one of the names (no, maybe)"));
}

TEST(targets_file) {
    struct rt_error err;
    struct rt_dataset set;
    struct rt_data_wish wish = rt_test_wish(2, 1);
    wish.target = RT_TARGET_VALUES;
    rt_test_write_text("x.csv", "1 2\n3 4\n");
    rt_test_write_text("y.csv", "10.5\n-1\n");
    rt_test_write_text("y1.csv", "10.5\n");
    rt_test_write_text("y3.csv", "10.5\n1\n2\n");
    rt_test_write_text("kinds.csv", "rose\ntulip\n");
    CHECK_OK(rt_test_open("csv: {file: x.csv, targets_file: y.csv}", &wish, &set, &err));
    CHECK(set.count == 2 && set.values[0] == 10.5f && set.values[1] == -1 && inputs_of(&set)[3] == 4);
    rt_dataset_close(&set);
    CHECK(rt_test_refused("csv: {file: x.csv, targets_file: y1.csv}", &wish, "y1.csv: has targets for 1",
                          "x.csv"));
    CHECK(rt_test_refused("csv: {file: x.csv, targets_file: y3.csv}", &wish, "x.csv: has 2 examples",
                          "y3.csv"));
    wish = rt_test_wish(2, 2);
    CHECK_OK(rt_test_open("csv: {file: x.csv, targets_file: kinds.csv}", &wish, &set, &err));
    CHECK(set.classes[0] == 0 && set.classes[1] == 1 && strcmp(set.class_names[1], "tulip") == 0);
    rt_dataset_close(&set);
}

TEST(quotes) {
    struct rt_error err;
    struct rt_dataset set;
    struct rt_data_wish wish = rt_test_wish(1, 2);
    rt_test_write_text("q.csv", "\"a, \"\"b\"\"\",kind\n\"1\",\"x,\"\"y\"\"\nz\"\n 2 , \" w\" \n");
    CHECK_OK(rt_test_open("csv: {file: q.csv, columns: ['a, \"b\"']}", &wish, &set, &err));
    CHECK(set.count == 2 && inputs_of(&set)[1] == 2);
    CHECK(strcmp(set.class_names[0], " w") == 0 && strcmp(set.class_names[1], "x,\"y\"\nz") == 0);
    rt_dataset_close(&set);
    rt_test_write_text("q.csv", "1,\"a\nb\"\nx,c\n");
    CHECK(rt_test_refused("csv: q.csv", &wish, "q.csv:3:1", "'x'")); /* lines inside quotes are counted */
}

TEST(class_names) {
    struct rt_error err;
    struct rt_dataset set;
    struct rt_data_wish wish = rt_test_wish(1, 3);
    static const char *const known[] = {"c", "b", "a"};
    rt_test_write_text("numbers.csv", "1,0\n1,2\n1,1.0\n");
    rt_test_write_text("texts.csv", "1,a\n1,c\n");
    rt_test_write_text("odd.csv", "1,a\n1,d\n");
    rt_test_write_text("from1.csv", "1,1\n1,2\n1,3\n");
    rt_test_write_text("many.csv", "1,a\n1,b\n1,c\n1,d\n");
    CHECK_OK(rt_test_open("csv: numbers.csv", &wish, &set, &err));
    CHECK(set.classes[0] == 0 && set.classes[1] == 2 && set.classes[2] == 1 && !set.class_names);
    CHECK(set.class_count == 3);
    rt_dataset_close(&set);
    CHECK_OK(rt_test_open("csv: {file: numbers.csv, names: [x, y, z]}", &wish, &set, &err));
    CHECK(set.classes[1] == 2 && strcmp(set.class_names[2], "z") == 0);
    rt_dataset_close(&set);
    CHECK(rt_test_refused("csv: texts.csv", &wish, "texts.csv: has 2 different labels", "3 outputs"));
    CHECK(rt_test_refused("csv: many.csv", &wish, "many.csv:4:2", "4th different label"));
    CHECK(rt_test_refused("csv: from1.csv", &wish, "from1.csv:3: the label of example 2", "from 0 to 2"));
    CHECK(rt_test_refused("csv: {file: texts.csv, names: [a, c, a]}", &wish, "run.yaml:1",
                          "'a' is there twice"));

    wish.class_names = known;
    wish.class_count = 3;
    CHECK_OK(rt_test_open("csv: texts.csv", &wish, &set, &err));
    CHECK(set.classes[0] == 2 && set.classes[1] == 0 && set.class_count == 3);
    rt_dataset_close(&set);
    CHECK(rt_test_refused("csv: odd.csv", &wish, "odd.csv:2:2: 'd' is not one of", "c, b, a"));
    CHECK(rt_test_refused("csv: {file: texts.csv, names: [a, b, c]}", &wish, "run.yaml:1", "differ"));
}

TEST(labels_that_are_missing) {
    struct rt_error err;
    struct rt_dataset set;
    struct rt_data_wish wish = rt_test_wish(1, 2);
    const char *words[] = {"NA", "nan", "?", "N/A", "null"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        char text[40], place[40];
        snprintf(text, sizeof text, "x,kind\n1,yes\n1,%s\n", words[i]);
        snprintf(place, sizeof place, "missing ('%s')", words[i]);
        rt_test_write_text("t.csv", text);
        CHECK(rt_test_refused("csv: t.csv", &wish, "t.csv:3:2: column 'kind'", place));
    }
    /* A name that is given is a name. */
    CHECK_OK(rt_test_open("csv: {file: t.csv, names: [yes, null]}", &wish, &set, &err));
    CHECK(set.classes[0] == 0 && set.classes[1] == 1);
    rt_dataset_close(&set);
    rt_test_write_text("t.csv", "1,none\n1,-\n");
    CHECK_OK(rt_test_open("csv: t.csv", &wish, &set, &err));
    CHECK(strcmp(set.class_names[0], "-") == 0);
    rt_dataset_close(&set);

    rt_test_write_text("t.csv", "1,caf\xc3\xa9\n1,caf\xe9\n");
    CHECK(rt_test_refused("csv: t.csv", &wish, "t.csv:2:2: ", "not valid UTF-8"));
    CHECK(rt_test_refused("csv: {file: t.csv, names: [caf\xc3\xa9, tea]}", &wish,
                          "t.csv:2:2: ", "not valid UTF-8"));
}

/* 1, 1.0, 1.00 and so on are one class, and are not all kept. */
TEST(many_spellings) {
    struct rt_error err;
    static const char *const names[] = {"no", "yes"};
    struct rt_data_wish wish = rt_test_wish(1, 2);
    struct rt_dataset set = {.class_names = names, .class_count = 2};
    struct rt_label_book book = {0};
    char text[110] = "1.";
    for (size_t i = 0; i < 100; i++) {
        int32_t number = -1;
        strcat(text, "0");
        CHECK_OK(
            rt_book_number(&book, text, &(struct rt_text_position){.file = "f"}, &wish, &set, &number, &err));
        CHECK(number == 1);
    }
    CHECK_MSG(book.count == 8, "%zu", book.count);
    rt_book_free(&book);
}

/* Small when compressed, large as a table: refused early, with little memory and time. */
TEST(too_many_fields) {
    enum { BYTES = 8 << 20 };
    struct rt_data_wish wish = rt_test_wish(2, 2);
    char *text = malloc(BYTES);
    REQUIRE(text);
    memset(text, ',', BYTES);
    memcpy(text, "1,2,0\n", 6);
    rt_test_write_gz("t.csv.gz", text, BYTES);
    CHECK(rt_test_refused("csv: {file: t.csv.gz, header: yes}", &wish,
                          "t.csv.gz:2: ", "more than 1048576 fields"));
    for (size_t i = 0; i < BYTES; i++)
        text[i] = i % 2 ? ' ' : '1';
    rt_test_write("t.csv", text, BYTES);
    CHECK(rt_test_refused("csv: t.csv", &wish, "t.csv:1: ", "more than 1048576 fields"));
    free(text);
}

/* Work that grows with the square of the table's width or of a run of blanks would time out here. */
TEST(wide_tables_and_blanks) {
    enum { COLUMNS = 1000000, BYTES = 8 << 20, BLANKS = 2 << 20 };
    struct rt_error err;
    struct rt_dataset set;
    struct rt_data_wish wish = rt_test_wish(1, 2);
    char *text = malloc(BYTES);
    REQUIRE(text);
    size_t used = 0;
    for (int i = 0; i < COLUMNS; i++)
        used += (size_t)snprintf(text + used, BYTES - used, "c%d%c", i, i + 1 < COLUMNS ? ',' : '\n');
    rt_test_write("wide.csv", text, used);
    CHECK(rt_test_refused("csv: {file: wide.csv, label: nowhere}", &wish, "no column 'nowhere'", "1000000"));
    const char *separators[] = {"auto", "space", "','", "tab"};
    for (size_t i = 0; i < 4; i++) {
        char yaml[80];
        snprintf(yaml, sizeof yaml, "csv: {file: blank.csv, separator: %s}", separators[i]);
        for (int kind = 0; kind < 3; kind++) {
            memset(text, "  \n"[kind], BLANKS);
            for (size_t j = 0; kind == 1 && j < BLANKS; j += 2)
                text[j] = '\n';
            rt_test_write("blank.csv", text, BLANKS);
            CHECK(rt_test_refused(yaml, &wish, "blank.csv", "no examples"));
        }
    }
    memset(text, ' ', BLANKS);
    text[0] = '1';
    text[BLANKS - 1] = '0';
    rt_test_write("gap.csv", text, BLANKS);
    CHECK_OK(rt_test_open("csv: {file: gap.csv, separator: space}", &wish, &set, &err));
    CHECK(set.count == 1 && set.classes[0] == 0);
    rt_dataset_close(&set);
    free(text);
}

TEST(files_that_cannot_be_reached) {
    struct rt_data_wish wish = rt_test_wish(2, 2);
    REQUIRE(symlink("loop.csv", rt_test_path("loop.csv")) == 0);
    CHECK(rt_test_refused("csv: loop.csv", &wish, "run.yaml:1: ", "loop.csv: Too many levels"));
    CHECK(rt_test_refused("csv: /nowhere.csv", &wish, "run.yaml:1: ", "there is no file '/nowhere.csv'"));
}

TEST(refused_with_place) {
    struct rt_data_wish wish = rt_test_wish(2, 2);
    struct {
        const char *text, *options, *first, *second;
    } cases[] = {
        {"a,b,k\n1,2,0\n1,,1\n", "", "t.csv:3:2: column 'b'", "missing"},
        {"1,2,0\n1,?,1\n", "", "t.csv:2:2", "missing ('?')"},
        {"1,2,0\n1,NaN,1\n", "", "t.csv:2:2", "missing ('NaN')"},
        {"1,2,0\n\n1,inf,1\n", "", "t.csv:3:2", "'inf' is not a finite number"},
        {"1;2;0\n1;18,010;1\n", "", "t.csv:2:2: '18,010' is not a finite number",
         "numbers have a decimal point, not a comma"},
        {"1,2,0\n1,1e39,1\n", "", "t.csv:2:2", "too large"},
        {"1,2,0\n1,0x10,1\n", "", "t.csv:2:2", "'0x10' is not a finite number"},
        {"1,2,0\n1,2 3,1\n", "", "t.csv:2:2", "'2 3'"},
        {"1,2,0\n1,2,\n", "", "t.csv:2:3", "missing"},
        {"1,2,0\n1,2\n", "", "t.csv:2: this line has 2 fields", "the first line 3"},
        {"1,2,0\n1,\"2,1\n", "", "t.csv:2:2", "never closed"},
        {"1,2,0\n1,\"2\"x,1\n", "", "t.csv:2:2", "text follows the closing quote"},
        {"", "", "t.csv", "no examples"},
        {"a,b,c\n", "", "t.csv", "no examples"},
        {"\n \n", "", "t.csv", "no examples"},
        {"1,2,0\n", ", skip: 5", "t.csv", "fewer lines"},
        {"1,2,3,0\n", "", "3 input columns", "[2] (2 values)"},
        {"a,b,k\n1,2,0\n", ", label: kk", "run.yaml:1", "did you mean 'k'"},
        {"a,b,k\n1,2,0\n", ", label: 3", "run.yaml:1", "no column 3"},
        {"a,b,k\n1,2,0\n", ", label: -4", "run.yaml:1", "no column -4"},
        {"1,2,0\n", ", label: k, header: no", "run.yaml:1", "by its number"},
        {"a,b,k\n1,2,0\n", ", columns: [a, a]", "run.yaml:1", "named twice"},
        {"a,b,k\n1,2,0\n", ", columns: [a, k], label: k", "run.yaml:1", "it is the label"},
        {"a,b,k\n1,2,0\n", ", columns: a", "run.yaml:1", "a list"},
        {"a,b,k\n1,2,0\n", ", label: [a, b]", "run.yaml:1", "under targets"},
        {"a,b,k\n1,2,0\n", ", label: a, targets: [b]", "run.yaml:1", "not both"},
        {"a,b,k\n1,2,0\n", ", targets: [a, b]", "t.csv", ""},
        {"a,b,k\n1,2,0\n", ", separator: '::'", "run.yaml:1", "separator"},
        {"a,b,k\n1,2,0\n", ", headers: yes", "run.yaml:1", "'header'"},
        {"a,b,k\n1,2,0\n", ", header: maybe", "run.yaml:1", "header"},
        {"a,b,k\n1,2,0\n", ", skip: -1", "run.yaml:1", "skip"},
        {"a,b,k\n1,2,0\n", ", targets_file: nowhere.csv", "run.yaml:1", "no file 'nowhere.csv'"},
        {"569,30,x\n1,2,3,0\n", ", header: yes", "t.csv:2: this line has 4 fields", "`skip: 1`"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char yaml[200];
        rt_test_write_text("t.csv", cases[i].text);
        snprintf(yaml, sizeof yaml, "csv: {file: t.csv%s}", cases[i].options);
        CHECK_MSG(rt_test_refused(yaml, &wish, cases[i].first, cases[i].second), "case %zu", i);
    }
    rt_test_write("t.csv", "1,2,0\n1,\0002,0\n", 14);
    CHECK(rt_test_refused("csv: t.csv", &wish, "t.csv:2", "zero byte"));
    CHECK(rt_test_refused("csv: {label: 1}", &wish, "run.yaml:1", "file must be given"));
    CHECK(rt_test_refused("csv: /", &wish, "/", "directory"));
}

TEST(numbers_are_exact) {
    /* Fields become the nearest double and then the nearest float, however they are written. */
    struct rt_error err;
    struct rt_dataset set;
    struct rt_data_wish wish = rt_test_wish(1, 0);
    wish.target = RT_TARGET_INPUT;
    const char *texts[] = {"0.1",   "1.510000000000000000e+02", "16777217", "-0", "3.4028234663852886e38",
                           "1e-45", "123456789.123456789",      "+7.25E-3", "5."};
    char all[400] = "";
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        strcat(strcat(all, texts[i]), "\n");
    rt_test_write_text("n.csv", all);
    CHECK_OK(rt_test_open("csv: n.csv", &wish, &set, &err));
    REQUIRE(set.count == sizeof texts / sizeof *texts);
    for (size_t i = 0; i < set.count; i++) {
        float expect = (float)strtod(texts[i], NULL);
        CHECK_MSG(memcmp(&expect, inputs_of(&set) + i, sizeof expect) == 0, "%s", texts[i]);
    }
    rt_dataset_close(&set);
}

TEST(bare_files) {
    struct rt_error err;
    struct rt_dataset set;
    struct rt_data_wish wish = rt_test_wish(2, 2);
    wish.labels_optional = true;
    rt_test_write_text("two.csv", "a,b\n1,2\n3,4\n");
    rt_test_write_text("a.csv", flowers);
    size_t size;
    uint8_t *bytes = rt_test_idx(8, (const uint32_t[]){2, 2}, 2, "\1\2\3\4", 4, &size);
    rt_test_write("x.bin", bytes, size);
    rt_test_write_gz("x.bin.gz", bytes, size);
    free(bytes);
    bytes = rt_test_npy(1, "|u1", "False", "(2, 2)", "\1\2\3\4", 4, &size);
    rt_test_write("y.bin", bytes, size);
    free(bytes);
    rt_test_write("noise.bin", "\7\7\7\7\7", 5);
    const char *good[] = {"two.csv", "x.bin", "x.bin.gz", "y.bin"};
    for (size_t i = 0; i < 4; i++) {
        CHECK_OK(rt_dataset_open_file(rt_test_path(good[i]), &wish, &set, &err));
        CHECK(set.count == 2 && !set.classes);
        CHECK(i == 0 ? inputs_of(&set)[3] == 4 : ((const uint8_t *)set.inputs)[3] == 4);
        rt_dataset_close(&set);
    }
    CHECK(rt_dataset_open_file(rt_test_path("a.csv"), &wish, &set, &err) == RT_BAD_INPUT);
    CHECK_MSG(strstr(err.text, "cut -d, -f1-2"), "%s", err.text);
    CHECK(rt_dataset_open_file(rt_test_path("noise.bin"), &wish, &set, &err) == RT_BAD_INPUT);
    CHECK_MSG(strstr(err.text, "neither"), "%s", err.text);
    CHECK(rt_dataset_open_file(rt_test_path("absent"), &wish, &set, &err) == RT_BAD_INPUT);

    /* With optional labels the last column is one only when there is a column too many. */
    CHECK_OK(rt_test_open("csv: two.csv", &wish, &set, &err));
    CHECK(!set.classes && set.shape.dim[0] == 2);
    rt_dataset_close(&set);
    CHECK_OK(rt_test_open("csv: a.csv", &wish, &set, &err));
    check_flowers(&set);
    rt_dataset_close(&set);
}

TEST(sklearn_files) {
    const char *folder = "/usr/lib/python3/dist-packages/sklearn/datasets/data";
    if (access(folder, R_OK) != 0)
        SKIP("scikit-learn's tables are not installed (package python3-sklearn)");
    struct rt_error err;
    struct rt_dataset set;
    char yaml[500];
    struct rt_data_wish wish = rt_test_wish(4, 3);
    snprintf(yaml, sizeof yaml, "csv: {file: %s/iris.csv, skip: 1, names: [setosa, versicolor, virginica]}",
             folder);
    CHECK_OK(rt_test_open(yaml, &wish, &set, &err));
    CHECK(set.count == 150 && set.classes[0] == 0 && set.classes[149] == 2);
    CHECK(inputs_of(&set)[0] == 5.1f && inputs_of(&set)[599] == 1.8f);
    rt_dataset_close(&set);

    wish = rt_test_wish(30, 2);
    snprintf(yaml, sizeof yaml, "csv: {file: %s/breast_cancer.csv, skip: 1}", folder);
    CHECK_OK(rt_test_open(yaml, &wish, &set, &err));
    CHECK(set.count == 569 && set.classes[568] == 1);
    rt_dataset_close(&set);
    snprintf(yaml, sizeof yaml, "csv: %s/breast_cancer.csv", folder);
    CHECK(rt_test_refused(yaml, &wish, "breast_cancer.csv", "3 input columns"));

    wish = rt_test_wish(10, 1);
    wish.target = RT_TARGET_VALUES;
    snprintf(
        yaml, sizeof yaml,
        "csv: {file: %s/diabetes_data_raw.csv.gz, targets_file: %s/diabetes_target.csv.gz, separator: ' '}",
        folder, folder);
    CHECK_OK(rt_test_open(yaml, &wish, &set, &err));
    CHECK(set.count == 442 && set.values[0] == 151 && inputs_of(&set)[8] == 4.8598f);
    rt_dataset_close(&set);

    wish = rt_test_wish(3, 3);
    wish.target = RT_TARGET_VALUES;
    snprintf(yaml, sizeof yaml,
             "csv: {file: %s/linnerud_exercise.csv, targets_file: %s/linnerud_physiological.csv, targets: "
             "[Pulse, Waist, "
             "Weight]}",
             folder, folder);
    CHECK_OK(rt_test_open(yaml, &wish, &set, &err));
    CHECK(set.count == 20 && set.values[0] == 50 && set.values[2] == 191 && inputs_of(&set)[1] == 162);
    rt_dataset_close(&set);

    wish = rt_test_wish(64, 10);
    snprintf(yaml, sizeof yaml, "csv: %s/digits.csv.gz", folder);
    CHECK_OK(rt_test_open(yaml, &wish, &set, &err));
    CHECK(set.count == 1797);
    rt_dataset_close(&set);
}

TEST_MAIN()
