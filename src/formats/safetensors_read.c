/*
 * Reading safetensors: eight bytes with the header's length, a JSON header, then the arrays without a gap.
 * Model files are shared between people, so nothing in the header is trusted before it has been compared with
 * the bytes of the file.
 */
#include "base/bytes.h"
#include "base/memory.h"
#include "formats/safetensors.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

enum { LENGTH_BYTES = 8, MAX_DEPTH = 3 };

bool rt_tensors_header_fits(const char *text, size_t bytes) {
    size_t values = 1, depth = 0;
    bool quoted = false;
    for (size_t i = 0; i < bytes; i++) {
        char c = text[i];
        if (quoted) {
            i += c == '\\';
            quoted = c != '"';
            continue;
        }
        quoted = c == '"';
        bool opens = c == '{' || c == '[';
        values += opens || c == ',';
        depth += opens;
        if (depth > MAX_DEPTH || values > RT_MAX_HEADER_VALUES)
            return false;
        depth -= depth && (c == '}' || c == ']');
    }
    return true;
}

/* Names are printed in messages on a terminal, so control characters are refused. */
static bool safetensors_is_plain(const char *text) {
    for (; *text; text++)
        if ((unsigned char)*text < 0x20 || *text == 0x7f)
            return false;
    return true;
}

static rt_status safetensors_copy_text(const char *text, char **copy, const char *file,
                                       struct rt_error *err) {
    *copy = strdup(text);
    return *copy ? RT_OK : rt_fail(err, RT_NO_MEMORY, "%s: not enough memory to read it", file);
}

static rt_status safetensors_read_meta(json_t *object, struct rt_tensors *tensors, struct rt_error *err) {
    if (!json_is_object(object))
        return rt_fail(err, RT_BAD_INPUT, "%s: __metadata__ is not an object", tensors->name);
    size_t count = json_object_size(object);
    rt_status status = rt_alloc(count, sizeof(char *), "metadata", &tensors->meta_keys, err);
    if (status == RT_OK)
        status = rt_alloc(count, sizeof(char *), "metadata", &tensors->meta_values, err);
    if (status != RT_OK)
        return status;
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value) {
        if (!safetensors_is_plain(key))
            return rt_fail(err, RT_BAD_INPUT, "%s: a key of its metadata has control characters in it",
                           tensors->name);
        if (!json_is_string(value))
            return rt_fail(err, RT_BAD_INPUT, "%s: __metadata__ has a value that is not a text",
                           tensors->name);
        size_t i = tensors->meta_count++;
        status = safetensors_copy_text(key, &tensors->meta_keys[i], tensors->name, err);
        if (status == RT_OK)
            status =
                safetensors_copy_text(json_string_value(value), &tensors->meta_values[i], tensors->name, err);
        if (status != RT_OK)
            return status;
    }
    return RT_OK;
}

/* A whole number that is not negative. */
static bool safetensors_read_count(const json_t *value, uint64_t *count) {
    if (!json_is_integer(value) || json_integer_value(value) < 0)
        return false;
    *count = (uint64_t)json_integer_value(value);
    return true;
}

static rt_status safetensors_read_shape(const char *file, const json_t *list, struct rt_tensor_entry *entry,
                                        uint64_t *bytes, struct rt_error *err) {
    if (!json_is_array(list))
        return rt_fail(err, RT_BAD_INPUT, "%s: tensor '%.100s' has no shape", file, entry->name);
    if (json_array_size(list) > RT_MAX_RANK)
        return rt_fail(err, RT_BAD_INPUT, "%s: tensor '%.100s' has %zu dimensions; at most %d are read", file,
                       entry->name, json_array_size(list), RT_MAX_RANK);
    entry->shape.rank = json_array_size(list);
    uint64_t size = sizeof(float);
    bool empty = false;
    for (size_t i = 0; i < entry->shape.rank; i++) {
        uint64_t dim;
        if (!safetensors_read_count(json_array_get(list, i), &dim) || dim > SIZE_MAX)
            return rt_fail(err, RT_BAD_INPUT, "%s: tensor '%.100s' has a dimension that is not a count", file,
                           entry->name);
        entry->shape.dim[i] = (size_t)dim;
        empty = empty || dim == 0;
        if (dim && size > SIZE_MAX / dim)
            return rt_fail(err, RT_BAD_INPUT, "%s: tensor '%.100s' has a shape that is too large", file,
                           entry->name);
        size *= dim ? dim : 1;
    }
    *bytes = empty ? 0 : size;
    return RT_OK;
}

static rt_status safetensors_read_entry(const char *file, const json_t *object, uint64_t data_bytes,
                                        struct rt_tensor_entry *entry, struct rt_error *err) {
    if (!safetensors_is_plain(entry->name))
        return rt_fail(err, RT_BAD_INPUT, "%s: a tensor's name has control characters in it", file);
    if (!json_is_object(object) || json_object_size(object) != 3)
        return rt_fail(err, RT_BAD_INPUT,
                       "%s: tensor '%.100s' is not described by dtype, shape and data_offsets", file,
                       entry->name);
    const char *type = json_string_value(json_object_get(object, "dtype"));
    if (!type || !safetensors_is_plain(type))
        return rt_fail(err, RT_BAD_INPUT, "%s: tensor '%.100s' has no dtype", file, entry->name);
    if (strcmp(type, "F32") != 0)
        return rt_fail(err, RT_BAD_INPUT, "%s: tensor '%.100s' has the type %.20s; only F32 is read", file,
                       entry->name, type);
    uint64_t bytes = 0, first, last;
    rt_status status = safetensors_read_shape(file, json_object_get(object, "shape"), entry, &bytes, err);
    if (status != RT_OK)
        return status;
    const json_t *offsets = json_object_get(object, "data_offsets");
    if (!json_is_array(offsets) || json_array_size(offsets) != 2 ||
        !safetensors_read_count(json_array_get(offsets, 0), &first) ||
        !safetensors_read_count(json_array_get(offsets, 1), &last) || first > last)
        return rt_fail(err, RT_BAD_INPUT, "%s: tensor '%.100s' has wrong data_offsets", file, entry->name);
    if (last > data_bytes)
        return rt_fail(
            err, RT_BAD_INPUT,
            "%s: tensor '%.100s' ends at byte %llu of the data, but there are only %llu; the file is cut "
            "short or damaged",
            file, entry->name, (unsigned long long)last, (unsigned long long)data_bytes);
    if (last - first != bytes)
        return rt_fail(err, RT_BAD_INPUT, "%s: tensor '%.100s' has %llu bytes, but its shape needs %llu",
                       file, entry->name, (unsigned long long)(last - first), (unsigned long long)bytes);
    entry->offset = first;
    entry->bytes = bytes;
    return RT_OK;
}

static int safetensors_by_offset(const void *a, const void *b) {
    const struct rt_tensor_entry *x = a, *y = b;
    if (x->offset != y->offset)
        return x->offset < y->offset ? -1 : 1;
    return (x->bytes > y->bytes) - (x->bytes < y->bytes); /* empty ones first */
}

/* The arrays must fill the data part exactly, one after another. */
static rt_status safetensors_check_layout(const struct rt_tensors *tensors, uint64_t data_bytes,
                                          struct rt_error *err) {
    uint64_t at = 0;
    for (size_t i = 0; i < tensors->count; i++) {
        const struct rt_tensor_entry *entry = &tensors->entries[i];
        if (entry->offset != at)
            return rt_fail(err, RT_BAD_INPUT, "%s: tensor '%.100s' %s at byte %llu of the data",
                           tensors->name, entry->name,
                           entry->offset < at ? "overlaps another one" : "leaves a hole before it",
                           (unsigned long long)entry->offset);
        at += entry->bytes;
    }
    if (at != data_bytes)
        return rt_fail(err, RT_BAD_INPUT, "%s: %llu bytes after the last tensor belong to no tensor",
                       tensors->name, (unsigned long long)(data_bytes - at));
    return RT_OK;
}

static rt_status safetensors_read_header(json_t *root, uint64_t data_bytes, struct rt_tensors *tensors,
                                         struct rt_error *err) {
    rt_status status = rt_alloc(json_object_size(root), sizeof *tensors->entries, "the list of tensors",
                                &tensors->entries, err);
    const char *key;
    json_t *value;
    json_object_foreach(root, key, value) {
        if (status != RT_OK)
            return status;
        if (strcmp(key, "__metadata__") == 0) {
            status = safetensors_read_meta(value, tensors, err);
            continue;
        }
        struct rt_tensor_entry *entry = &tensors->entries[tensors->count];
        status = safetensors_copy_text(key, &entry->name, tensors->name, err);
        if (status != RT_OK)
            return status;
        tensors->count++;
        status = safetensors_read_entry(tensors->name, value, data_bytes, entry, err);
    }
    if (status != RT_OK)
        return status;
    qsort(tensors->entries, tensors->count, sizeof *tensors->entries, safetensors_by_offset);
    return safetensors_check_layout(tensors, data_bytes, err);
}

static rt_status safetensors_parse_header(const char *text, size_t bytes, uint64_t data_bytes,
                                          struct rt_tensors *tensors, struct rt_error *err) {
    if (bytes == 0 || text[0] != '{')
        return rt_fail(err, RT_BAD_INPUT, "%s: is not a safetensors file: its header does not begin with '{'",
                       tensors->name);
    if (!rt_tensors_header_fits(text, bytes))
        return rt_fail(
            err, RT_BAD_INPUT,
            "%s: its header does not describe tensors: more than %d values, or nested more than %d deep",
            tensors->name, RT_MAX_HEADER_VALUES, MAX_DEPTH);
    json_error_t problem;
    json_t *root = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &problem);
    if (!root) {
        bool plain = safetensors_is_plain(problem.text);
        return rt_fail(err, RT_BAD_INPUT, "%s: byte %d of its header: %s", tensors->name, problem.position,
                       plain ? problem.text : "is not valid JSON");
    }
    rt_status status = safetensors_read_header(root, data_bytes, tensors, err);
    json_decref(root);
    return status;
}

/* A length has zeros among its bytes; text has none. */
static bool safetensors_begins_as_text(const uint8_t *bytes) {
    for (size_t i = 0; i < LENGTH_BYTES; i++)
        if (bytes[i] == 0 || bytes[i] > '~' || (bytes[i] < ' ' && !strchr("\t\r\n", bytes[i])))
            return false;
    return true;
}

static rt_status safetensors_parse(const uint8_t *bytes, size_t count, struct rt_tensors *tensors,
                                   struct rt_error *err) {
    if (count < LENGTH_BYTES)
        return rt_fail(err, RT_BAD_INPUT, "%s: is not a safetensors file: it has only %zu bytes",
                       tensors->name, count);
    uint64_t header = rt_get_le64(bytes);
    if (safetensors_begins_as_text(bytes))
        return rt_fail(err, RT_BAD_INPUT, "%s: is text, not a model or checkpoint (safetensors)",
                       tensors->name);
    if (header > RT_MAX_HEADER)
        return rt_fail(
            err, RT_BAD_INPUT,
            "%s: is not a safetensors file, or damaged: its header would have %llu bytes, more than %d",
            tensors->name, (unsigned long long)header, RT_MAX_HEADER);
    if (header > count - LENGTH_BYTES)
        return rt_fail(err, RT_BAD_INPUT,
                       "%s: its header should have %llu bytes, but the file ends after %zu", tensors->name,
                       (unsigned long long)header, count - LENGTH_BYTES);
    tensors->data = bytes + LENGTH_BYTES + header;
    return safetensors_parse_header((const char *)bytes + LENGTH_BYTES, (size_t)header,
                                    count - LENGTH_BYTES - header, tensors, err);
}

/* The end of both kinds of reading. */
static rt_status safetensors_hand_over(rt_status status, struct rt_tensors *made,
                                       struct rt_tensors *tensors) {
    if (status != RT_OK)
        rt_tensors_close(made);
    else
        *tensors = *made;
    return status;
}

rt_status rt_tensors_parse_header(const char *text, size_t bytes, uint64_t data_bytes, const char *name,
                                  struct rt_tensors *tensors, struct rt_error *err) {
    struct rt_tensors made = {0};
    rt_status status = safetensors_copy_text(name, &made.name, name, err);
    if (status == RT_OK)
        status = safetensors_parse_header(text, bytes, data_bytes, &made, err);
    return safetensors_hand_over(status, &made, tensors);
}

rt_status rt_tensors_parse(const uint8_t *bytes, size_t count, const char *name, struct rt_tensors *tensors,
                           struct rt_error *err) {
    struct rt_tensors made = {0};
    rt_status status = safetensors_copy_text(name, &made.name, name, err);
    if (status == RT_OK)
        status = safetensors_parse(bytes, count, &made, err);
    return safetensors_hand_over(status, &made, tensors);
}

rt_status rt_tensors_open(const char *path, struct rt_tensors *tensors, struct rt_error *err) {
    struct rt_map map;
    rt_status status = rt_map_open(path, &map, err);
    if (status != RT_OK)
        return status;
    status = rt_tensors_parse(map.data, map.bytes, path, tensors, err);
    if (status != RT_OK)
        rt_map_close(&map);
    else
        tensors->map = map;
    return status;
}

void rt_tensors_close(struct rt_tensors *tensors) {
    for (size_t i = 0; i < tensors->count; i++)
        free(tensors->entries[i].name);
    for (size_t i = 0; i < tensors->meta_count; i++) {
        free(tensors->meta_keys[i]);
        free(tensors->meta_values[i]);
    }
    free(tensors->entries);
    free(tensors->meta_keys);
    free(tensors->meta_values);
    free(tensors->name);
    rt_map_close(&tensors->map);
    *tensors = (struct rt_tensors){0};
}

const char *rt_tensors_meta(const struct rt_tensors *tensors, const char *key) {
    for (size_t i = 0; i < tensors->meta_count; i++)
        if (strcmp(tensors->meta_keys[i], key) == 0)
            return tensors->meta_values[i];
    return NULL;
}

rt_status rt_tensors_read(const struct rt_tensors *tensors, const char *name, const struct rt_shape *shape,
                          float *data, struct rt_error *err) {
    const struct rt_tensor_entry *entry = NULL;
    for (size_t i = 0; i < tensors->count && !entry; i++)
        if (strcmp(tensors->entries[i].name, name) == 0)
            entry = &tensors->entries[i];
    if (!entry)
        return rt_fail(err, RT_BAD_INPUT, "%s: has no tensor '%s'", tensors->name, name);
    char has[96], wants[96];
    if (!rt_shape_equal(&entry->shape, shape))
        return rt_fail(err, RT_BAD_INPUT, "%s: tensor '%s' has the shape %s, but the model needs %s",
                       tensors->name, name, rt_shape_text(&entry->shape, has), rt_shape_text(shape, wants));
    /* Byte by byte: the file is little-endian and may put the data at any address. */
    const uint8_t *p = tensors->data + entry->offset;
    for (size_t i = 0; i < entry->bytes / sizeof(float); i++, p += 4) {
        uint32_t bits = rt_get_le32(p);
        memcpy(&data[i], &bits, sizeof bits);
    }
    return RT_OK;
}
