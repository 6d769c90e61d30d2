/* Configuration trees: building, setting by path, copying, and the trip through JSON and back. */
#include "base/tree.h"
#include "formats/yaml.h"
#include "support/test.h"

static struct rt_tree *parse(const char *text) {
    struct rt_error err;
    struct rt_tree *tree = NULL;
    if (rt_yaml_parse(text, strlen(text), "test.yaml", &tree, &err) != RT_OK)
        rt_test_fail(__FILE__, __LINE__, "%s", err.text);
    return tree;
}

static struct rt_tree *scalar(const char *text) {
    struct rt_tree *tree = NULL;
    rt_tree_create(RT_TREE_SCALAR, text, "--set", 0, &tree, NULL);
    return tree;
}

static bool equal(const struct rt_tree *a, const struct rt_tree *b) {
    if (a->kind != b->kind || a->count != b->count || (a->key != NULL) != (b->key != NULL))
        return false;
    if ((a->text && strcmp(a->text, b->text) != 0) || (a->key && strcmp(a->key, b->key) != 0))
        return false;
    for (size_t i = 0; i < a->count; i++)
        if (!equal(a->items[i], b->items[i]))
            return false;
    return true;
}

/* Sets path to text; checks the outcome and gives back the sentence. */
static const char *set(struct rt_tree *tree, const char *path, const char *text) {
    static struct rt_error err;
    struct rt_tree *value = scalar(text);
    err.text[0] = 0;
    if (rt_tree_set(tree, path, value, &err) != RT_OK)
        rt_tree_destroy(value);
    return err.text;
}

static void check_json(const struct rt_tree *tree, const char *wanted) {
    struct rt_error err;
    char *json;
    CHECK_OK(rt_tree_json(tree, &json, &err));
    CHECK_MSG(strcmp(json, wanted) == 0, "%s", json);
    free(json);
}

TEST(maps_and_lists) {
    struct rt_error err;
    struct rt_tree *map = NULL, *list = NULL, *extra = scalar("3");
    CHECK_OK(rt_tree_create(RT_TREE_MAP, NULL, "f", 1, &map, &err));
    CHECK_OK(rt_tree_create(RT_TREE_LIST, NULL, "f", 2, &list, &err));
    for (int i = 0; i < 20; i++) {
        char text[20];
        snprintf(text, sizeof text, "%d", i);
        CHECK_OK(rt_tree_add(list, NULL, scalar(text), &err));
    }
    CHECK(list->count == 20 && strcmp(list->items[19]->text, "19") == 0);
    CHECK_OK(rt_tree_add(map, "numbers", list, &err));
    CHECK(rt_tree_get(map, "numbers") == list && rt_tree_get(map, "number") == NULL);
    CHECK(rt_tree_get(NULL, "x") == NULL && rt_tree_get(list, "x") == NULL);
    CHECK(rt_tree_add(map, "numbers", extra, &err) == RT_BAD_INPUT);
    CHECK_MSG(strstr(err.text, "'numbers' was already given on line 2"), "%s", err.text);
    CHECK(rt_tree_add(map, NULL, extra, &err) == RT_BAD_INPUT);
    CHECK(rt_tree_add(list, "key", extra, &err) == RT_BAD_INPUT);
    CHECK(rt_tree_add(extra, NULL, list, &err) == RT_BAD_INPUT);
    rt_tree_destroy(extra);
    rt_tree_destroy(map);
    rt_tree_destroy(NULL);
}

TEST(setting_by_path) {
    struct rt_tree *tree = parse("train: {epochs: 5}\nmodel: {layers: [relu, {dense: 10}]}\nempty:\n");
    REQUIRE(tree);
    CHECK(!*set(tree, "train.epochs", "7"));
    CHECK(!*set(tree, "train.batch", "64"));
    CHECK(!*set(tree, "data.train.csv.file", "x.csv"));
    CHECK(!*set(tree, "model.layers.0", "tanh"));
    CHECK(!*set(tree, "model.layers.1.dense", "100"));
    CHECK(!*set(tree, "empty.key", "1"));
    CHECK(!*set(tree, "name", "n"));
    check_json(
        tree,
        "{\"train\": {\"epochs\": 7, \"batch\": 64}, \"model\": {\"layers\": [\"tanh\", {\"dense\": 100}]}, "
        "\"empty\": {\"key\": 1}, \"data\": {\"train\": {\"csv\": {\"file\": \"x.csv\"}}}, \"name\": \"n\"}");
    rt_tree_destroy(tree);
}

TEST(paths_that_lead_nowhere) {
    struct rt_tree *tree = parse("train: {epochs: 5}\nlist: [1, 2]\n");
    REQUIRE(tree);
    static const struct {
        const char *path, *sentence;
    } cases[] = {
        {"train.epochs.x", "--set: cannot set 'x' inside train.epochs, which is the single value '5'"},
        {"list.2", "--set: list has 2 items, numbered from 0: there is no item 2"},
        {"list.-1", "--set: list is a list: its items are numbered from 0, not named '-1'"},
        {"list.first", "--set: list is a list: its items are numbered from 0, not named 'first'"},
        {"", "--set: '' is not a key: a part of it is empty"},
        {"train.", "--set: 'train.' is not a key: a part of it is empty"},
        {"a.b.c.d.e.f.g.h.i.j.k.l.m.n.o.p.q.r.s.t.u.v.w.x.y.z.a.b.c.d.e.f.g",
         "--set: a key has at most 32 parts"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *sentence = set(tree, cases[i].path, "v");
        CHECK_MSG(strcmp(sentence, cases[i].sentence) == 0, "%s", sentence);
    }
    check_json(tree, "{\"train\": {\"epochs\": 5}, \"list\": [1, 2]}");
    rt_tree_destroy(tree);
}

TEST(a_copy_is_equal_and_apart) {
    struct rt_error err;
    struct rt_tree *tree = parse("a: [1, {b: c}]\nd:\n  - e\n"), *copy;
    REQUIRE(tree);
    CHECK_OK(rt_tree_copy(tree, &copy, &err));
    CHECK(equal(tree, copy));
    CHECK(copy->items[1]->line == 2 && strcmp(copy->items[1]->file, "test.yaml") == 0);
    CHECK(!*set(copy, "a.1.b", "changed"));
    CHECK(!equal(tree, copy));
    rt_tree_destroy(tree);
    check_json(copy, "{\"a\": [1, {\"b\": \"changed\"}], \"d\": [\"e\"]}");
    rt_tree_destroy(copy);
}

TEST(json_and_back) {
    static const char *const texts[] = {
        "1",
        "-0.5e+10",
        "true",
        "null",
        "~",
        "yes",
        "01",
        "1.",
        ".5",
        "0x10",
        "+1",
        "-",
        "''",
        "' a '",
        "'a: b'",
        "{}",
        "[]",
        "[[], {}, '']",
        "\"tab\\there\\nand \\\"quotes\\\" \\\\ \\x01 \\x7f \\u0085 \\u2028 \\uFEFF \\U0001F600\"",
        "{'a b': [1, 'two', {three: '3 '}], '#c': '# no comment', é: ü}",
        "|\n  two\n  lines\n",
        "'[not a list]'",
    };
    struct rt_error err;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct rt_tree *tree = parse(texts[i]);
        REQUIRE(tree);
        char *json;
        CHECK_OK(rt_tree_json(tree, &json, &err));
        CHECK_MSG(!strchr(json, '\n'), "%s", json);
        struct rt_tree *back = parse(json);
        REQUIRE(back);
        CHECK_MSG(equal(tree, back), "%s became %s", texts[i], json);
        free(json);
        rt_tree_destroy(back);
        rt_tree_destroy(tree);
    }
}

/* A description of a deep network is one long line: YAML's limits on keys must not hit it. */
TEST(long_json_and_back) {
    struct rt_error err;
    struct rt_tree *tree = NULL;
    CHECK_OK(rt_tree_create(RT_TREE_LIST, NULL, "f", 1, &tree, &err));
    for (int i = 0; i < 2000; i++) {
        struct rt_tree *item =
            parse("{conv2d: {filters: 64, kernel: 3, note: 'a long text to fill the line'}}");
        REQUIRE(item);
        CHECK_OK(rt_tree_add(tree, NULL, item, &err));
    }
    char *json;
    CHECK_OK(rt_tree_json(tree, &json, &err));
    struct rt_tree *back = parse(json);
    REQUIRE(back);
    CHECK(equal(tree, back));
    free(json);
    rt_tree_destroy(back);
    rt_tree_destroy(tree);
}

TEST(json_refuses_broken_text) {
    static const char *const broken[] = {"\xff",     "\xc3", "\xc0\x80", "\xed\xa0\x80", "\xf5\x80\x80\x80",
                                         "a\xe2\x82"};
    struct rt_error err;
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
        struct rt_tree *tree = scalar(broken[i]);
        char *json;
        CHECK(rt_tree_json(tree, &json, &err) == RT_BAD_INPUT);
        rt_tree_destroy(tree);
    }
}

TEST(messages_name_the_place) {
    struct rt_error err;
    struct rt_tree tree = {.file = "run.yaml", .line = 12};
    CHECK(rt_tree_fail(&tree, &err, "bad %d", 5) == RT_BAD_INPUT);
    CHECK(strcmp(err.text, "run.yaml:12: bad 5") == 0);
    tree.line = 0;
    rt_tree_fail(&tree, &err, "bad");
    CHECK(strcmp(err.text, "run.yaml: bad") == 0);
    rt_tree_fail(NULL, &err, "bad");
    CHECK(strcmp(err.text, "bad") == 0);
    CHECK(rt_tree_fail(&tree, NULL, "bad") == RT_BAD_INPUT);
}

TEST_MAIN()
