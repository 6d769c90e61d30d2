/* Cutting work over threads changes no bit, and every range is covered once. */
#include "base/memory.h"
#include "support/test.h"
#include "tensor/device.h"

static void mark(void *argument, size_t begin, size_t end, void *scratch) {
    (void)scratch;
    for (size_t i = begin; i < end; i++)
        ((unsigned char *)argument)[i]++;
}

TEST(ranges_cover_everything_once) {
    struct rt_error err;
    for (size_t threads = 1; threads <= 5; threads++) {
        struct rt_device device;
        CHECK_OK(rt_device_open(RT_MATH_EXACT, "auto", threads, &device, &err));
        for (size_t n = 0; n < 200; n += 7)
            for (size_t grain = 1; grain < 70; grain += 9) {
                unsigned char marks[200] = {0};
                rt_device_split(&device, n, grain, mark, marks);
                for (size_t i = 0; i < 200; i++)
                    CHECK(marks[i] == (i < n));
            }
        rt_device_close(&device);
    }
}

static float *numbers(size_t count, unsigned seed) {
    float *out = malloc(count * sizeof *out);
    for (size_t i = 0; out && i < count; i++) {
        seed = seed * 1664525u + 1013904223u;
        out[i] = (float)(seed >> 8) * 0x1p-23f - 1;
    }
    return out;
}

/* m x n x k on so many threads; B packed if asked. */
static void product(size_t threads, size_t m, size_t n, size_t k, bool packed, const float *a, const float *b,
                    float *c) {
    struct rt_error err;
    struct rt_device device;
    CHECK_OK(rt_device_open(RT_MATH_EXACT, "auto", threads, &device, &err));
    float *room;
    CHECK_OK(rt_floats_create(device.kernels->packed_floats(k, n), "test", &room, &err));
    rt_pack(&device, k, n, b, n, 1, room);
    struct rt_gemm g = {.m = m,
                        .n = n,
                        .k = k,
                        .a = a,
                        .a_row = k,
                        .a_col = 1,
                        .b = b,
                        .b_row = n,
                        .b_col = 1,
                        .b_packed = packed ? room : NULL,
                        .c = c,
                        .c_row = n,
                        .act = RT_ACT_RELU};
    rt_gemm(&device, &g);
    free(room);
    rt_device_close(&device);
}

TEST(products_do_not_depend_on_threads) {
    static const size_t shapes[][3] = {{1, 500, 300}, {33, 257, 129}, {700, 20, 64}, {128, 512, 1100}};
    for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++) {
        size_t m = shapes[s][0], n = shapes[s][1], k = shapes[s][2];
        float *a = numbers(m * k, 1), *b = numbers(k * n, 2), *one = numbers(m * n, 3),
              *other = numbers(m * n, 4);
        REQUIRE(a && b && one && other);
        product(1, m, n, k, false, a, b, one);
        for (size_t threads = 1; threads <= 4; threads++)
            for (int packed = 0; packed < 2; packed++) {
                memset(other, 1, m * n * sizeof *other);
                product(threads, m, n, k, packed, a, b, other);
                CHECK_MSG(memcmp(one, other, m * n * sizeof *one) == 0, "%zu x %zu x %zu on %zu threads", m,
                          n, k, threads);
            }
        free(a), free(b), free(one), free(other);
    }
}

TEST(fast_math_agrees_within_rounding) {
    struct rt_error err;
    struct rt_device device;
    if (rt_device_open(RT_MATH_FAST, "auto", 1, &device, &err) != RT_OK)
        SKIP("%s", err.text);
    enum { M = 17, N = 45, K = 33 };
    float *a = numbers(M * K, 1), *b = numbers(N * K, 2), *bias = numbers(N, 5), exact[M * N], fast[M * N];
    REQUIRE(a && b && bias);
    /* B turned around: B[p][j] = b[j * K + p] */
    struct rt_gemm g = {.m = M,
                        .n = N,
                        .k = K,
                        .a = a,
                        .a_row = K,
                        .a_col = 1,
                        .b = b,
                        .b_row = 1,
                        .b_col = K,
                        .c = fast,
                        .c_row = N,
                        .bias = bias,
                        .act = RT_ACT_RELU};
    rt_gemm(&device, &g);
    g.c = exact;
    rt_kernels_reference.gemm(&g, NULL);
    for (size_t i = 0; i < M * N; i++)
        CHECK_MSG(fast[i] - exact[i] < 1e-5f && exact[i] - fast[i] < 1e-5f, "%zu: %g, exact %g", i,
                  (double)fast[i], (double)exact[i]);
    free(a), free(b), free(bias);
    rt_device_close(&device);
}

TEST(unknown_kernels_are_refused) {
    struct rt_error err;
    struct rt_device device;
    CHECK(rt_device_open(RT_MATH_EXACT, "sse9", 1, &device, &err) == RT_BAD_INPUT);
    CHECK(strstr(err.text, "sse9") != NULL);
}

TEST_MAIN()
