/* Cuts a CSV text into records and fields; see csv_scan.h. Fields follow RFC 4180; blanks around an unquoted
 * field are removed. */
#include "data/csv_scan.h"

#include <inttypes.h>
#include <string.h>

/* No sensible record is longer: beyond this a quote is missing, or the file is not text. */
enum { MAX_RECORD = 64 << 20 };
enum { MAX_FIELDS = 1 << 20 };
enum { END = -1 };

/* Reads more input and keeps the unused bytes. At the end of the input, bytes may stay equal to at. */
static rt_status csv_scan_fill(struct rt_csv *csv, struct rt_error *err) {
    size_t kept = csv->bytes - csv->at, got;
    memmove(csv->chunk, csv->chunk + csv->at, kept);
    csv->at = 0;
    csv->bytes = kept;
    rt_status status = rt_input_read(csv->input, csv->chunk + kept, sizeof csv->chunk - kept, &got, err);
    if (status == RT_OK)
        csv->bytes += got;
    return status;
}

/* The next character without consuming it, or END. */
static inline rt_status csv_scan_peek(struct rt_csv *csv, int *c, struct rt_error *err) {
    if (csv->at == csv->bytes) {
        rt_status status = csv_scan_fill(csv, err);
        if (status != RT_OK)
            return status;
    }
    *c = csv->at < csv->bytes ? csv->chunk[csv->at] : END;
    return RT_OK;
}

static bool csv_scan_is_blank(int c) {
    return c == ' ' || c == '\t' || c == '\r';
}

/* Blank, and not the separator. */
static bool csv_scan_is_padding(const struct rt_csv *csv, int c) {
    return csv_scan_is_blank(c) && (csv->separator == ' ' || c != csv->separator);
}

static char csv_scan_guess_separator(struct rt_csv *csv) {
    bool quoted = false, seen = false, tab = false, semicolon = false, comma = false, blank = false,
         gap = false;
    for (size_t i = csv->at; i < csv->bytes; i++) {
        uint8_t c = csv->chunk[i];
        if (c == '\n' && !quoted && seen)
            break;
        if (c == '"')
            quoted = !quoted;
        blank = blank || (seen && gap && c > ' ');
        seen = seen || c > ' ';
        gap = c == ' ' && !quoted;
        tab = tab || (c == '\t' && !quoted && seen);
        semicolon = semicolon || (c == ';' && !quoted);
        comma = comma || (c == ',' && !quoted);
    }
    return tab ? '\t' : semicolon ? ';' : comma ? ',' : blank ? ' ' : ',';
}

rt_status rt_csv_begin(struct rt_csv *csv, struct rt_input *input, const char *separator, uint64_t skip,
                       struct rt_error *err) {
    csv->input = input;
    csv->text = csv->starts = (struct rt_buffer){0};
    csv->at = csv->bytes = csv->fields = 0;
    csv->line = csv->next_line = 1;
    rt_status status = csv_scan_fill(csv, err);
    if (status == RT_OK && csv->bytes >= 3 && memcmp(csv->chunk, "\xef\xbb\xbf", 3) == 0)
        csv->at = 3; /* a byte-order mark, as some programs write */
    while (status == RT_OK && csv->next_line <= skip) {
        int c = END;
        status = csv_scan_peek(csv, &c, err);
        if (status != RT_OK)
            return status;
        if (c == END)
            return rt_fail(err, RT_BAD_INPUT, "%s: has fewer lines than the %" PRIu64 " to skip", input->name,
                           skip);
        csv->at++;
        csv->next_line += c == '\n';
    }
    if (status == RT_OK)
        status = csv_scan_fill(csv, err);
    csv->separator = strcmp(separator, "tab") == 0     ? '\t'
                     : strcmp(separator, "space") == 0 ? ' '
                     : strcmp(separator, "auto") == 0  ? csv_scan_guess_separator(csv)
                                                       : separator[0];
    return status;
}

void rt_csv_end(struct rt_csv *csv) {
    rt_buffer_free(&csv->text);
    rt_buffer_free(&csv->starts);
}

static rt_status csv_scan_begin_field(struct rt_csv *csv, struct rt_error *err) {
    size_t start = csv->text.bytes;
    if (csv->fields == MAX_FIELDS)
        return rt_fail(err, RT_BAD_INPUT,
                       "%s:%" PRIu64
                       ": this line has more than %d fields; is it CSV, and does it have line ends?",
                       csv->input->name, csv->line, MAX_FIELDS);
    csv->fields++;
    return rt_buffer_add(&csv->starts, &start, sizeof start, "a record", err);
}

static rt_status csv_scan_add_char(struct rt_csv *csv, char c, struct rt_error *err) {
    if (csv->text.bytes < csv->text.room) { /* nearly always: growing is the rest */
        ((char *)csv->text.data)[csv->text.bytes++] = c;
        return RT_OK;
    }
    if (csv->text.bytes >= MAX_RECORD)
        return rt_fail(err, RT_BAD_INPUT,
                       "%s:%" PRIu64
                       ": this line goes on for more than %d MiB; is it CSV, and is a quote missing?",
                       csv->input->name, csv->line, MAX_RECORD >> 20);
    return rt_buffer_add(&csv->text, &c, 1, "a record", err);
}

/* A field in quotes; the opening quote is consumed. */
static rt_status csv_scan_quoted_field(struct rt_csv *csv, struct rt_error *err) {
    uint64_t opened = csv->next_line;
    for (;;) {
        int c;
        rt_status status = csv_scan_peek(csv, &c, err);
        if (status == RT_OK && c == END)
            status =
                rt_fail(err, RT_BAD_INPUT, "%s:%" PRIu64 ":%zu: the quote that opens here is never closed",
                        csv->input->name, opened, csv->fields);
        if (status != RT_OK)
            return status;
        csv->at++;
        csv->next_line += c == '\n';
        if (c == '"') {
            status = csv_scan_peek(csv, &c, err);
            if (status != RT_OK || c != '"')
                return status;
            csv->at++;
        }
        status = c ? csv_scan_add_char(csv, (char)c, err) : RT_OK;
        if (!c)
            status = rt_fail(err, RT_BAD_INPUT, "%s:%" PRIu64 ": holds a zero byte: this is not a text file",
                             csv->input->name, csv->next_line);
        if (status != RT_OK)
            return status;
    }
}

static rt_status csv_scan_plain_field(struct rt_csv *csv, struct rt_error *err) {
    size_t start = csv->text.bytes;
    for (;;) {
        int c;
        rt_status status = csv_scan_peek(csv, &c, err);
        if (status != RT_OK)
            return status;
        if (c == END || c == '\n' || c == csv->separator || (csv->separator == ' ' && c == '\t'))
            break;
        if (c == 0)
            return rt_fail(err, RT_BAD_INPUT, "%s:%" PRIu64 ": holds a zero byte: this is not a text file",
                           csv->input->name, csv->next_line);
        csv->at++;
        status = csv_scan_add_char(csv, (char)c, err);
        if (status != RT_OK)
            return status;
    }
    while (csv->text.bytes > start && csv_scan_is_blank(((const char *)csv->text.data)[csv->text.bytes - 1]))
        csv->text.bytes--;
    return RT_OK;
}

static rt_status csv_scan_skip_padding(struct rt_csv *csv, int *c, struct rt_error *err) {
    rt_status status;
    while ((status = csv_scan_peek(csv, c, err)) == RT_OK && *c != END && csv_scan_is_padding(csv, *c))
        csv->at++;
    return status;
}

/* Reads one record, blank or not (*blank). */
static rt_status csv_scan_read_record(struct rt_csv *csv, bool *blank, struct rt_error *err) {
    bool any_quoted = false;
    int c;
    for (;;) {
        rt_status status = csv_scan_begin_field(csv, err);
        if (status == RT_OK)
            status = csv_scan_skip_padding(csv, &c, err);
        if (status != RT_OK)
            return status;
        bool quoted = c == '"';
        any_quoted = any_quoted || quoted;
        csv->at += quoted;
        status = quoted ? csv_scan_quoted_field(csv, err) : csv_scan_plain_field(csv, err);
        if (status == RT_OK)
            status = csv_scan_add_char(csv, 0, err);
        if (status == RT_OK)
            status = csv_scan_skip_padding(csv, &c, err);
        if (status != RT_OK)
            return status;
        if (c == END || c == '\n')
            break;
        if (csv->separator == ' ')
            continue;
        if (c != csv->separator)
            return rt_fail(err, RT_BAD_INPUT, "%s:%" PRIu64 ":%zu: text follows the closing quote",
                           csv->input->name, csv->next_line, csv->fields);
        csv->at++;
    }
    if (c == '\n') {
        csv->at++;
        csv->next_line++;
    }
    *blank = csv->fields == 1 && !any_quoted && !*rt_csv_field(csv, 0);
    return RT_OK;
}

rt_status rt_csv_next(struct rt_csv *csv, bool *more, struct rt_error *err) {
    for (bool blank = true; blank;) {
        int c;
        rt_status status = csv_scan_peek(csv, &c, err);
        if (status != RT_OK)
            return status;
        *more = c != END;
        if (!*more)
            return RT_OK;
        csv->text.bytes = csv->starts.bytes = csv->fields = 0;
        csv->line = csv->next_line;
        status = csv_scan_read_record(csv, &blank, err);
        if (status != RT_OK)
            return status;
    }
    return RT_OK;
}
