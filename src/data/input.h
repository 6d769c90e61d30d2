/*
 * The bytes of a data file, plain or gzip-compressed, read from front to back. Its first bytes tell whether
 * it is compressed, not its name.
 */
#ifndef RT_DATA_INPUT_H
#define RT_DATA_INPUT_H

#include "base/file.h"

struct rt_input {
    const char *name;    /* for messages; borrowed */
    struct rt_map map;   /* the file as it is; empty when the bytes are the caller's */
    const uint8_t *data; /* the bytes as they are; of a file they are read, not looked at through the map */
    size_t bytes;
    size_t at;             /* of data, how many are used up */
    uint64_t given;        /* bytes handed out, uncompressed */
    struct rt_inflate *gz; /* NULL: plain */
};

rt_status rt_input_open(const char *path, struct rt_input *input, struct rt_error *err);
rt_status rt_input_memory(const uint8_t *data, size_t bytes, const char *name, struct rt_input *input,
                          struct rt_error *err);
void rt_input_close(struct rt_input *input);

/* Reads size bytes, or fewer at the end (*got). A compressed file that is cut short, altered, or followed by
 * other data is an error with the offset. */
rt_status rt_input_read(struct rt_input *input, void *buffer, size_t size, size_t *got, struct rt_error *err);

/* An upper bound of the bytes in the whole input: an impossible size in a header is refused before memory is
 * allocated. */
uint64_t rt_input_limit(const struct rt_input *input);

#endif
