/*
 * A learner trains the model: on one device, a ring, an exchange, or rings joined by an exchange. The loop
 * over updates, reports, validations, checkpoints and the end of a run are the same for all; what differs is
 * behind this.
 */
#ifndef RT_RUN_LEARNER_H
#define RT_RUN_LEARNER_H

#include "base/periods.h"
#include "formats/runfile.h"
#include "learn/datasets.h"
#include "learn/evaluate.h"
#include "learn/model_state.h"
#include "learn/step.h"
#include "run/run.h"
#include "wire/message.h"

/* What a node of the run did, for the summary. */
struct rt_node_report {
    const char *role;    /* "single", "master", "worker" */
    const char *name;    /* of the device; owned by the learner */
    const char *address; /* likewise; NULL or "": it is on this machine, or all there is */
    size_t first, count; /* its layers; count 0: none */
    size_t tail;         /* layers at the end of the network that it holds as well */
    struct rt_metrics_row row;
    double predicted_idle;     /* fraction; NaN: no prediction */
    uint64_t predicted_memory; /* bytes; 0: no prediction */
};

struct rt_progressive;
struct rt_stream;
struct rt_exchange_strategy;

struct rt_learner {
    void *self;
    struct rt_model_state model_state;
    struct rt_forward forward;
    size_t micro_batch; /* as used */
    size_t nodes;
    double predicted_samples_per_s; /* NaN: no prediction */
    bool predicted_at_most;         /* it can only be slower */
    struct rt_states
        *clock; /* of one device: what its thread does between updates is booked on it; else NULL */
    char *plan; /* the plan (which node holds which layers), as lines to print; freed by the caller; NULL:
                   none */

    /* Of a stream, else NULL. */
    const struct rt_progressive *progressive;
    struct rt_stream *stream;

    /* One update; see rt_trainer_step. rows 0: the stream has ended, and nothing was done. */
    rt_status (*step)(void *self, struct rt_step *step, struct rt_error *err);
    /* Whether every update that has begun has been returned by a step. If not, steps finish them, and begin
     * no others until it has been true. Only then may model_state and forward be used. It is always true
     * after an update that the training configuration's rests name: none after it begins before. */
    bool (*at_rest)(void *self);
    /* What comes now is no training but a validation, or is training again. The last update is complete here
     * when it returns. At rest. */
    rt_status (*set_apart)(void *self, bool is_apart, struct rt_error *err);
    /* What each node has done so far: reports[nodes]. Waits for the answers unless recent is true; then those
     * that came last are given, and *fresh tells whether there are any. */
    rt_status (*report)(void *self, bool recent, struct rt_node_report *reports, bool *fresh,
                        struct rt_error *err);
    /* Of an exchange with servers; false: it has none. NULL: it is none. Also after stop. */
    bool (*exchange_counts)(void *self, struct rt_exchange_counts *counts);
    /* After RT_LOST, with the device in the training configuration's `lost`: goes on without it, with
     * parameters from the seed. micro_batch stays; nodes and predictions in *this are set anew. NULL: the
     * run ends. */
    rt_status (*recover)(void *self, struct rt_learner *learner, struct rt_error *err);
    /* The end in good order, after the last use of anything else. */
    rt_status (*stop)(void *self, struct rt_error *err);
    void (*destroy)(void *self);
};

/* What a learner is made for; borrowed until it is destroyed. */
struct rt_training_config {
    const struct rt_spec *spec;
    struct rt_network *network; /* described; a learner on this device takes the memory itself */
    const struct rt_dataset *set;
    const struct rt_scaling *scaling;
    enum rt_target target;
    const struct rt_optim *optim;
    const struct rt_schedule *schedule;
    struct rt_trainer_settings settings;
    uint64_t per_epoch;
    struct rt_periods rests; /* updates after which a learner must be at rest: see at_rest */
    const char *strategy;    /* its name */
    const void *options;     /* of the strategy */
    const struct rt_exchange_strategy *exchange; /* of an exchange; else NULL */
    const char *program; /* the ringtmp command, for local nodes; NULL: the one on the PATH */
    const atomic_int *stop;
    size_t *lost; /* set with RT_LOST: the device, see struct rt_membership; may be NULL */
    /* One sentence for people. */
    void (*notice)(void *user, const char *sentence);
    void (*warn)(void *user, const char *sentence); /* shown even when other notices are not */
    void *notice_user;
    /* The same, but told before the run has begun: a node does not answer. May be NULL. */
    void (*waits)(void *user, const char *sentence);
    void *waits_user;
};

/* Parameters start from the seed. */
rt_status rt_learner_local(const struct rt_training_config *config, struct rt_learner *learner,
                           struct rt_error *err);
rt_status rt_learner_ring(const struct rt_training_config *config, struct rt_learner *learner,
                          struct rt_error *err);
rt_status rt_learner_exchange(const struct rt_training_config *config, struct rt_learner *learner,
                              struct rt_error *err);
rt_status rt_learner_hybrid(const struct rt_training_config *config, struct rt_learner *learner,
                            struct rt_error *err);
/* Batches of an epoch that are learnt from, of so many: ps-cut leaves some out. options: rt_exchange_options.
 */
uint64_t rt_exchange_per_epoch(const void *options, uint64_t batches);

#endif
