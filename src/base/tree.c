/* Configuration values with the place they came from; see tree.h. The builders of trees bound the depth (the
 * YAML reader, and the path of rt_tree_set), so the recursion here is bounded too. */
#include "base/tree.h"

#include "base/memory.h"
#include "base/option.h"
#include "base/sentence.h"
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_PATH_PARTS = 32 };

rt_status rt_tree_place(const struct rt_tree *tree, struct rt_error *err) {
    if (!tree || !tree->file)
        return RT_BAD_INPUT;
    if (tree->line <= 0)
        return rt_fail_prefix(err, RT_BAD_INPUT, "%s", tree->file);
    return rt_fail_prefix(err, RT_BAD_INPUT, "%s:%d", tree->file, tree->line);
}

rt_status rt_tree_fail(const struct rt_tree *tree, struct rt_error *err, const char *format, ...) {
    va_list args;
    va_start(args, format);
    rt_vfail(err, RT_BAD_INPUT, format, args);
    va_end(args);
    return rt_tree_place(tree, err);
}

static rt_status tree_copy_text(const char *text, char **copy, struct rt_error *err) {
    *copy = NULL;
    if (text && !(*copy = strdup(text)))
        return rt_fail(err, RT_NO_MEMORY, "not enough memory for the configuration");
    return RT_OK;
}

rt_status rt_tree_create(enum rt_tree_kind kind, const char *text, const char *file, int line,
                         struct rt_tree **tree, struct rt_error *err) {
    struct rt_tree *made;
    rt_status status = rt_alloc(1, sizeof *made, "the configuration", &made, err);
    if (status != RT_OK)
        return status;
    made->kind = kind;
    made->file = file;
    made->line = line;
    if (kind == RT_TREE_SCALAR) {
        status = tree_copy_text(text ? text : "", &made->text, err);
        if (status != RT_OK) {
            free(made);
            return status;
        }
    }
    *tree = made;
    return RT_OK;
}

void rt_tree_destroy(struct rt_tree *tree) {
    if (!tree)
        return;
    for (size_t i = 0; i < tree->count; i++)
        rt_tree_destroy(tree->items[i]);
    free(tree->items);
    free(tree->text);
    free(tree->key);
    free(tree);
}

rt_status rt_tree_copy(const struct rt_tree *tree, struct rt_tree **copy, struct rt_error *err) {
    struct rt_tree *made;
    rt_status status = rt_tree_create(tree->kind, tree->text, tree->file, tree->line, &made, err);
    for (size_t i = 0; status == RT_OK && i < tree->count; i++) {
        struct rt_tree *item = NULL;
        status = rt_tree_copy(tree->items[i], &item, err);
        if (status == RT_OK)
            status = rt_tree_add(made, tree->items[i]->key, item, err);
        if (status != RT_OK) {
            rt_tree_destroy(item);
            rt_tree_destroy(made);
        }
    }
    if (status == RT_OK)
        *copy = made;
    return status;
}

static bool tree_same_text(const char *a, const char *b) {
    return a && b ? strcmp(a, b) == 0 : a == b;
}

bool rt_tree_equal(const struct rt_tree *a, const struct rt_tree *b) {
    if (!a || !b)
        return a == b;
    bool equal = a->kind == b->kind && a->count == b->count && tree_same_text(a->text, b->text) &&
                 tree_same_text(a->key, b->key);
    for (size_t i = 0; equal && i < a->count; i++)
        equal = rt_tree_equal(a->items[i], b->items[i]);
    return equal;
}

rt_status rt_tree_add(struct rt_tree *tree, const char *key, struct rt_tree *item, struct rt_error *err) {
    if (tree->kind == RT_TREE_SCALAR || (tree->kind == RT_TREE_MAP) != (key != NULL))
        return rt_tree_fail(item, err, "%s",
                            key ? "only a map has keys" : "only a list takes values without a key");
    const struct rt_tree *twin = key ? rt_tree_get(tree, key) : NULL;
    if (twin && twin->line > 0)
        return rt_tree_fail(item, err, "key '%s' was already given on line %d", key, twin->line);
    if (twin)
        return rt_tree_fail(item, err, "key '%s' is given twice", key);
    /* Room doubles, and is full exactly when the count is a power of two. */
    if ((tree->count & (tree->count - 1)) == 0) {
        size_t room = tree->count ? tree->count * 2 : 1;
        struct rt_tree **items = NULL;
        if (room <= SIZE_MAX / sizeof(void *))
            items = realloc(tree->items, room * sizeof(void *));
        if (!items)
            return rt_fail(err, RT_NO_MEMORY, "not enough memory for the configuration");
        tree->items = items;
    }
    char *own;
    rt_status status = tree_copy_text(key, &own, err);
    if (status != RT_OK)
        return status;
    free(item->key);
    item->key = own;
    tree->items[tree->count++] = item;
    return RT_OK;
}

struct rt_tree *rt_tree_get(const struct rt_tree *tree, const char *key) {
    if (!tree || tree->kind != RT_TREE_MAP)
        return NULL;
    for (size_t i = 0; i < tree->count; i++)
        if (strcmp(tree->items[i]->key, key) == 0)
            return tree->items[i];
    return NULL;
}

/* ---- setting by path ----------------------------------------------------------------------------------- */

/* Finds the child named by part. Sets *found to NULL when a map has no such key (yet). walked is the part of
 * the path before it, for messages. */
static rt_status tree_find_child(const struct rt_tree *tree, const char *part, const char *walked,
                                 const struct rt_tree *value, struct rt_tree ***found, struct rt_error *err) {
    *found = NULL;
    if (tree->kind == RT_TREE_SCALAR)
        return rt_tree_fail(value, err, "cannot set '%s' inside %s, which is the single value '%s'", part,
                            walked, tree->text);
    if (tree->kind == RT_TREE_MAP) {
        for (size_t i = 0; i < tree->count; i++)
            if (strcmp(tree->items[i]->key, part) == 0)
                *found = &tree->items[i];
        return RT_OK;
    }
    int64_t number;
    if (!rt_parse_int(part, &number) || number < 0)
        return rt_tree_fail(value, err, "%s is a list: its items are numbered from 0, not named '%s'", walked,
                            part);
    if ((uint64_t)number >= tree->count)
        return rt_tree_fail(value, err, "%s has %s, numbered from 0: there is no item %s", walked,
                            RT_COUNTED(tree->count, "item"), part);
    *found = &tree->items[number];
    return RT_OK;
}

/* A key with nothing behind it ("train:") is an empty scalar; it may just as well be an empty map. */
static void tree_become_map(struct rt_tree *tree) {
    if (tree->kind != RT_TREE_SCALAR || *tree->text)
        return;
    free(tree->text);
    tree->text = NULL;
    tree->kind = RT_TREE_MAP;
}

/* Puts value where old is, keeping old's key. */
static void tree_replace(struct rt_tree **old, struct rt_tree *value) {
    free(value->key);
    value->key = (*old)->key;
    (*old)->key = NULL;
    rt_tree_destroy(*old);
    *old = value;
}

/* Adds value under key to tree, inside as many new maps as rest, the tail of the path, asks for. */
static rt_status tree_add_new(struct rt_tree *tree, const char *key, char **rest, size_t rest_count,
                              struct rt_tree *value, struct rt_error *err) {
    struct rt_tree *top = NULL, *bottom = NULL;
    rt_status status = RT_OK;
    /* The maps first, from outside in; ownership of the value passes last, when all are in place. */
    for (size_t i = 0; status == RT_OK && i < rest_count; i++) {
        struct rt_tree *map = NULL;
        status = rt_tree_create(RT_TREE_MAP, NULL, value->file, value->line, &map, err);
        if (status == RT_OK && bottom) {
            status = rt_tree_add(bottom, rest[i - 1], map, err);
            if (status != RT_OK)
                rt_tree_destroy(map);
        }
        if (!top)
            top = map;
        bottom = map;
    }
    if (status == RT_OK && top)
        status = rt_tree_add(tree, key, top, err);
    if (status != RT_OK) {
        rt_tree_destroy(top);
        return status;
    }
    return bottom ? rt_tree_add(bottom, rest[rest_count - 1], value, err)
                  : rt_tree_add(tree, key, value, err);
}

rt_status rt_tree_set(struct rt_tree *tree, const char *path, struct rt_tree *value, struct rt_error *err) {
    char *copy;
    rt_status status = tree_copy_text(path, &copy, err);
    if (status != RT_OK)
        return status;
    char *parts[MAX_PATH_PARTS];
    size_t count = 0;
    for (char *part = copy; part && status == RT_OK;) {
        char *dot = strchr(part, '.');
        if (dot)
            *dot = 0;
        if (!*part)
            status = rt_tree_fail(value, err, "'%s' is not a key: a part of it is empty", path);
        else if (count == MAX_PATH_PARTS)
            status = rt_tree_fail(value, err, "a key has at most %d parts", MAX_PATH_PARTS);
        else
            parts[count++] = part;
        part = dot ? dot + 1 : NULL;
    }
    struct rt_tree *here = tree;
    for (size_t i = 0; i < count && status == RT_OK; i++) {
        char walked[200] = "the run file";
        if (i)
            snprintf(walked, sizeof walked, "%.*s", (int)(parts[i] - copy) - 1, path);
        struct rt_tree **found;
        status = tree_find_child(here, parts[i], walked, value, &found, err);
        if (status != RT_OK)
            break;
        if (!found) {
            status = tree_add_new(here, parts[i], parts + i + 1, count - i - 1, value, err);
            break;
        }
        if (i + 1 == count) {
            tree_replace(found, value);
            break;
        }
        here = *found;
        tree_become_map(here);
    }
    free(copy);
    return status;
}
