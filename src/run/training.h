/* A training run under way: shared by the files that set it up, loop, report and finish. */
#ifndef RT_RUN_TRAINING_H
#define RT_RUN_TRAINING_H

#include "learn/datasets.h"
#include "metrics/journal.h"
#include "metrics/keep_awake.h"
#include "run/checkpoint.h"
#include "run/learner.h"
#include "run/outdir.h"
#include "run/run_inside.h"
#include "run/strategy.h"

/* The number of updates of a stream, whose end is not known. */
#define RT_ENDLESS UINT64_C(1000000000000000)

struct rt_training {
    struct rt_run *run;
    const struct rt_spec *spec;
    rt_progress_fn progress;
    void *user;

    struct rt_out out;
    bool started; /* the directory is in use */
    struct rt_datasets datasets;
    struct rt_optim *optim;
    struct rt_schedule schedule;
    struct rt_strategy_choice choice;
    struct rt_learner learner;      /* self NULL: none yet */
    struct rt_node_report *reports; /* [learner.nodes]: the newest */
    struct rt_metrics_row *before;  /* and what they said when they were looked at last */
    uint64_t saving_update;
    struct rt_checkpoint_out *saving; /* a checkpoint that is being written; NULL: none */
    struct rt_journal *journal;
    struct rt_keep_awake *awake;       /* while local devices are emulated; NULL: they are not */
    struct rt_fingerprint fingerprint; /* empty until a checkpoint wants it */
    char *checkpoint_dir, *best_path;  /* NULL: no files are written, */
    struct rt_snapshot best;           /* and the best model is kept here */
    struct rt_error notices[8];        /* until there is a journal to write them to */
    bool warns[8];                     /* which of them are warnings */
    size_t notice_count;

    struct { /* devices that were lost and done without */
        size_t count;
        double seconds;    /* from each loss to going on */
        uint64_t replayed; /* updates */
    } recoveries;

    uint64_t batch;                      /* examples per update */
    uint64_t updates, epochs, per_epoch; /* planned */
    struct rt_periods validations;       /* the updates after which there is one */
    struct rt_training_state state;
    double start;            /* of this rt_run_train */
    double seconds_before;   /* training time of the runs that this one resumes */
    double validated_before; /* seconds of validations of those */
    uint64_t first_update;   /* updates done when it started */
    uint64_t tested_update;  /* the update whose parameters run->test is about; UINT64_MAX: none */
    double first_step;       /* seconds from the start of the process to the end of the first update; NaN */
    double checkpoint_at, loop_start;
    double training_since; /* this has been counted up to; 0: what happens now is no training */
    double step_end;       /* of the last update */
    double validation_loss, validation_accuracy; /* the last; NaN */
    uint64_t validation_update;                  /* of the last; UINT64_MAX: none */

    struct { /* since the last report */
        double start, loss, step_seconds;
        uint64_t samples, correct;
    } recent;
};

/* ---- setup.c ---- */
rt_status rt_training_open(struct rt_run *run, struct rt_training *training,
                           struct rt_error *err); /* close also on failure */
void rt_training_close(struct rt_training *training);
/* printf into memory, to be freed; NULL when there is none. */
RT_PRINTF(1, 2) char *rt_training_text(const char *format, ...);

/* model.init, where the run file has one: parameters that are not those of the seed. */
rt_status rt_training_start_parameters(struct rt_training *training, struct rt_error *err);

/* ---- fingerprint.c ---- */
/* Fills in the fingerprint; once is enough. Reads all the data. */
rt_status rt_training_fingerprint(struct rt_training *training, struct rt_error *err);

/* ---- resume.c ---- */
/* Writes a checkpoint of the training state. RT_DIVERGED, and nothing is written, when the last update went
 * wrong.
 */
rt_status rt_training_save(struct rt_training *training, struct rt_error *err);
/* The same beside the training: begin, and between later updates tend to it until it is there. */
rt_status rt_training_save_begin(struct rt_training *training, struct rt_error *err);
rt_status rt_training_save_tend(struct rt_training *training, struct rt_error *err);
/* Takes parameters and optimizer state back from the last checkpoint; the training's own state stays. state:
 * where the run stood then. */
rt_status rt_training_restore(struct rt_training *training, struct rt_training_state *state,
                              struct rt_error *err);
/* Goes on where the last checkpoint stands. */
rt_status rt_training_resume(struct rt_training *training, struct rt_error *err);
/* RT_DIVERGED: adds to the sentence about a number that is not finite what can be done about it. Returns
 * status. */
rt_status rt_training_advise(const struct rt_training *training, rt_status status, struct rt_error *err);

/* ---- report.c ---- */
/* Kept until there is a journal. */
RT_PRINTF(2, 3) void rt_training_notice(struct rt_training *training, const char *format, ...);
/* The same, for what is told also where nothing else is. */
void rt_training_warn(struct rt_training *training, const char *sentence);
void rt_training_journal_start(struct rt_training *training);
/* Tells the journal and the progress callback where the run stands; begins a new interval. */
void rt_training_report(struct rt_training *training, const struct rt_score *validation);
void rt_training_journal_end(struct rt_training *training, const char *status, const char *reason);

/* ---- nodes.c ---- */
/* Where several devices take part: takes their newest reports into the run's views and the journal. last:
 * waits for new ones, and the views are about the whole run. */
rt_status rt_training_watch(struct rt_training *training, bool last, struct rt_error *err);
/* After the model has been written: the most memory that each device has taken; on one device also its time.
 */
rt_status rt_training_watch_end(struct rt_training *training, struct rt_error *err);

/* ---- loop.c ---- */
/* Trains to the end, an early stop or a stop request (RT_INTERRUPTED). */
rt_status rt_training_loop(struct rt_training *training, struct rt_error *err);
/* Brings state.step_seconds, which goes on while there is training, up to now. */
void rt_training_count_training(struct rt_training *training);
/* RT_DIVERGED when a loss, measured after an update, is not finite. which: "test", ... */
rt_status rt_training_check_loss(const struct rt_training *training, const char *which, uint64_t update,
                                 double loss, struct rt_error *err);
/* The sentence of a run that was stopped. Returns RT_INTERRUPTED. */
rt_status rt_training_stopped(const struct rt_training *training, struct rt_error *err);

/* ---- finish.c ---- */
/* Takes the best model where there is one, tests it, writes model and summary, fills in the run's result. */
rt_status rt_training_finish(struct rt_training *training, struct rt_error *err);

/* ---- recover.c: when a device is lost ---- */
bool rt_training_can_recover(const struct rt_training *training, rt_status status);
/* Goes on without it, where the last checkpoint stands; err: how it was lost, or why that is not possible.
 * The loop is to be entered again. */
rt_status rt_training_recover(struct rt_training *training, struct rt_error *err);

/* ---- summary.c ---- */
rt_status rt_summary_write(const struct rt_training *training, const char *path, struct rt_error *err);

#endif
