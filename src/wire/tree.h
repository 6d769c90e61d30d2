/* A configuration tree as bytes: how a node learns the model and how it is trained. Lines and keys travel
 * along, so that a message about a layer names the same line as on the master. */
#ifndef RT_WIRE_TREE_H
#define RT_WIRE_TREE_H

#include "base/tree.h"
#include "wire/bytes.h"

/* Keys: of one map, few enough that comparing each with all before it takes no time worth naming. */
enum {
    RT_TREE_MAX_DEPTH = 64,
    RT_TREE_MAX_VALUES = 1 << 18,
    RT_TREE_MAX_KEYS = 1000,
    RT_TREE_MAX_TEXT = 65535,
};

/* The file name of trees that come in a message: their lines are those of the file that the master read. */
#define RT_TREE_FILE "the master's run file"

/* Returns the bytes used, or 0 when they do not fit in room, or the tree has a text that is no UTF-8 or is
 * above one of the limits. */
size_t rt_tree_encode(const struct rt_tree *tree, uint8_t *bytes, size_t room);

/* Takes the whole of bytes. The values' file name is `file`, borrowed. */
rt_status rt_tree_decode(const uint8_t *bytes, size_t count, const char *file, struct rt_tree **tree,
                         struct rt_error *err);

/* The same inside a message with other fields. What is read is the caller's; NULL when reading failed. */
void rt_write_tree(struct rt_encoder *encoder, const struct rt_tree *tree);
struct rt_tree *rt_read_tree(struct rt_decoder *decoder, const char *file);

#endif
