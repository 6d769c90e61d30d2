/* Columns, headers and numbers of a CSV file; see csv_table.h. */
#include "data/csv_table.h"

#include "base/memory.h"
#include "base/sentence.h"
#include "base/utf8.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---- names of columns ---------------------------------------------------------------------------------- */

static const char *csv_table_column_name(const struct rt_table *table, size_t column) {
    const char *name = table->names;
    for (size_t i = 0; i < column; i++)
        name += strlen(name) + 1;
    return name;
}

static rt_status csv_table_keep_names(struct rt_table *table, struct rt_error *err) {
    size_t bytes = 0;
    for (size_t i = 0; i < table->columns; i++)
        bytes += strlen(rt_csv_field(&table->csv, i)) + 1;
    rt_status status = rt_alloc(bytes, 1, "the header", &table->names, err);
    char *name = table->names;
    for (size_t i = 0; i < table->columns && status == RT_OK; i++) {
        size_t length = strlen(rt_csv_field(&table->csv, i)) + 1;
        memcpy(name, rt_csv_field(&table->csv, i), length);
        name += length;
    }
    table->has_header = status == RT_OK;
    return status;
}

rt_status rt_table_names(const struct rt_table *table, const char ***names, struct rt_error *err) {
    *names = NULL;
    rt_status status = rt_alloc(table->columns + 1, sizeof **names, "the header", names, err);
    const char *name = table->names;
    for (size_t i = 0; status == RT_OK && i < table->columns; i++, name += strlen(name) + 1)
        (*names)[i] = name;
    return status;
}

static rt_status csv_table_fail_no_name(const struct rt_table *table, const struct rt_tree *tree,
                                        struct rt_error *err) {
    const char **names;
    rt_status status = rt_table_names(table, &names, err);
    if (status != RT_OK)
        return status;
    const char *near = rt_nearest(tree->text, names);
    status =
        near ? rt_tree_fail(tree, err, "%s has no column '%s'; did you mean '%s'?", table->input->name,
                            tree->text, near)
             : rt_tree_fail(tree, err, "%s has no column '%s'; the first of its %s is '%s'",
                            table->input->name, tree->text, RT_COUNTED(table->columns, "column"), names[0]);
    free(names);
    return status;
}

/* The column that a name or a number means. */
static rt_status csv_table_find_column(const struct rt_table *table, const struct rt_tree *tree,
                                       size_t *column, struct rt_error *err) {
    if (tree->kind != RT_TREE_SCALAR || !*tree->text)
        return rt_tree_fail(tree, err, "a column is a name or a number");
    int64_t number;
    if (rt_parse_int(tree->text, &number)) {
        int64_t columns = (int64_t)table->columns;
        if (number < -columns || number >= columns)
            return rt_tree_fail(tree, err, "%s has no column %s: there are %zu, numbered from 0",
                                table->input->name, tree->text, table->columns);
        *column = (size_t)(number < 0 ? number + columns : number);
        return RT_OK;
    }
    if (!table->has_header)
        return rt_tree_fail(tree, err,
                            "%s is read without a header, so column '%s' must be given by its number",
                            table->input->name, tree->text);
    const char *name = table->names;
    for (*column = 0; *column < table->columns; ++*column, name += strlen(name) + 1)
        if (strcmp(name, tree->text) == 0)
            return RT_OK;
    return csv_table_fail_no_name(table, tree, err);
}

static bool csv_table_names_a_column(const struct rt_tree *tree) {
    int64_t number;
    if (!tree)
        return false;
    if (tree->kind == RT_TREE_SCALAR)
        return !rt_parse_int(tree->text, &number);
    for (size_t i = 0; i < tree->count; i++)
        if (csv_table_names_a_column(tree->items[i]))
            return true;
    return false;
}

/* ---- which columns are what ---------------------------------------------------------------------------- */

static rt_status csv_table_list_columns(const struct rt_table *table, const struct rt_tree *tree,
                                        size_t *list, size_t *count, struct rt_error *err) {
    size_t wanted = tree->kind == RT_TREE_LIST ? tree->count : 1;
    rt_status status = RT_OK;
    if (wanted == 0 || wanted > table->columns)
        return rt_tree_fail(tree, err, "%s named here, but %s has %zu", RT_COUNTED(wanted, "column"),
                            table->input->name, table->columns);
    for (*count = 0; *count < wanted && status == RT_OK; ++*count) {
        const struct rt_tree *item = tree->kind == RT_TREE_LIST ? tree->items[*count] : tree;
        status = csv_table_find_column(table, item, &list[*count], err);
        for (size_t i = 0; i < *count && status == RT_OK; i++)
            if (list[i] == list[*count])
                status = rt_tree_fail(item, err, "column '%s' is named twice", item->text);
    }
    return status;
}

static bool csv_table_is_target(const struct rt_table *table, size_t column) {
    for (size_t i = 0; i < table->target_count; i++)
        if (table->targets[i] == column)
            return true;
    return false;
}

static rt_status csv_table_choose_columns(struct rt_table *table, const struct rt_columns *columns,
                                          struct rt_error *err) {
    rt_status status = RT_OK;
    table->input_count = table->target_count = 0;
    if (columns->targets)
        status = csv_table_list_columns(table, columns->targets, table->targets, &table->target_count, err);
    for (size_t i = 0; i < table->columns && columns->all_are_targets && !columns->targets; i++)
        table->targets[table->target_count++] = i;
    if (columns->last_is_target && !columns->targets)
        table->targets[table->target_count++] = table->columns - 1;
    if (status != RT_OK || columns->all_are_targets)
        return status;
    if (columns->inputs) {
        status = csv_table_list_columns(table, columns->inputs, table->inputs, &table->input_count, err);
        for (size_t i = 0; i < table->input_count && status == RT_OK; i++)
            if (csv_table_is_target(table, table->inputs[i]))
                status = rt_tree_fail(columns->inputs, err,
                                      "column %zu of %s is named as input, but it is the label",
                                      table->inputs[i], table->input->name);
        return status;
    }
    for (size_t i = 0; i < table->columns; i++)
        if (!csv_table_is_target(table, i))
            table->inputs[table->input_count++] = i;
    return status;
}

/* ---- header and opening -------------------------------------------------------------------------------- */

/* Words for a missing value. The last three may be the name of a class, but never a number. */
static bool csv_table_is_missing(const char *text, bool label) {
    static const char *const words[] = {"", "?", "na", "n/a", "nan", "null", "-", "none", "."};
    size_t count = sizeof words / sizeof *words - (label ? 3 : 0);
    for (size_t i = 0; i < count; i++)
        if (strcasecmp(text, words[i]) == 0)
            return true;
    return false;
}

/* Text in a column of numbers means that the line is a header. A missing value is not text. */
static bool csv_table_any_text(const struct rt_table *table, const size_t *columns, size_t count) {
    double number;
    for (size_t i = 0; i < count; i++) {
        const char *field = rt_csv_field(&table->csv, columns[i]);
        if (!csv_table_is_missing(field, false) && !rt_parse_real(field, &number))
            return true;
    }
    return false;
}

static rt_status csv_table_read_header(struct rt_table *table, int header, const struct rt_columns *columns,
                                       struct rt_error *err) {
    bool more;
    rt_status status = rt_csv_next(&table->csv, &more, err);
    if (status == RT_OK && !more)
        status = rt_fail(err, RT_BAD_INPUT, "%s: has no examples", table->input->name);
    if (status != RT_OK)
        return status;
    table->columns = table->csv.fields;
    status = rt_alloc(table->columns, sizeof *table->inputs, "the columns", &table->inputs, err);
    if (status == RT_OK)
        status = rt_alloc(table->columns, sizeof *table->targets, "the columns", &table->targets, err);
    if (status != RT_OK)
        return status;
    bool named = csv_table_names_a_column(columns->inputs) || csv_table_names_a_column(columns->targets);
    if (header == RT_HEADER_YES || (header == RT_HEADER_AUTO && named))
        status = csv_table_keep_names(table, err);
    if (status == RT_OK)
        status = csv_table_choose_columns(table, columns, err);
    if (status == RT_OK && header == RT_HEADER_AUTO && !named &&
        (csv_table_any_text(table, table->inputs, table->input_count) ||
         (!columns->text_targets && csv_table_any_text(table, table->targets, table->target_count))))
        status = csv_table_keep_names(table, err);
    table->pending = !table->has_header;
    return status;
}

rt_status rt_table_open(struct rt_input *input, const char *separator, uint64_t skip, int header,
                        const struct rt_columns *columns, struct rt_table **table, struct rt_error *err) {
    struct rt_table *made;
    rt_status status = rt_alloc(1, sizeof *made, "a table", &made, err);
    if (status != RT_OK)
        return status;
    made->input = input;
    status = rt_csv_begin(&made->csv, input, separator, skip, err);
    if (status == RT_OK)
        status = csv_table_read_header(made, header, columns, err);
    if (status == RT_OK)
        *table = made;
    else
        rt_table_close(made);
    return status;
}

void rt_table_close(struct rt_table *table) {
    if (!table)
        return;
    rt_csv_end(&table->csv);
    free(table->names);
    free(table->inputs);
    free(table->targets);
    free(table);
}

/* ---- examples ------------------------------------------------------------------------------------------ */

rt_status rt_table_next(struct rt_table *table, bool *more, struct rt_error *err) {
    if (table->pending) {
        table->pending = false;
        *more = true;
        return RT_OK;
    }
    rt_status status = rt_csv_next(&table->csv, more, err);
    if (status == RT_OK && *more && table->csv.fields != table->columns)
        status = rt_fail(err, RT_BAD_INPUT, "%s:%" PRIu64 ": this line has %s, the first line %zu%s",
                         table->input->name, table->csv.line, RT_COUNTED(table->csv.fields, "field"),
                         table->columns,
                         table->columns < table->csv.fields ? " (`skip: 1` leaves the first line out)" : "");
    return status;
}

struct rt_text_position rt_table_position(const struct rt_table *table, size_t column) {
    return (struct rt_text_position){
        .file = table->input->name, .line = table->csv.line, .field = column + 1};
}

/* "file:line:field: ", with the column's name where it has one. */
static rt_status csv_table_fail_field(const struct rt_table *table, size_t column, const char *sentence,
                                      struct rt_error *err) {
    struct rt_text_position position = rt_table_position(table, column);
    const char *name = table->has_header ? csv_table_column_name(table, column) : "";
    return rt_fail(err, RT_BAD_INPUT, "%s:%" PRIu64 ":%zu: %s%.60s%s%s", position.file, position.line,
                   position.field, *name ? "column '" : "", name, *name ? "': " : "", sentence);
}

rt_status rt_table_check_label(const struct rt_table *table, size_t column, struct rt_error *err) {
    const char *text = rt_csv_field(&table->csv, column);
    char sentence[120];
    if (!rt_utf8_valid(text))
        return csv_table_fail_field(table, column, "the label is not valid UTF-8", err);
    if (!csv_table_is_missing(text, true))
        return RT_OK;
    snprintf(sentence, sizeof sentence,
             "the label is missing ('%.9s'); if that is a class, list it under `names`", text);
    return csv_table_fail_field(table, column, sentence, err);
}

rt_status rt_table_text(const struct rt_table *table, size_t column, const char **text,
                        struct rt_error *err) {
    *text = rt_csv_field(&table->csv, column);
    return **text ? RT_OK : csv_table_fail_field(table, column, "the value is missing", err);
}

rt_status rt_table_number(const struct rt_table *table, size_t column, float *number, struct rt_error *err) {
    const char *text = rt_csv_field(&table->csv, column);
    double value;
    bool parsed = rt_parse_real(text, &value);
    if (parsed && isfinite((float)value)) {
        *number = (float)value;
        return RT_OK;
    }
    if (!*text)
        return csv_table_fail_field(table, column, "the value is missing", err);
    char sentence[240];
    snprintf(sentence, sizeof sentence,
             parsed                              ? "'%.60s' is too large for a float%s"
             : csv_table_is_missing(text, false) ? "the value is missing ('%.60s')%s"
                                                 : "'%.60s' is not a finite number%s",
             text, rt_number_hint(text));
    return csv_table_fail_field(table, column, sentence, err);
}

rt_status rt_table_value(const struct rt_table *table, size_t column, const struct rt_dataset *set,
                         float *value, struct rt_error *err) {
    const char *text = rt_csv_field(&table->csv, column);
    double number;
    const int32_t class = set->class_names ? rt_names_find(set, text) : -1;
    if (class >= 0) {
        *value = (float)class;
        return RT_OK;
    }
    rt_status status = rt_table_number(table, column, value, err);
    if (status == RT_OK || csv_table_is_missing(text, true) || rt_parse_real(text, &number) ||
        *rt_number_hint(text))
        return status;
    if (!set->class_names)
        return rt_fail_more(err, status,
                            "; `names` in the source turns text into numbers: with names: [no, yes], "
                            "yes is 1");
    char list[300];
    return rt_fail_more(err, status, ", nor one of the names (%s)",
                        rt_listed(set->class_names, set->class_count, list, sizeof list));
}
