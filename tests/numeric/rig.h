/*
 * A rig for tests: a model from a line of YAML, with a device, blocks, a slot, and inputs drawn by a small
 * generator that tools/make_golden.py repeats.
 */
#ifndef RT_TEST_RIG_H
#define RT_TEST_RIG_H

#include "base/memory.h"
#include "formats/yaml.h"
#include "nn/loss.h"
#include "nn/model.h"
#include "support/test.h"

/* A linear congruential generator; numbers of 16 bits in -1..1, exact in float. */
static inline float rig_draw(uint32_t *state) {
    *state = *state * 1664525u + 1013904223u;
    return (float)((int32_t)(*state >> 16) - 32768) * 0x1p-15f;
}

static inline void rig_fill(uint32_t seed, float factor, size_t n, float *x) {
    for (size_t i = 0; i < n; i++)
        x[i] = rig_draw(&seed) * factor;
}

/* n numbers at equal distances between -2 and 2, none 0, in a shuffled order: no two nearly equal, none near
 * a kink, so a small step never changes a maximum or a sign. */
static inline void rig_spread(uint32_t seed, size_t n, float *x) {
    for (size_t i = 0; i < n; i++)
        x[i] = ((float)i + 0.5f) * (4.0f / (float)n) - 2.0f;
    for (size_t i = n; i > 1; i--) {
        seed = seed * 1664525u + 1013904223u;
        size_t j = (seed >> 8) % i;
        float keep = x[i - 1];
        x[i - 1] = x[j];
        x[j] = keep;
    }
}

struct rig {
    struct rt_device device;
    struct rt_model *model;
    struct rt_blocks blocks;
    size_t rows, in, out; /* floats of an example */
    float *slot, *x, *y, *r, *dx, *grads;
    uint32_t *examples;
    struct rt_pass pass;
};

static inline float *rig_floats(size_t n) {
    float *floats = NULL;
    struct rt_error err;
    if (rt_floats_create(n, "a test", &floats, &err) != RT_OK) {
        fprintf(stderr, "%s\n", err.text);
        exit(1);
    }
    return floats;
}

static inline struct rt_tree *rig_parse(const char *text) {
    struct rt_tree *tree = NULL;
    struct rt_error err;
    if (rt_yaml_parse(text, strlen(text), "test", &tree, &err) != RT_OK) {
        fprintf(stderr, "%s\n", err.text);
        exit(1);
    }
    return tree;
}

/* Layers first..first+count-1 of the list. Parameters are drawn anew, so that no factor is 1 or 0. */
static inline rt_status rig_open_part(struct rig *rig, const char *input, const char *layers, size_t first,
                                      size_t count, size_t rows, bool input_gradient, enum rt_math math,
                                      const char *kernels, size_t threads, struct rt_error *err) {
    memset(rig, 0, sizeof *rig);
    struct rt_tree *input_tree = rig_parse(input), *layers_tree = rig_parse(layers);
    struct rt_shape shape;
    uint32_t index = 0;
    rt_status status = rt_shape_read(input_tree, &shape, err);
    if (status == RT_OK)
        status = rt_device_open(math, kernels, threads, &rig->device, err);
    if (status == RT_OK)
        status = rt_model_create(layers_tree, &shape, first, count, input_gradient, rig->device.kernels,
                                 &index, &rig->model, err);
    rt_tree_destroy(input_tree);
    rt_tree_destroy(layers_tree);
    if (status == RT_OK)
        status = rt_pool_reserve(rig->device.pool, rig->model->scratch_bytes, err);
    if (status != RT_OK)
        return status;
    const struct rt_model *model = rig->model;
    rig->rows = rows;
    rig->in = rt_shape_size(&model->in);
    rig->out = rt_shape_size(&model->out);
    rig->blocks.params = rig_floats(model->param_count);
    rig->blocks.buffers = rig_floats(model->buffer_count);
    rig->blocks.prepared = rig_floats(model->prepared_floats);
    rig->slot = rig_floats(rt_model_slot_floats(model, rows, true));
    rig->x = rig_floats(rows * rig->in);
    rig->y = rig_floats(rows * rig->out);
    rig->r = rig_floats(rows * rig->out);
    rig->dx = rig_floats(rows * rig->in);
    rig->grads = rig_floats(model->param_count);
    rig->examples = calloc(rows, sizeof *rig->examples);
    for (size_t i = 0; i < rows; i++)
        rig->examples[i] = (uint32_t)(100 + 7 * i);
    rt_model_init(model, 1, rig->blocks.params, rig->blocks.buffers);
    rig_fill(11, 0.5f, model->param_count, rig->blocks.params);
    rig_spread(12, rows * rig->in, rig->x);
    rig_fill(13, 1, rows * rig->out, rig->r);
    rig->pass = (struct rt_pass){.device = &rig->device,
                                 .rows = rows,
                                 .training = true,
                                 .seed = 5,
                                 .epoch = 2,
                                 .examples = rig->examples};
    return RT_OK;
}

static inline rt_status rig_open(struct rig *rig, const char *input, const char *layers, size_t rows,
                                 enum rt_math math, const char *kernels, size_t threads,
                                 struct rt_error *err) {
    return rig_open_part(rig, input, layers, 0, SIZE_MAX, rows, true, math, kernels, threads, err);
}

static inline void rig_close(struct rig *rig) {
    rt_model_destroy(rig->model);
    rt_device_close(&rig->device);
    free(rig->blocks.params);
    free(rig->blocks.buffers);
    free(rig->blocks.prepared);
    free(rig->slot);
    free(rig->x);
    free(rig->y);
    free(rig->r);
    free(rig->dx);
    free(rig->grads);
    free(rig->examples);
}

/* Forward of all rows; the output is copied to rig->y. */
static inline void rig_forward(struct rig *rig) {
    const float *y = rt_model_forward(rig->model, &rig->pass, &rig->blocks, rig->slot, rig->x);
    memcpy(rig->y, y, rig->rows * rig->out * sizeof *y);
}

/* Backward of the gradient rig->r: into dx and grads. */
static inline void rig_backward(struct rig *rig, enum rt_backward parts, const struct rt_grad_sink *sink) {
    float *dy = rt_model_output_gradient(rig->model, &rig->pass, rig->slot);
    if (parts & RT_BACKWARD_INPUT)
        memcpy(dy, rig->r, rig->rows * rig->out * sizeof *dy);
    rt_model_backward(rig->model, &rig->pass, &rig->blocks, rig->slot, rig->x, parts, rig->dx, rig->grads,
                      false, sink);
}

static inline bool rig_same(const float *a, const float *b, size_t n) {
    return n == 0 || memcmp(a, b, n * sizeof *a) == 0;
}

/* |a - b| / |b|, with the norms over all n; 0 where both are 0. */
static inline double rig_distance(size_t n, const double *a, const double *b) {
    double difference = 0, size = 0;
    for (size_t i = 0; i < n; i++) {
        difference += (a[i] - b[i]) * (a[i] - b[i]);
        size += b[i] * b[i];
    }
    return difference == 0 ? 0 : __builtin_sqrt(difference / (size > 1e-60 ? size : 1e-60));
}

#endif
