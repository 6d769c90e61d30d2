/* Divides work over the threads of a device. */
#include "tensor/device.h"

#include "base/cores.h"
#include "tensor/fast.h"

rt_status rt_device_open(enum rt_math math, const char *kernels, size_t threads, struct rt_device *device,
                         struct rt_error *err) {
    const struct rt_kernels *table = &rt_kernels_reference;
    if (math != RT_MATH_REFERENCE) {
        table = rt_kernels_exact(kernels);
        if (!table)
            return rt_fail(err, RT_BAD_INPUT, "this CPU cannot run the kernels '%s'; use train.kernels: auto",
                           kernels);
    }
    if (math == RT_MATH_FAST) {
        rt_status status = rt_kernels_fast(&table, err);
        if (status != RT_OK)
            return status;
    }
    if (threads == 0)
        threads = rt_cores_usable();
    struct rt_pool *pool;
    rt_status status = rt_pool_create(threads, table->gemm_scratch, &pool, err);
    if (status != RT_OK)
        return status;
    *device = (struct rt_device){.kernels = table, .pool = pool};
    return RT_OK;
}

void rt_device_close(struct rt_device *device) {
    rt_pool_destroy(device->pool);
    *device = (struct rt_device){0};
}

struct split {
    size_t n, part_size;
    rt_range_work body;
    void *argument;
};

static void device_split_part(void *argument, size_t part, void *scratch) {
    const struct split *split = argument;
    size_t begin = part * split->part_size;
    size_t end = begin + split->part_size < split->n ? begin + split->part_size : split->n;
    split->body(split->argument, begin, end, scratch);
}

void rt_device_split(const struct rt_device *device, size_t n, size_t grain, rt_range_work body,
                     void *argument) {
    if (n == 0)
        return;
    size_t threads = rt_pool_threads(device->pool);
    size_t grains = (n + grain - 1) / grain;
    size_t parts = grains < threads ? grains : threads;
    struct split split = {n, (grains + parts - 1) / parts * grain, body, argument};
    rt_pool_run(device->pool, (n + split.part_size - 1) / split.part_size, device_split_part, &split);
}

/* ---- products ---------------------------------------------------------------------------------------------
 */

struct gemm_job {
    const struct rt_kernels *kernels;
    const struct rt_gemm *g;
};

static void device_gemm_columns(void *argument, size_t begin, size_t end, void *scratch) {
    const struct gemm_job *job = argument;
    struct rt_gemm part = *job->g;
    part.n = end - begin;
    part.b = part.b ? part.b + begin * part.b_col : NULL;
    part.b_packed = part.b_packed ? part.b_packed + begin * part.k : NULL;
    part.c += begin;
    part.bias = part.bias ? part.bias + begin : NULL;
    job->kernels->gemm(&part, scratch);
}

static void device_gemm_rows(void *argument, size_t begin, size_t end, void *scratch) {
    const struct gemm_job *job = argument;
    struct rt_gemm part = *job->g;
    part.m = end - begin;
    part.a += begin * part.a_row;
    part.c += begin * part.c_row;
    job->kernels->gemm(&part, scratch);
}

/* Below this many multiplications a second thread costs more than it brings. */
enum { WORK_FOR_A_THREAD = 100000 };

static void device_split_gemm(const struct rt_device *device, const struct rt_gemm *g) {
    struct gemm_job job = {device->kernels, g};
    size_t panel = device->kernels->panel ? device->kernels->panel : 16;
    size_t column_work = g->m * g->k, row_work = g->n * g->k;
    if (g->n >= g->m) {
        size_t grain = WORK_FOR_A_THREAD / (column_work + 1) + 1;
        rt_device_split(device, g->n, (grain + panel - 1) / panel * panel, device_gemm_columns, &job);
    } else {
        rt_device_split(device, g->m, WORK_FOR_A_THREAD / (row_work + 1) + 1, device_gemm_rows, &job);
    }
}

void rt_gemm(const struct rt_device *device, const struct rt_gemm *g) {
    for (size_t q = 0; q <= g->more_count; q++) {
        const struct rt_gemm piece = rt_gemm_piece(g, q);
        device_split_gemm(device, &piece);
    }
}

struct pack_job {
    const struct rt_kernels *kernels;
    size_t k, n;
    const float *b;
    size_t b_row, b_col;
    float *packed;
};

static void device_pack_columns(void *argument, size_t begin, size_t end, void *scratch) {
    (void)scratch;
    const struct pack_job *job = argument;
    job->kernels->pack(job->k, begin, end, job->n, job->b, job->b_row, job->b_col, job->packed);
}

void rt_pack(const struct rt_device *device, size_t k, size_t n, const float *b, size_t b_row, size_t b_col,
             float *packed) {
    struct pack_job job = {device->kernels, k, n, b, b_row, b_col, packed};
    size_t panel = device->kernels->panel;
    size_t grain = WORK_FOR_A_THREAD / (k + 1) + 1;
    rt_device_split(device, n, (grain + panel - 1) / panel * panel, device_pack_columns, &job);
}

/* ---- activations ------------------------------------------------------------------------------------------
 */

struct activation_job {
    const struct rt_kernels *kernels;
    enum rt_activation act;
    float arg;
    const float *x, *y, *dy;
    float *out;
};

enum { ELEMENTS_FOR_A_THREAD = 16384 };

static void device_activate_range(void *argument, size_t begin, size_t end, void *scratch) {
    (void)scratch;
    const struct activation_job *job = argument;
    job->kernels->activate(job->act, job->arg, end - begin, job->x + begin, job->out + begin);
}

void rt_activate(const struct rt_device *device, enum rt_activation act, float arg, size_t n, const float *x,
                 float *y) {
    struct activation_job job = {.kernels = device->kernels, .act = act, .arg = arg, .x = x, .out = y};
    rt_device_split(device, n, ELEMENTS_FOR_A_THREAD, device_activate_range, &job);
}

static void device_activate_back_range(void *argument, size_t begin, size_t end, void *scratch) {
    (void)scratch;
    const struct activation_job *job = argument;
    job->kernels->activate_back(job->act, job->arg, end - begin, job->x ? job->x + begin : NULL,
                                job->y + begin, job->dy + begin, job->out + begin);
}

void rt_activate_back(const struct rt_device *device, enum rt_activation act, float arg, size_t n,
                      const float *x, const float *y, const float *dy, float *dx) {
    struct activation_job job = {
        .kernels = device->kernels, .act = act, .arg = arg, .x = x, .y = y, .dy = dy, .out = dx};
    rt_device_split(device, n, ELEMENTS_FOR_A_THREAD, device_activate_back_range, &job);
}
