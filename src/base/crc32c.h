/* CRC-32C (Castagnoli): detects accidental changes. Not a protection against tampering. */
#ifndef RT_BASE_CRC32C_H
#define RT_BASE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* For data in pieces: start with 0 and pass on the result. Uses the CPU's instruction where it has one. */
uint32_t rt_crc32c(uint32_t crc, const void *data, size_t bytes);

/* The same without the instruction: for other CPUs, and to compare with. */
uint32_t rt_crc32c_table(uint32_t crc, const void *data, size_t bytes);

#endif
