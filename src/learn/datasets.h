/* The data of a run: the training, validation and test sets as the run file describes them, and their
 * scaling. */
#ifndef RT_LEARN_DATASETS_H
#define RT_LEARN_DATASETS_H

#include "data/dataset.h"
#include "formats/runfile.h"
#include "learn/trained.h"
#include <stdatomic.h>

struct rt_datasets {
    /* Files as opened; the sets below may be views of them. */
    struct rt_dataset files[3];
    size_t file_count;
    struct rt_dataset views[4];
    size_t view_count;

    struct rt_dataset train, validation, test; /* count 0: there is none; borrow from the above */
    enum rt_target target;
};

/* Opens everything. data.limit is applied first, then the test and validation parts are split off the
 * training data, and the rest is measured for standardising. The caller deinits scaling. stop (may be NULL):
 * checked between files; once it is not 0, opening ends with RT_INTERRUPTED. */
rt_status rt_datasets_open(const struct rt_spec *spec, const struct rt_network *network,
                           const atomic_int *stop, struct rt_datasets *datasets, struct rt_scaling *scaling,
                           struct rt_error *err);

/* The same for a node, by the run file's data section. directory: the base of relative names; within: only
 * files in this directory may be opened; NULL: any file. */
rt_status rt_datasets_open_within(const struct rt_spec_data *data, const char *directory,
                                  const struct rt_network *network, const char *within,
                                  const atomic_int *stop, struct rt_datasets *datasets,
                                  struct rt_scaling *scaling, struct rt_error *err);

/* Opens the data that a trained model is tested on: the same test set, without the training set if the test
 * set has its own source. Scaling and class names are the model's. */
rt_status rt_datasets_open_test(const struct rt_spec *spec, const struct rt_trained *trained,
                                const atomic_int *stop, struct rt_datasets *datasets, struct rt_error *err);

void rt_datasets_close(struct rt_datasets *datasets); /* a zeroed one is fine */

/* What a network requires of its data; fails if its loss does not accept the targets that the run file's data
 * section (may be NULL) asks for. */
rt_status rt_datasets_wish(const struct rt_spec_data *data, const struct rt_network *network,
                           struct rt_data_wish *wish, struct rt_error *err);
/* And the columns that a trained model requires, if it knows their names. */
void rt_datasets_wish_columns(const struct rt_trained *trained, struct rt_data_wish *wish);

/* SHA-256 that tells whether training would see the same examples: all of them as stored (rt_dataset_hash),
 * and how they are scaled. Reads all the data: once in a run is enough. */
void rt_datasets_fingerprint(const struct rt_datasets *datasets, const struct rt_scaling *scaling,
                             char hex[65]);

#endif
