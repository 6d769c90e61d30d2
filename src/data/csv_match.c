/* Columns by name. */
#include "data/csv_match.h"

#include "base/memory.h"
#include "base/utf8.h"
#include <stdlib.h>
#include <string.h>

/* Names with more bytes in all are not stored in a model file. */
enum { MOST_NAME_BYTES = 1 << 20 };

/* The option for a user who knows that the columns are right although the names differ. */
static const char by_position[] =
    "rename the column; or, to take columns by their position, read the table without its header "
    "({csv: {file: %.60s, header: no, skip: 1}})";

/* The first input whose name differs from the one wanted; the count of inputs if none does. */
static size_t csv_match_first_difference(const struct rt_table *table, const char *const *names,
                                         const struct rt_data_wish *wish) {
    size_t i = 0;
    while (i < wish->column_count && i < table->input_count &&
           strcmp(names[table->inputs[i]], wish->columns[i]) == 0)
        i++;
    return i;
}

struct column {
    const char *name;
    size_t number;
    bool is_taken; /* by an input */
};

static int csv_match_by_name(const void *a, const void *b) {
    return strcmp(((const struct column *)a)->name, ((const struct column *)b)->name);
}

static bool csv_match_is_target(const struct rt_table *table, size_t column) {
    for (size_t i = 0; i < table->target_count; i++)
        if (table->targets[i] == column)
            return true;
    return false;
}

/* Describes the first difference. here: the name found where the wanted one should be; NULL: the table has no
 * such column. */
static rt_status csv_match_fail_missing(const struct rt_table *table, const char *name, size_t input,
                                        const char *here, struct rt_error *err) {
    char hint[256], place[160] = "";
    snprintf(hint, sizeof hint, by_position, table->input->name);
    if (here)
        snprintf(place, sizeof place, "; '%.60s' stands in its place", here);
    return rt_fail(err, RT_BAD_INPUT, "%s: has no column '%.60s', which is input %zu of the model%s: %s",
                   table->input->name, name, input + 1, place, hint);
}

/* Every input gets a column of its own, so there are no more of them than columns. */
static rt_status csv_match_find_all(const struct rt_table *table, struct column *sorted,
                                    const char *const *names, const struct rt_data_wish *wish, size_t *found,
                                    struct rt_error *err) {
    const char *file = table->input->name;
    for (size_t i = 0; i < wish->column_count; i++) {
        const struct column wanted = {.name = wish->columns[i]};
        struct column *column = bsearch(&wanted, sorted, table->columns, sizeof wanted, csv_match_by_name);
        if (!column)
            return csv_match_fail_missing(table, wanted.name, i,
                                          i < table->input_count ? names[table->inputs[i]] : NULL, err);
        const bool twice =
            (column > sorted && csv_match_by_name(column - 1, column) == 0) ||
            (column + 1 < sorted + table->columns && csv_match_by_name(column, column + 1) == 0);
        if (twice)
            return rt_fail(err, RT_BAD_INPUT, "%s: has two columns '%.60s', which is input %zu of the model",
                           file, wanted.name, i + 1);
        if (column->is_taken)
            return rt_fail(err, RT_BAD_INPUT,
                           "%s: has one column '%.60s', but the model has several inputs of that name", file,
                           wanted.name);
        column->is_taken = true;
        if (csv_match_is_target(table, column->number))
            return rt_fail(
                err, RT_BAD_INPUT,
                "%s: column '%.60s' is input %zu of the model, but here it is the label; `label` or "
                "`targets` can name another one",
                file, wanted.name, i + 1);
        found[i] = column->number;
    }
    return RT_OK;
}

/* Describes which columns were chosen; the inputs are still in the order of the table. */
static void csv_match_explain(const struct rt_table *table, const size_t *found, size_t count, char *remark,
                              size_t room) {
    size_t first = 0, others = table->input_count - count;
    while (first + 1 < count && found[first] < found[first + 1])
        first++;
    const bool ordered = first + 1 >= count;
    char left[80] = "";
    if (others)
        snprintf(left, sizeof left, "%s%zu %s of the model %s left out", ordered ? "" : "; ", others,
                 others == 1 ? "column that is not an input" : "columns that are not inputs",
                 others == 1 ? "is" : "are");
    snprintf(remark, room, "%.200s: %s%s", table->input->name,
             ordered ? "" : "its columns are in another order than in training and are taken by name", left);
}

rt_status rt_csv_match(struct rt_table *table, const struct rt_data_wish *wish, bool chosen, char *remark,
                       size_t room, struct rt_error *err) {
    remark[0] = 0;
    if (!wish->columns || !table->has_header)
        return RT_OK;
    const char **names;
    struct column *sorted = NULL;
    size_t *found = NULL;
    rt_status status = rt_table_names(table, &names, err);
    const size_t first = status == RT_OK ? csv_match_first_difference(table, names, wish) : 0;
    if (status != RT_OK || (first == wish->column_count && first == table->input_count)) {
        free(names);
        return status;
    }
    status = rt_alloc(table->columns, sizeof *sorted, "the header", &sorted, err);
    if (status == RT_OK)
        status = rt_alloc(wish->column_count, sizeof *found, "the header", &found, err);
    if (status == RT_OK) {
        for (size_t i = 0; i < table->columns; i++)
            sorted[i] = (struct column){.name = names[i], .number = i};
        qsort(sorted, table->columns, sizeof *sorted, csv_match_by_name);
        status = csv_match_find_all(table, sorted, names, wish, found, err);
    }
    if (status == RT_OK && chosen)
        status =
            rt_fail(err, RT_BAD_INPUT,
                    "%s: `columns` has '%.60s' where the model has '%.60s' (input %zu); without `columns` "
                    "they are found by their names",
                    table->input->name, first < table->input_count ? names[table->inputs[first]] : "none",
                    first < wish->column_count ? wish->columns[first] : "none", first + 1);
    if (status == RT_OK) {
        csv_match_explain(table, found, wish->column_count, remark, room);
        memcpy(table->inputs, found, wish->column_count * sizeof *found);
        table->input_count = wish->column_count;
    }
    free(found);
    free(sorted);
    free(names);
    return status;
}

rt_status rt_csv_keep_names(const struct rt_table *table, struct rt_dataset *set, struct rt_error *err) {
    if (!table->has_header || table->input_count == 0)
        return RT_OK;
    const char **names, **kept;
    rt_status status = rt_table_names(table, &names, err);
    if (status != RT_OK)
        return status;
    status = rt_alloc(table->input_count, sizeof *kept, "the header", &kept, err);
    size_t bytes = 0;
    bool good = status == RT_OK;
    for (size_t i = 0; good && i < table->input_count; i++) {
        kept[i] = names[table->inputs[i]];
        bytes += strlen(kept[i]);
        good = rt_utf8_valid(kept[i]) && bytes <= MOST_NAME_BYTES;
    }
    if (good)
        status = rt_store_names(set->store, kept, table->input_count, &set->columns, err);
    free(kept);
    free(names);
    return status;
}
