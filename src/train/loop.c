/*
 * The loop over updates. Between two updates it looks at the clock and at the stop request; reports,
 * validations and checkpoints happen there. What they take is not counted as training speed.
 */
#include "train/drive.h"

#include "base/clock.h"
#include "data/stream.h"
#include "train/evaluate.h"
#include <math.h>

static void count_step(struct rt_drive *drive, const struct rt_step *step) {
    struct rt_standing *standing = &drive->standing;
    /* Updates of ring-flow overlap: no second counts twice. */
    const double start = step->start > drive->step_end ? step->start : drive->step_end;
    const double seconds = step->end - start;
    drive->step_end = step->end;
    if ((step->update - 1) % drive->per_epoch == 0) {
        standing->epoch_loss = 0;
        standing->epoch_correct = standing->epoch_samples = 0;
    }
    standing->update = step->update;
    standing->samples += step->rows;
    standing->step_seconds += seconds;
    standing->epoch_loss += step->loss;
    standing->epoch_correct += step->correct;
    standing->epoch_samples += step->rows;
    drive->recent.loss += step->loss;
    drive->recent.correct += step->correct;
    drive->recent.samples += step->rows;
    drive->recent.step_seconds += seconds;
}

static void journal_first_step(struct rt_drive *drive, const struct rt_step *step) {
    drive->first_step = step->end - drive->run->process_start;
    const struct rt_field fields[] = {RT_REAL("since_process_start", drive->first_step),
                                      RT_REAL("since_training_start", step->end - drive->start)};
    rt_journal_write(drive->journal, "first_step", fields, 2);
}

rt_status rt_drive_check_loss(const struct rt_drive *drive, const char *which, uint64_t update, double loss,
                              struct rt_error *err) {
    if (isfinite(loss))
        return RT_OK;
    struct rt_error own;
    rt_fail(&own, RT_FAILED, "the %s loss is not finite after update %llu", which,
            (unsigned long long)update);
    rt_drive_diverged(drive, &own);
    return rt_fail(err, RT_FAILED, "%s", own.text);
}

static rt_status write_best(struct rt_drive *drive, struct rt_error *err) {
    struct rt_error own;
    rt_status status =
        rt_modelfile_write(drive->best_path, &drive->run->trained, &drive->learner.numbers, NULL, &own);
    if (status == RT_FAILED)
        rt_drive_diverged(drive, &own);
    return status == RT_OK ? RT_OK : rt_fail(err, status, "%s", own.text);
}

/* Scores the network as it is on the validation data; where there are none, on the test data, for the report
 * only: choosing a model by its test score would make that score worthless. */
static rt_status validate(struct rt_drive *drive, bool last, struct rt_error *err) {
    const struct rt_materials *materials = &drive->materials;
    struct rt_run *run = drive->run;
    struct rt_score score;
    rt_states_enter(&drive->states, RT_STATE_FORWARD);
    rt_status status;
    if (materials->validation.count == 0) {
        status =
            rt_run_score(run, &drive->learner.forward, &materials->test, materials->target, &run->test, err);
        if (status == RT_OK)
            status = rt_drive_check_loss(drive, "test", drive->standing.update, run->test.result.loss, err);
        if (status != RT_OK)
            return status;
        drive->tested_update = drive->standing.update;
        score =
            (struct rt_score){run->test.result.examples, run->test.result.loss, run->test.result.accuracy};
    } else {
        status = rt_evaluate(&run->trained.network, &drive->learner.forward, &materials->validation,
                             &run->trained.scaling, materials->target, &run->stop, NULL, &score, err);
        if (status == RT_OK)
            status = rt_drive_check_loss(drive, "validation", drive->standing.update, score.loss, err);
        if (status != RT_OK)
            return status;
        const bool better = score.loss < drive->standing.best_loss;
        drive->standing.stale = better ? 0 : drive->standing.stale + 1;
        if (better) {
            drive->standing.best_loss = score.loss;
            drive->standing.best_accuracy = score.accuracy;
            drive->standing.best_update = drive->standing.update;
        }
        /* The parameters of the last update are at hand and need no file. */
        if (better && drive->spec->train.keep_best && !last) {
            rt_states_enter(&drive->states, RT_STATE_ENCODE);
            run->trained.update = drive->standing.update;
            status = write_best(drive, err);
        }
    }
    rt_states_enter(&drive->states, RT_STATE_BACKWARD);
    if (!last)
        drive->standing.validated = drive->standing.update;
    drive->validation_update = drive->standing.update;
    drive->validation_loss = score.loss;
    drive->validation_accuracy = score.accuracy;
    if (status == RT_OK)
        rt_drive_report(drive, &score);
    return status;
}

static bool is_time_to_validate(const struct rt_drive *drive) {
    const struct rt_spec_train *train = &drive->spec->train;
    const uint64_t update = drive->standing.update;
    if (drive->materials.validation.count == 0 && drive->materials.test.count == 0)
        return false;
    if (train->validate_updates > 0 && update % (uint64_t)train->validate_updates == 0)
        return true;
    return train->validate_epochs > 0 && update % (drive->per_epoch * (uint64_t)train->validate_epochs) == 0;
}

static bool is_stale(const struct rt_drive *drive) {
    return drive->spec->train.early_stop > 0 &&
           drive->standing.stale >= (uint64_t)drive->spec->train.early_stop;
}

/* A stream that ends is a run that is done, but not where nothing was ever learnt: the sender has failed,
 * most likely, and its silence shall not become a model. */
static rt_status end_of_stream(struct rt_drive *drive, struct rt_error *err) {
    if (drive->standing.update == 0)
        return rt_fail(err, RT_FAILED, "%.300s ended before the first example",
                       rt_stream_name(drive->learner.stream));
    drive->updates = drive->standing.update;
    return RT_OK;
}

static rt_status step_once(struct rt_drive *drive, struct rt_step *step, struct rt_error *err) {
    struct rt_error own;
    rt_status status = drive->learner.step(drive->learner.self, step, &own);
    if (status == RT_FAILED)
        rt_drive_diverged(drive, &own);
    if (status != RT_OK)
        return rt_fail(err, status, "%s", own.text);
    if (step->rows == 0)
        return end_of_stream(drive, err);
    count_step(drive, step);
    drive->validation_due |= is_time_to_validate(drive);
    if (isnan(drive->first_step))
        journal_first_step(drive, step);
    return RT_OK;
}

/* Finishes the updates that have begun, so that the parameters stand still and are those of
 * standing.update. */
static rt_status come_to_rest(struct rt_drive *drive, struct rt_error *err) {
    struct rt_step step;
    rt_status status = RT_OK;
    while (status == RT_OK && !drive->learner.at_rest(drive->learner.self))
        status = step_once(drive, &step, err);
    return status;
}

/* A checkpoint, if it is time for one, and work on the one that is being written. */
static rt_status tend_checkpoint(struct rt_drive *drive, double now, struct rt_error *err) {
    rt_status status = rt_drive_save_tend(drive, err);
    const double every = drive->spec->train.checkpoint_seconds;
    if (status != RT_OK || drive->saving || every <= 0 || now - drive->checkpoint_at < every)
        return status;
    status = come_to_rest(drive, err);
    if (status == RT_OK)
        status = rt_drive_save_begin(drive, err);
    return status == RT_OK ? rt_drive_save_tend(drive, err) : status;
}

static rt_status one_update(struct rt_drive *drive, bool *validated, struct rt_error *err) {
    struct rt_step step;
    rt_status status = step_once(drive, &step, err);
    if (status != RT_OK || step.rows == 0)
        return status;
    /* Also where the update that calls for it was one of those that were finished for a checkpoint. */
    *validated = drive->validation_due;
    if (*validated) {
        status = come_to_rest(drive, err);
        drive->validation_due = false;
        if (status == RT_OK)
            status = validate(drive, false, err);
    } else if (step.end - drive->recent.start >= drive->spec->train.report_seconds) {
        rt_drive_report(drive, NULL);
    }
    return status == RT_OK ? tend_checkpoint(drive, step.end, err) : status;
}

rt_status rt_drive_stopped(const struct rt_drive *drive, struct rt_error *err) {
    char planned[40] = "";
    if (drive->updates < RT_ENDLESS)
        snprintf(planned, sizeof planned, " of %llu", (unsigned long long)drive->updates);
    return rt_fail(err, RT_INTERRUPTED, "stopped at update %llu%s; %s holds a checkpoint",
                   (unsigned long long)drive->standing.update, planned, drive->run->out_dir);
}

static rt_status stop_here(struct rt_drive *drive, struct rt_error *err) {
    rt_status status = come_to_rest(drive, err);
    if (status == RT_OK)
        status = rt_drive_save(drive, err);
    return status == RT_OK ? rt_drive_stopped(drive, err) : status;
}

/* The examples of a stream that failed do not come again: what was learnt from them is kept. */
static rt_status keep_learnt(struct rt_drive *drive, rt_status status, struct rt_error *err) {
    const struct rt_error why = *err;
    struct rt_error ignored;
    if (!drive->learner.stream || rt_stream_status(drive->learner.stream, &ignored) == RT_OK ||
        drive->standing.update == drive->first_update)
        return status;
    if (rt_drive_save(drive, &ignored) != RT_OK)
        return rt_fail(err, status, "%s", why.text);
    return rt_fail(err, status, "%s; %s holds a checkpoint of the %llu updates before that", why.text,
                   drive->run->out_dir, (unsigned long long)drive->standing.update);
}

/* The updates, and what happens between them. */
static rt_status run_updates(struct rt_drive *drive, bool *validated, struct rt_error *err) {
    rt_status status = RT_OK;
    /* A run that was stopped in the middle of a validation owes it. */
    if (drive->standing.update && is_time_to_validate(drive) &&
        drive->standing.validated != drive->standing.update) {
        *validated = true;
        status = validate(drive, false, err);
    }
    while (status == RT_OK && drive->standing.update < drive->updates && !is_stale(drive)) {
        if (atomic_load_explicit(&drive->run->stop, memory_order_relaxed))
            return stop_here(drive, err);
        status = one_update(drive, validated, err);
        if (status == RT_OK)
            status = rt_journal_status(drive->journal, err);
    }
    if (status == RT_INTERRUPTED)
        return stop_here(drive, err);
    return status == RT_OK ? RT_OK : keep_learnt(drive, status, err);
}

rt_status rt_drive_loop(struct rt_drive *drive, struct rt_error *err) {
    bool validated = false;
    rt_states_start(&drive->states, RT_STATE_BACKWARD);
    drive->loop_start = drive->checkpoint_at = rt_clock_wall();
    rt_drive_report(drive, NULL);
    rt_status status = run_updates(drive, &validated, err);
    /* Saved before the validation that only the end of the run calls for, so that a longer run that continues
     * from here does not know of it. */
    if (status == RT_OK)
        status = come_to_rest(drive, err);
    /* What the devices did with their time counts up to the last update, not while files are written. */
    rt_states_stop(&drive->states);
    drive->spent = drive->states;
    if (status == RT_OK)
        status = rt_drive_watch(drive, true, err);
    if (status == RT_OK)
        status = rt_drive_save(drive, err);
    if (status != RT_OK || validated)
        return status;
    if (drive->materials.validation.count || drive->materials.test.count) {
        status = validate(drive, true, err);
        return status == RT_INTERRUPTED ? rt_drive_stopped(drive, err) : status;
    }
    rt_drive_report(drive, NULL);
    return RT_OK;
}
