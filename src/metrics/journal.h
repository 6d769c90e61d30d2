/* journal.jsonl: one JSON object per line and event, flushed at once, so that it survives a crash. */
#ifndef RT_METRICS_JOURNAL_H
#define RT_METRICS_JOURNAL_H

#include "base/status.h"
#include <stdint.h>

struct rt_journal; /* NULL, for a run without files, is one that nothing is written to */

/* append: continue an existing journal (resume); a torn last line of it is cut off. */
rt_status rt_journal_open(const char *path, bool append, struct rt_journal **journal, struct rt_error *err);
void rt_journal_close(struct rt_journal *journal);

/* A field of an event: exactly one of the makers below. NaN and infinities are written as null. */
struct rt_field {
    const char *name;
    enum { RT_FIELD_REAL, RT_FIELD_INT, RT_FIELD_TEXT, RT_FIELD_NULL } kind;
    double real;
    int64_t integer;
    const char *text;
};
#define RT_REAL(name_, value_) ((struct rt_field){.name = (name_), .kind = RT_FIELD_REAL, .real = (value_)})
#define RT_INT(name_, value_)                                                                                \
    ((struct rt_field){.name = (name_), .kind = RT_FIELD_INT, .integer = (int64_t)(value_)})
#define RT_TEXT(name_, value_) ((struct rt_field){.name = (name_), .kind = RT_FIELD_TEXT, .text = (value_)})

/* Writes {"event": event, "t": seconds since the journal was opened, ...fields}. An event that cannot be
 * written is missing; later ones are tried again, each a whole line. */
void rt_journal_write(struct rt_journal *journal, const char *event, const struct rt_field *fields,
                      size_t count);

/* RT_OK, or why the event that came last could not be written (a full disk). */
rt_status rt_journal_status(const struct rt_journal *journal, struct rt_error *err);
/* Events that could not be written so far. */
uint64_t rt_journal_missing(const struct rt_journal *journal);

/* The whole number that a field had last, near the end of a journal that nobody writes to; UINT64_MAX: none,
 * or the file cannot be read. */
uint64_t rt_journal_last(const char *path, const char *field);

#endif
