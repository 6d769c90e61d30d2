/* Memory for numbers: cleared, aligned, and refused in words where there cannot be so much. */
#include "base/memory.h"
#include "support/test.h"
#include <sys/mman.h>
#include <unistd.h>

TEST(floats_are_cleared_and_aligned) {
    const size_t counts[] = {0, 1, 17, 65536, 262143, 262144, 262145, 524288, 524289};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        for (int again = 0; again < 2; again++) { /* the second may get what the first has dirtied */
            struct rt_error err;
            float *floats = NULL;
            CHECK_OK(rt_floats_create(counts[i], "a test", &floats, &err));
            REQUIRE(floats);
            CHECK((uintptr_t)floats % RT_ALIGN == 0);
            size_t dirty = 0;
            for (size_t f = 0; f < counts[i]; f++)
                dirty += floats[f] != 0;
            CHECK_MSG(dirty == 0, "%zu of %zu floats are not 0", dirty, counts[i]);
            memset(floats, 0x3f, counts[i] * sizeof *floats);
            free(floats);
        }
}

TEST(large_blocks_lie_on_huge_pages) {
    struct rt_error err;
    float *floats = NULL;
    CHECK_OK(rt_floats_create((1 << 20) / sizeof(float), "a test", &floats, &err));
    CHECK((uintptr_t)floats % (2 << 20) == 0);
    free(floats);
}

TEST(what_cannot_be_is_refused) {
    struct rt_error err;
    float *floats = NULL;
    char *bytes = NULL;
    CHECK(rt_floats_create(SIZE_MAX, "many floats", &floats, &err) == RT_NO_MEMORY);
    CHECK(strstr(err.text, "many floats"));
    CHECK(rt_floats_create(SIZE_MAX / sizeof(float), "many floats", &floats, &err) == RT_NO_MEMORY);
    CHECK(rt_alloc(SIZE_MAX / 2, 3, "many things", &bytes, &err) == RT_NO_MEMORY);
    CHECK(!floats && !bytes);
}

/* A process that serves several runs. Pages straight from the system: an allocator may keep what is freed. */
TEST(the_peak_can_begin_anew) {
    const size_t bytes = 64 << 20;
    if (access("/proc/self/clear_refs", W_OK) != 0)
        SKIP("this system does not count a process's memory anew");
    void *block = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(block != MAP_FAILED);
    memset(block, 1, bytes);
    const uint64_t most = rt_memory_peak();
    munmap(block, bytes);
    rt_memory_peak_reset();
    CHECK_MSG(rt_memory_peak() < most - bytes / 2, "%llu bytes, before %llu",
              (unsigned long long)rt_memory_peak(), (unsigned long long)most);
}

TEST_MAIN()
