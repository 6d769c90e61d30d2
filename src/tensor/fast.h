/*
 * --math fast: matrix products by OpenBLAS, found at run time. Fast on some machines, but its bits depend on
 * the CPU, the number of rows and its version: results agree with exact ones within rounding only.
 */
#ifndef RT_TENSOR_FAST_H
#define RT_TENSOR_FAST_H

#include "base/status.h"
#include "tensor/kernels.h"

/* The best exact table with its product replaced. */
rt_status rt_kernels_fast(const struct rt_kernels **table, struct rt_error *err);

#endif
