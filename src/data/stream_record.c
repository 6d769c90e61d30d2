/* The window on a stream's bytes; see stream_record.h. */
#include "data/stream_record.h"

#include "base/memory.h"
#include <stdlib.h>
#include <string.h>

enum { READ_BYTES = 1 << 16, FIELD_BYTES = 64, LINE_BYTES = 4096 };
enum { MOST_VALUES = 1 << 20 }; /* of an example: the same as in a line of CSV */

/* No line is longer, unless its numbers have dozens of digits each. */
static size_t decoder_longest_record(const struct rt_decoder *decoder) {
    size_t values = decoder->settings.inputs + decoder->targets;
    return decoder->settings.format == RT_RECORD_F32 ? sizeof(uint32_t) + values * sizeof(float)
                                                     : LINE_BYTES + values * FIELD_BYTES;
}

/* A line of n bytes has at most n + 1 fields, each ended by a zero: with that much room the scanner never
 * asks for more memory. */
static rt_status decoder_create_table(struct rt_decoder *decoder, struct rt_error *err) {
    rt_status status = rt_alloc(1, sizeof *decoder->table, "a stream", &decoder->table, err);
    if (status != RT_OK)
        return status;
    struct rt_table *table = decoder->table;
    size_t most = decoder->longest + 1;
    void *place;
    table->input = table->csv.input = &decoder->input;
    status = rt_buffer_reserve(&table->csv.text, 2 * most, "a stream", &place, err);
    if (status == RT_OK)
        status = rt_buffer_reserve(&table->csv.starts, most * sizeof(size_t), "a stream", &place, err);
    return status;
}

rt_status rt_decoder_create(const struct rt_record_settings *settings, struct rt_decoder **decoder,
                            struct rt_error *err) {
    struct rt_decoder *made;
    size_t targets = settings->target == RT_TARGET_INPUT     ? 0
                     : settings->target == RT_TARGET_CLASSES ? 1
                                                             : settings->outputs;
    if (settings->inputs > MOST_VALUES || targets > MOST_VALUES - settings->inputs)
        return rt_fail(err, RT_BAD_INPUT, "%s: an example of a stream has at most %d values", settings->name,
                       MOST_VALUES);
    rt_status status = rt_alloc(1, sizeof *made, "a stream", &made, err);
    if (status != RT_OK)
        return status;
    made->settings = *settings;
    made->targets = targets;
    made->longest = decoder_longest_record(made);
    made->room = made->longest + READ_BYTES;
    made->input.name = settings->name;
    status = rt_alloc(made->room, 1, "a stream", &made->window, err);
    if (status == RT_OK && settings->format == RT_RECORD_CSV)
        status = decoder_create_table(made, err);
    if (status == RT_OK)
        *decoder = made;
    else
        rt_decoder_destroy(made);
    return status;
}

void rt_decoder_destroy(struct rt_decoder *decoder) {
    if (!decoder)
        return;
    rt_table_close(decoder->table);
    free(decoder->window);
    free(decoder);
}

uint8_t *rt_decoder_space(struct rt_decoder *decoder, size_t *room) {
    size_t waiting = decoder->end - decoder->begin;
    if (decoder->begin > 0 && waiting > 0)
        memmove(decoder->window, decoder->window + decoder->begin, waiting);
    decoder->begin = 0;
    decoder->end = waiting;
    *room = decoder->room - waiting;
    return decoder->window + waiting;
}

void rt_decoder_add(struct rt_decoder *decoder, size_t bytes) {
    decoder->end += bytes;
}

rt_status rt_decoder_next(struct rt_decoder *decoder, bool ended, const struct rt_example *example,
                          bool *found, struct rt_error *err) {
    *found = false;
    for (size_t used = 1; used && !*found;) {
        rt_status status = decoder->settings.format == RT_RECORD_CSV
                               ? rt_decoder_csv(decoder, ended, example, &used, found, err)
                               : rt_decoder_f32(decoder, ended, example, &used, found, err);
        if (status != RT_OK)
            return status;
        decoder->begin += used;
        decoder->offset += used;
        decoder->count += *found;
    }
    return RT_OK;
}
