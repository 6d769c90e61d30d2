/* CSV as a source: opens the files that its options name. */
#include "data/csv.h"
#include "data/source.h"
#include <stdlib.h>

static rt_status csv_source_open_input(const struct rt_source *source, const char *name,
                                       struct rt_input *input, char **path, struct rt_error *err) {
    rt_status status = rt_source_path(source, source->tree, name, path, err);
    return status == RT_OK ? rt_input_open(*path, input, err) : status;
}

static rt_status csv_source_open(const struct rt_source *source, struct rt_dataset *set,
                                 struct rt_error *err) {
    struct rt_csv_job job = {.tree = source->tree, .bare = !source->tree};
    struct rt_input input = {0}, targets = {0};
    char *path = NULL, *targets_path = NULL;
    rt_status status = rt_csv_settings_read(source->tree, &job.settings, err);
    const char *file = source->path ? source->path : job.settings.file;
    if (status == RT_OK && !file)
        status = rt_tree_fail(source->tree, err, "csv: file must be given");
    if (status == RT_OK)
        status = csv_source_open_input(source, file, &input, &path, err);
    if (status == RT_OK && job.settings.targets_file)
        status = csv_source_open_input(source, job.settings.targets_file, &targets, &targets_path, err);
    if (status == RT_OK)
        status = rt_dataset_name(set, path, err);
    if (status == RT_OK) {
        job.input = &input;
        job.targets_input = targets_path ? &targets : NULL;
        status = rt_csv_read(&job, source->wish, set, err);
    }
    rt_input_close(&input);
    rt_input_close(&targets);
    free(path);
    free(targets_path);
    return status;
}

/* Any text: the CSV reader then reports in detail what is wrong with it. */
static bool csv_source_matches(const uint8_t *head, size_t bytes) {
    for (size_t i = 0; i < bytes; i++)
        if (head[i] < ' ' && head[i] != '\t' && head[i] != '\r' && head[i] != '\n')
            return false;
    return true;
}

const struct rt_data_format rt_format_csv = {"csv", csv_source_matches, csv_source_open};
