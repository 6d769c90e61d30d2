/*
 * The exact matrix product against a BLAS, on every shape that the benchmark's networks need.
 *
 *     products [--blas LIBRARY] [--rounds N] [--blas-only] [--kernels NAME]
 *
 * Prints one JSON object; speeds are GFLOP/s, one per round, ours and theirs taken in turns. As the layers do
 * it, dense weights are packed before (they stay packed between uses); all other packing is part of the time.
 * A convolution appears as its products per image, the input laid out as a matrix beforehand for both sides.
 * --blas-only measures the BLAS alone, to find the core type it does best with. --kernels takes ours for one
 * instruction set (as train.kernels does) and leaves faster ones out of the peak.
 */
#include "base/clock.h"
#include "base/memory.h"
#include "blas.h"
#include "peak.h"
#include "tensor/device.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ROUNDS = 32, MAX_SHAPES = 100 };
static const double MEASURE_SECONDS = 0.012;

/* B ready for the product beforehand, packed by the same call as it is multiplied, or left to the product. */
enum packing { PACKED_BEFORE, PACKED_EACH_TIME, NOT_PACKED };

struct shape {
    const char *network, *part;
    size_t m, n, k;
    bool a_turned, b_turned;
    enum packing packing;
};

struct list {
    struct shape shapes[MAX_SHAPES];
    size_t count;
};

/* Layers alike need the same product; it counts once. */
static void add(struct list *list, const char *network, const char *part, size_t m, size_t n, size_t k,
                bool a_turned, bool b_turned, enum packing packing) {
    for (size_t i = 0; i < list->count; i++) {
        const struct shape *s = &list->shapes[i];
        if (s->m == m && s->n == n && s->k == k && s->a_turned == a_turned && s->b_turned == b_turned)
            return;
    }
    if (list->count < MAX_SHAPES)
        list->shapes[list->count++] = (struct shape){network, part, m, n, k, a_turned, b_turned, packing};
}

/* y = x W, dx = dy W^T, dW = x^T dy with W [in][out]; the first layer has no dx. */
static void add_dense(struct list *list, const char *network, size_t batch, size_t in, size_t out,
                      bool first) {
    add(list, network, "forward", batch, out, in, false, false, PACKED_BEFORE);
    if (!first)
        add(list, network, "input", batch, in, out, false, true, PACKED_BEFORE);
    add(list, network, "weights", in, out, batch, true, false, PACKED_EACH_TIME);
}

static void add_mlp(struct list *list, const char *network, size_t batch, const size_t *widths,
                    size_t count) {
    for (size_t i = 0; i + 1 < count; i++)
        add_dense(list, network, batch, widths[i], widths[i + 1], i == 0);
}

/* y = W X, dX = W^T dy, dW = dy X^T for one image; X is [taps][pixels]. */
static void add_conv(struct list *list, const char *network, size_t filters, size_t taps, size_t pixels,
                     bool first) {
    add(list, network, "forward", filters, pixels, taps, false, false, NOT_PACKED);
    if (!first)
        add(list, network, "input", taps, pixels, filters, true, false, NOT_PACKED);
    add(list, network, "weights", filters, taps, pixels, false, true, NOT_PACKED);
}

static void list_shapes(struct list *list) {
    static const size_t small[] = {784, 128, 64, 10}, middle[] = {784, 512, 512, 10},
                        wide[] = {784, 2048, 2048, 2048, 10};
    add_mlp(list, "mlp-128-64 batch 32", 32, small, 4);
    add_mlp(list, "mlp-128-64 batch 1", 1, small, 4);
    add_mlp(list, "mlp-512-512 batch 64", 64, middle, 4);
    add_mlp(list, "mlp-2048x3 batch 128", 128, wide, 5);
    add_conv(list, "cnn-32-64-128", 32, 9, 784, true);
    add_conv(list, "cnn-32-64-128", 64, 288, 196, false);
    add_dense(list, "cnn-32-64-128 batch 64", 64, 3136, 128, false);
    add_dense(list, "cnn-32-64-128 batch 64", 64, 128, 10, false);
}

/* ---- one shape
 * ------------------------------------------------------------------------------------------------ */

struct job {
    struct product product;
    struct rt_gemm gemm;
    const struct rt_device *device;
    float *packed; /* where the call packs B first; or NULL */
    const struct blas *blas;
    int strategy;
};

typedef void (*call_fn)(const struct job *job);

static void call_ours(const struct job *job) {
    const struct rt_gemm *g = &job->gemm;
    if (job->packed)
        rt_pack(job->device, g->k, g->n, g->b, g->b_row, g->b_col, job->packed);
    rt_gemm(job->device, g);
}

static void call_blas(const struct job *job) {
    blas_run(job->blas, job->strategy, &job->product);
}

/* GFLOP/s of a call repeated for MEASURE_SECONDS, by the CPU clock of this thread: who else is on the core
 * does not count. */
static double speed(call_fn call, const struct job *job) {
    double flops = 2.0 * (double)job->product.m * (double)job->product.n * (double)job->product.k;
    double start = rt_clock_thread(), now = start, calls = 0;
    for (size_t batch = 1; now - start < MEASURE_SECONDS; batch *= 2) {
        for (size_t i = 0; i < batch; i++)
            call(job);
        calls += (double)batch;
        now = rt_clock_thread();
    }
    return flops * calls / (now - start) / 1e9;
}

static float *random_floats(size_t count, uint32_t *state) {
    float *floats;
    struct rt_error err;
    if (rt_floats_create(count, "a matrix", &floats, &err) != RT_OK) {
        fprintf(stderr, "%s\n", err.text);
        exit(1);
    }
    for (size_t i = 0; i < count; i++) {
        *state = *state * 1664525u + 1013904223u;
        floats[i] = (float)(*state >> 8) / (float)(1u << 23) - 1;
    }
    return floats;
}

static double difference(size_t count, const float *ours, const float *theirs) {
    double error = 0, norm = 0;
    for (size_t i = 0; i < count; i++) {
        double d = (double)ours[i] - (double)theirs[i];
        error += d * d;
        norm += (double)theirs[i] * (double)theirs[i];
    }
    return sqrt(error / norm);
}

static void print_list(const char *name, const double *values, int count) {
    printf("\"%s\": [", name);
    for (int i = 0; i < count; i++)
        printf("%s%.3f", i ? ", " : "", values[i]);
    printf("]");
}

static void measure(const struct shape *s, const struct rt_device *device, const struct blas *blas, bool ours,
                    int rounds) {
    uint32_t state = 1;
    float *a = random_floats(s->m * s->k, &state), *b = random_floats(s->k * s->n, &state);
    float *c = random_floats(s->m * s->n, &state), *other = random_floats(s->m * s->n, &state),
          *packed = NULL;
    size_t b_row = s->b_turned ? 1 : s->n, b_col = s->b_turned ? s->k : 1;
    size_t floats = s->packing == NOT_PACKED ? 0 : device->kernels->packed_floats(s->k, s->n);
    if (floats) {
        packed = random_floats(floats, &state);
        rt_pack(device, s->k, s->n, b, b_row, b_col, packed);
    }
    struct job job = {
        .product = {s->m, s->n, s->k, s->a_turned, s->b_turned, a, b, other},
        .gemm = {.m = s->m,
                 .n = s->n,
                 .k = s->k,
                 .a = a,
                 .a_row = s->a_turned ? 1 : s->k,
                 .a_col = s->a_turned ? s->m : 1,
                 .b = b,
                 .b_row = b_row,
                 .b_col = b_col,
                 .b_packed = packed,
                 .c = c,
                 .c_row = s->n},
        .device = device,
        .packed = s->packing == PACKED_EACH_TIME ? packed : NULL,
        .blas = blas,
    };
    printf("  {\"network\": \"%s\", \"part\": \"%s\", \"m\": %zu, \"n\": %zu, \"k\": %zu, ", s->network,
           s->part, s->m, s->n, s->k);
    double worst = 0;
    if (blas) { /* warms up, compares the results of every variant, and picks the fastest */
        double best = 0;
        int fastest = 0;
        call_ours(&job);
        for (job.strategy = 0; job.strategy < blas_ways(&job.product); job.strategy++) {
            double rate = speed(call_blas, &job), d = difference(s->m * s->n, c, other);
            if (rate > best)
                best = rate, fastest = job.strategy;
            worst = d > worst ? d : worst;
        }
        job.strategy = fastest;
    }
    double our_speed[MAX_ROUNDS], their_speed[MAX_ROUNDS];
    if (ours)
        speed(call_ours, &job);
    for (int i = 0; i < rounds; i++) {
        if (ours)
            our_speed[i] = speed(call_ours, &job);
        if (blas)
            their_speed[i] = speed(call_blas, &job);
    }
    print_list("ours", our_speed, ours ? rounds : 0);
    printf(", ");
    print_list("theirs", their_speed, blas ? rounds : 0);
    printf(", \"difference\": %.2e}", worst);
    free(a), free(b), free(c), free(other), free(packed);
}

int main(int argc, char **argv) {
    const char *library = "libopenblas.so.0", *kernels = "auto";
    int rounds = 5;
    bool ours = true;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--blas") && i + 1 < argc)
            library = argv[++i];
        else if (!strcmp(argv[i], "--rounds") && i + 1 < argc)
            rounds = atoi(argv[++i]);
        else if (!strcmp(argv[i], "--kernels") && i + 1 < argc)
            kernels = argv[++i];
        else if (!strcmp(argv[i], "--blas-only"))
            ours = false;
        else
            rounds = 0;
    }
    if (rounds < 1 || rounds > MAX_ROUNDS) {
        fprintf(stderr, "usage: products [--blas LIBRARY] [--rounds 1..%d] [--blas-only] [--kernels NAME]\n",
                MAX_ROUNDS);
        return 2;
    }
    struct rt_device device;
    struct rt_error err;
    if (rt_device_open(RT_MATH_EXACT, kernels, 1, &device, &err) != RT_OK) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    struct blas found;
    const struct blas *blas = blas_open(library, &found) ? &found : NULL;
    struct list list = {.count = 0};
    list_shapes(&list);
    printf("{\"kernels\": \"%s\", \"blas\": \"%s\",\n \"shapes\": [\n", device.kernels->name,
           blas ? blas->name : "");
    double peak = 0; /* taken between the shapes: a shared core is not always as fast; the best counts */
    for (size_t i = 0; i < list.count; i++) {
        for (int j = 0; j < peak_count(); j++) {
            if (strcmp(kernels, "auto") != 0 && strcmp(kernels, peak_name(j)) != 0)
                continue;
            double now = peak_gflops(j, MEASURE_SECONDS);
            peak = now > peak ? now : peak;
        }
        measure(&list.shapes[i], &device, blas, ours, rounds);
        printf("%s\n", i + 1 < list.count ? "," : "");
    }
    printf(" ],\n \"peak\": %.1f}\n", peak);
    rt_device_close(&device);
    return 0;
}
