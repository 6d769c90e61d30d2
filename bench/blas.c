/*
 * OpenBLAS, MKL or any other library with the C interface of the BLAS, loaded at run time, so that the
 * benchmark builds without one.
 */
#include "blas.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

enum { ROW_MAJOR = 101, PLAIN = 111, TURNED = 112 };

/* ISO C has no cast from an object pointer to a function; POSIX says the bytes are the same. */
static bool find(void *library, const char *symbol, void *function) {
    void *address = dlsym(library, symbol);
    memcpy(function, &address, sizeof address);
    return address != NULL;
}

bool blas_open(const char *path, struct blas *blas) {
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library || !find(library, "cblas_sgemm", &blas->gemm) ||
        !find(library, "cblas_sgemv", &blas->gemv) || !find(library, "cblas_sger", &blas->ger)) {
        fprintf(stderr, "no BLAS to compare with: %s\n", dlerror());
        return false;
    }
    char *(*config)(void), *(*core)(void);
    if (find(library, "openblas_get_config", &config) && find(library, "openblas_get_corename", &core)) {
        char version[100];
        snprintf(version, sizeof version, "%s", config());
        char *space = strchr(version, ' ');
        space = space ? strchr(space + 1, ' ') : NULL; /* "OpenBLAS 0.3.21 ..." */
        if (space)
            *space = 0;
        snprintf(blas->name, sizeof blas->name, "%s %s", version, core());
    } else {
        snprintf(blas->name, sizeof blas->name, "%s", strstr(path, "mkl") ? "MKL" : path);
    }
    return true;
}

int blas_ways(const struct product *p) {
    return p->m == 1 || p->k == 1 ? 2 : 1;
}

void blas_run(const struct blas *blas, int strategy, const struct product *p) {
    int m = (int)p->m, n = (int)p->n, k = (int)p->k;
    if (strategy == 0) {
        blas->gemm(ROW_MAJOR, p->a_turned ? TURNED : PLAIN, p->b_turned ? TURNED : PLAIN, m, n, k, 1, p->a,
                   p->a_turned ? m : k, p->b, p->b_turned ? k : n, 0, p->c, n);
    } else if (m == 1) {
        blas->gemv(ROW_MAJOR, p->b_turned ? PLAIN : TURNED, p->b_turned ? n : k, p->b_turned ? k : n, 1, p->b,
                   p->b_turned ? k : n, p->a, 1, 0, p->c, 1);
    } else {
        memset(p->c, 0, p->m * p->n * sizeof *p->c);
        blas->ger(ROW_MAJOR, m, n, 1, p->a, 1, p->b, 1, p->c, n);
    }
}
