/*
 * The job: what a node is told about its part of a run. There is one description for every learner, with
 * sections for what a learner needs: how a ring works, how gradients are exchanged, which data a node opens
 * itself. The master makes it from the run file (run/job_write.h); it travels as a tree, and one option table
 * names its keys, checks them and writes them, so that a node checks a job as strictly as a run file is
 * checked. Of the exchange only the names are known here: exchange/section.h reads that section.
 */
#ifndef RT_JOB_JOB_H
#define RT_JOB_JOB_H

#include "base/option.h"
#include "base/slices.h"
#include "formats/runfile.h"
#include "nn/loss.h"
#include "optim/optim.h"
#include "optim/schedule.h"
#include "tensor/device.h"

/* The learner that the job is for, which determines the role of the node. */
enum rt_job_learner {
    RT_JOB_RING,     /* the node is a stage of one ring */
    RT_JOB_EXCHANGE, /* it has the whole model, as a worker, or a part of it, as a server */
    RT_JOB_HYBRID,   /* it is a stage of one of several rings, with an exchange between equal positions */
};

/* Seconds for which a node waits for its master to form another view. */
enum { RT_JOB_KEEP = 60 };
/* Seconds for which a peer may be silent at least, where the run goes on without it: 4 heartbeats. */
#define RT_JOB_SILENCE_LEAST 1.0

enum rt_ring_mode {
    RT_RING_EXACT, /* `ring`: the parameters of an update never change under it */
    RT_RING_FLOW,  /* `ring-flow`: an update per micro-batch, never drained; versions are stashed */
};

enum rt_ring_order {
    RT_RING_SPLIT, /* backward in two parts: weight gradients fill the time that would be waited */
    RT_RING_1F1B,  /* backward in one piece */
};

/* How a ring works: for the learners ring and hybrid. */
struct rt_job_ring {
    int mode;            /* enum rt_ring_mode */
    int order;           /* enum rt_ring_order */
    int64_t damp;        /* ring-flow: the rate of a stale gradient is divided by (1 + staleness) ^ damp */
    int64_t part, parts; /* which part of each batch is this ring's, of how many; of a hybrid every node
                            derives its own (run/hybrid/position.h) */
    /* Rings side by side, each at its own pace: parameters come from servers (ring/inter_ring.h), which apply
     * the updates, and this ring does some of the updates. */
    bool with_servers;
    int replica;         /* enum rt_replica_place: where a node keeps the replica of the node before */
    double replica_rate; /* bytes per second at which each is sent; 0: no limit */
};

/* How gradients are exchanged, between workers or between rings: for the learners exchange and hybrid. */
struct rt_job_exchange {
    const char *strategy;
    const struct rt_tree *options;     /* of the strategy; NULL: the defaults */
    double latency, bandwidth, adding; /* of the slowest link: see struct rt_link_cost */
    /* How many of a batch's slices each worker has, a list; NULL: equal parts. And read: which these are,
     * [workers]; owned. */
    const struct rt_tree *shares;
    struct rt_slice_run *runs;
    size_t workers;
};

/* What a node needs that opens its own training data: for the learners exchange and hybrid. */
struct rt_job_data {
    const char *directory;         /* of the run file: where a node on the master's machine looks */
    const char *fingerprint;       /* of the master's training data: see rt_datasets_fingerprint */
    int64_t examples;              /* in them */
    bool drop_last;                /* see struct rt_spec_train */
    const struct rt_tree *options; /* the run file's data section, without what a node decides itself */
    struct rt_spec_data set;       /* that, read; of a job that is being written it is not used */
};

/* input, layers, loss, batch and learner must be given; for an exchange and a hybrid also updates, per_epoch,
 * and the sections exchange and data. */
struct rt_job {
    struct rt_tree *tree; /* owned: what travels; the rest borrows from it or is made from it */
    int learner;          /* enum rt_job_learner */

    /* The model and how it is trained. */
    const struct rt_tree *input, *layers;
    struct rt_shape in; /* input, read */
    const char *loss;
    int64_t seed, batch;
    int64_t micro_batch; /* at most batch; -1: not chosen yet; ring-flow: batch */
    int64_t shards;      /* of the whole batch: a power of two */
    int64_t all_slices;  /* derived from shards: as many as parts if parts do not divide shards */
    int64_t updates, per_epoch;
    double clip_norm;
    double weight_decay; /* -1: the rule's; what the optimizer says itself wins */
    const struct rt_tree *optimizer, *schedule;
    int math;           /* enum rt_math */
    bool evaluate_only; /* no backward will be asked for */
    double silence;     /* seconds without a heartbeat after which a peer is gone, at most */
    double timeout;     /* seconds in which a peer must make progress when it owes something */
    double keep;        /* seconds for which a node waits for another view when this one is over, */
    double wait_master; /* and for its master when that is gone */

    int64_t rings; /* side by side, of a hybrid; else 1 */
    struct rt_job_ring ring;
    struct rt_job_exchange exchange;
    struct rt_job_data data;

    struct rt_optim *optim; /* made from the above */
    struct rt_schedule lr_schedule;
};

/* Decodes: takes ownership of tree, also on failure. Everything is checked except the layers, which
 * rt_model_create reads, and the options of the exchange, which rt_exchange_section_read does. */
rt_status rt_job_create(struct rt_tree *tree, struct rt_job **job, struct rt_error *err);
void rt_job_destroy(struct rt_job *job); /* NULL is fine */

/* The defaults of all keys that have one; the rest is zero. For a job that is being written. */
void rt_job_defaults(struct rt_job *values);
/* Encodes values, and reads them back as a node will: *job borrows nothing. Derived values (tree, in,
 * all_slices, optim, ...) need not be set. Only the sections of values->learner are written. */
rt_status rt_job_write(const struct rt_job *values, struct rt_job **job, struct rt_error *err);

/* The learner of a tree, without reading the rest of it; for how long its nodes may be silent, as
 * rt_endpoint_set_silence wants it; and for how long they wait for a master that is gone. */
rt_status rt_job_learner_of(const struct rt_tree *tree, enum rt_job_learner *learner, struct rt_error *err);
rt_status rt_job_silence_of(const struct rt_tree *tree, double *most, double *least, struct rt_error *err);
rt_status rt_job_wait_of(const struct rt_tree *tree, double *wait_master, struct rt_error *err);

/* ---- data.c: the part of the run file's data section that is sent ---- */

/* The options for a node; *options is to be destroyed, and borrows nothing but the names of files. */
rt_status rt_job_data_options(const struct rt_spec *spec, struct rt_tree **options, struct rt_error *err);
/* Reads those. A master must not determine which files besides the training data a node reads, nor which it
 * writes: refused. So is a stream. */
rt_status rt_job_data_read(const struct rt_tree *options, struct rt_spec_data *set, struct rt_error *err);

/* ---- micro_batches.c: how a batch is cut ---- */

/* Rows that a micro-batch has at most. */
size_t rt_job_micro_rows(const struct rt_job *job);

/* The slices of a batch that belong to this ring. */
size_t rt_job_slices(const struct rt_job *job);

/* Micro-batches of an update of `rows` examples: each of the shards' slices is cut into parts of micro_batch
 * rows, so that a part never crosses a slice (see learn/step.h). A slice without rows has no part. If rings
 * share the batch: those of this ring's slices; if those have no rows, there is one empty micro-batch: the
 * ring takes part in every update. */
size_t rt_job_micros(const struct rt_job *job, size_t rows);
/* Part i of them: its rows first..first+rows of the batch, its slice, counted from this ring's first, and its
 * offset in the slice. */
struct rt_micro {
    size_t first, rows;
    size_t slice;
    bool first_of_slice, last_of_slice;
};
struct rt_micro rt_job_micro(const struct rt_job *job, size_t batch_rows, size_t i);

#endif
