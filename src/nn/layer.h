/*
 * The interface of a layer. One layer, one file in nn/layers/, declared in layers.h, one line in
 * registry.c.
 *
 * A layer works on micro-batches: x is [rows][in], y is [rows][out], row-major. Its backward has two
 * parts, because in a ring the second may run much later than the first: input() computes the gradient at
 * the input from the gradient at the output, weights() adds up the gradient of the parameters. Both see
 * the same x, y, stash and dy, which the caller keeps until both are done.
 */
#ifndef RT_NN_LAYER_H
#define RT_NN_LAYER_H

#include "base/option.h"
#include "tensor/device.h"
#include "tensor/shape.h"

struct rt_layer;
struct rt_model;

/* The context of a pass over a micro-batch. */
struct rt_pass {
    const struct rt_device *device;
    size_t rows;
    bool training; /* dropout drops, batchnorm measures */
    uint64_t seed;
    uint32_t epoch;
    const uint32_t *examples; /* rows indices of the examples in the data; keys dropout's masks */
    bool begun;               /* the forward of the model's first layer is done: see rt_successor */
};

/* The memory of a layer's numbers; each pointer is at the layer's own part of its block. */
struct rt_layer_memory {
    const float *params;
    float *buffers;        /* batch-norm statistics and the like: saved, not trained */
    const float *prepared; /* what prepare() made of params */
    float *stash;          /* what forward keeps for backward beyond x and y */
    float *work;           /* layer->work_floats to use freely during one call; shared by all layers */
};

/* The example after a single one. A descent brings all parameters of the first layer through the caches to
 * update them: it can also compute the forward of this example with them, which then need not fetch them
 * again. */
struct rt_successor {
    const float *x;
    float *y;   /* where the first layer's output goes; the model fills it in */
    bool begun; /* the layer has done it */
};

/* Told of each span of a layer's gradient as soon as it is final: grad[0..count) belongs at offset within
 * the layer's parameters. May be called by several threads at once, for disjoint spans. */
struct rt_grad_sink {
    void (*take)(void *self, size_t offset, size_t count, const float *grad);
    void *self;
    /* The operation of take, if it is a descent of the layer's parameters: a layer may then do it itself, for
     * spans that need not even be stored. NULL: another operation. */
    const struct rt_descent *descent;
    struct rt_successor *successor; /* NULL: none. Only with a descent */
};

/* A micro-batch whose weight gradient is still to be done: the layer's inputs and gradients. */
struct rt_waiting {
    const struct rt_pass *pass;
    struct rt_layer_memory memory;
    const float *x, *y, *dy;
};

/* The largest number done at once. */
enum { RT_MAX_WAITING = 32 };

enum { RT_MAX_TENSORS = 4 };

/* The largest number of layers in a model, including nested ones: a limit for run files and other
 * machines. */
enum { RT_MODEL_LAYERS = 1 << 16 };

/* A named piece of a layer's parameters or buffers. */
struct rt_named {
    const char *name; /* "weight", "bias", ... */
    struct rt_shape shape;
    size_t offset; /* in floats, from the start of the layer's part */
};

struct rt_layer_type {
    const char *name;
    const char *help; /* one or two sentences */
    const struct rt_option *options;
    size_t option_count;
    const char *main_option; /* set by "name: value"; or NULL */
    size_t settings_bytes;
    bool needs_examples; /* in training it reads pass->examples */
    bool measures_batch; /* in training its result depends on which examples share a micro-batch */

    /* Checks settings against layer->in and fills in out, tensors, counts and costs. */
    rt_status (*setup)(struct rt_layer *layer, const struct rt_tree *spec, struct rt_error *err);
    void (*destroy)(struct rt_layer *layer); /* may be NULL: frees what setup allocated beyond the settings */
    /* Initial parameters and buffers, a function of (seed, layer->index); NULL if there are none. */
    void (*init)(const struct rt_layer *layer, uint64_t seed, float *params, float *buffers);
    /* Packs weights in the layout of the products (layer->prepared_floats); NULL: the layer has no prepared
     * weights. */
    void (*prepare)(const struct rt_layer *layer, const struct rt_device *device, const float *params,
                    float *prepared);

    void (*forward)(const struct rt_layer *layer, const struct rt_pass *pass,
                    const struct rt_layer_memory *memory, const float *x, float *y);
    /* dx is NULL when !layer->input_gradient; then only layers with a body are called. */
    void (*backward_input)(const struct rt_layer *layer, const struct rt_pass *pass,
                           const struct rt_layer_memory *memory, const float *x, const float *y,
                           const float *dy, float *dx);
    /* Adds to grads (or overwrites them when !accumulate). With a sink, every parameter is given to it
     * exactly once; a layer may then pass scratch memory instead of grads if !accumulate. NULL: no params. */
    void (*backward_weights)(const struct rt_layer *layer, const struct rt_pass *pass,
                             const struct rt_layer_memory *memory, const float *x, const float *y,
                             const float *dy, float *grads, bool accumulate, const struct rt_grad_sink *sink);
    /* The same for 1..RT_MAX_WAITING micro-batches in their order, if the layer is faster with them together
     * than one by one; it then has this instead of backward_weights. The bits are the same. */
    void (*merge_weights)(const struct rt_layer *layer, size_t count, const struct rt_waiting *waiting,
                          float *grads, bool accumulate, const struct rt_grad_sink *sink);
};

struct rt_layer {
    const struct rt_layer_type *type;
    const struct rt_kernels *kernels; /* of the device: they decide about prepared weights */
    void *settings;
    uint32_t index;      /* place in the whole model, nested layers counted: keys random numbers and names */
    uint32_t next_index; /* the index after it and those nested in it */
    struct rt_shape in, out;
    bool input_gradient; /* false: dx is not needed (the first layer of a model) */

    struct rt_named params[RT_MAX_TENSORS], buffers[RT_MAX_TENSORS];
    size_t param_tensors, buffer_tensors;
    size_t param_count, buffer_count; /* floats, nested layers included */
    size_t prepared_floats;
    size_t scratch_bytes;                             /* per thread */
    double flops_forward, flops_input, flops_weights; /* per example */
    /* Floats of stash and work memory; NULL: none. Both grow with rows, at most in proportion. */
    size_t (*stash_floats)(const struct rt_layer *layer, size_t rows, bool training);
    size_t (*work_floats)(const struct rt_layer *layer, size_t rows);
    bool needs_several_rows; /* set by setup: a micro-batch of a single example teaches it nothing */

    /* Element-wise activations can be done by the layer before them, inside its product. */
    enum rt_activation act; /* for an activation layer: which; in an absorbing layer: what it absorbed */
    float act_arg;
    bool absorbs;  /* set by setup: this layer can apply a following activation itself */
    bool absorbed; /* set by the model: the layer before has done it; forward is skipped and y is x */

    /* How it treats its memory; set by setup, used by the model to save copies. */
    bool in_place;     /* y may be x; backward does not read x */
    bool dx_in_place;  /* dx may be dy */
    bool view;         /* y holds the same numbers as x; forward has nothing to do when y is x */
    bool reads_y;      /* backward reads y, so no later layer may work in place on it */
    size_t own_floats; /* set by the model: floats per row in its slot that are this layer's alone */

    struct rt_model *body; /* residual: the nested layers; else NULL */
};

size_t rt_layer_stash_floats(const struct rt_layer *layer, size_t rows, bool training);
size_t rt_layer_work_floats(const struct rt_layer *layer, size_t rows);

/* Memory that the layer keeps from the forward of a micro-batch until its weight gradient is done: its output
 * and the gradient there, unless they share memory with others, and its stash. SIZE_MAX on overflow. */
size_t rt_layer_activation_bytes(const struct rt_layer *layer, size_t rows);

/* The registered types, NULL-terminated, and one of them by name (NULL if unknown). */
const struct rt_layer_type *const *rt_layer_types(void);
const struct rt_layer_type *rt_layer_type_find(const char *name);

/* One layer from its description ("relu", or a map {dense: 128}). input_gradient: whether the gradient at its
 * input is needed. index is advanced past the layer and those nested in it. */
rt_status rt_layer_create(const struct rt_tree *spec, const struct rt_shape *in, bool input_gradient,
                          const struct rt_kernels *kernels, uint32_t *index, struct rt_layer **layer,
                          struct rt_error *err);
void rt_layer_destroy(struct rt_layer *layer);

#endif
