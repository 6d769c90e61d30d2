/*
 * The loop over updates. Validations, and with them the model that is kept and an early stop, are functions
 * of the update count alone. Reports and checkpoints follow the clock and change neither: a validation that
 * falls due while a learner comes to rest for a checkpoint happens at its own update, where every learner is
 * at rest (see at_rest). What all these take is not counted as training speed.
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
    rt_fail(err, RT_DIVERGED, "the %s loss is not finite after update %llu", which,
            (unsigned long long)update);
    return rt_drive_advise(drive, RT_DIVERGED, err);
}

static rt_status keep_best(struct rt_drive *drive, struct rt_error *err) {
    const struct rt_numbers *numbers = &drive->learner.numbers;
    return rt_drive_advise(
        drive,
        drive->best_path ? rt_modelfile_write(drive->best_path, &drive->run->trained, numbers, NULL, err)
                         : rt_snapshot_take(&drive->best, numbers, NULL, err),
        err);
}

/* Counts what there was of training until then; nothing between then and now was any. */
static void count_until(struct rt_drive *drive, double end) {
    if (drive->training_since == 0)
        return;
    drive->standing.step_seconds += fmax(0, end - drive->training_since);
    drive->training_since = rt_clock_wall();
}

void rt_drive_count_training(struct rt_drive *drive) {
    count_until(drive, rt_clock_wall());
}

static rt_status begin_training(struct rt_drive *drive, struct rt_error *err) {
    if (drive->training_since > 0)
        return RT_OK;
    rt_status status = drive->learner.set_apart(drive->learner.self, false, err);
    drive->training_since = rt_clock_wall();
    return status;
}

static rt_status end_training(struct rt_drive *drive, struct rt_error *err) {
    if (drive->training_since == 0)
        return RT_OK;
    rt_status status = drive->learner.set_apart(drive->learner.self, true, err);
    rt_drive_count_training(drive);
    drive->training_since = 0;
    return status;
}

/* Scores the network as it is on the validation data; where there are none, on the test data, for the report
 * only: choosing a model by its test score would make that score worthless. */
static rt_status score_network(struct rt_drive *drive, bool last, struct rt_error *err) {
    const struct rt_materials *materials = &drive->materials;
    struct rt_run *run = drive->run;
    struct rt_score score;
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
            run->trained.update = drive->standing.update;
            status = keep_best(drive, err);
        }
    }
    if (!last)
        drive->standing.validated = drive->standing.update;
    drive->validation_update = drive->standing.update;
    drive->validation_loss = score.loss;
    drive->validation_accuracy = score.accuracy;
    if (status == RT_OK)
        rt_drive_report(drive, &score);
    return status;
}

/* Nothing of it counts as training. */
static rt_status validate(struct rt_drive *drive, bool last, struct rt_error *err) {
    const bool trains = drive->training_since > 0 && !last;
    rt_status status = end_training(drive, err);
    const double start = rt_clock_wall();
    if (status == RT_OK)
        status = score_network(drive, last, err);
    if (status == RT_OK && trains)
        status = begin_training(drive, err);
    drive->standing.validation_seconds += rt_clock_wall() - start;
    return status;
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
    count_until(drive, drive->step_end);
    return RT_OK;
}

/* The validation that the update calls for, if it has not been made. */
static rt_status validate_when_due(struct rt_drive *drive, struct rt_error *err) {
    const uint64_t update = drive->standing.update;
    if (!rt_periods_hit(&drive->validations, update) || drive->standing.validated == update)
        return RT_OK;
    if (!drive->learner.at_rest(drive->learner.self)) /* it has promised to be */
        return rt_fail(err, RT_FAILED, "update %llu is to be validated, but a later one is under way",
                       (unsigned long long)update);
    return validate(drive, false, err);
}

/* One update, and its validation. */
static rt_status step_once(struct rt_drive *drive, struct rt_step *step, struct rt_error *err) {
    rt_status status = begin_training(drive, err);
    if (status == RT_OK)
        status = rt_drive_advise(drive, drive->learner.step(drive->learner.self, step, err), err);
    if (status != RT_OK)
        return status;
    if (step->rows == 0)
        return end_of_stream(drive, err);
    count_step(drive, step);
    if (isnan(drive->first_step))
        journal_first_step(drive, step);
    return validate_when_due(drive, err);
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
    if (status != RT_OK || drive->saving || !drive->checkpoint_dir || every <= 0 ||
        now - drive->checkpoint_at < every)
        return status;
    status = come_to_rest(drive, err);
    if (status == RT_OK)
        status = rt_drive_save_begin(drive, err);
    return status == RT_OK ? rt_drive_save_tend(drive, err) : status;
}

static rt_status one_update(struct rt_drive *drive, struct rt_error *err) {
    struct rt_step step;
    rt_status status = step_once(drive, &step, err);
    if (status != RT_OK || step.rows == 0)
        return status;
    /* A validation has reported. */
    if (drive->validation_update != step.update &&
        step.end - drive->recent.start >= drive->spec->train.report_seconds)
        rt_drive_report(drive, NULL);
    return tend_checkpoint(drive, step.end, err);
}

rt_status rt_drive_stopped(const struct rt_drive *drive, struct rt_error *err) {
    char planned[40] = "";
    if (drive->updates < RT_ENDLESS)
        snprintf(planned, sizeof planned, " of %llu", (unsigned long long)drive->updates);
    rt_fail(err, RT_INTERRUPTED, "stopped at update %llu%s; ", (unsigned long long)drive->standing.update,
            planned);
    if (drive->out.none)
        return rt_fail_more(err, RT_INTERRUPTED, "with out: none there is no checkpoint of it");
    return rt_fail_more(err, RT_INTERRUPTED, "%s holds a checkpoint", drive->run->out_dir);
}

/* A validation that falls due now, or is under way, is left to the run that resumes this one. */
static rt_status stop_here(struct rt_drive *drive, struct rt_error *err) {
    rt_status status = come_to_rest(drive, err);
    if (status == RT_OK || (status == RT_INTERRUPTED && drive->learner.at_rest(drive->learner.self)))
        status = rt_drive_save(drive, err);
    return status == RT_OK ? rt_drive_stopped(drive, err) : status;
}

/* The examples of a stream that failed do not come again: what was learnt from them is kept. */
static rt_status keep_learnt(struct rt_drive *drive, rt_status status, struct rt_error *err) {
    const struct rt_error why = *err;
    struct rt_error ignored;
    if (drive->out.none || !drive->learner.stream ||
        rt_stream_status(drive->learner.stream, &ignored) == RT_OK ||
        drive->standing.update == drive->first_update)
        return status;
    if (rt_drive_save(drive, &ignored) != RT_OK)
        return rt_fail(err, status, "%s", why.text);
    return rt_fail(err, status, "%s; %s holds a checkpoint of the %llu updates before that", why.text,
                   drive->run->out_dir, (unsigned long long)drive->standing.update);
}

/* The updates, and what happens between them. */
static rt_status run_updates(struct rt_drive *drive, struct rt_error *err) {
    /* Of a run that was stopped in the middle of a validation. */
    rt_status status = validate_when_due(drive, err);
    while (status == RT_OK && drive->standing.update < drive->updates && !is_stale(drive)) {
        if (atomic_load_explicit(&drive->run->stop, memory_order_relaxed))
            return stop_here(drive, err);
        status = one_update(drive, err);
        if (status == RT_OK)
            status = rt_journal_status(drive->journal, err);
    }
    if (status == RT_INTERRUPTED)
        return stop_here(drive, err);
    return status == RT_OK ? RT_OK : keep_learnt(drive, status, err);
}

rt_status rt_drive_loop(struct rt_drive *drive, struct rt_error *err) {
    drive->loop_start = drive->checkpoint_at = rt_clock_wall();
    drive->standing.setup_seconds += drive->loop_start - drive->start;
    rt_drive_report(drive, NULL);
    rt_status status = run_updates(drive, err);
    /* Saved before the validation that only the end of the run calls for, so that a longer run that continues
     * from here does not know of it. */
    if (status == RT_OK)
        status = come_to_rest(drive, err);
    /* What the devices did with their time counts up to the last update, not while files are written. */
    if (status == RT_OK)
        status = end_training(drive, err);
    if (status == RT_OK)
        status = rt_drive_watch(drive, true, err);
    if (status == RT_OK)
        status = rt_drive_save(drive, err);
    if (status != RT_OK || drive->validation_update == drive->standing.update)
        return status;
    if (drive->materials.validation.count || drive->materials.test.count) {
        status = validate(drive, true, err);
        return status == RT_INTERRUPTED ? rt_drive_stopped(drive, err) : status;
    }
    rt_drive_report(drive, NULL);
    return RT_OK;
}
