#include "cli/fit.h"

#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* The largest number of columns, and of characters in a line; columns beyond it are joined, characters
 * cut. */
enum { MOST_COLUMNS = 32, MOST_WIDTH = 512 };

struct column {
    size_t start, end; /* characters: from the end of the column before, so that its gap is its own */
};

static bool fit_starts_character(char c) {
    return ((unsigned char)c & 0xc0) != 0x80;
}

static size_t fit_line_bytes(const char *line) {
    return strcspn(line, "\n");
}

static size_t fit_width(const char *line) {
    size_t width = 0;
    for (const char *end = line + fit_line_bytes(line); line < end; line++)
        width += fit_starts_character(*line);
    return width;
}

static const char *fit_next_line(const char *line) {
    line += fit_line_bytes(line);
    return *line ? line + 1 : line;
}

static bool fit_is_row(const char *line) {
    const char *end = line + fit_line_bytes(line);
    while (line < end && *line == ' ')
        line++;
    for (; line + 1 < end; line++)
        if (line[0] == ' ' && line[1] == ' ')
            return true;
    return false;
}

/* Marks the characters that are used in some line of a table. */
static size_t fit_mark_used(const char *text, const char *end, bool used[MOST_WIDTH]) {
    size_t widest = 0;
    for (; text < end; text = fit_next_line(text)) {
        const size_t bytes = fit_line_bytes(text);
        size_t at = 0;
        for (size_t i = 0; i < bytes && at < MOST_WIDTH; i++) {
            if (!fit_starts_character(text[i]))
                continue;
            used[at] |= text[i] != ' ';
            at++;
        }
        widest = at > widest ? at : widest;
    }
    return widest;
}

/* Columns are separated by two spaces in every line. */
static size_t fit_find_columns(const char *text, const char *end, struct column *columns) {
    bool used[MOST_WIDTH] = {false};
    const size_t width = fit_mark_used(text, end, used);
    size_t count = 0, from = 0;
    for (size_t at = 0; at < width; at++) {
        const bool ends =
            used[at] && (at + 1 >= width || (!used[at + 1] && (at + 2 >= width || !used[at + 2])));
        if (!ends || (count + 1 == MOST_COLUMNS && at + 1 < width))
            continue;
        columns[count++] = (struct column){from, at + 1};
        from = at + 1;
    }
    return count;
}

/* Characters start..end of a line, padded with spaces. */
static void fit_put_part(FILE *out, const char *line, size_t start, size_t end, size_t *held) {
    const size_t bytes = fit_line_bytes(line);
    size_t at = 0;
    for (size_t i = 0; i < bytes; i++) {
        at += fit_starts_character(line[i]);
        if (at <= start || at > end)
            continue;
        if (line[i] == ' ') { /* spaces at the end of a line are not printed */
            ++*held;
            continue;
        }
        fprintf(out, "%*s", (int)*held, "");
        *held = 0;
        fputc(line[i], out);
    }
    for (at = at > start ? at : start; at < end; at++)
        ++*held;
}

static size_t fit_put_table(FILE *out, const char *text, const char *end, size_t width, bool first) {
    struct column columns[MOST_COLUMNS];
    const size_t count = fit_find_columns(text, end, columns);
    size_t lines = 0;
    if (count == 0)
        return 0;
    for (size_t from = 1, to; from == 1 || from < count; from = to) {
        size_t used = columns[0].end;
        for (to = from; to < count && used + columns[to].end - columns[to].start <= width; to++)
            used += columns[to].end - columns[to].start;
        to += to == from; /* one that is too wide alone is cut */
        if (lines && first)
            break;
        for (const char *line = text; line < end; line = fit_next_line(line)) {
            size_t left = width, held = 0;
            for (size_t k = 0; k < to && k < count; k = k ? k + 1 : from) {
                const size_t wide = columns[k].end - columns[k].start, fits = wide < left ? wide : left;
                fit_put_part(out, line, columns[k].start, columns[k].start + fits, &held);
                left -= fits;
            }
            fputc('\n', out);
            lines++;
        }
    }
    return lines;
}

size_t rt_fit_print(FILE *out, const char *text, size_t width, bool first) {
    size_t lines = 0;
    while (*text) {
        const char *end = text;
        bool wide = false;
        for (; *end && fit_is_row(end); end = fit_next_line(end))
            wide |= fit_width(end) > width;
        if (wide) {
            lines += fit_put_table(out, text, end, width, first);
            text = end;
            continue;
        }
        end = end == text ? fit_next_line(text) : end;
        for (; text < end; text = fit_next_line(text), lines++)
            fprintf(out, "%.*s\n", (int)fit_line_bytes(text), text);
    }
    return lines;
}

void rt_fit_screen(size_t *columns, size_t *rows) {
    struct winsize size;
    const bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0;
    *columns = known && size.ws_col > 0 ? size.ws_col : SIZE_MAX;
    *rows = known && size.ws_row > 0 ? size.ws_row : SIZE_MAX;
}

size_t rt_fit_width(void) {
    size_t columns, rows;
    rt_fit_screen(&columns, &rows);
    return columns;
}
