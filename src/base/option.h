/*
 * Option tables. Every setting (layers, optimizers, sections of the run file, strategies) is described once,
 * in a table: it reads the value, checks its range, gives the default, and prints the help.
 */
#ifndef RT_BASE_OPTION_H
#define RT_BASE_OPTION_H

#include "base/tree.h"
#include <stdint.h>
#include <stdio.h>

enum rt_option_kind {
    RT_OPTION_INT,    /* int64_t */
    RT_OPTION_REAL,   /* double */
    RT_OPTION_BOOL,   /* bool: true or false */
    RT_OPTION_TEXT,   /* const char *, borrowed from the tree or from the table; NULL when absent */
    RT_OPTION_CHOICE, /* int: index into choices */
    RT_OPTION_TREE, /* const struct rt_tree *, borrowed; NULL when absent: for values with their own reader */
};

struct rt_option {
    const char *name;
    enum rt_option_kind kind;
    size_t offset; /* of the field in the settings struct */
    const char
        *fallback; /* default, written as in the run file; NULL: must be given (TREE, TEXT: may be absent) */
    double min, max;            /* inclusive range of INT and REAL; both 0: any */
    const char *const *choices; /* NULL-terminated, for CHOICE */
    const char *help;           /* one line, without the default: that is added */
    const char
        *auto_word; /* a word that may stand instead of a number ("auto", "all") and reads as -1; or NULL */
    const char *alias; /* an old name that rt_options_rename still accepts; or NULL */
};

/* Renames the keys of a map that are old names of options. Old and new name in one map: an error, or, with
 * replace, the old one counts. *renamed: an option that was renamed; unchanged if none was. map may be NULL;
 * anything but a map is left alone. */
rt_status rt_options_rename(const struct rt_option *options, size_t count, struct rt_tree *map, bool replace,
                            const struct rt_option **renamed, struct rt_error *err);

/* Reads a map into settings (of the struct the offsets refer to). Unknown keys, wrong kinds and values out
 * of range are errors that name file, line and the nearest valid key. what names the owner in messages
 * ("dense", "train"). tree NULL means all defaults. A scalar tree sets the option called main_option (if
 * not NULL), so that "dense: 128" means "dense: {units: 128}". */
rt_status rt_options_read(const struct rt_option *options, size_t count, const char *main_option,
                          const struct rt_tree *tree, const char *what, void *settings, struct rt_error *err);

/* One line per option: name, help, default. */
void rt_options_help(FILE *out, const struct rt_option *options, size_t count, const char *indent);

/* The candidate nearest to word by edit distance, or NULL when none is close. names is NULL-terminated. */
const char *rt_nearest(const char *word, const char *const *names);

/* The value of a number, boolean or choice option as a run file would have it; "" for texts and trees. Reads
 * back as the same value. Returns text. */
enum { RT_OPTION_TEXT_ROOM = 64 };
const char *rt_option_text(const struct rt_option *option, const void *settings,
                           char text[RT_OPTION_TEXT_ROOM]);

/* The shortest of 15 to 17 digits that reads back as the same number, with a point in every locale. */
enum { RT_REAL_ROOM = 48 };
const char *rt_real_text(double value, char text[RT_REAL_ROOM]);

/* Strict numbers: the whole text, no locale, no overflow; false if the text is not such a number. */
bool rt_parse_int(const char *text, int64_t *value);
bool rt_parse_real(const char *text, double *value);
/* A hint to append to the message about a text that is nearly a number ("0,5", "1/255"): "; ..." or "". */
const char *rt_number_hint(const char *text);
/* A rate in bits per second, as 100M, 1G or 1T, where K is a thousand; returned in bytes per second. And a
 * time, as 1ms, 200us or 0.5s; a number alone is in seconds. Neither may be negative. */
bool rt_parse_rate(const char *text, double *bytes_per_second);
bool rt_parse_duration(const char *text, double *seconds);
/* A size in bytes: a whole number with K, M, G or T, as 512M; a number alone is in units of `alone` bytes, a
 * power of two. */
bool rt_parse_size(const char *text, uint64_t alone, uint64_t *bytes);

#endif
