/*
 * Checkpoints: what a run needs to go on as if it had never stopped. A checkpoint is one safetensors file in
 * the run's checkpoint directory: parameters and buffers under their names, the optimizer's state under
 * "optimizer.<tensor>.<name>", and in the metadata `state` (JSON: where the run stands, and the settings that
 * determine its result) and `sha256` (over state, names and data). Nothing in it depends on threads,
 * micro-batches or the machine. Random numbers need no state: they are functions of the seed and of where
 * they are used.
 *
 * The generation before is kept: a torn or altered file is refused, and that one used.
 */
#ifndef RT_RUN_CHECKPOINT_H
#define RT_RUN_CHECKPOINT_H

#include "formats/safetensors.h"
#include "learn/model_state.h"

/* Where a run stands. */
struct rt_training_state {
    uint64_t update, samples;
    uint64_t planned;    /* updates until the end; schedules may depend on it */
    double seconds;      /* wall time so far, over resumes */
    double step_seconds; /* of it, training: from the first forward to the last update, without validations */
    double validation_seconds, setup_seconds; /* of it, validations; and what came before the first forward */
    double epoch_loss; /* sums over the examples of the epoch under way, or of the last one */
    uint64_t epoch_correct, epoch_samples;
    double best_loss;     /* by validation; infinite: none yet */
    uint64_t best_update; /* 0: none */
    double best_accuracy; /* of that update; not finite: none */
    uint64_t stale;       /* validations since */
    uint64_t validated;   /* the update of the last validation that was due; 0: none */
};

/* Settings that determine the result, by name: a checkpoint continues only under the same ones. Those that
 * decide how models are scored may change: then the best one so far is not comparable any more. */
enum { RT_MAX_SETTINGS = 24 };
struct rt_fingerprint {
    size_t count;
    struct {
        const char *key; /* static text */
        bool scoring;
        char *value; /* owned */
    } settings[RT_MAX_SETTINGS];
};

/* Takes value over, also on failure; NULL means that memory was short. */
rt_status rt_fingerprint_add(struct rt_fingerprint *fingerprint, const char *key, bool scoring, char *value,
                             struct rt_error *err);
void rt_fingerprint_deinit(struct rt_fingerprint *fingerprint);

/* A checkpoint that is being written: the state may come in while training goes on. That the file cannot be
 * written (a full disk) fails nothing before its end. */
struct rt_checkpoint_out;
rt_status rt_checkpoint_begin(const char *dir, const struct rt_model_state *model_state,
                              const struct rt_training_state *training_state,
                              const struct rt_fingerprint *fingerprint, struct rt_checkpoint_out **out,
                              struct rt_error *err);
bool rt_checkpoint_done(const struct rt_checkpoint_out *out); /* finish would not have to wait */
/* Puts it in place and frees out, also on failure. unwritten: status RT_IO and why the file could not be
 * written, and those before are as they were; else RT_OK. */
rt_status rt_checkpoint_finish(struct rt_checkpoint_out *out, struct rt_error *unwritten,
                               struct rt_error *err);
void rt_checkpoint_abandon(struct rt_checkpoint_out *out); /* it is not written any more; NULL is fine */

/* Gives up the older of two checkpoints, so that there is room for one more; false: there is none to spare.
 */
bool rt_checkpoint_make_room(const char *dir);

/* begin and finish; RT_IO where the file could not be written. */
rt_status rt_checkpoint_save(const char *dir, const struct rt_model_state *model_state,
                             const struct rt_training_state *training_state,
                             const struct rt_fingerprint *fingerprint, struct rt_error *err);

/* notice: set to a sentence when the newest file is damaged or missing and the one before was used, else to
 * "". A file that is there but cannot be read is not damaged: that fails. rescored: a setting for scoring
 * that has changed; NULL: none. */
rt_status rt_checkpoint_load(const char *dir, const struct rt_model_state *model_state,
                             const struct rt_fingerprint *fingerprint,
                             struct rt_training_state *training_state, const char **rescored,
                             struct rt_error *notice, struct rt_error *err);

/* Whether a file's content matches the hash that a checkpoint carries; a file that is none passes. path: for
 * messages. */
rt_status rt_checkpoint_verify(const char *path, const struct rt_tensors *tensors, struct rt_error *err);

/* Whether there is any generation of a checkpoint in dir. */
bool rt_checkpoint_exists(const char *dir);

#endif
