/* Memory for numbers and for everything else: one place checks products for overflow and words the failure.
 */
#include "base/memory.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* From LARGE on a block is given whole huge pages. Measured: training 784-128-64-10 one example at a time,
 * whose parameters and state just fit a second-level cache, gains a tenth; it costs at most 2 MiB for a
 * block. */
enum { HUGE_PAGE = 2 << 20, LARGE = HUGE_PAGE / 8 };

static rt_status fail_memory(struct rt_error *err, size_t count, size_t size, const char *what) {
    return rt_fail(err, RT_NO_MEMORY, "not enough memory for %s (%zu x %zu bytes)", what, count, size);
}

rt_status rt_floats_create(size_t count, const char *what, float **floats, struct rt_error *err) {
    if (count > (SIZE_MAX - HUGE_PAGE) / sizeof(float))
        return fail_memory(err, count, sizeof(float), what);
    size_t bytes = count * sizeof(float), align = bytes >= LARGE ? HUGE_PAGE : RT_ALIGN;
    size_t taken = bytes ? rt_round_up(bytes, align) : align;
    void *memory = NULL;
    if (posix_memalign(&memory, align, taken) != 0)
        return fail_memory(err, count, sizeof(float), what);
#if defined(MADV_HUGEPAGE)
    /* Passes over parameters and state are bound by memory: huge pages spare address translation and let a
     * block lie in the cache without conflicts. A wish only: where it is not granted nothing changes. */
    if (align == HUGE_PAGE)
        madvise(memory, taken, MADV_HUGEPAGE);
#endif
    memset(memory, 0, bytes);
    *floats = memory;
    return RT_OK;
}

rt_status rt_alloc(size_t count, size_t size, const char *what, void *pointer_to_pointer,
                   struct rt_error *err) {
    if (size && count > SIZE_MAX / size)
        return fail_memory(err, count, size, what);
    /* calloc(0) may give NULL, which would read as a failure. */
    void *memory = count && size ? calloc(count, size) : calloc(1, 1);
    if (!memory)
        return fail_memory(err, count, size, what);
    /* The caller's pointer may be of any object type; copying the bytes avoids writing it through void **. */
    memcpy(pointer_to_pointer, &memory, sizeof memory);
    return RT_OK;
}
