/*
 * A stage of a ring as a store of model state (control/state_transfer.h): what a worker's holder reads for
 * the master, and writes on its behalf. It is read out of the image of the last snapshot, so that training
 * goes on meanwhile; it is written while no micro-batch is in hand.
 */
#include "ring/flow.h"

static const struct rt_segment *flow_segment(const void *self) {
    return &((const struct rt_flow *)self)->segments[0];
}

static size_t flow_state_floats(const void *self, size_t tensor) {
    return rt_stage_state_floats(flow_segment(self)->stage, tensor);
}

static enum rt_state_presence flow_state_has(const void *self, uint64_t version) {
    const struct rt_stage *stage = flow_segment(self)->stage;
    if (!stage->image_taken || (version != RT_VERSION_NOW && stage->image_update < version))
        return RT_STATE_NOT_YET;
    return version == RT_VERSION_NOW || stage->image_update == version ? RT_STATE_HERE : RT_STATE_GONE;
}

/* Nothing is in hand that needs the parameters as they are. */
static bool flow_state_can_write(const void *self) {
    const struct rt_segment *segment = flow_segment(self);
    return segment->oldest == segment->arrived && !segment->complete;
}

static void flow_state_read(const void *self, size_t tensor, size_t first, size_t count, float *into) {
    rt_stage_state_read(flow_segment(self)->stage, tensor, first, count, into);
}

static void flow_state_write(void *self, size_t tensor, size_t first, size_t count, const float *from) {
    struct rt_flow *flow = self;
    rt_stage_state_write(flow->segments[0].stage, tensor, first, count, from);
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
