/*
 * Configuration trees as bytes; see tree.h. A value is its kind, its line, and then a text, or a count and so
 * many values, each behind its key in a map.
 */
#include "wire/tree.h"

#include "base/memory.h"
#include "base/utf8.h"
#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* On the wire; the numbers of enum rt_tree_kind may change. */
enum { KIND_SCALAR = 1, KIND_LIST = 2, KIND_MAP = 3 };

/* The least that a value takes: kind, line, the length of an empty text. */
enum { KEY_BYTES = 2, VALUE_BYTES = 1 + 4 + 2 };

/* ---- writing ------------------------------------------------------------------------------------------- */

static void write_tree_text(struct rt_writer *writer, const char *text) {
    size_t count = strlen(text);
    if (count > RT_TREE_MAX_TEXT || !rt_utf8_valid(text))
        writer->full = true;
    else
        rt_write_bytes(writer, text, count);
}

static void write_value(struct rt_writer *writer, const struct rt_tree *tree, size_t depth, size_t *values) {
    static const uint8_t kinds[] = {
        [RT_TREE_SCALAR] = KIND_SCALAR, [RT_TREE_LIST] = KIND_LIST, [RT_TREE_MAP] = KIND_MAP};
    if (depth == RT_TREE_MAX_DEPTH || ++*values > RT_TREE_MAX_VALUES ||
        (tree->kind == RT_TREE_MAP && tree->count > RT_TREE_MAX_KEYS))
        writer->full = true;
    rt_write_u8(writer, kinds[tree->kind]);
    rt_write_u32(writer, tree->line > 0 ? (uint32_t)tree->line : 0);
    if (tree->kind == RT_TREE_SCALAR) {
        write_tree_text(writer, tree->text);
        return;
    }
    rt_write_u32(writer, (uint32_t)tree->count);
    for (size_t i = 0; i < tree->count && !writer->full; i++) {
        if (tree->kind == RT_TREE_MAP)
            write_tree_text(writer, tree->items[i]->key);
        write_value(writer, tree->items[i], depth + 1, values);
    }
}

void rt_write_tree(struct rt_writer *writer, const struct rt_tree *tree) {
    size_t values = 0;
    write_value(writer, tree, 0, &values);
}

size_t rt_tree_encode(const struct rt_tree *tree, uint8_t *bytes, size_t room) {
    struct rt_writer writer = {.bytes = bytes, .room = room};
    rt_write_tree(&writer, tree);
    return rt_writer_end(&writer);
}

/* ---- reading ------------------------------------------------------------------------------------------- */

/* A text of its own memory; NULL, and refused, when there is none. */
static char *read_tree_text(struct rt_reader *reader) {
    size_t count = rt_read_u16(reader);
    const uint8_t *at = rt_read_raw(reader, count);
    char *text = NULL;
    if (!at)
        return NULL;
    reader->status = rt_alloc(count + 1, 1, "the configuration", &text, reader->err);
    if (reader->status != RT_OK)
        return NULL;
    memcpy(text, at, count);
    if (strlen(text) == count && rt_utf8_valid(text))
        return text;
    rt_reader_refuse(reader, "has a text in its configuration that is no UTF-8");
    free(text);
    return NULL;
}

static struct rt_tree *read_value(struct rt_reader *reader, const char *file, size_t depth, size_t *values);

static void read_items(struct rt_reader *reader, const char *file, size_t depth, size_t *values,
                       struct rt_tree *tree) {
    bool map = tree->kind == RT_TREE_MAP;
    size_t count = rt_read_count(reader, map ? "keys in a map" : "items in a list",
                                 map ? RT_TREE_MAX_KEYS : RT_TREE_MAX_VALUES,
                                 map ? KEY_BYTES + VALUE_BYTES : VALUE_BYTES);
    for (size_t i = 0; i < count && reader->status == RT_OK; i++) {
        char *key = map ? read_tree_text(reader) : NULL;
        struct rt_tree *item = read_value(reader, file, depth + 1, values);
        if (reader->status == RT_OK) {
            reader->status = rt_tree_add(tree, key, item, reader->err);
            if (reader->status == RT_OK)
                item = NULL;
        }
        rt_tree_destroy(item);
        free(key);
    }
}

/* NULL when reading failed, then or before. */
static struct rt_tree *read_value(struct rt_reader *reader, const char *file, size_t depth, size_t *values) {
    static const enum rt_tree_kind kinds[] = {
        [KIND_SCALAR] = RT_TREE_SCALAR, [KIND_LIST] = RT_TREE_LIST, [KIND_MAP] = RT_TREE_MAP};
    uint8_t kind = rt_read_u8(reader);
    uint32_t line = rt_read_u32(reader);
    if (kind < KIND_SCALAR || kind > KIND_MAP)
        rt_reader_refuse(reader, "has a value of unknown kind %u in its configuration", kind);
    if (line > INT_MAX)
        rt_reader_refuse(reader, "has a configuration with a line number that cannot be");
    if (depth == RT_TREE_MAX_DEPTH)
        rt_reader_refuse(reader, "has a configuration nested more than %d deep", RT_TREE_MAX_DEPTH);
    if (++*values > RT_TREE_MAX_VALUES)
        rt_reader_refuse(reader, "has a configuration of more than %d values", RT_TREE_MAX_VALUES);
    if (reader->status != RT_OK)
        return NULL;
    char *text = kind == KIND_SCALAR ? read_tree_text(reader) : NULL;
    struct rt_tree *tree = NULL;
    if (reader->status == RT_OK)
        reader->status = rt_tree_create(kinds[kind], text, file, (int)line, &tree, reader->err);
    free(text);
    if (reader->status == RT_OK && kind != KIND_SCALAR)
        read_items(reader, file, depth, values, tree);
    if (reader->status == RT_OK)
        return tree;
    rt_tree_destroy(tree);
    return NULL;
}

struct rt_tree *rt_read_tree(struct rt_reader *reader, const char *file) {
    size_t values = 0;
    return read_value(reader, file, 0, &values);
}

rt_status rt_tree_decode(const uint8_t *bytes, size_t count, const char *file, struct rt_tree **tree,
                         struct rt_error *err) {
    struct rt_reader reader = {.name = "message", .bytes = bytes, .count = count, .err = err};
    struct rt_tree *made = rt_read_tree(&reader, file);
    rt_status status = rt_reader_end(&reader);
    if (status == RT_OK)
        *tree = made;
    else
        rt_tree_destroy(made);
    return status;
}
