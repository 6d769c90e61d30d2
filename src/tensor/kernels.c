/* Which exact tables exist in this build, and which of them this CPU can run. */
#include "tensor/kernels.h"

#include <string.h>

extern const struct rt_kernels rt_kernels_exact_portable;
#if defined(__x86_64__)
extern const struct rt_kernels rt_kernels_exact_avx2, rt_kernels_exact_avx512;

static bool cpu_has_avx2(void) {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

static bool cpu_has_avx512(void) {
    return cpu_has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}
#elif defined(__aarch64__)
extern const struct rt_kernels rt_kernels_exact_neon;
#endif

size_t rt_kernels_exact_all(const struct rt_kernels **tables, size_t max) {
    const struct rt_kernels *found[4];
    size_t count = 0;
#if defined(__x86_64__)
    if (cpu_has_avx512())
        found[count++] = &rt_kernels_exact_avx512;
    if (cpu_has_avx2())
        found[count++] = &rt_kernels_exact_avx2;
#elif defined(__aarch64__)
    found[count++] = &rt_kernels_exact_neon;
#endif
    found[count++] = &rt_kernels_exact_portable;
    if (count > max)
        count = max;
    memcpy(tables, found, count * sizeof found[0]);
    return count;
}

const struct rt_kernels *rt_kernels_exact(const char *name) {
    const struct rt_kernels *tables[4];
    size_t count = rt_kernels_exact_all(tables, 4);
    if (!name || strcmp(name, "auto") == 0)
        return tables[0];
    for (size_t i = 0; i < count; i++)
        if (strcmp(tables[i]->name + strlen("exact/"), name) == 0)
            return tables[i];
    return NULL;
}
