/*
 * A model: a list of consecutive layers, or a run of adjacent layers of such a list (the part of one
 * machine of a ring). Parameters, gradients and buffers are one block each, owned by the caller.
 *
 * What a micro-batch needs between its forward, its input gradient and its weight gradient is in a slot:
 * one piece of memory with all activations, stashes, and the gradients that weights() will need.
 */
#ifndef RT_NN_MODEL_H
#define RT_NN_MODEL_H

#include "nn/layer.h"

/* The offsets of a layer's numbers in a slot, in floats per row from the slot's start; layers that work in
 * place share an offset with the one before. */
struct rt_layer_offsets {
    size_t y, y_inference; /* RT_OFFSET_INPUT: y is the model's input itself */
    size_t dy;             /* the gradient at the layer's output */
};
#define RT_OFFSET_INPUT SIZE_MAX

struct rt_model {
    struct rt_layer **layers;
    size_t count;
    struct rt_shape in, out;
    size_t first;         /* index of layers[0] in the list it came from; begins the names of its tensors */
    uint32_t first_index; /* index of layers[0] in the whole model, nested layers counted */
    size_t param_count, buffer_count, prepared_floats, scratch_bytes;
    double flops_forward, flops_input, flops_weights;
    /* offsets of each layer in the blocks */
    size_t *param_at, *buffer_at, *prepared_at;
    struct rt_layer_offsets *offsets;
    size_t row_floats, row_floats_inference; /* floats per row of all of them */
    size_t lowest;                           /* backward goes down to this layer */
};

/* Called when a layer's parameters are used: for the layers of the model that have parameters, not for those
 * nested in them. Either may be NULL. */
struct rt_layer_watch {
    void *self;
    /* A forward is about to use the layer's parameters. */
    void (*before)(void *self, size_t layer);
    /* A backward of both parts has computed the layer's gradient and does not use its parameters any more. */
    void (*after)(void *self, size_t layer);
    /* Weight gradients are computed from the first layer up, the order in which a forward uses layers, not
     * from the last down: all input gradients then come before them. */
    bool rising;
};

/* The blocks of one model. */
struct rt_blocks {
    float *params, *buffers;
    float *prepared;                    /* NULL: no prepared weights */
    bool prepared_valid;                /* prepared matches params; cleared by every change of params */
    const struct rt_layer_watch *watch; /* NULL: none */
};

/* layers: a list of layer descriptions. Keeps layers first..first+count-1 (count SIZE_MAX: to the end).
 * input_gradient: whether the gradient at the model's input is needed. kernels: those of the device (they
 * decide about prepared weights and scratch). */
rt_status rt_model_create(const struct rt_tree *layers, const struct rt_shape *input, size_t first,
                          size_t count, bool input_gradient, const struct rt_kernels *kernels,
                          uint32_t *index, struct rt_model **model, struct rt_error *err);
void rt_model_destroy(struct rt_model *model);

void rt_model_init(const struct rt_model *model, uint64_t seed, float *params, float *buffers);

/* Whether a layer's work in training depends on the indices of the examples: pass->examples is required. */
bool rt_model_needs_examples(const struct rt_model *model);
/* Whether a layer measures the micro-batch (batchnorm), so that its size is part of the result. */
bool rt_model_measures_batch(const struct rt_model *model);
/* Whether a layer cannot be trained with a single example at a time (batchnorm of flat inputs). */
bool rt_model_needs_several_rows(const struct rt_model *model);

/* Packs the weights in the layout of the products, into blocks->prepared. Worth it when several passes use
 * the same parameters; a single pass is faster without, since it packs what it needs piece by piece, inside
 * the cache. Changes no bit. */
void rt_model_prepare(const struct rt_model *model, const struct rt_device *device, struct rt_blocks *blocks);
/* The same for one layer. The caller sets prepared_valid when all are prepared, or before a watched forward,
 * if each layer is prepared before it is used. */
void rt_model_prepare_layer(const struct rt_model *model, const struct rt_device *device,
                            struct rt_blocks *blocks, size_t layer);

/* Floats in a slot for up to rows examples; SIZE_MAX on overflow. A slot for inference keeps nothing for
 * backward. */
size_t rt_model_slot_floats(const struct rt_model *model, size_t rows, bool training);

/* Memory of one micro-batch in flight while training: the bytes of its slot, or SIZE_MAX. That is what its
 * layers keep (rt_layer_activation_bytes) and what they share: work memory, and the gradients that need not
 * be kept, which alternate between two pieces. */
size_t rt_model_activation_bytes(const struct rt_model *model, size_t rows);

/* Forward of pass->rows examples; returns the output, which lives in the slot. x is kept by the caller
 * until the backward is done. Prepared weights are used if they are valid. The backward of a micro-batch
 * gets the same pass->rows. */
float *rt_model_forward(const struct rt_model *model, const struct rt_pass *pass, struct rt_blocks *blocks,
                        float *slot, const float *x);

/* The memory in the slot for the gradient at the output, filled before backward. */
float *rt_model_output_gradient(const struct rt_model *model, const struct rt_pass *pass, float *slot);

enum rt_backward { RT_BACKWARD_INPUT = 1, RT_BACKWARD_WEIGHTS = 2, RT_BACKWARD_BOTH = 3 };

/* Backward. The weights' part comes after the input's part of the same micro-batch, at once or later. dx:
 * gradient at the input, or NULL if the model was created without. grads is added to (accumulate) or
 * overwritten. sink (may be NULL) receives final spans, with offsets in the model's block; with
 * RT_BACKWARD_BOTH each layer's input gradient is done before its weights are given to the sink, so the sink
 * may update the parameters in place. */
void rt_model_backward(const struct rt_model *model, const struct rt_pass *pass, struct rt_blocks *blocks,
                       float *slot, const float *x, enum rt_backward parts, float *dx, float *grads,
                       bool accumulate, const struct rt_grad_sink *sink);

/* The weights' part for several micro-batches at once, in their order: the bits are those of one by one, but
 * a layer's gradient passes through memory once. Their input's parts are done. watch (may be NULL): its
 * `after` is called for each finished layer, in the order it asks for. */
void rt_model_backward_weights(const struct rt_model *model, size_t count, const struct rt_waiting *waiting,
                               float *grads, bool accumulate, const struct rt_grad_sink *sink,
                               const struct rt_layer_watch *watch);
struct rt_waiting rt_model_waiting(const struct rt_pass *pass, const struct rt_blocks *blocks, float *slot,
                                   const float *x);

/* Calls visit for every named tensor, in the order of the block: "3.weight" for layer 3's weight, nested
 * layers "4.0.weight". is_buffer tells which block offset refers to. Stops at the first failure. */
typedef rt_status (*rt_tensor_visit)(void *user, const char *name, const struct rt_shape *shape,
                                     size_t offset, bool is_buffer, struct rt_error *err);
rt_status rt_model_visit(const struct rt_model *model, rt_tensor_visit visit, void *user,
                         struct rt_error *err);

/* The same for layers that contain a model. The size of the nested slot is not checked: the check of the
 * outermost slot includes it (checking at every level would double the time per level). memory->stash is the
 * slot. dy NULL: the gradient is in the slot, at rt_model_output_gradient. The weights' part is
 * rt_model_backward_weights. */
size_t rt_model_nested_floats(const struct rt_model *model, size_t rows, bool training);
void rt_model_nested_prepare(const struct rt_model *model, const struct rt_device *device,
                             const float *params, float *prepared);
float *rt_model_nested_forward(const struct rt_model *model, const struct rt_pass *pass,
                               const struct rt_layer_memory *memory, const float *x);
void rt_model_nested_backward(const struct rt_model *model, const struct rt_pass *pass,
                              const struct rt_layer_memory *memory, const float *x, const float *dy,
                              enum rt_backward parts, float *dx, float *grads, bool accumulate,
                              const struct rt_grad_sink *sink);

#endif
