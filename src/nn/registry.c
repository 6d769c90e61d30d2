/* The list of layer types. A new layer is a file in nn/layers/, a declaration in layers.h and a line here. */
#include "nn/layers/layers.h"

#include <string.h>

static const struct rt_layer_type *const types[] = {
    &rt_layer_dense,     &rt_layer_conv2d,         &rt_layer_maxpool,
    &rt_layer_avgpool,   &rt_layer_global_avgpool, &rt_layer_flatten,
    &rt_layer_relu,      &rt_layer_leaky_relu,     &rt_layer_elu,
    &rt_layer_gelu,      &rt_layer_sigmoid,        &rt_layer_tanh,
    &rt_layer_softmax,   &rt_layer_dropout,        &rt_layer_batchnorm,
    &rt_layer_layernorm, &rt_layer_residual,       NULL,
};

const struct rt_layer_type *const *rt_layer_types(void) {
    return types;
}

const struct rt_layer_type *rt_layer_type_find(const char *name) {
    for (size_t i = 0; types[i]; i++)
        if (strcmp(types[i]->name, name) == 0)
            return types[i];
    return NULL;
}
