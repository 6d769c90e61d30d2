/*
 * A ring that learns from a stream. What has been learnt from does not come again, so the examples since the
 * newest complete replica stay with the master (run/ring/stream_batches.h). Where there is no room for more
 * of them the ring waits until a replica is complete.
 */
#include "run/ring/learner_inside.h"

/* Between two looks at whether the run is to stop. */
#define STREAM_WAIT 0.05

rt_status rt_ring_learner_open_stream(struct rt_ring_learner *learner, struct rt_error *err) {
    const struct rt_training_config *config = &learner->config;
    const struct rt_ring_setup *setup = &learner->setup;
    if (learner->stream || learner->rings || !rt_stream_named(config->spec->data.train))
        return RT_OK;
    return rt_stream_batches_open(config, setup->stream_room ? setup->stream_room : 1, setup->who.endpoint,
                                  &learner->stream, err);
}

/* Whether a lost device means going back to a replica, and with it to examples that were learnt from. */
static bool ring_learner_keeps(const struct rt_ring_learner *learner) {
    return learner->stream->room > 1 && learner->config.spec->cluster.recover &&
           learner->setup.job->ring.replica != RT_REPLICA_OFF;
}

void rt_ring_learner_release(struct rt_ring_learner *learner) {
    rt_stream_batches_release(learner->stream, ring_learner_keeps(learner) ? rt_ring_replicated(learner->ring)
                                                                           : rt_ring_version(learner->ring));
}

static bool ring_learner_needs_room(void *self) {
    struct rt_ring_learner *learner = self;
    rt_ring_learner_release(learner);
    return rt_stream_batches_full(learner->stream, rt_ring_version(learner->ring) + 1);
}

static bool ring_learner_has_room(void *self) {
    return !ring_learner_needs_room(self);
}

static rt_status ring_learner_replicate_finish(void *self, struct rt_error *err) {
    struct rt_ring_learner *learner = self;
    struct rt_endpoint *endpoint = learner->setup.who.endpoint;
    const atomic_int *stop = learner->config.stop;
    while (ring_learner_needs_room(learner) && !(stop && atomic_load(stop)))
        RT_TRY(rt_ring_learner_explain(learner,
                                       rt_ring_wait(learner->ring, ring_learner_has_room, learner,
                                                    rt_endpoint_now(endpoint) + STREAM_WAIT, err),
                                       err));
    return RT_OK;
}

static struct rt_rewound ring_learner_rewind(void *self, uint64_t update) {
    return rt_stream_batches_rewind(((struct rt_ring_learner *)self)->stream, update);
}

void rt_ring_learner_describe_stream(const struct rt_ring_learner *learner, struct rt_learner *described) {
    struct rt_stream_batches *stream = learner->stream;
    if (!stream)
        return;
    described->progressive = &stream->progressive;
    described->stream = stream->stream;
    described->replica_updates = ring_learner_keeps(learner) ? stream->room / 2 : 0;
    described->needs_room = ring_learner_needs_room;
    described->replicate_finish = ring_learner_replicate_finish;
    described->rewind = ring_learner_rewind;
}
