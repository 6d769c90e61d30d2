/* The hash over the description in a safetensors file, without its data. */
#include "base/memory.h"
#include "base/sha256.h"
#include "formats/safetensors.h"

#include <stdlib.h>
#include <string.h>

static int safetensors_by_name(const void *a, const void *b) {
    const struct rt_tensor_entry *const *x = a, *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

static void safetensors_hash_text(struct rt_sha256 *hash, const char *text) {
    rt_sha256_add(hash, text, strlen(text) + 1);
}

static void safetensors_hash_entry(struct rt_sha256 *hash, const struct rt_tensor_entry *entry) {
    safetensors_hash_text(hash, entry->name);
    safetensors_hash_text(hash, "F32");
    for (size_t i = 0; i < entry->shape.rank; i++) {
        char digits[24];
        rt_sha256_add(hash, digits, (size_t)snprintf(digits, sizeof digits, "%zu,", entry->shape.dim[i]));
    }
    safetensors_hash_text(hash, "");
}

rt_status rt_tensors_hash(const struct rt_tensors *tensors, const char *const *keys, char hex[65],
                          struct rt_error *err) {
    const struct rt_tensor_entry **sorted;
    rt_status status = rt_alloc(tensors->count, sizeof *sorted, "the list of tensors", &sorted, err);
    if (status != RT_OK)
        return status;
    struct rt_sha256 hash;
    rt_sha256_init(&hash);
    for (; *keys; keys++) {
        const char *value = rt_tensors_meta(tensors, *keys);
        if (value) {
            safetensors_hash_text(&hash, *keys);
            safetensors_hash_text(&hash, value);
        }
    }
    for (size_t i = 0; i < tensors->count; i++)
        sorted[i] = &tensors->entries[i];
    qsort(sorted, tensors->count, sizeof *sorted, safetensors_by_name);
    for (size_t i = 0; i < tensors->count; i++)
        safetensors_hash_entry(&hash, sorted[i]);
    free(sorted);
    uint8_t digest[32];
    rt_sha256_finish(&hash, digest);
    rt_sha256_hex(digest, hex);
    return RT_OK;
}
