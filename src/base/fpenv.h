/*
 * The floating-point environment of a thread: rounding to nearest, denormals kept, no traps. An embedding
 * program may have chosen another, and a thread inherits that of its creator; every result would then have
 * other bits. So all computation runs between enter and leave, and each thread of the library enters once.
 */
#ifndef RT_BASE_FPENV_H
#define RT_BASE_FPENV_H

#include <fenv.h>

/* Saves the caller's environment in *theirs and sets the one that exact results need. */
static inline void rt_fp_enter(fenv_t *theirs) {
    fegetenv(theirs);
    fesetenv(FE_DFL_ENV);
}

static inline void rt_fp_leave(const fenv_t *theirs) {
    fesetenv(theirs);
}

#endif
