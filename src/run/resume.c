/* Saving and resuming: what a run in progress does with its checkpoint. */
#include "run/training.h"

#include "base/clock.h"
#include "base/sentence.h"
#include <inttypes.h>
#include <math.h>

/* What may help a training whose values grow without bound. Where gradients are stale, that is the likeliest
 * cause; and a strategy that cannot clip is not told to. */
static void resume_advise(const struct rt_training *training, char *text, size_t room) {
    const struct rt_strategy *strategy = training->choice.strategy;
    const bool clips = rt_strategy_clips(&training->choice, training->spec);
    const char *clip = clips ? " or train.clip_norm" : "";
    int damp;
    if (rt_spec_devices(training->spec) < 2 || !rt_strategy_is_stale(&training->choice, &damp))
        snprintf(text, room, "a lower learning rate%s may help", clip);
    else if (damp < RT_MAX_DAMP)
        snprintf(text, room,
                 "%s learns from stale gradients: damp=%d instead of %d%s a lower learning rate%s may help",
                 strategy->name, damp < 2 ? 2 : damp + 1, damp, clips ? "," : " or", clip);
    else
        snprintf(text, room, "%s learns from stale gradients: a lower learning rate%s may help",
                 strategy->name, clip);
}

rt_status rt_training_advise(const struct rt_training *training, rt_status status, struct rt_error *err) {
    if (status != RT_DIVERGED)
        return status;
    const struct rt_error why = *err;
    char advice[200];
    resume_advise(training, advice, sizeof advice);
    if (!training->checkpoint_dir || !rt_checkpoint_exists(training->checkpoint_dir))
        return rt_fail(err, status, "%s; %s", why.text, advice);
    /* A resumed run would do the same again. */
    return rt_fail(err, status,
                   "%s; %s; a new run with model.init: %s/state.safetensors starts from the last checkpoint",
                   why.text, advice, training->checkpoint_dir);
}

rt_status rt_training_save_begin(struct rt_training *training, struct rt_error *err) {
    training->checkpoint_at = rt_clock_wall();
    rt_training_count_training(training);
    training->state.seconds = training->seconds_before + training->checkpoint_at - training->start;
    training->state.planned = training->updates;
    rt_status status = rt_training_fingerprint(training, err);
    if (status != RT_OK)
        return status;
    status = rt_checkpoint_begin(training->checkpoint_dir, &training->learner.model_state, &training->state,
                                 &training->fingerprint, &training->saving, err);
    training->saving_update = training->state.update;
    return rt_training_advise(training, status, err);
}

static rt_status resume_save_finish(struct rt_training *training, struct rt_error *err) {
    struct rt_checkpoint_out *saving = training->saving;
    training->saving = NULL;
    rt_status status = rt_training_advise(training, rt_checkpoint_finish(saving, err), err);
    if (status != RT_OK)
        return status;
    const struct rt_field fields[] = {RT_INT("update", training->saving_update),
                                      RT_REAL("seconds", rt_clock_wall() - training->checkpoint_at)};
    rt_journal_write(training->journal, "checkpoint", fields, 2);
    return RT_OK;
}

static void resume_enter_state(struct rt_training *training, enum rt_state state) {
    if (training->learner.clock)
        rt_states_enter(training->learner.clock, state);
}

rt_status rt_training_save_tend(struct rt_training *training, struct rt_error *err) {
    if (!training->saving || !rt_checkpoint_done(training->saving))
        return RT_OK;
    resume_enter_state(training, RT_STATE_ENCODE);
    rt_status status = resume_save_finish(training, err);
    resume_enter_state(training, RT_STATE_BACKWARD);
    return status;
}

rt_status rt_training_save(struct rt_training *training, struct rt_error *err) {
    if (!training->checkpoint_dir)
        return RT_OK;
    resume_enter_state(training, RT_STATE_ENCODE);
    rt_status status = training->saving ? resume_save_finish(training, err) : RT_OK;
    if (status == RT_OK)
        status = rt_training_save_begin(training, err);
    if (status == RT_OK)
        status = resume_save_finish(training, err);
    training->checkpoint_at = rt_clock_wall();
    resume_enter_state(training, RT_STATE_BACKWARD);
    return status;
}

static rt_status resume_load(struct rt_training *training, struct rt_training_state *state,
                             const char **rescored, struct rt_error *err) {
    struct rt_error notice;
    rt_status status = rt_checkpoint_load(training->checkpoint_dir, &training->learner.model_state,
                                          &training->fingerprint, state, rescored, &notice, err);
    if (status != RT_OK)
        return status;
    if (notice.text[0])
        rt_training_notice(training, "%s", notice.text);
    if (!*rescored || !state->validated)
        return RT_OK;
    state->best_loss = (double)INFINITY;
    state->best_accuracy = (double)NAN;
    state->best_update = state->stale = state->validated = 0;
    rt_training_notice(
        training, "%s has changed: the best model so far and the count for train.early_stop are forgotten",
        *rescored);
    return RT_OK;
}

rt_status rt_training_restore(struct rt_training *training, struct rt_training_state *state,
                              struct rt_error *err) {
    const char *rescored;
    return resume_load(training, state, &rescored, err);
}

rt_status rt_training_resume(struct rt_training *training, struct rt_error *err) {
    struct rt_training_state *state = &training->state;
    const char *rescored = NULL;
    rt_status status = rt_training_fingerprint(training, err);
    if (status == RT_OK)
        status = resume_load(training, state, &rescored, err);
    if (status != RT_OK)
        return status;
    training->seconds_before = state->seconds;
    training->validated_before = state->validation_seconds;
    training->first_update = state->update;
    if (training->schedule.kind == RT_SCHEDULE_COSINE && state->planned != training->updates)
        rt_training_notice(
            training,
            "the run was planned for %s and now has %" PRIu64
            "; the cosine schedule depends on it, so the result is not that of an unbroken run",
            RT_COUNTED(state->planned, "update"), training->updates);
    return RT_OK;
}
