/*
 * A directory with a run file and small data, and runs in it, as an embedding program would start them. One
 * at a time in a process.
 */
#ifndef RT_TEST_SITE_H
#define RT_TEST_SITE_H

#include "run/run.h"
#include <jansson.h>

void site_make(void); /* run.yaml, train.csv, test.csv: three kinds of flowers */
void site_remove(void);
const char *site_path(const char *file); /* in the directory; good for the next seven calls */
void site_text(const char *file, const char *text);
void site_clear(const char *dir);                 /* removes it, if it is there */
void site_copy(const char *from, const char *to); /* a directory, as it is now; to: not there yet */
json_t *site_json(const char *file);

/* What the callbacks of a run saw. */
struct site_watch {
    struct rt_run *run;
    uint64_t stop_at; /* ask for a stop at the first report from this update on; 0: never */
    uint64_t reports, last_update, validations;
    double first_loss, last_loss;
    char notice[600];
};

/* Opens run.yaml with settings "key=value", ending with NULL (or none: NULL), and an output directory. */
rt_status site_open(const char *out, const char *const *settings, struct rt_run **run, struct rt_error *err);

/* Opens, trains and closes. stop_at: see struct site_watch. watch may be NULL. */
rt_status site_train(const char *out, const char *const *settings, bool resume, uint64_t stop_at,
                     struct rt_result *result, struct site_watch *watch, struct rt_error *err);

#endif
