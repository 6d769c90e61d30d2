#include "cli/args.h"
#include "base/memory.h"
#include "base/option.h"
#include "base/sentence.h"
#include "formats/runfile.h"
#include <stdlib.h>
#include <string.h>

static void *args_field(const struct rt_arg *arg, void *settings) {
    return (char *)settings + arg->offset;
}

static rt_status args_add_word(struct rt_words *words, int room, const char *word, struct rt_error *err) {
    if (!words->items) {
        rt_status status =
            rt_alloc((size_t)room, sizeof *words->items, "the command line", &words->items, err);
        if (status != RT_OK)
            return status;
    }
    words->items[words->count++] = word;
    return RT_OK;
}

static rt_status args_fail_choice(const struct rt_arg *arg, const char *value, struct rt_error *err) {
    return rt_fail(err, RT_BAD_INPUT, "%s must be one of %s, not '%.100s'", arg->name,
                   RT_LISTED(arg->choices), value);
}

static rt_status args_set_value(const struct rt_arg *arg, const char *value, int room, void *settings,
                                struct rt_error *err) {
    switch (arg->kind) {
    case RT_ARG_SWITCH:
        *(bool *)args_field(arg, settings) = true;
        return RT_OK;
    case RT_ARG_TEXT:
        if (arg->choices) {
            size_t i = 0;
            while (arg->choices[i] && strcmp(arg->choices[i], value) != 0)
                i++;
            if (!arg->choices[i])
                return args_fail_choice(arg, value, err);
        }
        *(const char **)args_field(arg, settings) = value;
        return RT_OK;
    case RT_ARG_COUNT: {
        int64_t count;
        if (!rt_parse_int(value, &count) || count < 0)
            return rt_fail(err, RT_BAD_INPUT, "%s must be a whole number, 0 or more, not '%s'", arg->name,
                           value);
        *(int64_t *)args_field(arg, settings) = count;
        return RT_OK;
    }
    case RT_ARG_WORDS:
        return args_add_word(args_field(arg, settings), room, value, err);
    }
    return RT_OK;
}

static rt_status args_set_defaults(const struct rt_command *command, void *settings, struct rt_error *err) {
    for (size_t i = 0; i < command->arg_count; i++) {
        const struct rt_arg *arg = &command->args[i];
        if (arg->kind == RT_ARG_COUNT)
            *(int64_t *)args_field(arg, settings) = -1;
        if (arg->fallback) {
            rt_status status = args_set_value(arg, arg->fallback, 1, settings, err);
            if (status != RT_OK)
                return status;
        }
    }
    return RT_OK;
}

static const struct rt_arg *args_find(const struct rt_command *command, const char *word, size_t length) {
    for (size_t i = 0; i < command->arg_count; i++)
        if (strlen(command->args[i].name) == length && strncmp(command->args[i].name, word, length) == 0)
            return &command->args[i];
    return NULL;
}

static rt_status args_fail_unknown(const struct rt_command *command, const char *word, size_t length,
                                   struct rt_error *err) {
    const char *names[32] = {"help"};
    for (size_t i = 0; i < command->arg_count && i < 30; i++)
        names[i + 1] = command->args[i].name + 2;
    char typed[100];
    snprintf(typed, sizeof typed, "%.*s", (int)length, word);
    const char *near = rt_nearest(typed + strspn(typed, "-"), names);
    if (near)
        return rt_fail(err, RT_BAD_INPUT, "unknown option '%s'; did you mean '--%s'?", typed, near);
    /* A key of the run file, given as an option. */
    char name[sizeof typed], path[64];
    strcpy(name, typed + strspn(typed, "-"));
    for (char *at = name; *at; at++)
        *at = *at == '-' ? '_' : *at;
    if (args_find(command, "--set", strlen("--set")) && rt_spec_find_key(name, path))
        return rt_fail(err, RT_BAD_INPUT,
                       "unknown option '%s'; a key of the run file is set with --set %s=VALUE", typed, path);
    return rt_fail(err, RT_BAD_INPUT, "unknown option '%s'; %s`ringtmp %s --help` lists the options", typed,
                   command->unknown_hint ? command->unknown_hint : "", command->name);
}

static size_t args_operand_count(const struct rt_command *command) {
    size_t count = 0;
    while (command->operands[count])
        count++;
    return count;
}

/* One option, at argv[*at]; moves *at to its last word. */
static rt_status args_read_option(const struct rt_command *command, int argc, char **argv, int *at,
                                  void *settings, bool *alone, struct rt_error *err) {
    const char *word = argv[*at];
    size_t length = strcspn(word, "=");
    const struct rt_arg *arg = args_find(command, word, length);
    if (!arg)
        return args_fail_unknown(command, word, length, err);
    *alone |= arg->alone;
    const char *value = word[length] ? word + length + 1 : NULL;
    if (arg->kind == RT_ARG_SWITCH && value)
        return rt_fail(err, RT_BAD_INPUT, "%s takes no value", arg->name);
    if (arg->kind != RT_ARG_SWITCH && !value) {
        if (*at + 1 >= argc)
            return rt_fail(err, RT_BAD_INPUT, "%s needs a value: %s %s", arg->name, arg->name, arg->value);
        value = argv[++*at];
    }
    return args_set_value(arg, value, argc, settings, err);
}

rt_status rt_args_parse(const struct rt_command *command, int argc, char **argv, void *settings,
                        struct rt_words *operands, bool *help, struct rt_error *err) {
    *help = false;
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++)
        *help |= strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0;
    if (*help)
        return RT_OK;

    bool alone = false, only_operands = false;
    rt_status status = args_set_defaults(command, settings, err);
    for (int i = 0; i < argc && status == RT_OK; i++) {
        if (!only_operands && strcmp(argv[i], "--") == 0)
            only_operands = true;
        else if (!only_operands && argv[i][0] == '-' && argv[i][1])
            status = args_read_option(command, argc, argv, &i, settings, &alone, err);
        else if (operands->count == args_operand_count(command))
            status = rt_fail(err, RT_BAD_INPUT, "'%s' is an unexpected argument; see `ringtmp %s --help`",
                             argv[i], command->name);
        else
            status = args_add_word(operands, argc, argv[i], err);
    }
    if (status == RT_OK && !alone && operands->count < args_operand_count(command))
        status = rt_fail(err, RT_BAD_INPUT, "%s is missing; see `ringtmp %s --help`",
                         command->operands[operands->count], command->name);
    return status;
}

void rt_args_deinit(const struct rt_command *command, void *settings, struct rt_words *operands) {
    for (size_t i = 0; i < command->arg_count; i++)
        if (command->args[i].kind == RT_ARG_WORDS)
            free(((struct rt_words *)args_field(&command->args[i], settings))->items);
    free(operands->items);
}

void rt_args_help(FILE *out, const char *program, const struct rt_command *command) {
    enum { COLUMN = 26 };
    fprintf(out, "usage: %s %s", program, command->name);
    for (size_t i = 0; command->operands[i]; i++)
        fprintf(out, " %s", command->operands[i]);
    fprintf(out, "%s\n\n%s\noptions:\n", command->arg_count ? " [options]" : "", command->details);
    for (size_t i = 0; i < command->arg_count; i++) {
        const struct rt_arg *arg = &command->args[i];
        int used = fprintf(out, "  %s%s%s", arg->name, arg->value ? " " : "", arg->value ? arg->value : "");
        if (used >= COLUMN)
            used = fprintf(out, "\n") - 1;
        fprintf(out, "%*s%s", COLUMN - used, "", arg->help);
        if (arg->default_help || arg->fallback)
            fprintf(out, " (default: %s)", arg->default_help ? arg->default_help : arg->fallback);
        fputc('\n', out);
    }
    fprintf(out, "  %-*s%s\n", COLUMN - 2, "--help", "show this text");
    if (command->examples)
        fprintf(out, "\nexamples:\n%s", command->examples);
}
