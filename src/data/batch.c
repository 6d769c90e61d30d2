/*
 * From stored examples to the floats of a batch. Runs in every training step, so it allocates nothing, and
 * its bits are fixed: a raw value is rounded to float, then fma(x, scale, offset), then (x - mean) * inverse.
 */
#include "data/dataset.h"

#include "base/memory.h"
#include "data/array.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PIECE = 256, GRAIN_VALUES = 1 << 15 };

/* Rounds n raw values to floats. The data need not be aligned. */
static void batch_to_floats(enum rt_data_type type, const uint8_t *data, size_t n, float *out) {
    if (type == RT_DATA_F32) {
        memcpy(out, data, n * sizeof *out);
    } else if (type == RT_DATA_U8) {
        for (size_t i = 0; i < n; i++)
            out[i] = data[i];
    } else if (type == RT_DATA_F64) {
        for (size_t i = 0; i < n; i++) {
            double value;
            memcpy(&value, data + i * sizeof value, sizeof value);
            out[i] = (float)value;
        }
    } else if (type == RT_DATA_I32) {
        for (size_t i = 0; i < n; i++) {
            int32_t value;
            memcpy(&value, data + i * sizeof value, sizeof value);
            out[i] = (float)value;
        }
    } else {
        for (size_t i = 0; i < n; i++) {
            int64_t value;
            memcpy(&value, data + i * sizeof value, sizeof value);
            out[i] = (float)value;
        }
    }
}

static const uint8_t *batch_row_data(const struct rt_dataset *set, uint32_t i, size_t size) {
    size_t row = set->index ? set->index[i] : i;
    return (const uint8_t *)set->inputs + row * size * rt_data_type_bytes(set->type);
}

static void batch_standardise(const struct rt_scaling *scaling, size_t size, float *x) {
    if (scaling->features != size)
        return;
    const float *mean = scaling->mean, *inverse = scaling->inverse;
    for (size_t j = 0; j < size; j++)
        x[j] = (x[j] - mean[j]) * inverse[j];
}

/* ---- inputs, with a device ----------------------------------------------------------------------------- */

/* Examples come in random order from a file that is larger than the caches: the rows ahead are prefetched
 * while this one is converted, and those of the next batch while this one is learned from. */
enum { ROWS_AHEAD = 6, LINE_BYTES = 64, MOST_BYTES = 4096, MOST_BYTES_AHEAD = 1 << 16 };

static size_t batch_fetch_row(const struct rt_dataset *set, uint32_t i, size_t size) {
    const uint8_t *data = batch_row_data(set, i, size);
    size_t bytes = size * rt_data_type_bytes(set->type);
    bytes = bytes < MOST_BYTES ? bytes : MOST_BYTES;
    for (size_t at = 0; at < bytes; at += LINE_BYTES)
        __builtin_prefetch(data + at);
    return bytes;
}

void rt_dataset_fetch(const struct rt_dataset *set, const uint32_t *indices, size_t rows) {
    const size_t size = rt_shape_size(&set->shape);
    size_t bytes = 0;
    for (size_t r = 0; r < rows && bytes < MOST_BYTES_AHEAD; r++)
        bytes += batch_fetch_row(set, indices[r], size);
}

struct conversion {
    const struct rt_dataset *set;
    const struct rt_scaling *scaling;
    const struct rt_kernels *kernels;
    const uint32_t *indices;
    size_t size;
    float *x;
};

static void batch_convert_rows(void *argument, size_t begin, size_t end, void *scratch) {
    const struct conversion *work = argument;
    const struct rt_dataset *set = work->set;
    const struct rt_kernels *kernels = work->kernels;
    float scale = (float)work->scaling->scale, offset = (float)work->scaling->offset;
    float raw[PIECE], scales[PIECE];
    (void)scratch;
    for (size_t i = 0; i < PIECE; i++)
        scales[i] = scale;
    for (size_t r = begin; r < begin + ROWS_AHEAD && r < end; r++)
        batch_fetch_row(set, work->indices[r], work->size);
    for (size_t r = begin; r < end; r++) {
        if (r + ROWS_AHEAD < end)
            batch_fetch_row(set, work->indices[r + ROWS_AHEAD], work->size);
        const uint8_t *data = batch_row_data(set, work->indices[r], work->size);
        float *x = work->x + r * work->size;
        if (set->type == RT_DATA_U8) {
            kernels->from_bytes(work->size, data, scale, offset, x);
        } else if (scale == 1 && set->type == RT_DATA_F32) {
            for (size_t i = 0; i < work->size; i++) {
                float value;
                memcpy(&value, data + i * sizeof value, sizeof value);
                x[i] = value + offset; /* what fma(x, 1, offset) is, bit for bit */
            }
        } else if (scale == 1) {
            batch_to_floats(set->type, data, work->size, x);
            for (size_t i = 0; i < work->size; i++)
                x[i] += offset;
        } else {
            size_t width = rt_data_type_bytes(set->type);
            for (size_t at = 0; at < work->size; at += PIECE) {
                size_t n = work->size - at < PIECE ? work->size - at : PIECE;
                batch_to_floats(set->type, data + at * width, n, raw);
                for (size_t i = 0; i < n; i++)
                    x[at + i] = offset;
                /* x = fma(raw, scale, x): the kernel that has the fused step in vectors. */
                kernels->column_dot(1, n, raw, scales, true, x + at);
            }
        }
        batch_standardise(work->scaling, work->size, x);
    }
}

void rt_dataset_inputs(const struct rt_dataset *set, const struct rt_scaling *scaling,
                       const struct rt_device *device, const uint32_t *indices, size_t rows, float *x) {
    size_t size = rt_shape_size(&set->shape);
    struct conversion work = {set, scaling, device->kernels, indices, size, x};
    size_t grain = size < GRAIN_VALUES ? GRAIN_VALUES / size : 1;
    rt_device_split(device, rows, grain, batch_convert_rows, &work);
}

/* ---- without a device ---------------------------------------------------------------------------------- */

/* The same bits one by one. table: the results for all 256 values of a byte, or NULL. */
static void batch_scale_row(const struct rt_dataset *set, const uint8_t *data, size_t size, float scale,
                            float offset, const float *table, float *x) {
    if (table) {
        for (size_t i = 0; i < size; i++)
            x[i] = table[data[i]];
        return;
    }
    batch_to_floats(set->type, data, size, x);
    for (size_t i = 0; i < size; i++)
        x[i] = fmaf(x[i], scale, offset);
}

static const float *batch_byte_table(const struct rt_dataset *set, const struct rt_scaling *scaling,
                                     float table[256]) {
    for (int i = 0; i < 256 && set->type == RT_DATA_U8; i++)
        table[i] = fmaf((float)i, (float)scaling->scale, (float)scaling->offset);
    return set->type == RT_DATA_U8 ? table : NULL;
}

void rt_dataset_targets(const struct rt_dataset *set, const struct rt_scaling *scaling, enum rt_target target,
                        const uint32_t *indices, size_t rows, int32_t *classes, float *values) {
    if (target == RT_TARGET_INPUT) {
        float storage[256];
        const float *table = batch_byte_table(set, scaling, storage);
        size_t size = rt_shape_size(&set->shape);
        for (size_t r = 0; r < rows; r++) {
            batch_scale_row(set, batch_row_data(set, indices[r], size), size, (float)scaling->scale,
                            (float)scaling->offset, table, values + r * size);
            batch_standardise(scaling, size, values + r * size);
        }
        return;
    }
    for (size_t r = 0; r < rows; r++) {
        size_t row = set->index ? set->index[indices[r]] : indices[r];
        if (target == RT_TARGET_CLASSES)
            classes[r] = set->classes[row];
        else
            memcpy(values + r * set->value_width, set->values + row * set->value_width,
                   set->value_width * sizeof *values);
    }
}

/* ---- standardising ------------------------------------------------------------------------------------- */

/* Sums, in double and in the order of the examples, first of the values, then of the squared differences. A
 * double holds the sum of up to 2^29 equal floats exactly, so a constant feature has deviation 0. */
static void batch_measure(const struct rt_dataset *set, struct rt_scaling *scaling, size_t size, double *mean,
                          double *square, float *row) {
    float storage[256], scale = (float)scaling->scale, offset = (float)scaling->offset;
    const float *table = batch_byte_table(set, scaling, storage);
    for (size_t i = 0; i < set->count; i++) {
        batch_scale_row(set, batch_row_data(set, (uint32_t)i, size), size, scale, offset, table, row);
        for (size_t j = 0; j < size; j++)
            mean[j] += (double)row[j];
    }
    for (size_t j = 0; j < size; j++)
        mean[j] /= (double)set->count;
    for (size_t i = 0; i < set->count; i++) {
        batch_scale_row(set, batch_row_data(set, (uint32_t)i, size), size, scale, offset, table, row);
        for (size_t j = 0; j < size; j++) {
            double difference = (double)row[j] - mean[j];
            square[j] += difference * difference;
        }
    }
    for (size_t j = 0; j < size; j++) {
        double deviation = sqrt(square[j] / (double)set->count);
        float inverse = (float)(1 / deviation);
        scaling->mean[j] = (float)mean[j];
        scaling->inverse[j] = deviation > 0 && isfinite(inverse) ? inverse : 1;
    }
}

rt_status rt_scaling_measure(const struct rt_dataset *set, struct rt_scaling *scaling, struct rt_error *err) {
    size_t size = rt_shape_size(&set->shape);
    struct rt_scaling made = {.scale = scaling->scale, .offset = scaling->offset, .features = size};
    double *sums = NULL;
    float *row = NULL;
    rt_status status = rt_floats_create(size, "the scaling", &made.mean, err);
    if (status == RT_OK)
        status = rt_floats_create(size, "the scaling", &made.inverse, err);
    if (status == RT_OK)
        status = rt_alloc(size, 2 * sizeof *sums, "the scaling", &sums, err);
    if (status == RT_OK)
        status = rt_alloc(size, sizeof *row, "the scaling", &row, err);
    if (status == RT_OK) {
        batch_measure(set, &made, size, sums, sums + size, row);
        rt_scaling_deinit(scaling);
        *scaling = made;
    } else {
        rt_scaling_deinit(&made);
    }
    free(sums);
    free(row);
    return status;
}

void rt_scaling_deinit(struct rt_scaling *scaling) {
    free(scaling->mean);
    free(scaling->inverse);
    scaling->mean = scaling->inverse = NULL;
    scaling->features = 0;
}
