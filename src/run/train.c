/* rt_run_train: one training from start to end, and what becomes of the model that the run had before. */
#include "run/training.h"

#include "base/fpenv.h"
#include <stdlib.h>

/* What a run has from its last training. It is set aside while the next one is under way, and comes back when
 * that one does not get to its end. */
struct outcome {
    struct rt_trained trained;
    struct rt_names labels;
    struct rt_owned_evaluation test;
    struct rt_result result;
    char *result_dir;
    bool has_result;
};

static struct outcome train_take_outcome(struct rt_run *run) {
    const struct outcome outcome = {run->trained, run->labels,     run->test,
                                    run->result,  run->result_dir, run->has_result};
    run->trained = (struct rt_trained){0};
    run->labels = (struct rt_names){0};
    run->test = (struct rt_owned_evaluation){0};
    run->result_dir = NULL;
    run->has_result = false;
    return outcome;
}

static void train_put_back(struct rt_run *run, const struct outcome *outcome) {
    run->trained = outcome->trained;
    run->labels = outcome->labels;
    run->test = outcome->test;
    run->result = outcome->result;
    run->result_dir = outcome->result_dir;
    run->has_result = outcome->has_result;
}

static void train_drop(struct outcome *outcome) {
    rt_trained_deinit(&outcome->trained);
    rt_names_deinit(&outcome->labels);
    rt_owned_evaluation_deinit(&outcome->test);
    free(outcome->result_dir);
}

static rt_status train_train(struct rt_training *training, struct rt_error *err) {
    if (training->spec->cluster.slowdown)
        training->awake = rt_keep_awake_start();
    rt_status status;
    do {
        status = rt_training_loop(training, err);
        if (status == RT_OK)
            status = rt_training_finish(training, err);
    } while (rt_training_can_recover(training, status) &&
             (status = rt_training_recover(training, err)) == RT_OK);
    if (status == RT_LOST && training->learner.recover && atomic_load(&training->run->stop))
        status = rt_training_stop_without_view(training, err);
    rt_training_journal_end(training,
                            status == RT_OK            ? "done"
                            : status == RT_INTERRUPTED ? "interrupted"
                                                       : "failed",
                            status == RT_OK ? NULL : err->text);
    if (status == RT_OK && training->checkpoint_dir) /* nothing is left to be resumed */
        rt_token_remove(training->checkpoint_dir);
    rt_training_tell_journal(training, true);
    return status;
}

static rt_status train_run(struct rt_run *run, rt_progress_fn progress, void *user, struct rt_error *err) {
    if (!run->spec)
        return rt_fail(err, RT_BAD_INPUT,
                       "a loaded model cannot be trained; name it as model.init in a run file");
    rt_status status = rt_run_settle(run, err);
    if (status != RT_OK) {
        atomic_store(&run->stop, 0);
        return status;
    }
    struct rt_error own = {.text = ""};
    struct rt_training training;
    struct outcome before = train_take_outcome(run);
    status = rt_training_open(run, &training, &own);
    training.progress = progress;
    training.user = user;
    if (status == RT_OK)
        status = train_train(&training, &own);
    rt_training_close(&training);
    if (status == RT_OK) {
        train_drop(&before);
        /* It was about the old model, and points at its names. */
        rt_owned_evaluation_deinit(&run->evaluation);
    } else {
        /* What a run that did not finish has in memory is no trained model. */
        struct outcome unfinished = train_take_outcome(run);
        train_drop(&unfinished);
        train_put_back(run, &before);
        rt_fail(err, status, "%s", own.text);
    }
    atomic_store(&run->stop, 0);
    return status;
}

rt_status rt_run_train(struct rt_run *run, rt_progress_fn progress, void *user, struct rt_error *err) {
    fenv_t theirs;
    rt_status status = rt_run_need(__func__, "run", run, err);
    if (status != RT_OK)
        return status;
    rt_fp_enter(&theirs);
    status = train_run(run, progress, user, err);
    rt_fp_leave(&theirs);
    return status;
}
