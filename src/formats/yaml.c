/*
 * YAML to a tree, over libyaml's events. What a run file never needs is refused rather than half understood:
 * anchors and aliases (they can blow up), tags, several documents, keys that are not plain values.
 */
#include "formats/yaml.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

enum { MAX_BYTES = 16 << 20, MAX_DEPTH = 32, MAX_NODES = 100000, MAX_KEYS = 1000, MAX_KEY_BYTES = 200 };

struct reader {
    yaml_parser_t parser;
    const char *text;
    size_t bytes;
    const char *name;
    bool lines; /* keep line numbers */
    size_t nodes;
};

/* A failure at a line counted from 0. */
static rt_status yaml_fail_at(const struct reader *reader, size_t line, const char *problem,
                              struct rt_error *err) {
    if (!reader->lines)
        return rt_fail(err, RT_BAD_INPUT, "%s: %s", reader->name, problem);
    return rt_fail(err, RT_BAD_INPUT, "%s:%zu: %s", reader->name, line + 1, problem);
}

/* True when the indentation of a line contains a tab: the usual reason why a YAML reader stops. */
static bool yaml_indented_by_tab(const struct reader *reader, size_t line) {
    const char *p = reader->text, *end = p + reader->bytes;
    while (line-- && p < end) {
        const char *next = memchr(p, '\n', (size_t)(end - p));
        p = next ? next + 1 : end;
    }
    while (p < end && *p == ' ')
        p++;
    return p < end && *p == '\t';
}

/* Converts libyaml's error to a message. */
static rt_status yaml_fail_parser(const struct reader *reader, struct rt_error *err) {
    const yaml_parser_t *parser = &reader->parser;
    const char *problem = parser->problem ? parser->problem : "is not valid YAML";
    char sentence[300];
    switch (parser->error) {
    case YAML_MEMORY_ERROR:
        return rt_fail(err, RT_NO_MEMORY, "%s: not enough memory to read it", reader->name);
    case YAML_READER_ERROR: /* bad characters: libyaml knows the byte but not the line */
        return rt_fail(err, RT_BAD_INPUT, "%s: %sbyte %zu: %s", reader->name,
                       strstr(problem, "UTF-8") ? "is not text in UTF-8: " : "", parser->problem_offset,
                       problem);
    default:
        if (yaml_indented_by_tab(reader, parser->problem_mark.line))
            problem = "a tab may not be used for indentation";
        else if (parser->context) {
            snprintf(sentence, sizeof sentence, "%s %s", problem, parser->context);
            problem = sentence;
        }
        return yaml_fail_at(reader, parser->problem_mark.line, problem, err);
    }
}

static rt_status yaml_next_event(struct reader *reader, yaml_event_t *event, struct rt_error *err) {
    return yaml_parser_parse(&reader->parser, event) ? RT_OK : yaml_fail_parser(reader, err);
}

static rt_status yaml_read_node(struct reader *reader, const yaml_event_t *event, int depth,
                                struct rt_tree **tree, struct rt_error *err);

/* A scalar's text, which must be one C string. */
static rt_status yaml_check_text(const struct reader *reader, const yaml_event_t *event,
                                 struct rt_error *err) {
    if (memchr(event->data.scalar.value, 0, event->data.scalar.length))
        return yaml_fail_at(reader, event->start_mark.line, "a text may not contain a zero byte", err);
    return RT_OK;
}

static rt_status yaml_check_key(const struct reader *reader, const yaml_event_t *event,
                                const struct rt_tree *map, struct rt_error *err) {
    size_t line = event->start_mark.line;
    if (event->type != YAML_SCALAR_EVENT)
        return yaml_fail_at(reader, line, "a key must be a single value", err);
    if (event->data.scalar.length == 0)
        return yaml_fail_at(reader, line, "a key may not be empty", err);
    if (event->data.scalar.length > MAX_KEY_BYTES)
        return yaml_fail_at(reader, line, "a key is longer than 200 bytes", err);
    if (event->data.scalar.anchor || event->data.scalar.tag)
        return yaml_fail_at(reader, line, "anchors and tags are not used in run files", err);
    if (map->count == MAX_KEYS)
        return yaml_fail_at(reader, line, "a map has more than 1000 keys", err);
    return yaml_check_text(reader, event, err);
}

/* Reads the rest of a list or a map up to its end event. */
static rt_status yaml_read_items(struct reader *reader, struct rt_tree *tree, int depth,
                                 struct rt_error *err) {
    bool map = tree->kind == RT_TREE_MAP;
    for (;;) {
        yaml_event_t key, value;
        rt_status status = yaml_next_event(reader, map ? &key : &value, err);
        if (status != RT_OK)
            return status;
        if (map) {
            if (key.type == YAML_MAPPING_END_EVENT)
                return RT_OK;
            status = yaml_check_key(reader, &key, tree, err);
            if (status == RT_OK)
                status = yaml_next_event(reader, &value, err);
            if (status != RT_OK) {
                yaml_event_delete(&key);
                return status;
            }
        } else if (value.type == YAML_SEQUENCE_END_EVENT) {
            return RT_OK;
        }
        struct rt_tree *item = NULL;
        status = yaml_read_node(reader, &value, depth + 1, &item, err);
        yaml_event_delete(&value);
        if (status == RT_OK) {
            /* A value may begin on a line below its key; messages name the line of the key. */
            if (map && reader->lines)
                item->line = (int)key.start_mark.line + 1;
            status = rt_tree_add(tree, map ? (const char *)key.data.scalar.value : NULL, item, err);
        }
        if (map)
            yaml_event_delete(&key);
        if (status != RT_OK) {
            rt_tree_destroy(item);
            return status;
        }
    }
}

static rt_status yaml_read_node(struct reader *reader, const yaml_event_t *event, int depth,
                                struct rt_tree **tree, struct rt_error *err) {
    size_t line = event->start_mark.line;
    if (depth > MAX_DEPTH)
        return yaml_fail_at(reader, line, "is nested more than 32 deep", err);
    if (++reader->nodes > MAX_NODES)
        return yaml_fail_at(reader, line, "has more than 100000 values", err);
    enum rt_tree_kind kind = RT_TREE_SCALAR;
    const char *text = NULL;
    const yaml_char_t *anchor = NULL, *tag = NULL;
    rt_status status = RT_OK;
    switch (event->type) {
    case YAML_SCALAR_EVENT:
        anchor = event->data.scalar.anchor, tag = event->data.scalar.tag;
        text = (const char *)event->data.scalar.value;
        status = yaml_check_text(reader, event, err);
        break;
    case YAML_SEQUENCE_START_EVENT:
        kind = RT_TREE_LIST;
        anchor = event->data.sequence_start.anchor, tag = event->data.sequence_start.tag;
        break;
    case YAML_MAPPING_START_EVENT:
        kind = RT_TREE_MAP;
        anchor = event->data.mapping_start.anchor, tag = event->data.mapping_start.tag;
        break;
    case YAML_ALIAS_EVENT:
        return yaml_fail_at(reader, line, "aliases (*name) are not used in run files", err);
    default:
        return yaml_fail_at(reader, line, "a value is missing", err);
    }
    if (status == RT_OK && (anchor || tag))
        status =
            yaml_fail_at(reader, line, "anchors (&name) and tags (!name) are not used in run files", err);
    struct rt_tree *made = NULL;
    if (status == RT_OK)
        status = rt_tree_create(kind, text, reader->name, reader->lines ? (int)line + 1 : 0, &made, err);
    if (status == RT_OK && kind != RT_TREE_SCALAR)
        status = yaml_read_items(reader, made, depth, err);
    if (status != RT_OK)
        rt_tree_destroy(made);
    else
        *tree = made;
    return status;
}

/* Takes the next event, which must be of the wanted type; otherwise fails with the message. */
static rt_status yaml_expect(struct reader *reader, yaml_event_type_t wanted, const char *sentence,
                             struct rt_error *err) {
    yaml_event_t event;
    rt_status status = yaml_next_event(reader, &event, err);
    if (status != RT_OK)
        return status;
    if (event.type != wanted)
        status = yaml_fail_at(reader, event.start_mark.line, sentence, err);
    yaml_event_delete(&event);
    return status;
}

static rt_status yaml_read_document(struct reader *reader, struct rt_tree **tree, struct rt_error *err) {
    yaml_event_t event;
    rt_status status = yaml_expect(reader, YAML_STREAM_START_EVENT, "is not valid YAML", err);
    if (status == RT_OK)
        status = yaml_expect(reader, YAML_DOCUMENT_START_EVENT, "the file is empty", err);
    if (status == RT_OK)
        status = yaml_next_event(reader, &event, err);
    if (status != RT_OK)
        return status;
    struct rt_tree *made = NULL;
    status = yaml_read_node(reader, &event, 1, &made, err);
    yaml_event_delete(&event);
    if (status == RT_OK)
        status = yaml_expect(reader, YAML_DOCUMENT_END_EVENT, "is not valid YAML", err);
    if (status == RT_OK)
        status = yaml_expect(reader, YAML_STREAM_END_EVENT,
                             "a second document begins; one file describes one thing", err);
    if (status != RT_OK)
        rt_tree_destroy(made);
    else
        *tree = made;
    return status;
}

static rt_status yaml_parse(const char *text, size_t bytes, const char *name, bool lines,
                            struct rt_tree **tree, struct rt_error *err) {
    struct reader reader = {.text = text, .bytes = bytes, .name = name, .lines = lines};
    if (bytes > MAX_BYTES)
        return rt_fail(err, RT_BAD_INPUT, "%s: is larger than 16 MiB", name);
    if (!yaml_parser_initialize(&reader.parser))
        return rt_fail(err, RT_NO_MEMORY, "%s: not enough memory to read it", name);
    /* Without a fixed encoding libyaml would guess UTF-16 from the first bytes. */
    yaml_parser_set_encoding(&reader.parser, YAML_UTF8_ENCODING);
    /* Some editors begin a file with the mark of UTF-8. */
    static const char mark[] = {'\xef', '\xbb', '\xbf'};
    const size_t skip = bytes >= sizeof mark && memcmp(text, mark, sizeof mark) == 0 ? sizeof mark : 0;
    yaml_parser_set_input_string(&reader.parser, (const unsigned char *)text + skip, bytes - skip);
    rt_status status = yaml_read_document(&reader, tree, err);
    yaml_parser_delete(&reader.parser);
    return status;
}

rt_status rt_yaml_parse(const char *text, size_t bytes, const char *name, struct rt_tree **tree,
                        struct rt_error *err) {
    return yaml_parse(text, bytes, name, true, tree, err);
}

rt_status rt_yaml_value(const char *text, const char *name, struct rt_tree **tree, struct rt_error *err) {
    if (text[strspn(text, " \t")] == 0)
        return rt_tree_create(RT_TREE_SCALAR, "", name, 0, tree, err);
    return yaml_parse(text, strlen(text), name, false, tree, err);
}

/* Read rather than mapped, so that a pipe works as well. */
static rt_status yaml_read_file(const char *path, char **text, size_t *bytes, struct rt_error *err) {
    FILE *file = fopen(path, "rbe");
    if (!file)
        return rt_fail(err, RT_BAD_INPUT, "%s: %s", path, strerror(errno));
    char *buffer = NULL;
    size_t room = 0, used = 0, got = 1;
    while (got && used <= MAX_BYTES) {
        if (room - used < 4096) {
            room = room ? room * 2 : 16384;
            char *larger = realloc(buffer, room);
            if (!larger) {
                free(buffer);
                fclose(file);
                return rt_fail(err, RT_NO_MEMORY, "%s: not enough memory to read it", path);
            }
            buffer = larger;
        }
        errno = 0;
        got = fread(buffer + used, 1, room - used, file);
        used += got;
    }
    if (ferror(file)) {
        rt_status status = rt_fail(err, errno == EISDIR ? RT_BAD_INPUT : RT_IO, "%s: %s", path,
                                   errno == EISDIR ? "is a directory" : strerror(errno ? errno : EIO));
        free(buffer);
        fclose(file);
        return status;
    }
    fclose(file);
    *text = buffer;
    *bytes = used;
    return RT_OK;
}

/* Whether the text begins as a safetensors file does: the length of its header in eight bytes, the last of
 * which are 0, and a map. */
static bool yaml_is_model(const char *text, size_t bytes) {
    return bytes > 8 && memcmp(text + 4, "\0\0\0\0{", 5) == 0;
}

bool rt_yaml_is_model(const char *path) {
    char start[9];
    FILE *file = fopen(path, "re");
    const size_t bytes = file ? fread(start, 1, sizeof start, file) : 0;
    if (file)
        fclose(file);
    return yaml_is_model(start, bytes);
}

rt_status rt_yaml_load(const char *path, struct rt_tree **tree, struct rt_error *err) {
    char *text = NULL;
    size_t bytes = 0;
    rt_status status = yaml_read_file(path, &text, &bytes, err);
    if (status != RT_OK)
        return status;
    if (yaml_is_model(text, bytes))
        status = rt_fail(err, RT_BAD_INPUT, "%s: is a model file (safetensors), not a run file", path);
    else
        status = rt_yaml_parse(text, bytes, path, tree, err);
    free(text);
    return status;
}
