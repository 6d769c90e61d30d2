/*
 * For tests that compare two tables of kernels: memory that is given back all at once, numbers to try, and
 * pairs of outputs, one for each table, that must become the same bits.
 */
#ifndef RT_TEST_KERNEL_CHECK_H
#define RT_TEST_KERNEL_CHECK_H

#include "support/test.h"
#include "tensor/kernels.h"

/* Memory of just this size, so that a sanitizer sees every step outside; kept until kc_release. */
void *kc_take(size_t bytes);
void kc_release(void);

/* The same memory for scratch: filled with NaN, aligned to cache lines. */
void *kc_scratch(size_t bytes);

/* Numbers of many magnitudes, most near 1; the same for the same seed. */
float *kc_numbers(size_t n, uint32_t seed);

/* The same with NaN, infinities, zeros of both signs, denormals and repeated small numbers among them. */
float *kc_specials(size_t n, uint32_t seed);

/* Two outputs of n floats with the same content; in_place: that of source, else numbers that must be
 * overwritten or, by kernels that add, taken into account. A few more floats lie behind to be left alone. */
struct kc_pair {
    size_t n;
    float *want, *got;
};

struct kc_pair kc_pair_create(size_t n, const float *source);

/* Fails the test, with the sentence of where, unless both hold the same bits (any NaN equals any other). */
void kc_pair_compare(const struct kc_pair *pair, const char *where, ...) RT_PRINTF(2, 3);

/* The number of activations: all from RT_ACT_NONE to RT_ACT_GELU. */
enum { KC_ACTS = RT_ACT_GELU + 1 };

/* Convolutions to try, and their sizes in floats for one image. */
extern const size_t kc_conv_count;
struct rt_conv kc_conv(size_t index);
size_t kc_conv_in(const struct rt_conv *conv);
size_t kc_conv_out(const struct rt_conv *conv);
size_t kc_conv_weight_count(const struct rt_conv *conv);

/* Each compares what it names, on many shapes, with the reference. */
void kc_check_gemm(const struct rt_kernels *kernels);
void kc_check_gemm_pieces(const struct rt_kernels *kernels); /* k in pieces */
void kc_check_conv_forward(const struct rt_kernels *kernels);
void kc_check_conv_input(const struct rt_kernels *kernels);
void kc_check_conv_weights(const struct rt_kernels *kernels);

#endif
