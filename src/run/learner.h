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

/* Replicas that a run can go back to, the newest first. */
struct rt_versions {
    uint64_t version[2];
    size_t count;
};

/* How a learner goes on. */
struct rt_recovered {
    uint64_t version;  /* the state is that of this replica again; 0: it is that of the seed */
    size_t further;    /* other devices that are lost, */
    char without[120]; /* and which, as part of a sentence */
    char taken[160];   /* who has what the lost device had, likewise; "": nothing to say */
    bool too_few;      /* with RT_LOST: the model does not fit on the devices that are left */
};

/* A stream whose state has gone back: what of it comes again. */
struct rt_rewound {
    uint64_t updates; /* that can be made again of examples that were kept */
    uint64_t
        examples; /* that had arrived before the first of those, or at all, since the stream was opened */
};

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
    /* Of a stream whose examples are kept until a replica has them: updates between two replicas at most; 0:
     * nothing is kept. needs_room: nothing can be learnt before the newest replica is complete, for which
     * replicate_finish waits, at most until the run is to stop. rewind: after recover, when the state is that
     * of the given update. All NULL: there is no stream. */
    uint64_t replica_updates;
    bool (*needs_room)(void *self);
    rt_status (*replicate_finish)(void *self, struct rt_error *err);
    struct rt_rewound (*rewind)(void *self, uint64_t update);
    bool image_on_disk; /* of one with recover and without replicate: images go into a file */

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
    /* Replicas of the model's state, which survive the loss of a device: see recover. NULL: the learner keeps
     * none, and the run keeps an image of the whole state on the master (run/replicate.c).
     * replicate: begins with the state after the last update, at rest, unless it has begun; training goes on
     * meanwhile, and the replica before stays until this one is complete. replicated: the version (updates)
     * of the newest complete replica; 0: none. replica_interval: seconds between two that keep their cost for
     * the other devices and for links within bounds; may be NULL. */
    rt_status (*replicate)(void *self, uint64_t update, struct rt_error *err);
    uint64_t replica_bytes; /* that one of them moves between devices */
    uint64_t (*replicated)(void *self);
    double (*replica_interval)(void *self);
    /* Between two updates: whether another view of the run would be better than this one, and why, as a
     * sentence. Then, after replicate, recover forms it. NULL: never. */
    bool (*wants_view)(void *self, struct rt_error *why);
    /* After RT_LOST, with the device in the training configuration's `lost`: goes on without it. With 0
     * there, at rest: another view is formed, in which all go on with the state of the last replica. known:
     * the replicas that are of use. A learner without replicas returns with the state of the seed.
     * micro_batch stays as it was described; nodes and predictions in *learner are set anew. NULL: the run
     * ends. moved: bytes of state that were moved between devices since then. */
    rt_status (*recover)(void *self, struct rt_learner *learner, const struct rt_versions *known,
                         struct rt_recovered *recovered, struct rt_error *err);
    uint64_t (*moved)(void *self);
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
    const char *program;          /* the ringtmp command, for local nodes; NULL: the one on the PATH */
    struct rt_endpoint *endpoint; /* see rt_run_set_endpoint; NULL: the learner makes one */
    const uint8_t *token; /* of the run, which can be resumed with it (run/token.h); NULL: it cannot */
    const atomic_int *stop;
    size_t *lost; /* set with RT_LOST: the device, see struct rt_membership; may be NULL */
    bool *gone;   /* [devices] the learner keeps here which of them are lost and not back */
    /* A replica of the state after the last update has begun (see replicate), also where a checkpoint or a
     * model is what asked for an image of it. */
    void (*replicating)(void *user);
    void *replicating_user;
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
