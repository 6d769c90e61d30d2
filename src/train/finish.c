/* The end of a run: the model to keep, its test, the files it leaves. And rt_run_train, which holds it
 * together. */
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
    if (rt_modelfile_params(drive->best_path, &trained->network, &update, &bad) != RT_OK) {
        char text[sizeof bad.text + 100];
        snprintf(text, sizeof text, "the best model cannot be used (%s); the last one is kept", bad.text);
        rt_drive_notice(drive, text);
        return rt_drive_restore(drive, err);
    }
    /* A run that was cut short after a resume may find the best model of the longer run here. */
    if (update != best)
        rt_drive_notice(
            drive, "the best model is from a later update than this run reached; it is kept all the same");
    trained->update = update;
    return RT_OK;
}

static rt_status fill_result(struct rt_drive *drive, struct rt_error *err) {
    struct rt_run *run = drive->run;
    const struct rt_standing *standing = &drive->standing;
    const struct rt_evaluation *test = rt_run_test(run);
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
        .out_dir = run->out_dir,
    };
    rt_status status = rt_network_hash(&run->trained.network, run->result.params_sha256, err);
    run->has_result = status == RT_OK;
    return status;
}

rt_status rt_drive_finish(struct rt_drive *drive, struct rt_error *err) {
    struct rt_run *run = drive->run;
    char model[PATH_ROOM], summary[PATH_ROOM];
    rt_status status = join(run->out_dir, "model.safetensors", model, err);
    if (status == RT_OK)
        status = join(run->out_dir, "summary.json", summary, err);
    if (status == RT_OK)
        status = take_best(drive, err);
    if (status == RT_OK && drive->materials.test.count && drive->tested_update != run->trained.update) {
        rt_states_enter(&drive->states, RT_STATE_FORWARD);
        status = rt_run_score(run, &drive->materials.test, drive->materials.target, &run->test, err);
    }
    rt_states_enter(&drive->states, RT_STATE_ENCODE);
    if (status == RT_OK)
        status = rt_modelfile_write(model, &run->trained, err);
    if (status == RT_OK)
        status = fill_result(drive, err);
    rt_states_stop(&drive->states);
    if (status == RT_OK)
        status = rt_summary_write(drive, summary, err);
    if (status != RT_OK)
        run->has_result = false;
    return status;
}

rt_status rt_run_train(struct rt_run *run, rt_progress_fn progress, void *user, struct rt_error *err) {
    if (!run->spec)
        return rt_fail(err, RT_BAD_INPUT,
                       "a loaded model cannot be trained; name it as model.init in a run file");
    struct rt_error own = {.text = ""};
    struct rt_drive drive;
    rt_status status = rt_drive_open(run, &drive, &own);
    drive.progress = progress;
    drive.user = user;
    if (status == RT_OK) {
        status = rt_drive_loop(&drive, &own);
        if (status == RT_OK)
            status = rt_drive_finish(&drive, &own);
        rt_drive_journal_end(&drive,
                             status == RT_OK            ? "done"
                             : status == RT_INTERRUPTED ? "interrupted"
                                                        : "failed",
                             status == RT_OK ? NULL : own.text);
        if (status == RT_OK)
            status = rt_journal_status(drive.journal, &own);
    }
    rt_drive_close(&drive);
    /* What a run that did not finish has in memory is no trained model. */
    if (status != RT_OK) {
        rt_trained_deinit(&run->trained);
        rt_names_deinit(&run->labels);
        rt_owned_evaluation_deinit(&run->test);
        run->has_result = false;
        rt_fail(err, status, "%s", own.text);
    }
    atomic_store(&run->stop, 0);
    return status;
}
