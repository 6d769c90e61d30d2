/* Any bytes as a model file. What is accepted must be readable, tensor by tensor, within its bytes. */
#include "formats/safetensors.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    struct rt_error err;
    struct rt_tensors tensors;
    if (rt_tensors_parse(data, bytes, "fuzz", &tensors, &err) != RT_OK)
        return 0;
    for (size_t i = 0; i < tensors.count; i++) {
        const struct rt_tensor_entry *entry = &tensors.entries[i];
        float *floats = malloc(entry->bytes ? entry->bytes : 1);
        if (!floats || rt_tensors_read(&tensors, entry->name, &entry->shape, floats, &err) != RT_OK)
            abort();
        free(floats);
    }
    for (size_t i = 0; i < tensors.meta_count; i++)
        if (rt_tensors_meta(&tensors, tensors.meta_keys[i]) != tensors.meta_values[i])
            abort();
    rt_tensors_close(&tensors);
    return 0;
}
