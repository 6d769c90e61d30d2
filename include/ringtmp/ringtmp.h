/*
 * RingTMP: train neural networks on several small machines, with exact results.
 *
 * This header is the whole public interface and its manual. The life of a program that embeds the library:
 *
 *     struct rt_error err;
 *     struct rt_run *run;
 *     if (rt_run_open("run.yaml", &run, &err) != RT_OK) puts(err.text);
 *     rt_run_set(run, "train.epochs", "3", &err);           any key of the run file
 *     rt_run_train(run, NULL, NULL, &err);                  trains; the result is then in rt_run_result()
 *     rt_run_predict(run, inputs, rows, outputs, &err);     outputs for new examples
 *     rt_run_close(run);
 *
 * Rules that hold for every function:
 *   - a function that can fail returns rt_status and writes a sentence for people into *err; outputs are
 *     set only on RT_OK; err may be NULL;
 *   - a NULL where an object, a name, a value or memory is needed is refused with RT_BAD_INPUT; functions
 * without a status take it for an object that has nothing: they do nothing, or return NULL or 0;
 *   - the creator destroys: what open gives, close takes back; arguments are borrowed for the call only;
 *   - the library installs no signal handlers and never calls exit;
 *   - it keeps no state outside its objects, with one exception: the first run with train.math: fast loads
 *     OpenBLAS, which then stays in the process, and may set OPENBLAS_CORETYPE in the environment before;
 *   - an object may be used by one thread at a time, except rt_run_stop, which any thread or signal handler
 *     may call.
 *
 * A run whose cluster.nodes is above 1 starts its other nodes as processes of the `ringtmp` command, which
 * must be on the PATH: the library has no node inside. Nodes named in cluster.node run elsewhere already, and
 * need nothing here.
 */
#ifndef RINGTMP_RINGTMP_H
#define RINGTMP_RINGTMP_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define RT_VERSION "0.1.0"

typedef enum rt_status {
    RT_OK = 0,
    RT_BAD_INPUT,   /* a file, an option or a value from outside is wrong; no update was made because of it */
    RT_NO_MEMORY,   /* the memory asked for is not there */
    RT_IO,          /* the system refused a read, a write or a mapping */
    RT_FAILED,      /* the run itself failed, for another reason than those below */
    RT_INTERRUPTED, /* rt_run_stop was called; a checkpoint has been written, unless training had not begun or
                       the run writes no files */
    RT_LOST,        /* a device of the cluster is gone or does not answer; the last checkpoint is good */
    RT_DIVERGED,    /* a loss, a parameter or the optimizer's state is not finite */
} rt_status;

/* One sentence about what went wrong, with file, line or offset where there is one; UTF-8. One that is too
 * long, because it quotes something long, ends with "...". */
struct rt_error {
    rt_status status;
    char text[1000];
};

/* A run: a run file, what was set on top of it, and after training or loading the model. */
struct rt_run;

/* Where a run stands; given to the progress callback once before the first update, and then after each update
 * that is reported. */
struct rt_progress {
    uint64_t update, updates; /* updates done, updates planned; 0: as many as the stream has */
    uint64_t epoch, epochs;   /* epoch under way counted from 1, epochs planned */
    uint64_t samples;         /* training examples applied so far, over resumes */
    double loss;              /* mean training loss since the last report */
    double accuracy;          /* mean training accuracy since the last report; NaN where it has no meaning */
    double samples_per_s;     /* since the last report */
    double seconds, seconds_left;
    int validated; /* 1 when this report carries a fresh validation: */
    double validation_loss, validation_accuracy;
};

/* What a finished run left behind. Not-applicable figures are NaN. */
struct rt_result {
    uint64_t updates, samples;
    double seconds, samples_per_s;
    double train_loss, test_loss, test_accuracy;
    uint64_t params;
    char params_sha256[65];
    const char *out_dir; /* owned by the run; NULL: nothing was written */
};

typedef void (*rt_progress_fn)(void *user, const struct rt_progress *progress);

/* Reads a run file, once: it may be a pipe. Keys may still be set before training starts; what must be there
 * and values that depend on one another are checked then. */
rt_status rt_run_open(const char *path, struct rt_run **run, struct rt_error *err);

/* Opens a trained model for rt_run_predict; the file describes itself, no run file is needed. */
rt_status rt_run_load(const char *model_path, struct rt_run **run, struct rt_error *err);

void rt_run_close(struct rt_run *run);

/* Sets one key of the run file, dotted ("train.epochs"), to a value written as in YAML. An unknown key or a
 * value that can never be right is refused at once, and nothing is changed. */
rt_status rt_run_set(struct rt_run *run, const char *key, const char *value, struct rt_error *err);

/* The directory for model, checkpoint, journal and summary; default: the key out of the run file, else
 * "runs/<name>-<time>". "none": the run writes no files. The model is then in memory only, for
 * rt_run_predict; the best one by validation is kept there while it trains; there are no checkpoints, and a
 * stopped run leaves nothing. A directory of that name is "./none". */
rt_status rt_run_set_out(struct rt_run *run, const char *dir, struct rt_error *err);

/* Continue from the checkpoint in the output directory instead of starting anew. A run that ended before its
 * first checkpoint starts from the beginning. */
void rt_run_set_resume(struct rt_run *run, int resume);

/* Trains to the end, to an early stop, or until rt_run_stop. progress may be NULL. */
rt_status rt_run_train(struct rt_run *run, rt_progress_fn progress, void *user, struct rt_error *err);

/* Asks a training run to write a checkpoint and return RT_INTERRUPTED; an evaluation or the opening of data
 * that is under way is left. It counts until the files of a finished run are being written; one that comes
 * later is too late, and the run ends with RT_OK. Async-signal-safe. */
void rt_run_stop(struct rt_run *run);

/* The result of the last rt_run_train that returned RT_OK; NULL before. */
const struct rt_result *rt_run_result(const struct rt_run *run);

/* Floats in one input and one output example of the trained or loaded model; 0 before there is one. */
size_t rt_run_input_size(const struct rt_run *run);
size_t rt_run_output_size(const struct rt_run *run);

/* Outputs for rows examples. Inputs are raw, as in the data files: the model's own scaling is applied.
 * For a classifier the outputs are probabilities. inputs: rows x input size; outputs: rows x output size. */
rt_status rt_run_predict(struct rt_run *run, const float *inputs, size_t rows, float *outputs,
                         struct rt_error *err);

/* Name of class i of a classifier; owned by the run. Without names in the data it is the class's number.
 * NULL: there is no such class, or there are more than 65536 and they have no names. */
const char *rt_run_class_name(const struct rt_run *run, size_t i);

#ifdef __cplusplus
}
#endif

#endif
