/* The shape of one example: up to four dimensions, row-major; images are [channels, height, width]. */
#ifndef RT_TENSOR_SHAPE_H
#define RT_TENSOR_SHAPE_H

#include "base/status.h"
#include "base/tree.h"

enum { RT_MAX_RANK = 4 };

struct rt_shape {
    size_t rank;
    size_t dim[RT_MAX_RANK];
};

size_t rt_shape_size(const struct rt_shape *shape); /* product of the dimensions; 1 for rank 0 */
bool rt_shape_equal(const struct rt_shape *a, const struct rt_shape *b);

/* "[1, 28, 28]"; text holds at least 96 bytes. Returns text. */
const char *rt_shape_text(const struct rt_shape *shape, char *text);

/* Reads a list of positive integers, or one integer; refuses sizes above 2^31 floats. */
rt_status rt_shape_read(const struct rt_tree *tree, struct rt_shape *shape, struct rt_error *err);

#endif
