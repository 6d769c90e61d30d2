/* CRC-32C (Castagnoli): finds what was changed on the way by accident. Not a protection against people. */
#ifndef RT_BASE_CRC32C_H
#define RT_BASE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* Of data in pieces: start with 0 and pass on what came out. Uses the CPU's own instruction where it has one.
 */
uint32_t rt_crc32c(uint32_t crc, const void *data, size_t bytes);

/* The same without it: for other CPUs, and to compare with. */
uint32_t rt_crc32c_table(uint32_t crc, const void *data, size_t bytes);

#endif
