/*
 * Option tables: one reader and one printer for all settings. An error message names the place, the owner,
 * what is allowed, and the nearest valid word.
 */
#include "base/option.h"

#include "base/sentence.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Bounds beyond which a range counts as open on that side. */
#define OPEN_END 1e18

/* "between 1 and 8", "at least 1" or "at most 8": always names the bound that the value violates. */
static const char *option_range_text(const struct rt_option *option, double value, char *text, size_t room) {
    if (option->max >= OPEN_END && value < option->min)
        snprintf(text, room, "at least %.15g", option->min);
    else if (option->min <= -OPEN_END && value > option->max)
        snprintf(text, room, "at most %.15g", option->max);
    else
        snprintf(text, room, "between %.15g and %.15g", option->min, option->max);
    return text;
}

static rt_status option_fail_value(const struct rt_option *option, const struct rt_tree *tree,
                                   const char *what, const char *wish, const char *text,
                                   struct rt_error *err) {
    char or_word[64] = "";
    if (option->auto_word)
        snprintf(or_word, sizeof or_word, " or '%s'", option->auto_word);
    if (!*text)
        return rt_tree_fail(tree, err, "%s: %s has no value; it must be %s%s", what, option->name, wish,
                            or_word);
    return rt_tree_fail(tree, err, "%s: %s must be %s%s, not '%.100s'", what, option->name, wish, or_word,
                        text);
}

static rt_status option_read_number(const struct rt_option *option, const struct rt_tree *tree,
                                    const char *what, const char *text, char *field, struct rt_error *err) {
    bool whole = option->kind == RT_OPTION_INT;
    int64_t integer = -1;
    double real = -1;
    if (!option->auto_word || strcmp(text, option->auto_word) != 0) {
        bool valid = whole ? rt_parse_int(text, &integer) : rt_parse_real(text, &real);
        if (!valid) {
            option_fail_value(option, tree, what, whole ? "a whole number" : "a number", text, err);
            return rt_fail_more(err, RT_BAD_INPUT, "%s", rt_number_hint(text));
        }
        double value = whole ? (double)integer : real;
        char range[100];
        if ((option->min != 0 || option->max != 0) && (value < option->min || value > option->max))
            return option_fail_value(option, tree, what,
                                     option_range_text(option, value, range, sizeof range), text, err);
    }
    if (whole)
        memcpy(field, &integer, sizeof integer);
    else
        memcpy(field, &real, sizeof real);
    return RT_OK;
}

static rt_status option_read_choice(const struct rt_option *option, const struct rt_tree *tree,
                                    const char *what, const char *text, char *field, struct rt_error *err) {
    for (int i = 0; option->choices[i]; i++)
        if (strcmp(text, option->choices[i]) == 0) {
            memcpy(field, &i, sizeof i);
            return RT_OK;
        }
    const char *nearest = rt_nearest(text, option->choices);
    char wish[RT_LISTED_ROOM + 8];
    snprintf(wish, sizeof wish, "one of %s", RT_LISTED(option->choices));
    rt_status status = option_fail_value(option, tree, what, wish, text, err);
    return nearest ? rt_fail_more(err, status, "; did you mean '%s'?", nearest) : status;
}

/* Reads text, which came from tree (or from the table, when tree is NULL), into the option's field. */
static rt_status option_read_text(const struct rt_option *option, const struct rt_tree *tree,
                                  const char *what, const char *text, void *settings, struct rt_error *err) {
    char *field = (char *)settings + option->offset;
    bool truth = strcmp(text, "true") == 0;
    switch (option->kind) {
    case RT_OPTION_INT:
    case RT_OPTION_REAL:
        return option_read_number(option, tree, what, text, field, err);
    case RT_OPTION_BOOL:
        if (!truth && strcmp(text, "false") != 0)
            return option_fail_value(option, tree, what, "true or false", text, err);
        memcpy(field, &truth, sizeof truth);
        return RT_OK;
    case RT_OPTION_TEXT:
        memcpy(field, &text, sizeof text);
        return RT_OK;
    case RT_OPTION_CHOICE:
        return option_read_choice(option, tree, what, text, field, err);
    case RT_OPTION_TREE:
        break;
    }
    return RT_OK;
}

static const struct rt_option *option_find(const struct rt_option *options, size_t count, const char *name) {
    for (size_t i = 0; i < count; i++)
        if (strcmp(options[i].name, name) == 0)
            return &options[i];
    return NULL;
}

/* A list where a single value is expected: a height and a width, where the table has options for them. */
static rt_status option_fail_list(const struct rt_option *options, size_t count,
                                  const struct rt_option *option, const struct rt_tree *tree,
                                  const char *what, struct rt_error *err) {
    char height[64], width[64];
    rt_tree_fail(tree, err, "%s: %s must be a single value, not a list", what, option->name);
    snprintf(height, sizeof height, "%s_h", option->name);
    snprintf(width, sizeof width, "%s_w", option->name);
    if (option_find(options, count, height) && option_find(options, count, width))
        rt_fail_more(err, RT_BAD_INPUT, "; height and width are given as %s and %s", height, width);
    return RT_BAD_INPUT;
}

static rt_status option_read_value(const struct rt_option *options, size_t count,
                                   const struct rt_option *option, const struct rt_tree *tree,
                                   const char *what, void *settings, struct rt_error *err) {
    if (option->kind == RT_OPTION_TREE) {
        memcpy((char *)settings + option->offset, &tree, sizeof(void *));
        return RT_OK;
    }
    if (tree->kind == RT_TREE_LIST)
        return option_fail_list(options, count, option, tree, what, err);
    if (tree->kind == RT_TREE_MAP)
        return rt_tree_fail(tree, err, "%s: %s must be a single value, not a map", what, option->name);
    return option_read_text(option, tree, what, tree->text, settings, err);
}

static rt_status option_set_defaults(const struct rt_option *options, size_t count, const char *what,
                                     void *settings, struct rt_error *err) {
    rt_status status = RT_OK;
    for (size_t i = 0; i < count && status == RT_OK; i++) {
        const void *nothing = NULL;
        if (options[i].kind == RT_OPTION_TREE || options[i].kind == RT_OPTION_TEXT)
            memcpy((char *)settings + options[i].offset, &nothing, sizeof nothing);
        if (options[i].fallback)
            status = option_read_text(&options[i], NULL, what, options[i].fallback, settings, err);
    }
    return status;
}

static rt_status option_fail_unknown(const struct rt_option *options, size_t count,
                                     const struct rt_tree *tree, const char *what, struct rt_error *err) {
    const char *names[64];
    size_t known = count < 63 ? count : 63;
    for (size_t i = 0; i < known; i++)
        names[i] = options[i].name;
    names[known] = NULL;
    const char *near = rt_nearest(tree->key, names);
    /* {rate: 0,5} parses as a rate of 0 and a key 5. */
    if (tree->key[strspn(tree->key, "0123456789")] == 0)
        return rt_tree_fail(tree, err, "unknown key '%.100s' in %s; if it is the end of a number: %s",
                            tree->key, what, rt_number_hint("0,5") + 2);
    if (near)
        return rt_tree_fail(tree, err, "unknown key '%.100s' in %s; did you mean '%s'?", tree->key, what,
                            near);
    if (!known)
        return rt_tree_fail(tree, err, "unknown key '%.100s' in %s, which has no options", tree->key, what);
    return rt_tree_fail(tree, err, "unknown key '%.100s' in %s; the keys are %s", tree->key, what,
                        RT_LISTED(names));
}

/* Reads what was given; the defaults are in place already. *single is the option set by a scalar tree. */
static rt_status option_read_given(const struct rt_option *options, size_t count, const char *main_option,
                                   const struct rt_tree *tree, const char *what, void *settings,
                                   const struct rt_option **single, struct rt_error *err) {
    *single = NULL;
    if (tree->kind == RT_TREE_SCALAR) {
        if (!*tree->text) /* "train:" with nothing under it */
            return RT_OK;
        const struct rt_option *option = main_option ? option_find(options, count, main_option) : NULL;
        if (option) {
            *single = option;
            return option_read_value(options, count, option, tree, what, settings, err);
        }
        if (count == 0)
            return rt_tree_fail(tree, err, "%s has no options, so it cannot take '%.100s'", what, tree->text);
    }
    if (tree->kind != RT_TREE_MAP)
        return rt_tree_fail(tree, err, "%s takes its options as a map, like {%s: ...}, not %s", what,
                            count ? options[0].name : "",
                            tree->kind == RT_TREE_LIST ? "a list" : "a single value");
    rt_status status = RT_OK;
    for (size_t i = 0; i < tree->count && status == RT_OK; i++) {
        const struct rt_option *option = option_find(options, count, tree->items[i]->key);
        status = option ? option_read_value(options, count, option, tree->items[i], what, settings, err)
                        : option_fail_unknown(options, count, tree->items[i], what, err);
    }
    return status;
}

rt_status rt_options_read(const struct rt_option *options, size_t count, const char *main_option,
                          const struct rt_tree *tree, const char *what, void *settings,
                          struct rt_error *err) {
    const struct rt_option *single = NULL;
    rt_status status = option_set_defaults(options, count, what, settings, err);
    if (status == RT_OK && tree)
        status = option_read_given(options, count, main_option, tree, what, settings, &single, err);
    for (size_t i = 0; i < count && status == RT_OK; i++) {
        const struct rt_option *option = &options[i];
        bool may_be_absent =
            option->fallback || option->kind == RT_OPTION_TREE || option->kind == RT_OPTION_TEXT;
        if (!may_be_absent && option != single && !rt_tree_get(tree, option->name))
            status = rt_tree_fail(tree, err, "%s: %s must be given", what, option->name);
    }
    return status;
}

static size_t option_index_of_key(const struct rt_tree *map, const char *key) {
    size_t i = 0;
    while (i < map->count && strcmp(map->items[i]->key, key) != 0)
        i++;
    return i;
}

rt_status rt_options_rename(const struct rt_option *options, size_t count, struct rt_tree *map, bool replace,
                            const struct rt_option **renamed, struct rt_error *err) {
    for (size_t i = 0; map && map->kind == RT_TREE_MAP && i < count; i++) {
        struct rt_tree *old = options[i].alias ? rt_tree_get(map, options[i].alias) : NULL;
        if (!old)
            continue;
        const size_t present = option_index_of_key(map, options[i].name);
        if (present < map->count && !replace)
            return rt_tree_fail(old, err, "%s is the old name of %s: give one of them, not both",
                                options[i].alias, options[i].name);
        char *key = strdup(options[i].name);
        if (!key)
            return rt_fail(err, RT_NO_MEMORY, "not enough memory for the configuration");
        if (present < map->count) {
            rt_tree_destroy(map->items[present]);
            map->count--;
            memmove(map->items + present, map->items + present + 1,
                    (map->count - present) * sizeof(struct rt_tree *));
        }
        free(old->key);
        old->key = key;
        *renamed = &options[i];
    }
    return RT_OK;
}

/* The choices, in lines of at most so many columns. column: the current column; tail: the length of the text
 * that follows the last choice. */
static void option_put_choices(FILE *out, const char *const *choices, size_t column, size_t margin,
                               size_t tail) {
    enum { COLUMNS = 100 };
    for (size_t j = 0; choices && choices[j]; j++) {
        const size_t end = column + 2 + strlen(choices[j]) + (choices[j + 1] ? 1 : tail);
        const bool wraps = j && end > COLUMNS;
        fprintf(out, "%s", j ? "," : " (");
        if (wraps)
            fprintf(out, "\n%*s", (int)margin, "");
        else if (j)
            fputc(' ', out);
        fprintf(out, "%s", choices[j]);
        column = (wraps ? margin : column + 2) + strlen(choices[j]);
    }
}

void rt_options_help(FILE *out, const struct rt_option *options, size_t count, const char *indent) {
    size_t width = 0;
    for (size_t i = 0; i < count; i++)
        width = strlen(options[i].name) > width ? strlen(options[i].name) : width;
    for (size_t i = 0; i < count; i++) {
        const struct rt_option *option = &options[i];
        fprintf(out, "%s%-*s  %s", indent, (int)width, option->name, option->help ? option->help : "");
        bool required = !option->fallback && option->kind != RT_OPTION_TREE && option->kind != RT_OPTION_TEXT;
        const size_t margin = strlen(indent) + width + 2;
        option_put_choices(out, option->choices, margin + (option->help ? strlen(option->help) : 0), margin,
                           option->fallback ? strlen("; default )") + strlen(option->fallback) : 16);
        const char *open = option->choices ? "; " : " (";
        if (option->fallback && *option->fallback)
            fprintf(out, "%sdefault %s)", open, option->fallback);
        else if (required)
            fprintf(out, "%smust be given)", open);
        else if (option->choices)
            fputc(')', out);
        fputc('\n', out);
    }
}

const char *rt_option_text(const struct rt_option *option, const void *settings,
                           char text[RT_OPTION_TEXT_ROOM]) {
    const char *field = (const char *)settings + option->offset;
    int64_t integer;
    double real;
    bool truth;
    int choice;
    *text = 0;
    switch (option->kind) {
    case RT_OPTION_INT:
        memcpy(&integer, field, sizeof integer);
        if (option->auto_word && integer < 0)
            snprintf(text, RT_OPTION_TEXT_ROOM, "%s", option->auto_word);
        else
            snprintf(text, RT_OPTION_TEXT_ROOM, "%lld", (long long)integer);
        break;
    case RT_OPTION_REAL:
        memcpy(&real, field, sizeof real);
        if (option->auto_word && (real < 0 || isinf(real)))
            snprintf(text, RT_OPTION_TEXT_ROOM, "%s", option->auto_word);
        else
            rt_real_text(real, text);
        break;
    case RT_OPTION_BOOL:
        memcpy(&truth, field, sizeof truth);
        snprintf(text, RT_OPTION_TEXT_ROOM, "%s", truth ? "true" : "false");
        break;
    case RT_OPTION_CHOICE:
        memcpy(&choice, field, sizeof choice);
        snprintf(text, RT_OPTION_TEXT_ROOM, "%s", option->choices[choice]);
        break;
    case RT_OPTION_TEXT:
    case RT_OPTION_TREE:
        break;
    }
    return text;
}
