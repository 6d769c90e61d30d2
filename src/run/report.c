/* What a run says while it is under way: the journal, the progress callback, notices. */
#include "run/training.h"

#include "base/clock.h"
#include "base/sentence.h"
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>

#define COUNT(list) (sizeof(list) / sizeof *(list))

static void report_tell(struct rt_training *training, const char *sentence, bool warns) {
    const struct rt_run *run = training->run;
    const struct rt_field fields[] = {RT_TEXT("text", sentence)};
    rt_journal_write(training->journal, "notice", fields, COUNT(fields));
    if (warns && run->warning)
        run->warning(run->warning_user, sentence);
    else if (run->notice)
        run->notice(run->notice_user, sentence);
}

static void report_tell_in_time(struct rt_training *training, const struct rt_error *notice, bool warns) {
    if (training->started) {
        report_tell(training, notice->text, warns);
    } else if (training->notice_count < COUNT(training->notices)) {
        training->warns[training->notice_count] = warns;
        training->notices[training->notice_count++] = *notice;
    }
}

void rt_training_notice(struct rt_training *training, const char *format, ...) {
    struct rt_error notice;
    va_list args;
    va_start(args, format);
    rt_vfail(&notice, RT_OK, format, args);
    va_end(args);
    report_tell_in_time(training, &notice, false);
}

void rt_training_warn(struct rt_training *training, const char *sentence) {
    struct rt_error notice;
    rt_fail(&notice, RT_OK, "%s", sentence);
    report_tell_in_time(training, &notice, true);
}

void rt_training_journal_start(struct rt_training *training) {
    const struct rt_run_facts *facts = &training->run->facts;
    char *settings = NULL, *options = rt_strategy_text(&training->choice, rt_spec_devices(training->spec));
    rt_tree_json(training->spec->tree, &settings, NULL);
    const struct rt_field fields[] = {
        RT_TEXT("version", RT_VERSION),
        RT_TEXT("name", facts->name),
        RT_TEXT("strategy", training->choice.strategy->name),
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
        RT_INT("updates", training->updates),
        RT_INT("resumed_update", facts->resumed_update),
        RT_REAL("since_process_start", rt_clock_wall() - training->run->process_start),
    };
    rt_journal_write(training->journal, "start", fields, COUNT(fields));
    free(settings);
    free(options);
    for (size_t i = 0; i < training->notice_count; i++)
        report_tell(training, training->notices[i].text, training->warns[i]);
}

static void report_journal_fails(struct rt_training *training, const struct rt_error *why) {
    struct rt_error told;
    training->unwritten.journal_at = rt_clock_wall();
    if (training->unwritten.journal)
        return;
    training->unwritten.journal = true;
    training->unwritten.journal_missing = rt_journal_missing(training->journal) - 1;
    rt_fail(&told, RT_OK, "%.400s; the run goes on, and the lines are missing", why->text);
    rt_training_warn(training, told.text);
}

/* A short line may fit where a long one does not: it has to be so for a while. */
static const double journal_settles = 1;

void rt_training_tell_journal(struct rt_training *training, bool last) {
    struct rt_error why;
    if (rt_journal_status(training->journal, &why) != RT_OK) {
        report_journal_fails(training, &why);
    } else if (training->unwritten.journal &&
               (last || rt_clock_wall() > training->unwritten.journal_at + journal_settles)) {
        training->unwritten.journal = false;
        rt_fail(
            &why, RT_OK, "journal.jsonl can be written again; %s",
            RT_COUNTED(rt_journal_missing(training->journal) - training->unwritten.journal_missing, "line"));
        rt_fail_more(&why, RT_OK, " missing");
        rt_training_warn(training, why.text);
    }
}

static uint64_t report_epoch_of(const struct rt_training *training) {
    uint64_t update = training->state.update;
    return update ? (update - 1) / training->per_epoch + 1 : 1;
}

static double report_seconds_left(const struct rt_training *training, double now) {
    const uint64_t done = training->state.update - training->first_update;
    if (training->state.update >= training->updates)
        return 0;
    if (done == 0 || training->updates >= RT_ENDLESS)
        return (double)NAN;
    return (now - training->loop_start) / (double)done * (double)(training->updates - training->state.update);
}

static void report_journal_report(struct rt_training *training, const struct rt_progress *progress) {
    const struct rt_field step[] = {
        RT_INT("update", progress->update),      RT_INT("epoch", progress->epoch),
        RT_INT("samples", progress->samples),    RT_REAL("loss", progress->loss),
        RT_REAL("accuracy", progress->accuracy), RT_REAL("samples_per_s", progress->samples_per_s),
        RT_REAL("seconds", progress->seconds),
    };
    if (training->recent.samples)
        rt_journal_write(training->journal, "step", step, COUNT(step));
    const struct rt_field validation[] = {
        RT_INT("update", progress->update),
        RT_INT("epoch", progress->epoch),
        RT_TEXT("data", training->datasets.validation.count ? "validation" : "test"),
        RT_REAL("loss", progress->validation_loss),
        RT_REAL("accuracy", progress->validation_accuracy),
        RT_INT("best_update", training->state.best_update),
    };
    if (progress->validated)
        rt_journal_write(training->journal, "validation", validation, COUNT(validation));
}

void rt_training_report(struct rt_training *training, const struct rt_score *validation) {
    const double now = rt_clock_wall(), samples = (double)training->recent.samples;
    const bool accuracy = rt_network_has_accuracy(&training->run->trained.network,
                                                  training->datasets.target == RT_TARGET_VALUES);
    const struct rt_progress progress = {
        .update = training->state.update,
        .updates = training->updates >= RT_ENDLESS ? 0 : training->updates,
        .epoch = report_epoch_of(training),
        .epochs = training->epochs,
        .samples = training->state.samples,
        .loss = samples > 0 ? training->recent.loss / samples : (double)NAN,
        .accuracy = samples > 0 && accuracy ? (double)training->recent.correct / samples : (double)NAN,
        .samples_per_s =
            training->recent.step_seconds > 0 ? samples / training->recent.step_seconds : (double)NAN,
        .seconds = training->seconds_before + now - training->start,
        .seconds_left = report_seconds_left(training, now),
        .validated = validation != NULL,
        .validation_loss = validation ? validation->loss : (double)NAN,
        .validation_accuracy = validation ? validation->accuracy : (double)NAN,
    };
    report_journal_report(training, &progress);
    rt_training_watch(training, false, NULL);
    if (training->progress)
        training->progress(training->user, &progress);
    training->recent.loss = training->recent.step_seconds = 0;
    training->recent.samples = training->recent.correct = 0;
    training->recent.start = rt_clock_wall();
}

void rt_training_journal_end(struct rt_training *training, const char *status, const char *reason) {
    const struct rt_field fields[] = {
        RT_TEXT("status", status),
        RT_TEXT("reason", reason),
        RT_INT("update", training->state.update),
        RT_INT("samples", training->state.samples),
        RT_REAL("seconds", training->seconds_before + rt_clock_wall() - training->start),
        RT_REAL("test_loss",
                training->run->test.result.examples ? training->run->test.result.loss : (double)NAN),
        RT_REAL("test_accuracy",
                training->run->test.result.examples ? training->run->test.result.accuracy : (double)NAN),
        RT_TEXT("params_sha256", training->run->has_result ? training->run->result.params_sha256 : NULL),
    };
    rt_journal_write(training->journal, "end", fields, COUNT(fields));
}
