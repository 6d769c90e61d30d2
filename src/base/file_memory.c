/* Memory, or a mapped file; see file_memory.h. */
#define _GNU_SOURCE /* mkostemp */
#include "base/file_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static rt_status file_memory_open(size_t count, const char *what, int *file, struct rt_error *err) {
    const char *directory = getenv("TMPDIR");
    char path[4096];
    if (!directory || !*directory)
        directory = "/var/tmp";
    snprintf(path, sizeof path, "%s/ringtmp-XXXXXX", directory);
    *file = mkostemp(path, O_CLOEXEC);
    if (*file < 0)
        return rt_fail(err, RT_IO, "%s: no room for %s: %s", directory, what, strerror(errno));
    unlink(path);
    const int code = posix_fallocate(*file, 0, (off_t)count);
    if (code == 0)
        return RT_OK;
    close(*file);
    return rt_fail(err, RT_IO, "%s: no room for %s, %zu MiB: %s", directory, what, count >> 20,
                   strerror(code));
}

rt_status rt_file_memory_create(size_t count, bool on_disk, const char *what, struct rt_file_memory *memory,
                                struct rt_error *err) {
    int file = -1;
    *memory = (struct rt_file_memory){0};
    if (count == 0)
        return RT_OK;
    if (on_disk)
        RT_TRY(file_memory_open(count, what, &file, err));
    void *bytes = mmap(NULL, count, PROT_READ | PROT_WRITE,
                       on_disk ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS, file, 0);
    if (on_disk)
        close(file);
    if (bytes == MAP_FAILED)
        return rt_fail(err, RT_NO_MEMORY, "not enough memory for %s, %zu MiB", what, count >> 20);
    *memory = (struct rt_file_memory){bytes, count};
    return RT_OK;
}

void rt_file_memory_destroy(struct rt_file_memory *memory) {
    if (memory->bytes)
        munmap(memory->bytes, memory->count);
    *memory = (struct rt_file_memory){0};
}
