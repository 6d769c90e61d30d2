/* The YAML reader: what it understands, the lines it keeps, and everything it refuses. */
#include "formats/yaml.h"
#include "support/test.h"
#include <unistd.h>

static rt_status parse(const char *text, struct rt_tree **tree, struct rt_error *err) {
    *tree = NULL;
    err->text[0] = 0;
    return rt_yaml_parse(text, strlen(text), "run.yaml", tree, err);
}

TEST(a_run_file) {
    struct rt_error err;
    struct rt_tree *tree;
    CHECK_OK(parse("# comment\n"
                   "model:\n"
                   "  input: [1, 28, 28]\n"
                   "  layers:\n"
                   "    - conv2d: {filters: 32, kernel: 3}\n"
                   "    - relu\n"
                   "train:\n"
                   "  optimizer:\n"
                   "    adam: {lr: 0.001}\n"
                   "  note: no\n"
                   "empty:\n",
                   &tree, &err));
    const struct rt_tree *model = rt_tree_get(tree, "model"), *train = rt_tree_get(tree, "train");
    const struct rt_tree *layers = rt_tree_get(model, "layers");
    REQUIRE(layers && layers->kind == RT_TREE_LIST && layers->count == 2);
    CHECK(rt_tree_get(model, "input")->count == 3);
    CHECK(strcmp(rt_tree_get(rt_tree_get(layers->items[0], "conv2d"), "kernel")->text, "3") == 0);
    CHECK(strcmp(layers->items[1]->text, "relu") == 0);
    CHECK(strcmp(rt_tree_get(train, "note")->text, "no") == 0);
    CHECK(rt_tree_get(tree, "empty")->kind == RT_TREE_SCALAR && !*rt_tree_get(tree, "empty")->text);
    /* Values of a map carry the line of their key, items of a list their own. */
    CHECK(tree->line == 2 && model->line == 2 && layers->line == 4);
    CHECK(layers->items[0]->line == 5 && layers->items[1]->line == 6);
    CHECK(rt_tree_get(train, "optimizer")->line == 8);
    CHECK(strcmp(layers->file, "run.yaml") == 0);
    rt_tree_destroy(tree);
}

TEST(what_is_refused) {
    static const struct {
        const char *text, *sentence;
    } cases[] = {
        {"", "run.yaml:1: the file is empty"},
        {"# only a comment\n", "run.yaml:2: the file is empty"},
        {"a:\n\t- b\n", "run.yaml:2: a tab may not be used for indentation"},
        {"a: 1\nb: 2\na: 3\n", "run.yaml:3: key 'a' was already given on line 1"},
        {"a: {b: 1, b: 2}\n", "run.yaml:1: key 'b' was already given on line 1"},
        {"a: &x 3\n", "run.yaml:1: anchors (&name) and tags (!name) are not used in run files"},
        {"a: !!int 3\n", "run.yaml:1: anchors (&name) and tags (!name) are not used in run files"},
        {"a: !x [3]\n", "run.yaml:1: anchors (&name) and tags (!name) are not used in run files"},
        {"&x a: 3\n", "run.yaml:1: anchors and tags are not used in run files"},
        {"a: *x\n", "run.yaml:1: aliases (*name) are not used in run files"},
        {"a: 1\n---\nb: 2\n", "run.yaml:2: a second document begins; one file describes one thing"},
        {"[a, b]: 1\n", "run.yaml:1: a key must be a single value"},
        {"{a: 1}: 1\n", "run.yaml:1: a key must be a single value"},
        {"'': 1\n", "run.yaml:1: a key may not be empty"},
        {"a: \"\\0\"\n", "run.yaml:1: a text may not contain a zero byte"},
        {"a: [1, 2\nb: 3\n", "run.yaml:2: did not find expected ',' or ']' while parsing a flow sequence"},
        {"a: b: c\n", "run.yaml:1: mapping values are not allowed in this context"},
        {"a: \xff\n", "run.yaml: is not text in UTF-8: byte 3: invalid leading UTF-8 octet"},
        {"a: \x01\n", "run.yaml: byte 3: control characters are not allowed"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct rt_error err;
        struct rt_tree *tree;
        CHECK(parse(cases[i].text, &tree, &err) == RT_BAD_INPUT);
        CHECK(tree == NULL);
        CHECK_MSG(strcmp(err.text, cases[i].sentence) == 0, "%s\n  said: %s", cases[i].text, err.text);
    }
}

/* Text of `count` copies of a piece between a head and a tail. */
static char *repeat(const char *head, const char *piece, size_t count, const char *tail) {
    char *text = malloc(strlen(head) + strlen(piece) * count + strlen(tail) + 1), *p = text;
    if (!text)
        return NULL;
    p = stpcpy(p, head);
    while (count--)
        p = stpcpy(p, piece);
    stpcpy(p, tail);
    return text;
}

static void check_limit(char *text, const char *sentence) {
    struct rt_error err;
    struct rt_tree *tree = NULL;
    REQUIRE(text);
    rt_status status = parse(text, &tree, &err);
    if (sentence)
        CHECK_MSG(status == RT_BAD_INPUT && strstr(err.text, sentence), "%s", err.text);
    else
        CHECK_MSG(status == RT_OK, "%s", err.text);
    rt_tree_destroy(tree);
    free(text);
}

/* As some editors begin a file. */
TEST(the_mark_of_utf8_is_skipped) {
    struct rt_error err;
    struct rt_tree *tree;
    CHECK_OK(parse("\xef\xbb\xbftrain: 1\n", &tree, &err));
    CHECK(tree->count == 1 && strcmp(tree->items[0]->key, "train") == 0 && tree->items[0]->line == 1);
    rt_tree_destroy(tree);
    CHECK(parse("\xef\xbb\xbf", &tree, &err) == RT_BAD_INPUT);
    CHECK_MSG(strstr(err.text, "the file is empty"), "%s", err.text);
}

TEST(limits) {
    check_limit(repeat("", "[", 31, "x]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]"), NULL);
    check_limit(repeat("", "[", 32, "x"), "is nested more than 32 deep");
    check_limit(repeat("", "[", 100000, "x"), "is nested more than 32 deep");
    check_limit(repeat("", "- ", 100000, "x"), "is nested more than 32 deep");
    check_limit(repeat("[", "1,", 99999, "]"), NULL);
    check_limit(repeat("[", "1,", 100000, "]"), "has more than 100000 values");
    check_limit(repeat("", "k", 200, ": 1"), NULL);
    check_limit(repeat("", "k", 201, ": 1"), "a key is longer than 200 bytes");
    check_limit(repeat("# ", "x", (16 << 20) - 2, ""), "the file is empty");
    check_limit(repeat("# ", "x", (16 << 20) - 1, ""), "is larger than 16 MiB");
    char *keys = malloc(20000), *p = keys;
    REQUIRE(keys);
    for (int i = 0; i < 1001; i++)
        p += sprintf(p, "key%d: %d\n", i, i);
    check_limit(keys, "a map has more than 1000 keys");
}

TEST(single_values) {
    struct rt_error err;
    struct rt_tree *tree = NULL;
    CHECK_OK(rt_yaml_value("{adam: {lr: 0.001}}", "--set", &tree, &err));
    CHECK(tree->kind == RT_TREE_MAP && tree->line == 0 && tree->items[0]->line == 0);
    rt_tree_destroy(tree);
    CHECK_OK(rt_yaml_value("0.5", "--set", &tree, &err));
    CHECK(strcmp(tree->text, "0.5") == 0);
    rt_tree_destroy(tree);
    CHECK_OK(rt_yaml_value(" ", "--set", &tree, &err));
    CHECK(tree->kind == RT_TREE_SCALAR && !*tree->text);
    rt_tree_destroy(tree);
    CHECK(rt_yaml_value("[1, 2", "--set", &tree, &err) == RT_BAD_INPUT);
    CHECK_MSG(strncmp(err.text, "--set: did not find", 19) == 0, "%s", err.text);
}

TEST(files) {
    struct rt_error err;
    struct rt_tree *tree = NULL;
    CHECK(rt_yaml_load("/nonexistent/run.yaml", &tree, &err) == RT_BAD_INPUT);
    CHECK_MSG(strcmp(err.text, "/nonexistent/run.yaml: No such file or directory") == 0, "%s", err.text);
    CHECK(rt_yaml_load("/", &tree, &err) == RT_BAD_INPUT);
    CHECK_MSG(strcmp(err.text, "/: is a directory") == 0, "%s", err.text);
    int ends[2];
    char path[40];
    REQUIRE(pipe(ends) == 0);
    REQUIRE(write(ends[1], "a: [1, 2]\n", 10) == 10);
    close(ends[1]);
    snprintf(path, sizeof path, "/dev/fd/%d", ends[0]);
    CHECK_OK(rt_yaml_load(path, &tree, &err));
    CHECK(rt_tree_get(tree, "a")->count == 2);
    rt_tree_destroy(tree);
    close(ends[0]);
}

TEST_MAIN()
