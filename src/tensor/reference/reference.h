/*
 * The reference kernels: the contract of tensor/kernels.h written out as plain loops, to be read and to be
 * compared with. Nothing here is fast and nothing is clever; speed belongs into tensor/exact.
 */
#ifndef RT_TENSOR_REFERENCE_REFERENCE_H
#define RT_TENSOR_REFERENCE_REFERENCE_H

#include "tensor/kernels.h"

/* one activation of one number */
float rt_reference_act(enum rt_activation act, float arg, float x);

/* products.c */
size_t rt_reference_packed_floats(size_t k, size_t n);
void rt_reference_pack(size_t k, size_t n0, size_t n1, size_t n, const float *b, size_t b_row, size_t b_col,
                       float *packed);
void rt_reference_gemm(const struct rt_gemm *g, void *scratch);

/* descend.c */
void rt_reference_descend(const struct rt_descent *descent, size_t rows, size_t n, const float *left,
                          const float *right, const float *next, float *sums);

/* convolution.c */
size_t rt_reference_conv_scratch(const struct rt_conv *conv);
size_t rt_reference_conv_prepared(const struct rt_conv *conv, bool input_gradient);
void rt_reference_conv_prepare(const struct rt_conv *conv, const float *w, bool input_gradient,
                               float *prepared);
void rt_reference_conv_forward(const struct rt_conv *conv, size_t images, const float *x, const float *w,
                               const float *prepared, const float *bias, enum rt_activation act,
                               float act_arg, float *y, void *scratch);
void rt_reference_conv_input(const struct rt_conv *conv, size_t images, const float *dy, const float *w,
                             const float *prepared, float *dx, void *scratch);
void rt_reference_conv_weights(const struct rt_conv *conv, size_t images, size_t first, size_t count,
                               const float *x, const float *dy, bool accumulate, float *dw, float *db,
                               void *scratch);

/* elementwise.c */
void rt_reference_activate(enum rt_activation act, float arg, size_t n, const float *x, float *y);
void rt_reference_activate_back(enum rt_activation act, float arg, size_t n, const float *x, const float *y,
                                const float *dy, float *dx);
void rt_reference_add(size_t n, const float *x, float *y);
void rt_reference_dropout(size_t n, uint64_t seed, uint32_t layer, uint32_t epoch, uint32_t example,
                          uint32_t threshold, float factor, const float *x, float *y);
void rt_reference_from_bytes(size_t n, const uint8_t *x, float factor, float offset, float *y);

/* rows.c */
float rt_reference_sum16(size_t n, const float *x);
float rt_reference_dot16(size_t n, const float *x, const float *y);
double rt_reference_square_sum(size_t n, const float *x);
void rt_reference_column_sum(size_t rows, size_t n, const float *x, bool accumulate, float *acc);
void rt_reference_column_dot(size_t rows, size_t n, const float *a, const float *b, bool accumulate,
                             float *acc);
void rt_reference_softmax(size_t rows, size_t n, const float *x, float *y);
void rt_reference_softmax_back(size_t rows, size_t n, const float *y, const float *dy, float *dx);
void rt_reference_softmax_loss(size_t rows, size_t n, const float *x, const int32_t *labels, float scale,
                               float *loss, float *dx);
void rt_reference_norm_rows(size_t rows, size_t n, const float *x, const float *gamma, const float *beta,
                            float eps, float *y, float *moments);
void rt_reference_norm_rows_back(size_t rows, size_t n, const float *x, const float *gamma,
                                 const float *moments, const float *dy, float *dx);
void rt_reference_norm_rows_xhat(size_t rows, size_t n, const float *x, const float *moments, float *xhat);

/* pooling.c */
void rt_reference_maxpool(const struct rt_window *w, size_t images, const float *x, float *y, int32_t *where);
void rt_reference_maxpool_back(const struct rt_window *w, size_t images, const float *dy,
                               const int32_t *where, float *dx);
void rt_reference_avgpool(const struct rt_window *w, size_t images, const float *x, float *y);
void rt_reference_avgpool_back(const struct rt_window *w, size_t images, const float *dy, float *dx);

#endif
