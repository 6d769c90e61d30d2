/*
 * The devices of a plan, as the planner sees them: with the times that were measured at the start, scaled to
 * what is known of them by now. All rings of a run are cut alike, so each place of a ring counts as the
 * slowest and smallest of the devices there.
 */
#include "run/ring/setup_inside.h"

#include "base/memory.h"
#include <stdlib.h>
#include <string.h>

static double places_larger(double a, double b) {
    return a > b ? a : b;
}

/* Of two limits, where 0 is none. */
static double places_smaller(double a, double b) {
    return a > 0 && (b <= 0 || a < b) ? a : b;
}

static void places_add_times(const struct rt_layer_times *from, size_t layers, double slower,
                             struct rt_layer_times *into) {
    for (size_t i = 0; i < layers; i++)
        into[i] = (struct rt_layer_times){places_larger(into[i].forward, from[i].forward * slower),
                                          places_larger(into[i].input, from[i].input * slower),
                                          places_larger(into[i].weights, from[i].weights * slower),
                                          places_larger(into[i].update, from[i].update * slower)};
}

static void places_add_device(const struct rt_ring_setup *setup, size_t number, struct rt_ring_places *places,
                              size_t place) {
    const size_t layers = setup->question.model->count;
    const struct rt_plan_device *from = &setup->device[number];
    struct rt_plan_device *to = &places->device[place];
    struct rt_layer_times *times = places->times + 2 * place * layers;
    if (!to->name) {
        *to = *from;
        to->layers = times;
        to->more_layers = times + layers;
    }
    to->memory = (uint64_t)places_smaller((double)to->memory, (double)from->memory);
    to->latency = places_larger(to->latency, from->latency);
    to->bandwidth = places_smaller(to->bandwidth, from->bandwidth);
    places_add_times(from->layers, layers, setup->slower[number], times);
    places_add_times(from->more_layers, layers, setup->slower[number], times + layers);
}

rt_status rt_ring_places_init(const struct rt_ring_setup *setup, const size_t *number, size_t rings,
                              size_t count, struct rt_ring_places *places, struct rt_error *err) {
    const size_t layers = setup->question.model->count;
    *places = (struct rt_ring_places){.rings = rings, .count = count};
    RT_TRY(rt_alloc(count, sizeof *places->device, "the devices", &places->device, err));
    RT_TRY(
        rt_alloc(2 * count * layers, sizeof *places->times, "the times of the layers", &places->times, err));
    RT_TRY(rt_alloc(rings * count, sizeof *places->number, "the devices", &places->number, err));
    memcpy(places->number, number, rings * count * sizeof *number);
    for (size_t i = 0; i < rings * count; i++)
        places_add_device(setup, number[i], places, i % count);
    return RT_OK;
}

void rt_ring_places_deinit(struct rt_ring_places *places) {
    free(places->device);
    free(places->times);
    free(places->number);
    *places = (struct rt_ring_places){0};
}
