/*
 * The records of a CSV text: fields between separators, quoted if they contain one, lines ended by LF or
 * CRLF. Does not interpret fields.
 */
#ifndef RT_DATA_CSV_SCAN_H
#define RT_DATA_CSV_SCAN_H

#include "data/input.h"
#include "data/store.h"

enum { RT_CSV_CHUNK = 1 << 16 };

struct rt_csv {
    struct rt_input *input;
    char separator; /* ' ': runs of blanks and tabs are one separator */
    uint64_t line;  /* where the record begins, counted from 1 */
    size_t fields;  /* in the record */

    struct rt_buffer text;   /* the fields, each ended by a zero */
    struct rt_buffer starts; /* size_t: where each begins */
    uint64_t next_line;
    uint8_t chunk[RT_CSV_CHUNK];
    size_t at, bytes; /* of the chunk */
};

/* Starts after `skip` lines. separator: one character, "tab", "space", or "auto": the first line decides. */
rt_status rt_csv_begin(struct rt_csv *csv, struct rt_input *input, const char *separator, uint64_t skip,
                       struct rt_error *err);
void rt_csv_end(struct rt_csv *csv);

/* The next record that is not blank; *more is false at the end. */
rt_status rt_csv_next(struct rt_csv *csv, bool *more, struct rt_error *err);

/* A field of the record, valid until the next. */
static inline const char *rt_csv_field(const struct rt_csv *csv, size_t i) {
    return (const char *)csv->text.data + ((const size_t *)csv->starts.data)[i];
}

#endif
