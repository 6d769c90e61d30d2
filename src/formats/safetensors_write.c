/*
 * Writing safetensors: everything is declared first, so that the header can be written before the data, and
 * the data are streamed: a model is never in memory twice. The file appears only when it is complete.
 */
#include "base/bytes.h"
#include "base/memory.h"
#include "formats/safetensors.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK = 4096 }; /* floats */

struct rt_tensors_out {
    struct rt_writer writer;
    char *path;
    json_t *meta, *tensors;
    uint64_t declared, written; /* floats */
    char *header;               /* once it is out */
};

static rt_status safetensors_fail_memory(const struct rt_tensors_out *out, struct rt_error *err) {
    return rt_fail(err, RT_NO_MEMORY, "%s: not enough memory to write it", out->path);
}

static void safetensors_destroy(struct rt_tensors_out *out) {
    json_decref(out->meta);
    json_decref(out->tensors);
    free(out->header);
    free(out->path);
    free(out);
}

rt_status rt_tensors_out_create(const char *path, struct rt_tensors_out **out, struct rt_error *err) {
    struct rt_tensors_out *made;
    rt_status status = rt_alloc(1, sizeof *made, "a model file", &made, err);
    if (status != RT_OK)
        return status;
    made->path = strdup(path);
    made->meta = json_object();
    made->tensors = json_object();
    if (!made->path || !made->meta || !made->tensors)
        status = rt_fail(err, RT_NO_MEMORY, "%s: not enough memory to write it", path);
    if (status == RT_OK)
        status = rt_writer_open(path, &made->writer, err);
    if (status != RT_OK)
        safetensors_destroy(made);
    else
        *out = made;
    return status;
}

/* Texts in the header are UTF-8; jansson refuses others. */
static rt_status safetensors_make_text(const struct rt_tensors_out *out, const char *text, json_t **value,
                                       struct rt_error *err) {
    *value = json_string(text);
    return *value ? RT_OK
                  : rt_fail(err, RT_BAD_INPUT, "%s: a text for its header is not valid UTF-8", out->path);
}

rt_status rt_tensors_out_meta(struct rt_tensors_out *out, const char *key, const char *value,
                              struct rt_error *err) {
    if (out->header)
        return rt_fail(err, RT_FAILED, "%s: metadata must be given before the data", out->path);
    json_t *text;
    rt_status status = safetensors_make_text(out, value, &text, err);
    if (status != RT_OK)
        return status;
    if (json_object_set_new(out->meta, key, text) != 0)
        return rt_fail(err, RT_BAD_INPUT, "%s: a key of its metadata is not valid UTF-8", out->path);
    return RT_OK;
}

rt_status rt_tensors_out_declare(struct rt_tensors_out *out, const char *name, const struct rt_shape *shape,
                                 struct rt_error *err) {
    if (out->header)
        return rt_fail(err, RT_FAILED, "%s: tensors must be declared before the data", out->path);
    if (json_object_get(out->tensors, name) || strcmp(name, "__metadata__") == 0)
        return rt_fail(err, RT_FAILED, "%s: tensor '%s' is declared twice", out->path, name);
    uint64_t size = 1;
    json_t *dims = json_array();
    bool stored = dims != NULL;
    for (size_t i = 0; i < shape->rank && stored; i++) {
        if (shape->dim[i] && size > INT64_MAX / sizeof(float) / shape->dim[i]) {
            json_decref(dims);
            return rt_fail(err, RT_FAILED, "%s: tensor '%s' is too large", out->path, name);
        }
        size *= shape->dim[i];
        stored = json_array_append_new(dims, json_integer((json_int_t)shape->dim[i])) == 0;
    }
    if (size > INT64_MAX / sizeof(float) - out->declared) {
        json_decref(dims);
        return rt_fail(err, RT_FAILED, "%s: tensor '%s' is too large", out->path, name);
    }
    uint64_t first = out->declared * sizeof(float), last = (out->declared + size) * sizeof(float);
    /* The o format takes ownership of dims, also on failure. */
    json_t *entry = stored ? json_pack("{s:s, s:o, s:[I, I]}", "dtype", "F32", "shape", dims, "data_offsets",
                                       (json_int_t)first, (json_int_t)last)
                           : NULL;
    if (!stored)
        json_decref(dims);
    if (!entry || json_object_set_new(out->tensors, name, entry) != 0)
        return safetensors_fail_memory(out, err);
    out->declared += size;
    return RT_OK;
}

static rt_status safetensors_write_header(struct rt_tensors_out *out, struct rt_error *err) {
    json_t *root = json_object();
    bool stored = root != NULL;
    if (stored && json_object_size(out->meta))
        stored = json_object_set(root, "__metadata__", out->meta) == 0;
    stored = stored && json_object_update(root, out->tensors) == 0;
    char *text = stored ? json_dumps(root, JSON_COMPACT) : NULL;
    json_decref(root);
    if (!text)
        return safetensors_fail_memory(out, err);
    size_t bytes = strlen(text), padded = rt_round_up(bytes, 8);
    if (padded > RT_MAX_HEADER || !rt_tensors_header_fits(text, bytes)) {
        free(text);
        return rt_fail(
            err, RT_FAILED,
            "%s: its header would have more than %d bytes or %d values: these are too many tensors",
            out->path, RT_MAX_HEADER, RT_MAX_HEADER_VALUES);
    }
    /* Padding aligns the data to 8 bytes, so that readers can map them. */
    uint8_t length[8];
    rt_put_le64(length, padded);
    rt_writer_write(&out->writer, length, sizeof length);
    rt_writer_write(&out->writer, text, bytes);
    rt_writer_write(&out->writer, "       ", padded - bytes);
    out->header = text;
    return RT_OK;
}

rt_status rt_tensors_out_amend(struct rt_tensors_out *out, const char *key, const char hex[65],
                               struct rt_error *err) {
    rt_status status = out->header ? RT_OK : safetensors_write_header(out, err);
    if (status != RT_OK)
        return status;
    char entry[160];
    int before = snprintf(entry, sizeof entry, "\"%s\":\"", key);
    snprintf(entry + before, sizeof entry - (size_t)before, "%s\"", RT_HASH_TO_COME);
    char *found = strstr(out->header, entry);
    if (!found)
        return rt_fail(err, RT_FAILED, "%s: its header has no '%s' that is to come", out->path, key);
    memcpy(found + before, hex, 64);
    rt_writer_amend(&out->writer, 8 + (uint64_t)(found - out->header) + (uint64_t)before, hex, 64);
    return RT_OK;
}

rt_status rt_tensors_out_hash(struct rt_tensors_out *out, const char *const *keys, char hex[65],
                              struct rt_error *err) {
    struct rt_tensors tensors;
    rt_status status = out->header ? RT_OK : safetensors_write_header(out, err);
    if (status == RT_OK)
        status = rt_tensors_parse_header(out->header, strlen(out->header), out->declared * sizeof(float),
                                         out->path, &tensors, err);
    if (status != RT_OK)
        return status;
    status = rt_tensors_hash(&tensors, keys, hex, err);
    rt_tensors_close(&tensors);
    return status;
}

static void safetensors_write_floats(struct rt_writer *writer, const float *data, size_t count) {
    uint8_t chunk[CHUNK * 4];
    while (count) {
        size_t n = count < CHUNK ? count : CHUNK;
        for (size_t i = 0; i < n; i++) {
            uint32_t bits;
            memcpy(&bits, &data[i], sizeof bits);
            rt_put_le32(chunk + 4 * i, bits);
        }
        rt_writer_write(writer, chunk, 4 * n);
        data += n;
        count -= n;
    }
}

rt_status rt_tensors_out_write(struct rt_tensors_out *out, const float *data, size_t count,
                               struct rt_error *err) {
    rt_status status = out->header ? RT_OK : safetensors_write_header(out, err);
    if (status != RT_OK)
        return status;
    if (count > out->declared - out->written)
        return rt_fail(err, RT_FAILED, "%s: more data than declared", out->path);
    safetensors_write_floats(&out->writer, data, count);
    out->written += count;
    if (out->writer.status != RT_OK)
        return rt_fail(err, out->writer.status, "%s", out->writer.first.text);
    return RT_OK;
}

rt_status rt_tensors_out_sync(struct rt_tensors_out *out, struct rt_error *err) {
    rt_status status = out->header ? RT_OK : safetensors_write_header(out, err);
    if (status == RT_OK && out->written != out->declared && out->writer.status == RT_OK)
        status = rt_fail(err, RT_FAILED, "%s: %llu of the %llu declared floats were written", out->path,
                         (unsigned long long)out->written, (unsigned long long)out->declared);
    return status == RT_OK ? rt_writer_sync(&out->writer, err) : status;
}

rt_status rt_tensors_out_commit(struct rt_tensors_out *out, struct rt_error *err) {
    rt_status status = rt_tensors_out_sync(out, err);
    if (status != RT_OK) {
        rt_tensors_out_abandon(out);
        return status;
    }
    status = rt_writer_commit(&out->writer, err);
    safetensors_destroy(out);
    return status;
}

void rt_tensors_out_abandon(struct rt_tensors_out *out) {
    if (!out)
        return;
    rt_writer_abandon(&out->writer);
    safetensors_destroy(out);
}
