/*
 * A fast checksum for files of our own that may be many gigabytes: it finds damage, not forgery. Any change
 * within one 8-byte word is found for certain, others but for one in 2^64.
 */
#ifndef RT_DATA_CHECKSUM_H
#define RT_DATA_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>

enum { RT_CHECKSUM_BLOCK = 32 };

/* Starts as zeros. */
struct rt_checksum {
    uint64_t lanes[4];
    uint64_t bytes;
    uint8_t rest[RT_CHECKSUM_BLOCK]; /* the last bytes % RT_CHECKSUM_BLOCK */
};

/* Adds data in pieces of any size. */
void rt_checksum_add(struct rt_checksum *sum, const void *data, size_t bytes);
uint64_t rt_checksum_value(const struct rt_checksum *sum);

#endif
