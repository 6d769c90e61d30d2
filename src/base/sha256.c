/* SHA-256 as FIPS 180-4 defines it: it identifies parameters, data and checkpoints, so it must be available
 * on every machine, without a crypto library. The rounds are in sha256_rounds.c. */
#include "base/sha256.h"

#include "base/hex.h"

#include <string.h>

void rt_sha256_init(struct rt_sha256 *hash) {
    static const uint32_t start[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    memcpy(hash->state, start, sizeof start);
    hash->bytes = 0;
    hash->rounds = rt_sha256_choose_rounds();
}

void rt_sha256_add(struct rt_sha256 *hash, const void *data, size_t bytes) {
    if (bytes == 0)
        return;
    const uint8_t *next = data;
    size_t held = (size_t)(hash->bytes % 64);
    hash->bytes += bytes;
    if (held) {
        size_t take = bytes < 64 - held ? bytes : 64 - held;
        memcpy(hash->tail + held, next, take);
        next += take;
        bytes -= take;
        if (held + take < 64)
            return;
        hash->rounds(hash->state, hash->tail, 1);
    }
    hash->rounds(hash->state, next, bytes / 64);
    if (bytes % 64)
        memcpy(hash->tail, next + bytes / 64 * 64, bytes % 64);
}

void rt_sha256_finish(struct rt_sha256 *hash, uint8_t digest[32]) {
    uint64_t bits = hash->bytes * 8;
    size_t held = (size_t)(hash->bytes % 64);
    hash->tail[held++] = 0x80;
    if (held > 56) {
        memset(hash->tail + held, 0, 64 - held);
        hash->rounds(hash->state, hash->tail, 1);
        held = 0;
    }
    memset(hash->tail + held, 0, 56 - held);
    for (size_t i = 0; i < 8; i++)
        hash->tail[56 + i] = (uint8_t)(bits >> (56 - 8 * i));
    hash->rounds(hash->state, hash->tail, 1);
    for (size_t i = 0; i < 32; i++)
        digest[i] = (uint8_t)(hash->state[i / 4] >> (24 - 8 * (i % 4)));
}

void rt_sha256_hex(const uint8_t digest[32], char text[65]) {
    rt_hex_write(digest, 32, text);
    text[64] = 0;
}
