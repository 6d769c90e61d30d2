/*
 * Labels: from the contents of a file to class numbers or target values. A file has classes as numbers 0 ..
 * n-1, or as texts; then the sorted texts are the class names, unless names are given.
 */
#ifndef RT_DATA_LABELS_H
#define RT_DATA_LABELS_H

#include "data/array.h"
#include "data/store.h"

/* Fills in the set's class names: those the wish knows, or those of a source's list `names` (may be NULL). */
rt_status rt_names_read(const struct rt_tree *names, const struct rt_data_wish *wish, struct rt_dataset *set,
                        struct rt_error *err);

/* Fills in classes or values, as the wish's target says, from an array with one row per example. */
rt_status rt_labels_read(const struct rt_array *labels, const char *name, const struct rt_data_wish *wish,
                         struct rt_dataset *set, struct rt_error *err);

/* A position in a text file. */
struct rt_text_position {
    const char *file;
    uint64_t line;
    size_t field; /* counted from 1 */
    size_t example;
};

/* The different labels seen so far in a text file. */
struct rt_label_book {
    struct rt_label *labels; /* sorted by text */
    size_t count, room;
};

void rt_book_free(struct rt_label_book *book);

/* Whether the label has been seen before. */
bool rt_book_has(const struct rt_label_book *book, const char *text);

/* The number of a label: its class when the set has class names, else a number for rt_book_finish. */
rt_status rt_book_number(struct rt_label_book *book, const char *text,
                         const struct rt_text_position *position, const struct rt_data_wish *wish,
                         const struct rt_dataset *set, int32_t *number, struct rt_error *err);

/* When the set has no class names: converts the numbers of the book to classes, and fills in the set's
 * classes, class count and, for text labels, names. file: for messages. */
rt_status rt_book_finish(struct rt_label_book *book, const char *file, const struct rt_data_wish *wish,
                         int32_t *numbers, size_t count, struct rt_dataset *set, struct rt_error *err);

/* The class of a text among the set's class names: one of the names, or a class number; -1 when it is
 * neither. */
int32_t rt_names_find(const struct rt_dataset *set, const char *text);

#endif
