/*
 * The known answer (tensor/answer.h): every table of kernels gives the one digest that is right. The other
 * tests compare tables on one machine; this one compares machines, compilers and versions. If it fails, every
 * model trained so far would come out differently: change the digest only on purpose.
 */
#include "base/sha256.h"
#include "support/kernel_check.h"
#include "tensor/answer.h"

static const char known[] = "9087207e2a0cabe3d12f8c316380d8247a755802f8173bbf2817a0d471a0d131";

static void check_answer(const struct rt_kernels *kernels, bool right) {
    struct rt_error err;
    uint8_t digest[32];
    char text[65];
    CHECK_OK(rt_kernels_answer(kernels, digest, &err));
    rt_sha256_hex(digest, text);
    CHECK_MSG((strcmp(text, known) == 0) == right, "%s: %s, known is %s", kernels->name, text, known);
}

TEST(every_table_gives_the_known_answer) {
    const struct rt_kernels *tables[8] = {&rt_kernels_reference};
    size_t count = 1 + rt_kernels_exact_all(tables + 1, 7);
    for (size_t t = 0; t < count; t++)
        check_answer(tables[t], true);
}

/* Wrong in the last bit of one element. */
static float wrong_sum16(size_t n, const float *x) {
    float sum = rt_kernels_reference.sum16(n, x);
    uint32_t bits;
    memcpy(&bits, &sum, sizeof bits);
    bits ^= 1;
    memcpy(&sum, &bits, sizeof sum);
    return sum;
}

static void wrong_xhat(size_t rows, size_t n, const float *x, const float *moments, float *xhat) {
    rt_kernels_reference.norm_rows_xhat(rows, n, x, moments, xhat);
    xhat[rows * n - 1] *= 1.0000002f;
}

TEST(one_bit_gives_another_answer) {
    struct rt_kernels kernels = rt_kernels_reference;
    kernels.sum16 = wrong_sum16;
    check_answer(&kernels, false);
    kernels = rt_kernels_reference;
    kernels.norm_rows_xhat = wrong_xhat;
    check_answer(&kernels, false);
}

TEST_MAIN()
