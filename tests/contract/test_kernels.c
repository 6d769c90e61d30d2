/*
 * The contract of tensor/kernels.h: every entry of every exact table gives the reference's bits, on many
 * shapes. A new entry without a check fails here (every_entry_has_a_check), and so does a check that does
 * not call its entry (every_check_calls_its_entry).
 */
#include "support/kernel_check.h"

#include <fcntl.h>
#include <stddef.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

static const struct rt_kernels *const ref = &rt_kernels_reference;

/* around the multiples of every vector's width */
static const size_t sizes[] = {0,  1,  2,  3,  4,  5,  7,  8,  9,  10,  15,
                               16, 17, 31, 32, 33, 47, 63, 64, 65, 100, 257};

/* ---- element by element ---------------------------------------------------------------------------------
 */

static void check_activate(const struct rt_kernels *k) {
    for (size_t a = 0; a < KC_ACTS; a++)
        for (size_t s = 0; s < COUNT(sizes); s++)
            for (int in_place = 0; in_place < 2; in_place++) {
                const float *x = kc_specials(sizes[s], (uint32_t)s);
                struct kc_pair y = kc_pair_create(sizes[s], in_place ? x : NULL);
                ref->activate((enum rt_activation)a, 0.3f, sizes[s], in_place ? y.want : x, y.want);
                k->activate((enum rt_activation)a, 0.3f, sizes[s], in_place ? y.got : x, y.got);
                kc_pair_compare(&y, "%s activate %d n %zu", k->name, (int)a, sizes[s]);
                kc_release();
            }
}

static void check_activate_back(const struct rt_kernels *k) {
    for (size_t a = 0; a < KC_ACTS; a++)
        for (size_t s = 0; s < COUNT(sizes); s++)
            for (int in_place = 0; in_place < 2; in_place++) {
                size_t n = sizes[s];
                const float *x = kc_specials(n, 1), *dy = kc_specials(n, 2);
                float *y = kc_take(n * sizeof *y);
                ref->activate((enum rt_activation)a, 0.3f, n, x, y);
                x = (enum rt_activation)a == RT_ACT_GELU ? x : NULL;
                struct kc_pair dx = kc_pair_create(n, in_place ? dy : NULL);
                ref->activate_back((enum rt_activation)a, 0.3f, n, x, y, in_place ? dx.want : dy, dx.want);
                k->activate_back((enum rt_activation)a, 0.3f, n, x, y, in_place ? dx.got : dy, dx.got);
                kc_pair_compare(&dx, "%s activate_back %d n %zu", k->name, (int)a, n);
                kc_release();
            }
}

static void check_add(const struct rt_kernels *k) {
    for (size_t s = 0; s < COUNT(sizes); s++) {
        const float *x = kc_specials(sizes[s], 1);
        struct kc_pair y = kc_pair_create(sizes[s], kc_specials(sizes[s], 2));
        ref->add(sizes[s], x, y.want);
        k->add(sizes[s], x, y.got);
        kc_pair_compare(&y, "%s add n %zu", k->name, sizes[s]);
        kc_release();
    }
}

static void check_dropout(const struct rt_kernels *k) {
    static const uint32_t thresholds[] = {0, 1u << 31, 0xc0000000u, 0xffffffffu};
    for (size_t s = 0; s < COUNT(sizes); s++)
        for (uint32_t variant = 0; variant < 8; variant++) {
            size_t n = sizes[s];
            bool in_place = variant % 2;
            const float *x = kc_specials(n, 1);
            struct kc_pair y = kc_pair_create(n, in_place ? x : NULL);
            uint64_t seed = 0x123456789abcdefu * (variant + 1);
            uint32_t layer = variant * 7, epoch = variant / 3, example = 60000 + (uint32_t)s;
            ref->dropout(n, seed, layer, epoch, example, thresholds[variant / 2], 1.25f,
                         in_place ? y.want : x, y.want);
            k->dropout(n, seed, layer, epoch, example, thresholds[variant / 2], 1.25f, in_place ? y.got : x,
                       y.got);
            kc_pair_compare(&y, "%s dropout n %zu variant %u", k->name, n, variant);
            kc_release();
        }
}

static void check_from_bytes(const struct rt_kernels *k) {
    for (size_t s = 0; s < COUNT(sizes); s++) {
        uint8_t *x = kc_take(sizes[s]);
        for (size_t i = 0; i < sizes[s]; i++)
            x[i] = (uint8_t)(i * 37 + 255);
        struct kc_pair y = kc_pair_create(sizes[s], NULL);
        ref->from_bytes(sizes[s], x, 1.0f / 255, -0.1307f, y.want);
        k->from_bytes(sizes[s], x, 1.0f / 255, -0.1307f, y.got);
        kc_pair_compare(&y, "%s from_bytes n %zu", k->name, sizes[s]);
        kc_release();
    }
}

/* ---- rows -----------------------------------------------------------------------------------------------
 */

static void check_sum16(const struct rt_kernels *k) {
    for (size_t s = 0; s < COUNT(sizes); s++)
        for (uint32_t seed = 0; seed < 4; seed++) {
            const float *x = seed ? kc_numbers(sizes[s], seed) : kc_specials(sizes[s], seed);
            struct kc_pair sum = kc_pair_create(1, NULL);
            sum.want[0] = ref->sum16(sizes[s], x);
            sum.got[0] = k->sum16(sizes[s], x);
            kc_pair_compare(&sum, "%s sum16 n %zu", k->name, sizes[s]);
            kc_release();
        }
}

static void check_dot16(const struct rt_kernels *k) {
    for (size_t s = 0; s < COUNT(sizes); s++)
        for (uint32_t seed = 0; seed < 4; seed++) {
            const float *x = kc_numbers(sizes[s], seed);
            const float *y = seed ? kc_numbers(sizes[s], seed + 10) : kc_specials(sizes[s], 1);
            struct kc_pair dot = kc_pair_create(1, NULL);
            dot.want[0] = ref->dot16(sizes[s], x, y);
            dot.got[0] = k->dot16(sizes[s], x, y);
            kc_pair_compare(&dot, "%s dot16 n %zu", k->name, sizes[s]);
            kc_release();
        }
}

static void check_square_sum(const struct rt_kernels *k) {
    for (size_t s = 0; s < COUNT(sizes); s++) {
        const float *x = kc_numbers(sizes[s], (uint32_t)s);
        double want = ref->square_sum(sizes[s], x), got = k->square_sum(sizes[s], x);
        CHECK_MSG(memcmp(&want, &got, sizeof want) == 0, "%s square_sum n %zu: %a, not %a", k->name, sizes[s],
                  got, want);
        kc_release();
    }
}

static void check_column_sum(const struct rt_kernels *k) {
    for (size_t s = 0; s < COUNT(sizes); s++)
        for (size_t rows = 0; rows < 10; rows++)
            for (int accumulate = 0; accumulate < 2; accumulate++) {
                const float *x = kc_specials(rows * sizes[s], 1);
                struct kc_pair acc = kc_pair_create(sizes[s], NULL);
                ref->column_sum(rows, sizes[s], x, accumulate, acc.want);
                k->column_sum(rows, sizes[s], x, accumulate, acc.got);
                kc_pair_compare(&acc, "%s column_sum %zux%zu", k->name, rows, sizes[s]);
                kc_release();
            }
}

static void check_column_dot(const struct rt_kernels *k) {
    for (size_t s = 0; s < COUNT(sizes); s++)
        for (size_t rows = 0; rows < 10; rows++)
            for (int accumulate = 0; accumulate < 2; accumulate++) {
                const float *a = kc_numbers(rows * sizes[s], 1), *b = kc_numbers(rows * sizes[s], 2);
                struct kc_pair acc = kc_pair_create(sizes[s], NULL);
                ref->column_dot(rows, sizes[s], a, b, accumulate, acc.want);
                k->column_dot(rows, sizes[s], a, b, accumulate, acc.got);
                kc_pair_compare(&acc, "%s column_dot %zux%zu", k->name, rows, sizes[s]);
                kc_release();
            }
}

/* Clipped and decayed or not, with a velocity or without, with an example that follows or without. */
static void check_descend(const struct rt_kernels *k) {
    for (size_t s = 0; s < COUNT(sizes); s++)
        for (int strategy = 0; strategy < 8; strategy++)
            for (size_t rows = 0; rows < 4; rows++) {
                const size_t n = sizes[s];
                const float *left = kc_specials(rows, 1), *right = kc_numbers(n, 2),
                            *next = kc_numbers(rows, 3);
                struct kc_pair w = kc_pair_create(rows * n, kc_numbers(rows * n, 4));
                struct kc_pair v = kc_pair_create(rows * n, kc_specials(rows * n, 5));
                struct kc_pair sums = kc_pair_create(n, kc_numbers(n, 6));
                struct rt_descent how = {.lr = 0.01f, .momentum = 0.9f, .scale = 1};
                if (strategy & 1)
                    how.scale = 0.7f, how.decay = 0.02f;
                how.w = w.want, how.v = strategy & 2 ? v.want : NULL;
                ref->descend(&how, rows, n, left, right, strategy & 4 ? next : NULL, sums.want);
                how.w = w.got, how.v = strategy & 2 ? v.got : NULL;
                k->descend(&how, rows, n, left, right, strategy & 4 ? next : NULL, sums.got);
                kc_pair_compare(&w, "%s descend %zux%zu way %d: w", k->name, rows, n, strategy);
                kc_pair_compare(&v, "%s descend %zux%zu way %d: v", k->name, rows, n, strategy);
                kc_pair_compare(&sums, "%s descend %zux%zu way %d: sums", k->name, rows, n, strategy);
                kc_release();
            }
}

static void check_softmax(const struct rt_kernels *k) {
    for (size_t s = 1; s < COUNT(sizes); s++)
        for (int variant = 0; variant < 4; variant++) {
            size_t rows = 3, n = sizes[s];
            bool in_place = variant % 2;
            const float *x = variant < 2 ? kc_numbers(rows * n, 1) : kc_specials(rows * n, 1);
            struct kc_pair y = kc_pair_create(rows * n, in_place ? x : NULL);
            ref->softmax(rows, n, in_place ? y.want : x, y.want);
            k->softmax(rows, n, in_place ? y.got : x, y.got);
            kc_pair_compare(&y, "%s softmax n %zu", k->name, n);
            kc_release();
        }
}

static void check_softmax_back(const struct rt_kernels *k) {
    for (size_t s = 1; s < COUNT(sizes); s++) {
        size_t rows = 3, n = sizes[s];
        const float *y = kc_numbers(rows * n, 1), *dy = kc_numbers(rows * n, 2);
        struct kc_pair dx = kc_pair_create(rows * n, NULL);
        ref->softmax_back(rows, n, y, dy, dx.want);
        k->softmax_back(rows, n, y, dy, dx.got);
        kc_pair_compare(&dx, "%s softmax_back n %zu", k->name, n);
        kc_release();
    }
}

static void check_softmax_loss(const struct rt_kernels *k) {
    for (size_t s = 1; s < COUNT(sizes); s++)
        for (int variant = 0; variant < 4; variant++) {
            enum { ROWS = 5 };
            size_t n = sizes[s];
            bool gradient = variant % 2;
            int32_t *labels = kc_take(ROWS * sizeof *labels);
            for (size_t r = 0; r < ROWS; r++)
                labels[r] = (int32_t)(r == 0 ? n - 1 : r * 7 % n);
            const float *x = variant < 2 ? kc_numbers(ROWS * n, 1) : kc_specials(ROWS * n, 1);
            struct kc_pair loss = kc_pair_create(ROWS, NULL), dx = kc_pair_create(ROWS * n, NULL);
            ref->softmax_loss(ROWS, n, x, labels, 0.01f, loss.want, gradient ? dx.want : NULL);
            k->softmax_loss(ROWS, n, x, labels, 0.01f, loss.got, gradient ? dx.got : NULL);
            kc_pair_compare(&loss, "%s softmax_loss n %zu", k->name, n);
            kc_pair_compare(&dx, "%s softmax_loss dx n %zu", k->name, n);
            kc_release();
        }
}

/* norm_rows, norm_rows_back and norm_rows_xhat belong together: the moments of the first feed the others. */
static void check_norm_rows(const struct rt_kernels *k) {
    for (size_t s = 1; s < COUNT(sizes); s++) {
        size_t rows = 3, n = sizes[s];
        const float *x = kc_numbers(rows * n, 1), *gamma = kc_numbers(n, 2), *beta = kc_numbers(n, 3);
        const float *dy = kc_numbers(rows * n, 4);
        struct kc_pair y = kc_pair_create(rows * n, NULL), moments = kc_pair_create(2 * rows, NULL);
        struct kc_pair dx = kc_pair_create(rows * n, NULL), xhat = kc_pair_create(rows * n, NULL);
        ref->norm_rows(rows, n, x, gamma, beta, 1e-5f, y.want, moments.want);
        k->norm_rows(rows, n, x, gamma, beta, 1e-5f, y.got, moments.got);
        kc_pair_compare(&y, "%s norm_rows n %zu", k->name, n);
        kc_pair_compare(&moments, "%s norm_rows moments n %zu", k->name, n);
        ref->norm_rows_back(rows, n, x, gamma, moments.want, dy, dx.want);
        k->norm_rows_back(rows, n, x, gamma, moments.want, dy, dx.got);
        kc_pair_compare(&dx, "%s norm_rows_back n %zu", k->name, n);
        ref->norm_rows_xhat(rows, n, x, moments.want, xhat.want);
        k->norm_rows_xhat(rows, n, x, moments.want, xhat.got);
        kc_pair_compare(&xhat, "%s norm_rows_xhat n %zu", k->name, n);
        kc_release();
    }
}

/* ---- pooling --------------------------------------------------------------------------------------------
 */

/* channels, height, width, kernel, stride, pad */
static const size_t windows[][6] = {
    {2, 28, 28, 2, 2, 0}, {3, 14, 14, 2, 2, 0}, {2, 7, 7, 2, 2, 0},   {1, 2, 2, 2, 2, 0},
    {1, 4, 6, 2, 2, 0},   {2, 4, 34, 2, 2, 0},  {1, 6, 64, 2, 2, 0},  {1, 9, 67, 2, 2, 0},
    {1, 2, 16, 2, 2, 0},  {2, 9, 11, 3, 2, 1},  {2, 8, 8, 3, 1, 1},   {2, 9, 12, 3, 3, 0},
    {1, 6, 7, 2, 1, 0},   {1, 9, 9, 5, 2, 2},   {2, 7, 7, 7, 1, 0},   {3, 1, 1, 1, 1, 0},
    {1, 5, 40, 2, 3, 1},  {2, 3, 3, 5, 1, 2},   {1, 16, 16, 4, 4, 0}, {1, 10, 10, 3, 4, 0},
    {1, 5, 5, 1, 2, 0},   {1, 6, 6, 2, 2, 1},   {1, 3, 3, 2, 1, 2},
};

static struct rt_window window_at(size_t index) {
    const size_t *w = windows[index];
    struct rt_window window = {.channels = w[0],
                               .height = w[1],
                               .width = w[2],
                               .kernel = w[3],
                               .stride = w[4],
                               .pad = w[5],
                               .out_height = (w[1] + 2 * w[5] - w[3]) / w[4] + 1,
                               .out_width = (w[2] + 2 * w[5] - w[3]) / w[4] + 1};
    return window;
}

static void check_maxpool(const struct rt_kernels *k) {
    for (size_t i = 0; i < COUNT(windows); i++)
        for (uint32_t seed = 0; seed < 4; seed++) {
            struct rt_window w = window_at(i);
            size_t images = 1 + seed % 2, in = images * w.channels * w.height * w.width;
            size_t out = images * w.channels * w.out_height * w.out_width;
            const float *x = seed < 2 ? kc_specials(in, seed) : kc_numbers(in, seed);
            struct kc_pair y = kc_pair_create(out, NULL);
            int32_t *want = kc_take(out * sizeof *want), *got = kc_take(out * sizeof *got);
            ref->maxpool(&w, images, x, y.want, want);
            k->maxpool(&w, images, x, y.got, got);
            kc_pair_compare(&y, "%s maxpool, window %zu", k->name, i);
            CHECK_MSG(memcmp(want, got, out * sizeof *want) == 0, "%s maxpool winners, window %zu", k->name,
                      i);
            kc_release();
        }
}

static void check_maxpool_back(const struct rt_kernels *k) {
    for (size_t i = 0; i < COUNT(windows); i++)
        for (uint32_t seed = 0; seed < 2; seed++) {
            struct rt_window w = window_at(i);
            size_t images = 1 + seed, in = images * w.channels * w.height * w.width;
            size_t out = images * w.channels * w.out_height * w.out_width;
            float *y = kc_take(out * sizeof *y);
            int32_t *where = kc_take(out * sizeof *where);
            ref->maxpool(&w, images, kc_specials(in, seed), y, where);
            const float *dy = kc_specials(out, 7);
            struct kc_pair dx = kc_pair_create(in, NULL);
            ref->maxpool_back(&w, images, dy, where, dx.want);
            k->maxpool_back(&w, images, dy, where, dx.got);
            kc_pair_compare(&dx, "%s maxpool_back, window %zu", k->name, i);
            kc_release();
        }
}

/* forward: avgpool, else avgpool_back */
static void check_average(const struct rt_kernels *k, bool forward) {
    for (size_t i = 0; i < COUNT(windows); i++)
        for (uint32_t seed = 0; seed < 4; seed++) {
            struct rt_window w = window_at(i);
            size_t images = 1 + seed % 2, in = images * w.channels * w.height * w.width;
            size_t out = images * w.channels * w.out_height * w.out_width;
            size_t from = forward ? in : out, to = forward ? out : in;
            const float *x = seed < 2 ? kc_specials(from, seed) : kc_numbers(from, seed);
            struct kc_pair y = kc_pair_create(to, NULL);
            (forward ? ref->avgpool : ref->avgpool_back)(&w, images, x, y.want);
            (forward ? k->avgpool : k->avgpool_back)(&w, images, x, y.got);
            kc_pair_compare(&y, "%s %s, window %zu", k->name, forward ? "avgpool" : "avgpool_back", i);
            kc_release();
        }
}

static void check_avgpool(const struct rt_kernels *k) {
    check_average(k, true);
}

static void check_avgpool_back(const struct rt_kernels *k) {
    check_average(k, false);
}

/* ---- all of them ----------------------------------------------------------------------------------------
 */

struct entry {
    const char *name;
    size_t offset; /* of the function pointer in the table */
    void (*check)(const struct rt_kernels *k);
};

#define ENTRY(name, check)                                                                                   \
    { #name, offsetof(struct rt_kernels, name), check }

static const struct entry entries[] = {
    ENTRY(packed_floats, kc_check_gemm),
    ENTRY(pack, kc_check_gemm),
    ENTRY(gemm, kc_check_gemm),
    ENTRY(conv_scratch, kc_check_conv_forward),
    ENTRY(conv_prepared, kc_check_conv_forward),
    ENTRY(conv_prepare, kc_check_conv_forward),
    ENTRY(conv_forward, kc_check_conv_forward),
    ENTRY(conv_input, kc_check_conv_input),
    ENTRY(conv_weights, kc_check_conv_weights),
    ENTRY(activate, check_activate),
    ENTRY(activate_back, check_activate_back),
    ENTRY(add, check_add),
    ENTRY(dropout, check_dropout),
    ENTRY(from_bytes, check_from_bytes),
    ENTRY(sum16, check_sum16),
    ENTRY(dot16, check_dot16),
    ENTRY(square_sum, check_square_sum),
    ENTRY(column_sum, check_column_sum),
    ENTRY(column_dot, check_column_dot),
    ENTRY(descend, check_descend),
    ENTRY(softmax, check_softmax),
    ENTRY(softmax_back, check_softmax_back),
    ENTRY(softmax_loss, check_softmax_loss),
    ENTRY(norm_rows, check_norm_rows),
    ENTRY(norm_rows_back, check_norm_rows),
    ENTRY(norm_rows_xhat, check_norm_rows),
    ENTRY(maxpool, check_maxpool),
    ENTRY(maxpool_back, check_maxpool_back),
    ENTRY(avgpool, check_avgpool),
    ENTRY(avgpool_back, check_avgpool_back),
};

/* Runs every check once per exact table, unless the entry before had the same one. */
static void check_entries(size_t first, size_t count) {
    const struct rt_kernels *tables[8];
    size_t table_count = rt_kernels_exact_all(tables, COUNT(tables));
    REQUIRE(table_count > 0);
    for (size_t t = 0; t < table_count; t++)
        for (size_t e = first; e < first + count; e++)
            if (e == first || entries[e].check != entries[e - 1].check)
                entries[e].check(tables[t]);
}

TEST(products) {
    check_entries(0, 3);
}

TEST(convolutions) {
    check_entries(3, 6);
}

TEST(the_rest) {
    check_entries(9, COUNT(entries) - 9);
}

/* The table holds a name, two sizes, and function pointers; all of the same size. */
TEST(every_entry_has_a_check) {
    _Static_assert(sizeof(size_t) == sizeof(void *) && sizeof(void (*)(void)) == sizeof(void *), "sizes");
    CHECK_MSG(COUNT(entries) == sizeof(struct rt_kernels) / sizeof(void *) - 3,
              "the table has %zu functions, checked are %zu", sizeof(struct rt_kernels) / sizeof(void *) - 3,
              COUNT(entries));
    for (size_t i = 0; i < COUNT(entries); i++)
        for (size_t j = 0; j < i; j++)
            CHECK_MSG(entries[i].offset != entries[j].offset, "%s is listed twice", entries[i].name);
}

/* With the entry taken out of the table its check must crash. */
TEST(every_check_calls_its_entry) {
    for (size_t i = 0; i < COUNT(entries); i++) {
        pid_t child = fork();
        REQUIRE(child >= 0);
        if (child == 0) {
            struct rlimit no_core = {0, 0};
            setrlimit(RLIMIT_CORE, &no_core);
            int nowhere = open("/dev/null", O_WRONLY);
            dup2(nowhere, STDERR_FILENO);
            struct rt_kernels table = *rt_kernels_exact(NULL);
            memset((char *)&table + entries[i].offset, 0, sizeof(void *));
            entries[i].check(&table);
            _exit(0);
        }
        int status = 0;
        REQUIRE(waitpid(child, &status, 0) == child);
        CHECK_MSG(!WIFEXITED(status) || WEXITSTATUS(status) != 0, "the check of %s never calls it",
                  entries[i].name);
    }
}

TEST_MAIN()
