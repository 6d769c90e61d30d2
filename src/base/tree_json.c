/*
 * A tree as one line of JSON that is YAML too: model files carry the description of their model this way.
 * Characters that a YAML reader would refuse or fold inside quotes are escaped.
 */
#include "base/tree.h"
#include "base/utf8.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool tree_json_is_digit(char c) {
    return c >= '0' && c <= '9';
}

/* True when the text is a number as JSON writes it. */
static bool tree_json_is_number(const char *p) {
    if (*p == '-')
        p++;
    if (!tree_json_is_digit(*p))
        return false;
    if (*p == '0' && tree_json_is_digit(p[1]))
        return false;
    while (tree_json_is_digit(*p))
        p++;
    if (*p == '.') {
        if (!tree_json_is_digit(*++p))
            return false;
        while (tree_json_is_digit(*p))
            p++;
    }
    if (*p == 'e' || *p == 'E') {
        p++;
        if (*p == '+' || *p == '-')
            p++;
        if (!tree_json_is_digit(*p))
            return false;
        while (tree_json_is_digit(*p))
            p++;
    }
    return *p == 0;
}

static bool tree_json_needs_escape(uint32_t code) {
    return code < 0x20 || (code >= 0x7f && code <= 0x9f) || code == 0x2028 || code == 0x2029 ||
           code == 0xfeff || code == 0xfffe || code == 0xffff;
}

static bool tree_json_write_string(FILE *out, const char *text) {
    fputc('"', out);
    for (const char *p = text; *p;) {
        uint32_t code;
        size_t length = rt_utf8_decode(p, &code);
        if (length == 0)
            return false;
        if (code == '"' || code == '\\')
            fprintf(out, "\\%c", (char)code);
        else if (code == '\n' || code == '\t')
            fputs(code == '\n' ? "\\n" : "\\t", out);
        else if (tree_json_needs_escape(code))
            fprintf(out, "\\u%04x", (unsigned)code);
        else
            fwrite(p, 1, length, out);
        p += length;
    }
    fputc('"', out);
    return true;
}

static bool tree_json_write(FILE *out, const struct rt_tree *tree) {
    if (tree->kind == RT_TREE_SCALAR) {
        bool bare = tree_json_is_number(tree->text) || strcmp(tree->text, "true") == 0 ||
                    strcmp(tree->text, "false") == 0 || strcmp(tree->text, "null") == 0;
        return bare ? fputs(tree->text, out) >= 0 : tree_json_write_string(out, tree->text);
    }
    bool map = tree->kind == RT_TREE_MAP;
    fputc(map ? '{' : '[', out);
    for (size_t i = 0; i < tree->count; i++) {
        if (i)
            fputs(", ", out);
        if (map && (!tree_json_write_string(out, tree->items[i]->key) || fputs(": ", out) < 0))
            return false;
        if (!tree_json_write(out, tree->items[i]))
            return false;
    }
    fputc(map ? '}' : ']', out);
    return true;
}

rt_status rt_tree_json(const struct rt_tree *tree, char **json, struct rt_error *err) {
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    if (!out)
        return rt_fail(err, RT_NO_MEMORY, "not enough memory for the configuration");
    bool valid = tree_json_write(out, tree);
    bool stored = !ferror(out);
    stored = fclose(out) == 0 && stored && text;
    if (valid && stored) {
        *json = text;
        return RT_OK;
    }
    free(text);
    if (!stored)
        return rt_fail(err, RT_NO_MEMORY, "not enough memory for the configuration");
    return rt_tree_fail(tree, err, "a text is not valid UTF-8");
}
