/* The end of a run: the model to keep, its test, the files it leaves. */
#include "run/training.h"

#include "base/clock.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PATH_ROOM = 4096 };

static rt_status training_join(const char *dir, const char *file, char path[PATH_ROOM],
                               struct rt_error *err) {
    if (snprintf(path, PATH_ROOM, "%s/%s", dir, file) >= PATH_ROOM)
        return rt_fail(err, RT_BAD_INPUT, "%s: the path is too long", dir);
    return RT_OK;
}

/* Puts the best parameters into the network, unless they are the last ones. */
static rt_status training_take_best(struct rt_training *training, struct rt_error *err) {
    struct rt_trained *trained = &training->run->trained;
    const uint64_t best = training->state.best_update;
    trained->update = training->state.update;
    if (!training->spec->train.keep_best || best == 0 || best == training->state.update)
        return RT_OK;
    uint64_t update;
    struct rt_error bad;
    if (training->out.none || training->best_here == best) {
        trained->update = best;
        return rt_snapshot_give(&training->best, &training->learner.model_state, best, err);
    }
    if (rt_modelfile_load(training->best_path, &training->learner.model_state, best, &update, &bad) !=
        RT_OK) {
        struct rt_training_state state;
        if (bad.status != RT_BAD_INPUT) /* it is not the file's fault */
            return rt_fail(err, bad.status, "%s", bad.text);
        rt_training_notice(training, "the best model cannot be used (%.500s); the last one is kept",
                           bad.text);
        rt_status status = rt_training_restore(training, &state, err);
        if (status == RT_OK)
            trained->update = state.update;
        return status;
    }
    /* A run that was cut short after a resume may find the best model of the longer run here. */
    if (update != best)
        rt_training_notice(
            training, "the best model is from update %llu, not from update %llu as the run knows%s",
            (unsigned long long)update, (unsigned long long)best,
            update > training->state.update ? ": a longer run wrote it; it is kept all the same"
                                            : "; it is kept all the same");
    trained->update = update;
    return RT_OK;
}

static rt_status training_fill_result(struct rt_training *training, const char hash[65],
                                      struct rt_error *err) {
    struct rt_run *run = training->run;
    const struct rt_training_state *state = &training->state;
    const struct rt_evaluation *test = rt_run_test(run);
    free(run->result_dir); /* of an end that a lost device has undone */
    run->result_dir = training->out.none ? NULL : strdup(run->out_dir);
    if (!run->result_dir && !training->out.none)
        return rt_fail(err, RT_NO_MEMORY, "not enough memory for the result");
    training->state.seconds = training->seconds_before + rt_clock_wall() - training->start;
    run->result = (struct rt_result){
        .updates = state->update,
        .samples = state->samples,
        .seconds = state->step_seconds,
        .samples_per_s = state->step_seconds > 0 ? (double)state->samples / state->step_seconds : (double)NAN,
        .train_loss = state->epoch_samples ? state->epoch_loss / (double)state->epoch_samples : (double)NAN,
        .test_loss = test ? test->loss : (double)NAN,
        .test_accuracy = test ? test->accuracy : (double)NAN,
        .params = run->facts.params,
        .out_dir = run->result_dir,
    };
    memcpy(run->result.params_sha256, hash, sizeof run->result.params_sha256);
    run->has_result = true;
    return RT_OK;
}

/* Where there is no room, the older of two checkpoints gives way: the newer one has the state of the end. */
static rt_status training_write_model(struct rt_training *training, const char *path, char hash[65],
                                      struct rt_error *err) {
    const struct rt_trained *trained = &training->run->trained;
    const struct rt_model_state *model_state = &training->learner.model_state;
    const rt_status status = rt_modelfile_write(path, trained, model_state, hash, err);
    if (status != RT_IO || training->saved_update != training->state.update ||
        !rt_checkpoint_make_room(training->checkpoint_dir))
        return status;
    return rt_modelfile_write(path, trained, model_state, hash, err);
}

/* Writes the model; without files it stays in memory, where it may have been all the time. */
static rt_status training_keep_model(struct rt_training *training, char hash[65], struct rt_error *err) {
    struct rt_trained *trained = &training->run->trained;
    const struct rt_model_state *model_state = &training->learner.model_state;
    char path[PATH_ROOM];
    rt_status status;
    if (training->out.none) {
        status = trained->network.blocks.params
                     ? rt_model_state_hash(model_state, hash, err)
                     : rt_snapshot_take(&trained->kept, model_state, 1, false, hash, err);
    } else {
        status = training_join(training->run->out_dir, "model.safetensors", path, err);
        if (status == RT_OK)
            status = training_write_model(training, path, hash, err);
    }
    return rt_training_advise(training, status, err);
}

static rt_status training_write_summary(const struct rt_training *training, struct rt_error *err) {
    char path[PATH_ROOM];
    if (training->out.none)
        return RT_OK;
    rt_status status = training_join(training->run->out_dir, "summary.json", path, err);
    return status == RT_OK ? rt_summary_write(training, path, err) : status;
}

/* The nodes are let go. The model is complete: that one of them is lost from here on changes no result. */
static rt_status training_part(struct rt_training *training, struct rt_error *err) {
    rt_status status = rt_training_watch_end(training, err);
    if (status == RT_OK)
        status = training->learner.stop(training->learner.self, err);
    if (status != RT_LOST && status != RT_FAILED)
        return status;
    struct rt_error told;
    rt_fail(&told, RT_OK, "%.400s; the model was complete by then", err->text);
    rt_training_warn(training, told.text);
    training->run->lost = 0;
    return RT_OK;
}

rt_status rt_training_finish(struct rt_training *training, struct rt_error *err) {
    struct rt_run *run = training->run;
    char hash[65];
    rt_status status = training_take_best(training, err);
    if (status == RT_OK && training->datasets.test.count && training->tested_update != run->trained.update) {
        status = rt_run_score(run, &training->learner.forward, &training->datasets.test,
                              training->datasets.target, &run->test, err);
        if (status == RT_OK)
            status =
                rt_training_check_loss(training, "test", run->trained.update, run->test.result.loss, err);
    }
    /* The last moment at which a stop counts: the checkpoint of the last update is there, and a resumed run
     * tests and writes the model. */
    if (status == RT_INTERRUPTED || (status == RT_OK && atomic_load(&run->stop)))
        return rt_training_stopped(training, err);
    if (status == RT_OK)
        status = training_keep_model(training, hash, err);
    if (status == RT_OK)
        status = training_fill_result(training, hash, err);
    if (status == RT_OK)
        status = training_part(training, err);
    if (status == RT_OK && training->learner.exchange_counts)
        run->has_exchange = training->learner.exchange_counts(training->learner.self, &run->exchange);
    if (status == RT_OK)
        status = training_write_summary(training, err);
    if (status != RT_OK)
        run->has_result = false;
    return status;
}
