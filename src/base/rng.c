/* Philox 4x32 with ten rounds (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011). */
#include "base/rng.h"

static void philox(uint32_t counter[4], uint32_t key0, uint32_t key1) {
    for (int round = 0; round < 10; round++) {
        uint64_t left = (uint64_t)0xD2511F53u * counter[0];
        uint64_t right = (uint64_t)0xCD9E8D57u * counter[2];
        uint32_t next[4] = {(uint32_t)(right >> 32) ^ counter[1] ^ key0, (uint32_t)right,
                            (uint32_t)(left >> 32) ^ counter[3] ^ key1, (uint32_t)left};
        for (int i = 0; i < 4; i++)
            counter[i] = next[i];
        key0 += 0x9E3779B9u;
        key1 += 0xBB67AE85u;
    }
}

void rt_rng_block(uint64_t seed, enum rt_purpose purpose, uint32_t stream, uint64_t a, uint32_t b,
                  uint32_t out[4]) {
    out[0] = (uint32_t)a;
    out[1] = (uint32_t)(a >> 32);
    out[2] = b;
    out[3] = stream;
    philox(out, (uint32_t)seed, (uint32_t)(seed >> 32) ^ ((uint32_t)purpose << 24));
}

void rt_rng_shuffle(uint64_t seed, enum rt_purpose purpose, uint32_t round, uint32_t n, uint32_t *order) {
    for (uint32_t i = 0; i < n; i++)
        order[i] = i;
    /* j = random 64 bits * i / 2^64, so the bias is under n / 2^64. */
    for (uint32_t i = n; i > 1; i--) {
        uint32_t word[4];
        rt_rng_block(seed, purpose, round, i, 0, word);
        uint64_t wide = (uint64_t)word[1] * i + (((uint64_t)word[0] * i) >> 32);
        uint32_t j = (uint32_t)(wide >> 32);
        uint32_t keep = order[i - 1];
        order[i - 1] = order[j];
        order[j] = keep;
    }
}
