/* YAML text to a tree. Anchors, aliases, tags and several documents are refused; so are duplicate keys. */
#ifndef RT_FORMATS_YAML_H
#define RT_FORMATS_YAML_H

#include "base/tree.h"

/* name: for messages; borrowed by the tree. Limits: 16 MiB of text, depth 32, 100,000 nodes, 1,000 keys in a
 * map, 200 bytes in a key. */
rt_status rt_yaml_parse(const char *text, size_t bytes, const char *name, struct rt_tree **tree,
                        struct rt_error *err);
rt_status rt_yaml_load(const char *path, struct rt_tree **tree,
                       struct rt_error *err); /* path outlives the tree */
/* Whether the file begins as a model file (safetensors) does, which rt_yaml_load refuses. */
bool rt_yaml_is_model(const char *path);

/* One value, as after --set: blank text is an empty scalar, and there are no line numbers. */
rt_status rt_yaml_value(const char *text, const char *name, struct rt_tree **tree, struct rt_error *err);

#endif
