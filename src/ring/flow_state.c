/*
 * A stage of a ring as a store of model state (control/state_transfer.h): what a worker's holder reads for
 * the master, and writes on its behalf. It is read out of the image of the last snapshot, so that training
 * goes on meanwhile, or out of an older image or a replica (ring/replicas.h); it is written while no
 * micro-batch is in hand. Ranges are those of the whole model.
 */
#include "ring/flow.h"

static const struct rt_segment *flow_segment(const void *self) {
    return &((const struct rt_flow *)self)->segments[0];
}

static size_t flow_state_floats(const void *self, size_t tensor, size_t *first) {
    const struct rt_flow *flow = self;
    const struct rt_stage *stage = flow_segment(self)->stage;
    *first = rt_state_map_at(&flow->state_map, tensor, stage->model->first);
    return rt_stage_state_floats(stage, tensor);
}

static bool flow_state_is_own(const struct rt_flow *flow, const struct rt_state_range *range) {
    size_t first;
    const size_t floats = flow_state_floats(flow, range->tensor, &first);
    return range->first >= first && range->first - first <= floats &&
           range->count <= floats - (range->first - first);
}

static enum rt_state_presence flow_state_has(const void *self, const struct rt_state_range *range) {
    const struct rt_flow *flow = self;
    const struct rt_stage *stage = flow_segment(self)->stage;
    const uint64_t version = range->version;
    if (rt_replicas_read(flow->settings.replicas, range, NULL))
        return RT_STATE_HERE;
    if (!flow_state_is_own(flow, range))
        return RT_STATE_GONE;
    if (!stage->image_taken || (version != RT_VERSION_NOW && stage->image_update < version))
        return RT_STATE_NOT_YET;
    return version == RT_VERSION_NOW || stage->image_update == version ? RT_STATE_HERE : RT_STATE_GONE;
}

/* Nothing is in hand that needs the parameters as they are. */
static bool flow_state_can_write(const void *self, const struct rt_state_range *range) {
    const struct rt_segment *segment = flow_segment(self);
    (void)range;
    return segment->oldest == segment->arrived && !segment->complete;
}

static void flow_state_read(const void *self, const struct rt_state_range *range, float *into) {
    const struct rt_flow *flow = self;
    size_t first;
    if (rt_replicas_read(flow->settings.replicas, range, into))
        return;
    flow_state_floats(self, range->tensor, &first);
    rt_stage_state_read(flow_segment(self)->stage, range->tensor, range->first - first, range->count, into);
}

static void flow_state_write(void *self, const struct rt_state_range *range, const float *from) {
    size_t first;
    flow_state_floats(self, range->tensor, &first);
    rt_stage_state_write(flow_segment(self)->stage, range->tensor, range->first - first, range->count, from);
}

static bool flow_state_loaded(void *self, uint64_t update) {
    struct rt_flow *flow = self;
    rt_segment_set_update(&flow->segments[0], update);
    return true;
}

void rt_segment_set_update(struct rt_segment *segment, uint64_t update) {
    segment->next.update = update;
    if (segment->stage) {
        segment->stage->update = update;
        segment->stage->image_taken = false; /* it is of other parameters */
    }
}

struct rt_state_store rt_flow_store(struct rt_flow *flow) {
    return (struct rt_state_store){.self = flow,
                                   .tensors = rt_stage_state_count(flow->segments[0].stage),
                                   .floats = flow_state_floats,
                                   .has = flow_state_has,
                                   .can_write = flow_state_can_write,
                                   .read = flow_state_read,
                                   .write = flow_state_write,
                                   .loaded = flow_state_loaded};
}

rt_status rt_flow_open_replication(struct rt_flow *flow, struct rt_error *err) {
    const struct rt_flow_settings *settings = &flow->settings;
    const struct rt_replication_settings replication = {.replicas = settings->replicas,
                                                        .next = settings->next,
                                                        .previous = settings->previous,
                                                        .run = settings->run,
                                                        .index = settings->index,
                                                        .nodes = settings->nodes,
                                                        .rate = flow->job->ring.replica_rate};
    return settings->replicas ? rt_replication_init(&flow->replication, &replication, err) : RT_OK;
}

/* Whether the images are of the parameters as they are now, and their replicas under way or complete. */
static bool flow_is_imaged(const struct rt_flow *flow) {
    bool imaged = flow->replication.open;
    for (size_t i = 0; i < flow->segment_count; i++) {
        const struct rt_stage *stage = flow->segments[i].stage;
        imaged &= !stage || (stage->image_taken && stage->image_update == stage->update);
    }
    return imaged;
}

/* A second image of one version would begin its replica anew, which the next node, with a LOAD of the first
 * in hand, could not tell from the first. */
rt_status rt_flow_snapshot(struct rt_flow *flow, uint64_t complete, struct rt_error *err) {
    if (flow_is_imaged(flow))
        return RT_OK;
    if (flow->settings.replicas) { /* also of a master alone: others may join it */
        RT_TRY(rt_replicas_snapshot(flow->settings.replicas, complete, err));
        if (flow->replication.open)
            rt_replication_start(&flow->replication);
        return RT_OK;
    }
    for (size_t i = 0; i < flow->segment_count; i++)
        if (flow->segments[i].stage)
            RT_TRY(rt_stage_snapshot(flow->segments[i].stage, err));
    return RT_OK;
}
