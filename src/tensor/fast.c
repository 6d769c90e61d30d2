/* OpenBLAS behind the table of kernels. Everything but the matrix product stays with the exact table. */
#include "tensor/fast.h"

#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* The C interface of BLAS, as far as we need it. */
enum { ROW_MAJOR = 101, NO_TRANSPOSE = 111, TRANSPOSE = 112 };
typedef void (*sgemm_function)(int order, int trans_a, int trans_b, int m, int n, int k, float alpha,
                               const float *a, int lda, const float *b, int ldb, float beta, float *c,
                               int ldc);

/* Loaded once for the process, read-only afterwards: a shared library is the process's, not an object's. */
static pthread_once_t load_once = PTHREAD_ONCE_INIT;
static sgemm_function sgemm;
static int (*set_own_threads)(int); /* for the calling thread; not in every version */
static const struct rt_kernels *exact_table;
static struct rt_kernels fast_table;
static char load_failure[200];

/* The description of a matrix for BLAS: as stored, or transposed; and the distance of its lines. */
struct layout {
    int trans, distance;
};

/* A matrix element (i, j) at i * row + j * col. BLAS requires one of the two steps to be 1 and the other at
 * least the length of a line; a step that is never taken, because there is only one row or column, may have
 * any value. False: BLAS cannot represent the layout. */
static bool fast_find_layout(size_t rows, size_t cols, size_t row, size_t col, struct layout *layout) {
    bool as_it_lies = (col == 1 || cols == 1) && (row >= cols || rows == 1);
    bool turned = (row == 1 || rows == 1) && (col >= rows || cols == 1);
    size_t step = as_it_lies ? row : col, line = as_it_lies ? cols : rows;
    size_t distance = step > line ? step : line;
    *layout = (struct layout){as_it_lies ? NO_TRANSPOSE : TRANSPOSE, (int)distance};
    return (as_it_lies || turned) && distance <= INT_MAX;
}

static void fast_gemm(const struct rt_gemm *g, void *scratch) {
    struct layout a, b;
    for (size_t q = 0; g->more_count > 0 && q <= g->more_count; q++) {
        const struct rt_gemm piece = rt_gemm_piece(g, q);
        fast_gemm(&piece, scratch);
    }
    if (g->more_count > 0)
        return;
    if (!fast_find_layout(g->m, g->k, g->a_row, g->a_col, &a) ||
        !fast_find_layout(g->k, g->n, g->b_row, g->b_col, &b) || g->c_row < g->n || g->c_row > INT_MAX ||
        g->m > INT_MAX) {
        exact_table->gemm(g, scratch);
        return;
    }
    if (!g->accumulate)
        for (size_t i = 0; i < g->m; i++) {
            if (g->bias)
                memcpy(g->c + i * g->c_row, g->bias, g->n * sizeof(float));
            else
                memset(g->c + i * g->c_row, 0, g->n * sizeof(float));
        }
    if (set_own_threads)
        set_own_threads(1);
    if (g->m && g->n && g->k)
        sgemm(ROW_MAJOR, a.trans, b.trans, (int)g->m, (int)g->n, (int)g->k, 1, g->a, a.distance, g->b,
              b.distance, 1, g->c, (int)g->c_row);
    if (g->act != RT_ACT_NONE)
        for (size_t i = 0; i < g->m; i++)
            fast_table.activate(g->act, g->act_arg, g->n, g->c + i * g->c_row, g->c + i * g->c_row);
}

static size_t fast_packs_nothing(size_t k, size_t n) {
    (void)k;
    (void)n;
    return 0;
}

static void fast_load(void) {
#if defined(__x86_64__)
    /* Debian's OpenBLAS does not know recent CPUs and would fall back to a kernel of a fifth of the speed. */
    __builtin_cpu_init();
    const char *core = __builtin_cpu_supports("avx512f") ? "SKYLAKEX"
                       : __builtin_cpu_supports("avx2")  ? "HASWELL"
                                                         : NULL;
    if (core)
        setenv("OPENBLAS_CORETYPE", core, 0);
#endif
    void *library = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
    if (library) {
        void *symbol = dlsym(library, "cblas_sgemm");
        memcpy(&sgemm, &symbol, sizeof sgemm);
        /* Our own pool divides the work, so BLAS must not: set per thread if possible, otherwise per
         * process. */
        symbol = dlsym(library, "openblas_set_num_threads_local");
        memcpy(&set_own_threads, &symbol, sizeof set_own_threads);
        void (*set_threads)(int);
        symbol = set_own_threads ? NULL : dlsym(library, "openblas_set_num_threads");
        memcpy(&set_threads, &symbol, sizeof set_threads);
        if (set_threads)
            set_threads(1);
    }
    if (!sgemm) {
        const char *reason = dlerror();
        strncpy(load_failure, reason ? reason : "no cblas_sgemm in it", sizeof load_failure - 1);
        return;
    }
    exact_table = rt_kernels_exact(NULL);
    fast_table = *exact_table;
    fast_table.name = "fast/openblas";
    fast_table.packed_floats = fast_packs_nothing;
    fast_table.gemm = fast_gemm;
}

rt_status rt_kernels_fast(const struct rt_kernels **table, struct rt_error *err) {
    pthread_once(&load_once, fast_load);
    if (!sgemm)
        return rt_fail(err, RT_BAD_INPUT,
                       "train.math: fast needs OpenBLAS (Debian: apt install libopenblas0-pthread): %s",
                       load_failure);
    *table = &fast_table;
    return RT_OK;
}
