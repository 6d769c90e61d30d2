/*
 * What a run goes back to when a device is lost. A ring has replicas of its own, spread over its nodes
 * (run/learner.h). Elsewhere the whole model fits on the master, which is the one device that the run cannot
 * do without: so it keeps an image of the state (parameters, optimizer, buffers), as a checkpoint would, in
 * memory. Here it is decided when a replica is made, and what belongs to it and is not in the model is noted:
 * where the run stood, for the complete replica and for the one under way.
 *
 * With cluster.replica_every: auto the next one is due when the one before is complete and its cost is spread
 * thinly enough: training stood still for a part of 1/50 of the time at most.
 */
#include "run/training.h"

#include "base/clock.h"
#include <math.h>

/* Between two of them: seconds at least, and the part of the time that they may cost. */
#define REPLICATE_SECONDS 0.25
#define REPLICATE_COST    0.02

/* A ring of the master alone has nobody to keep a replica; what it goes back to when devices join is an
 * image. */
static bool replicate_is_alone(const struct rt_training *training) {
    return training->learner.replicate && training->learner.nodes == 1;
}

static bool replicate_has_images(const struct rt_training *training) {
    const struct rt_learner *learner = &training->learner;
    return learner->recover && !learner->replicate && !training->replicas.without_images &&
           training->spec->cluster.replica != RT_REPLICA_OFF;
}

static bool replicate_is_time(const struct rt_training *training) {
    const struct rt_learner *learner = &training->learner;
    const uint64_t since = training->state.update - training->replicas.update;
    const int64_t every = training->spec->cluster.replica_every;
    if (learner->replica_updates > 0 && since >= learner->replica_updates)
        return true;
    if (every > 0)
        return since >= (uint64_t)every;
    const double spread = training->replicas.seconds / REPLICATE_COST;
    const double interval = learner->replica_interval ? learner->replica_interval(learner->self) : 0;
    return since > 0 &&
           rt_clock_wall() - training->replicas.at >= fmax(REPLICATE_SECONDS, fmax(spread, interval));
}

bool rt_training_replica_is_due(const struct rt_training *training) {
    const struct rt_learner *learner = &training->learner;
    if (training->saving || !replicate_is_time(training))
        return false;
    if (!learner->replicate)
        return replicate_has_images(training);
    if (replicate_is_alone(training))
        return false;
    /* A newer one would take the place of one that is not complete yet, and so none would ever be. */
    const bool under_way = training->replicas.count > 0;
    return !under_way || learner->replicated(learner->self) == training->replicas.update;
}

rt_status rt_training_make_room(struct rt_training *training, struct rt_error *err) {
    const struct rt_learner *learner = &training->learner;
    if (!learner->needs_room || !learner->needs_room(learner->self))
        return RT_OK;
    RT_TRY(rt_training_save_finish(training, err)); /* no image can be made before that */
    const bool under_way = learner->replicated(learner->self) != training->replicas.update;
    if (!under_way)
        RT_TRY(rt_training_replicate(training, 0, err));
    return rt_training_advise(training, learner->replicate_finish(learner->self, err), err);
}

/* complete: the version of the complete replica. */
static void replicate_note(struct rt_training *training, uint64_t complete) {
    struct rt_training_state *state = training->replicas.state;
    if (training->replicas.count == 2 && state[1].update == complete)
        state[0] = state[1];
    training->replicas.count = training->replicas.count > 0 && state[0].update == complete ? 1 : 0;
    state[training->replicas.count++] = training->state;
    training->replicas.update = training->state.update;
    training->replicas.at = rt_clock_wall();
    training->replicas.counted = training->state.step_seconds;
    training->replicas.counted_update = training->state.update;
    training->cost.replicas++;
    training->cost.replica_bytes +=
        training->learner.replicate
            ? training->learner.replica_bytes
            : rt_snapshot_bytes(training->learner.model_state.model, training->learner.model_state.tensors);
}

/* An image is an insurance: where there is no room for it, training goes on without. */
static bool replicate_has_room(struct rt_training *training) {
    const struct rt_learner *learner = &training->learner;
    const size_t bytes = rt_snapshot_bytes(learner->model_state.model, learner->model_state.tensors);
    struct rt_error err;
    if (rt_snapshot_reserve(&training->replicas.image, bytes, learner->image_on_disk, &err) == RT_OK)
        return true;
    rt_snapshot_deinit(&training->replicas.image);
    training->replicas.without_images = true;
    training->replicas.count = 0;
    rt_fail_more(&err, err.status,
                 "; the master keeps no image of the state: when a device is lost, the run goes on from the "
                 "newest checkpoint");
    rt_training_warn(training, err.text);
    return false;
}

/* The image before stays until this one is complete, which it is at once. */
static rt_status replicate_take_image(struct rt_training *training, struct rt_error *err) {
    const struct rt_learner *learner = &training->learner;
    const struct rt_model_state *model_state = &learner->model_state;
    if (!replicate_has_room(training))
        return RT_OK;
    RT_TRY(rt_snapshot_take(&training->replicas.image, model_state, model_state->tensors,
                            learner->image_on_disk, NULL, err));
    training->replicas.image_update = training->state.update;
    replicate_note(training, training->state.update);
    return RT_OK;
}

void rt_training_note_replica(void *user) {
    struct rt_training *training = user;
    const struct rt_learner *learner = &training->learner;
    rt_snapshot_deinit(&training->replicas.image); /* of the time before others joined */
    replicate_note(training, learner->replicated(learner->self));
}

static rt_status replicate_begin(struct rt_training *training, struct rt_error *err) {
    const struct rt_learner *learner = &training->learner;
    if (!learner->replicate || replicate_is_alone(training))
        return replicate_take_image(training, err);
    return learner->replicate(learner->self, training->state.update, err);
}

rt_status rt_training_replicate(struct rt_training *training, double lost, struct rt_error *err) {
    const bool images = replicate_has_images(training);
    if (!images && !training->learner.replicate)
        return RT_OK;
    const double began = rt_clock_wall() - lost;
    const rt_status status = replicate_begin(training, err);
    const double seconds = rt_clock_wall() - began;
    training->cost.replica_seconds += seconds;
    /* A single slow one, of a machine that did something else meanwhile, shall not count for long. */
    training->replicas.seconds = 0.5 * (training->replicas.seconds + seconds);
    return rt_training_advise(training, status, err);
}

const struct rt_training_state *rt_training_replica(const struct rt_training *training, uint64_t version) {
    for (size_t i = 0; i < training->replicas.count; i++)
        if (training->replicas.state[i].update == version)
            return &training->replicas.state[i];
    return NULL;
}

/* Whether there is an image that is sound, and newer than a checkpoint of that update. */
static bool replicate_has_image(struct rt_training *training, uint64_t checkpoint) {
    const struct rt_snapshot *image = &training->replicas.image;
    const uint64_t update = training->replicas.image_update;
    struct rt_error told;
    if (image->tensors == 0 || update < checkpoint || !rt_training_replica(training, update))
        return false;
    if (rt_snapshot_is_sound(image))
        return true;
    rt_fail(&told, RT_OK,
            "the image of update %llu on the master does not match its checksum: it is not used",
            (unsigned long long)update);
    rt_training_warn(training, told.text);
    return false;
}

rt_status rt_training_restore_image(struct rt_training *training, uint64_t checkpoint,
                                    const struct rt_training_state **restored, struct rt_error *err) {
    const struct rt_snapshot *image = &training->replicas.image;
    const uint64_t update = training->replicas.image_update;
    *restored = NULL;
    if (!replicate_has_image(training, checkpoint))
        return RT_OK;
    RT_TRY(rt_snapshot_give(image, &training->learner.model_state, update, err));
    *restored = rt_training_replica(training, update);
    return RT_OK;
}

rt_status rt_training_save_image(struct rt_training *training, struct rt_error *err) {
    struct rt_snapshot_reader reader = {.snapshot = &training->replicas.image,
                                        .model = training->learner.model_state.model};
    if (!training->checkpoint_dir || !replicate_has_image(training, training->saved_update + 1))
        return RT_OK;
    const struct rt_model_state image = rt_snapshot_model_state(&reader);
    struct rt_training_state state = *rt_training_replica(training, training->replicas.image_update);
    state.seconds = training->seconds_before + rt_clock_wall() - training->start;
    state.planned = training->updates;
    RT_TRY(rt_training_fingerprint(training, err));
    RT_TRY(rt_checkpoint_save(training->checkpoint_dir, &image, &state, &training->fingerprint, err));
    training->saved_update = state.update;
    return RT_OK;
}
