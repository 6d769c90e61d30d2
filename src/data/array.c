/* Arrays: mapped, converted in memory, or converted into a cache; see array.h. */
#include "data/array.h"

#include "base/memory.h"
#include "base/sentence.h"
#include "data/cache.h"
#include "data/store.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK = 1 << 14 }; /* bytes read at a time when numbers are converted */

size_t rt_data_type_bytes(enum rt_data_type type) {
    switch (type) {
    case RT_DATA_U8:
        return 1;
    case RT_DATA_F32:
    case RT_DATA_I32:
        return 4;
    case RT_DATA_F64:
    case RT_DATA_I64:
        return 8;
    }
    return 0;
}

double rt_array_number(enum rt_data_type type, const void *data, size_t at) {
    const uint8_t *place = (const uint8_t *)data + at * rt_data_type_bytes(type);
    float f32;
    double f64 = 0;
    int32_t i32;
    int64_t i64;
    switch (type) {
    case RT_DATA_U8:
        return *place;
    case RT_DATA_F32:
        memcpy(&f32, place, sizeof f32);
        return f32;
    case RT_DATA_F64:
        memcpy(&f64, place, sizeof f64);
        return f64;
    case RT_DATA_I32:
        memcpy(&i32, place, sizeof i32);
        return i32;
    case RT_DATA_I64:
        memcpy(&i64, place, sizeof i64);
        return (double)i64;
    }
    return f64;
}

rt_status rt_data_fit(const struct rt_data_wish *wish, const struct rt_shape *shape, const char *name,
                      struct rt_error *err) {
    char ours[96], theirs[96];
    size_t have = rt_shape_size(shape), want = rt_shape_size(&wish->input);
    if (have == want)
        return RT_OK;
    return rt_fail(err, RT_BAD_INPUT, "%s: an example has shape %s (%s), but the model's input is %s (%s)",
                   name, rt_shape_text(shape, ours), RT_COUNTED(have, "value"),
                   rt_shape_text(&wish->input, theirs), RT_COUNTED(want, "value"));
}

/* Checks what the header says against what the file can hold, before any memory is taken. */
static rt_status array_check_head(const struct rt_input *input, const struct rt_array_head *head,
                                  uint64_t *numbers, struct rt_error *err) {
    char shape[128] = "";
    size_t used = 0;
    uint64_t product = 1;
    bool fits = true;
    for (size_t i = 0; i < head->rank; i++) {
        int wrote = snprintf(shape + used, sizeof shape - used, "%s%zu", i ? " x " : "", head->dim[i]);
        used += wrote > 0 && (size_t)wrote < sizeof shape - used ? (size_t)wrote : 0;
        if (head->dim[i] == 0)
            return rt_fail(err, RT_BAD_INPUT, "%s: is empty: dimension %zu of its header is 0", input->name,
                           i);
        fits = fits && product <= UINT64_MAX / head->stored_bytes / head->dim[i];
        product = fits ? product * head->dim[i] : product;
    }
    uint64_t limit = rt_input_limit(input), left = limit - (limit < input->given ? limit : input->given);
    uint64_t need = fits ? product * head->stored_bytes : UINT64_MAX;
    if (need > left || need > SIZE_MAX / 8)
        return rt_fail(err, RT_BAD_INPUT,
                       "%s: its header promises %s numbers of %zu bytes from offset %" PRIu64
                       " on, but the file %s (it has %zu bytes)",
                       input->name, shape, head->stored_bytes, input->given,
                       input->gz ? "is too small for that, even compressed" : "is cut short", input->bytes);
    if (!input->gz && need < left)
        return rt_fail(err, RT_BAD_INPUT,
                       "%s: %" PRIu64
                       " more bytes follow the %s numbers that its header promises (offset %" PRIu64 ")",
                       input->name, left - need, shape, input->given + need);
    if (head->dim[0] > UINT32_MAX)
        return rt_fail(err, RT_BAD_INPUT, "%s: has %zu examples; the maximum is %" PRIu32, input->name,
                       head->dim[0], UINT32_MAX);
    *numbers = product;
    return RT_OK;
}

/* Where converted numbers go: memory, or the cache when it is not NULL. */
struct destination {
    uint8_t *memory;
    struct rt_cache *cache;
};

static rt_status array_read_numbers(struct rt_input *input, const struct rt_array_head *head,
                                    uint64_t numbers, const struct destination *to, struct rt_error *err) {
    uint8_t stored[CHUNK], converted[CHUNK * 4];
    size_t width = rt_data_type_bytes(head->type), most = CHUNK / head->stored_bytes, done = 0;
    while (done < numbers) {
        size_t n = numbers - done < most ? (size_t)(numbers - done) : most, got;
        rt_status status = rt_input_read(input, stored, n * head->stored_bytes, &got, err);
        if (status == RT_OK && got < n * head->stored_bytes)
            status = rt_fail(err, RT_BAD_INPUT,
                             "%s: is cut short: it ends after %" PRIu64
                             " bytes, but its header promises %" PRIu64 " numbers of %zu bytes",
                             input->name, input->given, numbers, head->stored_bytes);
        const uint8_t *out = stored;
        if (status == RT_OK && head->convert) {
            head->convert(stored, n, converted);
            out = converted;
        }
        if (status == RT_OK && to->cache)
            status = rt_cache_add(to->cache, out, n * width, err);
        else if (status == RT_OK)
            memcpy(to->memory + done * width, out, n * width);
        if (status != RT_OK)
            return status;
        done += n;
    }
    size_t got;
    rt_status status = rt_input_read(input, stored, 1, &got, err);
    if (status == RT_OK && got)
        status = rt_fail(err, RT_BAD_INPUT,
                         "%s: more bytes follow the %" PRIu64 " numbers that its header promises",
                         input->name, numbers);
    return status;
}

/* The way through the cache: from a cache that fits, or by making one. */
static rt_status array_read_cached(struct rt_input *input, const struct rt_array_head *head, uint64_t numbers,
                                   const struct rt_data_wish *wish, struct rt_data_store *store,
                                   struct rt_array *array, struct rt_error *err) {
    struct rt_cache cache;
    rt_status status =
        rt_cache_locate(wish, (const struct rt_input *const[]){input}, 1, "array 1", &cache, err);
    if (status != RT_OK)
        return status;
    struct rt_dataset described = {.count = array->count, .shape = array->shape, .type = array->type};
    struct rt_dataset loaded = {.store = store};
    bool there = rt_cache_load(&cache, &loaded);
    if (!there) {
        status = rt_cache_begin(&cache, err);
        if (status == RT_OK)
            status = array_read_numbers(input, head, numbers, &(struct destination){.cache = &cache}, err);
        if (status == RT_OK)
            status = rt_cache_finish(&cache, &described, err);
        if (status == RT_OK && !(there = rt_cache_load(&cache, &loaded)))
            status = rt_fail(err, RT_IO, "%s: cannot be read back just after it was written", cache.path);
    }
    if (there && (loaded.type != array->type || loaded.count != array->count ||
                  !rt_shape_equal(&loaded.shape, &array->shape)))
        status = rt_fail(err, RT_IO, "%s: does not hold what %s says; remove it", cache.path, input->name);
    array->data = loaded.inputs;
    array->mapped = true;
    rt_cache_close(&cache);
    return status;
}

rt_status rt_array_read(struct rt_input *input, rt_head_read read_head, const struct rt_data_wish *wish,
                        bool is_inputs, struct rt_data_store *store, struct rt_array *array,
                        struct rt_error *err) {
    struct rt_array_head head = {0};
    uint64_t numbers = 0;
    rt_status status = read_head(input, &head, err);
    if (status == RT_OK)
        status = array_check_head(input, &head, &numbers, err);
    if (status != RT_OK)
        return status;
    *array = (struct rt_array){.type = head.type, .count = head.dim[0]};
    array->shape.rank = head.rank > 1 ? head.rank - 1 : 1;
    array->shape.dim[0] = 1;
    for (size_t i = 1; i < head.rank; i++)
        array->shape.dim[i - 1] = head.dim[i];
    if (is_inputs)
        status = rt_data_fit(wish, &array->shape, input->name, err);
    if (status != RT_OK)
        return status;

    if (!input->gz && !head.convert) {
        array->data = input->data + input->at;
        array->mapped = input->map.data != NULL;
        return input->map.data ? rt_store_keep_map(store, &input->map, err) : RT_OK;
    }
    size_t bytes = (size_t)numbers * rt_data_type_bytes(head.type);
    if (bytes > wish->cache_above && input->map.data)
        return array_read_cached(input, &head, numbers, wish, store, array, err);
    uint8_t *memory;
    status = rt_store_alloc(store, bytes, 1, "the data", &memory, err);
    if (status == RT_OK)
        status = array_read_numbers(input, &head, numbers, &(struct destination){.memory = memory}, err);
    array->data = memory;
    return status;
}
