/* Memory for what is seldom read: ordinary memory, or a file without a name that the system may write back to
 * the disk whenever it needs the pages. */
#ifndef RT_BASE_FILE_MEMORY_H
#define RT_BASE_FILE_MEMORY_H

#include "base/status.h"
#include <stdbool.h>
#include <stddef.h>

struct rt_file_memory {
    void *bytes; /* page-aligned, zeroed; NULL: none */
    size_t count;
};

/* on_disk: the room on the disk is taken at once, in $TMPDIR or /var/tmp, so that a full disk is an error
 * here and not later. count may be 0. */
rt_status rt_file_memory_create(size_t count, bool on_disk, const char *what, struct rt_file_memory *memory,
                                struct rt_error *err);
void rt_file_memory_destroy(struct rt_file_memory *memory); /* a zeroed one is fine */

#endif
