/*
 * The rounds of SHA-256 three ways: the instructions of x86-64 and of 64-bit ARM, which take a fifth of the
 * time where a processor has them, and portable C. With the instructions a checkpoint's hash is not what
 * training waits for.
 */
#include "base/sha256.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#elif defined(__aarch64__) && defined(__linux__) && !defined(__clang__)
#include <arm_neon.h>
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

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

void rt_sha256_rounds_portable(uint32_t state[8], const uint8_t *blocks, size_t count) {
    for (size_t i = 0; i < count; i++)
        sha256_block(state, blocks + 64 * i);
}

#if defined(__x86_64__)

static int sha256_has_instructions(void) {
    unsigned a, b = 0, c, d;
    return __builtin_cpu_supports("sse4.1") && __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & bit_SHA);
}

/* Two rounds take their two words from the lower half of a register. */
#define SHA256_FOUR_ROUNDS(abef, cdgh, words)                                                                \
    do {                                                                                                     \
        (cdgh) = _mm_sha256rnds2_epu32(cdgh, abef, words);                                                   \
        (abef) = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(words, 0x0e));                          \
    } while (0)

/* The instructions want the state as f, e, b, a and h, g, d, c. */
__attribute__((target("sha,sse4.1"))) static void by_instructions(uint32_t state[8], const uint8_t *blocks,
                                                                  size_t count) {
    const __m128i big_endian = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
    const __m128i dcba = _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)(const void *)state), 0x1b);
    const __m128i hgfe = _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)(const void *)(state + 4)), 0x1b);
    __m128i abef = _mm_unpackhi_epi64(hgfe, dcba), cdgh = _mm_unpacklo_epi64(hgfe, dcba);
    for (; count > 0; count--, blocks += 64) {
        const __m128i abef_before = abef, cdgh_before = cdgh;
        __m128i w[4];
        for (size_t i = 0; i < 16; i++) { /* four rounds; w has the last 16 words */
            __m128i *next = &w[i % 4];
            if (i < 4) {
                *next = _mm_loadu_si128((const __m128i *)(const void *)(blocks + 16 * i));
                *next = _mm_shuffle_epi8(*next, big_endian);
            } else {
                const __m128i last = w[(i + 3) % 4];
                *next = _mm_sha256msg1_epu32(*next, w[(i + 1) % 4]);
                *next = _mm_add_epi32(*next, _mm_alignr_epi8(last, w[(i + 2) % 4], 4));
                *next = _mm_sha256msg2_epu32(*next, last);
            }
            const __m128i constants =
                _mm_loadu_si128((const __m128i *)(const void *)(round_constant + 4 * i));
            const __m128i words = _mm_add_epi32(*next, constants);
            SHA256_FOUR_ROUNDS(abef, cdgh, words);
        }
        abef = _mm_add_epi32(abef, abef_before);
        cdgh = _mm_add_epi32(cdgh, cdgh_before);
    }
    _mm_storeu_si128((__m128i *)(void *)state, _mm_shuffle_epi32(_mm_unpackhi_epi64(cdgh, abef), 0x1b));
    _mm_storeu_si128((__m128i *)(void *)(state + 4), _mm_shuffle_epi32(_mm_unpacklo_epi64(cdgh, abef), 0x1b));
}

#elif defined(__aarch64__) && defined(__linux__) && !defined(__clang__)

static int sha256_has_instructions(void) {
    return (getauxval(AT_HWCAP) & HWCAP_SHA2) != 0;
}

__attribute__((target("+crypto"))) static void by_instructions(uint32_t state[8], const uint8_t *blocks,
                                                               size_t count) {
    uint32x4_t abcd = vld1q_u32(state), efgh = vld1q_u32(state + 4);
    for (; count > 0; count--, blocks += 64) {
        const uint32x4_t abcd_before = abcd, efgh_before = efgh;
        uint32x4_t w[4];
        for (size_t i = 0; i < 16; i++) { /* four rounds; w has the last 16 words */
            uint32x4_t *next = &w[i % 4];
            if (i < 4)
                *next = vreinterpretq_u32_u8(vrev32q_u8(vld1q_u8(blocks + 16 * i)));
            else
                *next =
                    vsha256su1q_u32(vsha256su0q_u32(*next, w[(i + 1) % 4]), w[(i + 2) % 4], w[(i + 3) % 4]);
            const uint32x4_t words = vaddq_u32(*next, vld1q_u32(round_constant + 4 * i)), first = abcd;
            abcd = vsha256hq_u32(abcd, efgh, words);
            efgh = vsha256h2q_u32(efgh, first, words);
        }
        abcd = vaddq_u32(abcd, abcd_before);
        efgh = vaddq_u32(efgh, efgh_before);
    }
    vst1q_u32(state, abcd);
    vst1q_u32(state + 4, efgh);
}

#else

#define by_instructions rt_sha256_rounds_portable

static int sha256_has_instructions(void) {
    return 0;
}

#endif

void (*rt_sha256_choose_rounds(void))(uint32_t state[8], const uint8_t *blocks, size_t count) {
    return sha256_has_instructions() ? by_instructions : rt_sha256_rounds_portable;
}
