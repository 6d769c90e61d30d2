/*
 * --math fast: matrix products by OpenBLAS, found at run time. Fast on some machines, but its bits depend on
 * the CPU, the number of rows and its version: results agree with exact ones within rounding only.
 */
#ifndef RT_TENSOR_FAST_H
#define RT_TENSOR_FAST_H

#include "base/status.h"
#include "tensor/kernels.h"

/*
 * The best exact table with its product replaced. What the first call changes in the process, for all its
 * life: OpenBLAS is loaded; it is told to use one thread (for our threads only where it has
 * openblas_set_num_threads_local, otherwise for all users of the same library); and OPENBLAS_CORETYPE is set
 * in the environment on x86, unless it was there already. As setenv is not safe while other threads read the
 * environment, a host with such threads sets the variable itself.
 */
rt_status rt_kernels_fast(const struct rt_kernels **table, struct rt_error *err);

#endif
