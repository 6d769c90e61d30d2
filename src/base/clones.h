/*
 * RT_CLONES: compile a function once for each vector width and choose at run time. For loops that go over
 * memory element by element, outside the kernel tables.
 *
 * Why it is safe for exact results: the compiler may widen such a loop but not change it. Each element is
 * computed by the same +, -, *, / and sqrt, which every instruction set rounds correctly, and
 * -ffp-contract=off keeps it from joining a product and a sum into one rounding although the wider sets
 * could. tests/unit/optim/test_optim.c compares the bits.
 *
 * The choice is made by the loader (an ifunc), before a sanitizer's run-time library is ready, and only
 * glibc's loader does it: elsewhere the plain version is used.
 */
#ifndef RT_BASE_CLONES_H
#define RT_BASE_CLONES_H

#include <stdlib.h> /* defines __GLIBC__ where it applies */

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && defined(__GLIBC__) &&                 \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define RT_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define RT_CLONES
#endif

#endif
