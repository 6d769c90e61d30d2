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
#include "run/token.h"

/* The number of updates of a stream, whose end is not known. */
#define RT_ENDLESS UINT64_C(1000000000000000)

struct rt_training {
    struct rt_run *run;
    const struct rt_spec *spec;
    rt_progress_fn progress;
    void *user;

    struct rt_out out;
    bool started;                  /* the directory is in use */
    uint8_t token[RT_TOKEN_BYTES]; /* of the run; has_token: other machines take part, and it is kept */
    bool has_token;
    struct rt_datasets datasets;
    struct rt_optim *optim;
    struct rt_schedule schedule;
    struct rt_strategy_choice choice;
    struct rt_learner learner;      /* self NULL: none yet */
    struct rt_node_report *reports; /* [learner.nodes]: the newest */
    struct rt_metrics_row *before;  /* and what they said when they were looked at last */
    uint64_t saving_update,
        saved_update;                 /* of the checkpoint that is written, and of the newest one; 0: none */
    struct rt_checkpoint_out *saving; /* a checkpoint that is being written; NULL: none */
    struct rt_journal *journal;
    struct { /* files that cannot be written at present, of which the user has been told */
        bool checkpoint, journal;
        double journal_at;        /* when that was last so */
        uint64_t journal_missing; /* lines until it began */
    } unwritten;
    struct rt_keep_awake *awake;       /* while local devices are emulated; NULL: they are not */
    struct rt_fingerprint fingerprint; /* empty until a checkpoint wants it */
    char *checkpoint_dir, *best_path;  /* NULL: no files are written, */
    struct rt_snapshot best;           /* and the best model is kept here, as where its file */
    uint64_t best_here;                /* cannot be written: the update it is from; 0: it is in the file */
    struct rt_error notices[8];        /* until there is a journal to write them to */
    bool warns[8];                     /* which of them are warnings */
    size_t notice_count;

    struct { /* where the run stood at the versions of replicas: the complete one, and that under way */
        struct rt_training_state state[2];
        size_t count;
        uint64_t update;          /* of the newest of them */
        double at;                /* when it was begun */
        double seconds;           /* for which training stands still when one is made, about */
        double counted;           /* state.step_seconds, and */
        uint64_t counted_update;  /* updates, when it was begun, or the view */
        struct rt_snapshot image; /* where the learner has no replicas: the state at one of them, here */
        uint64_t image_update;    /* of that one */
        bool without_images;      /* there is no room for them */
    } replicas;
    struct { /* what all of that has cost: what was made, bytes, and seconds in which the master did nothing
                else */
        uint64_t replicas, replica_bytes, checkpoints, checkpoint_bytes;
        double replica_seconds, checkpoint_seconds;
    } cost;
    struct { /* devices that were lost and done without, and other changes of the view */
        struct rt_recovery {
            char *cause; /* owned */
            bool lost;   /* a device was; else the view was only changed */
            const char *from;
            uint64_t update; /* where it went on, */
            size_t nodes;    /* and on how many */
            uint64_t replayed, bytes;
            uint64_t rows_lost; /* examples of a stream that were learnt from for nothing */
            uint64_t reached;   /* the last update before it */
            double began;       /* rt_clock_wall: when the loss was noticed */
            double seconds;     /* from then to going on, */
            double new_seconds; /* and to the first update that had not been made before; NaN: not yet */
        } * recovery;
        size_t count, losses; /* a device that is lost during a recovery does not begin another one */
        uint64_t rows_lost;   /* by all of them */
    } recoveries;

    uint64_t batch;                      /* examples per update */
    uint64_t updates, epochs, per_epoch; /* planned */
    struct rt_periods validations;       /* the updates after which there is one */
    struct rt_training_state state;
    double start;            /* of this rt_run_train */
    double seconds_before;   /* training time of the runs that this one resumes */
    double validated_before; /* seconds of validations of those */
    uint64_t first_update;   /* updates done when it started, */
    uint64_t first_samples;  /* and examples learnt from */
    uint64_t view_update;    /* updates done when its view began: devices count from there */
    uint64_t rows_not_saved; /* examples of a stream that the run which this one resumes learnt from after its
                                last checkpoint, as far as is known */
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

/* ---- start.c ---- */
/* model.init, where the run file has one: parameters that are not those of the seed. A checkpoint that is
 * damaged gives way to the one before it. */
rt_status rt_training_start_parameters(struct rt_training *training, struct rt_error *err);

/* ---- fingerprint.c ---- */
/* Fills in the fingerprint; once is enough. Reads all the data. */
rt_status rt_training_fingerprint(struct rt_training *training, struct rt_error *err);

/* ---- resume.c ---- */
/* Writes a checkpoint of the training state. RT_DIVERGED, and nothing is written, when the last update went
 * wrong. RT_IO: the file could not be written. */
rt_status rt_training_save(struct rt_training *training, struct rt_error *err);
/* Says so, once, where the run goes on all the same. */
void rt_training_tell_unwritten(struct rt_training *training, const struct rt_error *why);
/* The same beside the training: begin, and between later updates tend to it until it is there. A file that
 * cannot be written is told of, and is no failure. */
rt_status rt_training_save_begin(struct rt_training *training, struct rt_error *err);
rt_status rt_training_save_tend(struct rt_training *training, struct rt_error *err);
/* Waits for it, if there is one. */
rt_status rt_training_save_finish(struct rt_training *training, struct rt_error *err);
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
/* Says when the journal cannot be written, and when it can again. last: nothing will be written any more. */
void rt_training_tell_journal(struct rt_training *training, bool last);
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

/* ---- recover.c ---- */
/* An update has been made: says so if it is the first one since a recovery that is not a repetition. */
void rt_training_note_new_update(struct rt_training *training);

/* ---- loop.c ---- */
/* Trains to the end, an early stop or a stop request (RT_INTERRUPTED). */
rt_status rt_training_loop(struct rt_training *training, struct rt_error *err);
/* Brings state.step_seconds, which goes on while there is training, up to now. */
void rt_training_count_training(struct rt_training *training);
/* RT_DIVERGED when a loss, measured after an update, is not finite. which: "test", ... */
rt_status rt_training_check_loss(const struct rt_training *training, const char *which, uint64_t update,
                                 double loss, struct rt_error *err);
/* The sentence of a run that was stopped, with what checkpoint there is. Returns RT_INTERRUPTED. */
rt_status rt_training_stopped(const struct rt_training *training, struct rt_error *err);

/* ---- finish.c ---- */
/* Takes the best model where there is one, tests it, writes model and summary, fills in the run's result. */
rt_status rt_training_finish(struct rt_training *training, struct rt_error *err);

/* ---- replicate.c: what survives the loss of a device ---- */
/* Whether the state is to be replicated now. */
bool rt_training_replica_is_due(const struct rt_training *training);
/* Begins with that, at rest, and notes where the run stands. Nothing where a loss ends the run. lost:
 * seconds that coming to rest has cost. */
rt_status rt_training_replicate(struct rt_training *training, double lost, struct rt_error *err);
/* For the learner: a replica of the state as it is now has begun. user: the training. */
void rt_training_note_replica(void *user);
/* At rest: waits for a replica where there is no room for more examples of a stream before it is complete. */
rt_status rt_training_make_room(struct rt_training *training, struct rt_error *err);
/* Where the run stood at that version; NULL: it is not one of those. */
const struct rt_training_state *rt_training_replica(const struct rt_training *training, uint64_t version);
/* The image at the master, newer than a checkpoint of that update and sound: the state is set to it.
 * *restored: NULL if there is none, else where the run stood. */
rt_status rt_training_restore_image(struct rt_training *training, uint64_t checkpoint,
                                    const struct rt_training_state **restored, struct rt_error *err);

/* A checkpoint of it, if it is newer than the newest one: where there is no view to take the state from. */
rt_status rt_training_save_image(struct rt_training *training, struct rt_error *err);

/* ---- recover.c: when a device is lost ---- */
bool rt_training_can_recover(const struct rt_training *training, rt_status status);
/* Goes on without it, from the newest replica or else checkpoint; err: how it was lost, or why that is not
 * possible. The loop is to be entered again. */
rt_status rt_training_recover(struct rt_training *training, struct rt_error *err);
/* Ctrl-C where there is no view: a checkpoint of the image where there is one. Returns RT_INTERRUPTED. */
rt_status rt_training_stop_without_view(struct rt_training *training, struct rt_error *err);
/* Goes on in another view, at rest, where the learner wants one. */
rt_status rt_training_change_view(struct rt_training *training, const struct rt_error *why,
                                  struct rt_error *err);

/* ---- summary.c ---- */
rt_status rt_summary_write(const struct rt_training *training, const char *path, struct rt_error *err);

#endif
