/* Shapes: size, comparison, text, and reading them from a run file. */
#include "tensor/shape.h"

#include "base/option.h"
#include <inttypes.h>
#include <stdio.h>

enum { TEXT_BYTES = 96 };

/* The largest number of floats in one example. */
static const uint64_t size_limit = (uint64_t)1 << 31;

size_t rt_shape_size(const struct rt_shape *shape) {
    size_t size = 1;
    for (size_t i = 0; i < shape->rank; i++)
        size *= shape->dim[i];
    return size;
}

bool rt_shape_equal(const struct rt_shape *a, const struct rt_shape *b) {
    if (a->rank != b->rank)
        return false;
    for (size_t i = 0; i < a->rank; i++)
        if (a->dim[i] != b->dim[i])
            return false;
    return true;
}

const char *rt_shape_text(const struct rt_shape *shape, char *text) {
    /* four numbers of twenty digits, commas and brackets: below 96 bytes */
    int used = snprintf(text, TEXT_BYTES, "[");
    for (size_t i = 0; i < shape->rank; i++)
        used += snprintf(text + used, TEXT_BYTES - (size_t)used, "%s%zu", i ? ", " : "", shape->dim[i]);
    snprintf(text + used, TEXT_BYTES - (size_t)used, "]");
    return text;
}

static rt_status read_dimension(const struct rt_tree *tree, size_t *dim, struct rt_error *err) {
    int64_t value;
    if (tree->kind != RT_TREE_SCALAR || !rt_parse_int(tree->text, &value) || value < 1)
        return rt_tree_fail(tree, err, "a dimension must be a positive whole number, not %s",
                            tree->kind == RT_TREE_SCALAR ? tree->text : "a list or a map");
    if ((uint64_t)value > size_limit)
        return rt_tree_fail(
            tree, err, "a dimension of %" PRId64 " is too large: one example may have 2^31 values", value);
    *dim = (size_t)value;
    return RT_OK;
}

rt_status rt_shape_read(const struct rt_tree *tree, struct rt_shape *shape, struct rt_error *err) {
    struct rt_shape read = {0};
    if (tree->kind == RT_TREE_MAP)
        return rt_tree_fail(tree, err,
                            "a shape is a list of numbers like [1, 28, 28], or one number; not a map");
    size_t count = tree->kind == RT_TREE_LIST ? tree->count : 1;
    if (count == 0 || count > RT_MAX_RANK)
        return rt_tree_fail(tree, err, "a shape has 1 to %d dimensions, not %zu", RT_MAX_RANK, count);
    uint64_t size = 1;
    for (size_t i = 0; i < count; i++) {
        rt_status status =
            read_dimension(tree->kind == RT_TREE_LIST ? tree->items[i] : tree, &read.dim[i], err);
        if (status != RT_OK)
            return status;
        size *= read.dim[i]; /* both at most 2^31, so this cannot overflow */
        if (size > size_limit)
            return rt_tree_fail(tree, err, "this shape is too large: one example may have 2^31 values");
    }
    read.rank = count;
    *shape = read;
    return RT_OK;
}
