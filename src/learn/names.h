/* Lists of names, of classes or columns, and their form as a JSON list in model files. */
#ifndef RT_LEARN_NAMES_H
#define RT_LEARN_NAMES_H

#include "base/status.h"

struct rt_names {
    char **items;
    size_t count;
}; /* owned */

rt_status rt_names_copy(const char *const *items, size_t count, struct rt_names *names, struct rt_error *err);
void rt_names_deinit(struct rt_names *names); /* a zeroed one is fine */

/* To be freed; NULL: a name is not UTF-8, or memory is short. */
char *rt_names_json(const struct rt_names *names);
/* Refuses anything but a list of texts with at least one. file and key: for messages. */
rt_status rt_names_parse(const char *json, const char *file, const char *key, struct rt_names *names,
                         struct rt_error *err);

#endif
