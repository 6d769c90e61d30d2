/*
 * Converts the bytes of a stream to examples, one record at a time, in memory of fixed size: a window that
 * holds any valid record. Does not know where the bytes come from.
 */
#ifndef RT_DATA_STREAM_RECORD_H
#define RT_DATA_STREAM_RECORD_H

#include "data/csv_table.h"
#include "data/dataset.h"

enum rt_record_format { RT_RECORD_CSV, RT_RECORD_F32 };

struct rt_record_settings {
    enum rt_record_format format;
    const char *name; /* of the stream, for messages; borrowed */
    enum rt_target target;
    size_t inputs, outputs;
    const struct rt_dataset *names; /* has the names of the classes, or none; borrowed */
    /* CSV only: */
    bool label_first;
    char separator[8]; /* as for rt_csv_begin */
    uint64_t skip;     /* lines */
};

/* Where to store an example; pointers that the target does not need may be NULL. */
struct rt_example {
    float *inputs;  /* [inputs] */
    int32_t *class; /* one */
    float *values;  /* [outputs] */
};

struct rt_decoder {
    struct rt_record_settings settings;
    size_t targets;  /* numbers of a record that are no inputs */
    size_t longest;  /* bytes that a record may have */
    uint64_t count;  /* examples so far */
    uint64_t offset; /* of the first byte of the window that is not used up, in the stream */
    uint8_t *window;
    size_t room, begin, end; /* bytes begin .. end-1 wait */

    /* CSV */
    uint64_t line;   /* lines so far */
    size_t searched; /* of the waiting bytes, known to hold no line end */
    bool begun;      /* the separator is known */
    struct rt_input input;
    struct rt_table *table; /* one line is a table of one record */
};

rt_status rt_decoder_create(const struct rt_record_settings *settings, struct rt_decoder **decoder,
                            struct rt_error *err);
void rt_decoder_destroy(struct rt_decoder *decoder); /* NULL is fine */

/* Room for more bytes, at least one; the caller reports them by rt_decoder_add. Only when rt_decoder_next has
 * found nothing more. */
uint8_t *rt_decoder_space(struct rt_decoder *decoder, size_t *room);
void rt_decoder_add(struct rt_decoder *decoder, size_t bytes);

/* The next example; *found is false when more bytes are needed or, with `ended`, at the end. An invalid
 * record is an error with its line, or its number and offset, and ends the stream. */
rt_status rt_decoder_next(struct rt_decoder *decoder, bool ended, const struct rt_example *example,
                          bool *found, struct rt_error *err);

/* The formats: *used bytes of the waiting ones were consumed, 0 when there are too few. */
rt_status rt_decoder_csv(struct rt_decoder *decoder, bool ended, const struct rt_example *example,
                         size_t *used, bool *found, struct rt_error *err);
rt_status rt_decoder_f32(struct rt_decoder *decoder, bool ended, const struct rt_example *example,
                         size_t *used, bool *found, struct rt_error *err);

#endif
