/*
 * Whole training runs over the network in memory, under virtual time: host 0 is a master as an embedding
 * program would start it, the others are nodes as `ringtmp node` makes them; with faults on request. Files
 * are real ones, in a directory of the test (support/site.h).
 */
#ifndef RT_TEST_SIMRUN_H
#define RT_TEST_SIMRUN_H

#include "run/run.h"
#include "sim/fault.h"

enum { SIMRUN_PLACES = 9, SIMRUN_LOG = 20000, SIMRUN_SETTINGS = 16 };

struct simrun_settings {
    size_t devices; /* the master counted */
    const char *strategy;
    const char *settings[SIMRUN_SETTINGS]; /* further "key=value", up to a NULL */
    uint64_t seed;                         /* of delays */
    const struct rt_sim_fault *faults;
    size_t fault_count;
    double limit; /* of virtual time; 0: 600 s */
    /* The master is killed, with its directory as it is then, and is started again so many seconds later,
     * with what there is to be resumed; 0: it is not. */
    double master_killed, master_back;
};

struct simrun {
    /* How the run ended: the network's verdict (a deadlock, the limit), and the master's. */
    rt_status net_status, status;
    struct rt_error net_error, error;
    struct rt_result result; /* of success; out_dir is not kept */
    double seconds;          /* of virtual time, from the start of the master to its end */
    double began, trained;   /* likewise: to the first progress report, and to the last update */
    uint64_t told;           /* updates, at the last progress report */
    size_t notices;
    char log[SIMRUN_LOG]; /* what master and nodes told, a line each, with times */
};

/* run.yaml and its data must be there: simrun_make. */
void simrun_make(void);
void simrun_remove(void);
void simrun_train(const struct simrun_settings *settings, struct simrun *run);

#endif
