/*
 * The columns of a table by the names that a model, or the training data, have for its inputs. A table in
 * another order, or with more columns, gives the same inputs; a table that lacks a name is refused, because
 * numbers from the wrong column cannot be recognised later.
 */
#ifndef RT_DATA_CSV_MATCH_H
#define RT_DATA_CSV_MATCH_H

#include "data/csv_table.h"

/* Selects as inputs of a table with a header the columns that the wish names, if it names any. chosen: the
 * user has given the columns one by one, and only their names are compared. remark: a sentence if the columns
 * were not taken in the order of the table, else "". */
rt_status rt_csv_match(struct rt_table *table, const struct rt_data_wish *wish, bool chosen, char *remark,
                       size_t room, struct rt_error *err);

/* Keeps the names of the inputs in the set, where the table has a header of UTF-8 of moderate length. */
rt_status rt_csv_keep_names(const struct rt_table *table, struct rt_dataset *set, struct rt_error *err);

#endif
