/* The inside of struct rt_run, for the files that implement it. */
#ifndef RT_RUN_RUN_INSIDE_H
#define RT_RUN_RUN_INSIDE_H

#include "formats/runfile.h"
#include "learn/evaluate.h"
#include "run/modelfile.h"
#include "run/ring/spread.h"
#include "run/run.h"
#include <stdatomic.h>

/* An evaluation that owns what it points at. */
struct rt_owned_evaluation {
    struct rt_evaluation result; /* what others see */
    uint64_t *confusion;
};

struct rt_run {
    char *path;           /* the run file; NULL: opened by rt_run_load */
    struct rt_tree *tree; /* as it was read, once: it may be a pipe */
    char **settings;      /* "key=value", in the order they were set */
    size_t setting_count;
    struct rt_spec *spec; /* the file with the settings applied; NULL: opened by rt_run_load */

    char *out_dir;
    bool out_given, resume;
    bool without_files; /* the last training was with out: none */
    struct rt_run_terms terms;
    size_t lost; /* the device, counted from the master, that ended the last training; 0: none did */
    bool *gone;  /* [gone_count] likewise those that were lost before, and the training went on without */
    size_t gone_count;
    bool too_few; /* the model did not fit on the devices that were left */
    atomic_int stop;
    double process_start;
    char *program;                /* the ringtmp command, for local nodes; NULL: the one on the PATH */
    struct rt_endpoint *endpoint; /* for the next training; NULL: it makes one */
    rt_notice_fn notice;
    void *notice_user;
    rt_notice_fn warning;
    void *warning_user;

    struct rt_spread *spread;  /* where the trained model's state is, if not here; NULL */
    struct rt_trained trained; /* network.model NULL: there is no model yet */
    struct rt_names labels;    /* a name for every class: the data's, else its number */
    struct rt_run_facts facts;
    bool has_facts;
    char *plan;                 /* of the last training; NULL: there was none */
    struct rt_node_view *views; /* of its devices */
    size_t view_count;
    struct rt_exchange_counts exchange; /* of its servers */
    bool has_exchange;
    struct rt_result result;
    char *result_dir; /* what result.out_dir points at */
    bool has_result;
    struct rt_owned_evaluation test, evaluation;
};

/* Refuses a NULL that a caller of the library gave. */
rt_status rt_run_need(const char *function, const char *argument, const void *value, struct rt_error *err);

/* The checks that wait until every setting is there. */
rt_status rt_run_settle(const struct rt_run *run, struct rt_error *err);

/* Fills labels from trained. */
rt_status rt_run_label(struct rt_run *run, struct rt_error *err);

/* Evaluates what `forward` computes; the old result goes only when the new one is there. */
rt_status rt_run_score(struct rt_run *run, const struct rt_forward *forward, const struct rt_dataset *set,
                       enum rt_target target, struct rt_owned_evaluation *evaluation, struct rt_error *err);
void rt_owned_evaluation_deinit(struct rt_owned_evaluation *evaluation);

#endif
