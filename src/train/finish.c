/* The end of a run: the model to keep, its test, the files it leaves. */
#include "train/drive.h"

#include "base/clock.h"
#include <math.h>
#include <string.h>

enum { PATH_ROOM = 4096 };

static rt_status join(const char *dir, const char *file, char path[PATH_ROOM], struct rt_error *err) {
    if (snprintf(path, PATH_ROOM, "%s/%s", dir, file) >= PATH_ROOM)
        return rt_fail(err, RT_BAD_INPUT, "%s: the path is too long", dir);
    return RT_OK;
}

/* Puts the best parameters into the network, unless they are the last ones. */
static rt_status take_best(struct rt_drive *drive, struct rt_error *err) {
    struct rt_trained *trained = &drive->run->trained;
    const uint64_t best = drive->standing.best_update;
    trained->update = drive->standing.update;
    if (!drive->spec->train.keep_best || best == 0 || best == drive->standing.update)
        return RT_OK;
    uint64_t update;
    struct rt_error bad;
    if (rt_modelfile_load(drive->best_path, &drive->learner.numbers, best, &update, &bad) != RT_OK) {
        struct rt_standing standing;
        rt_drive_notice(drive, "the best model cannot be used (%.300s); the last one is kept", bad.text);
        rt_status status = rt_drive_restore(drive, &standing, err);
        if (status == RT_OK)
            trained->update = standing.update;
        return status;
    }
    /* A run that was cut short after a resume may find the best model of the longer run here. */
    if (update != best)
        rt_drive_notice(drive, "the best model is from update %llu, not from update %llu as the run knows%s",
                        (unsigned long long)update, (unsigned long long)best,
                        update > drive->standing.update ? ": a longer run wrote it; it is kept all the same"
                                                        : "; it is kept all the same");
    trained->update = update;
    return RT_OK;
}

static rt_status fill_result(struct rt_drive *drive, const char hash[65], struct rt_error *err) {
    struct rt_run *run = drive->run;
    const struct rt_standing *standing = &drive->standing;
    const struct rt_evaluation *test = rt_run_test(run);
    run->result_dir = strdup(run->out_dir);
    if (!run->result_dir)
        return rt_fail(err, RT_NO_MEMORY, "not enough memory for the result");
    drive->standing.seconds = drive->seconds_before + rt_clock_wall() - drive->start;
    run->result = (struct rt_result){
        .updates = standing->update,
        .samples = standing->samples,
        .seconds = standing->seconds,
        .samples_per_s =
            standing->step_seconds > 0 ? (double)standing->samples / standing->step_seconds : (double)NAN,
        .train_loss =
            standing->epoch_samples ? standing->epoch_loss / (double)standing->epoch_samples : (double)NAN,
        .test_loss = test ? test->loss : (double)NAN,
        .test_accuracy = test ? test->accuracy : (double)NAN,
        .params = run->facts.params,
        .out_dir = run->result_dir,
    };
    memcpy(run->result.params_sha256, hash, sizeof run->result.params_sha256);
    run->has_result = true;
    return RT_OK;
}

rt_status rt_drive_finish(struct rt_drive *drive, struct rt_error *err) {
    struct rt_run *run = drive->run;
    char model[PATH_ROOM], summary[PATH_ROOM], hash[65];
    rt_status status = join(run->out_dir, "model.safetensors", model, err);
    if (status == RT_OK)
        status = join(run->out_dir, "summary.json", summary, err);
    if (status == RT_OK)
        status = take_best(drive, err);
    if (status == RT_OK && drive->materials.test.count && drive->tested_update != run->trained.update) {
        status = rt_run_score(run, &drive->learner.forward, &drive->materials.test, drive->materials.target,
                              &run->test, err);
        if (status == RT_OK)
            status = rt_drive_check_loss(drive, "test", run->trained.update, run->test.result.loss, err);
    }
    /* The last moment at which a stop counts: the checkpoint of the last update is there, and a resumed run
     * tests and writes the model. */
    if (status == RT_INTERRUPTED || (status == RT_OK && atomic_load(&run->stop)))
        return rt_drive_stopped(drive, err);
    if (status == RT_OK)
        status = rt_modelfile_write(model, &run->trained, &drive->learner.numbers, hash, err);
    if (status == RT_OK)
        status = fill_result(drive, hash, err);
    if (status == RT_OK)
        status = rt_drive_watch_end(drive, err);
    if (status == RT_OK)
        status = drive->learner.stop(drive->learner.self, err);
    if (status == RT_OK && drive->learner.exchange_counts)
        run->has_exchange = drive->learner.exchange_counts(drive->learner.self, &run->exchange);
    if (status == RT_OK)
        status = rt_summary_write(drive, summary, err);
    if (status != RT_OK)
        run->has_result = false;
    return status;
}
