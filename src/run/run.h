/*
 * What the commands need of a run beyond the public header: evaluation with a confusion table, predictions
 * for a file, notices, and facts to print before and after training. Not installed.
 */
#ifndef RT_RUN_RUN_H
#define RT_RUN_RUN_H

#include "base/status.h"

/* Notices: single sentences of interest to people while a run is under way ("the newest checkpoint is damaged
 * ...; the one before it is used"). Without a callback they go to the journal only. */
typedef void (*rt_notice_fn)(void *user, const char *sentence);
void rt_run_set_notice(struct rt_run *run, rt_notice_fn notice, void *user);
/* The callback for warnings, which are shown even when other notices are not; NULL: as any notice. */
void rt_run_set_warning(struct rt_run *run, rt_notice_fn warning, void *user);

/* rt_run_set, with the option of the command for messages: "--nodes cluster.nodes=2". */
rt_status rt_run_set_as(struct rt_run *run, const char *setting, struct rt_error *err);

/* How the caller says what sentences advise. Default: the functions of the library. */
struct rt_run_terms {
    const char *out, *resume;
};
void rt_run_set_terms(struct rt_run *run, const struct rt_run_terms *terms); /* strings are borrowed */

/* The ringtmp command, which local nodes are started with. Default: the one on the PATH. */
rt_status rt_run_set_program(struct rt_run *run, const char *path, struct rt_error *err);

/* The run's place on the network, which it takes over: training uses it instead of one of its own over TCP.
 * For one training. */
struct rt_endpoint;
void rt_run_set_endpoint(struct rt_run *run, struct rt_endpoint *endpoint);

/* When the process started, as rt_clock_wall() read it; the first statement of main is a good place. Default:
 * when the run was opened. The journal gives its times from here. */
void rt_run_set_process_start(struct rt_run *run, double wall);

/* The output directory: known once training has begun, or set by rt_run_set_out; NULL before, and of a run
 * without files. Also there after RT_INTERRUPTED and RT_FAILED, so that a message can say how to resume.
 * Owned by the run. */
const char *rt_run_out_dir(const struct rt_run *run);

/* The nodes of cluster.node: node i, from 0, as it was given; NULL: there is none. And the local processes.
 */
const char *rt_run_node(const struct rt_run *run, size_t i);
size_t rt_run_local_nodes(const struct rt_run *run);
/* After a training that did not come to its end: whether that node was lost by then, and is not back. */
bool rt_run_node_is_lost(const struct rt_run *run, size_t i);
/* Whether it ended because the model does not fit on the devices that were left. */
bool rt_run_has_too_few(const struct rt_run *run);

/* What is known once the data are open. The first progress report comes before the first update (its update
 * and samples are 0, or what the checkpoint says), so a progress callback always finds them. */
struct rt_run_facts {
    const char *name;    /* of the run */
    const char *kernels; /* "exact/avx2", ... */
    const char *loss, *optimizer;
    size_t threads;
    uint64_t params;
    size_t train_examples, validation_examples, test_examples;
    size_t batch, micro_batch; /* as used: auto is resolved */
    uint64_t resumed_update;   /* 0: a new run */
    const char *strategy;
    size_t nodes;                   /* devices that take part */
    size_t nodes_offered;           /* and those that could have */
    double predicted_samples_per_s; /* by the plan; NaN: there is none */
    bool predicted_at_most;         /* devices share cores: it can only be slower */
};
const struct rt_run_facts *rt_run_facts(const struct rt_run *run); /* NULL before */

/* The plan of a run on several devices: who holds what, and what is predicted, as lines to print; NULL: there
 * is none. Known when the facts are. */
const char *rt_run_plan(const struct rt_run *run);

/* Connects to the devices that the run would use, measures them, and gives the plan as lines to print, to be
 * freed; trains nothing and reads no data. */
rt_status rt_run_make_plan(struct rt_run *run, char **plan, struct rt_error *err);

/* What a device of a run on several of them is doing. */
enum { RT_NODE_NAME_ROOM = 404 }; /* as long as a node may call itself */
struct rt_node_view {
    const char *role;
    char name[RT_NODE_NAME_ROOM];
    size_t first, count;   /* its layers */
    size_t tail;           /* layers at the end of the network that it holds as well */
    double samples_per_s;  /* since the last report; at the end of a run: over all of it */
    double idle_fraction;  /* the same */
    double bytes_per_s;    /* sent and received; the same */
    uint64_t queue;        /* micro-batches that wait to be worked on */
    uint64_t peak_memory;  /* bytes */
    double predicted_idle; /* by the plan; NaN: not */
    uint64_t predicted_memory;
};
/* The newest, one per device; 0: none. Owned by the run. */
size_t rt_run_nodes(const struct rt_run *run, const struct rt_node_view **views);

/* What the servers of an exchange made of the gradients that came, all servers together: each counts what
 * came to it. */
enum { RT_EXCHANGE_BINS = 64 };
struct rt_exchange_counts {
    size_t bins;
    uint64_t staleness[RT_EXCHANGE_BINS]; /* gradients by their staleness; the last one: or more */
    double mean;
    uint64_t most;
    uint64_t applied, dropped, forced, held;
    uint64_t spread; /* the largest difference of version between the servers in one worker's read */
};
/* Of the last training; NULL: it had no such servers. Owned by the run. */
const struct rt_exchange_counts *rt_run_exchange(const struct rt_run *run);

/* The most classes that a confusion table is made for: it has the square of their number. */
enum { RT_CONFUSION_CLASSES = 1000 };

/* How a model does on a set of examples. */
struct rt_evaluation {
    size_t examples;
    double loss;     /* mean */
    double accuracy; /* NaN where it has no meaning */
    size_t
        classes; /* 0: not a classifier, or more than RT_CONFUSION_CLASSES classes; then the rest is NULL */
    const uint64_t *confusion; /* [classes][classes]: how many of true class t were said to be class s, at
                                  confusion[t * classes + s] */
    const char *const *class_names; /* [classes]; "0", "1", ... where the data have no names */
};

/* The test at the end of the last rt_run_train; NULL when there was none. Owned by the run. */
const struct rt_evaluation *rt_run_test(const struct rt_run *run);

/* After training: the update whose parameters model.safetensors holds (the best by validation, or the last).
 */
uint64_t rt_run_model_update(const struct rt_run *run);

/* Evaluates a model opened by rt_run_load on the test data of a run file (data.test, or the part that
 * data.split holds out). settings: as rt_run_set_as takes them. The result is owned by the run, until the
 * next call. */
rt_status rt_run_evaluate(struct rt_run *model, const char *run_path, const char *const *settings,
                          size_t setting_count, const struct rt_evaluation **evaluation,
                          struct rt_error *err);

/* rt_run_load for a model that is spread over several devices, so that none of them needs room for all of it.
 * run_path: a run file whose cluster section says who takes part; NULL: only settings do. program: the
 * ringtmp command, for nodes on this machine. With one device it is rt_run_load. */
rt_status rt_run_load_spread(const char *model_path, const char *run_path, const char *const *settings,
                             size_t setting_count, const char *program, struct rt_run **run,
                             struct rt_error *err);

/* Outputs for every example of a file, in order. source: a file name whose ending tells the format (.npy,
 * .csv, .gz and IDX files otherwise), or a source written as in the run file ("{csv: {file: x.csv, header:
 * true}}"). Labels in it are ignored. take gets one example at a time and may stop the walk by failing. */
typedef rt_status (*rt_prediction_fn)(void *user, size_t example, const float *outputs, size_t width,
                                      struct rt_error *err);
rt_status rt_run_predict_source(struct rt_run *run, const char *source, rt_prediction_fn take, void *user,
                                struct rt_error *err);

/* The number of classes of the trained or loaded model; 0 when it is no classifier. */
size_t rt_run_class_count(const struct rt_run *run);

/* The name of the loss of the trained or loaded model; NULL before there is one. */
const char *rt_run_loss_name(const struct rt_run *run);

#endif
