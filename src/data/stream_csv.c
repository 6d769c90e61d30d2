/*
 * Records of CSV: one line is one example, with the same fields, numbers and names as in a CSV file. The line
 * is cut out of the window first, so a line without end, or a quote that is never closed, is found after a
 * bounded number of bytes.
 */
#include "data/stream_record.h"

#include "base/sentence.h"
#include <inttypes.h>
#include <string.h>

/* The bytes of the next line with its end, or 0 when it is incomplete. */
static rt_status stream_csv_find_line(struct rt_decoder *decoder, bool ended, size_t *bytes,
                                      struct rt_error *err) {
    const uint8_t *data = decoder->window + decoder->begin;
    size_t waiting = decoder->end - decoder->begin;
    const uint8_t *newline = waiting > decoder->searched
                                 ? memchr(data + decoder->searched, '\n', waiting - decoder->searched)
                                 : NULL;
    size_t length = newline ? (size_t)(newline - data) + 1 : waiting;
    decoder->searched = newline ? 0 : waiting;
    *bytes = newline || ended ? length : 0;
    if (length > decoder->longest)
        return rt_fail(err, RT_BAD_INPUT,
                       "%s:%" PRIu64 ": this line has more than %s; is it CSV, and does it have line "
                       "ends?",
                       decoder->settings.name, decoder->line + 1, RT_COUNTED(decoder->longest, "byte"));
    return RT_OK;
}

static bool stream_csv_is_blank(const uint8_t *line, size_t bytes) {
    for (size_t i = 0; i < bytes; i++)
        if (line[i] != ' ' && line[i] != '\t' && line[i] != '\r' && line[i] != '\n')
            return false;
    return true;
}

/* Gives the scanner this line only; *more is false when it is blank. The first line determines the
 * separator. */
static rt_status stream_csv_scan(struct rt_decoder *decoder, const uint8_t *line, size_t bytes, bool *more,
                                 struct rt_error *err) {
    struct rt_csv *csv = &decoder->table->csv;
    rt_status status = RT_OK;
    decoder->input.data = line;
    decoder->input.bytes = bytes;
    decoder->input.at = 0;
    if (!decoder->begun) {
        struct rt_buffer text = csv->text, starts = csv->starts; /* rt_csv_begin clears them */
        status = rt_csv_begin(csv, &decoder->input, decoder->settings.separator, 0, err);
        csv->text = text;
        csv->starts = starts;
        decoder->begun = true;
    } else {
        csv->at = csv->bytes = 0;
    }
    csv->next_line = decoder->line;
    return status == RT_OK ? rt_csv_next(csv, more, err) : status;
}

static rt_status stream_csv_check_fields(const struct rt_decoder *decoder, struct rt_error *err) {
    const struct rt_record_settings *settings = &decoder->settings;
    size_t fields = decoder->table->csv.fields, expected = settings->inputs + decoder->targets;
    char targets[60] = "";
    if (fields == expected)
        return RT_OK;
    if (settings->target == RT_TARGET_CLASSES)
        snprintf(targets, sizeof targets, " and the class");
    else if (decoder->targets)
        snprintf(targets, sizeof targets, " and %s", RT_COUNTED(decoder->targets, "target value"));
    return rt_fail(err, RT_BAD_INPUT, "%s:%" PRIu64 ": this line has %s, but an example %zu (%s%s)",
                   settings->name, decoder->line, RT_COUNTED(fields, "field"), expected,
                   RT_COUNTED(settings->inputs, "input"), targets);
}

static rt_status stream_csv_read_class(const struct rt_decoder *decoder, size_t column, int32_t *class,
                                       struct rt_error *err) {
    const struct rt_dataset *names = decoder->settings.names;
    size_t outputs = decoder->settings.outputs;
    struct rt_text_position position = rt_table_position(decoder->table, column);
    const char *text;
    double number;
    rt_status status = rt_table_text(decoder->table, column, &text, err);
    if (status != RT_OK)
        return status;
    if (names->class_names) {
        *class = rt_names_find(names, text);
        return *class >= 0
                   ? RT_OK
                   : rt_fail(err, RT_BAD_INPUT, "%s:%" PRIu64 ":%zu: '%.60s' is not one of the class names",
                             position.file, position.line, position.field, text);
    }
    if (rt_parse_real(text, &number) && number >= 0 && number < (double)outputs && number < INT32_MAX &&
        (double)(int32_t)number == number) {
        *class = (int32_t)number;
        return RT_OK;
    }
    return rt_fail(err, RT_BAD_INPUT,
                   "%s:%" PRIu64 ":%zu: the class is '%.60s', but the model has %s: classes go "
                   "from 0 to %zu",
                   position.file, position.line, position.field, text, RT_COUNTED(outputs, "output"),
                   outputs - 1);
}

/* The first line of a file often names the columns. */
static void stream_csv_add_hint(const struct rt_decoder *decoder, struct rt_error *err) {
    if (decoder->count == 0)
        rt_fail_more(err, RT_BAD_INPUT, " (a stream has no header; `skip: %" PRIu64 "` leaves this line out)",
                     decoder->line);
}

static rt_status stream_csv_read_example(const struct rt_decoder *decoder, const struct rt_example *example,
                                         struct rt_error *err) {
    const struct rt_record_settings *settings = &decoder->settings;
    size_t first_input = settings->label_first ? decoder->targets : 0;
    size_t first_target = settings->label_first ? 0 : settings->inputs;
    rt_status status = stream_csv_check_fields(decoder, err);
    for (size_t i = 0; i < settings->inputs && status == RT_OK; i++) {
        status = rt_table_number(decoder->table, first_input + i, &example->inputs[i], err);
        if (status != RT_OK)
            stream_csv_add_hint(decoder, err);
    }
    if (status == RT_OK && settings->target == RT_TARGET_CLASSES)
        return stream_csv_read_class(decoder, first_target, example->class, err);
    for (size_t i = 0; i < decoder->targets && status == RT_OK; i++)
        status = rt_table_value(decoder->table, first_target + i, settings->names, &example->values[i], err);
    return status;
}

rt_status rt_decoder_csv(struct rt_decoder *decoder, bool ended, const struct rt_example *example,
                         size_t *used, bool *found, struct rt_error *err) {
    const uint8_t *line = decoder->window + decoder->begin;
    rt_status status = stream_csv_find_line(decoder, ended, used, err);
    if (status != RT_OK || *used == 0)
        return status;
    decoder->searched = 0;
    decoder->line++;
    /* A blank line does not show the separator. */
    if (decoder->line <= decoder->settings.skip || (!decoder->begun && stream_csv_is_blank(line, *used)))
        return RT_OK;
    bool more;
    status = stream_csv_scan(decoder, line, *used, &more, err);
    if (status == RT_OK && more) {
        status = stream_csv_read_example(decoder, example, err);
        *found = status == RT_OK;
    }
    return status;
}
