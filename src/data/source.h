/*
 * Sources: where a data set comes from. A format is one entry in the registry (source.c); it reads its own
 * options and fills in a set.
 */
#ifndef RT_DATA_SOURCE_H
#define RT_DATA_SOURCE_H

#include "data/dataset.h"

struct rt_source {
    const struct rt_tree *tree; /* the format's options; NULL for a bare file */
    const char *path;           /* the bare file, else NULL */
    const char *base_dir;       /* may be NULL */
    const struct rt_data_wish *wish;
};

struct rt_data_format {
    const char *name; /* as in the run file */
    /* Whether a file with these first bytes (uncompressed) has this format. */
    bool (*recognise)(const uint8_t *head, size_t bytes);
    /* Fills in the set, whose store exists; on failure the caller closes it. */
    rt_status (*open)(const struct rt_source *source, struct rt_dataset *set, struct rt_error *err);
};

extern const struct rt_data_format rt_format_idx, rt_format_npy, rt_format_csv;

/* The path for the file name in a source's option: as given, or relative to the base directory. *path is to
 * be freed. */
rt_status rt_source_path(const struct rt_source *source, const struct rt_tree *where, const char *name,
                         char **path, struct rt_error *err);

/* Gives the set a name for messages. */
rt_status rt_dataset_name(struct rt_dataset *set, const char *name, struct rt_error *err);

#endif
