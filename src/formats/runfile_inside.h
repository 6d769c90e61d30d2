/*
 * Inside the reading of a run file, for its own files: the tables of its keys (runfile_options.c), settings
 * (runfile_settings.c), checks of more than one key (runfile_check.c), and reading (runfile.c).
 */
#ifndef RT_FORMATS_RUNFILE_INSIDE_H
#define RT_FORMATS_RUNFILE_INSIDE_H

#include "base/option.h"
#include "formats/runfile.h"

/* ---- runfile_options.c ---- */

enum { RT_SPEC_MODEL, RT_SPEC_DATA, RT_SPEC_TRAIN, RT_SPEC_CLUSTER, RT_SPEC_SECTIONS };

/* The top level of a run file. */
struct rt_spec_top {
    const char *name, *out;
    const struct rt_tree *section[RT_SPEC_SECTIONS];
};

struct rt_spec_table {
    const char *name; /* as messages call it */
    const struct rt_option *options;
    size_t count;
};

extern const struct rt_spec_table rt_spec_top_table, rt_spec_tables[RT_SPEC_SECTIONS];

/* ---- runfile_settings.c ---- */

/* Applies one setting, "key=value", with the option before it if it has one ("--nodes cluster.nodes=2"). */
rt_status rt_spec_apply_setting(struct rt_tree *tree, const char *setting, struct rt_error *err);
/* If settings choose devices of one kind, local processes or running nodes, those that the file has of the
 * other kind are left out. */
rt_status rt_spec_choose_devices(struct rt_tree *tree, const char *const *settings, size_t count,
                                 struct rt_error *err);

/* ---- runfile_check.c ---- */

/* The position of a key for a message: the key itself, else its section, else the file. */
const struct rt_tree *rt_spec_place(const struct rt_tree *root, const char *section, const char *key);
/* Whether a key is missing or has no value. */
bool rt_spec_is_absent(const struct rt_tree *tree);
/* section: the map that the data were read from. */
rt_status rt_spec_data_check(const struct rt_tree *section, const struct rt_spec_data *data,
                             struct rt_error *err);
/* Checks values against one another; not that required keys are there. */
rt_status rt_spec_check_values(const struct rt_spec *spec, struct rt_error *err);

#endif
