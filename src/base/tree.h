/*
 * A configuration value with the place it came from: a scalar, a list or a map, as read from the run file,
 * from --set, or from the model description inside a model file. Scalars stay text until an option table
 * (base/option.h) says what they should be, so "no" never becomes false by surprise.
 */
#ifndef RT_BASE_TREE_H
#define RT_BASE_TREE_H

#include "base/status.h"

enum rt_tree_kind { RT_TREE_SCALAR, RT_TREE_LIST, RT_TREE_MAP };

struct rt_tree {
    enum rt_tree_kind kind;
    char *text;       /* a scalar's text; owned */
    char *key;        /* the key under which a map holds this value, else NULL; owned */
    const char *file; /* where it was read, for messages ("run.yaml", "--set"); borrowed, outlives the tree */
    int line;         /* counted from 1; 0 if unknown */
    struct rt_tree **items; /* children of a list or a map, in order; owned */
    size_t count;
};

rt_status rt_tree_create(enum rt_tree_kind kind, const char *text, const char *file, int line,
                         struct rt_tree **tree, struct rt_error *err);
void rt_tree_destroy(struct rt_tree *tree); /* NULL is fine */
rt_status rt_tree_copy(const struct rt_tree *tree, struct rt_tree **copy, struct rt_error *err);

/* Whether two trees have the same content, whatever files they came from; NULL equals NULL. */
bool rt_tree_equal(const struct rt_tree *a, const struct rt_tree *b);

/* Adds item to a list (key NULL) or a map (key copied; a key already there is an error). Takes ownership of
 * item on success only. */
rt_status rt_tree_add(struct rt_tree *tree, const char *key, struct rt_tree *item, struct rt_error *err);

/* The value under key in a map, or NULL (also when tree is NULL or not a map). */
struct rt_tree *rt_tree_get(const struct rt_tree *tree, const char *key);

/* Sets the value at a dotted path ("train.epochs"; list items by number, "model.layers.0"), making maps on
 * the way; an old value is destroyed. Takes ownership of value on success only. */
rt_status rt_tree_set(struct rt_tree *tree, const char *path, struct rt_tree *value, struct rt_error *err);

/* The tree as one line of JSON: scalars that are JSON numbers, true, false or null are written bare, others
 * as strings. Reading that back as YAML gives an equal tree. *json is to be freed. */
rt_status rt_tree_json(const struct rt_tree *tree, char **json, struct rt_error *err);

/* Puts "file:line: " before the message. Returns RT_BAD_INPUT. */
rt_status rt_tree_place(const struct rt_tree *tree, struct rt_error *err);

/* rt_fail with "file:line: " before the message. */
rt_status rt_tree_fail(const struct rt_tree *tree, struct rt_error *err, const char *format, ...)
    RT_PRINTF(3, 4);

#endif
