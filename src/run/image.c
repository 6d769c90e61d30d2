/* What the images of a run's state take. */
#include "run/image.h"

#include "base/memory.h"
#include "learn/snapshot.h"
#include "ring/replicas.h"

size_t rt_image_bytes(const struct rt_model *model, const struct rt_optim *optim) {
    return 2 * rt_snapshot_bytes(model, 1 + optim->type->state_tensors);
}

/* Where no limit is set, the machine's memory is one. */
bool rt_image_is_on_disk(const struct rt_spec_cluster *cluster, size_t bytes, double memory) {
    const enum rt_replica_place place = (enum rt_replica_place)cluster->replica;
    const double images = (double)bytes;
    struct rt_error ignored;
    return rt_replicas_on_disk(place, memory, images, (uint64_t)cluster->memory << 20) ||
           (place == RT_REPLICA_AUTO && rt_memory_check(memory + images, "the image", &ignored) != RT_OK);
}
