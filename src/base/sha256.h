/* SHA-256 (FIPS 180-4). */
#ifndef RT_BASE_SHA256_H
#define RT_BASE_SHA256_H

#include <stddef.h>
#include <stdint.h>

struct rt_sha256 {
    void (*rounds)(uint32_t state[8], const uint8_t *blocks, size_t count); /* over blocks of 64 bytes */
    uint32_t state[8];
    uint64_t bytes;
    uint8_t tail[64];
};

void rt_sha256_init(struct rt_sha256 *hash);
void rt_sha256_add(struct rt_sha256 *hash, const void *data, size_t bytes);
void rt_sha256_finish(struct rt_sha256 *hash, uint8_t digest[32]);
void rt_sha256_hex(const uint8_t digest[32], char text[65]);

/* By the processor's instructions where it has them, else in portable C. */
void (*rt_sha256_choose_rounds(void))(uint32_t state[8], const uint8_t *blocks, size_t count);
void rt_sha256_rounds_portable(uint32_t state[8], const uint8_t *blocks, size_t count);

#endif
