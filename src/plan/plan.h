/*
 * The planner decides which device holds which layers. From measured times per layer on each device, measured
 * links and the memory each device offers, it finds the contiguous cut that makes the ring fastest: an exact
 * dynamic programme over cuts, the number of slots per node within its memory, the size of a micro-batch if
 * that is not given, and the devices that are better left out. A simulation of the schedule predicts speed
 * and idle time.
 */
#ifndef RT_PLAN_PLAN_H
#define RT_PLAN_PLAN_H

#include "job/job.h"
#include "nn/model.h"
#include "plan/schedule.h"
#include <stdio.h>

/* A device as the planner sees it. */
struct rt_plan_device {
    const char *name;
    const struct rt_layer_times *layers;      /* [layers] of the whole model, for micro-batches of `rows` */
    const struct rt_layer_times *more_layers; /* the same for `more_rows`; only where that is not 0 */
    uint64_t memory;                          /* bytes it offers; 0: no limit */
    bool hidden;               /* it has no link with another such device: nobody can connect to it */
    double latency, bandwidth; /* of its link to the next (the last one's leads to the master): seconds, bytes
                                  per second; bandwidth 0: without limit */
};

struct rt_plan_node {
    size_t device;       /* index among the devices given */
    size_t first, count; /* its run of layers */
    size_t slots;
    double busy;                       /* predicted seconds of work per update */
    double idle_fraction;              /* predicted */
    uint64_t memory;                   /* predicted bytes */
    uint64_t replica, replica_on_disk; /* bytes of it for replicas; those that are on the disk besides */
    uint64_t link_bytes;               /* per update over the link to the next, both directions */
    double link_seconds;               /* that they occupy it, the slower direction */
};

struct rt_plan {
    size_t nodes; /* that take part, the master (device 0) first */
    struct rt_plan_node *node;
    size_t
        tail; /* layers at the end that the master holds as well: cluster.master_tail; 0 when it is alone */
    size_t layers;
    size_t micro_batch, micros;          /* rows of a micro-batch; micro-batches of a full update */
    double samples_per_s, idle_fraction; /* predicted */
    bool crowded; /* nodes share cores, and each was measured alone: it can only be slower */
    double alone; /* samples/s predicted for the master without the others; 0: it has no room for the model;
                     below 0: not asked */
    size_t alone_threads; /* of the master while it was measured, where there are more; else 0 */
    size_t rings;         /* side by side, each as planned; 0 or 1: one */
    size_t left_out_count;
    size_t *left_out;         /* devices */
    uint64_t *left_out_needs; /* [left_out_count]: bytes of the smallest part that there is, where the device
                                 offers less; 0: it has room for one, and is left out for another reason */
    double without_them, with_them; /* samples/s predicted, when some are left out that have room for a part;
                                       with_them 0: there is no plan with all of those, for want of memory */
    bool too_large; /* or because what would pass between two nodes does not fit into a message */
};

struct rt_plan_question {
    const struct rt_job *job;             /* its micro_batch below 1: the planner chooses */
    const struct rt_model *model;         /* the whole model, described only: no memory is taken for it */
    const struct rt_plan_device *devices; /* [count]; the master first */
    size_t count;
    size_t rows;        /* of the micro-batches that were measured */
    size_t more_rows;   /* of a second measurement, larger than rows; 0: there is none. With it an operation
                           costs so much at any size and so much per row; without, in proportion to the rows. */
    size_t master_tail; /* layers */
    /* The master's work besides its layers, in seconds per row: preparing inputs, and the loss. 0: not
     * measured; for the loss a guess is used then. */
    double master_inputs, master_loss;
    size_t slots;  /* of every node; 0: the planner chooses */
    bool even;     /* the cut that would be best if all devices were like the master, for comparison */
    bool keep_all; /* leave no device out */
};

/* Memory of the program itself on every device, beyond layers and messages; part of a node's memory.
 * Measured: 5 MB of code and libraries, 5 to 8 MB of job, links and small blocks (x86-64, glibc). */
enum { RT_PLAN_PROGRAM_BYTES = 12 << 20 };

/* The sizes of micro-batches at which to measure the layers for a ring of so many devices. more_rows: 0 if
 * one measurement is enough. */
void rt_plan_rows(const struct rt_job *job, size_t devices, size_t *rows, size_t *more_rows);

/* Finds the plan. If micro_batch is not given, it is the largest whose predicted speed is within 1 % of the
 * best, but the whole batch if a layer measures it (batchnorm), because auto must not change a result. A
 * device is left out when the ring is predicted to be at least 1 % faster without it. RT_BAD_INPUT with a
 * message if there is no plan: more nodes than layers, a layer too big for any device, a first run of layers
 * without parameters on the master. */
rt_status rt_plan_create(const struct rt_plan_question *question, struct rt_plan **plan,
                         struct rt_error *err);
void rt_plan_destroy(struct rt_plan *plan); /* NULL is fine */
/* samples/s that a plan is predicted to reach as it is, when the devices are those of the question: node i is
 * on device[i] of them. */
rt_status rt_plan_rate(const struct rt_plan_question *question, const struct rt_plan *plan,
                       const size_t *device, double *rate, struct rt_error *err);
/* samples/s that the master is predicted to reach alone; 0: it does not offer the memory. */
rt_status rt_plan_alone(const struct rt_plan_question *question, double *rate, struct rt_error *err);

/* Measures each layer of the job's model on this device with random numbers: layers[count], one per layer.
 * Takes about RT_PROFILE_SECONDS, longer only if doing everything twice does; after RT_PROFILE_MOST_SECONDS
 * no other layer is begun. slowdown: of an emulated device; multiplies the times. memory: bytes it may take,
 * 0: no limit; layers that need more are estimated. */
#define RT_PROFILE_SECONDS      0.3
#define RT_PROFILE_MOST_SECONDS 20
rt_status rt_profile_measure(const struct rt_job *job, struct rt_device *device, size_t rows, double slowdown,
                             uint64_t memory, struct rt_layer_times *layers, size_t count,
                             struct rt_error *err);

/* Bytes that measuring needs at a time: those of the largest layer. whole: the job's model. */
rt_status rt_profile_bytes(const struct rt_job *job, const struct rt_model *whole, size_t rows, double *bytes,
                           struct rt_error *err);

/* Which devices are left out of the ring, and why; without a full stop. */
void rt_plan_print_left_out(const struct rt_plan *plan, const struct rt_plan_question *question, FILE *out);
/* The table that is printed before a run (and by `ringtmp plan`). question: the one the plan answers. */
void rt_plan_print(const struct rt_plan *plan, const struct rt_plan_question *question, FILE *out);

#endif
