/* CSV sources. */
#ifndef RT_DATA_CSV_H
#define RT_DATA_CSV_H

#include "data/dataset.h"
#include "data/input.h"

/* The options of a CSV source, as in the run file; see docs/data.md. */
struct rt_csv_settings {
    const char *file, *targets_file;
    const struct rt_tree *label, *targets, *columns, *names;
    int header; /* enum rt_csv_header */
    const char *separator;
    int64_t skip;
};

rt_status rt_csv_settings_read(const struct rt_tree *tree, struct rt_csv_settings *settings,
                               struct rt_error *err);

struct rt_csv_job {
    struct rt_csv_settings settings;
    const struct rt_tree *tree;     /* what the settings were read from, or NULL */
    struct rt_input *input;         /* the table */
    struct rt_input *targets_input; /* the table with the targets, or NULL */
    bool bare;                      /* all columns are inputs */
};

/* Fills in the set, whose store and name are there. */
rt_status rt_csv_read(const struct rt_csv_job *what, const struct rt_data_wish *wish, struct rt_dataset *set,
                      struct rt_error *err);

#endif
