/*
 * One source, several instruction sets. Every file in this directory is compiled once per set, with RT_ISA
 * naming it (portable, avx2, avx512, neon); ISA(name) makes a global symbol of that set's own.
 *
 * Element-wise kernels are plain loops that the compiler vectorises. The matrix product needs its vectors
 * held in registers by hand: for it this header offers one vector type, `vec`, of VL floats, and the few
 * operations it is built from. All of them round as scalar code does, so every set gives the same bits.
 */
#ifndef RT_TENSOR_EXACT_ISA_H
#define RT_TENSOR_EXACT_ISA_H

#include "tensor/kernels.h"

#define RT_JOIN2(a, b) rt_##a##_##b
#define RT_JOIN(a, b)  RT_JOIN2(a, b)
#define ISA(name)      RT_JOIN(name, RT_ISA)

/* INLINE: a body that is copied for every set of constants it is called with. Under a sanitizer all calls
 * share one: dozens of copies with every access checked would take the compiler a minute per instruction set.
 */
#if defined(__has_feature)
#define HAS_SANITIZER (__has_feature(address_sanitizer) || __has_feature(thread_sanitizer))
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define HAS_SANITIZER 1
#else
#define HAS_SANITIZER 0
#endif
#if HAS_SANITIZER
#define INLINE static __attribute__((noinline))
#else
#define INLINE static inline __attribute__((always_inline))
#endif

#if defined(RT_ISA_avx512)
#include <immintrin.h>
#define VL 16
typedef __m512 vec;
static inline vec vec_load(const float *p) {
    return _mm512_loadu_ps(p);
}
static inline void vec_store(float *p, vec v) {
    _mm512_storeu_ps(p, v);
}
static inline vec vec_all(float x) {
    return _mm512_set1_ps(x);
}
static inline vec vec_fma(vec a, vec b, vec c) {
    return _mm512_fmadd_ps(a, b, c);
}
static inline vec vec_add(vec a, vec b) {
    return _mm512_add_ps(a, b);
}
static inline vec vec_sub(vec a, vec b) {
    return _mm512_sub_ps(a, b);
}
static inline vec vec_mul(vec a, vec b) {
    return _mm512_mul_ps(a, b);
}
/* x < 0 ? 0 : x. The instruction returns its second operand unless the first is greater: just that. */
static inline vec vec_relu(vec x) {
    return _mm512_max_ps(_mm512_setzero_ps(), x);
}
/* The lanes of two vectors in turn: a0 b0 a1 b1 ..., the first half in low, the second in high. */
static inline void vec_zip(vec a, vec b, vec *low, vec *high) {
    *low = __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    *high = __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
}
/* The first count lanes only (0 < count < VL); the others load as 0. */
#define HAS_PARTS 1
static inline vec vec_load_first(const float *p, size_t count) {
    return _mm512_maskz_loadu_ps((__mmask16)((1u << count) - 1), p);
}
static inline void vec_store_first(float *p, vec v, size_t count) {
    _mm512_mask_storeu_ps(p, (__mmask16)((1u << count) - 1), v);
}
#elif defined(RT_ISA_avx2)
#include <immintrin.h>
#define VL        8
typedef __m256 vec;
static inline vec vec_load(const float *p) {
    return _mm256_loadu_ps(p);
}
static inline void vec_store(float *p, vec v) {
    _mm256_storeu_ps(p, v);
}
static inline vec vec_all(float x) {
    return _mm256_set1_ps(x);
}
static inline vec vec_fma(vec a, vec b, vec c) {
    return _mm256_fmadd_ps(a, b, c);
}
static inline vec vec_add(vec a, vec b) {
    return _mm256_add_ps(a, b);
}
static inline vec vec_sub(vec a, vec b) {
    return _mm256_sub_ps(a, b);
}
static inline vec vec_mul(vec a, vec b) {
    return _mm256_mul_ps(a, b);
}
static inline vec vec_relu(vec x) {
    return _mm256_max_ps(_mm256_setzero_ps(), x);
}
static inline void vec_zip(vec a, vec b, vec *low, vec *high) {
    *low = __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11);
    *high = __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15);
}
#define HAS_PARTS 1
static inline vec vec_load_first(const float *p, size_t count) {
    static const int32_t ends[2 * VL] = {-1, -1, -1, -1, -1, -1, -1, -1};
    return _mm256_maskload_ps(p, _mm256_loadu_si256((const __m256i_u *)(ends + VL - count)));
}
/* By halves: a masked store is many times slower than plain ones on some CPUs. */
static inline void vec_store_first(float *p, vec v, size_t count) {
    __m128 part = _mm256_castps256_ps128(v);
    if (count & 4) {
        _mm_storeu_ps(p, part);
        part = _mm256_extractf128_ps(v, 1);
        p += 4;
    }
    if (count & 2) {
        _mm_storel_pi((__m64 *)p, part);
        part = _mm_movehl_ps(part, part);
        p += 2;
    }
    if (count & 1)
        _mm_store_ss(p, part);
}
#elif defined(RT_ISA_neon)
#include <arm_neon.h>
#define VL 4
typedef float32x4_t vec;
static inline vec vec_load(const float *p) {
    return vld1q_f32(p);
}
static inline void vec_store(float *p, vec v) {
    vst1q_f32(p, v);
}
static inline vec vec_all(float x) {
    return vdupq_n_f32(x);
}
static inline vec vec_fma(vec a, vec b, vec c) {
    return vfmaq_f32(c, a, b);
}
static inline vec vec_add(vec a, vec b) {
    return vaddq_f32(a, b);
}
static inline vec vec_sub(vec a, vec b) {
    return vsubq_f32(a, b);
}
static inline vec vec_mul(vec a, vec b) {
    return vmulq_f32(a, b);
}
/* Not vmaxq: it treats -0 and NaN in its own way. */
static inline vec vec_relu(vec x) {
    return vbslq_f32(vcltq_f32(x, vdupq_n_f32(0)), vdupq_n_f32(0), x);
}
static inline void vec_zip(vec a, vec b, vec *low, vec *high) {
    *low = vzip1q_f32(a, b);
    *high = vzip2q_f32(a, b);
}
#else
#define VL 4
typedef struct vec {
    float lane[VL];
} vec;
static inline vec vec_load(const float *p) {
    vec v;
    for (int l = 0; l < VL; l++)
        v.lane[l] = p[l];
    return v;
}
static inline void vec_store(float *p, vec v) {
    for (int l = 0; l < VL; l++)
        p[l] = v.lane[l];
}
static inline vec vec_all(float x) {
    vec v;
    for (int l = 0; l < VL; l++)
        v.lane[l] = x;
    return v;
}
static inline vec vec_fma(vec a, vec b, vec c) {
    for (int l = 0; l < VL; l++)
        c.lane[l] = __builtin_fmaf(a.lane[l], b.lane[l], c.lane[l]);
    return c;
}
static inline vec vec_add(vec a, vec b) {
    for (int l = 0; l < VL; l++)
        a.lane[l] += b.lane[l];
    return a;
}
static inline vec vec_sub(vec a, vec b) {
    for (int l = 0; l < VL; l++)
        a.lane[l] -= b.lane[l];
    return a;
}
static inline vec vec_mul(vec a, vec b) {
    for (int l = 0; l < VL; l++)
        a.lane[l] *= b.lane[l];
    return a;
}
static inline vec vec_relu(vec x) {
    for (int l = 0; l < VL; l++)
        x.lane[l] = x.lane[l] < 0 ? 0 : x.lane[l];
    return x;
}
static inline void vec_zip(vec a, vec b, vec *low, vec *high) {
    *low = (vec){{a.lane[0], b.lane[0], a.lane[1], b.lane[1]}};
    *high = (vec){{a.lane[2], b.lane[2], a.lane[3], b.lane[3]}};
}
#endif

#ifndef HAS_PARTS
static inline vec vec_load_first(const float *p, size_t count) {
    float lanes[VL] = {0};
    for (size_t l = 0; l < count; l++)
        lanes[l] = p[l];
    return vec_load(lanes);
}
static inline void vec_store_first(float *p, vec v, size_t count) {
    float lanes[VL];
    vec_store(lanes, v);
    for (size_t l = 0; l < count; l++)
        p[l] = lanes[l];
}
#endif

/* A panel is two vectors wide; a tile is at most TILE_ROWS rows of one panel, all of it in registers. */
#define PANEL (2 * VL)
#if defined(RT_ISA_avx512)
#define TILE_ROWS 14
#elif defined(RT_ISA_avx2)
#define TILE_ROWS 6
#elif defined(RT_ISA_neon)
#define TILE_ROWS 8
#else
#define TILE_ROWS 4
#endif

/* products: gemm.c, pack.c */
size_t ISA(packed_floats)(size_t k, size_t n);
void ISA(pack)(size_t k, size_t n0, size_t n1, size_t n, const float *b, size_t b_row, size_t b_col,
               float *packed);
void ISA(gemm)(const struct rt_gemm *g, void *scratch);

/* single examples: descend.c */
void ISA(descend)(const struct rt_descent *descent, size_t rows, size_t n, const float *left,
                  const float *right, const float *next, float *sums);

/* convolution: conv.c, conv_weights.c */
size_t ISA(conv_scratch)(const struct rt_conv *conv);
size_t ISA(conv_prepared)(const struct rt_conv *conv, bool input_gradient);
void ISA(conv_prepare)(const struct rt_conv *conv, const float *w, bool input_gradient, float *prepared);
void ISA(conv_forward)(const struct rt_conv *conv, size_t images, const float *x, const float *w,
                       const float *prepared, const float *bias, enum rt_activation act, float act_arg,
                       float *y, void *scratch);
void ISA(conv_input)(const struct rt_conv *conv, size_t images, const float *dy, const float *w,
                     const float *prepared, float *dx, void *scratch);
void ISA(conv_weights)(const struct rt_conv *conv, size_t images, size_t first, size_t count, const float *x,
                       const float *dy, bool accumulate, float *dw, float *db, void *scratch);

/* element by element: elementwise.c */
void ISA(activate)(enum rt_activation act, float arg, size_t n, const float *x, float *y);
void ISA(activate_back)(enum rt_activation act, float arg, size_t n, const float *x, const float *y,
                        const float *dy, float *dx);
void ISA(add)(size_t n, const float *x, float *y);
void ISA(dropout)(size_t n, uint64_t seed, uint32_t layer, uint32_t epoch, uint32_t example,
                  uint32_t threshold, float factor, const float *x, float *y);
void ISA(from_bytes)(size_t n, const uint8_t *x, float factor, float offset, float *y);

/* rows: rows.c, softmax.c */
float ISA(sum16)(size_t n, const float *x);
float ISA(dot16)(size_t n, const float *x, const float *y);
double ISA(square_sum)(size_t n, const float *x);
void ISA(column_sum)(size_t rows, size_t n, const float *x, bool accumulate, float *acc);
void ISA(column_dot)(size_t rows, size_t n, const float *a, const float *b, bool accumulate, float *acc);
void ISA(softmax)(size_t rows, size_t n, const float *x, float *y);
void ISA(softmax_back)(size_t rows, size_t n, const float *y, const float *dy, float *dx);
void ISA(softmax_loss)(size_t rows, size_t n, const float *x, const int32_t *labels, float scale, float *loss,
                       float *dx);
void ISA(norm_rows)(size_t rows, size_t n, const float *x, const float *gamma, const float *beta, float eps,
                    float *y, float *moments);
void ISA(norm_rows_back)(size_t rows, size_t n, const float *x, const float *gamma, const float *moments,
                         const float *dy, float *dx);
void ISA(norm_rows_xhat)(size_t rows, size_t n, const float *x, const float *moments, float *xhat);

/* pooling: pooling.c */
void ISA(maxpool)(const struct rt_window *w, size_t images, const float *x, float *y, int32_t *where);
void ISA(maxpool_back)(const struct rt_window *w, size_t images, const float *dy, const int32_t *where,
                       float *dx);
void ISA(avgpool)(const struct rt_window *w, size_t images, const float *x, float *y);
void ISA(avgpool_back)(const struct rt_window *w, size_t images, const float *dy, float *dx);

#endif
