/* Shapes: their size and text, and what is refused when one is read. */
#include "support/test.h"
#include "tensor/shape.h"

static struct rt_tree *scalar(const char *text) {
    struct rt_tree *tree = NULL;
    struct rt_error err;
    if (rt_tree_create(RT_TREE_SCALAR, text, "run.yaml", 7, &tree, &err) != RT_OK)
        exit(1);
    return tree;
}

/* A list of the words in text, separated by blanks. */
static struct rt_tree *list(const char *text) {
    struct rt_tree *tree = NULL;
    struct rt_error err;
    char words[256];
    snprintf(words, sizeof words, "%s", text);
    if (rt_tree_create(RT_TREE_LIST, NULL, "run.yaml", 7, &tree, &err) != RT_OK)
        exit(1);
    for (char *word = strtok(words, " "); word; word = strtok(NULL, " "))
        if (rt_tree_add(tree, NULL, scalar(word), &err) != RT_OK)
            exit(1);
    return tree;
}

TEST(sizes) {
    struct rt_shape image = {3, {3, 28, 29, 0}}, vector = {1, {10}}, nothing = {0};
    CHECK(rt_shape_size(&image) == 3 * 28 * 29);
    CHECK(rt_shape_size(&vector) == 10);
    CHECK(rt_shape_size(&nothing) == 1);
}

TEST(equality_looks_at_the_used_dimensions_only) {
    struct rt_shape a = {2, {4, 5, 6, 7}}, b = {2, {4, 5, 0, 0}}, c = {2, {4, 6}}, d = {1, {4}};
    CHECK(rt_shape_equal(&a, &b));
    CHECK(!rt_shape_equal(&a, &c));
    CHECK(!rt_shape_equal(&a, &d));
    CHECK(!rt_shape_equal(&d, &a));
}

TEST(text) {
    char text[96];
    struct rt_shape image = {3, {1, 28, 28}}, nothing = {0};
    struct rt_shape largest = {4, {(size_t)-1, (size_t)-1, (size_t)-1, (size_t)-1}};
    CHECK(strcmp(rt_shape_text(&image, text), "[1, 28, 28]") == 0);
    CHECK(strcmp(rt_shape_text(&nothing, text), "[]") == 0);
    CHECK(strlen(rt_shape_text(&largest, text)) == 4 * 20 + 3 * 2 + 2);
}

TEST(read_lists_and_single_numbers) {
    struct rt_error err;
    struct rt_shape shape;
    struct rt_tree *tree = list("1 28 28");
    CHECK_OK(rt_shape_read(tree, &shape, &err));
    CHECK(shape.rank == 3 && shape.dim[0] == 1 && shape.dim[1] == 28 && shape.dim[2] == 28);
    rt_tree_destroy(tree);
    tree = scalar("784");
    CHECK_OK(rt_shape_read(tree, &shape, &err));
    CHECK(shape.rank == 1 && shape.dim[0] == 784);
    rt_tree_destroy(tree);
    tree = list("2147483648 1");
    CHECK_OK(rt_shape_read(tree, &shape, &err));
    CHECK(rt_shape_size(&shape) == 2147483648u);
    rt_tree_destroy(tree);
}

static void check_refused(struct rt_tree *tree, const char *part) {
    struct rt_error err = {0};
    struct rt_shape shape = {1, {77}};
    CHECK(rt_shape_read(tree, &shape, &err) == RT_BAD_INPUT);
    CHECK_MSG(strstr(err.text, part) != NULL, "\"%s\" should contain \"%s\"", err.text, part);
    CHECK_MSG(strstr(err.text, "run.yaml:7: ") == err.text, "\"%s\" should name the place", err.text);
    CHECK(shape.rank == 1 && shape.dim[0] == 77); /* untouched */
    rt_tree_destroy(tree);
}

TEST(refused) {
    check_refused(list(""), "1 to 4 dimensions");
    check_refused(list("1 2 3 4 5"), "1 to 4 dimensions");
    check_refused(list("1 0"), "positive whole number, not 0");
    check_refused(list("-3"), "positive whole number, not -3");
    check_refused(list("2.5"), "positive whole number, not 2.5");
    check_refused(scalar("many"), "positive whole number, not many");
    check_refused(scalar(""), "positive whole number");
    check_refused(list("2147483649"), "too large");
    check_refused(list("65536 65536"), "too large");
    check_refused(list("2147483648 2147483648 2147483648 2147483648"), "too large");
    check_refused(list("99999999999999999999"), "positive whole number");
    struct rt_tree *map = NULL, *nested = list("1");
    struct rt_error err;
    CHECK_OK(rt_tree_create(RT_TREE_MAP, NULL, "run.yaml", 7, &map, &err));
    check_refused(map, "not a map");
    CHECK_OK(rt_tree_add(nested, NULL, list("2"), &err));
    check_refused(nested, "not a list or a map");
}

TEST_MAIN()
