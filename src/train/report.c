/* What a run says while it is under way: the journal, the progress callback, notices. */
#include "train/drive.h"

#include "base/clock.h"
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>

#define COUNT(list) (sizeof(list) / sizeof *(list))

static void tell(struct rt_drive *drive, const char *sentence, bool warns) {
    const struct rt_run *run = drive->run;
    const struct rt_field fields[] = {RT_TEXT("text", sentence)};
    rt_journal_write(drive->journal, "notice", fields, COUNT(fields));
    if (warns && run->warning)
        run->warning(run->warning_user, sentence);
    else if (run->notice)
        run->notice(run->notice_user, sentence);
}

static void tell_in_time(struct rt_drive *drive, const struct rt_error *notice, bool warns) {
    if (drive->started) {
        tell(drive, notice->text, warns);
    } else if (drive->notice_count < COUNT(drive->notices)) {
        drive->warns[drive->notice_count] = warns;
        drive->notices[drive->notice_count++] = *notice;
    }
}

void rt_drive_notice(struct rt_drive *drive, const char *format, ...) {
    struct rt_error notice;
    va_list args;
    va_start(args, format);
    rt_vfail(&notice, RT_OK, format, args);
    va_end(args);
    tell_in_time(drive, &notice, false);
}

void rt_drive_warn(struct rt_drive *drive, const char *sentence) {
    struct rt_error notice;
    rt_fail(&notice, RT_OK, "%s", sentence);
    tell_in_time(drive, &notice, true);
}

void rt_drive_journal_start(struct rt_drive *drive) {
    const struct rt_run_facts *facts = &drive->run->facts;
    char *settings = NULL, *options = rt_strategy_text(&drive->choice, rt_spec_devices(drive->spec));
    rt_tree_json(drive->spec->tree, &settings, NULL);
    const struct rt_field fields[] = {
        RT_TEXT("version", RT_VERSION),
        RT_TEXT("name", facts->name),
        RT_TEXT("strategy", drive->choice.strategy->name),
        RT_TEXT("strategy_options", options),
        RT_TEXT("settings", settings),
        RT_INT("params", facts->params),
        RT_TEXT("kernels", facts->kernels),
        RT_INT("threads", facts->threads),
        RT_INT("batch", facts->batch),
        RT_INT("micro_batch", facts->micro_batch),
        RT_INT("train_examples", facts->train_examples),
        RT_INT("validation_examples", facts->validation_examples),
        RT_INT("test_examples", facts->test_examples),
        RT_INT("updates", drive->updates),
        RT_INT("resumed_update", facts->resumed_update),
        RT_REAL("since_process_start", rt_clock_wall() - drive->run->process_start),
    };
    rt_journal_write(drive->journal, "start", fields, COUNT(fields));
    free(settings);
    free(options);
    for (size_t i = 0; i < drive->notice_count; i++)
        tell(drive, drive->notices[i].text, drive->warns[i]);
}

static uint64_t epoch_of(const struct rt_drive *drive) {
    uint64_t update = drive->standing.update;
    return update ? (update - 1) / drive->per_epoch + 1 : 1;
}

static double seconds_left(const struct rt_drive *drive, double now) {
    const uint64_t done = drive->standing.update - drive->first_update;
    if (drive->standing.update >= drive->updates)
        return 0;
    if (done == 0 || drive->updates >= RT_ENDLESS)
        return (double)NAN;
    return (now - drive->loop_start) / (double)done * (double)(drive->updates - drive->standing.update);
}

static void journal_report(struct rt_drive *drive, const struct rt_progress *progress) {
    const struct rt_field step[] = {
        RT_INT("update", progress->update),      RT_INT("epoch", progress->epoch),
        RT_INT("samples", progress->samples),    RT_REAL("loss", progress->loss),
        RT_REAL("accuracy", progress->accuracy), RT_REAL("samples_per_s", progress->samples_per_s),
        RT_REAL("seconds", progress->seconds),
    };
    if (drive->recent.samples)
        rt_journal_write(drive->journal, "step", step, COUNT(step));
    const struct rt_field validation[] = {
        RT_INT("update", progress->update),
        RT_INT("epoch", progress->epoch),
        RT_TEXT("data", drive->materials.validation.count ? "validation" : "test"),
        RT_REAL("loss", progress->validation_loss),
        RT_REAL("accuracy", progress->validation_accuracy),
        RT_INT("best_update", drive->standing.best_update),
    };
    if (progress->validated)
        rt_journal_write(drive->journal, "validation", validation, COUNT(validation));
}

void rt_drive_report(struct rt_drive *drive, const struct rt_score *validation) {
    const double now = rt_clock_wall(), samples = (double)drive->recent.samples;
    const bool accuracy =
        rt_network_has_accuracy(&drive->run->trained.network, drive->materials.target == RT_TARGET_VALUES);
    const struct rt_progress progress = {
        .update = drive->standing.update,
        .updates = drive->updates >= RT_ENDLESS ? 0 : drive->updates,
        .epoch = epoch_of(drive),
        .epochs = drive->epochs,
        .samples = drive->standing.samples,
        .loss = samples > 0 ? drive->recent.loss / samples : (double)NAN,
        .accuracy = samples > 0 && accuracy ? (double)drive->recent.correct / samples : (double)NAN,
        .samples_per_s = drive->recent.step_seconds > 0 ? samples / drive->recent.step_seconds : (double)NAN,
        .seconds = drive->seconds_before + now - drive->start,
        .seconds_left = seconds_left(drive, now),
        .validated = validation != NULL,
        .validation_loss = validation ? validation->loss : (double)NAN,
        .validation_accuracy = validation ? validation->accuracy : (double)NAN,
    };
    journal_report(drive, &progress);
    rt_drive_watch(drive, false, NULL);
    if (drive->progress)
        drive->progress(drive->user, &progress);
    drive->recent.loss = drive->recent.step_seconds = 0;
    drive->recent.samples = drive->recent.correct = 0;
    drive->recent.start = rt_clock_wall();
}

void rt_drive_journal_end(struct rt_drive *drive, const char *status, const char *reason) {
    const struct rt_field fields[] = {
        RT_TEXT("status", status),
        RT_TEXT("reason", reason),
        RT_INT("update", drive->standing.update),
        RT_INT("samples", drive->standing.samples),
        RT_REAL("seconds", drive->seconds_before + rt_clock_wall() - drive->start),
        RT_REAL("test_loss", drive->run->test.result.examples ? drive->run->test.result.loss : (double)NAN),
        RT_REAL("test_accuracy",
                drive->run->test.result.examples ? drive->run->test.result.accuracy : (double)NAN),
        RT_TEXT("params_sha256", drive->run->has_result ? drive->run->result.params_sha256 : NULL),
    };
    rt_journal_write(drive->journal, "end", fields, COUNT(fields));
}
