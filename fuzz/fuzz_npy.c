/* Any bytes as an NPY file, compressed or not. */
#include "array_check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    rt_fuzz_array(data, bytes, rt_npy_head);
    return 0;
}
