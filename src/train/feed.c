/* Rows of a data set as a network takes them. */
#include "train/feed.h"

#include "base/memory.h"
#include <stdlib.h>

/* rows * width, or SIZE_MAX, which no allocation grants */
static size_t product(size_t rows, size_t width) {
    return width && rows > SIZE_MAX / width ? SIZE_MAX : rows * width;
}

rt_status rt_feed_create(const struct rt_network *network, const struct rt_dataset *set,
                         const struct rt_scaling *scaling, enum rt_target target, size_t rows,
                         struct rt_feed *feed, struct rt_error *err) {
    struct rt_feed made = {.set = set,
                           .scaling = scaling,
                           .target = target,
                           .accuracy = rt_network_has_accuracy(network, target == RT_TARGET_VALUES)};
    rt_status status =
        rt_floats_create(product(rows, network->inputs), "the inputs of a batch", &made.x, err);
    if (status == RT_OK && target == RT_TARGET_CLASSES)
        status = rt_alloc(rows, sizeof *made.classes, "the labels of a batch", &made.classes, err);
    if (status == RT_OK && target == RT_TARGET_VALUES)
        status = rt_alloc(rows, sizeof *made.places, "the targets of a batch", &made.places, err);
    if (status != RT_OK) {
        rt_feed_destroy(&made);
        return status;
    }
    made.targets.classes = made.classes;
    made.targets.places = made.places;
    if (target != RT_TARGET_CLASSES)
        made.targets.values = target == RT_TARGET_INPUT ? made.x : set->values;
    *feed = made;
    return RT_OK;
}

void rt_feed_destroy(struct rt_feed *feed) {
    free(feed->x);
    free(feed->classes);
    free(feed->places);
    *feed = (struct rt_feed){0};
}

void rt_feed_targets(struct rt_feed *feed, const struct rt_device *device, const uint32_t *indices,
                     size_t rows) {
    const uint32_t *index = feed->set->index;
    if (feed->target == RT_TARGET_INPUT)
        rt_dataset_inputs(feed->set, feed->scaling, device, indices, rows, feed->x);
    else if (feed->target == RT_TARGET_CLASSES)
        rt_dataset_targets(feed->set, feed->scaling, feed->target, indices, rows, feed->classes, NULL);
    else
        for (size_t r = 0; r < rows; r++)
            feed->places[r] = index ? index[indices[r]] : indices[r];
}

void rt_feed_take(struct rt_feed *feed, const struct rt_device *device, const uint32_t *indices,
                  size_t rows) {
    if (feed->target != RT_TARGET_INPUT)
        rt_dataset_inputs(feed->set, feed->scaling, device, indices, rows, feed->x);
    rt_feed_targets(feed, device, indices, rows);
}
