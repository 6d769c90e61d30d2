/*
 * Update rules: against the textbook formulas in double, and bit by bit against a plain float loop, so that
 * neither the vector width the loader chose nor the cut into spans can show in a result.
 */
#include "base/memory.h"
#include "learn/gradient.h"
#include "optim/optim.h"
#include "support/test.h"
#include <math.h>

enum { MAX_N = 1000, WORDS = 2 };

/* Numbers of mixed size and sign; nothing random, so a failure repeats. */
static float number(size_t i, size_t salt) {
    uint32_t x = (uint32_t)(i * 2654435761u + salt * 40503u + 12345u);
    x ^= x >> 13;
    x *= 0x5bd1e995u;
    x ^= x >> 15;
    return ((float)(x >> 8) * 0x1p-24f - 0.5f) * (float)(1 + x % 7);
}

/* {name: {key: value, ...}}; keys is NULL-terminated: key, value, key, value ... */
static struct rt_tree *rule(const char *name, const char *const *keys) {
    struct rt_tree *outer, *inner, *value;
    if (rt_tree_create(RT_TREE_MAP, NULL, "test", 1, &outer, NULL) != RT_OK ||
        rt_tree_create(RT_TREE_MAP, NULL, "test", 1, &inner, NULL) != RT_OK)
        exit(1);
    for (; keys && keys[0]; keys += 2)
        if (rt_tree_create(RT_TREE_SCALAR, keys[1], "test", 1, &value, NULL) != RT_OK ||
            rt_tree_add(inner, keys[0], value, NULL) != RT_OK)
            exit(1);
    if (rt_tree_add(outer, name, inner, NULL) != RT_OK)
        exit(1);
    return outer;
}

static struct rt_optim *make(const char *name, const char *const *keys) {
    struct rt_error err = {0};
    struct rt_tree *tree = rule(name, keys);
    struct rt_optim *optim = NULL;
    if (rt_optim_create(tree, &optim, &err) != RT_OK)
        rt_test_fail(__FILE__, __LINE__, "%s: %s", name, err.text);
    rt_tree_destroy(tree);
    return optim;
}

/* The textbook: one parameter, in double. s0 and s1 are its state. */
static void textbook(const char *name, double lr, double decay, unsigned t, double g, double *w, double *s0,
                     double *s1) {
    if (strcmp(name, "adamw") != 0)
        g += decay * *w;
    if (strcmp(name, "sgd") == 0) {
        *w -= lr * g;
    } else if (strcmp(name, "momentum") == 0) {
        *s0 = 0.9 * *s0 + g;
        *w -= lr * *s0;
    } else if (strcmp(name, "nesterov") == 0) {
        *s0 = 0.9 * *s0 + g;
        *w -= lr * (g + 0.9 * *s0);
    } else if (strcmp(name, "adagrad") == 0) {
        *s0 += g * g;
        *w -= lr * g / (sqrt(*s0) + 1e-10);
    } else {
        if (strcmp(name, "adamw") == 0)
            *w *= 1 - lr * decay;
        *s0 = 0.9 * *s0 + 0.1 * g;
        *s1 = 0.999 * *s1 + 0.001 * g * g;
        double mean = *s0 / (1 - pow(0.9, t)), square = *s1 / (1 - pow(0.999, t));
        *w -= lr * mean / (sqrt(square) + 1e-8);
    }
}

/* The rules once more, one float operation after another. No loop, so nothing for a compiler to widen. */
static void plain(const char *name, const struct rt_optim_step *s, float g, float *w, float *s0, float *s1) {
    g = g * s->grad_scale;
    if (strcmp(name, "adamw") != 0)
        g = g + s->weight_decay * *w;
    if (strcmp(name, "sgd") == 0) {
        *w = *w - s->lr * g;
    } else if (strcmp(name, "momentum") == 0) {
        *s0 = 0.9f * *s0 + g;
        *w = *w - s->lr * *s0;
    } else if (strcmp(name, "nesterov") == 0) {
        *s0 = 0.9f * *s0 + g;
        *w = *w - s->lr * (g + 0.9f * *s0);
    } else if (strcmp(name, "adagrad") == 0) {
        *s0 = *s0 + g * g;
        *w = *w - s->lr * (g / (sqrtf(*s0) + 1e-10f));
    } else {
        float shrunk =
            strcmp(name, "adamw") == 0 ? *w * (float)(1 - (double)s->lr * (double)s->weight_decay) : *w;
        *s0 = 0.9f * *s0 + (float)(1 - 0.9) * g;
        *s1 = 0.999f * *s1 + (float)(1 - 0.999) * g * g;
        *w = shrunk - s->correction[0] * (*s0 / (sqrtf(*s1) / s->correction[1] + 1e-8f));
    }
}

TEST(every_rule_follows_the_textbook) {
    enum { N = 50, STEPS = 10 };
    const char *const decays[] = {"0", "0.01"};
    for (const struct rt_optim_type *const *type = rt_optim_types(); *type; type++) {
        for (size_t d = 0; d < 2; d++) {
            const char *const keys[] = {"lr", "0.02", "weight_decay", decays[d], NULL};
            struct rt_optim *optim = make((*type)->name, keys);
            REQUIRE(optim);
            float w[N], g[N], state[WORDS * N];
            double w2[N], s0[N] = {0}, s1[N] = {0}, off = 0, size = 0;
            for (size_t i = 0; i < WORDS * N; i++)
                state[i] = (*type)->state_start;
            for (size_t i = 0; i < N; i++)
                w2[i] = (double)(w[i] = number(i, 1));
            for (unsigned t = 1; t <= STEPS; t++) {
                struct rt_optim_step step;
                for (size_t i = 0; i < N; i++) {
                    g[i] = number(i, 10 + t);
                    textbook((*type)->name, 0.02 * 0.5, d ? 0.01 : 0, t, 0.25 * (double)g[i], &w2[i], &s0[i],
                             &s1[i]);
                }
                rt_optim_begin(optim, t, 0.5, 0.25f, &step);
                rt_optim_apply(optim, &step, 0, N, N, w, g, state);
            }
            for (size_t i = 0; i < N; i++) {
                off += ((double)w[i] - w2[i]) * ((double)w[i] - w2[i]);
                size += w2[i] * w2[i];
            }
            CHECK_MSG(sqrt(off / size) < 1e-6, "%s with weight decay %s is off by %g", (*type)->name,
                      decays[d], sqrt(off / size));
            CHECK(fabs((double)w[0] - (double)number(0, 1)) > 1e-4); /* it moved at all */
            rt_optim_destroy(optim);
        }
    }
}

TEST(bits_are_those_of_a_plain_loop_whatever_the_length_and_the_cut) {
    const char *const decays[] = {"0", "0.003"};
    const size_t lengths[] = {0, 1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 31, 33, 63, 65, 100, 257, MAX_N};
    for (size_t round = 0; rt_optim_types()[round / 2]; round++) {
        const struct rt_optim_type *const *type = &rt_optim_types()[round / 2];
        const char *const keys[] = {"lr", "0.02", "weight_decay", decays[round % 2], NULL};
        struct rt_optim *optim = make((*type)->name, keys);
        REQUIRE(optim);
        REQUIRE((*type)->state_tensors <= WORDS);
        for (size_t l = 0; l < sizeof lengths / sizeof *lengths; l++) {
            size_t n = lengths[l], cut = n / 3;
            static float w[MAX_N], w2[MAX_N], w3[MAX_N], g[MAX_N], state[WORDS * MAX_N],
                state2[WORDS * MAX_N], state3[WORDS * MAX_N];
            memset(state, 0, sizeof state);
            memset(state2, 0, sizeof state2);
            memset(state3, 0, sizeof state3);
            for (size_t i = 0; i < n; i++)
                w[i] = w2[i] = w3[i] = number(i, 1);
            for (unsigned t = 1; t <= 5; t++) {
                struct rt_optim_step step;
                rt_optim_begin(optim, t, 1, t == 3 ? 0.7f : 1.0f, &step);
                for (size_t i = 0; i < n; i++)
                    g[i] = i % 11 == 3 ? 0.0f : number(i, 10 + t) * (i % 5 ? 1.0f : 1e-20f);
                for (size_t i = 0; i < n; i++)
                    plain((*type)->name, &step, g[i], &w2[i], &state2[i], &state2[n + i]);
                rt_optim_apply(optim, &step, 0, n, n, w, g, state);
                /* two spans, the later first, unaligned */
                rt_optim_apply(optim, &step, cut, n - cut, n, w3, g + cut, state3);
                rt_optim_apply(optim, &step, 0, cut, n, w3, g, state3);
            }
            size_t words = (*type)->state_tensors * n;
            CHECK_MSG(memcmp(w, w2, n * sizeof *w) == 0, "%s: %zu parameters differ", (*type)->name, n);
            CHECK_MSG(memcmp(state, state2, words * sizeof *w) == 0, "%s: state of %zu", (*type)->name, n);
            CHECK_MSG(memcmp(w, w3, n * sizeof *w) == 0, "%s: %zu parameters in two spans", (*type)->name, n);
            CHECK_MSG(memcmp(state, state3, words * sizeof *w) == 0, "%s: state of two spans", (*type)->name);
        }
        rt_optim_destroy(optim);
    }
}

/* Factors whose products are ordinary, zero of either sign, or too small for a float. */
static const float factors[] = {0.7f, -1.3f, 0.0f, -0.0f, 0x1p-80f, -0x1p-80f, 0x1p-140f, -0x1p-100f, 3e30f};

TEST(factors_give_the_bits_of_their_product) {
    enum { SIDE = sizeof factors / sizeof *factors, N = SIDE * SIDE };
    const char *const decays[] = {"0", "0.01"};
    const struct rt_kernels *kernels = rt_kernels_exact(NULL);
    for (const struct rt_optim_type *const *type = rt_optim_types(); *type; type++) {
        if (!(*type)->momentum)
            continue;
        for (size_t d = 0; d < 2; d++)
            for (size_t start = 0; start < 4; start++) {
                const char *const keys[] = {"lr", "0.02", "weight_decay", decays[d], NULL};
                struct rt_optim *optim = make((*type)->name, keys);
                REQUIRE(optim);
                const float starts[] = {0.0f, -0.0f, 0.5f, -1e-30f};
                float g[N], w[N], w2[N], state[WORDS * N], state2[WORDS * N];
                for (size_t i = 0; i < N; i++) {
                    g[i] = fmaf(factors[i / SIDE], factors[i % SIDE], 0.0f);
                    w[i] = w2[i] = starts[start];
                }
                for (size_t i = 0; i < WORDS * N; i++)
                    state[i] = state2[i] = starts[start];
                struct rt_optim_step step;
                rt_optim_begin(optim, 1, 1, 1, &step);
                rt_optim_apply(optim, &step, 0, N, N, w, g, state);
                struct rt_descent descent;
                CHECK(rt_gradient_descent(optim, &step, w2, state2, &descent));
                kernels->descend(&descent, SIDE, SIDE, factors, factors, NULL, NULL);
                CHECK_MSG(memcmp(w, w2, sizeof w) == 0, "%s, from %g", (*type)->name, (double)starts[start]);
                CHECK_MSG(memcmp(state, state2, (*type)->state_tensors * N * sizeof *state) == 0, "%s: state",
                          (*type)->name);
                rt_optim_destroy(optim);
            }
    }
}

TEST(a_span_leaves_its_neighbours_alone) {
    enum { N = 64 };
    for (const struct rt_optim_type *const *type = rt_optim_types(); *type; type++) {
        struct rt_optim *optim = make((*type)->name, NULL);
        REQUIRE(optim);
        float w[N], g[N], state[WORDS * N] = {0};
        for (size_t i = 0; i < N; i++)
            w[i] = 1, g[i] = 1;
        struct rt_optim_step step;
        rt_optim_begin(optim, 1, 1, 1, &step);
        rt_optim_apply(optim, &step, 17, 20, N, w, g, state);
        for (size_t i = 0; i < N; i++) {
            bool inside = i >= 17 && i < 37;
            CHECK_MSG((w[i] != 1.0f) == inside, "%s: parameter %zu", (*type)->name, i);
            for (size_t word = 0; word < (*type)->state_tensors; word++)
                CHECK_MSG((state[word * N + i] != 0.0f) == inside, "%s: state of %zu", (*type)->name, i);
        }
        rt_optim_destroy(optim);
    }
}

TEST(defaults_are_as_documented) {
    struct rt_error err;
    struct rt_optim *optim;
    CHECK_OK(rt_optim_create(NULL, &optim, &err));
    CHECK(strcmp(optim->type->name, "sgd") == 0);
    CHECK(optim->lr == 0.05 && optim->weight_decay == 0);
    rt_optim_destroy(optim);
    const struct {
        const char *name;
        double lr, weight_decay;
    } expected[] = {{"momentum", 0.05, 0},
                    {"nesterov", 0.05, 0},
                    {"adagrad", 0.01, 0},
                    {"adam", 0.001, 0},
                    {"adamw", 0.001, 0.01}};
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        struct rt_tree *tree;
        CHECK_OK(rt_tree_create(RT_TREE_SCALAR, expected[i].name, "test", 1, &tree, &err));
        CHECK_OK(rt_optim_create(tree, &optim, &err));
        CHECK_MSG(optim->lr == expected[i].lr && optim->weight_decay == expected[i].weight_decay, "%s: %g %g",
                  expected[i].name, optim->lr, optim->weight_decay);
        rt_optim_destroy(optim);
        rt_tree_destroy(tree);
    }
}

/* The options of a rule hold the very texts of its type: nothing is printed and read back, which would go
 * wrong under a locale with a decimal comma. */
TEST(defaults_are_texts) {
    for (const struct rt_optim_type *const *type = rt_optim_types(); *type; type++) {
        struct rt_option options[RT_OPTIM_OPTIONS];
        CHECK(rt_optim_options(*type, options) == 2 + (*type)->option_count);
        CHECK(options[0].fallback == (*type)->default_lr);
        CHECK(strcmp(options[1].fallback, strcmp((*type)->name, "adamw") == 0 ? "0.01" : "0") == 0);
    }
}

/* The sentence that creating a rule fails with. */
static const char *refusal(struct rt_tree *tree, struct rt_error *err) {
    struct rt_optim *optim = NULL;
    *err = (struct rt_error){0};
    CHECK(rt_optim_create(tree, &optim, err) == RT_BAD_INPUT);
    CHECK(!optim);
    rt_tree_destroy(tree);
    return err->text;
}

TEST(mistakes_are_named) {
    struct rt_error err;
    const char *const typo[] = {"momentun", "0.9", NULL}, *const negative[] = {"lr", "-1", NULL},
                      *const word[] = {"lr", "fast", NULL}, *const foreign[] = {"beta1", "0.9", NULL};
    CHECK(strstr(refusal(rule("momentun", NULL), &err), "'momentum'"));
    CHECK(strstr(refusal(rule("qqqqqqqq", NULL), &err),
                 "there are sgd, momentum, nesterov, adagrad, adam, adamw"));
    CHECK(strstr(refusal(rule("momentum", typo), &err), "momentum"));
    CHECK(strstr(refusal(rule("adam", negative), &err), "lr"));
    CHECK(strstr(refusal(rule("adam", word), &err), "lr"));
    CHECK(strstr(refusal(rule("sgd", foreign), &err), "beta1"));
    struct rt_tree *list;
    REQUIRE(rt_tree_create(RT_TREE_LIST, NULL, "test", 1, &list, &err) == RT_OK);
    CHECK(strstr(refusal(list, &err), "test:1"));
}

TEST_MAIN()
