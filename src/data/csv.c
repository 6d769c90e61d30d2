/*
 * CSV sources: the options of the run file, and the conversion of records to a data set. The inputs become
 * floats, in memory, or in the cache as soon as more text has been read than the limit for memory.
 */
#include "data/csv.h"

#include "base/memory.h"
#include "base/sentence.h"
#include "data/cache.h"
#include "data/csv_match.h"
#include "data/csv_table.h"
#include "data/labels.h"
#include "data/store.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { FLUSH = 1 << 20 }; /* bytes of inputs gathered before they go to the cache */

static const char *const header_choices[] = {"auto", "yes", "no", "true", "false", NULL};

#define AT(field) offsetof(struct rt_csv_settings, field)
static const struct rt_option options[] = {
    {"file", RT_OPTION_TEXT, AT(file), .help = "the table, .csv or .csv.gz"},
    {"label", RT_OPTION_TREE, AT(label),
     .help = "the column with the label, by name or number (from 0; -1 is the last, the default)"},
    {"targets", RT_OPTION_TREE, AT(targets), .help = "the columns with target values, for regression"},
    {"targets_file", RT_OPTION_TEXT, AT(targets_file),
     .help = "another table, with the labels or target values line by line"},
    {"columns", RT_OPTION_TREE, AT(columns),
     .help = "the columns that are inputs; without it all that are not targets"},
    {"names", RT_OPTION_TREE, AT(names), .help = "the names of the classes, in their order"},
    {"header", RT_OPTION_CHOICE, AT(header), "auto", .choices = header_choices,
     .help = "whether the first line names the columns"},
    {"separator", RT_OPTION_TEXT, AT(separator), "auto",
     .help = "the character between fields, tab, space (any blanks), or auto"},
    {"skip", RT_OPTION_INT, AT(skip), "0", 0, 1e9, .help = "lines to leave out before the table begins"},
};
#undef AT

rt_status rt_csv_settings_read(const struct rt_tree *tree, struct rt_csv_settings *settings,
                               struct rt_error *err) {
    *settings = (struct rt_csv_settings){0};
    rt_status status =
        rt_options_read(options, sizeof options / sizeof *options, "file", tree, "csv", settings, err);
    if (status != RT_OK)
        return status;
    settings->header = settings->header == 3   ? RT_HEADER_YES
                       : settings->header == 4 ? RT_HEADER_NO
                                               : settings->header;
    if (settings->label && settings->targets)
        return rt_tree_fail(settings->targets, err, "csv: give either label or targets, not both");
    if (settings->label && settings->label->kind != RT_TREE_SCALAR)
        return rt_tree_fail(settings->label, err, "csv: label is one column; several go under targets");
    if (settings->targets && settings->targets->kind == RT_TREE_MAP)
        return rt_tree_fail(settings->targets, err, "csv: targets is a list of columns");
    if (settings->columns && settings->columns->kind != RT_TREE_LIST)
        return rt_tree_fail(settings->columns, err, "csv: columns is a list of columns");
    const char *separator = settings->separator;
    bool word =
        strcmp(separator, "auto") == 0 || strcmp(separator, "tab") == 0 || strcmp(separator, "space") == 0;
    if (!word && (strlen(separator) != 1 || strchr("\"\r\n", *separator)))
        return rt_tree_fail(rt_tree_get(tree, "separator"), err,
                            "csv: separator must be one character, tab, space or auto, not '%s'", separator);
    return RT_OK;
}

/* ---- the work ------------------------------------------------------------------------------------------ */

struct job {
    const struct rt_csv_job *what;
    const struct rt_data_wish *wish;
    struct rt_dataset *set;
    struct rt_table *table, *target_table; /* target_table NULL: targets are in table, or there are none */
    struct rt_label_book book;
    struct rt_buffer inputs, classes, values;
    struct rt_cache cache;
    bool has_cache, spilled;
    size_t count;
    char remark[400];
};

static bool csv_wants_targets(const struct job *job) {
    return !job->what->bare && job->wish->target != RT_TARGET_INPUT;
}

/* Refuses a table with the wrong number of inputs, and says what may help. */
static rt_status csv_check_inputs(const struct job *job, struct rt_error *err) {
    const struct rt_table *table = job->table;
    const char *name = table->input->name;
    size_t have = table->input_count, want = rt_shape_size(&job->wish->input);
    char shape[96], hint[200] = "";
    if (have == want)
        return RT_OK;
    if (have == want + 1 && job->what->bare && table->csv.separator == ',')
        snprintf(hint, sizeof hint, "; if the last column is the label, drop it: cut -d, -f1-%zu %.80s", want,
                 name);
    else if (have == want + 1 && job->what->bare)
        snprintf(hint, sizeof hint, "; if one of them is the label, drop it");
    else if (have == want + 1)
        snprintf(hint, sizeof hint, "; `columns` or `label` can leave one out");
    return rt_fail(err, RT_BAD_INPUT, "%s: has %s, but the model's input is %s (%s)%s", name,
                   RT_COUNTED(have, "input column"), rt_shape_text(&job->wish->input, shape),
                   RT_COUNTED(want, "value"), hint);
}

static rt_status csv_check_targets(const struct job *job, const struct rt_table *table,
                                   struct rt_error *err) {
    size_t count = table->target_count;
    if (!csv_wants_targets(job) || count == 0)
        return RT_OK;
    if (job->wish->target == RT_TARGET_CLASSES && count != 1)
        return rt_fail(err, RT_BAD_INPUT, "%s: a class label is one column, but %zu are targets",
                       table->input->name, count);
    if (job->wish->target == RT_TARGET_VALUES && job->wish->outputs && count != job->wish->outputs)
        return rt_fail(err, RT_BAD_INPUT, "%s: has %s, but the model has %s", table->input->name,
                       RT_COUNTED(count, "target column"), RT_COUNTED(job->wish->outputs, "output"));
    return RT_OK;
}

static rt_status csv_open_tables(struct job *job, struct rt_error *err) {
    const struct rt_csv_settings *settings = &job->what->settings;
    bool separate = job->what->targets_input != NULL;
    bool classes = job->wish->target == RT_TARGET_CLASSES;
    struct rt_columns columns = {.inputs = settings->columns, .text_targets = true};
    const struct rt_tree *targets = settings->targets ? settings->targets : settings->label;
    if (!separate) {
        columns.targets = targets;
        columns.last_is_target = csv_wants_targets(job);
    }
    uint64_t skip = (uint64_t)settings->skip;
    rt_status status = rt_table_open(job->what->input, settings->separator, skip, settings->header, &columns,
                                     &job->table, err);
    if (status != RT_OK)
        return status;
    /* Labels are optional here, and the file has exactly as many columns as the model has inputs. */
    struct rt_table *table = job->table;
    if (!separate && !targets && !settings->columns && columns.last_is_target && job->wish->labels_optional &&
        table->columns == rt_shape_size(&job->wish->input)) {
        table->inputs[table->input_count++] = table->targets[--table->target_count];
    }
    status = rt_csv_match(table, job->wish, settings->columns, job->remark, sizeof job->remark, err);
    if (status == RT_OK)
        status = csv_check_inputs(job, err);
    if (status == RT_OK)
        status = csv_check_targets(job, table, err);
    if (status != RT_OK || !separate || !csv_wants_targets(job))
        return status;
    /* Nothing in a column of class names shows whether its first line is a header: it has one if the first
     * table has. */
    int header = settings->header;
    if (header == RT_HEADER_AUTO && classes)
        header = table->has_header ? RT_HEADER_YES : RT_HEADER_NO;
    struct rt_columns others = {.targets = targets, .all_are_targets = true, .text_targets = classes};
    status = rt_table_open(job->what->targets_input, settings->separator, skip, header, &others,
                           &job->target_table, err);
    return status == RT_OK ? csv_check_targets(job, job->target_table, err) : status;
}

/* ---- the cache ----------------------------------------------------------------------------------------- */

static rt_status csv_add_names(struct rt_buffer *buffer, const char *const *names, size_t count,
                               struct rt_error *err) {
    rt_status status = RT_OK;
    for (size_t i = 0; i < count && status == RT_OK; i++) {
        status = rt_buffer_add(buffer, "\n", 1, "a data set", err);
        if (status == RT_OK)
            status = rt_buffer_add(buffer, names[i], strlen(names[i]), "a data set", err);
    }
    return status;
}

/* All that determines the content of a conversion, except the files. */
static rt_status csv_describe(const struct rt_csv_job *what, const struct rt_data_wish *wish, char **text,
                              struct rt_error *err) {
    char *json = NULL;
    rt_status status = what->tree ? rt_tree_json(what->tree, &json, err) : RT_OK;
    struct rt_buffer buffer = {0};
    char line[160];
    int length = snprintf(line, sizeof line, "csv 1 target %d outputs %zu inputs %zu optional %d bare %d ",
                          (int)wish->target, wish->outputs, rt_shape_size(&wish->input),
                          (int)wish->labels_optional, (int)what->bare);
    if (status == RT_OK)
        status = rt_buffer_add(&buffer, line, (size_t)length, "a data set", err);
    if (status == RT_OK && json)
        status = rt_buffer_add(&buffer, json, strlen(json), "a data set", err);
    if (status == RT_OK && wish->class_names)
        status = csv_add_names(&buffer, wish->class_names, wish->class_count, err);
    if (status == RT_OK && wish->columns)
        status = rt_buffer_add(&buffer, "\n\ncolumns", strlen("\n\ncolumns"), "a data set", err);
    if (status == RT_OK && wish->columns)
        status = csv_add_names(&buffer, wish->columns, wish->column_count, err);
    if (status == RT_OK)
        status = rt_buffer_add(&buffer, "", 1, "a data set", err);
    free(json);
    if (status == RT_OK)
        *text = buffer.data;
    else
        rt_buffer_free(&buffer);
    return status;
}

static rt_status csv_locate_cache(struct job *job, struct rt_error *err) {
    const struct rt_csv_job *what = job->what;
    const struct rt_input *const files[] = {what->input, what->targets_input};
    char *text;
    rt_status status = csv_describe(what, job->wish, &text, err);
    if (status != RT_OK)
        return status;
    status = rt_cache_locate(job->wish, files, what->targets_input ? 2 : 1, text, &job->cache, err);
    job->has_cache = status == RT_OK;
    free(text);
    return status;
}

/* Moves to the cache when the text has become too long for memory, and keeps the buffer short from then on.
 */
static rt_status csv_spill(struct job *job, struct rt_error *err) {
    rt_status status = RT_OK;
    const struct rt_input *input = job->what->input;
    if (!job->spilled && input->map.data && input->given > job->wish->cache_above) {
        if (!job->has_cache)
            status = csv_locate_cache(job, err);
        if (status == RT_OK)
            status = rt_cache_begin(&job->cache, err);
        job->spilled = status == RT_OK;
    }
    if (status == RT_OK && job->spilled && job->inputs.bytes >= FLUSH) {
        status = rt_cache_add(&job->cache, job->inputs.data, job->inputs.bytes, err);
        job->inputs.bytes = 0;
    }
    return status;
}

/* ---- examples ------------------------------------------------------------------------------------------ */

/* The targets of one example. */
static rt_status csv_read_targets(struct job *job, const struct rt_table *table, struct rt_error *err) {
    const char *text;
    if (job->wish->target == RT_TARGET_CLASSES) {
        size_t column = table->targets[0];
        struct rt_text_position position = rt_table_position(table, column);
        position.example = job->count;
        int32_t number;
        rt_status status = rt_table_text(table, column, &text, err);
        bool known = status != RT_OK || rt_book_has(&job->book, text) ||
                     (job->set->class_names && rt_names_find(job->set, text) >= 0);
        if (!known)
            status = rt_table_check_label(table, column, err);
        if (status == RT_OK)
            status = rt_book_number(&job->book, text, &position, job->wish, job->set, &number, err);
        return status == RT_OK ? rt_buffer_add(&job->classes, &number, sizeof number, "the labels", err)
                               : status;
    }
    for (size_t i = 0; i < table->target_count; i++) {
        float value;
        rt_status status = rt_table_value(table, table->targets[i], job->set, &value, err);
        if (status == RT_OK)
            status = rt_buffer_add(&job->values, &value, sizeof value, "the targets", err);
        if (status != RT_OK)
            return status;
    }
    return RT_OK;
}

static rt_status csv_read_example(struct job *job, struct rt_error *err) {
    const struct rt_table *table = job->table;
    void *place;
    rt_status status =
        rt_buffer_reserve(&job->inputs, table->input_count * sizeof(float), "the data", &place, err);
    for (size_t i = 0; i < table->input_count && status == RT_OK; i++)
        status = rt_table_number(table, table->inputs[i], (float *)place + i, err);
    job->inputs.bytes += status == RT_OK ? table->input_count * sizeof(float) : 0;
    if (status == RT_OK && job->target_table) {
        bool more;
        status = rt_table_next(job->target_table, &more, err);
        if (status == RT_OK && !more)
            status = rt_fail(err, RT_BAD_INPUT, "%s: has targets for %s, but %s has more",
                             job->target_table->input->name, RT_COUNTED(job->count, "example"),
                             table->input->name);
    }
    if (status == RT_OK && csv_wants_targets(job) && (job->target_table || table->target_count))
        status = csv_read_targets(job, job->target_table ? job->target_table : table, err);
    if (status == RT_OK && job->count == UINT32_MAX)
        status = rt_fail(err, RT_BAD_INPUT, "%s: has more than %" PRIu32 " examples", table->input->name,
                         UINT32_MAX);
    job->count++;
    return status == RT_OK ? csv_spill(job, err) : status;
}

/* All records are read: labels become classes, and the buffers become the set. */
static rt_status csv_finish(struct job *job, struct rt_error *err) {
    struct rt_dataset *set = job->set;
    const char *file = job->target_table ? job->target_table->input->name : job->table->input->name;
    const void *data;
    rt_status status = RT_OK;
    set->count = job->count;
    set->type = RT_DATA_F32;
    set->shape = (struct rt_shape){.rank = 1, .dim = {job->table->input_count}};
    if (job->classes.bytes) {
        status = rt_buffer_keep(&job->classes, set->store, &data, err);
        if (status == RT_OK)
            status =
                rt_book_finish(&job->book, file, job->wish, (int32_t *)(uintptr_t)data, job->count, set, err);
    }
    if (status == RT_OK && job->values.bytes) {
        set->value_width = job->values.bytes / sizeof(float) / job->count;
        status = rt_buffer_keep(&job->values, set->store, &data, err);
        set->values = data;
    }
    if (status != RT_OK)
        return status;
    if (!job->spilled) {
        status = rt_buffer_keep(&job->inputs, set->store, &data, err);
        set->inputs = data;
        return status;
    }
    status = rt_cache_add(&job->cache, job->inputs.data, job->inputs.bytes, err);
    if (status == RT_OK)
        status = rt_cache_finish(&job->cache, set, err);
    /* From here on the set reads from the cache: its memory is released. */
    rt_store_destroy(set->store);
    *set = (struct rt_dataset){.name = set->name};
    if (status == RT_OK)
        status = rt_store_create(&set->store, err);
    if (status == RT_OK && !rt_cache_load(&job->cache, set))
        status = rt_fail(err, RT_IO, "%s: cannot be read back just after it was written", job->cache.path);
    return status;
}

static rt_status csv_read_examples(struct job *job, struct rt_error *err) {
    rt_status status = RT_OK;
    for (bool more = true; more && status == RT_OK;) {
        status = rt_table_next(job->table, &more, err);
        if (status == RT_OK && more)
            status = csv_read_example(job, err);
    }
    if (status == RT_OK && job->count == 0)
        status = rt_fail(err, RT_BAD_INPUT, "%s: has no examples", job->table->input->name);
    if (status == RT_OK && job->target_table) {
        bool more;
        status = rt_table_next(job->target_table, &more, err);
        if (status == RT_OK && more)
            status =
                rt_fail(err, RT_BAD_INPUT, "%s: has %s, but %s has targets for more", job->table->input->name,
                        RT_COUNTED(job->count, "example"), job->target_table->input->name);
    }
    return status == RT_OK ? csv_finish(job, err) : status;
}

/* Takes the names from the header; a cache has only the numbers. */
static rt_status csv_keep_header(const struct job *job, struct rt_error *err) {
    rt_status status = rt_csv_keep_names(job->table, job->set, err);
    if (status != RT_OK || !job->remark[0])
        return status;
    char *remark;
    status = rt_store_alloc(job->set->store, strlen(job->remark) + 1, 1, "a remark", &remark, err);
    if (status == RT_OK) {
        memcpy(remark, job->remark, strlen(job->remark) + 1);
        job->set->remark = remark;
    }
    return status;
}

/* ---- all together ----------------------------------------------------------------------------------------
 */

rt_status rt_csv_read(const struct rt_csv_job *what, const struct rt_data_wish *wish, struct rt_dataset *set,
                      struct rt_error *err) {
    struct job job = {.what = what, .wish = wish, .set = set};
    bool may_be_large = what->input->map.data && rt_input_limit(what->input) > wish->cache_above;
    if (may_be_large)
        csv_locate_cache(&job,
                         NULL); /* a failure matters, and is reported, only when a cache must be written */
    rt_status status = rt_names_read(what->settings.names, wish, set, err);
    if (status == RT_OK)
        status = csv_open_tables(&job, err);
    if (status == RT_OK && !(job.has_cache && rt_cache_load(&job.cache, set)))
        status = csv_read_examples(&job, err);
    if (status == RT_OK)
        status = csv_keep_header(&job, err);
    rt_table_close(job.table);
    rt_table_close(job.target_table);
    rt_book_free(&job.book);
    rt_buffer_free(&job.inputs);
    rt_buffer_free(&job.classes);
    rt_buffer_free(&job.values);
    rt_cache_close(&job.cache);
    return status;
}
