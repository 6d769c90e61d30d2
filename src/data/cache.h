/*
 * The cache of converted data files. A .gz or CSV file that is too large to be held in memory is converted
 * once into a file that can be mapped. It belongs to the original's path, size and time, and to the options
 * it was read with: when one of these has changed, or the cache is damaged, it is made again. A checksum over
 * all of it tells; it is compared whenever a cache is opened, which reads the file once.
 */
#ifndef RT_DATA_CACHE_H
#define RT_DATA_CACHE_H

#include "base/file.h"
#include "data/checksum.h"
#include "data/dataset.h"
#include "data/input.h"

struct rt_cache {
    char *path;
    uint8_t key[32]; /* what it must be a conversion of */
    bool writing;
    struct rt_writer writer;
    struct rt_checksum sum; /* of what has been written */
};

/* Finds the name and the key of the cache for these files (which are open), read with these options. */
rt_status rt_cache_locate(const struct rt_data_wish *wish, const struct rt_input *const *files,
                          size_t file_count, const char *options, struct rt_cache *cache,
                          struct rt_error *err);
void rt_cache_close(struct rt_cache *cache); /* gives up what is being written */

/* Fills in the set (whose store is there) from the cache; false when there is none that fits. */
bool rt_cache_load(const struct rt_cache *cache, struct rt_dataset *set);

/* Points the set (whose store exists) into the bytes of a cache file, which the caller keeps; false when they
 * are inconsistent. Completeness and key are checked by rt_cache_load. */
bool rt_cache_parse(const uint8_t *file, size_t bytes, struct rt_dataset *set);

/* Writing: begin, the inputs in pieces, finish with the rest of the set (its inputs are not read). */
rt_status rt_cache_begin(struct rt_cache *cache, struct rt_error *err);
rt_status rt_cache_add(struct rt_cache *cache, const void *inputs, size_t bytes, struct rt_error *err);
rt_status rt_cache_finish(struct rt_cache *cache, const struct rt_dataset *set, struct rt_error *err);

#endif
