/* Cutting work over threads changes no bit, and every range is covered once. */
/* labels: threads */
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

/* of a row or column in the products by fast math */
enum { LARGEST = 45 };

static float *numbers(size_t count, unsigned seed) {
    float *out = malloc(count * sizeof *out);
    for (size_t i = 0; out && i < count; i++) {
        seed = seed * 1664525u + 1013904223u;
        out[i] = (float)(seed >> 8) * 0x1p-23f - 1;
    }
    return out;
}

/* m x n x k on so many threads; B packed, or else k in pieces, if asked. */
static void product(size_t threads, size_t m, size_t n, size_t k, bool packed, bool pieces, const float *a,
                    const float *b, float *c) {
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
    const size_t cut = k / 3;
    const struct rt_gemm_piece more[] = {{.k = 1, .a = a + cut, .b = b + cut * n},
                                         {.k = k - cut - 1, .a = a + cut + 1, .b = b + (cut + 1) * n}};
    if (pieces) {
        g.k = cut;
        g.more = more;
        g.more_count = 2;
    }
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
        product(1, m, n, k, false, false, a, b, one);
        for (size_t threads = 1; threads <= 4; threads++)
            for (int strategy = 0; strategy < 3; strategy++) {
                memset(other, 1, m * n * sizeof *other);
                product(threads, m, n, k, strategy == 1, strategy == 2, a, b, other);
                CHECK_MSG(memcmp(one, other, m * n * sizeof *one) == 0, "%zu x %zu x %zu on %zu threads", m,
                          n, k, threads);
            }
        free(a), free(b), free(one), free(other);
    }
}

/* One product by `device` and by the reference. */
static void check_product(const struct rt_device *device, struct rt_gemm g, const char *what) {
    float fast[LARGEST * LARGEST], exact[LARGEST * LARGEST];
    for (size_t i = 0; i < LARGEST * LARGEST; i++)
        fast[i] = exact[i] = 0.25f;
    g.c = fast;
    rt_gemm(device, &g);
    g.c = exact;
    rt_kernels_reference.gemm(&g, NULL);
    for (size_t i = 0; i < LARGEST * LARGEST; i++)
        CHECK_MSG(fast[i] - exact[i] < 1e-5f && exact[i] - fast[i] < 1e-5f,
                  "%s, %zu x %zu x %zu: %g at %zu, exact %g", what, g.m, g.n, g.k, (double)fast[i], i,
                  (double)exact[i]);
}

/* The three products of a dense layer with `in` inputs, `out` outputs and so many rows. */
static void check_dense_products(const struct rt_device *device, size_t rows, size_t in, size_t out,
                                 const float *x, const float *w, const float *dy, const float *bias) {
    struct rt_gemm forward = {.m = rows,
                              .n = out,
                              .k = in,
                              .a = x,
                              .a_row = in,
                              .a_col = 1,
                              .b = w,
                              .b_row = out,
                              .b_col = 1,
                              .c_row = out,
                              .bias = bias,
                              .act = RT_ACT_RELU};
    struct rt_gemm input = {.m = rows,
                            .n = in,
                            .k = out,
                            .a = dy,
                            .a_row = out,
                            .a_col = 1,
                            .b = w,
                            .b_row = 1,
                            .b_col = out,
                            .c_row = in};
    struct rt_gemm weights = {.m = in,
                              .n = out,
                              .k = rows,
                              .a = x,
                              .a_row = 1,
                              .a_col = in,
                              .b = dy,
                              .b_row = out,
                              .b_col = 1,
                              .c_row = out,
                              .accumulate = true};
    check_product(device, forward, "forward");
    check_product(device, input, "input gradient");
    check_product(device, weights, "weight gradient");
    /* neither step is 1: BLAS cannot be told of it */
    struct rt_gemm apart = forward;
    apart.m = (rows + 1) / 2, apart.n = out, apart.k = (in + 1) / 2;
    apart.a_row = 2 * in, apart.a_col = 2;
    check_product(device, apart, "every other element");
}

TEST(fast_math_agrees_within_rounding) {
    struct rt_error err;
    struct rt_device device;
    if (rt_device_open(RT_MATH_FAST, "auto", 1, &device, &err) != RT_OK)
        SKIP("%s", err.text);
    float *x = numbers(LARGEST * LARGEST, 1), *w = numbers(LARGEST * LARGEST, 2),
          *dy = numbers(LARGEST * LARGEST, 3), *bias = numbers(LARGEST, 5);
    REQUIRE(x && w && dy && bias);
    static const size_t sizes[] = {1, 2, 17, LARGEST};
    for (size_t i = 0; i < 4 * 4 * 4; i++)
        check_dense_products(&device, sizes[i / 16], sizes[i / 4 % 4], sizes[i % 4], x, w, dy, bias);
    free(x), free(w), free(dy), free(bias);
    rt_device_close(&device);
}

TEST(unknown_kernels_are_refused) {
    struct rt_error err;
    struct rt_device device;
    CHECK(rt_device_open(RT_MATH_EXACT, "sse9", 1, &device, &err) == RT_BAD_INPUT);
    CHECK(strstr(err.text, "sse9") != NULL);
}

TEST_MAIN()
