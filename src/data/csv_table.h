/*
 * A CSV file as a table: which columns are inputs, which are targets, whether there is a header, and the
 * numbers of one record after another.
 */
#ifndef RT_DATA_CSV_TABLE_H
#define RT_DATA_CSV_TABLE_H

#include "base/option.h"
#include "data/csv_scan.h"
#include "data/labels.h"

enum rt_csv_header { RT_HEADER_AUTO, RT_HEADER_YES, RT_HEADER_NO };

/* Which columns are meant. A column is named by its header, or by its number: from 0, or from the end with
 * -1, -2, ... */
struct rt_columns {
    const struct rt_tree *inputs;  /* a list; NULL: all that are not targets */
    const struct rt_tree *targets; /* a list or a single one; NULL: see the next */
    bool last_is_target;           /* when targets is NULL: the last column */
    bool all_are_targets;          /* when targets is NULL: every column, and there are no inputs */
    bool text_targets;             /* targets may be text: they do not tell a header from data */
};

struct rt_table {
    struct rt_input *input;
    struct rt_csv csv;
    bool pending; /* the record in csv has not been given out yet */
    size_t columns;
    bool has_header;
    char *names;    /* of the columns, one after another, when has_header */
    size_t *inputs; /* which columns */
    size_t input_count;
    size_t *targets;
    size_t target_count;
};

/* Opens the table before its first example. header: enum rt_csv_header. */
rt_status rt_table_open(struct rt_input *input, const char *separator, uint64_t skip, int header,
                        const struct rt_columns *columns, struct rt_table **table, struct rt_error *err);
void rt_table_close(struct rt_table *table); /* NULL is fine; the input stays the caller's */

/* The names of all columns, where there is a header; the list is to be freed, the names are the table's. */
rt_status rt_table_names(const struct rt_table *table, const char ***names, struct rt_error *err);

/* Goes to the next example; *more is false at the end. */
rt_status rt_table_next(struct rt_table *table, bool *more, struct rt_error *err);

/* The position of a field, for messages; the caller sets example. */
struct rt_text_position rt_table_position(const struct rt_table *table, size_t column);

/* A field of this example as a number; refuses a missing value, text, NaN and infinity. */
rt_status rt_table_number(const struct rt_table *table, size_t column, float *number, struct rt_error *err);

/* The same for a target, which may be one of the set's class names; then the result is the number of the
 * class. */
rt_status rt_table_value(const struct rt_table *table, size_t column, const struct rt_dataset *set,
                         float *value, struct rt_error *err);

/* Refuses a missing value. */
rt_status rt_table_text(const struct rt_table *table, size_t column, const char **text, struct rt_error *err);

/* Refuses a text that cannot be the name of a class: invalid UTF-8, or a word for a missing value (NA). */
rt_status rt_table_check_label(const struct rt_table *table, size_t column, struct rt_error *err);

#endif
