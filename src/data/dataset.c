/* Sets and views of them: closing, splitting, checking, hashing. */
#include "data/dataset.h"

#include "base/bytes.h"
#include "base/memory.h"
#include "base/rng.h"
#include "base/sha256.h"
#include "data/array.h"
#include "data/store.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

void rt_dataset_close(struct rt_dataset *set) {
    free(set->name);
    free((void *)(uintptr_t)set->index);
    rt_store_destroy(set->store);
    *set = (struct rt_dataset){0};
}

static size_t dataset_stored_row(const struct rt_dataset *set, size_t i) {
    return set->index ? set->index[i] : i;
}

/* ---- splitting ----------------------------------------------------------------------------------------- */

static int dataset_by_value(const void *a, const void *b) {
    uint32_t left, right;
    memcpy(&left, a, sizeof left);
    memcpy(&right, b, sizeof right);
    return (left > right) - (left < right);
}

/* A view of the examples of set at the given indices; the list of indices becomes the view's index. */
static rt_status dataset_make_view(const struct rt_dataset *set, const uint32_t *rows, size_t count,
                                   struct rt_dataset *view, struct rt_error *err) {
    struct rt_dataset made = *set;
    made.store = NULL;
    made.count = count;
    made.name = strdup(set->name ? set->name : "");
    uint32_t *index = NULL;
    rt_status status = made.name ? rt_alloc(count, sizeof *index, "a part of the data", &index, err)
                                 : rt_fail(err, RT_NO_MEMORY, "not enough memory for a part of the data");
    if (status != RT_OK) {
        free(made.name);
        return status;
    }
    memcpy(index, rows, count * sizeof *index);
    /* In the order of the set: memory is then read forwards, and "the first N" examples stay the first. */
    qsort(index, count, sizeof *index, dataset_by_value);
    for (size_t i = 0; i < count; i++)
        index[i] = (uint32_t)dataset_stored_row(set, index[i]);
    made.index = index;
    *view = made;
    return RT_OK;
}

rt_status rt_dataset_split(const struct rt_dataset *set, double part, uint64_t seed, struct rt_dataset *rest,
                           struct rt_dataset *taken, struct rt_error *err) {
    if (!(part > 0 && part < 1))
        return rt_fail(err, RT_BAD_INPUT, "the part of the data to hold out must be between 0 and 1, not %g",
                       part);
    if (set->count < 2)
        return rt_fail(err, RT_BAD_INPUT, "%s: has %zu example, which cannot be split", set->name,
                       set->count);
    size_t count = (size_t)((double)set->count * part + 0.5);
    count = count < 1 ? 1 : count > set->count - 1 ? set->count - 1 : count;
    uint32_t *order;
    rt_status status = rt_alloc(set->count, sizeof *order, "a part of the data", &order, err);
    if (status != RT_OK)
        return status;
    /* A split of a split uses other random numbers. */
    rt_rng_shuffle(seed, RT_PURPOSE_SPLIT, set->index ? 1 : 0, (uint32_t)set->count, order);
    struct rt_dataset first;
    status = dataset_make_view(set, order, count, &first, err);
    if (status == RT_OK) {
        status = dataset_make_view(set, order + count, set->count - count, rest, err);
        if (status == RT_OK)
            *taken = first;
        else
            rt_dataset_close(&first);
    }
    free(order);
    return status;
}

/* ---- checking ------------------------------------------------------------------------------------------ */

/* The first number of a row that is not finite as a float, or n. */
static size_t dataset_find_not_finite(const struct rt_dataset *set, size_t row, size_t n) {
    if (set->type == RT_DATA_F32) {
        /* A finite float times 0 is 0; NaN and infinity give NaN. One sum checks a whole row. */
        const uint8_t *place = (const uint8_t *)set->inputs + row * n * sizeof(float);
        float sum = 0, value;
        for (size_t i = 0; i < n; i++) {
            memcpy(&value, place + i * sizeof value, sizeof value);
            sum += value * 0;
        }
        if (sum == 0)
            return n;
    }
    size_t i = 0;
    while (i < n && isfinite((float)rt_array_number(set->type, set->inputs, row * n + i)))
        i++;
    return i;
}

rt_status rt_dataset_check(const struct rt_dataset *set, struct rt_error *err) {
    size_t size = rt_shape_size(&set->shape);
    bool floats = set->type == RT_DATA_F32 || set->type == RT_DATA_F64;
    for (size_t i = 0; i < set->count && floats; i++) {
        size_t row = dataset_stored_row(set, i), bad = dataset_find_not_finite(set, row, size);
        if (bad < size)
            return rt_fail(
                err, RT_BAD_INPUT,
                "%s: example %zu, value %zu (both counted from 0) is %g: the data must be finite floats",
                set->name, row, bad, rt_array_number(set->type, set->inputs, row * size + bad));
    }
    return RT_OK;
}

/* ---- hashing ------------------------------------------------------------------------------------------- */

static void dataset_hash_number(struct rt_sha256 *hash, uint64_t number) {
    uint8_t bytes[8];
    rt_put_le64(bytes, number);
    rt_sha256_add(hash, bytes, sizeof bytes);
}

static void dataset_hash_rows(struct rt_sha256 *hash, const struct rt_dataset *set, const void *data,
                              size_t row_bytes) {
    for (size_t i = 0; i < set->count && data; i++)
        rt_sha256_add(hash, (const uint8_t *)data + dataset_stored_row(set, i) * row_bytes, row_bytes);
}

void rt_dataset_hash(const struct rt_dataset *set, uint8_t digest[32]) {
    struct rt_sha256 hash;
    rt_sha256_init(&hash);
    dataset_hash_number(&hash, (uint64_t)set->type);
    dataset_hash_number(&hash, set->count);
    dataset_hash_number(&hash, set->shape.rank);
    for (size_t i = 0; i < set->shape.rank; i++)
        dataset_hash_number(&hash, set->shape.dim[i]);
    dataset_hash_number(&hash, set->classes ? 1 : 0);
    dataset_hash_number(&hash, set->values ? set->value_width : 0);
    dataset_hash_rows(&hash, set, set->inputs, rt_shape_size(&set->shape) * rt_data_type_bytes(set->type));
    dataset_hash_rows(&hash, set, set->classes, sizeof *set->classes);
    dataset_hash_rows(&hash, set, set->values, set->value_width * sizeof *set->values);
    rt_sha256_finish(&hash, digest);
}
