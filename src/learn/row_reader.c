/* Rows of a data set as a network takes them. */
#include "learn/row_reader.h"

#include "base/memory.h"
#include <stdlib.h>

/* rows * width, or SIZE_MAX, for which every allocation fails */
static size_t row_reader_product(size_t rows, size_t width) {
    return width && rows > SIZE_MAX / width ? SIZE_MAX : rows * width;
}

rt_status rt_row_reader_create(const struct rt_network *network, const struct rt_dataset *set,
                               const struct rt_scaling *scaling, enum rt_target target, size_t rows,
                               struct rt_row_reader *reader, struct rt_error *err) {
    struct rt_row_reader made = {.set = set,
                                 .scaling = scaling,
                                 .target = target,
                                 .accuracy = rt_network_has_accuracy(network, target == RT_TARGET_VALUES)};
    rt_status status =
        rt_floats_create(row_reader_product(rows, network->inputs), "the inputs of a batch", &made.x, err);
    if (status == RT_OK && target == RT_TARGET_CLASSES)
        status = rt_alloc(rows, sizeof *made.classes, "the labels of a batch", &made.classes, err);
    if (status == RT_OK && target == RT_TARGET_VALUES)
        status = rt_alloc(rows, sizeof *made.value_rows, "the targets of a batch", &made.value_rows, err);
    if (status != RT_OK) {
        rt_row_reader_destroy(&made);
        return status;
    }
    made.targets.classes = made.classes;
    made.targets.value_rows = made.value_rows;
    if (target != RT_TARGET_CLASSES)
        made.targets.values = target == RT_TARGET_INPUT ? made.x : set->values;
    *reader = made;
    return RT_OK;
}

void rt_row_reader_destroy(struct rt_row_reader *reader) {
    free(reader->x);
    free(reader->classes);
    free(reader->value_rows);
    *reader = (struct rt_row_reader){0};
}

void rt_row_reader_targets(struct rt_row_reader *reader, const struct rt_device *device,
                           const uint32_t *indices, size_t rows) {
    const uint32_t *index = reader->set->index;
    if (reader->target == RT_TARGET_INPUT)
        rt_dataset_inputs(reader->set, reader->scaling, device, indices, rows, reader->x);
    else if (reader->target == RT_TARGET_CLASSES)
        rt_dataset_targets(reader->set, reader->scaling, reader->target, indices, rows, reader->classes,
                           NULL);
    else
        for (size_t r = 0; r < rows; r++)
            reader->value_rows[r] = index ? index[indices[r]] : indices[r];
}

void rt_row_reader_take(struct rt_row_reader *reader, const struct rt_device *device, const uint32_t *indices,
                        size_t rows) {
    if (reader->target != RT_TARGET_INPUT)
        rt_dataset_inputs(reader->set, reader->scaling, device, indices, rows, reader->x);
    rt_row_reader_targets(reader, device, indices, rows);
}
