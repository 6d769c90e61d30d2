/*
 * Numbers in bytes, little- and big-endian, written and read one byte at a time: no alignment is needed and
 * the machine's own byte order does not matter.
 */
#ifndef RT_BASE_BYTES_H
#define RT_BASE_BYTES_H

#include <stdint.h>

static inline uint16_t rt_get_le16(const uint8_t *p) {
    return (uint16_t)(p[0] | p[1] << 8);
}

static inline uint32_t rt_get_le32(const uint8_t *p) {
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static inline uint64_t rt_get_le64(const uint8_t *p) {
    return (uint64_t)rt_get_le32(p) | (uint64_t)rt_get_le32(p + 4) << 32;
}

static inline uint16_t rt_get_be16(const uint8_t *p) {
    return (uint16_t)(p[0] << 8 | p[1]);
}

static inline uint32_t rt_get_be32(const uint8_t *p) {
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | (uint32_t)p[3];
}

static inline uint64_t rt_get_be64(const uint8_t *p) {
    return (uint64_t)rt_get_be32(p) << 32 | (uint64_t)rt_get_be32(p + 4);
}

static inline void rt_put_le16(uint8_t *p, uint16_t value) {
    p[0] = (uint8_t)value;
    p[1] = (uint8_t)(value >> 8);
}

static inline void rt_put_le32(uint8_t *p, uint32_t value) {
    for (int i = 0; i < 4; i++)
        p[i] = (uint8_t)(value >> 8 * i);
}

static inline void rt_put_le64(uint8_t *p, uint64_t value) {
    for (int i = 0; i < 8; i++)
        p[i] = (uint8_t)(value >> 8 * i);
}

static inline void rt_put_be16(uint8_t *p, uint16_t value) {
    p[0] = (uint8_t)(value >> 8);
    p[1] = (uint8_t)value;
}

static inline void rt_put_be32(uint8_t *p, uint32_t value) {
    for (int i = 0; i < 4; i++)
        p[i] = (uint8_t)(value >> 8 * (3 - i));
}

static inline void rt_put_be64(uint8_t *p, uint64_t value) {
    for (int i = 0; i < 8; i++)
        p[i] = (uint8_t)(value >> 8 * (7 - i));
}

#endif
