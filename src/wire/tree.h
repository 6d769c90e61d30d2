/* A configuration tree as bytes: tells a node the model and its training. Lines and keys are included, so
 * that a message about a layer names the same line as on the master. */
#ifndef RT_WIRE_TREE_H
#define RT_WIRE_TREE_H

#include "base/tree.h"
#include "wire/bytes.h"

/* Keys of one map: few enough that comparing each with all before it takes negligible time. */
enum {
    RT_TREE_MAX_DEPTH = 64,
    RT_TREE_MAX_VALUES = 1 << 18,
    RT_TREE_MAX_KEYS = 1000,
    RT_TREE_MAX_TEXT = 65535,
};

/* The file name of trees that are received: their lines are those of the file that the master read. */
#define RT_TREE_FILE "the master's run file"

/* Returns the bytes used, or 0 when they do not fit in room, or the tree has a text that is not valid UTF-8
 * or exceeds one of the limits. */
size_t rt_tree_encode(const struct rt_tree *tree, uint8_t *bytes, size_t room);

/* Reads all of bytes. The values' file name is `file`, borrowed. */
rt_status rt_tree_decode(const uint8_t *bytes, size_t count, const char *file, struct rt_tree **tree,
                         struct rt_error *err);

/* The same inside a message with other fields. The caller owns the result; NULL when reading failed. */
void rt_write_tree(struct rt_encoder *encoder, const struct rt_tree *tree);
struct rt_tree *rt_read_tree(struct rt_decoder *decoder, const char *file);

#endif
