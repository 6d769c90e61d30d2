/*
 * Element-wise activations. They differ only in their function of the kernel table, so they share one file.
 * All but gelu can be inverted from their output alone, so they work in place, and a product before them may
 * apply them itself.
 */
#include "nn/layers/layers.h"

struct activation_settings {
    double arg;
};

static rt_status activation_setup(struct rt_layer *layer, enum rt_activation act) {
    const struct activation_settings *settings = layer->settings;
    layer->act = act;
    layer->act_arg = layer->type->option_count ? (float)settings->arg : 0;
    layer->dx_in_place = true;
    layer->in_place = layer->reads_y = act != RT_ACT_GELU;
    /* A rough figure: a comparison, or some twenty operations for a function with a polynomial. */
    double cost = act == RT_ACT_RELU || act == RT_ACT_LEAKY ? 1 : 20;
    layer->flops_forward = cost * (double)rt_shape_size(&layer->in);
    layer->flops_input = layer->input_gradient ? layer->flops_forward : 0;
    return RT_OK;
}

static void activation_forward(const struct rt_layer *layer, const struct rt_pass *pass,
                               const struct rt_layer_memory *memory, const float *x, float *y) {
    (void)memory;
    rt_activate(pass->device, layer->act, layer->act_arg, pass->rows * rt_shape_size(&layer->in), x, y);
}

static void activation_backward_input(const struct rt_layer *layer, const struct rt_pass *pass,
                                      const struct rt_layer_memory *memory, const float *x, const float *y,
                                      const float *dy, float *dx) {
    (void)memory;
    rt_activate_back(pass->device, layer->act, layer->act_arg, pass->rows * rt_shape_size(&layer->in), x, y,
                     dy, dx);
}

#define ACTIVATION(name_, act_, help_)                                                                       \
    static rt_status name_##_setup(struct rt_layer *layer, const struct rt_tree *spec,                       \
                                   struct rt_error *err) {                                                   \
        (void)spec, (void)err;                                                                               \
        return activation_setup(layer, act_);                                                                \
    }                                                                                                        \
    const struct rt_layer_type rt_layer_##name_ = {                                                          \
        .name = #name_,                                                                                      \
        .help = help_,                                                                                       \
        .settings_bytes = sizeof(struct activation_settings),                                                \
        .setup = name_##_setup,                                                                              \
        .forward = activation_forward,                                                                       \
        .backward_input = activation_backward_input,                                                         \
    };

#define ACTIVATION_WITH(name_, act_, option_, fallback_, option_help_, help_)                                \
    static const struct rt_option name_##_options[] = {                                                      \
        {.name = option_,                                                                                    \
         .kind = RT_OPTION_REAL,                                                                             \
         .offset = offsetof(struct activation_settings, arg),                                                \
         .fallback = fallback_,                                                                              \
         .min = 0,                                                                                           \
         .max = 1e6,                                                                                         \
         .help = option_help_},                                                                              \
    };                                                                                                       \
    static rt_status name_##_setup(struct rt_layer *layer, const struct rt_tree *spec,                       \
                                   struct rt_error *err) {                                                   \
        (void)spec, (void)err;                                                                               \
        return activation_setup(layer, act_);                                                                \
    }                                                                                                        \
    const struct rt_layer_type rt_layer_##name_ = {                                                          \
        .name = #name_,                                                                                      \
        .help = help_,                                                                                       \
        .options = name_##_options,                                                                          \
        .option_count = 1,                                                                                   \
        .main_option = option_,                                                                              \
        .settings_bytes = sizeof(struct activation_settings),                                                \
        .setup = name_##_setup,                                                                              \
        .forward = activation_forward,                                                                       \
        .backward_input = activation_backward_input,                                                         \
    };

ACTIVATION(relu, RT_ACT_RELU, "negative numbers become 0")
ACTIVATION(gelu, RT_ACT_GELU,
           "x times the chance that a normal random number is below x (exact form, with erf)")
ACTIVATION(sigmoid, RT_ACT_SIGMOID, "squeezes into 0..1: 1 / (1 + exp(-x))")
ACTIVATION(tanh, RT_ACT_TANH, "squeezes into -1..1: the hyperbolic tangent")
ACTIVATION_WITH(leaky_relu, RT_ACT_LEAKY, "slope", "0.01", "factor of negative numbers",
                "negative numbers are made small instead of 0")
ACTIVATION_WITH(elu, RT_ACT_ELU, "alpha", "1", "the output approaches -alpha for very negative numbers",
                "negative numbers become alpha (exp(x) - 1)")
