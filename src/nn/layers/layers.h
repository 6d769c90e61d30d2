/* The layer types that exist, and what several of them need. */
#ifndef RT_NN_LAYERS_LAYERS_H
#define RT_NN_LAYERS_LAYERS_H

#include "nn/layer.h"

extern const struct rt_layer_type rt_layer_dense, rt_layer_conv2d;
extern const struct rt_layer_type rt_layer_maxpool, rt_layer_avgpool, rt_layer_global_avgpool,
    rt_layer_flatten;
extern const struct rt_layer_type rt_layer_relu, rt_layer_leaky_relu, rt_layer_elu, rt_layer_gelu;
extern const struct rt_layer_type rt_layer_sigmoid, rt_layer_tanh, rt_layer_softmax;
extern const struct rt_layer_type rt_layer_dropout, rt_layer_batchnorm, rt_layer_layernorm, rt_layer_residual;

/* Elements below which a second thread costs more than it brings. */
enum { RT_LAYER_GRAIN = 16384 };

/* How many rows of width elements are worth a thread. */
static inline size_t rt_layer_row_grain(size_t width) {
    return RT_LAYER_GRAIN / (width + 1) + 1;
}

/* Adds a named tensor after those already there. Refuses tensors too large to address. */
rt_status rt_layer_add_param(struct rt_layer *layer, const struct rt_tree *spec, const char *name,
                             const struct rt_shape *shape, struct rt_error *err);
rt_status rt_layer_add_buffer(struct rt_layer *layer, const struct rt_tree *spec, const char *name,
                              const struct rt_shape *shape, struct rt_error *err);

/* Refuses a shape of more than 2^31 numbers; what: its name in the message. */
rt_status rt_layer_check_size(const struct rt_layer *layer, const struct rt_tree *spec, const char *what,
                              const struct rt_shape *shape, struct rt_error *err);

/* Refuses an input that is not [channels, height, width]. */
rt_status rt_layer_want_image(const struct rt_layer *layer, const struct rt_tree *spec, struct rt_error *err);

/* The number of positions of a window along one side of the image; refuses a window that does not fit. */
rt_status rt_layer_window_positions(const struct rt_layer *layer, const struct rt_tree *spec, size_t size,
                                    size_t kernel, size_t stride, size_t pad, size_t *positions,
                                    struct rt_error *err);

/* How initial weights are drawn. */
enum rt_weight_init { RT_WEIGHTS_HE, RT_WEIGHTS_GLOROT, RT_WEIGHTS_ZEROS };
extern const char *const rt_weight_init_names[];

/* Uniform numbers for the weights, tensor number `tensor` of the layer. */
void rt_layer_init_weights(const struct rt_layer *layer, enum rt_weight_init init, uint64_t seed,
                           uint32_t tensor, size_t fan_in, size_t fan_out, size_t count, float *weights);

#endif
