/* Saving and resuming: what a run in progress does with its checkpoint. */
#include "train/drive.h"

#include "base/clock.h"
#include <inttypes.h>
#include <math.h>

static struct rt_checkpointed checkpointed(struct rt_drive *drive) {
    return (struct rt_checkpointed){.network = &drive->run->trained.network,
                                    .optim_state = rt_trainer_state(drive->trainer),
                                    .optim_words = drive->optim->type->state_words};
}

rt_status rt_drive_diverged(const struct rt_drive *drive, struct rt_error *err) {
    const struct rt_error why = *err;
    if (!rt_checkpoint_exists(drive->checkpoint_dir))
        return rt_fail(err, RT_FAILED, "%s; a lower learning rate or train.clip_norm may help", why.text);
    /* A resumed run would do the same again. */
    return rt_fail(err, RT_FAILED,
                   "%s; a lower learning rate or train.clip_norm may help; a new run with model.init: "
                   "%s/state.safetensors starts from the last checkpoint",
                   why.text, drive->checkpoint_dir);
}

rt_status rt_drive_save(struct rt_drive *drive, struct rt_error *err) {
    struct rt_error own;
    if (rt_trainer_check(drive->trainer, &own) != RT_OK) {
        rt_drive_diverged(drive, &own);
        return rt_fail(err, RT_FAILED, "%s", own.text);
    }
    rt_states_enter(&drive->states, RT_STATE_ENCODE);
    double start = rt_clock_wall();
    drive->standing.seconds = drive->seconds_before + start - drive->start;
    drive->standing.planned = drive->updates;
    const struct rt_checkpointed what = checkpointed(drive);
    rt_status status = rt_drive_fingerprint(drive, err);
    if (status == RT_OK)
        status = rt_checkpoint_save(drive->checkpoint_dir, &what, &drive->standing, &drive->fingerprint, err);
    drive->checkpoint_at = rt_clock_wall();
    const struct rt_field fields[] = {RT_INT("update", drive->standing.update),
                                      RT_REAL("seconds", drive->checkpoint_at - start)};
    if (status == RT_OK)
        rt_journal_write(drive->journal, "checkpoint", fields, 2);
    rt_states_enter(&drive->states, RT_STATE_BACKWARD);
    return status;
}

static rt_status load(struct rt_drive *drive, struct rt_standing *standing, const char **rescored,
                      struct rt_error *err) {
    const struct rt_checkpointed what = checkpointed(drive);
    struct rt_error notice;
    rt_status status = rt_checkpoint_load(drive->checkpoint_dir, &what, &drive->fingerprint, standing,
                                          rescored, &notice, err);
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
    rt_trainer_set_update(drive->trainer, standing->update);
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
