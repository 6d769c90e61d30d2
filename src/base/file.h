/* Files: mapped for reading, replaced atomically on writing. */
#ifndef RT_BASE_FILE_H
#define RT_BASE_FILE_H

#include "base/status.h"
#include <stdint.h>
#include <stdio.h>

/* A file mapped read-only. */
struct rt_map {
    const uint8_t *data; /* NULL when the file is empty */
    size_t bytes;
};

rt_status rt_map_open(const char *path, struct rt_map *map, struct rt_error *err);
void rt_map_close(struct rt_map *map);

/* A file that appears under its name only when it is complete: written beside it, fsynced, renamed. */
struct rt_writer {
    FILE *file;
    char *path, *temporary;
    uint64_t bytes;
    rt_status status; /* the first failure sticks, so callers may check once, in commit */
    struct rt_error first;
};

rt_status rt_writer_open(const char *path, struct rt_writer *writer, struct rt_error *err);
void rt_writer_write(struct rt_writer *writer, const void *data, size_t bytes);
rt_status rt_writer_commit(struct rt_writer *writer, struct rt_error *err); /* closes either way */
void rt_writer_abandon(struct rt_writer *writer);                           /* removes the temporary */

/* Makes a directory and its parents; an existing one is fine. */
rt_status rt_make_directory(const char *path, struct rt_error *err);

#endif
