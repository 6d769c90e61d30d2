/* Opening the data of a run. */
#include "learn/datasets.h"

#include "base/bytes.h"
#include "base/memory.h"
#include "base/sha256.h"
#include "data/stream.h"
#include "learn/fit.h"
#include <stdlib.h>
#include <string.h>

/* data.target by its index among the choices of the run file */
enum { CHOICE_LABEL, CHOICE_INPUT };

rt_status rt_datasets_wish(const struct rt_spec_data *data, const struct rt_network *network,
                           struct rt_data_wish *wish, struct rt_error *err) {
    *wish = (struct rt_data_wish){.input = network->model->in,
                                  .target = network->loss->classes ? RT_TARGET_CLASSES : RT_TARGET_VALUES,
                                  .outputs = network->outputs,
                                  .cache_above = (uint64_t)RT_CACHE_ABOVE_MIB << 20};
    if (data) {
        if (data->target == CHOICE_INPUT)
            wish->target = RT_TARGET_INPUT;
        wish->cache_dir = data->cache_dir;
        wish->cache_above = (uint64_t)data->cache_above << 20;
    }
    return rt_fit_check(network, wish->target, err);
}

void rt_datasets_wish_columns(const struct rt_trained *trained, struct rt_data_wish *wish) {
    if (trained->columns.count) {
        wish->columns = (const char *const *)trained->columns.items;
        wish->column_count = trained->columns.count;
    }
}

/* What an opening works with. */
struct opening {
    const struct rt_spec_data *data;
    const char *directory; /* where relative names count from */
    const struct rt_network *network;
    const atomic_int *stop;
    const char *within; /* NULL: files may be anywhere */
};

static rt_status datasets_open_file(const struct opening *opening, const struct rt_tree *source,
                                    const struct rt_data_wish *wish, struct rt_datasets *datasets,
                                    struct rt_dataset *set, struct rt_error *err) {
    if (opening->stop && atomic_load_explicit(opening->stop, memory_order_relaxed))
        return rt_fail(err, RT_INTERRUPTED, "stopped while the data were being opened");
    struct rt_dataset *file = &datasets->files[datasets->file_count];
    rt_status status = rt_dataset_open(source, opening->directory, wish, file, err);
    if (status != RT_OK)
        return status;
    datasets->file_count++;
    *set = *file;
    return rt_dataset_check(file, err);
}

/* Splits a part off the training set. The seed of the test part is 0, so that every run file with the same
 * data and split has the same test set whatever its seed; that of the validation part is 1. */
static rt_status datasets_split_off(struct rt_datasets *datasets, double part, uint64_t seed,
                                    struct rt_dataset *taken, struct rt_error *err) {
    struct rt_dataset *rest = &datasets->views[datasets->view_count], *other = rest + 1;
    rt_status status = rt_dataset_split(&datasets->train, part, seed, rest, other, err);
    if (status != RT_OK)
        return status;
    datasets->view_count += 2;
    datasets->train = *rest;
    *taken = *other;
    return RT_OK;
}

/* A stream's examples are seen once: they cannot be split, measured, or read again. */
static rt_status datasets_check_stream(const struct rt_spec_data *data, struct rt_error *err) {
    static const char sentence[] = "data.%s is not possible with a stream, whose examples are seen once";
    if (data->standardize)
        return rt_tree_fail(data->train, err, sentence, "standardize");
    if (data->split > 0)
        return rt_tree_fail(data->train, err, sentence, "split");
    if (data->hold_out > 0)
        return rt_tree_fail(data->train, err, sentence, "hold_out");
    if (data->limit > 0)
        return rt_tree_fail(data->train, err, sentence, "limit");
    return RT_OK;
}

/* Before the run only the class names of a stream are known: the test data are read with them, and the model
 * keeps them. */
static rt_status datasets_open_stream(const struct rt_spec_data *data, const struct rt_data_wish *wish,
                                      struct rt_datasets *datasets, struct rt_error *err) {
    struct rt_dataset *file = &datasets->files[datasets->file_count];
    rt_status status = datasets_check_stream(data, err);
    if (status == RT_OK)
        status = rt_stream_describe(data->train, wish, file, err);
    if (status != RT_OK)
        return status;
    datasets->file_count++;
    datasets->train = *file;
    return RT_OK;
}

static rt_status datasets_open_train(const struct opening *opening, const struct rt_data_wish *wish,
                                     struct rt_datasets *datasets, struct rt_error *err) {
    const struct rt_spec_data *data = opening->data;
    if (!data->train)
        return rt_fail(err, RT_BAD_INPUT, "data.train is missing: it says where the training examples are");
    if (rt_stream_named(data->train))
        return datasets_open_stream(data, wish, datasets, err);
    rt_status status = datasets_open_file(opening, data->train, wish, datasets, &datasets->train, err);
    if (status != RT_OK)
        return status;
    const uint64_t limit = (uint64_t)data->limit;
    if (limit > 0 && limit < datasets->train.count)
        datasets->train.count = (size_t)limit;
    if (!data->test && data->split > 0)
        status = datasets_split_off(datasets, data->split, 0, &datasets->test, err);
    return status;
}

static rt_status datasets_open_all(const struct opening *opening, struct rt_datasets *datasets,
                                   struct rt_scaling *scaling, struct rt_error *err) {
    const struct rt_spec_data *data = opening->data;
    const struct rt_network *network = opening->network;
    struct rt_data_wish wish;
    rt_status status = rt_datasets_wish(data, network, &wish, err);
    if (status != RT_OK)
        return status;
    wish.within = opening->within;
    datasets->target = wish.target;
    status = datasets_open_train(opening, &wish, datasets, err);
    if (status != RT_OK)
        return status;
    /* A text label means the same class in all sets. */
    if (datasets->train.class_names) {
        wish.class_names = datasets->train.class_names;
        wish.class_count = datasets->train.class_count;
    }
    wish.columns = datasets->train.columns;
    wish.column_count = wish.columns ? rt_shape_size(&datasets->train.shape) : 0;
    if (data->test)
        status = datasets_open_file(opening, data->test, &wish, datasets, &datasets->test, err);
    if (status == RT_OK && data->validation)
        status = datasets_open_file(opening, data->validation, &wish, datasets, &datasets->validation, err);
    else if (status == RT_OK && data->hold_out > 0)
        status = datasets_split_off(datasets, data->hold_out, 1, &datasets->validation, err);
    if (status == RT_OK && datasets->train.count == 0 && !rt_stream_named(data->train))
        status = rt_fail(err, RT_BAD_INPUT, "%s: has no examples", datasets->train.name);
    if (status != RT_OK)
        return status;
    struct rt_scaling made = {.scale = data->scale, .offset = data->offset};
    if (data->standardize)
        status = rt_scaling_measure(&datasets->train, &made, err);
    const struct rt_dataset *const sets[] = {&datasets->train, &datasets->validation, &datasets->test};
    for (size_t i = 0; i < sizeof sets / sizeof *sets && status == RT_OK; i++)
        status = rt_fit_check_set(network, datasets->target, sets[i], &made, err);
    if (status == RT_OK)
        *scaling = made;
    else
        rt_scaling_deinit(&made);
    return status;
}

rt_status rt_datasets_open(const struct rt_spec *spec, const struct rt_network *network,
                           const atomic_int *stop, struct rt_datasets *datasets, struct rt_scaling *scaling,
                           struct rt_error *err) {
    return rt_datasets_open_within(&spec->data, spec->base_dir, network, NULL, stop, datasets, scaling, err);
}

rt_status rt_datasets_open_within(const struct rt_spec_data *data, const char *directory,
                                  const struct rt_network *network, const char *within,
                                  const atomic_int *stop, struct rt_datasets *datasets,
                                  struct rt_scaling *scaling, struct rt_error *err) {
    const struct opening opening = {data, directory, network, stop, within};
    struct rt_datasets made = {0};
    rt_status status = datasets_open_all(&opening, &made, scaling, err);
    if (status != RT_OK) {
        rt_datasets_close(&made);
        return status;
    }
    *datasets = made;
    return RT_OK;
}

rt_status rt_datasets_open_test(const struct rt_spec *spec, const struct rt_trained *trained,
                                const atomic_int *stop, struct rt_datasets *datasets, struct rt_error *err) {
    const struct opening opening = {&spec->data, spec->base_dir, &trained->network, stop, NULL};
    struct rt_datasets made = {0};
    struct rt_data_wish wish;
    rt_status status = rt_datasets_wish(&spec->data, &trained->network, &wish, err);
    if (status != RT_OK)
        return status;
    made.target = wish.target;
    if (trained->names.count) {
        wish.class_names = (const char *const *)trained->names.items;
        wish.class_count = trained->names.count;
    }
    rt_datasets_wish_columns(trained, &wish);
    if (spec->data.test)
        status = datasets_open_file(&opening, spec->data.test, &wish, &made, &made.test, err);
    else if (spec->data.split > 0)
        status = datasets_open_train(&opening, &wish, &made, err);
    else
        status = rt_fail(err, RT_BAD_INPUT, "%s: has no test data: set data.test or data.split", spec->file);
    if (status == RT_OK)
        status = rt_fit_check_set(&trained->network, made.target, &made.test, &trained->scaling, err);
    if (status != RT_OK) {
        rt_datasets_close(&made);
        return status;
    }
    *datasets = made;
    return RT_OK;
}

void rt_datasets_close(struct rt_datasets *datasets) {
    for (size_t i = 0; i < datasets->view_count; i++)
        rt_dataset_close(&datasets->views[i]);
    for (size_t i = 0; i < datasets->file_count; i++)
        rt_dataset_close(&datasets->files[i]);
    *datasets = (struct rt_datasets){0};
}

static void datasets_hash_floats(struct rt_sha256 *hash, const float *values, size_t count) {
    for (size_t i = 0; i < count; i++) {
        uint32_t word;
        uint8_t bytes[4];
        memcpy(&word, values + i, sizeof word);
        rt_put_le32(bytes, word);
        rt_sha256_add(hash, bytes, sizeof bytes);
    }
}

static void datasets_hash_double(struct rt_sha256 *hash, double value) {
    uint64_t word;
    uint8_t bytes[8];
    memcpy(&word, &value, sizeof word);
    rt_put_le64(bytes, word);
    rt_sha256_add(hash, bytes, sizeof bytes);
}

void rt_datasets_fingerprint(const struct rt_datasets *datasets, const struct rt_scaling *scaling,
                             char hex[65]) {
    uint8_t digest[32] = {0}; /* of a stream: its examples are not known in advance */
    if (datasets->train.count)
        rt_dataset_hash(&datasets->train, digest);
    struct rt_sha256 hash;
    rt_sha256_init(&hash);
    rt_sha256_add(&hash, digest, sizeof digest);
    datasets_hash_double(&hash, (double)datasets->target);
    datasets_hash_double(&hash, scaling->scale);
    datasets_hash_double(&hash, scaling->offset);
    datasets_hash_floats(&hash, scaling->mean, scaling->features);
    datasets_hash_floats(&hash, scaling->inverse, scaling->features);
    rt_sha256_finish(&hash, digest);
    rt_sha256_hex(digest, hex);
}
