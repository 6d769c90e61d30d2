/* Images of the own layers, and replicas of the neighbour's; see replicas.h. */
#include "ring/replicas.h"

#include "base/crc32c.h"
#include "base/file_memory.h"
#include "base/memory.h"
#include <stdlib.h>
#include <string.h>

/* The state of a run of layers at one version: its state tensors, one after another. */
struct image {
    size_t first, count; /* layers; 0: there is no such image */
    uint64_t version;
    bool whole; /* all of it is here, and the checksum is set */
    uint32_t checksum;
    float *floats;
    size_t stored; /* of a replica: floats that are here */
};

enum { OWN, TAIL, OWN_KEPT, TAIL_KEPT, PREVIOUS, PREVIOUS_KEPT, IMAGES };

struct rt_replicas {
    struct rt_replicas_settings settings;
    struct rt_state_map map;
    struct image image[IMAGES];
    bool detached;                /* the images OWN and TAIL are ours, not the stages' */
    struct rt_file_memory memory; /* of the others */
    struct rt_replicas *before;
};

/* ---- life ---------------------------------------------------------------------------------------------- */

static size_t replicas_floats(const struct rt_replicas *replicas, const struct image *image) {
    return rt_state_map_floats(&replicas->map, image->first, image->count);
}

static void replicas_name_layers(struct rt_replicas *replicas) {
    const struct rt_replicas_settings *settings = &replicas->settings;
    for (size_t i = 0; i < 2 && settings->stage[i]; i++) {
        const struct rt_model *model = settings->stage[i]->model;
        replicas->image[OWN + i] = (struct image){.first = model->first, .count = model->count};
        replicas->image[OWN_KEPT + i] = replicas->image[OWN + i];
    }
    if (settings->previous_count) {
        const struct image previous = {.first = settings->previous_first, .count = settings->previous_count};
        replicas->image[PREVIOUS] = replicas->image[PREVIOUS_KEPT] = previous;
    }
}

static rt_status replicas_take_memory(struct rt_replicas *replicas, struct rt_error *err) {
    size_t floats = 0;
    for (size_t i = OWN_KEPT; i < IMAGES; i++)
        floats += replicas_floats(replicas, &replicas->image[i]);
    RT_TRY(rt_file_memory_create(floats * sizeof(float), replicas->settings.on_disk, "the replicas",
                                 &replicas->memory, err));
    float *at = replicas->memory.bytes;
    for (size_t i = OWN_KEPT; i < IMAGES; i++) {
        replicas->image[i].floats = at;
        at += replicas_floats(replicas, &replicas->image[i]);
    }
    return RT_OK;
}

static bool replicas_has_any(const struct rt_replicas *replicas) {
    bool any = false;
    for (size_t i = 0; i < IMAGES; i++)
        any |= replicas->image[i].whole;
    return any;
}

/* The version that was known to be complete; 0: none. */
static uint64_t replicas_complete(const struct rt_replicas *before) {
    for (; before; before = before->before)
        for (size_t i = OWN_KEPT; i <= PREVIOUS_KEPT; i++)
            if (i != PREVIOUS && before->image[i].whole)
                return before->image[i].version;
    return 0;
}

/* What is left of the views before: images of the version that this one begins with, and of the one that is
 * complete: another node may be lost before this view works, and with it a part of the former. */
static struct rt_replicas *replicas_choose(struct rt_replicas *before, uint64_t version, uint64_t complete) {
    if (!before)
        return NULL;
    before->before = replicas_choose(before->before, version, complete);
    for (size_t i = 0; i < IMAGES; i++)
        before->image[i].whole &= before->image[i].version == version || before->image[i].version == complete;
    if (replicas_has_any(before))
        return before;
    struct rt_replicas *older = before->before;
    before->before = NULL;
    rt_replicas_destroy(before);
    return older;
}

rt_status rt_replicas_create(const struct rt_replicas_settings *settings, uint64_t version,
                             struct rt_replicas *before, struct rt_replicas **replicas,
                             struct rt_error *err) {
    struct rt_replicas *made;
    rt_status status = rt_alloc(1, sizeof *made, "the replicas", &made, err);
    if (status != RT_OK) {
        rt_replicas_destroy(before);
        return status;
    }
    made->settings = *settings;
    made->before = replicas_choose(before, version, replicas_complete(before));
    status = rt_state_map_create(settings->job, settings->kernels, &made->map, err);
    if (status == RT_OK) {
        replicas_name_layers(made);
        status = replicas_take_memory(made, err);
    }
    RT_FINISH_CREATE(status, made, rt_replicas_destroy, replicas);
}

void rt_replicas_destroy(struct rt_replicas *replicas) {
    if (!replicas)
        return;
    for (size_t i = OWN; i <= TAIL && replicas->detached; i++)
        free(replicas->image[i].floats);
    rt_replicas_destroy(replicas->before);
    rt_file_memory_destroy(&replicas->memory);
    rt_state_map_destroy(&replicas->map);
    free(replicas);
}

void rt_replicas_detach(struct rt_replicas *replicas) {
    if (!replicas || replicas->detached)
        return;
    replicas->detached = true;
    for (size_t i = 0; i < 2; i++) {
        struct rt_stage *stage = replicas->settings.stage[i];
        struct image *image = &replicas->image[OWN + i];
        image->whole = image->whole && stage && stage->image_taken;
        if (image->whole) { /* it is this one's now */
            image->floats = stage->image;
            stage->image = NULL;
            stage->image_taken = false;
        }
        replicas->settings.stage[i] = NULL;
    }
}

rt_status rt_replicas_bytes(const struct rt_replicas_settings *settings, double *bytes,
                            struct rt_error *err) {
    struct rt_state_map map;
    RT_TRY(rt_state_map_create(settings->job, settings->kernels, &map, err));
    double floats = 2 * (double)rt_state_map_floats(&map, settings->previous_first, settings->previous_count);
    for (size_t i = 0; i < 2 && settings->stage[i]; i++) {
        const struct rt_model *model = settings->stage[i]->model;
        floats += (double)rt_state_map_floats(&map, model->first, model->count);
    }
    rt_state_map_destroy(&map);
    *bytes = floats * sizeof(float);
    return RT_OK;
}

bool rt_replicas_on_disk(enum rt_replica_place place, double part, double bytes, uint64_t offered) {
    return place == RT_REPLICA_DISK ||
           (place == RT_REPLICA_AUTO && offered > 0 && part + bytes > (double)offered);
}

const struct rt_state_map *rt_replicas_map(const struct rt_replicas *replicas) {
    return &replicas->map;
}

/* ---- snapshots ----------------------------------------------------------------------------------------- */

static uint32_t replicas_checksum(const struct rt_replicas *replicas, const struct image *image) {
    return rt_crc32c(0, image->floats, replicas_floats(replicas, image) * sizeof(float));
}

/* The newest image is complete: it takes the place of what was. */
static void replicas_keep(struct rt_replicas *replicas, uint64_t complete) {
    for (size_t i = 0; i < 2; i++) {
        const struct image *image = &replicas->image[OWN + i];
        struct image *kept = &replicas->image[OWN_KEPT + i];
        if (!image->whole)
            continue;
        const size_t floats = replicas_floats(replicas, image);
        if (floats) /* layers without parameters have no memory */
            memcpy(kept->floats, image->floats, floats * sizeof *kept->floats);
        kept->version = complete;
        kept->checksum = image->checksum;
        kept->whole = true;
    }
    struct image *previous = &replicas->image[PREVIOUS], *kept = &replicas->image[PREVIOUS_KEPT];
    if (previous->whole && previous->version == complete) {
        const struct image other = *kept;
        *kept = *previous;
        *previous = other;
    }
}

static rt_status replicas_take(struct rt_replicas *replicas, size_t i, struct rt_error *err) {
    struct rt_stage *stage = replicas->settings.stage[i];
    struct image *image = &replicas->image[OWN + i];
    image->whole = false;
    RT_TRY(rt_stage_snapshot(stage, err));
    image->floats = stage->image;
    image->version = stage->update;
    image->checksum = replicas_checksum(replicas, image);
    image->whole = true;
    return RT_OK;
}

/* Layers without parameters are complete at once. */
static void replicas_check_complete(const struct rt_replicas *replicas, struct image *replica) {
    replica->whole = replica->count > 0 && replica->stored == replicas_floats(replicas, replica);
    if (replica->whole)
        replica->checksum = replicas_checksum(replicas, replica);
}

rt_status rt_replicas_snapshot(struct rt_replicas *replicas, uint64_t complete, struct rt_error *err) {
    if (complete > 0 && replicas->image[OWN].whole && replicas->image[OWN].version == complete) {
        replicas_keep(replicas, complete);
        rt_replicas_destroy(replicas->before);
        replicas->before = NULL;
    }
    for (size_t i = 0; i < 2 && replicas->settings.stage[i]; i++)
        RT_TRY(replicas_take(replicas, i, err));
    struct image *previous = &replicas->image[PREVIOUS];
    previous->version = replicas->image[OWN].version;
    previous->stored = 0;
    replicas_check_complete(replicas, previous);
    return RT_OK;
}

uint64_t rt_replicas_newest(const struct rt_replicas *replicas) {
    const struct image *own = &replicas->image[OWN];
    return own->whole ? own->version : RT_VERSION_NOW;
}

/* ---- the replica of the node before -------------------------------------------------------------------- */

static size_t replicas_tensor_floats(const struct rt_replicas *replicas, const struct image *image,
                                     size_t tensor, size_t *first) {
    *first = rt_state_map_at(&replicas->map, tensor, image->first);
    return rt_state_map_at(&replicas->map, tensor, image->first + image->count) - *first;
}

size_t rt_replicas_own_floats(const struct rt_replicas *replicas, size_t tensor, size_t *first) {
    return replicas_tensor_floats(replicas, &replicas->image[OWN], tensor, first);
}

size_t rt_replicas_previous_floats(const struct rt_replicas *replicas, size_t tensor, size_t *first) {
    return replicas_tensor_floats(replicas, &replicas->image[PREVIOUS], tensor, first);
}

/* Where a range lies in an image; SIZE_MAX: not in it. */
static size_t replicas_offset(const struct rt_replicas *replicas, const struct image *image,
                              const struct rt_state_range *range) {
    size_t offset = 0;
    if (image->count == 0 || range->tensor >= replicas->map.tensors)
        return SIZE_MAX;
    size_t begin = 0;
    for (size_t tensor = 0; tensor < range->tensor; tensor++)
        offset += replicas_tensor_floats(replicas, image, tensor, &begin);
    const size_t floats = replicas_tensor_floats(replicas, image, range->tensor, &begin);
    if (range->first < begin || range->first - begin > floats ||
        range->count > floats - (range->first - begin))
        return SIZE_MAX;
    return offset + range->first - begin;
}

void rt_replicas_store(struct rt_replicas *replicas, const struct rt_state_range *range, const float *from) {
    struct image *image = &replicas->image[PREVIOUS];
    const size_t offset = replicas_offset(replicas, image, range);
    if (image->whole || range->version != image->version || offset != image->stored)
        return;
    memcpy(image->floats + offset, from, range->count * sizeof *from);
    image->stored += range->count;
    replicas_check_complete(replicas, image);
}

bool rt_replicas_is_stored(const struct rt_replicas *replicas) {
    const struct image *image = &replicas->image[PREVIOUS];
    return image->count == 0 || image->whole;
}

/* ---- what is held -------------------------------------------------------------------------------------- */

/* The floats from the beginning of a range on that one image has: how many, and where; NULL: none has any. */
static const float *replicas_find(const struct rt_replicas *replicas, const struct rt_state_range *range,
                                  size_t *count) {
    for (; replicas; replicas = replicas->before)
        for (size_t i = 0; i < IMAGES; i++) {
            const struct image *image = &replicas->image[i];
            const struct rt_state_range one = {range->version, range->tensor, range->first, 1};
            const size_t offset = image->whole && image->version == range->version
                                      ? replicas_offset(replicas, image, &one)
                                      : SIZE_MAX;
            if (offset == SIZE_MAX)
                continue;
            size_t first;
            const size_t floats = replicas_tensor_floats(replicas, image, range->tensor, &first);
            const size_t left = floats - (range->first - first);
            *count = left < range->count ? left : range->count;
            return image->floats + offset;
        }
    return NULL;
}

bool rt_replicas_read(const struct rt_replicas *replicas, const struct rt_state_range *range, float *into) {
    struct rt_state_range left = *range;
    while (left.count > 0) {
        size_t count;
        const float *floats = replicas_find(replicas, &left, &count);
        if (!floats)
            return false;
        if (into)
            memcpy(into + (left.first - range->first), floats, count * sizeof *into);
        left.first += count;
        left.count -= count;
    }
    return true;
}

bool rt_replicas_hold(const struct rt_replicas *replicas, uint64_t version, size_t layer) {
    for (size_t i = 0; replicas && i < IMAGES; i++) {
        const struct image *image = &replicas->image[i];
        if (image->whole && image->version == version && layer >= image->first &&
            layer < image->first + image->count)
            return true;
    }
    return replicas && rt_replicas_hold(replicas->before, version, layer);
}

static void replicas_adopt_range(const struct rt_replicas *replicas, const struct rt_state_range *range,
                                 struct rt_stage *stage, size_t at) {
    size_t count;
    const float *floats = replicas_find(replicas, range, &count); /* a layer lies in one image */
    if (floats)
        rt_stage_state_write(stage, range->tensor, at, count, floats);
}

void rt_replicas_adopt(const struct rt_replicas *replicas, uint64_t version, struct rt_stage *stage) {
    const struct rt_state_map *map = &replicas->map;
    const size_t begin = stage->model->first;
    for (size_t layer = begin; layer < begin + stage->model->count; layer++)
        for (size_t tensor = 0; tensor < map->tensors && rt_replicas_hold(replicas, version, layer);
             tensor++) {
            const size_t first = rt_state_map_at(map, tensor, layer);
            const struct rt_state_range range = {version, tensor, first,
                                                 rt_state_map_at(map, tensor, layer + 1) - first};
            replicas_adopt_range(replicas, &range, stage, first - rt_state_map_at(map, tensor, begin));
        }
}

size_t rt_replicas_holdings(struct rt_replicas *replicas, struct rt_holding holdings[RT_MAX_HOLDINGS],
                            size_t *damaged) {
    size_t count = 0;
    *damaged = 0;
    for (; replicas; replicas = replicas->before)
        for (size_t i = 0; i < IMAGES; i++) {
            struct image *image = &replicas->image[i];
            const bool was = image->whole;
            image->whole = was && replicas_checksum(replicas, image) == image->checksum;
            *damaged += was && !image->whole;
            image->whole &= count < RT_MAX_HOLDINGS;
            if (image->whole)
                holdings[count++] =
                    (struct rt_holding){image->version, (uint32_t)image->first, (uint32_t)image->count};
        }
    return count;
}
