/*
 * The bits of every registered layer: they depend neither on the kernels, nor on threads, nor on how the
 * batch is cut, nor on whether the two parts of the backward come together, apart or with a sink, nor on
 * where the model is cut, nor on whether an activation is absorbed. Only batchnorm may see the cut of the
 * batch.
 */
/* labels: threads=threads_change_no_bit */
#include "numeric/layer_cases.h"
#include "numeric/rig.h"

/* What a rig must agree in with another. */
static void check_same(const struct rig *a, const struct rig *b, const struct layer_case *c,
                       const char *what) {
    CHECK_MSG(rig_same(a->y, b->y, a->rows * a->out), "%s %s: %s: outputs differ", c->input, c->layers, what);
    CHECK_MSG(rig_same(a->dx, b->dx, a->rows * a->in), "%s %s: %s: input gradients differ", c->input,
              c->layers, what);
    CHECK_MSG(rig_same(a->grads, b->grads, a->model->param_count), "%s %s: %s: parameter gradients differ",
              c->input, c->layers, what);
    CHECK_MSG(rig_same(a->blocks.buffers, b->blocks.buffers, a->model->buffer_count),
              "%s %s: %s: buffers differ", c->input, c->layers, what);
}

/* Runs the case and compares with the reference kernels on one thread. */
static void against_reference(const struct layer_case *c, const char *kernels, size_t threads) {
    struct rt_error err;
    struct rig reference, rig;
    CHECK_OK(rig_open(&reference, c->input, c->layers, c->rows, RT_MATH_REFERENCE, "auto", 1, &err));
    CHECK_OK(rig_open(&rig, c->input, c->layers, c->rows, RT_MATH_EXACT, kernels, threads, &err));
    rig_forward(&reference);
    rig_backward(&reference, RT_BACKWARD_BOTH, NULL);
    rig_forward(&rig);
    rig_backward(&rig, RT_BACKWARD_BOTH, NULL);
    check_same(&reference, &rig, c, rig.device.kernels->name);
    /* Weights that were not prepared. */
    rt_model_init(rig.model, 1, rig.grads, rig.blocks.buffers); /* only for the buffers */
    rig.blocks.prepared_valid = !rig.blocks.prepared_valid;
    if (rig.blocks.prepared_valid)
        rt_model_prepare(rig.model, &rig.device, &rig.blocks);
    struct rt_layer_memory memory = {.params = rig.blocks.params,
                                     .buffers = rig.blocks.buffers,
                                     .prepared = rig.blocks.prepared_valid ? rig.blocks.prepared : NULL,
                                     .stash = rig.slot};
    const float *y = rt_model_nested_forward(rig.model, &rig.pass, &memory, rig.x);
    memcpy(rig.y, y, rig.rows * rig.out * sizeof *y);
    rig_backward(&rig, RT_BACKWARD_BOTH, NULL);
    check_same(&reference, &rig, c, "weights prepared or not");
    rig_close(&reference);
    rig_close(&rig);
}

TEST(exact_kernels_give_the_reference_bits) {
    const struct rt_kernels *tables[8];
    size_t count = rt_kernels_exact_all(tables, 8);
    CHECK(count > 0);
    for (size_t t = 0; t < count; t++)
        for (size_t i = 0; i < LAYER_CASES; i++)
            against_reference(&layer_cases[i], strrchr(tables[t]->name, '/') + 1, 1);
}

TEST(threads_change_no_bit) {
    for (size_t i = 0; i < LAYER_CASES; i++)
        if (layer_cases[i].wide) {
            against_reference(&layer_cases[i], "auto", 2);
            against_reference(&layer_cases[i], "auto", 3);
        }
}

TEST(parts_of_the_backward_apart_and_late) {
    struct rt_error err;
    for (size_t i = 0; i < LAYER_CASES; i++) {
        const struct layer_case *c = &layer_cases[i];
        struct rig once, apart;
        CHECK_OK(rig_open(&once, c->input, c->layers, c->rows, RT_MATH_EXACT, "auto", 1, &err));
        CHECK_OK(rig_open(&apart, c->input, c->layers, c->rows, RT_MATH_EXACT, "auto", 1, &err));
        rig_forward(&once);
        rig_backward(&once, RT_BACKWARD_BOTH, NULL);
        rig_forward(&apart);
        rig_backward(&apart, RT_BACKWARD_INPUT, NULL);
        /* Another micro-batch comes and goes in its own slot in between, without a trace. */
        float *slot = apart.slot, *x = apart.x, *buffers = apart.blocks.buffers, *dx = apart.dx;
        apart.slot = rig_floats(rt_model_slot_floats(apart.model, c->rows, true));
        apart.x = rig_floats(apart.rows * apart.in);
        apart.dx = rig_floats(apart.rows * apart.in);
        apart.blocks.buffers = rig_floats(apart.model->buffer_count);
        rig_fill(77, 1, apart.rows * apart.in, apart.x);
        rig_forward(&apart);
        rig_backward(&apart, RT_BACKWARD_BOTH, NULL);
        free(apart.slot);
        free(apart.x);
        free(apart.dx);
        free(apart.blocks.buffers);
        apart.slot = slot, apart.x = x, apart.dx = dx, apart.blocks.buffers = buffers;
        memcpy(apart.y, once.y, apart.rows * apart.out * sizeof *once.y);
        rig_backward(&apart, RT_BACKWARD_WEIGHTS, NULL);
        check_same(&once, &apart, c, "apart and late");
        rig_close(&once);
        rig_close(&apart);
    }
}

struct collector {
    float *grads;
    unsigned char *times; /* how often each parameter came */
};

static void collect(void *self, size_t offset, size_t count, const float *grad) {
    struct collector *collector = self;
    memcpy(collector->grads + offset, grad, count * sizeof *grad);
    for (size_t i = 0; i < count; i++)
        collector->times[offset + i]++;
}

TEST(a_sink_hears_every_gradient_once) {
    struct rt_error err;
    for (size_t i = 0; i < LAYER_CASES; i++) {
        const struct layer_case *c = &layer_cases[i];
        for (int accumulate = 0; accumulate < 2; accumulate++) {
            struct rig rig;
            CHECK_OK(rig_open(&rig, c->input, c->layers, c->rows, RT_MATH_EXACT, "auto", 2, &err));
            size_t n = rig.model->param_count;
            struct collector collector = {rig_floats(n), calloc(n + 1, 1)};
            struct rt_grad_sink sink = {.take = collect, .self = &collector};
            float *expected = rig_floats(n);
            for (int with_sink = 0; with_sink < 2; with_sink++) {
                rig_fill(3, 1, n, rig.grads);
                rig_forward(&rig);
                memcpy(rt_model_output_gradient(rig.model, &rig.pass, rig.slot), rig.r,
                       rig.rows * rig.out * sizeof *rig.r);
                rt_model_backward(rig.model, &rig.pass, &rig.blocks, rig.slot, rig.x, RT_BACKWARD_BOTH,
                                  rig.dx, rig.grads, accumulate, with_sink ? &sink : NULL);
                if (!with_sink)
                    memcpy(expected, rig.grads, n * sizeof *expected);
            }
            CHECK_MSG(rig_same(collector.grads, expected, n), "%s %s: the sink got other gradients", c->input,
                      c->layers);
            size_t wrong = 0;
            for (size_t p = 0; p < n; p++)
                wrong += collector.times[p] != 1;
            CHECK_MSG(wrong == 0, "%s %s: %zu parameters did not come once", c->input, c->layers, wrong);
            free(collector.grads);
            free(collector.times);
            free(expected);
            rig_close(&rig);
        }
    }
}

/* Forward and backward in micro-batches of at most `cut` rows, gradients added up in order. */
static void run_cut(struct rig *rig, size_t cut) {
    for (size_t at = 0; at < rig->rows; at += cut) {
        struct rt_pass pass = rig->pass;
        pass.rows = rig->rows - at < cut ? rig->rows - at : cut;
        pass.examples = rig->examples + at;
        const float *x = rig->x + at * rig->in;
        const float *y = rt_model_forward(rig->model, &pass, &rig->blocks, rig->slot, x);
        memcpy(rig->y + at * rig->out, y, pass.rows * rig->out * sizeof *y);
        memcpy(rt_model_output_gradient(rig->model, &pass, rig->slot), rig->r + at * rig->out,
               pass.rows * rig->out * sizeof *y);
        rt_model_backward(rig->model, &pass, &rig->blocks, rig->slot, x, RT_BACKWARD_BOTH,
                          rig->dx + at * rig->in, rig->grads, at > 0, NULL);
    }
}

TEST(cutting_the_batch_changes_no_bit) {
    struct rt_error err;
    const size_t cuts[] = {1, 3, SIZE_MAX / 2};
    for (size_t i = 0; i < LAYER_CASES; i++) {
        const struct layer_case *c = &layer_cases[i];
        if (strstr(c->layers, "batchnorm"))
            continue;
        for (size_t k = 0; k < 3; k++) {
            struct rig whole, cut;
            CHECK_OK(rig_open(&whole, c->input, c->layers, c->rows, RT_MATH_EXACT, "auto", 1, &err));
            CHECK_OK(rig_open(&cut, c->input, c->layers, c->rows, RT_MATH_EXACT, "auto", 1, &err));
            rig_forward(&whole);
            rig_backward(&whole, RT_BACKWARD_BOTH, NULL);
            run_cut(&cut, cuts[k]);
            check_same(&whole, &cut, c, "micro-batches");
            rig_close(&whole);
            rig_close(&cut);
        }
    }
}

/* Runs each layer of the list as a model of its own, as a ring with one layer per machine would. Nothing can
 * be absorbed then, and nothing shared. */
static void run_layer_by_layer(const struct layer_case *c, const struct rig *whole) {
    struct rt_error err;
    enum { MOST = 8 };
    struct rig parts[MOST];
    size_t count = whole->model->count;
    if (count > MOST) {
        CHECK_MSG(false, "%s has more than %d layers", c->layers, MOST);
        return;
    }
    const float *x = whole->x;
    for (size_t i = 0; i < count; i++) {
        CHECK_OK(rig_open_part(&parts[i], c->input, c->layers, i, 1, c->rows, true, RT_MATH_EXACT, "auto", 1,
                               &err));
        struct rig *part = &parts[i];
        memcpy(part->blocks.params, whole->blocks.params + whole->model->param_at[i],
               part->model->param_count * sizeof *x);
        memcpy(part->x, x, part->rows * part->in * sizeof *x);
        rig_forward(part);
        x = part->y;
    }
    CHECK_MSG(rig_same(x, whole->y, whole->rows * whole->out), "%s %s: layer by layer: outputs differ",
              c->input, c->layers);
    const float *dy = whole->r;
    for (size_t i = count; i-- > 0;) {
        struct rig *part = &parts[i];
        memcpy(part->r, dy, part->rows * part->out * sizeof *dy);
        rig_backward(part, RT_BACKWARD_BOTH, NULL);
        CHECK_MSG(rig_same(part->grads, whole->grads + whole->model->param_at[i], part->model->param_count),
                  "%s %s: layer by layer: gradients of layer %zu differ", c->input, c->layers, i);
        dy = part->dx;
    }
    CHECK_MSG(rig_same(dy, whole->dx, whole->rows * whole->in),
              "%s %s: layer by layer: input gradients differ", c->input, c->layers);
    for (size_t i = 0; i < count; i++)
        rig_close(&parts[i]);
}

TEST(cutting_the_model_changes_no_bit) {
    struct rt_error err;
    for (size_t i = 0; i < LAYER_CASES; i++) {
        const struct layer_case *c = &layer_cases[i];
        struct rig whole;
        CHECK_OK(rig_open(&whole, c->input, c->layers, c->rows, RT_MATH_EXACT, "auto", 1, &err));
        rig_forward(&whole);
        rig_backward(&whole, RT_BACKWARD_BOTH, NULL);
        run_layer_by_layer(c, &whole);
        rig_close(&whole);
    }
}

TEST(without_input_gradient_the_weights_are_the_same) {
    struct rt_error err;
    for (size_t i = 0; i < LAYER_CASES; i++) {
        const struct layer_case *c = &layer_cases[i];
        struct rig with, without;
        CHECK_OK(rig_open(&with, c->input, c->layers, c->rows, RT_MATH_EXACT, "auto", 1, &err));
        CHECK_OK(rig_open_part(&without, c->input, c->layers, 0, SIZE_MAX, c->rows, false, RT_MATH_EXACT,
                               "auto", 1, &err));
        rig_forward(&with);
        rig_backward(&with, RT_BACKWARD_BOTH, NULL);
        rig_forward(&without);
        float *dx = without.dx;
        without.dx = NULL;
        rig_backward(&without, RT_BACKWARD_BOTH, NULL);
        without.dx = dx;
        memcpy(dx, with.dx, with.rows * with.in * sizeof *dx);
        check_same(&with, &without, c, "without input gradient");
        rig_close(&with);
        rig_close(&without);
    }
}

/* With the training flag off: dropout does nothing, batchnorm recalls; the rest is as in training. */
TEST(inference_gives_the_outputs_of_training) {
    struct rt_error err;
    for (size_t i = 0; i < LAYER_CASES; i++) {
        const struct layer_case *c = &layer_cases[i];
        if (strstr(c->layers, "batchnorm") || strstr(c->layers, "dropout"))
            continue;
        struct rig rig;
        CHECK_OK(rig_open(&rig, c->input, c->layers, c->rows, RT_MATH_EXACT, "auto", 1, &err));
        rig_forward(&rig);
        struct rt_pass pass = rig.pass;
        pass.training = false;
        float *slot = rig_floats(rt_model_slot_floats(rig.model, c->rows, false));
        const float *y = rt_model_forward(rig.model, &pass, &rig.blocks, slot, rig.x);
        CHECK_MSG(rig_same(y, rig.y, rig.rows * rig.out), "%s %s: inference differs", c->input, c->layers);
        free(slot);
        rig_close(&rig);
    }
}

TEST_MAIN()
