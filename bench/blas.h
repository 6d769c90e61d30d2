/* The other side of the product benchmark: a BLAS found at run time, each product by its fastest call. */
#ifndef RT_BENCH_BLAS_H
#define RT_BENCH_BLAS_H

#include <stdbool.h>
#include <stddef.h>

/* C[m][n] = op(A) op(B), all row-major and dense. Turned: A is stored [k][m], B is stored [n][k]. */
struct product {
    size_t m, n, k;
    bool a_turned, b_turned;
    const float *a, *b;
    float *c;
};

typedef void (*sgemm_fn)(int, int, int, int, int, int, float, const float *, int, const float *, int, float,
                         float *, int);
typedef void (*sgemv_fn)(int, int, int, int, float, const float *, int, const float *, int, float, float *,
                         int);
typedef void (*sger_fn)(int, int, int, float, const float *, int, const float *, int, float *, int);

struct blas {
    sgemm_fn gemm;
    sgemv_fn gemv;
    sger_fn ger;
    char name[200];
};

/* False, with a line on stderr, when there is no such library. It stays loaded. */
bool blas_open(const char *path, struct blas *blas);

/* A row times a matrix may go by sgemv, a column times a row by sger: ways beyond the first. */
int blas_ways(const struct product *p);
void blas_run(const struct blas *blas, int strategy, const struct product *p);

#endif
