/* Saving and resuming: what a run in progress does with its checkpoint. */
#include "train/drive.h"

#include "base/clock.h"
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

rt_status rt_drive_diverged(const struct rt_drive *drive, struct rt_error *err) {
    const struct rt_error why = *err;
    char advice[200];
    advise(drive, advice, sizeof advice);
    if (!rt_checkpoint_exists(drive->checkpoint_dir))
        return rt_fail(err, RT_FAILED, "%s; %s", why.text, advice);
    /* A resumed run would do the same again. */
    return rt_fail(err, RT_FAILED,
                   "%s; %s; a new run with model.init: %s/state.safetensors starts from the last checkpoint",
                   why.text, advice, drive->checkpoint_dir);
}

rt_status rt_drive_save_begin(struct rt_drive *drive, struct rt_error *err) {
    struct rt_error own;
    drive->checkpoint_at = rt_clock_wall();
    drive->standing.seconds = drive->seconds_before + drive->checkpoint_at - drive->start;
    drive->standing.planned = drive->updates;
    rt_status status = rt_drive_fingerprint(drive, err);
    if (status != RT_OK)
        return status;
    status = rt_checkpoint_begin(drive->checkpoint_dir, &drive->learner.numbers, &drive->standing,
                                 &drive->fingerprint, &drive->saving, &own);
    drive->saving_update = drive->standing.update;
    if (status == RT_FAILED)
        rt_drive_diverged(drive, &own);
    return status == RT_OK ? RT_OK : rt_fail(err, status, "%s", own.text);
}

static rt_status save_finish(struct rt_drive *drive, struct rt_error *err) {
    struct rt_error own;
    struct rt_checkpoint_out *saving = drive->saving;
    drive->saving = NULL;
    rt_status status = rt_checkpoint_finish(saving, &own);
    if (status == RT_FAILED)
        rt_drive_diverged(drive, &own);
    if (status != RT_OK)
        return rt_fail(err, status, "%s", own.text);
    const struct rt_field fields[] = {RT_INT("update", drive->saving_update),
                                      RT_REAL("seconds", rt_clock_wall() - drive->checkpoint_at)};
    rt_journal_write(drive->journal, "checkpoint", fields, 2);
    return RT_OK;
}

rt_status rt_drive_save_tend(struct rt_drive *drive, struct rt_error *err) {
    if (!drive->saving || !rt_checkpoint_done(drive->saving))
        return RT_OK;
    rt_states_enter(&drive->states, RT_STATE_ENCODE);
    rt_status status = save_finish(drive, err);
    rt_states_enter(&drive->states, RT_STATE_BACKWARD);
    return status;
}

rt_status rt_drive_save(struct rt_drive *drive, struct rt_error *err) {
    rt_states_enter(&drive->states, RT_STATE_ENCODE);
    rt_status status = drive->saving ? save_finish(drive, err) : RT_OK;
    if (status == RT_OK)
        status = rt_drive_save_begin(drive, err);
    if (status == RT_OK)
        status = save_finish(drive, err);
    drive->checkpoint_at = rt_clock_wall();
    rt_states_enter(&drive->states, RT_STATE_BACKWARD);
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
                        "the run was planned for %" PRIu64 " updates and now has %" PRIu64
                        "; the cosine schedule depends on it, so the result is not that of an unbroken run",
                        standing->planned, drive->updates);
    return RT_OK;
}
