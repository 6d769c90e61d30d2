/*
 * Configuration trees as bytes; see tree.h. A value is its kind, its line, and then a text, or a count and
 * that many values, each after its key in a map.
 */
#include "wire/tree.h"

#include "base/memory.h"
#include "base/utf8.h"
#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* Numbers for the wire; those of enum rt_tree_kind may change. */
enum { KIND_SCALAR = 1, KIND_LIST = 2, KIND_MAP = 3 };

/* The minimum size of a value: kind, line, the length of an empty text. */
enum { KEY_BYTES = 2, VALUE_BYTES = 1 + 4 + 2 };

/* ---- writing ------------------------------------------------------------------------------------------- */

static void wire_tree_write_text(struct rt_encoder *encoder, const char *text) {
    size_t count = strlen(text);
    if (count > RT_TREE_MAX_TEXT || !rt_utf8_valid(text))
        encoder->full = true;
    else
        rt_write_bytes(encoder, text, count);
}

static void wire_tree_write_value(struct rt_encoder *encoder, const struct rt_tree *tree, size_t depth,
                                  size_t *values) {
    static const uint8_t kinds[] = {
        [RT_TREE_SCALAR] = KIND_SCALAR, [RT_TREE_LIST] = KIND_LIST, [RT_TREE_MAP] = KIND_MAP};
    if (depth == RT_TREE_MAX_DEPTH || ++*values > RT_TREE_MAX_VALUES ||
        (tree->kind == RT_TREE_MAP && tree->count > RT_TREE_MAX_KEYS))
        encoder->full = true;
    rt_write_u8(encoder, kinds[tree->kind]);
    rt_write_u32(encoder, tree->line > 0 ? (uint32_t)tree->line : 0);
    if (tree->kind == RT_TREE_SCALAR) {
        wire_tree_write_text(encoder, tree->text);
        return;
    }
    rt_write_u32(encoder, (uint32_t)tree->count);
    for (size_t i = 0; i < tree->count && !encoder->full; i++) {
        if (tree->kind == RT_TREE_MAP)
            wire_tree_write_text(encoder, tree->items[i]->key);
        wire_tree_write_value(encoder, tree->items[i], depth + 1, values);
    }
}

void rt_write_tree(struct rt_encoder *encoder, const struct rt_tree *tree) {
    size_t values = 0;
    wire_tree_write_value(encoder, tree, 0, &values);
}

size_t rt_tree_encode(const struct rt_tree *tree, uint8_t *bytes, size_t room) {
    struct rt_encoder encoder = {.bytes = bytes, .room = room};
    rt_write_tree(&encoder, tree);
    return rt_encoder_end(&encoder);
}

/* ---- reading ------------------------------------------------------------------------------------------- */

/* A newly allocated text; NULL, and an error, when it is invalid. */
static char *wire_tree_read_text(struct rt_decoder *decoder) {
    size_t count = rt_read_u16(decoder);
    const uint8_t *at = rt_read_raw(decoder, count);
    char *text = NULL;
    if (!at)
        return NULL;
    decoder->status = rt_alloc(count + 1, 1, "the configuration", &text, decoder->err);
    if (decoder->status != RT_OK)
        return NULL;
    memcpy(text, at, count);
    if (strlen(text) == count && rt_utf8_valid(text))
        return text;
    rt_decoder_refuse(decoder, "has a text in its configuration that is not valid UTF-8");
    free(text);
    return NULL;
}

static struct rt_tree *wire_tree_read_value(struct rt_decoder *decoder, const char *file, size_t depth,
                                            size_t *values);

static void wire_tree_read_items(struct rt_decoder *decoder, const char *file, size_t depth, size_t *values,
                                 struct rt_tree *tree) {
    bool map = tree->kind == RT_TREE_MAP;
    size_t count = rt_read_count(decoder, map ? "keys in a map" : "items in a list",
                                 map ? RT_TREE_MAX_KEYS : RT_TREE_MAX_VALUES,
                                 map ? KEY_BYTES + VALUE_BYTES : VALUE_BYTES);
    for (size_t i = 0; i < count && decoder->status == RT_OK; i++) {
        char *key = map ? wire_tree_read_text(decoder) : NULL;
        struct rt_tree *item = wire_tree_read_value(decoder, file, depth + 1, values);
        if (decoder->status == RT_OK) {
            decoder->status = rt_tree_add(tree, key, item, decoder->err);
            if (decoder->status == RT_OK)
                item = NULL;
        }
        rt_tree_destroy(item);
        free(key);
    }
}

/* NULL when reading failed, now or before. */
static struct rt_tree *wire_tree_read_value(struct rt_decoder *decoder, const char *file, size_t depth,
                                            size_t *values) {
    static const enum rt_tree_kind kinds[] = {
        [KIND_SCALAR] = RT_TREE_SCALAR, [KIND_LIST] = RT_TREE_LIST, [KIND_MAP] = RT_TREE_MAP};
    uint8_t kind = rt_read_u8(decoder);
    uint32_t line = rt_read_u32(decoder);
    if (kind < KIND_SCALAR || kind > KIND_MAP)
        rt_decoder_refuse(decoder, "has a value of unknown kind %u in its configuration", kind);
    if (line > INT_MAX)
        rt_decoder_refuse(decoder, "has a configuration with an invalid line number");
    if (depth == RT_TREE_MAX_DEPTH)
        rt_decoder_refuse(decoder, "has a configuration nested more than %d deep", RT_TREE_MAX_DEPTH);
    if (++*values > RT_TREE_MAX_VALUES)
        rt_decoder_refuse(decoder, "has a configuration of more than %d values", RT_TREE_MAX_VALUES);
    if (decoder->status != RT_OK)
        return NULL;
    char *text = kind == KIND_SCALAR ? wire_tree_read_text(decoder) : NULL;
    struct rt_tree *tree = NULL;
    if (decoder->status == RT_OK)
        decoder->status = rt_tree_create(kinds[kind], text, file, (int)line, &tree, decoder->err);
    free(text);
    if (decoder->status == RT_OK && kind != KIND_SCALAR)
        wire_tree_read_items(decoder, file, depth, values, tree);
    if (decoder->status == RT_OK)
        return tree;
    rt_tree_destroy(tree);
    return NULL;
}

struct rt_tree *rt_read_tree(struct rt_decoder *decoder, const char *file) {
    size_t values = 0;
    return wire_tree_read_value(decoder, file, 0, &values);
}

rt_status rt_tree_decode(const uint8_t *bytes, size_t count, const char *file, struct rt_tree **tree,
                         struct rt_error *err) {
    struct rt_decoder decoder = {.name = "message", .bytes = bytes, .count = count, .err = err};
    struct rt_tree *made = rt_read_tree(&decoder, file);
    rt_status status = rt_decoder_end(&decoder);
    if (status == RT_OK)
        *tree = made;
    else
        rt_tree_destroy(made);
    return status;
}
