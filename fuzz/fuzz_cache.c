/* Any bytes as a cache file, without its checksum, which no fuzzer would guess. All of what is accepted is
 * used. */
#include "data/cache.h"
#include "data/store.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    struct rt_error err;
    char name[] = "fuzz";
    struct rt_dataset set = {.name = name};
    if (rt_store_create(&set.store, &err) != RT_OK)
        return 0;
    if (rt_cache_parse(data, bytes, &set)) {
        uint8_t digest[32];
        rt_dataset_hash(&set, digest);
        rt_dataset_check(&set, &err);
        for (size_t i = 0; set.classes && i < set.count; i++)
            if (set.classes[i] < 0 || (size_t)set.classes[i] >= set.class_count)
                abort();
        for (size_t i = 0; set.class_names && i < set.class_count; i++)
            if (strlen(set.class_names[i]) >= bytes)
                abort();
    }
    rt_store_destroy(set.store);
    return 0;
}
