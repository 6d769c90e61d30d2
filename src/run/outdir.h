/*
 * The output directory of a run. It is claimed before anything is read, so that a directory that cannot be
 * used is told at once, and locked until the run is over, so that two runs never write into the same one.
 */
#ifndef RT_RUN_OUTDIR_H
#define RT_RUN_OUTDIR_H

#include "run/run_inside.h"

struct rt_out {
    int lock;     /* the journal, open and locked; -1: none */
    bool begins;  /* the run that is resumed has left no checkpoint: it starts from the beginning */
    bool fresh;   /* there was nothing in the directory */
    bool made;    /* the directory itself was not there either */
    bool named;   /* run->out_dir is a new default name, */
    char *before; /* and this is what it was */
    bool none;    /* no files are written */
};

/* What a directory holds of a run that could be gone on with. */
enum rt_out_state {
    RT_OUT_NOTHING,
    RT_OUT_BEGUN, /* it ended before its first checkpoint */
    RT_OUT_SAVED,
};
enum rt_out_state rt_out_look(const char *dir);

/* Settles run->out_dir: the one given, which must be empty, a new one with a default name, or that of the run
 * which is resumed. "none": there is none, and nothing is written. */
rt_status rt_out_claim(struct rt_run *run, struct rt_out *out, struct rt_error *err);

/* used: whether the run has started; if not, the claim leaves nothing behind. */
void rt_out_release(struct rt_run *run, bool used, struct rt_out *out);

#endif
