/* What a server did in a rig: its updates one by one, and whether each is what it should be. */
#ifndef RT_TEST_SERVELOG_H
#define RT_TEST_SERVELOG_H

#include "support/exrig.h"

enum { LOG_UPDATES = 1024, LOG_PUSHES = 8 };

struct log_push {
    size_t worker;
    uint64_t batch, base;
    uint32_t rows;
};

struct log_update {
    double at; /* virtual time */
    size_t pushes;
    struct log_push push[LOG_PUSHES]; /* by place */
};

struct servelog {
    size_t updates, dropped;
    struct log_update update[LOG_UPDATES]; /* the one that makes version v is [v - 1] */
};

/* Runs a rig to its end with the log as its user; further settings as given. false: the test has failed,
 * nothing is to be closed. Only the first server is logged. */
bool servelog_run(const struct exrig_settings *settings, struct servelog *log, struct exrig *rig);

/* The parameters of every version, made again on one device: of each gradient's own batch, with the
 * parameters of its base, by plain sgd with the rig's rate. versions: [log->updates + 1][params]. What the
 * server has in the end must be the last of them, bit for bit. */
float *servelog_replay(const struct exrig *rig, const struct servelog *log);
void servelog_check(const struct exrig *rig, const struct servelog *log);

/* Gradients of a worker among the first `version` updates. */
size_t servelog_count(const struct servelog *log, uint64_t version, size_t worker);

#endif
