/* Saving and resuming: what a run in progress does with its checkpoint. */
#include "run/training.h"

#include "base/clock.h"
#include "base/sentence.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

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
    const double began = rt_clock_wall();
    status = rt_checkpoint_begin(training->checkpoint_dir, &training->learner.model_state, &training->state,
                                 &training->fingerprint, &training->saving, err);
    training->cost.checkpoint_seconds += rt_clock_wall() - began;
    training->saving_update = training->state.update;
    return rt_training_advise(training, status, err);
}

void rt_training_tell_unwritten(struct rt_training *training, const struct rt_error *why) {
    struct rt_error told;
    if (training->unwritten.checkpoint)
        return;
    training->unwritten.checkpoint = true;
    rt_fail(&told, RT_OK,
            "the checkpoint of update %llu could not be written (%.400s); the run goes on, and ",
            (unsigned long long)training->saving_update, why->text);
    if (rt_checkpoint_exists(training->checkpoint_dir))
        rt_fail_more(&told, RT_OK, "the last one is of update %llu",
                     (unsigned long long)training->saved_update);
    else
        rt_fail_more(&told, RT_OK, "there is none yet");
    rt_training_warn(training, told.text);
}

static void resume_tell_written(struct rt_training *training) {
    struct rt_error told;
    if (!training->unwritten.checkpoint)
        return;
    training->unwritten.checkpoint = false;
    rt_fail(&told, RT_OK, "checkpoints can be written again: the last is of update %llu",
            (unsigned long long)training->saving_update);
    rt_training_warn(training, told.text);
}

/* unwritten: status RT_OK, or why there is no file. */
static rt_status resume_save_finish(struct rt_training *training, struct rt_error *unwritten,
                                    struct rt_error *err) {
    const struct rt_model_state *model_state = &training->learner.model_state;
    struct rt_checkpoint_out *saving = training->saving;
    training->saving = NULL;
    const double began = rt_clock_wall();
    const rt_status status = rt_training_advise(training, rt_checkpoint_finish(saving, unwritten, err), err);
    training->cost.checkpoint_seconds += rt_clock_wall() - began;
    if (status != RT_OK || unwritten->status != RT_OK)
        return status;
    training->saved_update = training->saving_update;
    training->cost.checkpoints++;
    training->cost.checkpoint_bytes += rt_snapshot_bytes(model_state->model, model_state->tensors);
    resume_tell_written(training);
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
    struct rt_error unwritten;
    resume_enter_state(training, RT_STATE_ENCODE);
    rt_status status = resume_save_finish(training, &unwritten, err);
    if (status == RT_OK && unwritten.status != RT_OK)
        rt_training_tell_unwritten(training, &unwritten);
    resume_enter_state(training, RT_STATE_BACKWARD);
    return status;
}

rt_status rt_training_save_finish(struct rt_training *training, struct rt_error *err) {
    struct rt_error unwritten;
    if (!training->saving)
        return RT_OK;
    RT_TRY(resume_save_finish(training, &unwritten, err));
    if (unwritten.status != RT_OK)
        rt_training_tell_unwritten(training, &unwritten);
    return RT_OK;
}

static rt_status resume_save_now(struct rt_training *training, struct rt_error *unwritten,
                                 struct rt_error *err) {
    RT_TRY(rt_training_save_begin(training, err));
    return resume_save_finish(training, unwritten, err);
}

rt_status rt_training_save(struct rt_training *training, struct rt_error *err) {
    if (!training->checkpoint_dir)
        return RT_OK;
    struct rt_error unwritten = {.status = RT_OK};
    resume_enter_state(training, RT_STATE_ENCODE);
    rt_status status = training->saving ? resume_save_finish(training, &unwritten, err) : RT_OK;
    if (status == RT_OK)
        status = resume_save_now(training, &unwritten, err);
    /* Nothing that came after the one before would be kept: rather one checkpoint than two. */
    if (status == RT_OK && unwritten.status != RT_OK && rt_checkpoint_make_room(training->checkpoint_dir))
        status = resume_save_now(training, &unwritten, err);
    training->checkpoint_at = rt_clock_wall();
    resume_enter_state(training, RT_STATE_BACKWARD);
    if (status == RT_OK && unwritten.status != RT_OK)
        return rt_fail(err, unwritten.status, "%s", unwritten.text);
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
        rt_training_warn(training, notice.text);
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
    RT_TRY(resume_load(training, state, &rescored, err));
    training->saved_update = state->update; /* that of an older one, where the newest was damaged */
    return RT_OK;
}

/* The examples of a stream that were learnt from after the checkpoint do not come again by themselves. How
 * many the run knew of last is in its journal. */
static void resume_stream(struct rt_training *training) {
    const uint64_t samples = training->state.samples;
    char *path = rt_training_text("%s/journal.jsonl", training->run->out_dir);
    const uint64_t last = path ? rt_journal_last(path, "samples") : UINT64_MAX;
    free(path);
    if (last == samples) /* it was saved when it ended */
        return;
    const bool known = last != UINT64_MAX && last > samples;
    training->rows_not_saved = known ? last - samples : 0;
    if (known)
        rt_training_notice(training,
                           "the state is that after %s of the stream; at least %" PRIu64
                           " later ones were learnt from and are lost, unless the sender sends them again",
                           RT_COUNTED(samples, "example"), training->rows_not_saved);
    else
        rt_training_notice(training,
                           "the state is that after %s of the stream; later ones that were learnt from are "
                           "lost, unless the sender sends them again",
                           RT_COUNTED(samples, "example"));
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
    training->first_update = training->saved_update = training->view_update = state->update;
    training->first_samples = state->samples;
    if (training->learner.stream)
        resume_stream(training);
    if (training->schedule.kind == RT_SCHEDULE_COSINE && state->planned != training->updates)
        rt_training_notice(
            training,
            "the run was planned for %s and now has %" PRIu64
            "; the cosine schedule depends on it, so the result is not that of an unbroken run",
            RT_COUNTED(state->planned, "update"), training->updates);
    return RT_OK;
}
