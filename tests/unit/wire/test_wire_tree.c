/* Configuration trees as bytes: golden bytes, the trip there and back, limits. */
#include "base/bytes.h"
#include "support/test.h"
#include "support/wire.h"
#include "wire/tree.h"
#include <limits.h>
#include <time.h>

enum { ROOM = 1 << 20 };

static struct rt_tree *value(enum rt_tree_kind kind, const char *text, int line) {
    struct rt_tree *tree = NULL;
    if (rt_tree_create(kind, text, "test.yaml", line, &tree, NULL) != RT_OK)
        abort();
    return tree;
}

/* Adds item and gives it back, for the next to be added to it. */
static struct rt_tree *add(struct rt_tree *tree, const char *key, struct rt_tree *item) {
    struct rt_error err;
    if (rt_tree_add(tree, key, item, &err) != RT_OK)
        abort();
    return item;
}

/* That of tests/golden/wire/make.py. */
static struct rt_tree *golden_tree(void) {
    struct rt_tree *top = value(RT_TREE_MAP, NULL, 1);
    struct rt_tree *model = add(top, "model", value(RT_TREE_MAP, NULL, 2));
    struct rt_tree *input = add(model, "input", value(RT_TREE_LIST, NULL, 2));
    add(input, NULL, value(RT_TREE_SCALAR, "1", 2));
    add(input, NULL, value(RT_TREE_SCALAR, "28", 2));
    add(input, NULL, value(RT_TREE_SCALAR, "28", 2));
    struct rt_tree *layers = add(model, "layers", value(RT_TREE_LIST, NULL, 3));
    struct rt_tree *dense = add(layers, NULL, value(RT_TREE_MAP, NULL, 4));
    add(dense, "dense", value(RT_TREE_SCALAR, "128", 4));
    add(layers, NULL, value(RT_TREE_SCALAR, "relu", 5));
    add(layers, NULL, value(RT_TREE_SCALAR, "", 6));
    add(top, "name", value(RT_TREE_SCALAR, "d\xc3\xa9j\xc3\xa0 vu", 7));
    add(top, "empty", value(RT_TREE_LIST, NULL, 8));
    add(top, "none", value(RT_TREE_MAP, NULL, 0));
    return top;
}

static rt_status recode(const uint8_t *bytes, size_t count, uint8_t *out, size_t room, size_t *used,
                        struct rt_error *err) {
    struct rt_tree *tree;
    rt_status status = rt_tree_decode(bytes, count, "wire", &tree, err);
    if (status == RT_OK) {
        *used = rt_tree_encode(tree, out, room);
        rt_tree_destroy(tree);
    }
    return status;
}

static bool equal(const struct rt_tree *a, const struct rt_tree *b) {
    if (a->kind != b->kind || a->line != b->line || a->count != b->count)
        return false;
    if ((a->key != NULL) != (b->key != NULL) || (a->key && strcmp(a->key, b->key) != 0))
        return false;
    if ((a->text != NULL) != (b->text != NULL) || (a->text && strcmp(a->text, b->text) != 0))
        return false;
    for (size_t i = 0; i < a->count; i++)
        if (!equal(a->items[i], b->items[i]))
            return false;
    return true;
}

TEST(golden_bytes_and_back) {
    struct rt_error err;
    uint8_t bytes[1000];
    struct rt_tree *tree = golden_tree(), *back;
    size_t count = rt_tree_encode(tree, bytes, sizeof bytes);
    rt_check_golden("tree", bytes, count);
    CHECK_OK(rt_tree_decode(bytes, count, "the wire", &back, &err));
    CHECK(equal(tree, back));
    CHECK(strcmp(back->items[1]->file, "the wire") == 0);
    rt_check_abuse("tree", bytes, count, recode);
    for (size_t room = 0; room < count; room++)
        CHECK(rt_tree_encode(tree, bytes, room) == 0);
    rt_tree_destroy(back);
    rt_tree_destroy(tree);
}

/* A list in a list in a list ..., `depth` of them, around a scalar. */
static struct rt_tree *nested(size_t depth) {
    struct rt_tree *top = value(RT_TREE_SCALAR, "x", 1);
    for (size_t i = 0; i < depth; i++) {
        struct rt_tree *list = value(RT_TREE_LIST, NULL, 1);
        add(list, NULL, top);
        top = list;
    }
    return top;
}

TEST(depth_is_bounded) {
    static uint8_t bytes[2000];
    struct rt_tree *deepest = nested(RT_TREE_MAX_DEPTH - 1), *deeper = nested(RT_TREE_MAX_DEPTH);
    size_t count = rt_tree_encode(deepest, bytes, sizeof bytes);
    CHECK(count > 0);
    rt_check_recode("deepest", bytes, count, recode);
    CHECK(rt_tree_encode(deeper, bytes, sizeof bytes) == 0);
    /* one list more around it: another program's encoder might send it */
    static const uint8_t list[9] = {2, 1, 0, 0, 0, 1, 0, 0, 0};
    memmove(bytes + sizeof list, bytes, count);
    memcpy(bytes, list, sizeof list);
    rt_check_refused("deeper", bytes, count + sizeof list, recode, "nested more than 64 deep");
    rt_tree_destroy(deepest);
    rt_tree_destroy(deeper);
}

TEST(texts) {
    static char text[RT_TREE_MAX_TEXT + 2];
    static uint8_t bytes[ROOM];
    memset(text, 'a', RT_TREE_MAX_TEXT);
    struct rt_tree *tree = value(RT_TREE_SCALAR, text, INT_MAX);
    size_t count = rt_tree_encode(tree, bytes, sizeof bytes);
    CHECK(count == 7 + RT_TREE_MAX_TEXT);
    rt_check_recode("longest", bytes, count, recode);
    rt_tree_destroy(tree);
    text[RT_TREE_MAX_TEXT] = 'a';
    tree = value(RT_TREE_SCALAR, text, 1);
    CHECK(rt_tree_encode(tree, bytes, sizeof bytes) == 0);
    rt_tree_destroy(tree);
    tree = value(RT_TREE_SCALAR, "\xff", 1);
    CHECK(rt_tree_encode(tree, bytes, sizeof bytes) == 0);
    rt_tree_destroy(tree);
    tree = value(RT_TREE_SCALAR, "line\n\ttab\x1b", -3);
    count = rt_tree_encode(tree, bytes, sizeof bytes);
    rt_check_recode("any character", bytes, count, recode);
    rt_tree_destroy(tree);
}

#define REFUSED(literal_, words_)                                                                            \
    rt_check_refused(words_, (const uint8_t *)literal_, sizeof literal_ - 1, recode, words_)

TEST(refused_with_the_reason) {
    REFUSED("", "the message is shorter than its fields: it ends after 0 bytes");
    REFUSED("\4\1\0\0\0\0\0", "has a value of unknown kind 4 in its configuration");
    REFUSED("\0\1\0\0\0\0\0", "has a value of unknown kind 0");
    REFUSED("\1\0\0\0\x80\0\0", "an invalid line number");
    REFUSED("\1\1\0\0\0\1\0\xff", "has a text in its configuration that is not valid UTF-8");
    REFUSED("\1\1\0\0\0\3\0a\0b", "not valid UTF-8");
    REFUSED("\1\1\0\0\0\2\0a", "is shorter than its fields");
    REFUSED("\1\1\0\0\0\0\0.", "has 1 bytes left over");
    REFUSED("\2\1\0\0\0\xff\xff\xff\xff", "has 4294967295 items in a list; the maximum is 262144");
    REFUSED("\2\1\0\0\0\0\0\4\0", "9 bytes cannot hold 262144 items in a list");
    REFUSED("\3\1\0\0\0\xe9\3\0\0", "has 1001 keys in a map; the maximum is 1000");
    REFUSED("\3\1\0\0\0\xe8\3\0\0", "9 bytes cannot hold 1000 keys in a map");
    REFUSED("\3\1\0\0\0\2\0\0\0"
            "\1\0k\1\2\0\0\0\0\0"
            "\1\0k\1\3\0\0\0\0\0",
            "wire:3: key 'k' was already given on line 2");
    REFUSED("\3\1\0\0\0\1\0\0\0\1\0k\1\2\0\0\0\0", "is shorter than its fields");
}

/* Lists of lists can hold more values together than one list may. */
TEST(values_are_bounded) {
    static uint8_t bytes[4 << 20];
    struct rt_encoder encoder = {.bytes = bytes, .room = sizeof bytes};
    uint32_t half = RT_TREE_MAX_VALUES / 2;
    rt_write_u8(&encoder, 2);
    rt_write_u32(&encoder, 1);
    rt_write_u32(&encoder, 2);
    for (int i = 0; i < 2; i++) {
        rt_write_u8(&encoder, 2);
        rt_write_u32(&encoder, 1);
        rt_write_u32(&encoder, half);
        for (uint32_t j = 0; j < half; j++) {
            rt_write_u8(&encoder, 1);
            rt_write_u32(&encoder, 1);
            rt_write_u16(&encoder, 0);
        }
    }
    rt_check_refused("values", bytes, rt_encoder_end(&encoder), recode,
                     "has a configuration of more than 262144 values");
}

/* The worst that fits into a message of fields: maps full of keys that must all be compared. */
TEST(a_message_full_of_keys_takes_no_time) {
    static uint8_t bytes[ROOM];
    struct rt_tree *list = value(RT_TREE_LIST, NULL, 1);
    for (int i = 0; i < 60; i++) {
        struct rt_tree *map = add(list, NULL, value(RT_TREE_MAP, NULL, 1));
        for (int j = 0; j < RT_TREE_MAX_KEYS; j++) {
            char key[20];
            snprintf(key, sizeof key, "key%04d", j);
            add(map, key, value(RT_TREE_SCALAR, "", 1));
        }
        if (i == 0) {
            add(map, "one more", value(RT_TREE_SCALAR, "", 1));
            CHECK(rt_tree_encode(list, bytes, sizeof bytes) == 0);
            rt_tree_destroy(map->items[--map->count]);
        }
    }
    size_t count = rt_tree_encode(list, bytes, sizeof bytes);
    rt_tree_destroy(list);
    CHECK_MSG(count > ROOM / 10 * 9, "%zu bytes", count);
    struct timespec before, after;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &before);
    rt_check_recode("keys", bytes, count, recode);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &after);
    CHECK(after.tv_sec - before.tv_sec < 10);
}

TEST_MAIN()
