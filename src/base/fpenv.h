/*
 * The floating-point environment of a thread: rounding to nearest, denormals kept, nothing trapped. A program
 * that embeds us may have chosen another, and threads inherit it from whoever starts them; every result would
 * then have other bits. So all that computes runs between enter and leave, and a thread of ours enters once.
 */
#ifndef RT_BASE_FPENV_H
#define RT_BASE_FPENV_H

#include <fenv.h>

/* Keeps the caller's environment in *theirs and sets the one that the bits need. */
static inline void rt_fp_enter(fenv_t *theirs) {
    fegetenv(theirs);
    fesetenv(FE_DFL_ENV);
}

static inline void rt_fp_leave(const fenv_t *theirs) {
    fesetenv(theirs);
}

#endif
