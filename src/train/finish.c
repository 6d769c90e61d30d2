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
    if (drive->out.none) {
        trained->update = best;
        return rt_snapshot_give(&drive->best, &drive->learner.numbers, best, err);
    }
    if (rt_modelfile_load(drive->best_path, &drive->learner.numbers, best, &update, &bad) != RT_OK) {
        struct rt_standing standing;
        rt_drive_notice(drive, "the best model cannot be used (%.500s); the last one is kept", bad.text);
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
    run->result_dir = drive->out.none ? NULL : strdup(run->out_dir);
    if (!run->result_dir && !drive->out.none)
        return rt_fail(err, RT_NO_MEMORY, "not enough memory for the result");
    drive->standing.seconds = drive->seconds_before + rt_clock_wall() - drive->start;
    run->result = (struct rt_result){
        .updates = standing->update,
        .samples = standing->samples,
        .seconds = standing->step_seconds,
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

/* Writes the model; without files it stays in memory, where it may have been all the time. */
static rt_status keep_model(struct rt_drive *drive, char hash[65], struct rt_error *err) {
    struct rt_trained *trained = &drive->run->trained;
    const struct rt_numbers *numbers = &drive->learner.numbers;
    char path[PATH_ROOM];
    rt_status status;
    if (drive->out.none) {
        status = trained->network.blocks.params ? rt_numbers_hash(numbers, hash, err)
                                                : rt_snapshot_take(&trained->kept, numbers, hash, err);
    } else {
        status = join(drive->run->out_dir, "model.safetensors", path, err);
        if (status == RT_OK)
            status = rt_modelfile_write(path, trained, numbers, hash, err);
    }
    return rt_drive_advise(drive, status, err);
}

static rt_status write_summary(const struct rt_drive *drive, struct rt_error *err) {
    char path[PATH_ROOM];
    if (drive->out.none)
        return RT_OK;
    rt_status status = join(drive->run->out_dir, "summary.json", path, err);
    return status == RT_OK ? rt_summary_write(drive, path, err) : status;
}

rt_status rt_drive_finish(struct rt_drive *drive, struct rt_error *err) {
    struct rt_run *run = drive->run;
    char hash[65];
    rt_status status = take_best(drive, err);
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
        status = keep_model(drive, hash, err);
    if (status == RT_OK)
        status = fill_result(drive, hash, err);
    if (status == RT_OK)
        status = rt_drive_watch_end(drive, err);
    if (status == RT_OK)
        status = drive->learner.stop(drive->learner.self, err);
    if (status == RT_OK && drive->learner.exchange_counts)
        run->has_exchange = drive->learner.exchange_counts(drive->learner.self, &run->exchange);
    if (status == RT_OK)
        status = write_summary(drive, err);
    if (status != RT_OK)
        run->has_result = false;
    return status;
}
