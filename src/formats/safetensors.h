/*
 * safetensors: named arrays behind a JSON header. Written layer by layer, read through a mapping. A file is
 * never trusted: header size, keys, types, shapes and offsets are checked, and holes and overlaps refused.
 */
#ifndef RT_FORMATS_SAFETENSORS_H
#define RT_FORMATS_SAFETENSORS_H

#include "base/file.h"
#include "tensor/shape.h"

/* The largest header that is written or read. A tensor takes about 11 values and 100 bytes of it. */
enum { RT_MAX_HEADER = 16 << 20, RT_MAX_HEADER_VALUES = 1 << 19 };

/* Whether the depth and the number of values of a header are possible: checked on its text before memory is
 * allocated, because a few bytes of JSON can take a hundred times as much memory. */
bool rt_tensors_header_fits(const char *text, size_t bytes);

struct rt_tensor_entry {
    char *name;
    struct rt_shape shape;
    uint64_t offset, bytes; /* in the data part; float32 */
};

/* ---- writing: declare everything, then stream the data in the same order ---- */
struct rt_tensors_out;
rt_status rt_tensors_out_create(const char *path, struct rt_tensors_out **out, struct rt_error *err);
rt_status rt_tensors_out_meta(struct rt_tensors_out *out, const char *key, const char *value,
                              struct rt_error *err);
/* Replaces the value RT_HASH_TO_COME of a key by the 64 digits of a hash: the data may be written before
 * their hash is known. */
#define RT_HASH_TO_COME "0000000000000000000000000000000000000000000000000000000000000000"
rt_status rt_tensors_out_amend(struct rt_tensors_out *out, const char *key, const char hex[65],
                               struct rt_error *err);
/* rt_tensors_hash of the header, with all replacements. */
rt_status rt_tensors_out_hash(struct rt_tensors_out *out, const char *const *keys, char hex[65],
                              struct rt_error *err);
rt_status rt_tensors_out_declare(struct rt_tensors_out *out, const char *name, const struct rt_shape *shape,
                                 struct rt_error *err);
/* Data of the declared tensors, one after another, in any pieces. */
rt_status rt_tensors_out_write(struct rt_tensors_out *out, const float *data, size_t count,
                               struct rt_error *err);
/* Checks that all data were written and syncs the file; it still has a temporary name. */
rt_status rt_tensors_out_sync(struct rt_tensors_out *out, struct rt_error *err);
/* Renames the file to its path (atomically) and frees out, also on failure. */
rt_status rt_tensors_out_commit(struct rt_tensors_out *out, struct rt_error *err);
void rt_tensors_out_abandon(struct rt_tensors_out *out);

/* ---- reading ---- */
struct rt_tensors {
    char *name;                      /* of the file, for messages */
    struct rt_map map;               /* of an opened file */
    struct rt_tensor_entry *entries; /* sorted by offset */
    size_t count;
    char **meta_keys, **meta_values;
    size_t meta_count;
    const uint8_t *data; /* start of the data part */
};

rt_status rt_tensors_open(const char *path, struct rt_tensors *tensors, struct rt_error *err);
/* The same on bytes in memory (fuzzing); name for messages. The caller keeps the bytes. */
rt_status rt_tensors_parse(const uint8_t *bytes, size_t count, const char *name, struct rt_tensors *tensors,
                           struct rt_error *err);
/* A header alone, whose data would have so many bytes; tensors->data is NULL. */
rt_status rt_tensors_parse_header(const char *text, size_t bytes, uint64_t data_bytes, const char *name,
                                  struct rt_tensors *tensors, struct rt_error *err);
void rt_tensors_close(struct rt_tensors *tensors);
const char *rt_tensors_meta(const struct rt_tensors *tensors, const char *key); /* NULL if absent */
/* SHA-256 over the description of a file: of the metadata with the given keys (NULL-terminated, in this
 * order, missing ones skipped) as key NUL value NUL; then of every tensor, sorted by name, name NUL "F32" NUL
 * and its dimensions, each as decimal digits with a comma behind it, NUL. Other keys and the order of the
 * tensors in the file do not matter. */
rt_status rt_tensors_hash(const struct rt_tensors *tensors, const char *const *keys, char hex[65],
                          struct rt_error *err);
/* Copies a tensor; fails if the name is missing or the shape differs. */
rt_status rt_tensors_read(const struct rt_tensors *tensors, const char *name, const struct rt_shape *shape,
                          float *data, struct rt_error *err);

#endif
