/* SHA-256 as FIPS 180-4 defines it, in portable C: it identifies parameters, data and checkpoints, so it must
 * be available on every machine, without a crypto library. */
#include "base/sha256.h"

#include "base/hex.h"

#include <string.h>

/* The first 32 bits of the fractional parts of the cube roots of the first 64 primes. */
static const uint32_t round_constant[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static inline uint32_t sha256_rotate(uint32_t x, unsigned bits) {
    return x >> bits | x << (32 - bits);
}

static inline uint32_t sha256_load_big_endian(const uint8_t *p) {
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | (uint32_t)p[3];
}

static void sha256_block(uint32_t state[8], const uint8_t block[64]) {
    uint32_t w[64];
    for (size_t i = 0; i < 16; i++)
        w[i] = sha256_load_big_endian(block + 4 * i);
    for (size_t i = 16; i < 64; i++) {
        uint32_t s0 = sha256_rotate(w[i - 15], 7) ^ sha256_rotate(w[i - 15], 18) ^ w[i - 15] >> 3;
        uint32_t s1 = sha256_rotate(w[i - 2], 17) ^ sha256_rotate(w[i - 2], 19) ^ w[i - 2] >> 10;
        w[i] = w[i - 16] + s0 + w[i - 7] + s1;
    }
    uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
    uint32_t e = state[4], f = state[5], g = state[6], h = state[7];
    for (size_t i = 0; i < 64; i++) {
        uint32_t choose = (e & f) ^ (~e & g);
        uint32_t majority = (a & b) ^ (a & c) ^ (b & c);
        uint32_t t1 = h + (sha256_rotate(e, 6) ^ sha256_rotate(e, 11) ^ sha256_rotate(e, 25)) + choose +
                      round_constant[i] + w[i];
        uint32_t t2 = (sha256_rotate(a, 2) ^ sha256_rotate(a, 13) ^ sha256_rotate(a, 22)) + majority;
        h = g, g = f, f = e, e = d + t1;
        d = c, c = b, b = a, a = t1 + t2;
    }
    state[0] += a, state[1] += b, state[2] += c, state[3] += d;
    state[4] += e, state[5] += f, state[6] += g, state[7] += h;
}

void rt_sha256_init(struct rt_sha256 *hash) {
    static const uint32_t start[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    memcpy(hash->state, start, sizeof start);
    hash->bytes = 0;
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
        sha256_block(hash->state, hash->tail);
    }
    for (; bytes >= 64; next += 64, bytes -= 64)
        sha256_block(hash->state, next);
    if (bytes)
        memcpy(hash->tail, next, bytes);
}

void rt_sha256_finish(struct rt_sha256 *hash, uint8_t digest[32]) {
    uint64_t bits = hash->bytes * 8;
    size_t held = (size_t)(hash->bytes % 64);
    hash->tail[held++] = 0x80;
    if (held > 56) {
        memset(hash->tail + held, 0, 64 - held);
        sha256_block(hash->state, hash->tail);
        held = 0;
    }
    memset(hash->tail + held, 0, 56 - held);
    for (size_t i = 0; i < 8; i++)
        hash->tail[56 + i] = (uint8_t)(bits >> (56 - 8 * i));
    sha256_block(hash->state, hash->tail);
    for (size_t i = 0; i < 32; i++)
        digest[i] = (uint8_t)(hash->state[i / 4] >> (24 - 8 * (i % 4)));
}

void rt_sha256_hex(const uint8_t digest[32], char text[65]) {
    rt_hex_write(digest, 32, text);
    text[64] = 0;
}
