/* Memory for numbers and for everything else: products are checked for overflow, and failures are worded, in
 * one place. */
#include "base/memory.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#if defined(__GLIBC__)
#include <malloc.h>
#endif

/* From LARGE on a block is given whole huge pages. Measured: training 784-128-64-10 one example at a time,
 * whose parameters and state just fit a second-level cache, gains a tenth; it costs at most 2 MiB for a
 * block. */
enum { HUGE_PAGE = 2 << 20, LARGE = HUGE_PAGE / 8 };

static rt_status memory_fail(struct rt_error *err, size_t count, size_t size, const char *what) {
    return rt_fail(err, RT_NO_MEMORY, "not enough memory for %s (%zu x %zu bytes)", what, count, size);
}

/* Blocks from LARGE on begin at a huge page. */
static size_t memory_align_of(size_t bytes) {
    return bytes >= LARGE ? HUGE_PAGE : RT_ALIGN;
}

size_t rt_floats_bytes(size_t count) {
    if (count > (SIZE_MAX - HUGE_PAGE) / sizeof(float))
        return SIZE_MAX;
    const size_t bytes = count * sizeof(float), align = memory_align_of(bytes);
    return bytes ? rt_round_up(bytes, align) : align;
}

rt_status rt_floats_create(size_t count, const char *what, float **floats, struct rt_error *err) {
    const size_t taken = rt_floats_bytes(count), bytes = count * sizeof(float),
                 align = memory_align_of(bytes);
    void *memory = NULL;
    if (taken == SIZE_MAX || posix_memalign(&memory, align, taken) != 0)
        return memory_fail(err, count, sizeof(float), what);
#if defined(MADV_HUGEPAGE)
    /* Passes over parameters and state are bound by memory: huge pages save address translation and avoid
     * cache conflicts within a block. A hint only: without them everything works the same. */
    if (align == HUGE_PAGE)
        madvise(memory, taken, MADV_HUGEPAGE);
#endif
    memset(memory, 0, bytes);
    *floats = memory;
    return RT_OK;
}

rt_status rt_floats_reserve(size_t count, const char *what, float **floats, struct rt_error *err) {
    void *memory = NULL;
    if (count > SIZE_MAX / sizeof(float) - 1 ||
        posix_memalign(&memory, RT_ALIGN, (count + 1) * sizeof(float)) != 0)
        return memory_fail(err, count, sizeof(float), what);
    *floats = memory;
    return RT_OK;
}

/* A line of /proc/self/status, key "\nVmRSS:", in bytes; 0 if there is none. It is read during training, so
 * without stdio, which would allocate. What does not fit into the buffer is skipped, except for a tail that
 * may hold the beginning of the key. */
static uint64_t memory_process_status(const char *key) {
    char text[4096];
    size_t held = 0;
    uint64_t kib = 0;
    const int file = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return 0;
    for (ssize_t got; (got = read(file, text + held, sizeof text - 1 - held)) > 0;) {
        held += (size_t)got;
        text[held] = '\0';
        const char *line = strstr(text, key);
        if (line && strchr(line + 1, '\n')) {
            kib = strtoull(line + strlen(key), NULL, 10);
            break;
        }
        const size_t tail = line ? held - (size_t)(line - text) : held < strlen(key) ? held : strlen(key);
        memmove(text, text + held - tail, tail);
        held = tail;
    }
    close(file);
    return kib << 10;
}

uint64_t rt_memory_resident(void) {
    return memory_process_status("\nVmRSS:");
}

uint64_t rt_memory_peak(void) {
    return memory_process_status("\nVmHWM:");
}

/* A sanitizer replaces the allocator. The C library's is then never set up, and threads that come here at the
 * same time would each set it up. */
void rt_memory_trim(void) {
#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    malloc_trim(0);
#endif
}

void rt_memory_peak_reset(void) {
    rt_memory_trim(); /* what was freed does not count */
#if defined(__linux__)
    FILE *file = fopen("/proc/self/clear_refs", "we");
    if (!file)
        return;
    (void)fputs("5\n", file);
    (void)fclose(file);
#endif
}

rt_status rt_memory_check(double bytes, const char *what, struct rt_error *err) {
    const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    const double there = (double)pages * (double)page;
    if (pages <= 0 || page <= 0 || bytes <= there)
        return RT_OK;
    return rt_fail(err, RT_NO_MEMORY, "%s needs %.1f GB of memory, this machine has %.1f GB", what,
                   bytes / 1e9, there / 1e9);
}

rt_status rt_alloc(size_t count, size_t size, const char *what, void *pointer_to_pointer,
                   struct rt_error *err) {
    if (size && count > SIZE_MAX / size)
        return memory_fail(err, count, size, what);
    /* calloc(0) may give NULL, which would read as a failure. */
    void *memory = count && size ? calloc(count, size) : calloc(1, 1);
    if (!memory)
        return memory_fail(err, count, size, what);
    /* The caller's pointer may be of any object type; copying the bytes avoids writing it through void **. */
    memcpy(pointer_to_pointer, &memory, sizeof memory);
    return RT_OK;
}
