/* The exact table of one instruction set. */
#include "tensor/exact/gemm.h"

extern const struct rt_kernels ISA(kernels_exact);

const struct rt_kernels ISA(kernels_exact) = {
#define RT_TEXT2(x) #x
#define RT_TEXT1(x) RT_TEXT2(x)
    .name = "exact/" RT_TEXT1(RT_ISA),
    .panel = PANEL,
    .packed_floats = ISA(packed_floats),
    .pack = ISA(pack),
    .gemm_scratch = GEMM_SCRATCH,
    .gemm = ISA(gemm),
    .descend = ISA(descend),
    .conv_scratch = ISA(conv_scratch),
    .conv_prepared = ISA(conv_prepared),
    .conv_prepare = ISA(conv_prepare),
    .conv_forward = ISA(conv_forward),
    .conv_input = ISA(conv_input),
    .conv_weights = ISA(conv_weights),
    .activate = ISA(activate),
    .activate_back = ISA(activate_back),
    .add = ISA(add),
    .dropout = ISA(dropout),
    .from_bytes = ISA(from_bytes),
    .sum16 = ISA(sum16),
    .dot16 = ISA(dot16),
    .square_sum = ISA(square_sum),
    .column_sum = ISA(column_sum),
    .column_dot = ISA(column_dot),
    .softmax = ISA(softmax),
    .softmax_back = ISA(softmax_back),
    .softmax_loss = ISA(softmax_loss),
    .norm_rows = ISA(norm_rows),
    .norm_rows_back = ISA(norm_rows_back),
    .norm_rows_xhat = ISA(norm_rows_xhat),
    .maxpool = ISA(maxpool),
    .maxpool_back = ISA(maxpool_back),
    .avgpool = ISA(avgpool),
    .avgpool_back = ISA(avgpool_back),
};
