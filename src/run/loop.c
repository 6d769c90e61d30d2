/*
 * The loop over updates. Validations, and with them the model that is kept and an early stop, are functions
 * of the update count alone. Reports and checkpoints follow the clock and change neither: a validation that
 * falls due while a learner comes to rest for a checkpoint happens at its own update, where every learner is
 * at rest (see at_rest). What all these take is not counted as training speed.
 */
#include "run/training.h"

#include "base/clock.h"
#include "data/stream.h"
#include "learn/evaluate.h"
#include <math.h>

static void training_count_step(struct rt_training *training, const struct rt_step *step) {
    struct rt_training_state *state = &training->state;
    /* Updates of ring-flow overlap: no second counts twice. */
    const double start = step->start > training->step_end ? step->start : training->step_end;
    const double seconds = step->end - start;
    training->step_end = step->end;
    if ((step->update - 1) % training->per_epoch == 0) {
        state->epoch_loss = 0;
        state->epoch_correct = state->epoch_samples = 0;
    }
    state->update = step->update;
    state->samples += step->rows;
    state->epoch_loss += step->loss;
    state->epoch_correct += step->correct;
    state->epoch_samples += step->rows;
    training->recent.loss += step->loss;
    training->recent.correct += step->correct;
    training->recent.samples += step->rows;
    training->recent.step_seconds += seconds;
}

static void training_journal_first_step(struct rt_training *training, const struct rt_step *step) {
    training->first_step = step->end - training->run->process_start;
    const struct rt_field fields[] = {RT_REAL("since_process_start", training->first_step),
                                      RT_REAL("since_training_start", step->end - training->start)};
    rt_journal_write(training->journal, "first_step", fields, 2);
}

rt_status rt_training_check_loss(const struct rt_training *training, const char *which, uint64_t update,
                                 double loss, struct rt_error *err) {
    if (isfinite(loss))
        return RT_OK;
    rt_fail(err, RT_DIVERGED, "the %s loss is not finite after update %llu", which,
            (unsigned long long)update);
    return rt_training_advise(training, RT_DIVERGED, err);
}

static rt_status training_keep_best_here(struct rt_training *training, struct rt_error *err) {
    RT_TRY(rt_snapshot_take(&training->best, &training->learner.model_state, 1, false, NULL, err));
    training->best_here = training->state.update;
    return RT_OK;
}

static rt_status training_write_best(struct rt_training *training, struct rt_error *err) {
    const bool was_here = training->best_here > 0;
    const rt_status status = rt_modelfile_write(training->best_path, &training->run->trained,
                                                &training->learner.model_state, NULL, err);
    if (status == RT_OK) {
        rt_snapshot_deinit(&training->best);
        training->best_here = 0;
    }
    if (status != RT_IO)
        return status;
    const struct rt_error why = *err;
    RT_TRY(training_keep_best_here(training, err));
    struct rt_error told;
    rt_fail(&told, RT_OK, "the best model so far could not be written (%.400s); it is kept in memory",
            why.text);
    if (!was_here)
        rt_training_warn(training, told.text);
    return RT_OK;
}

static rt_status training_keep_best(struct rt_training *training, struct rt_error *err) {
    return rt_training_advise(training,
                              training->best_path ? training_write_best(training, err)
                                                  : training_keep_best_here(training, err),
                              err);
}

/* Counts what there was of training until then; nothing between then and now was any. */
static void training_count_until(struct rt_training *training, double end) {
    if (training->training_since == 0)
        return;
    training->state.step_seconds += fmax(0, end - training->training_since);
    training->training_since = rt_clock_wall();
}

void rt_training_count_training(struct rt_training *training) {
    training_count_until(training, rt_clock_wall());
}

static rt_status training_begin_training(struct rt_training *training, struct rt_error *err) {
    if (training->training_since > 0)
        return RT_OK;
    rt_status status = training->learner.set_apart(training->learner.self, false, err);
    training->training_since = rt_clock_wall();
    return status;
}

static rt_status training_end_training(struct rt_training *training, struct rt_error *err) {
    if (training->training_since == 0)
        return RT_OK;
    rt_status status = training->learner.set_apart(training->learner.self, true, err);
    rt_training_count_training(training);
    training->training_since = 0;
    return status;
}

/* Scores the network as it is on the validation data; where there are none, on the test data, for the report
 * only: choosing a model by its test score would make that score worthless. */
static rt_status training_score_network(struct rt_training *training, bool last, struct rt_error *err) {
    const struct rt_datasets *datasets = &training->datasets;
    struct rt_run *run = training->run;
    struct rt_score score;
    rt_status status;
    if (datasets->validation.count == 0) {
        status =
            rt_run_score(run, &training->learner.forward, &datasets->test, datasets->target, &run->test, err);
        if (status == RT_OK)
            status =
                rt_training_check_loss(training, "test", training->state.update, run->test.result.loss, err);
        if (status != RT_OK)
            return status;
        training->tested_update = training->state.update;
        score =
            (struct rt_score){run->test.result.examples, run->test.result.loss, run->test.result.accuracy};
    } else {
        status = rt_evaluate(&run->trained.network, &training->learner.forward, &datasets->validation,
                             &run->trained.scaling, datasets->target, &run->stop, NULL, &score, err);
        if (status == RT_OK)
            status = rt_training_check_loss(training, "validation", training->state.update, score.loss, err);
        if (status != RT_OK)
            return status;
        const bool better = score.loss < training->state.best_loss;
        training->state.stale = better ? 0 : training->state.stale + 1;
        if (better) {
            training->state.best_loss = score.loss;
            training->state.best_accuracy = score.accuracy;
            training->state.best_update = training->state.update;
        }
        /* The parameters of the last update are at hand and need no file. */
        if (better && training->spec->train.keep_best && !last) {
            run->trained.update = training->state.update;
            status = training_keep_best(training, err);
        }
    }
    if (!last)
        training->state.validated = training->state.update;
    training->validation_update = training->state.update;
    training->validation_loss = score.loss;
    training->validation_accuracy = score.accuracy;
    if (status == RT_OK)
        rt_training_report(training, &score);
    return status;
}

/* Nothing of it counts as training. */
static rt_status training_validate(struct rt_training *training, bool last, struct rt_error *err) {
    const bool trains = training->training_since > 0 && !last;
    rt_status status = training_end_training(training, err);
    const double start = rt_clock_wall();
    if (status == RT_OK)
        status = training_score_network(training, last, err);
    if (status == RT_OK && trains)
        status = training_begin_training(training, err);
    training->state.validation_seconds += rt_clock_wall() - start;
    return status;
}

static bool training_is_stale(const struct rt_training *training) {
    return training->spec->train.early_stop > 0 &&
           training->state.stale >= (uint64_t)training->spec->train.early_stop;
}

/* A stream that ends is a run that is done, but not where nothing was ever learnt: the sender has failed,
 * most likely, and its silence shall not become a model. */
static rt_status training_end_of_stream(struct rt_training *training, struct rt_error *err) {
    if (training->state.update == 0)
        return rt_fail(err, RT_FAILED, "%.300s ended before the first example",
                       rt_stream_name(training->learner.stream));
    training->updates = training->state.update;
    training_count_until(training, training->step_end);
    return RT_OK;
}

/* The validation that the update calls for, if it has not been made. */
static rt_status training_validate_when_due(struct rt_training *training, struct rt_error *err) {
    const uint64_t update = training->state.update;
    if (!rt_periods_hit(&training->validations, update) || training->state.validated == update)
        return RT_OK;
    if (!training->learner.at_rest(training->learner.self)) /* it has promised to be */
        return rt_fail(err, RT_FAILED, "update %llu is to be validated, but a later one is under way",
                       (unsigned long long)update);
    return training_validate(training, false, err);
}

/* One update, and its validation. */
static rt_status training_step_once(struct rt_training *training, struct rt_step *step,
                                    struct rt_error *err) {
    rt_status status = training_begin_training(training, err);
    if (status == RT_OK)
        status = rt_training_advise(training, training->learner.step(training->learner.self, step, err), err);
    if (status != RT_OK)
        return status;
    if (step->rows == 0)
        return training_end_of_stream(training, err);
    training_count_step(training, step);
    rt_training_note_new_update(training);
    if (isnan(training->first_step))
        training_journal_first_step(training, step);
    return training_validate_when_due(training, err);
}

/* Finishes the updates that have begun, so that the parameters stand still and are those of
 * state.update. */
static rt_status training_come_to_rest(struct rt_training *training, struct rt_error *err) {
    struct rt_step step;
    rt_status status = RT_OK;
    while (status == RT_OK && !training->learner.at_rest(training->learner.self))
        status = training_step_once(training, &step, err);
    return status;
}

/* A checkpoint, if it is time for one, and work on the one that is being written. */
static rt_status training_tend_checkpoint(struct rt_training *training, double now, struct rt_error *err) {
    rt_status status = rt_training_save_tend(training, err);
    const double every = training->spec->train.checkpoint_seconds;
    if (status != RT_OK || training->saving || !training->checkpoint_dir || every <= 0 ||
        now - training->checkpoint_at < every)
        return status;
    status = training_come_to_rest(training, err);
    if (status == RT_OK)
        status = rt_training_save_begin(training, err);
    return status == RT_OK ? rt_training_save_tend(training, err) : status;
}

/* Seconds of training per update since the last replica. */
static double training_update_seconds(const struct rt_training *training) {
    const uint64_t updates = training->state.update - training->replicas.counted_update;
    return (training->state.step_seconds - training->replicas.counted) / (double)(updates ? updates : 1);
}

/* Whether each update begins when the one before is complete. */
static bool training_is_in_step(const struct rt_training *training) {
    const struct rt_exchange_strategy *exchange = rt_strategy_exchange(&training->choice);
    return exchange && !rt_exchange_is_asynchronous(exchange, training->choice.settings);
}

/* Workers that go in step finish what they have begun: those updates take their time anyway, the rest of it
 * is lost. Others stop one after another, half of the time on average. Validations in between do not count.
 */
static rt_status training_tend_replica(struct rt_training *training, struct rt_error *err) {
    if (!rt_training_replica_is_due(training))
        return RT_OK;
    rt_training_count_training(training);
    const struct rt_training_state before = training->state;
    const double usual = training_update_seconds(training);
    RT_TRY(training_come_to_rest(training, err));
    rt_training_count_training(training);
    const double rested = training->state.step_seconds - before.step_seconds;
    const double finished = (double)(training->state.update - before.update) * usual;
    return rt_training_replicate(
        training, training_is_in_step(training) ? fmax(0, rested - finished) : rested / 2, err);
}

/* Another view of the run, where the learner wants one. */
static rt_status training_tend_view(struct rt_training *training, struct rt_error *err) {
    const struct rt_learner *learner = &training->learner;
    struct rt_error why;
    if (!learner->wants_view || training->saving || training->replicas.without_images ||
        !learner->wants_view(learner->self, &why))
        return RT_OK;
    RT_TRY(training_come_to_rest(training, err));
    return rt_training_change_view(training, &why, err);
}

static rt_status training_one_update(struct rt_training *training, struct rt_error *err) {
    struct rt_step step;
    rt_status status = training_step_once(training, &step, err);
    if (status != RT_OK || step.rows == 0)
        return status;
    /* A validation has reported. */
    if (training->validation_update != step.update &&
        step.end - training->recent.start >= training->spec->train.report_seconds)
        rt_training_report(training, NULL);
    RT_TRY(training_tend_replica(training, err));
    RT_TRY(training_tend_view(training, err));
    RT_TRY(training_tend_checkpoint(training, step.end, err));
    return rt_training_make_room(training, err);
}

rt_status rt_training_stopped(const struct rt_training *training, struct rt_error *err) {
    char planned[40] = "";
    if (training->updates < RT_ENDLESS)
        snprintf(planned, sizeof planned, " of %llu", (unsigned long long)training->updates);
    rt_fail(err, RT_INTERRUPTED, "stopped at update %llu%s; ", (unsigned long long)training->state.update,
            planned);
    if (training->out.none)
        return rt_fail_more(err, RT_INTERRUPTED, "with out: none there is no checkpoint of it");
    if (!rt_checkpoint_exists(training->checkpoint_dir))
        return rt_fail_more(err, RT_INTERRUPTED, "there was no checkpoint yet");
    rt_fail_more(err, RT_INTERRUPTED, "%s holds a checkpoint", training->run->out_dir);
    if (training->saved_update != training->state.update)
        rt_fail_more(err, RT_INTERRUPTED, " of update %llu", (unsigned long long)training->saved_update);
    return RT_INTERRUPTED;
}

/* A validation that falls due now, or is under way, is left to the run that resumes this one. */
static rt_status training_stop_here(struct rt_training *training, struct rt_error *err) {
    rt_status status = training_come_to_rest(training, err);
    if (status == RT_OK || (status == RT_INTERRUPTED && training->learner.at_rest(training->learner.self)))
        status = rt_training_save(training, err);
    return status == RT_OK ? rt_training_stopped(training, err) : status;
}

/* The examples of a stream that failed do not come again: what was learnt from them is kept. */
static rt_status training_keep_learnt(struct rt_training *training, rt_status status, struct rt_error *err) {
    const struct rt_error why = *err;
    struct rt_error ignored;
    if (training->out.none || !training->learner.stream ||
        rt_stream_status(training->learner.stream, &ignored) == RT_OK ||
        training->state.update == training->first_update)
        return status;
    if (rt_training_save(training, &ignored) != RT_OK)
        return rt_fail(err, status, "%s", why.text);
    return rt_fail(err, status, "%s; %s holds a checkpoint of the %llu updates before that", why.text,
                   training->run->out_dir, (unsigned long long)training->state.update);
}

/* The updates, and what happens between them. */
static rt_status training_run_updates(struct rt_training *training, struct rt_error *err) {
    /* Of a run that was stopped in the middle of a validation. */
    rt_status status = training_validate_when_due(training, err);
    while (status == RT_OK && training->state.update < training->updates && !training_is_stale(training)) {
        if (atomic_load_explicit(&training->run->stop, memory_order_relaxed))
            return training_stop_here(training, err);
        status = training_one_update(training, err);
        rt_training_tell_journal(training, false);
    }
    if (status == RT_INTERRUPTED)
        return training_stop_here(training, err);
    return status == RT_OK ? RT_OK : training_keep_learnt(training, status, err);
}

/* The model may well find room where the checkpoint did not. */
static rt_status training_save_last(struct rt_training *training, struct rt_error *err) {
    const rt_status status = rt_training_save(training, err);
    if (status == RT_IO)
        rt_training_tell_unwritten(training, err);
    return status == RT_IO ? RT_OK : status;
}

rt_status rt_training_loop(struct rt_training *training, struct rt_error *err) {
    training->checkpoint_at = rt_clock_wall();
    training->replicas.counted = training->state.step_seconds;
    training->replicas.counted_update = training->state.update;
    if (training->loop_start == 0) { /* it is entered again when a device was lost */
        training->loop_start = training->checkpoint_at;
        training->state.setup_seconds += training->loop_start - training->start;
    }
    rt_training_report(training, NULL);
    rt_status status = training_run_updates(training, err);
    /* Saved before the validation that only the end of the run calls for, so that a longer run that continues
     * from here does not know of it. */
    if (status == RT_OK)
        status = training_come_to_rest(training, err);
    /* What the devices did with their time counts up to the last update, not while files are written. */
    if (status == RT_OK)
        status = training_end_training(training, err);
    if (status == RT_OK)
        status = rt_training_watch(training, true, err);
    if (status == RT_OK)
        status = training_save_last(training, err);
    if (status != RT_OK || training->validation_update == training->state.update)
        return status;
    if (training->datasets.validation.count || training->datasets.test.count) {
        status = training_validate(training, true, err);
        return status == RT_INTERRUPTED ? rt_training_stopped(training, err) : status;
    }
    rt_training_report(training, NULL);
    return RT_OK;
}
