/*
 * A set of examples, as stored: bytes or floats in a mapped file or in memory, with labels. They are
 * converted to scaled floats when a batch is taken, so the data need no more memory than on disk.
 */
#ifndef RT_DATA_DATASET_H
#define RT_DATA_DATASET_H

#include "base/option.h"
#include "tensor/device.h"
#include "tensor/shape.h"

enum rt_data_type { RT_DATA_U8, RT_DATA_F32, RT_DATA_F64, RT_DATA_I32, RT_DATA_I64 };
size_t rt_data_type_bytes(enum rt_data_type type);

/* How raw values become inputs: (x * scale + offset), then per feature (x - mean[j]) / deviation[j] where
 * those are given. Travels with the model. */
struct rt_scaling {
    double scale, offset;  /* 1, 0 */
    size_t features;       /* 0: not standardised */
    float *mean, *inverse; /* [features]; inverse = 1 / deviation, 1 where the deviation is 0; owned */
};

struct rt_dataset {
    size_t count;          /* examples */
    struct rt_shape shape; /* of one example */
    enum rt_data_type type;
    const void *inputs; /* [count][size], as stored; not always aligned */
    bool mapped;        /* in a file: they take memory only once they are read */

    /* Either class labels or target values; both NULL when the file has neither. */
    const int32_t *classes; /* [count], 0 .. class_count-1 */
    size_t class_count;
    const char *const *class_names; /* [class_count], or NULL */
    const float *values;            /* [count][value_width] */
    size_t value_width;

    const char *const *columns; /* names of the inputs, one for each of an example's values; NULL: none */
    const char *remark;         /* what people should know of how it was read, a sentence; NULL: nothing */

    /* The stored examples of this set: example i is row index[i] of inputs, classes and values. NULL: row i.
     * Owned. */
    const uint32_t *index;

    char *name;                  /* for messages: the file(s); owned */
    struct rt_data_store *store; /* owns the memory and mappings behind the pointers; NULL in a view */
};

enum rt_target { RT_TARGET_CLASSES, RT_TARGET_VALUES, RT_TARGET_INPUT };

/* Default of data.cache_above, in MiB: also for commands that have no run file. */
enum { RT_CACHE_ABOVE_MIB = 256 };

/* What the model requires of the data. */
struct rt_data_wish {
    enum rt_target target;
    struct rt_shape input; /* the model's input; sizes must agree, shapes may differ (784 vs [1,28,28]) */
    size_t outputs;        /* classes, or target values */
    const char *const *class_names; /* names known from a model or from the training data; a text label not
                                       among them is an error. NULL: they are made from the labels, sorted */
    size_t class_count;
    /* The names of the inputs in a model or the training data: a table with column names must have these, and
     * the columns are found by name. NULL: not known. */
    const char *const *columns;
    size_t column_count;
    const char
        *cache_dir;       /* where converted caches go; NULL: "$XDG_CACHE_HOME/ringtmp" or ~/.cache/ringtmp */
    uint64_t cache_above; /* .gz and CSV files larger than this (bytes, uncompressed) become a mapped cache */
    bool labels_optional; /* predict: a file without labels is fine */
    /* Only files in this directory or below it may be opened, by relative names, which are looked up there,
     * or by absolute ones that begin with it; ".." is not allowed. NULL: any file. */
    const char *within;
};

/* Reads one source: a map with one of idx, csv, npy (see docs/data.md), e.g.
 * {idx: [images, labels]}, {csv: {file: iris.csv, label: species, header: true}}, {npy: [x.npy, y.npy]}.
 * base_dir: relative file names are tried as given first, then relative to it (the run file's directory). */
rt_status rt_dataset_open(const struct rt_tree *source, const char *base_dir, const struct rt_data_wish *wish,
                          struct rt_dataset *set, struct rt_error *err);
void rt_dataset_close(struct rt_dataset *set);

/* Reads the inputs of one file, without labels. Its first bytes tell the format (idx, npy, csv, each also
 * .gz). All columns of a CSV file are inputs. */
rt_status rt_dataset_open_file(const char *path, const struct rt_data_wish *wish, struct rt_dataset *set,
                               struct rt_error *err);

/* Two views that share the set's store; the set must be closed last: a seeded random part of the examples,
 * and the rest; both in the order of the set. Both get at least one example. */
rt_status rt_dataset_split(const struct rt_dataset *set, double part, uint64_t seed, struct rt_dataset *rest,
                           struct rt_dataset *taken, struct rt_error *err);

/* Mean and deviation of each feature over the set, after the scale and offset that scaling holds; added in
 * order, in double. */
rt_status rt_scaling_measure(const struct rt_dataset *set, struct rt_scaling *scaling, struct rt_error *err);
void rt_scaling_deinit(struct rt_scaling *scaling);

/* Refuses a NaN or infinity among the inputs; the message has file, example and feature. Byte data need no
 * check. Target values have been checked when they were read. */
rt_status rt_dataset_check(const struct rt_dataset *set, struct rt_error *err);

/* Converts the examples with the given indices: x [rows][size]. A raw value is rounded to float, then
 * fma(x, scale, offset), then (x - mean) * inverse, all in float. */
void rt_dataset_inputs(const struct rt_dataset *set, const struct rt_scaling *scaling,
                       const struct rt_device *device, const uint32_t *indices, size_t rows, float *x);

/* Prefetches the first of these examples, as many as fit the caches without harm. */
void rt_dataset_fetch(const struct rt_dataset *set, const uint32_t *indices, size_t rows);

/* What the outputs for these examples are compared with: classes [rows], or values [rows][width]; a pointer
 * that is not needed may be NULL. For RT_TARGET_INPUT the values are the inputs as rt_dataset_inputs gives
 * them. */
void rt_dataset_targets(const struct rt_dataset *set, const struct rt_scaling *scaling, enum rt_target target,
                        const uint32_t *indices, size_t rows, int32_t *classes, float *values);

/* SHA-256 over type, shape, inputs and labels, as stored and in the order of the set: tells whether two
 * machines hold the same data. */
void rt_dataset_hash(const struct rt_dataset *set, uint8_t digest[32]);

#endif
