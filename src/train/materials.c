/* Opening the data of a run. */
#include "train/materials.h"

#include "base/memory.h"
#include "base/sha256.h"
#include "train/feed.h"
#include <string.h>

/* data.target by its place among the choices of the run file */
enum { CHOICE_LABEL, CHOICE_INPUT };

struct rt_data_wish rt_materials_wish(const struct rt_spec *spec, const struct rt_network *network) {
    struct rt_data_wish wish = {.input = network->model->in,
                                .cache_above = (uint64_t)RT_CACHE_ABOVE_MIB << 20};
    const size_t classes = rt_network_classes(network);
    wish.target = classes ? RT_TARGET_CLASSES : RT_TARGET_VALUES;
    if (spec && spec->data.target == CHOICE_INPUT)
        wish.target = RT_TARGET_INPUT;
    wish.outputs = classes ? classes : network->outputs;
    if (spec) {
        wish.cache_dir = spec->data.cache_dir;
        wish.cache_above = (uint64_t)spec->data.cache_above << 20;
    }
    return wish;
}

static rt_status open_file(const struct rt_spec *spec, const struct rt_tree *source,
                           const struct rt_data_wish *wish, struct rt_materials *materials,
                           struct rt_dataset *set, struct rt_error *err) {
    struct rt_dataset *file = &materials->files[materials->file_count];
    rt_status status = rt_dataset_open(source, spec->base_dir, wish, file, err);
    if (status != RT_OK)
        return status;
    materials->file_count++;
    *set = *file;
    return rt_dataset_check(file, err);
}

/* Takes a part out of the training set. The seed of the test part is 0, so that every run file with the same
 * data and split has the same test set whatever its seed; that of the validation part is 1. */
static rt_status take_part(struct rt_materials *materials, double part, uint64_t seed,
                           struct rt_dataset *taken, struct rt_error *err) {
    struct rt_dataset *rest = &materials->views[materials->view_count], *other = rest + 1;
    rt_status status = rt_dataset_split(&materials->train, part, seed, rest, other, err);
    if (status != RT_OK)
        return status;
    materials->view_count += 2;
    materials->train = *rest;
    *taken = *other;
    return RT_OK;
}

static rt_status open_train(const struct rt_spec *spec, const struct rt_data_wish *wish,
                            struct rt_materials *materials, struct rt_error *err) {
    if (!spec->data.train)
        return rt_fail(err, RT_BAD_INPUT, "data.train is missing: it says where the training examples are");
    rt_status status = open_file(spec, spec->data.train, wish, materials, &materials->train, err);
    if (status != RT_OK)
        return status;
    const uint64_t limit = (uint64_t)spec->data.limit;
    if (limit > 0 && limit < materials->train.count)
        materials->train.count = (size_t)limit;
    if (!spec->data.test && spec->data.split > 0)
        status = take_part(materials, spec->data.split, 0, &materials->test, err);
    return status;
}

static rt_status open_all(const struct rt_spec *spec, const struct rt_network *network,
                          struct rt_materials *materials, struct rt_scaling *scaling, struct rt_error *err) {
    struct rt_data_wish wish = rt_materials_wish(spec, network);
    materials->target = wish.target;
    rt_status status = open_train(spec, &wish, materials, err);
    if (status != RT_OK)
        return status;
    /* Text labels mean the same classes everywhere. */
    if (materials->train.class_names) {
        wish.class_names = materials->train.class_names;
        wish.class_count = materials->train.class_count;
    }
    if (spec->data.test)
        status = open_file(spec, spec->data.test, &wish, materials, &materials->test, err);
    if (status == RT_OK && spec->data.validation)
        status = open_file(spec, spec->data.validation, &wish, materials, &materials->validation, err);
    else if (status == RT_OK && spec->data.hold_out > 0)
        status = take_part(materials, spec->data.hold_out, 1, &materials->validation, err);
    if (status == RT_OK && materials->train.count == 0)
        status = rt_fail(err, RT_BAD_INPUT, "%s: has no examples", materials->train.name);
    if (status != RT_OK)
        return status;
    struct rt_scaling made = {.scale = spec->data.scale, .offset = spec->data.offset};
    if (spec->data.standardize)
        status = rt_scaling_measure(&materials->train, &made, err);
    if (status == RT_OK)
        *scaling = made;
    return status;
}

rt_status rt_materials_open(const struct rt_spec *spec, const struct rt_network *network,
                            struct rt_materials *materials, struct rt_scaling *scaling,
                            struct rt_error *err) {
    struct rt_materials made = {0};
    rt_status status = open_all(spec, network, &made, scaling, err);
    if (status != RT_OK) {
        rt_materials_close(&made);
        return status;
    }
    *materials = made;
    return RT_OK;
}

rt_status rt_materials_open_test(const struct rt_spec *spec, const struct rt_trained *trained,
                                 struct rt_materials *materials, struct rt_error *err) {
    struct rt_materials made = {0};
    struct rt_data_wish wish = rt_materials_wish(spec, &trained->network);
    made.target = wish.target;
    if (trained->names.count) {
        wish.class_names = (const char *const *)trained->names.items;
        wish.class_count = trained->names.count;
    }
    rt_status status;
    if (spec->data.test)
        status = open_file(spec, spec->data.test, &wish, &made, &made.test, err);
    else if (spec->data.split > 0)
        status = open_train(spec, &wish, &made, err);
    else
        status = rt_fail(err, RT_BAD_INPUT,
                         "the run file has no test data: neither data.test nor data.split is there");
    if (status != RT_OK) {
        rt_materials_close(&made);
        return status;
    }
    *materials = made;
    return RT_OK;
}

void rt_materials_close(struct rt_materials *materials) {
    for (size_t i = 0; i < materials->view_count; i++)
        rt_dataset_close(&materials->views[i]);
    for (size_t i = 0; i < materials->file_count; i++)
        rt_dataset_close(&materials->files[i]);
    *materials = (struct rt_materials){0};
}

static void add_number(struct rt_sha256 *hash, uint64_t number) {
    uint8_t bytes[8];
    for (int i = 0; i < 8; i++)
        bytes[i] = (uint8_t)(number >> 8 * i);
    rt_sha256_add(hash, bytes, sizeof bytes);
}

rt_status rt_materials_fingerprint(const struct rt_materials *materials, const struct rt_scaling *scaling,
                                   const struct rt_network *network, char hex[65], struct rt_error *err) {
    enum { SAMPLES = 1000 };
    const struct rt_dataset *set = &materials->train;
    struct rt_feed feed;
    rt_status status = rt_feed_create(network, set, scaling, materials->target, 1, &feed, err);
    if (status != RT_OK)
        return status;
    struct rt_sha256 hash;
    rt_sha256_init(&hash);
    add_number(&hash, set->count);
    const uint64_t samples = set->count < SAMPLES ? set->count : SAMPLES;
    for (uint64_t i = 0; i < samples; i++) {
        uint32_t example = (uint32_t)(i * set->count / samples);
        rt_feed_take(&feed, &network->device, &example, 1);
        rt_sha256_add(&hash, feed.x, network->inputs * sizeof *feed.x);
        if (feed.classes)
            rt_sha256_add(&hash, feed.classes, sizeof *feed.classes);
        if (feed.values)
            rt_sha256_add(&hash, feed.values, network->outputs * sizeof *feed.values);
    }
    rt_feed_destroy(&feed);
    uint8_t digest[32];
    rt_sha256_finish(&hash, digest);
    rt_sha256_hex(digest, hex);
    return RT_OK;
}
