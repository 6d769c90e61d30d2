/* What the fuzz targets of IDX and NPY share: reads bytes as an array, and uses all of what is accepted. */
#ifndef RT_FUZZ_ARRAY_CHECK_H
#define RT_FUZZ_ARRAY_CHECK_H

#include "data/array.h"
#include "data/labels.h"
#include "data/store.h"
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static inline void rt_fuzz_array(const uint8_t *data, size_t bytes, rt_head_read read_head) {
    struct rt_error err;
    struct rt_input input;
    struct rt_array array;
    struct rt_dataset set = {0};
    char name[] = "fuzz";
    struct rt_data_wish wish = {.target = RT_TARGET_CLASSES, .outputs = 10, .cache_above = UINT64_MAX};
    if (rt_input_memory(data, bytes, name, &input, &err) != RT_OK)
        return;
    if (rt_store_create(&set.store, &err) == RT_OK &&
        rt_array_read(&input, read_head, &wish, false, set.store, &array, &err) == RT_OK) {
        set.name = name;
        set.count = array.count;
        set.type = array.type;
        set.shape = array.shape;
        set.inputs = array.data;
        rt_labels_read(&array, name, &wish, &set, &err);
        wish.target = RT_TARGET_VALUES;
        wish.outputs = 0;
        rt_labels_read(&array, name, &wish, &set, &err);
        rt_dataset_check(&set, &err);
        uint8_t digest[32];
        rt_dataset_hash(&set, digest);
    }
    rt_store_destroy(set.store);
    rt_input_close(&input);
}

#endif
