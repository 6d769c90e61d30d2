/* Files: mapped for reading, replaced atomically on writing. */
#ifndef RT_BASE_FILE_H
#define RT_BASE_FILE_H

#include "base/status.h"
#include <stdint.h>
#include <stdio.h>
#include <time.h>

/* A file mapped read-only. A change by another process shows here; access beyond the end of a file that was
 * cut short raises SIGBUS. */
struct rt_map {
    const uint8_t *data; /* NULL when the file is empty */
    size_t bytes;
    int file;                /* open as long as data is not NULL */
    struct timespec changed; /* when its content last changed, as of opening it */
};

rt_status rt_map_open(const char *path, struct rt_map *map, struct rt_error *err);
void rt_map_close(struct rt_map *map);
/* Copies bytes from `at` on; fails if the file was cut short. path: for the message. */
rt_status rt_map_read(const struct rt_map *map, const char *path, size_t at, void *buffer, size_t bytes,
                      struct rt_error *err);

/* A file that appears under its name only when it is complete: written beside it, fsynced, renamed. */
struct rt_writer {
    FILE *file;
    char *path, *temporary;
    uint64_t bytes, begun; /* written; of these, those that are on their way to the disk */
    bool synced;           /* all of them are there */
    rt_status status;      /* the first failure sticks, so callers may check once, in commit */
    struct rt_error first;
};

rt_status rt_writer_open(const char *path, struct rt_writer *writer, struct rt_error *err);
/* Readable by its owner only. */
rt_status rt_writer_open_private(const char *path, struct rt_writer *writer, struct rt_error *err);
void rt_writer_write(struct rt_writer *writer, const void *data, size_t bytes);
/* Overwrites bytes written before, from `offset` on. */
void rt_writer_amend(struct rt_writer *writer, uint64_t offset, const void *data, size_t bytes);
/* Syncs what was written to the disk; the file keeps its temporary name. Commit then only renames. */
rt_status rt_writer_sync(struct rt_writer *writer, struct rt_error *err);
rt_status rt_writer_commit(struct rt_writer *writer, struct rt_error *err); /* closes either way */
void rt_writer_abandon(struct rt_writer *writer);                           /* removes the temporary */

/* Removes temporary files of this path left by killed writers; those of active writers are locked and
 * stay. */
void rt_remove_temporaries(const char *path);

/* Makes a directory and its parents. made: false when it existed already; of several processes that try at
 * the same moment, one gets true. */
rt_status rt_claim_directory(const char *path, bool *made, struct rt_error *err);

/* The same, without made. */
rt_status rt_make_directory(const char *path, struct rt_error *err);

#endif
