/* Converts rows of a data set to the form that a network and its loss take. */
#ifndef RT_LEARN_ROW_READER_H
#define RT_LEARN_ROW_READER_H

#include "data/dataset.h"
#include "learn/network.h"

struct rt_row_reader {
    const struct rt_dataset *set;
    const struct rt_scaling *scaling;
    enum rt_target target;
    float *x;                  /* [rows][inputs] */
    struct rt_targets targets; /* of the rows read last; target values stay in the set's memory */
    int32_t *classes;
    uint32_t *value_rows;
    bool accuracy; /* means something: see rt_network_has_accuracy */
};

/* For up to rows rows at a time. */
rt_status rt_row_reader_create(const struct rt_network *network, const struct rt_dataset *set,
                               const struct rt_scaling *scaling, enum rt_target target, size_t rows,
                               struct rt_row_reader *reader, struct rt_error *err);
void rt_row_reader_destroy(struct rt_row_reader *reader);

/* Fills in the targets of the examples with the given indices only; x too where it is the target. */
void rt_row_reader_targets(struct rt_row_reader *reader, const struct rt_device *device,
                           const uint32_t *indices, size_t rows);

/* Fills x and targets. */
void rt_row_reader_take(struct rt_row_reader *reader, const struct rt_device *device, const uint32_t *indices,
                        size_t rows);

#endif
