/*
 * Counter-based random numbers (Philox 4x32-10). A number is a function of (seed, purpose, where it is used),
 * never of the device that computes it or of earlier draws, so a cluster of any shape draws the same ones.
 */
#ifndef RT_BASE_RNG_H
#define RT_BASE_RNG_H

#include <stdint.h>

enum rt_purpose {
    RT_PURPOSE_INIT = 1,
    RT_PURPOSE_SHUFFLE,
    RT_PURPOSE_DROPOUT,
    RT_PURPOSE_SPLIT,
    RT_PURPOSE_DELAY, /* of a frame, in a simulated network */
};

/* Four words for the counter (a, b) under (seed, purpose, stream). */
void rt_rng_block(uint64_t seed, enum rt_purpose purpose, uint32_t stream, uint64_t a, uint32_t b,
                  uint32_t out[4]);

/* A word to a float in [0, 1): 24 bits, exact. */
static inline float rt_rng_unit(uint32_t word) {
    return (float)(word >> 8) * 0x1p-24f;
}

/* A permutation of 0..n-1 for (seed, purpose, round), by Fisher-Yates. */
void rt_rng_shuffle(uint64_t seed, enum rt_purpose purpose, uint32_t round, uint32_t n, uint32_t *order);

#endif
