/* A stage by itself: memory, tensors and images, evaluation, and the versions of ring-flow. That chained
 * stages give what one device gives is in contract/test_stages.c. */
#include "support/chain.h"
#include "support/test.h"
#include <math.h>

static const char model[] =
    "{input: [1, 6, 6], loss: cross_entropy, layers: [{conv2d: {filters: 3, kernel: 3}}, batchnorm, relu, "
    "flatten, {dense: 12}, {dropout: 0.2}, {dense: 4}]}";
static const struct rt_trainer_settings settings = {
    .seed = 5, .batch = 8, .micro_batch = 8, .shards = 1, .shuffle = true};

enum { EXAMPLES = 20, MOST = 4000 };

static const size_t two_cuts[] = {2, 5, 0}, one_cut[] = {1, 0};

static rt_status open_tiny(const char *optimizer, struct tiny *tiny, struct rt_error *err) {
    return tiny_open(model, optimizer, EXAMPLES, &(struct tiny_way){0}, &settings, tiny, err);
}

static rt_status open_chain(const struct tiny *tiny, const char *keys, const size_t *cuts, size_t slots,
                            struct chain *chain, struct rt_error *err) {
    return chain_open(tiny, model, keys, cuts, slots, 1, 3, chain, err);
}

/* ---- making ---- */

TEST(indices_travel_as_far_as_they_are_needed) {
    struct rt_error err;
    struct rt_device device;
    CHECK_OK(rt_device_open(RT_MATH_EXACT, "auto", 1, &device, &err));
    static const struct {
        size_t first, count;
        bool needs, sends;
    } cases[] = {{0, 3, true, true}, {3, 3, true, false}, {6, 1, false, false}, {0, 7, true, false}};
    for (size_t evaluates = 0; evaluates < 2; evaluates++)
        for (size_t i = 0; i < 4; i++) {
            struct rt_job *job;
            struct rt_stage *stage;
            CHECK_OK(chain_job(model, evaluates ? "batch: 8, evaluate_only: true" : "batch: 8", &job, &err));
            CHECK_OK(rt_stage_create(job, &device, cases[i].first, cases[i].count, 2, &stage, &err));
            CHECK_MSG(stage->needs_examples == (cases[i].needs && !evaluates), "case %zu", i);
            CHECK_MSG(stage->sends_examples == (cases[i].sends && !evaluates), "case %zu", i);
            rt_stage_destroy(stage);
            rt_job_destroy(job);
        }
    rt_device_close(&device);
}

TEST(what_cannot_be_is_refused) {
    struct rt_error err;
    struct rt_device device;
    struct rt_job *job;
    struct rt_stage *stage;
    CHECK_OK(rt_device_open(RT_MATH_EXACT, "auto", 1, &device, &err));
    CHECK_OK(chain_job(model, "batch: 8", &job, &err));
    CHECK(rt_stage_create(job, &device, 0, 7, 0, &stage, &err) == RT_BAD_INPUT);
    CHECK(rt_stage_create(job, &device, 7, 1, 1, &stage, &err) == RT_BAD_INPUT);
    CHECK(rt_stage_create(job, &device, 0, 8, 1, &stage, &err) == RT_BAD_INPUT);
    CHECK(rt_stage_create(job, &device, 0, 0, 1, &stage, &err) == RT_BAD_INPUT);
    err.text[0] = 0;
    CHECK(rt_stage_create(job, &device, 0, 7, SIZE_MAX / 4, &stage, &err) == RT_NO_MEMORY && err.text[0]);
    rt_job_destroy(job);
    CHECK_OK(chain_job("{input: 1048576, loss: mse, layers: [{dense: 2048}, {dense: 1048576}]}",
                       "batch: 1048576, optimizer: adam", &job, &err));
    err.text[0] = 0;
    CHECK(rt_stage_create(job, &device, 0, 2, 4, &stage, &err) == RT_NO_MEMORY && err.text[0]);
    rt_job_destroy(job);
    rt_device_close(&device);
}

/* ---- tensors and images ---- */

/* All floats of a tensor of a chain, stage after stage, asked for in odd pieces. */
static size_t read_word(const struct chain *chain, size_t tensor, float *out) {
    size_t total = 0;
    for (size_t k = 0; k < chain->count; k++) {
        const struct rt_stage *stage = chain->stages[k];
        const size_t count = rt_stage_state_floats(stage, tensor);
        for (size_t at = 0, piece = 1; at < count; at += piece, piece = piece * 3 % 101) {
            piece = count - at < piece ? count - at : piece;
            rt_stage_state_read(stage, tensor, at, piece, out + total + at);
        }
        total += count;
    }
    return total;
}

static void write_word(const struct chain *chain, size_t tensor, const float *in) {
    for (size_t k = 0; k < chain->count; k++) {
        struct rt_stage *stage = chain->stages[k];
        const size_t count = rt_stage_state_floats(stage, tensor);
        for (size_t at = 0, piece = 7; at < count; at += piece, piece = piece * 5 % 97) {
            piece = count - at < piece ? count - at : piece;
            rt_stage_state_write(stage, tensor, at, piece, in + at);
        }
        in += count;
    }
}

struct file_walk {
    const struct rt_blocks *blocks;
    float *out;
};

static rt_status file_tensor(void *user, const char *name, const struct rt_shape *shape, size_t offset,
                             bool is_buffer, struct rt_error *err) {
    (void)name, (void)err;
    struct file_walk *walk = user;
    const float *from = (is_buffer ? walk->blocks->buffers : walk->blocks->params) + offset;
    memcpy(walk->out, from, rt_shape_size(shape) * sizeof *from);
    walk->out += rt_shape_size(shape);
    return RT_OK;
}

TEST(words_are_the_order_of_files) {
    struct rt_error err;
    struct tiny tiny;
    struct chain chain;
    struct rt_step step;
    static float tensor[MOST], file[MOST];
    CHECK_OK(open_tiny("adam", &tiny, &err));
    CHECK_OK(open_chain(&tiny, "batch: 8, seed: 5, optimizer: adam", two_cuts, 2, &chain, &err));
    CHECK_OK(rt_trainer_step(tiny.trainer, &step, &err));
    chain_update(&chain);
    CHECK(rt_stage_state_count(chain.stages[0]) == 3);
    struct file_walk walk = {&tiny.network.blocks, file};
    CHECK_OK(rt_model_visit(tiny.network.model, file_tensor, &walk, &err));
    const size_t params = tiny.network.model->param_count, all = params + tiny.network.model->buffer_count;
    REQUIRE(all <= MOST);
    CHECK(read_word(&chain, 0, tensor) == all && memcmp(tensor, file, all * sizeof *tensor) == 0);
    for (size_t w = 1; w <= 2; w++) {
        CHECK(read_word(&chain, w, tensor) == params);
        CHECK(memcmp(tensor, rt_trainer_state(tiny.trainer) + (w - 1) * params, params * sizeof *tensor) ==
              0);
    }
    chain_close(&chain);
    tiny_close(&tiny);
}

/* Out of three stages into two, with other micro-batches: the training goes on with the same bits. */
TEST(words_carry_a_training_to_another_cut) {
    struct rt_error err;
    struct tiny tiny;
    struct chain a, b;
    static float tensor[MOST];
    CHECK_OK(open_tiny("adam", &tiny, &err));
    CHECK_OK(open_chain(&tiny, "batch: 8, seed: 5, optimizer: adam", two_cuts, 1, &a, &err));
    CHECK_OK(open_chain(&tiny, "batch: 8, seed: 5, optimizer: adam", one_cut, 1, &b, &err));
    for (size_t i = 0; i < 3; i++)
        chain_update(&a);
    chain_update(&b); /* other numbers, and weights prepared from them */
    for (size_t w = 0; w < 3; w++) {
        read_word(&a, w, tensor);
        write_word(&b, w, tensor);
    }
    for (size_t k = 0; k < b.count; k++)
        b.stages[k]->update = 3;
    for (size_t i = 0; i < 2; i++)
        chain_update(&b);
    struct rt_step step;
    for (size_t i = 0; i < 5; i++)
        CHECK_OK(rt_trainer_step(tiny.trainer, &step, &err));
    CHECK(chain_differs(&a, &tiny) > 0);
    CHECK(chain_differs(&b, &tiny) == 0);
    chain_close(&a);
    chain_close(&b);
    tiny_close(&tiny);
}

/* The image stays as it was taken while the training goes on. */
TEST(an_image_stands_still) {
    struct rt_error err;
    struct tiny tiny;
    struct chain chain;
    static float before[3][MOST], after[MOST];
    CHECK_OK(open_tiny("adam", &tiny, &err));
    CHECK_OK(
        open_chain(&tiny, "batch: 8, seed: 5, optimizer: adam, micro_batch: 3", two_cuts, 3, &chain, &err));
    chain_update(&chain);
    for (size_t w = 0; w < 3; w++)
        read_word(&chain, w, before[w]); /* no image yet: the stages themselves */
    for (size_t k = 0; k < chain.count; k++)
        CHECK_OK(rt_stage_snapshot(chain.stages[k], &err));
    chain_update(&chain);
    for (size_t w = 0; w < 3; w++) {
        const size_t count = read_word(&chain, w, after);
        CHECK(memcmp(before[w], after, count * sizeof *after) == 0);
        CHECK(chain.stages[0]->image_update == 1);
    }
    for (size_t k = 0; k < chain.count; k++)
        CHECK_OK(rt_stage_snapshot(chain.stages[k], &err));
    for (size_t w = 0; w < 3; w++) {
        const size_t count = read_word(&chain, w, after);
        CHECK(memcmp(before[w], after, count * sizeof *after) != 0);
    }
    chain_close(&chain);
    tiny_close(&tiny);
}

TEST(an_image_of_what_is_not_finite_is_refused) {
    struct rt_error err;
    struct tiny tiny;
    struct chain chain;
    CHECK_OK(open_tiny("adam", &tiny, &err));
    CHECK_OK(open_chain(&tiny, "batch: 8, optimizer: adam", one_cut, 1, &chain, &err));
    struct rt_stage *stage = chain.stages[1];
    chain_update(&chain);
    CHECK_OK(rt_stage_snapshot(stage, &err));
    chain_update(&chain);
    struct {
        float *at;
        const char *said;
    } parts[] = {{stage->blocks.params + stage->model->param_count - 1, "a parameter"},
                 {stage->blocks.buffers, "a buffer"},
                 {stage->state + 2 * stage->model->param_count - 1, "the optimizer's state"}};
    for (size_t i = 0; i < 3; i++) {
        const float kept = *parts[i].at;
        *parts[i].at = i ? (float)NAN : (float)INFINITY;
        CHECK(rt_stage_snapshot(stage, &err) == RT_DIVERGED && stage->image_update == 1);
        CHECK_MSG(strstr(err.text, parts[i].said) && strstr(err.text, "update 2"), "%s", err.text);
        *parts[i].at = kept;
    }
    CHECK_OK(rt_stage_snapshot(stage, &err));
    CHECK(stage->image_update == 2);
    chain_close(&chain);
    tiny_close(&tiny);
}

/* ---- evaluation ---- */

/* Outputs of the first examples, through all stages. */
static const float *evaluate(struct chain *chain, size_t rows) {
    const float *x = chain->tiny->inputs;
    for (size_t k = 0; k < chain->count; k++) {
        struct rt_stage *stage = chain->stages[k];
        struct rt_slot *slot = rt_stage_slot(stage, 1);
        slot->rows = rows;
        memcpy(slot->x, x, rows * rt_shape_size(&stage->model->in) * sizeof *x);
        rt_stage_forward(stage, slot, false);
        x = slot->y;
    }
    return x;
}

TEST(evaluation_is_that_of_one_device_and_leaves_no_trace) {
    struct rt_error err;
    struct tiny tiny;
    struct chain chain, eyes;
    struct rt_step step;
    static float tensor[MOST], slot[20000];
    CHECK_OK(open_tiny("momentum", &tiny, &err));
    CHECK_OK(open_chain(&tiny, "batch: 8, seed: 5, optimizer: momentum", two_cuts, 2, &chain, &err));
    CHECK_OK(open_chain(&tiny, "batch: 8, evaluate_only: true", one_cut, 2, &eyes, &err));
    CHECK(rt_stage_state_count(eyes.stages[0]) == 1);
    REQUIRE(rt_model_slot_floats(tiny.network.model, 8, false) <= 20000);
    for (size_t i = 0; i < 3; i++) {
        CHECK_OK(rt_trainer_step(tiny.trainer, &step, &err));
        chain_update(&chain);
        const struct rt_pass pass = {.device = &tiny.network.device, .rows = 8};
        const float *y = rt_model_forward(tiny.network.model, &pass, &tiny.network.blocks, slot, tiny.inputs);
        CHECK(memcmp(evaluate(&chain, 8), y, 8 * 4 * sizeof *y) == 0);
        read_word(&chain, 0, tensor);
        write_word(&eyes, 0, tensor);
        CHECK(memcmp(evaluate(&eyes, 8), y, 8 * 4 * sizeof *y) == 0);
    }
    CHECK(chain_differs(&chain, &tiny) == 0);
    CHECK(rt_stage_snapshot(eyes.stages[0], &err) == RT_FAILED);
    chain_close(&chain);
    chain_close(&eyes);
    tiny_close(&tiny);
}

/* ---- ring-flow ---- */

TEST(flow_with_one_slot_is_exact) {
    static const char *const rules[] = {"sgd", "momentum", "adam"};
    for (size_t i = 0; i < 6; i++) {
        struct rt_error err;
        struct tiny tiny;
        struct chain chain;
        struct rt_step step;
        char keys[200];
        struct rt_trainer_settings own = settings;
        own.clip_norm = i < 3 ? 0 : 0.1;
        snprintf(keys, sizeof keys,
                 "batch: 8, seed: 5, ring: {mode: ring-flow}, optimizer: %s, clip_norm: %g", rules[i % 3],
                 own.clip_norm);
        CHECK_OK(tiny_open(model, rules[i % 3], EXAMPLES, &(struct tiny_way){0}, &own, &tiny, &err));
        CHECK_OK(open_chain(&tiny, keys, two_cuts, 1, &chain, &err));
        for (size_t u = 0; u < 5; u++) {
            CHECK_OK(rt_trainer_step(tiny.trainer, &step, &err));
            chain_update(&chain);
        }
        CHECK_MSG(chain_differs(&chain, &tiny) == 0, "%s", keys);
        CHECK(chain.stages[0]->version_count == 0 && chain.stages[0]->staleness_sum == 0);
        CHECK(chain.stages[0]->staleness_count == 5);
        chain_close(&chain);
        tiny_close(&tiny);
    }
}

static const char flat[] = "{input: 9, loss: mse, layers: [{dense: 12}, layernorm, tanh, {dense: 4}]}";

enum { SLOTS = 3, MICROS = 40, PARAMS = 200, ROWS = 4 };

static void fill_slot(struct rt_slot *slot, uint64_t m) {
    slot->micro = m;
    slot->rows = slot->batch_rows = ROWS;
    slot->part = (struct rt_micro){.rows = ROWS, .first_of_slice = true, .last_of_slice = true};
    for (size_t i = 0; i < ROWS * 9; i++)
        slot->x[i] = (float)((m * 7 + i * 13) % 17) / 8 - 1;
}

static void fill_gradient(struct rt_slot *slot, uint64_t m) {
    for (size_t i = 0; i < ROWS * 4; i++)
        slot->dy[i] = (float)((m * 5 + i * 11) % 13) / 16 - 0.375f;
}

/* Three micro-batches in flight, in an order that changes: each gradient is of the version that its forward
 * saw, and is applied to the newest. The reference keeps every version and computes each gradient anew. */
static void check_flow(const char *keys, int damp, uint32_t random) {
    struct rt_error err;
    struct rt_device device;
    struct rt_job *job, *plain;
    struct rt_stage *stage, *single;
    static float versions[MICROS + 1][PARAMS], state[2 * PARAMS];
    char all[200];
    memset(state, 0, sizeof state);
    CHECK_OK(rt_device_open(RT_MATH_EXACT, "auto", 1, &device, &err));
    snprintf(all, sizeof all, "batch: 4, ring: {mode: ring-flow, damp: %d}, %s", damp, keys);
    CHECK_OK(chain_job(flat, all, &job, &err));
    snprintf(all, sizeof all, "batch: 4, clip_norm: 1000, %s", keys);
    CHECK_OK(chain_job(flat, all, &plain, &err));
    CHECK_OK(rt_stage_create(job, &device, 0, 4, SLOTS, &stage, &err));
    CHECK_OK(rt_stage_create(plain, &device, 0, 4, 1, &single, &err));
    const size_t whole = stage->model->param_count;
    REQUIRE(whole <= PARAMS);
    memcpy(versions[0], stage->blocks.params, whole * sizeof(float));
    uint64_t forwards = 0, inputs = 0, weights = 0, seen[MICROS], sum = 0, most = 0;
    while (weights < MICROS) {
        random = random * 1664525u + 1013904223u;
        const uint32_t choice = random >> 16;
        if (forwards < MICROS && forwards - weights < SLOTS && choice % 2) {
            struct rt_slot *slot = rt_stage_slot(stage, forwards);
            fill_slot(slot, forwards);
            rt_stage_forward(stage, slot, true);
            CHECK(slot->update == weights);
            seen[forwards++] = weights;
        } else if (inputs < forwards && choice % 3) {
            struct rt_slot *slot = rt_stage_slot(stage, inputs);
            fill_gradient(slot, inputs++);
            rt_stage_backward_input(stage, slot, NULL);
        } else if (weights < inputs) {
            struct rt_slot *waiting = rt_stage_slot(stage, weights);
            rt_stage_backward_weights(stage, &waiting, 1, true, NULL);
            rt_stage_apply(stage, 1);
            /* the same by its definition */
            struct rt_slot *slot = rt_stage_slot(single, 0);
            memcpy(single->blocks.params, versions[seen[weights]], whole * sizeof(float));
            single->blocks.prepared_valid = false;
            fill_slot(slot, weights);
            rt_stage_forward(single, slot, true);
            fill_gradient(slot, weights);
            rt_stage_backward_input(single, slot, NULL);
            rt_stage_backward_weights(single, &slot, 1, true, NULL);
            memcpy(versions[weights + 1], versions[weights], whole * sizeof(float));
            struct rt_optim_step step;
            const double stale = (double)(weights - seen[weights]);
            const double damped = job->ring.damp == 2 ? 1 / (1 + stale) / (1 + stale) : 1;
            rt_optim_begin(plain->optim, weights + 1, damped, 1, &step);
            rt_optim_apply(plain->optim, &step, 0, whole, whole, versions[weights + 1],
                           single->slices.blocks[0], state);
            const uint64_t between = weights - seen[weights];
            sum += between;
            most = between > most ? between : most;
            weights++;
            CHECK_MSG(memcmp(stage->blocks.params, versions[weights], whole * sizeof(float)) == 0,
                      "%s: differs after update %llu", keys, (unsigned long long)weights);
        }
    }
    CHECK(most == SLOTS - 1 && stage->staleness_max == most && stage->staleness_sum == sum);
    CHECK(stage->staleness_count == MICROS && stage->update == MICROS);
    rt_stage_destroy(stage);
    rt_stage_destroy(single);
    rt_job_destroy(job);
    rt_job_destroy(plain);
    rt_device_close(&device);
}

TEST(flow_uses_the_version_of_the_forward) {
    for (uint32_t random = 1; random < 20; random++)
        check_flow("optimizer: momentum", 0, random);
    check_flow("optimizer: adam", 0, 7);
}

TEST(flow_damps_stale_gradients) {
    for (uint32_t random = 1; random < 5; random++)
        check_flow("optimizer: momentum", 2, random);
}

TEST_MAIN()
