/* A training run under way on one device: shared by the files that set it up, loop, report and finish. */
#ifndef RT_TRAIN_DRIVE_H
#define RT_TRAIN_DRIVE_H

#include "metrics/journal.h"
#include "train/checkpoint.h"
#include "train/materials.h"
#include "train/state.h"
#include "train/step.h"

struct rt_drive {
    struct rt_run *run;
    const struct rt_spec *spec;
    rt_progress_fn progress;
    void *user;

    struct rt_materials materials;
    struct rt_optim *optim;
    struct rt_schedule schedule;
    struct rt_trainer *trainer;
    struct rt_journal *journal;
    struct rt_fingerprint fingerprint; /* empty until a checkpoint wants it */
    char *checkpoint_dir, *best_path;

    uint64_t updates, epochs, per_epoch; /* planned */
    struct rt_standing standing;
    struct rt_states states;
    double cpu_start;       /* of the process */
    double start;           /* of this rt_run_train */
    double seconds_before;  /* training time of the runs that this one resumes */
    uint64_t first_update;  /* updates done when it started */
    uint64_t tested_update; /* the update whose parameters run->test is about; UINT64_MAX: none */
    double first_step;      /* seconds from the start of the process to the end of the first update; NaN */
    double checkpoint_at, loop_start;
    double validation_loss, validation_accuracy; /* the last; NaN */

    struct { /* since the last report */
        double start, loss, step_seconds;
        uint64_t samples, correct;
    } recent;
};

/* ---- setup.c ---- */
rt_status rt_drive_open(struct rt_run *run, struct rt_drive *drive,
                        struct rt_error *err); /* close also on failure */
void rt_drive_close(struct rt_drive *drive);
/* Writes a checkpoint of the standing. */
rt_status rt_drive_save(struct rt_drive *drive, struct rt_error *err);

/* Takes parameters and optimizer state back from the last checkpoint; the standing stays. */
rt_status rt_drive_restore(struct rt_drive *drive, struct rt_error *err);

/* ---- report.c ---- */
void rt_drive_notice(struct rt_drive *drive, const char *sentence);
void rt_drive_journal_start(struct rt_drive *drive);
/* Tells the journal and the progress callback where the run stands; begins a new interval. */
void rt_drive_report(struct rt_drive *drive, const struct rt_score *validation);
void rt_drive_journal_end(struct rt_drive *drive, const char *status, const char *reason);

/* ---- loop.c ---- */
/* Trains to the end, an early stop or a stop request (RT_INTERRUPTED). */
rt_status rt_drive_loop(struct rt_drive *drive, struct rt_error *err);

/* ---- finish.c ---- */
/* Takes the best model where there is one, tests it, writes model and summary, fills in the run's result. */
rt_status rt_drive_finish(struct rt_drive *drive, struct rt_error *err);

/* ---- summary.c ---- */
rt_status rt_summary_write(const struct rt_drive *drive, const char *path, struct rt_error *err);

#endif
