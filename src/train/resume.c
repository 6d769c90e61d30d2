/* Saving and resuming: what a run in progress does with its checkpoint. */
#include "train/drive.h"

#include "base/clock.h"
#include "base/sentence.h"
#include <inttypes.h>
#include <math.h>

/* What may help a training whose numbers grow without bound. Where gradients are stale, that is the likeliest
 * cause; and a strategy that cannot clip is not told to. */
static void advise(const struct rt_drive *drive, char *text, size_t room) {
    const struct rt_strategy *strategy = drive->choice.strategy;
    const bool clips = rt_strategy_clips(&drive->choice, drive->spec);
    const char *clip = clips ? " or train.clip_norm" : "";
    int damp;
    if (rt_spec_devices(drive->spec) < 2 || !rt_strategy_is_stale(&drive->choice, &damp))
        snprintf(text, room, "a lower learning rate%s may help", clip);
    else if (damp < RT_MAX_DAMP)
        snprintf(text, room,
                 "%s learns from stale gradients: damp=%d instead of %d%s a lower learning rate%s may help",
                 strategy->name, damp < 2 ? 2 : damp + 1, damp, clips ? "," : " or", clip);
    else
        snprintf(text, room, "%s learns from stale gradients: a lower learning rate%s may help",
                 strategy->name, clip);
}

rt_status rt_drive_advise(const struct rt_drive *drive, rt_status status, struct rt_error *err) {
    if (status != RT_DIVERGED)
        return status;
    const struct rt_error why = *err;
    char advice[200];
    advise(drive, advice, sizeof advice);
    if (!drive->checkpoint_dir || !rt_checkpoint_exists(drive->checkpoint_dir))
        return rt_fail(err, status, "%s; %s", why.text, advice);
    /* A resumed run would do the same again. */
    return rt_fail(err, status,
                   "%s; %s; a new run with model.init: %s/state.safetensors starts from the last checkpoint",
                   why.text, advice, drive->checkpoint_dir);
}

rt_status rt_drive_save_begin(struct rt_drive *drive, struct rt_error *err) {
    drive->checkpoint_at = rt_clock_wall();
    rt_drive_count_training(drive);
    drive->standing.seconds = drive->seconds_before + drive->checkpoint_at - drive->start;
    drive->standing.planned = drive->updates;
    rt_status status = rt_drive_fingerprint(drive, err);
    if (status != RT_OK)
        return status;
    status = rt_checkpoint_begin(drive->checkpoint_dir, &drive->learner.numbers, &drive->standing,
                                 &drive->fingerprint, &drive->saving, err);
    drive->saving_update = drive->standing.update;
    return rt_drive_advise(drive, status, err);
}

static rt_status save_finish(struct rt_drive *drive, struct rt_error *err) {
    struct rt_checkpoint_out *saving = drive->saving;
    drive->saving = NULL;
    rt_status status = rt_drive_advise(drive, rt_checkpoint_finish(saving, err), err);
    if (status != RT_OK)
        return status;
    const struct rt_field fields[] = {RT_INT("update", drive->saving_update),
                                      RT_REAL("seconds", rt_clock_wall() - drive->checkpoint_at)};
    rt_journal_write(drive->journal, "checkpoint", fields, 2);
    return RT_OK;
}

static void enter_state(struct rt_drive *drive, enum rt_state state) {
    if (drive->learner.clock)
        rt_states_enter(drive->learner.clock, state);
}

rt_status rt_drive_save_tend(struct rt_drive *drive, struct rt_error *err) {
    if (!drive->saving || !rt_checkpoint_done(drive->saving))
        return RT_OK;
    enter_state(drive, RT_STATE_ENCODE);
    rt_status status = save_finish(drive, err);
    enter_state(drive, RT_STATE_BACKWARD);
    return status;
}

rt_status rt_drive_save(struct rt_drive *drive, struct rt_error *err) {
    if (!drive->checkpoint_dir)
        return RT_OK;
    enter_state(drive, RT_STATE_ENCODE);
    rt_status status = drive->saving ? save_finish(drive, err) : RT_OK;
    if (status == RT_OK)
        status = rt_drive_save_begin(drive, err);
    if (status == RT_OK)
        status = save_finish(drive, err);
    drive->checkpoint_at = rt_clock_wall();
    enter_state(drive, RT_STATE_BACKWARD);
    return status;
}

static rt_status load(struct rt_drive *drive, struct rt_standing *standing, const char **rescored,
                      struct rt_error *err) {
    struct rt_error notice;
    rt_status status = rt_checkpoint_load(drive->checkpoint_dir, &drive->learner.numbers, &drive->fingerprint,
                                          standing, rescored, &notice, err);
    if (status == RT_OK && notice.text[0])
        rt_drive_notice(drive, "%s", notice.text);
    return status;
}

rt_status rt_drive_restore(struct rt_drive *drive, struct rt_standing *standing, struct rt_error *err) {
    const char *rescored;
    return load(drive, standing, &rescored, err);
}

rt_status rt_drive_resume(struct rt_drive *drive, struct rt_error *err) {
    struct rt_standing *standing = &drive->standing;
    const char *rescored = NULL;
    rt_status status = rt_drive_fingerprint(drive, err);
    if (status == RT_OK)
        status = load(drive, standing, &rescored, err);
    if (status != RT_OK)
        return status;
    drive->seconds_before = standing->seconds;
    drive->validated_before = standing->validation_seconds;
    drive->first_update = standing->update;
    if (rescored && standing->validated) {
        standing->best_loss = (double)INFINITY;
        standing->best_accuracy = (double)NAN;
        standing->best_update = standing->stale = standing->validated = 0;
        rt_drive_notice(
            drive, "%s has changed: the best model so far and the count for train.early_stop are forgotten",
            rescored);
    }
    if (drive->schedule.kind == RT_SCHEDULE_COSINE && standing->planned != drive->updates)
        rt_drive_notice(drive,
                        "the run was planned for %s and now has %" PRIu64
                        "; the cosine schedule depends on it, so the result is not that of an unbroken run",
                        RT_COUNTED(standing->planned, "update"), drive->updates);
    return RT_OK;
}
