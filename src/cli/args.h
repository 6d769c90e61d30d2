/*
 * Command lines. A command is a table: its options, its operands, its help. The same table reads the command
 * line and prints the help, so the two cannot differ.
 */
#ifndef RT_CLI_ARGS_H
#define RT_CLI_ARGS_H

#include "base/status.h"
#include <stdint.h>
#include <stdio.h>

enum rt_arg_kind {
    RT_ARG_SWITCH, /* bool; takes no value */
    RT_ARG_TEXT,   /* const char *; NULL when neither given nor defaulted */
    RT_ARG_COUNT,  /* int64_t, 0 or more; -1 when neither given nor defaulted */
    RT_ARG_WORDS,  /* struct rt_words; may be given several times */
};

/* Words from the command line, in order. */
struct rt_words {
    const char **items;
    size_t count;
};

struct rt_arg {
    const char *name;  /* with its dashes */
    const char *value; /* what the help calls its value: "N", "FILE" */
    enum rt_arg_kind kind;
    bool alone;                 /* SWITCH: needs no operands beside it */
    size_t offset;              /* of the field in the command's settings */
    const char *const *choices; /* TEXT: the allowed values, NULL-terminated; or NULL */
    const char *fallback;       /* the default, as one would type it; or NULL */
    const char *default_help;   /* what to say of the default instead; or NULL */
    const char *help;
};

enum { RT_MAX_OPERANDS = 2 };

/* The arguments of a command. */
struct rt_invocation {
    const char *program; /* as typed */
    int argc;            /* the words after the command's name */
    char **argv;
    double start;         /* rt_clock_wall() when the process began */
    const void *settings; /* of the command's own struct */
    struct rt_words operands;
};

struct rt_command {
    const char *name;
    const char *summary; /* one line for the list of commands */
    const char *details; /* what a newcomer should know; lines ready to print */
    const char *examples;
    const char *operands[RT_MAX_OPERANDS + 1]; /* their names in the help; all must be given */
    const struct rt_arg *args;
    size_t arg_count;
    size_t settings_bytes;
    const char *unknown_hint;                           /* added when an option is unknown; or NULL */
    int (*run)(const struct rt_invocation *invocation); /* returns the exit status */
};

/* Reads the words into settings (settings_bytes, zeroed) and operands. *help is set for --help; then nothing
 * else was checked. rt_args_deinit frees what the words need, also after a failure. */
rt_status rt_args_parse(const struct rt_command *command, int argc, char **argv, void *settings,
                        struct rt_words *operands, bool *help, struct rt_error *err);
void rt_args_deinit(const struct rt_command *command, void *settings, struct rt_words *operands);

void rt_args_help(FILE *out, const char *program, const struct rt_command *command);

#endif
