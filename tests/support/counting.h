/*
 * An allocator that counts, in place of the C library's: for a test program that includes this. Where it
 * cannot be replaced, need_counting() skips the test.
 */
#ifndef RT_TEST_COUNTING_H
#define RT_TEST_COUNTING_H

#include "support/test.h"
#include <errno.h>
#include <malloc.h>
#include <stdatomic.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define COUNTS 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define COUNTS 0
#endif
#endif
#if !defined(COUNTS) && defined(__GLIBC__)
#define COUNTS 1
#elif !defined(COUNTS)
#define COUNTS 0
#endif

#if COUNTS
static atomic_long allocations; /* calls so far */
static atomic_size_t allocated; /* bytes asked for so far */

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *memory, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);

void *malloc(size_t bytes) {
    atomic_fetch_add(&allocations, 1);
    atomic_fetch_add(&allocated, bytes);
    return __libc_malloc(bytes);
}

void *calloc(size_t count, size_t size) {
    atomic_fetch_add(&allocations, 1);
    atomic_fetch_add(&allocated, count * size);
    return __libc_calloc(count, size);
}

void *realloc(void *memory, size_t bytes) {
    atomic_fetch_add(&allocations, 1);
    atomic_fetch_add(&allocated, bytes);
    return __libc_realloc(memory, bytes);
}

void *memalign(size_t alignment, size_t bytes) {
    atomic_fetch_add(&allocations, 1);
    atomic_fetch_add(&allocated, bytes);
    return __libc_memalign(alignment, bytes);
}

void *aligned_alloc(size_t alignment, size_t bytes) {
    return memalign(alignment, bytes);
}

int posix_memalign(void **memory, size_t alignment, size_t bytes) {
    *memory = memalign(alignment, bytes);
    return *memory ? 0 : ENOMEM;
}
#else
static long allocations;
static size_t allocated;
#endif

static inline void need_counting(void) {
    if (!COUNTS)
        SKIP("the allocator cannot be replaced in this build (a sanitizer has it, or it is not glibc)");
}

#endif
