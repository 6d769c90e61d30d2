/*
 * The journal writer. An event is put together in memory and written with one system call, so that a
 * crash leaves whole lines, and a full disk at most one torn one, which is cut off again before anything
 * else is written.
 */
#include "metrics/journal.h"
#include "base/clock.h"
#include "base/memory.h"
#include "base/option.h"
#include "base/utf8.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct rt_journal {
    int file;
    char *path;
    double start;
    char *line; /* the event being written; kept between events */
    size_t used, room;
    bool torn;               /* the file ends within a line, which could not be cut off yet */
    struct rt_error failure; /* of the event that came last; status RT_OK: it is there */
    uint64_t missing;        /* events that could not be written */
};

/* ---- putting a line together ---- */

static void journal_put(struct rt_journal *journal, const char *text, size_t bytes) {
    if (journal->failure.status != RT_OK)
        return;
    if (bytes > journal->room - journal->used) {
        size_t room = journal->room;
        while (bytes > room - journal->used)
            room *= 2;
        char *line = realloc(journal->line, room);
        if (!line) {
            rt_fail(&journal->failure, RT_NO_MEMORY, "%s: no memory for a line of %zu bytes", journal->path,
                    room);
            return;
        }
        journal->line = line;
        journal->room = room;
    }
    memcpy(journal->line + journal->used, text, bytes);
    journal->used += bytes;
}

static void journal_put_text(struct rt_journal *journal, const char *text) {
    journal_put(journal, text, strlen(text));
}

static void journal_put_string(struct rt_journal *journal, const char *string) {
    journal_put_text(journal, "\"");
    for (const char *at = string; *at;) {
        uint32_t code;
        size_t length = rt_utf8_decode(at, &code);
        if (length == 0 || code < 0x20 || code == 0x7f) {
            char escape[8];
            snprintf(escape, sizeof escape, "\\u%04x", length ? (unsigned)code : 0xfffdu);
            journal_put_text(journal, escape);
        } else {
            if (code == '"' || code == '\\')
                journal_put_text(journal, "\\");
            journal_put(journal, at, length);
        }
        at += length ? length : 1;
    }
    journal_put_text(journal, "\"");
}

static void journal_put_real(struct rt_journal *journal, double value) {
    char text[RT_REAL_ROOM];
    journal_put_text(journal, isfinite(value) ? rt_real_text(value, text) : "null");
}

static void journal_put_field(struct rt_journal *journal, const struct rt_field *field) {
    journal_put_text(journal, ", ");
    journal_put_string(journal, field->name);
    journal_put_text(journal, ": ");
    char text[32];
    switch (field->kind) {
    case RT_FIELD_REAL:
        journal_put_real(journal, field->real);
        return;
    case RT_FIELD_INT:
        snprintf(text, sizeof text, "%" PRId64, field->integer);
        journal_put_text(journal, text);
        return;
    case RT_FIELD_TEXT:
        if (field->text) {
            journal_put_string(journal, field->text);
            return;
        }
        break;
    case RT_FIELD_NULL:
        break;
    }
    journal_put_text(journal, "null");
}

/* ---- the file ---- */

/* Cuts the file after its last newline. */
static int journal_cut_torn_line(int file) {
    struct stat info;
    if (fstat(file, &info) != 0)
        return -1;
    if (!S_ISREG(info.st_mode))
        return 0;
    off_t end = info.st_size;
    char block[4096];
    while (end > 0) {
        off_t begin = end > (off_t)sizeof block ? end - (off_t)sizeof block : 0;
        ssize_t got = pread(file, block, (size_t)(end - begin), begin);
        if (got < 0 && errno == EINTR)
            continue;
        if (got != end - begin)
            return -1;
        while (got > 0 && block[got - 1] != '\n')
            got--;
        end = begin + got;
        if (got > 0)
            break;
    }
    return end == info.st_size ? 0 : ftruncate(file, end);
}

rt_status rt_journal_open(const char *path, bool append, struct rt_journal **journal, struct rt_error *err) {
    enum { FIRST_ROOM = 4096 };
    struct rt_journal *made;
    rt_status status = rt_alloc(1, sizeof *made, "the journal", &made, err);
    if (status != RT_OK)
        return status;
    made->file = -1;
    made->room = FIRST_ROOM;
    made->start = rt_clock_wall();
    made->path = strdup(path);
    made->line = malloc(FIRST_ROOM);
    if (!made->path || !made->line) {
        rt_journal_close(made);
        return rt_fail(err, RT_NO_MEMORY, "%s: no memory for the journal", path);
    }
    made->file = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | (append ? 0 : O_TRUNC), 0666);
    if (made->file < 0 || (append && journal_cut_torn_line(made->file) != 0)) {
        int reason = errno;
        rt_journal_close(made);
        return rt_fail(err, RT_IO, "%s: cannot be opened for writing: %s", path, strerror(reason));
    }
    *journal = made;
    return RT_OK;
}

void rt_journal_close(struct rt_journal *journal) {
    if (!journal)
        return;
    if (journal->file >= 0)
        close(journal->file);
    free(journal->path);
    free(journal->line);
    free(journal);
}

static void journal_write_line(struct rt_journal *journal) {
    ssize_t wrote = -1;
    if (journal->torn)
        journal->torn = journal_cut_torn_line(journal->file) != 0;
    if (!journal->torn)
        do
            wrote = write(journal->file, journal->line, journal->used);
        while (wrote < 0 && errno == EINTR);
    if (wrote == (ssize_t)journal->used)
        return;
    const int reason = wrote < 0 ? errno : ENOSPC;
    rt_fail(&journal->failure, RT_IO, "%s: cannot be written: %s", journal->path, strerror(reason));
    if (wrote > 0)
        journal->torn = journal_cut_torn_line(journal->file) != 0;
}

void rt_journal_write(struct rt_journal *journal, const char *event, const struct rt_field *fields,
                      size_t count) {
    if (!journal)
        return;
    journal->used = 0;
    journal->failure.status = RT_OK;
    journal_put_text(journal, "{\"event\": ");
    journal_put_string(journal, event);
    journal_put_text(journal, ", \"t\": ");
    char seconds[40];
    double passed = rt_clock_wall() - journal->start;
    /* microseconds are plenty, and a time reads better with a fixed number of digits */
    int64_t micros = (int64_t)(passed * 1e6);
    snprintf(seconds, sizeof seconds, "%" PRId64 ".%06" PRId64, micros / 1000000, micros % 1000000);
    journal_put_text(journal, seconds);
    for (size_t i = 0; i < count; i++)
        journal_put_field(journal, &fields[i]);
    journal_put_text(journal, "}\n");
    if (journal->failure.status == RT_OK)
        journal_write_line(journal);
    journal->missing += journal->failure.status != RT_OK;
}

rt_status rt_journal_status(const struct rt_journal *journal, struct rt_error *err) {
    if (!journal)
        return RT_OK;
    if (journal->failure.status != RT_OK && err)
        *err = journal->failure;
    return journal->failure.status;
}

uint64_t rt_journal_missing(const struct rt_journal *journal) {
    return journal ? journal->missing : 0;
}

/* ---- reading ------------------------------------------------------------------------------------------- */

enum { JOURNAL_TAIL = 1 << 18 };

/* The end of a file, as text to be freed; NULL: it cannot be read. */
static char *journal_read_tail(const char *path) {
    FILE *file = fopen(path, "re");
    char *text = file ? calloc(1, JOURNAL_TAIL + 1) : NULL;
    if (text && fseek(file, -JOURNAL_TAIL, SEEK_END) != 0)
        rewind(file); /* it is shorter */
    if (text && fread(text, 1, JOURNAL_TAIL, file) == 0) {
        free(text);
        text = NULL;
    }
    if (file)
        fclose(file);
    return text;
}

uint64_t rt_journal_last(const char *path, const char *field) {
    char key[64];
    char *text = journal_read_tail(path);
    uint64_t value = UINT64_MAX;
    snprintf(key, sizeof key, ", \"%s\": ", field); /* in a text the quotes are escaped */
    for (const char *at = text; at && (at = strstr(at, key));) {
        char *end;
        at += strlen(key);
        const uint64_t found = strtoull(at, &end, 10);
        if (*at >= '0' && *at <= '9' && (*end == ',' || *end == '}'))
            value = found;
    }
    free(text);
    return value;
}
