/*
 * What replicas cost (ring/replicas.h): memory, time on the links, and time of the devices. A node sends its
 * state of S bytes at a rate that leaves the link to activations, and every device copies, checks, sends and
 * receives some S bytes for each replica. The interval between two is such that this is at most a part of
 * 1/50 of a device's time.
 */
#include "run/ring/setup_inside.h"

#include "base/clock.h"
#include "base/crc32c.h"
#include "base/memory.h"
#include "plan/planner.h"
#include "ring/replicas.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A link that activations and gradients fill for less than half of the time gives a quarter of itself to
 * replicas, a fuller one as little as replicas may cost. */
#define LINK_FREE 0.25
#define LINK_FULL 0.02
#define COST      0.02
#define REPLAY    10.0 /* seconds of training that are made again at most, where the cost allows it */
#define PASSES    8    /* as expensive as those: image, sum; sending and receiving, which take three each */

double rt_ring_setup_replica_rate(const struct rt_ring_setup *setup) {
    const struct rt_plan *plan = setup->plan;
    const double update = (double)setup->job->batch / plan->samples_per_s;
    double rate = 0;
    for (size_t i = 1; i < plan->nodes; i++) {
        const struct rt_plan_node *node = &plan->node[i];
        const double share = node->link_seconds < update / 2 ? LINK_FREE : LINK_FULL;
        const double own = share * setup->device[node->device].bandwidth;
        if (own > 0 && (rate == 0 || own < rate))
            rate = own;
    }
    return rate;
}

/* Seconds in which this device copies a byte and adds it to a checksum. */
static double replica_seconds_per_byte(void) {
    enum { BYTES = 1 << 20 };
    static const size_t half = BYTES / 2;
    uint8_t *bytes = calloc(1, BYTES);
    double best = 1;
    for (size_t i = 0; bytes && i < 3; i++) {
        const double before = rt_clock_thread();
        memcpy(bytes + half, bytes, half);
        bytes[0] = (uint8_t)rt_crc32c(0, bytes + half, half);
        best = fmin(best, rt_clock_thread() - before);
    }
    free(bytes);
    return bytes ? best / (double)half : 1e-9;
}

static double replica_layer_seconds(const struct rt_plan_device *device, size_t layers) {
    double seconds = 0;
    for (size_t k = 0; k < layers; k++)
        seconds += device->layers[k].forward + device->layers[k].input + device->layers[k].weights;
    return seconds;
}

/* How much slower than the master a device is. */
static double replica_slowdown(const struct rt_ring_setup *setup, size_t device) {
    const size_t layers = setup->question.model->count;
    const double master = replica_layer_seconds(&setup->device[0], layers);
    return master > 0 ? replica_layer_seconds(&setup->device[device], layers) / master : 1;
}

/* Of the layers that a node has in its replica: the master's are in its checkpoint. */
static double replica_state_bytes(const struct rt_state_map *map, const struct rt_plan *plan, size_t node) {
    const struct rt_plan_node *part = &plan->node[node];
    return node > 0 ? (double)(rt_state_map_floats(map, part->first, part->count) * sizeof(float)) : 0;
}

/* Two generations: another image of the own layers, and two of those of the node before. */
static double replica_kept_bytes(const struct rt_state_map *map, const struct rt_plan *plan, size_t node) {
    const size_t before = (node + plan->nodes - 1) % plan->nodes;
    double floats = (double)rt_state_map_floats(map, plan->node[node].first, plan->node[node].count);
    if (node == 0 && plan->tail)
        floats += (double)rt_state_map_floats(map, plan->layers - plan->tail, plan->tail);
    return floats * sizeof(float) + 2 * replica_state_bytes(map, plan, before);
}

rt_status rt_ring_setup_count_replicas(struct rt_ring_setup *setup, struct rt_error *err) {
    struct rt_plan *plan = setup->plan;
    const enum rt_replica_place place = (enum rt_replica_place)setup->job->ring.replica;
    const double rate = rt_ring_setup_replica_rate(setup);
    const double pass = replica_seconds_per_byte() * rt_pace_factor(&setup->who.pace, 1);
    struct rt_state_map map;
    setup->replica_interval = setup->replica_bytes = 0;
    if (place == RT_REPLICA_OFF || plan->nodes == 1)
        return RT_OK;
    RT_TRY(rt_state_map_create(setup->job, setup->question.model->layers[0]->kernels, &map, err));
    for (size_t i = 0; i < plan->nodes; i++) {
        struct rt_plan_node *node = &plan->node[i];
        const double sent = replica_state_bytes(&map, plan, i), kept = replica_kept_bytes(&map, plan, i);
        const bool on_disk =
            rt_replicas_on_disk(place, (double)node->memory, kept, setup->device[node->device].memory);
        const double work = PASSES * pass * fmax(sent, kept / 3) * replica_slowdown(setup, node->device);
        setup->replica_interval = fmax(setup->replica_interval, work / COST);
        if (rate > 0)
            setup->replica_interval = fmax(setup->replica_interval, sent / rate);
        setup->replica_bytes += sent;
        node->replica = on_disk ? 0 : (uint64_t)kept;
        node->replica_on_disk = on_disk ? (uint64_t)kept : 0;
        node->memory += node->replica;
    }
    setup->replica_on_disk = plan->node[0].replica_on_disk > 0;
    rt_state_map_destroy(&map);
    return RT_OK;
}

void rt_ring_setup_print_replicas(const struct rt_ring_setup *setup, FILE *out) {
    const struct rt_plan *plan = setup->plan;
    char most[32], disk[32];
    uint64_t memory = 0, on_disk = 0;
    for (size_t i = 0; i < plan->nodes; i++) {
        memory = plan->node[i].replica > memory ? plan->node[i].replica : memory;
        on_disk = plan->node[i].replica_on_disk > on_disk ? plan->node[i].replica_on_disk : on_disk;
    }
    if (memory + on_disk == 0)
        return;
    fprintf(out, "Every device keeps a replica of its neighbour's state: at most %s of memory%s%s%s",
            rt_plan_bytes_text((double)memory, most), on_disk ? ", where that is short " : "",
            on_disk ? rt_plan_bytes_text((double)on_disk, disk) : "", on_disk ? " on the disk" : "");
    if (setup->replica_interval > REPLAY)
        fprintf(out,
                ".\nA replica takes %.0f s, so that it costs at most %.0f %% of the speed: when a device is "
                "lost, more "
                "than %.0f s of training are made again.\n",
                setup->replica_interval, 100 * COST, REPLAY);
    else
        fprintf(out, "; renewed every %.2g s or less often, for at most %.0f %% of the speed.\n",
                fmax(setup->replica_interval, 0.25), 100 * COST);
}
