/*
 * Layout of a cache file: 64 bytes with a mark, the inputs, the labels (each from a multiple of 64 on), the
 * class names, and a footer that says what is there. The footer comes last because the number of examples is
 * known last; it carries the key, the length of the whole file, a checksum of all before it and a hash of
 * itself, so torn and altered files show.
 */
#include "data/cache.h"

#include "base/bytes.h"
#include "base/memory.h"
#include "base/sha256.h"
#include "data/store.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { FRONT = 64, FOOTER = 192, FOOTER_HASHED = FOOTER - 32 };
static const char front_mark[8] = "RTDATA2\n", footer_mark[8] = "RTFOOT2\n";

/* Fields of the footer, 8 bytes each after the mark and the key. */
enum {
    AT_KEY = 8,
    AT_TOTAL = 40,
    AT_TYPE = 48,
    AT_RANK = 56,
    AT_DIM = 64,
    AT_COUNT = 96,
    AT_HAS_CLASSES = 104,
    AT_CLASS_COUNT = 112,
    AT_VALUE_WIDTH = 120,
    AT_NAME_BYTES = 128,
    AT_CHECKSUM = 136,
};

static char *cache_default_directory(void) {
    const char *base = getenv("XDG_CACHE_HOME"), *tail = "/ringtmp";
    if (!base || !*base) {
        base = getenv("HOME");
        tail = "/.cache/ringtmp";
    }
    if (!base || !*base)
        return NULL;
    size_t room = strlen(base) + strlen(tail) + 1;
    char *path = malloc(room);
    if (path)
        snprintf(path, room, "%s%s", base, tail);
    return path;
}

static void cache_hash_text(struct rt_sha256 *hash, const char *text) {
    rt_sha256_add(hash, text, strlen(text) + 1);
}

/* Adds one file to the name of the cache file (place) and to the key (its contents). Size and time are those
 * of the file that was opened, even if its name refers to another file by now. */
static rt_status cache_hash_file(const struct rt_input *file, struct rt_sha256 *place, struct rt_sha256 *key,
                                 struct rt_error *err) {
    char *full = realpath(file->name, NULL);
    if (!full)
        return rt_fail(err, RT_BAD_INPUT, "%s: %s", file->name, strerror(errno));
    uint8_t facts[24];
    rt_put_le64(facts, file->map.bytes);
    rt_put_le64(facts + 8, (uint64_t)file->map.changed.tv_sec);
    rt_put_le64(facts + 16, (uint64_t)file->map.changed.tv_nsec);
    cache_hash_text(place, full);
    cache_hash_text(key, full);
    rt_sha256_add(key, facts, sizeof facts);
    free(full);
    return RT_OK;
}

rt_status rt_cache_locate(const struct rt_data_wish *wish, const struct rt_input *const *files,
                          size_t file_count, const char *options, struct rt_cache *cache,
                          struct rt_error *err) {
    *cache = (struct rt_cache){0};
    struct rt_sha256 place, key;
    rt_sha256_init(&place);
    rt_sha256_init(&key);
    cache_hash_text(&place, options);
    cache_hash_text(&key, options);
    rt_status status = RT_OK;
    for (size_t i = 0; i < file_count && status == RT_OK; i++)
        status = cache_hash_file(files[i], &place, &key, err);
    if (status != RT_OK)
        return status;
    uint8_t digest[32];
    char hex[65];
    rt_sha256_finish(&place, digest);
    rt_sha256_finish(&key, cache->key);
    rt_sha256_hex(digest, hex);

    char *directory = wish->cache_dir ? strdup(wish->cache_dir) : cache_default_directory();
    if (!directory)
        return rt_fail(
            err, RT_BAD_INPUT,
            "%s: is large and needs a place for its converted form: set data.cache_dir (HOME is not set)",
            files[0]->name);
    const char *slash = strrchr(files[0]->name, '/'), *base = slash ? slash + 1 : files[0]->name;
    size_t room = strlen(directory) + 80;
    cache->path = malloc(room);
    if (cache->path)
        snprintf(cache->path, room, "%s/%.40s-%.16s.rtdata", directory, base, hex);
    free(directory);
    return cache->path ? RT_OK : rt_fail(err, RT_NO_MEMORY, "not enough memory for a data set");
}

void rt_cache_close(struct rt_cache *cache) {
    if (cache->writing)
        rt_writer_abandon(&cache->writer);
    free(cache->path);
    *cache = (struct rt_cache){0};
}

/* ---- reading ------------------------------------------------------------------------------------------- */

/* Steps *at past count * size bytes, rounded up to unit; false when that would leave the file. */
static bool cache_step(size_t *at, uint64_t count, uint64_t size, size_t unit, size_t end) {
    if (size && count > end / size)
        return false;
    size_t bytes = rt_round_up((size_t)(count * size), unit);
    if (bytes > end - *at)
        return false;
    *at += bytes;
    return true;
}

static bool cache_load_names(const uint8_t *text, size_t bytes, size_t count, struct rt_dataset *set) {
    const char **names;
    if (bytes == 0 || text[bytes - 1] != 0)
        return false;
    if (rt_store_alloc(set->store, count, sizeof *names, "class names", &names, NULL) != RT_OK)
        return false;
    size_t found = 0;
    for (size_t i = 0; i < bytes && found < count; i += strlen((const char *)text + i) + 1)
        names[found++] = (const char *)text + i;
    set->class_names = names;
    return found == count;
}

/* Whether the file is a complete cache with this key. The cheap checks come first. */
static bool cache_is_whole(const uint8_t *file, size_t bytes, const uint8_t key[32]) {
    if (bytes < FRONT + FOOTER || memcmp(file, front_mark, sizeof front_mark) != 0)
        return false;
    const uint8_t *footer = file + bytes - FOOTER;
    struct rt_sha256 hash;
    uint8_t digest[32];
    rt_sha256_init(&hash);
    rt_sha256_add(&hash, footer, FOOTER_HASHED);
    rt_sha256_finish(&hash, digest);
    if (memcmp(footer, footer_mark, sizeof footer_mark) != 0 || memcmp(footer + AT_KEY, key, 32) != 0 ||
        memcmp(footer + FOOTER_HASHED, digest, 32) != 0 || rt_get_le64(footer + AT_TOTAL) != bytes)
        return false;
    struct rt_checksum sum = {0};
    rt_checksum_add(&sum, file, bytes - FOOTER);
    return rt_checksum_value(&sum) == rt_get_le64(footer + AT_CHECKSUM);
}

bool rt_cache_parse(const uint8_t *file, size_t bytes, struct rt_dataset *set) {
    if (bytes < FRONT + FOOTER)
        return false;
    const uint8_t *footer = file + bytes - FOOTER;
    uint64_t type = rt_get_le64(footer + AT_TYPE), rank = rt_get_le64(footer + AT_RANK);
    uint64_t count = rt_get_le64(footer + AT_COUNT), class_count = rt_get_le64(footer + AT_CLASS_COUNT);
    uint64_t has_classes = rt_get_le64(footer + AT_HAS_CLASSES), width = rt_get_le64(footer + AT_VALUE_WIDTH);
    uint64_t name_bytes = rt_get_le64(footer + AT_NAME_BYTES);
    if (type > RT_DATA_I64 || rank > RT_MAX_RANK || count == 0 || count > UINT32_MAX || class_count > bytes)
        return false;
    size_t end = bytes - FOOTER, at = FRONT;
    uint64_t size = rt_data_type_bytes((enum rt_data_type)type);
    set->shape.rank = (size_t)rank;
    for (size_t i = 0; i < rank; i++) {
        uint64_t dim = rt_get_le64(footer + AT_DIM + 8 * i);
        if (dim == 0 || dim > bytes / size)
            return false;
        size *= dim;
        set->shape.dim[i] = (size_t)dim;
    }
    set->type = (enum rt_data_type)type;
    set->count = (size_t)count;
    set->inputs = file + at;
    if (!cache_step(&at, count, size, FRONT, end))
        return false;
    set->class_count = (size_t)class_count;
    set->value_width = (size_t)width;
    if (has_classes) {
        const int32_t *classes = (const int32_t *)(const void *)(file + at);
        if (!cache_step(&at, count, sizeof *classes, FRONT, end))
            return false;
        for (size_t i = 0; i < count; i++)
            if (classes[i] < 0 || (uint64_t)classes[i] >= class_count)
                return false;
        set->classes = classes;
    }
    if (width) {
        set->values = (const float *)(const void *)(file + at);
        if (width > end / sizeof(float) || !cache_step(&at, count, width * sizeof(float), FRONT, end))
            return false;
    }
    if (name_bytes != end - at)
        return false;
    return name_bytes == 0 || cache_load_names(file + at, (size_t)name_bytes, (size_t)class_count, set);
}

bool rt_cache_load(const struct rt_cache *cache, struct rt_dataset *set) {
    struct rt_map map;
    if (rt_map_open(cache->path, &map, NULL) != RT_OK)
        return false;
    struct rt_dataset found = {.store = set->store, .name = set->name};
    if (!cache_is_whole(map.data, map.bytes, cache->key) || !rt_cache_parse(map.data, map.bytes, &found)) {
        rt_map_close(&map);
        return false;
    }
    if (rt_store_keep_map(set->store, &map, NULL) != RT_OK)
        return false;
    *set = found;
    return true;
}

/* ---- writing ------------------------------------------------------------------------------------------- */

static rt_status cache_explain(const struct rt_cache *cache, rt_status status, struct rt_error *err) {
    return rt_fail_prefix(
        err, status,
        "the converted data cannot be kept in %s (data.cache_dir names another place, a larger "
        "data.cache_above keeps the data in memory)",
        cache->path);
}

/* Writes and updates the checksum. */
static void cache_put(struct rt_cache *cache, const void *data, size_t bytes) {
    rt_writer_write(&cache->writer, data, bytes);
    rt_checksum_add(&cache->sum, data, bytes);
}

rt_status rt_cache_begin(struct rt_cache *cache, struct rt_error *err) {
    char *slash = strrchr(cache->path, '/');
    *slash = 0;
    rt_status status = slash == cache->path ? RT_OK : rt_make_directory(cache->path, err);
    *slash = '/';
    if (status == RT_OK)
        rt_remove_temporaries(cache->path); /* they may be large */
    if (status == RT_OK)
        status = rt_writer_open(cache->path, &cache->writer, err);
    if (status != RT_OK)
        return cache_explain(cache, status, err);
    cache->writing = true;
    cache->sum = (struct rt_checksum){0};
    uint8_t front[FRONT] = {0};
    memcpy(front, front_mark, sizeof front_mark);
    cache_put(cache, front, sizeof front);
    return RT_OK;
}

rt_status rt_cache_add(struct rt_cache *cache, const void *inputs, size_t bytes, struct rt_error *err) {
    cache_put(cache, inputs, bytes);
    if (cache->writer.status == RT_OK)
        return RT_OK;
    rt_fail(err, cache->writer.status, "%s", cache->writer.first.text);
    return cache_explain(cache, cache->writer.status, err);
}

static void cache_pad(struct rt_cache *cache) {
    static const uint8_t zeros[FRONT];
    size_t bytes = (size_t)cache->writer.bytes;
    cache_put(cache, zeros, rt_round_up(bytes, FRONT) - bytes);
}

rt_status rt_cache_finish(struct rt_cache *cache, const struct rt_dataset *set, struct rt_error *err) {
    struct rt_writer *writer = &cache->writer;
    cache_pad(cache);
    if (set->classes) {
        cache_put(cache, set->classes, set->count * sizeof *set->classes);
        cache_pad(cache);
    }
    if (set->values) {
        cache_put(cache, set->values, set->count * set->value_width * sizeof *set->values);
        cache_pad(cache);
    }
    uint64_t names_at = writer->bytes;
    for (size_t i = 0; set->class_names && i < set->class_count; i++)
        cache_put(cache, set->class_names[i], strlen(set->class_names[i]) + 1);

    uint8_t footer[FOOTER] = {0};
    memcpy(footer, footer_mark, sizeof footer_mark);
    memcpy(footer + AT_KEY, cache->key, 32);
    rt_put_le64(footer + AT_TOTAL, writer->bytes + FOOTER);
    rt_put_le64(footer + AT_TYPE, (uint64_t)set->type);
    rt_put_le64(footer + AT_RANK, set->shape.rank);
    for (size_t i = 0; i < set->shape.rank; i++)
        rt_put_le64(footer + AT_DIM + 8 * i, set->shape.dim[i]);
    rt_put_le64(footer + AT_COUNT, set->count);
    rt_put_le64(footer + AT_HAS_CLASSES, set->classes != NULL);
    rt_put_le64(footer + AT_CLASS_COUNT, set->class_count);
    rt_put_le64(footer + AT_VALUE_WIDTH, set->values ? set->value_width : 0);
    rt_put_le64(footer + AT_NAME_BYTES, writer->bytes - names_at);
    rt_put_le64(footer + AT_CHECKSUM, rt_checksum_value(&cache->sum));
    struct rt_sha256 hash;
    rt_sha256_init(&hash);
    rt_sha256_add(&hash, footer, FOOTER_HASHED);
    rt_sha256_finish(&hash, footer + FOOTER_HASHED);
    rt_writer_write(writer, footer, FOOTER);
    cache->writing = false;
    rt_status status = rt_writer_commit(writer, err);
    return status == RT_OK ? RT_OK : cache_explain(cache, status, err);
}
