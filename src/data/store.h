/*
 * Owns the memory of a data set: blocks and mapped files, all released when the set is closed, in whatever
 * state it is. And a buffer that grows, for tables of unknown length.
 */
#ifndef RT_DATA_STORE_H
#define RT_DATA_STORE_H

#include "base/file.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "arrays are used as they lie in little-endian files: this needs a little-endian machine"
#endif

struct rt_data_store {
    void **blocks;
    size_t block_count;
    struct rt_map *maps;
    size_t map_count;
};

rt_status rt_store_create(struct rt_data_store **store, struct rt_error *err);
void rt_store_destroy(struct rt_data_store *store); /* NULL is fine */

/* Takes over memory from malloc, also on failure. */
rt_status rt_store_keep(struct rt_data_store *store, void *block, struct rt_error *err);

/* Takes over a mapping, also on failure; *map is emptied. */
rt_status rt_store_keep_map(struct rt_data_store *store, struct rt_map *map, struct rt_error *err);

/* rt_alloc, kept by the store. */
rt_status rt_store_alloc(struct rt_data_store *store, size_t count, size_t size, const char *what,
                         void *pointer_to_pointer, struct rt_error *err);

/* Copies a list of names into one block of the store. */
rt_status rt_store_names(struct rt_data_store *store, const char *const *names, size_t count,
                         const char *const **copy, struct rt_error *err);

struct rt_buffer {
    void *data;
    size_t bytes, room;
};

/* Makes room for more bytes behind those in use and returns a pointer to it; the caller then adds to
 * bytes. */
rt_status rt_buffer_reserve(struct rt_buffer *buffer, size_t more, const char *what, void **place,
                            struct rt_error *err);
rt_status rt_buffer_add(struct rt_buffer *buffer, const void *data, size_t bytes, const char *what,
                        struct rt_error *err);
void rt_buffer_free(struct rt_buffer *buffer);

/* Hands the buffer's memory to the store and empties the buffer. *data is valid also for 0 bytes. */
rt_status rt_buffer_keep(struct rt_buffer *buffer, struct rt_data_store *store, const void **data,
                         struct rt_error *err);

#endif
