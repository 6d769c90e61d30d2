/*
 * A device: a table of kernels and the threads that run it. Layers call these functions, which cut the work
 * over the threads; how it is cut never changes a bit.
 */
#ifndef RT_TENSOR_DEVICE_H
#define RT_TENSOR_DEVICE_H

#include "base/pool.h"
#include "tensor/kernels.h"

struct rt_device {
    const struct rt_kernels *kernels;
    struct rt_pool *pool;
};

enum rt_math { RT_MATH_EXACT, RT_MATH_FAST, RT_MATH_REFERENCE };

/* kernels: "auto" or the name of an instruction set, for RT_MATH_EXACT. threads 0: all cores. */
rt_status rt_device_open(enum rt_math math, const char *kernels, size_t threads, struct rt_device *device,
                         struct rt_error *err);
void rt_device_close(struct rt_device *device);

/* Runs body(argument, begin, end, scratch) over 0..n cut at multiples of grain, one part per thread at most;
 * inline when n <= grain. */
typedef void (*rt_range_work)(void *argument, size_t begin, size_t end, void *scratch);
void rt_device_split(const struct rt_device *device, size_t n, size_t grain, rt_range_work body,
                     void *argument);

void rt_gemm(const struct rt_device *device, const struct rt_gemm *g);
void rt_pack(const struct rt_device *device, size_t k, size_t n, const float *b, size_t b_row, size_t b_col,
             float *packed);
void rt_activate(const struct rt_device *device, enum rt_activation act, float arg, size_t n, const float *x,
                 float *y);
void rt_activate_back(const struct rt_device *device, enum rt_activation act, float arg, size_t n,
                      const float *x, const float *y, const float *dy, float *dx);

#endif
