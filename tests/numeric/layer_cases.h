/*
 * Configurations of every layer type. The tests of gradients and of bits go over the registry and refuse a
 * type that has no case here: small ones for central differences, wide ones that several threads share.
 */
#ifndef RT_TEST_LAYER_CASES_H
#define RT_TEST_LAYER_CASES_H

#include <stdbool.h>
#include <stddef.h>

struct layer_case {
    const char *type;
    bool wide;
    size_t rows;
    const char *input, *layers;
};

static const struct layer_case layer_cases[] = {
    {"dense", false, 4, "[5]", "[dense: 3]"},
    {"dense", false, 1, "[1]", "[dense: 1]"},
    {"dense", false, 20, "[6]", "[dense: {units: 4, bias: false, init: glorot}]"},
    {"dense", false, 5, "[4]", "[dense: 6, tanh, dense: {units: 3, init: zeros}, sigmoid, dense: 2]"},
    {"dense", true, 40, "[301]", "[dense: 203, relu, dense: 77, tanh, dense: 10]"},
    {"dense", true, 3, "[400]", "[dense: 500, leaky_relu, dense: 130]"},
    {"conv2d", false, 3, "[2, 5, 5]", "[conv2d: {filters: 3, kernel: 3}]"},
    {"conv2d", false, 3, "[4, 6, 5]",
     "[conv2d: {filters: 4, kernel_h: 3, kernel_w: 2, stride: 2, pad: 1, groups: 2}]"},
    {"conv2d", false, 4, "[3, 4, 4]",
     "[conv2d: {filters: 3, kernel: 3, pad: same, groups: 3, bias: false}, tanh]"},
    {"conv2d", false, 3, "[3, 4, 4]", "[conv2d: {filters: 4, kernel: 1}, sigmoid, flatten, dense: 3]"},
    {"conv2d", true, 7, "[3, 17, 15]",
     "[conv2d: {filters: 20, kernel: 3, pad: 1}, relu, conv2d: {filters: 24, stride: 2}]"},
    {"conv2d", true, 4, "[16, 9, 9]",
     "[conv2d: {filters: 16, kernel: 3, pad: same, groups: 16}, relu, conv2d: {filters: 33, kernel: 1}]"},
    {"maxpool", false, 3, "[2, 6, 6]", "[maxpool: 2]"},
    {"maxpool", false, 3, "[2, 5, 6]", "[maxpool: {kernel: 3, stride: 2, pad: 1}]"},
    {"maxpool", true, 9, "[8, 29, 28]", "[maxpool: 2, maxpool: {kernel: 3, stride: 2, pad: 1}]"},
    {"avgpool", false, 3, "[2, 6, 6]", "[avgpool: 2]"},
    {"avgpool", false, 3, "[2, 5, 6]", "[avgpool: {kernel: 3, stride: 2, pad: 1}]"},
    {"avgpool", true, 9, "[8, 29, 28]", "[avgpool: 2, avgpool: {kernel: 3, stride: 2, pad: 1}]"},
    {"global_avgpool", false, 3, "[4, 3, 5]", "[global_avgpool]"},
    {"global_avgpool", true, 9, "[16, 21, 20]", "[global_avgpool, dense: 3]"},
    {"flatten", false, 3, "[2, 3, 4]", "[flatten]"},
    {"flatten", false, 3, "[2, 2, 3]", "[flatten, tanh, flatten, dense: 3]"},
    {"flatten", true, 5, "[4, 20, 20]", "[conv2d: {filters: 4, kernel: 3}, flatten, relu]"},
    {"relu", false, 4, "[9]", "[relu]"},
    {"relu", true, 40, "[1001]", "[relu]"},
    {"leaky_relu", false, 4, "[9]", "[leaky_relu: 0.2]"},
    {"leaky_relu", true, 40, "[1001]", "[leaky_relu]"},
    {"elu", false, 4, "[9]", "[elu: 0.7]"},
    {"elu", true, 40, "[1001]", "[elu]"},
    {"gelu", false, 4, "[9]", "[gelu]"},
    {"gelu", false, 4, "[5]", "[dense: 6, gelu, dense: 3, gelu]"},
    {"gelu", true, 40, "[1001]", "[gelu]"},
    {"sigmoid", false, 4, "[9]", "[sigmoid]"},
    {"sigmoid", false, 4, "[6]", "[tanh, sigmoid, dropout: 0.3, tanh]"},
    {"sigmoid", true, 40, "[1001]", "[sigmoid]"},
    {"tanh", false, 4, "[9]", "[tanh]"},
    {"tanh", true, 40, "[1001]", "[tanh]"},
    {"softmax", false, 4, "[7]", "[softmax]"},
    {"softmax", false, 3, "[5]", "[dense: 4, softmax, tanh]"},
    {"softmax", true, 40, "[1001]", "[softmax]"},
    {"dropout", false, 4, "[9]", "[dropout]"},
    {"dropout", false, 4, "[5]", "[dense: 8, dropout: 0.4, dense: 3]"},
    {"dropout", false, 4, "[5]", "[dropout: 0]"},
    {"dropout", true, 40, "[1001]", "[dropout: 0.25]"},
    {"batchnorm", false, 6, "[5]", "[batchnorm]"},
    {"batchnorm", false, 4, "[3, 2, 3]", "[batchnorm: {eps: 0.01}]"},
    {"batchnorm", false, 6, "[4]", "[dense: 5, batchnorm, tanh, dense: 2]"},
    {"batchnorm", true, 7, "[12, 14, 15]", "[batchnorm, conv2d: 4, batchnorm, relu]"},
    {"batchnorm", true, 70, "[500]", "[batchnorm]"},
    {"layernorm", false, 4, "[6]", "[layernorm]"},
    {"layernorm", false, 3, "[2, 3, 2]", "[layernorm: {eps: 0.01}]"},
    {"layernorm", true, 31, "[1500]", "[layernorm, relu]"},
    {"residual", false, 4, "[5]", "[residual: [dense: 5]]"},
    {"residual", false, 4, "[5]", "[residual: {layers: [dense: 4, tanh, dense: 5, sigmoid]}, dense: 3]"},
    {"residual", false, 3, "[4]",
     "[dense: 5, residual: [residual: [dense: 5, gelu], dropout: 0.2, dense: 5], tanh, dense: 2]"},
    {"residual", false, 3, "[2, 4, 4]",
     "[residual: [tanh], residual: [batchnorm, tanh, conv2d: {filters: 2, pad: 1}]]"},
    {"residual", true, 24, "[300]", "[residual: [dense: 200, relu, layernorm, dense: 300], relu, dense: 10]"},
};

enum { LAYER_CASES = sizeof layer_cases / sizeof *layer_cases };

#endif
