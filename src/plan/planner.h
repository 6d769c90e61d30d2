/*
 * Shared by the files of the planner: a planner is the question with one size of micro-batch and everything
 * that follows from the two; a draft is an unfinished plan.
 */
#ifndef RT_PLAN_PLANNER_H
#define RT_PLAN_PLANNER_H

#include "plan/cut.h"
#include "plan/plan.h"

/* The cost of a message beyond its bytes: waking a thread on both sides, a system call or two. */
#define RT_PLAN_MESSAGE_SECONDS 20e-6

/* Memory of a run of layers: without slots, and bytes for each slot. All slots lie in one block, whose size
 * is rounded up; ring-flow keeps a version of the parameters for each. */
struct rt_run_bytes {
    double fixed, slot, version;
};

struct rt_planner {
    const struct rt_plan_question *question;
    struct rt_job job; /* a copy whose micro_batch is set; nothing in it is owned */
    size_t layers;     /* of the model */
    size_t chain;      /* those assigned along the ring: all but the master's tail */
    size_t least;      /* the master's minimum when it is not alone */
    size_t devices;
    size_t micros;
    double rows; /* of an average micro-batch */
    bool flow;

    /* all of these lie in `numbers` */
    struct rt_layer_times *times; /* [devices][layers], for `rows` */
    double *work;                 /* [devices][chain + 1], see rt_cut_problem */
    double *start;                /* the same */
    double *bytes;                /* [chain + 1] */
    double *link, *latency;       /* [devices][devices] */
    double *port;                 /* [devices] */
    double extra;                 /* the master's work per update besides its run: inputs, loss, tail */
    double inputs;                /* seconds per micro-batch until its inputs are there, on the master */
    double loss;                  /* seconds per micro-batch, the tail's forward and backward included */
    double *numbers;
    size_t *points; /* cut points of the model, see rt_cut_problem; NULL: anywhere */
    size_t point_count;
    bool many;      /* so many layers that only some points are looked at, and memory is estimated */
    bool too_large; /* there is no cut where what passes between two nodes fits into a message */

    /* Memory: the sums over the layers of what each takes alone (never less than a run of them takes; for
     * very many layers: what those up to each point take together), and what runs really take, computed on
     * demand: [first][count - 1]; fixed < 0: not known. */
    struct rt_run_bytes *alone;
    struct rt_run_bytes **runs;
    size_t least_slots; /* that a run must have room for */
    double margin;      /* factor on the estimated memory of a run of very many layers: at least 1 */
    /* [devices], the caller's: above 0 for devices that are left out because they offer less than this many
     * bytes, which the smallest part takes; NULL: there are none. */
    const double *lacking;
};

struct rt_draft {
    struct rt_cut cut; /* nodes 0: there is none */
    size_t *slots;
    double *busy;  /* per update */
    double update; /* seconds, predicted */
    double rate;   /* samples/s */
};

/* ---- problem.c ---- */
rt_status rt_planner_init(const struct rt_plan_question *question, size_t micro_batch,
                          struct rt_planner *planner, struct rt_error *err);
/* The extra seconds per micro-batch of the forward of a run because it begins at this layer. */
double rt_planner_start(const struct rt_planner *planner, size_t device, size_t layer);
/* Bytes of the message that passes a cut with each micro-batch. */
double rt_planner_message(const struct rt_planner *planner, size_t cut);
void rt_planner_deinit(struct rt_planner *planner); /* a zeroed one is fine */
/* Layers that the master must hold at least when it is not alone: up to the first with parameters. */
size_t rt_plan_least(const struct rt_model *model);

/* ---- size.c ---- */
/* Layers first..end. */
rt_status rt_planner_bytes(struct rt_planner *planner, size_t first, size_t end, struct rt_run_bytes *bytes,
                           struct rt_error *err);
/* All memory of a device of a ring with so many slots: the program, messages, and the master's tail unless it
 * is alone. */
rt_status rt_planner_node_bytes(struct rt_planner *planner, size_t device, size_t first, size_t end,
                                bool alone, size_t slots, double *bytes, struct rt_error *err);
/* rt_cut_problem's: within the device's memory, with room for planner->least_slots; user is the planner. */
rt_status rt_planner_fits(void *user, size_t device, size_t first, size_t end, bool alone, bool *yes,
                          struct rt_error *err);
/* For each device the bytes of the smallest part that it could get, if it offers less, else 0:
 * lacking[devices]. The master has a part in every plan: 0. */
rt_status rt_planner_lacking(struct rt_planner *planner, double *lacking, struct rt_error *err);
/* Why nothing fits: always fails, with the message. */
rt_status rt_planner_explain(struct rt_planner *planner, struct rt_error *err);

/* ---- draft.c ---- */
rt_status rt_draft_create(size_t devices, struct rt_draft *draft, struct rt_error *err);
void rt_draft_destroy(struct rt_draft *draft); /* a zeroed one is fine */
/* Fills in what the simulation of the schedule says about a cut and its slots. */
rt_status rt_draft_simulate(const struct rt_planner *planner, struct rt_draft *draft, struct rt_error *err);
/* The best draft with these devices: use[devices], enum rt_cut_use. It has the largest number of slots. */
rt_status rt_draft_make(struct rt_planner *planner, const uint8_t *use, struct rt_draft *draft,
                        struct rt_error *err);
/* The best draft of all; all_rate: its speed with all devices that have room for a part, 0: there is no such
 * plan. */
rt_status rt_draft_choose(struct rt_planner *planner, struct rt_draft *draft, double *all_rate,
                          struct rt_error *err);
/* Removes slots that gain next to nothing and are not cheap. */
rt_status rt_draft_trim(struct rt_planner *planner, struct rt_draft *draft, struct rt_error *err);

/* "12.3 MiB"; text: at least 32 bytes. Returns text. */
const char *rt_plan_bytes_text(double bytes, char *text);

#endif
