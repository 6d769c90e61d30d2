/*
 * NPY, NumPy's file for one array: a mark, a version, the length of a header, and the header: a Python
 * dictionary with the keys descr (the type), fortran_order and shape. The numbers follow, row by row.
 */
#include "base/bytes.h"
#include "base/sentence.h"
#include "data/array.h"
#include <stdlib.h>
#include <string.h>

enum { MAX_HEADER = 1 << 16 };

static const struct {
    const char *descr;
    enum rt_data_type type;
} types[] = {
    {"|u1", RT_DATA_U8},  {"|b1", RT_DATA_U8},  {"<i4", RT_DATA_I32},
    {"<i8", RT_DATA_I64}, {"<f4", RT_DATA_F32}, {"<f8", RT_DATA_F64},
};

/* The header's text and how far it has been read. */
struct scan {
    const char *text;
    size_t length, at;
};

static char npy_peek(struct scan *scan) {
    while (scan->at < scan->length && (scan->text[scan->at] == ' ' || scan->text[scan->at] == '\n'))
        scan->at++;
    return scan->at < scan->length ? scan->text[scan->at] : 0;
}

static bool npy_accept(struct scan *scan, char c) {
    bool found = npy_peek(scan) == c;
    scan->at += found;
    return found;
}

/* A quoted text without escapes, into room bytes. */
static bool npy_scan_text(struct scan *scan, char *text, size_t room) {
    char quote = npy_peek(scan);
    if (quote != '\'' && quote != '"')
        return false;
    size_t used = 0;
    for (scan->at++; scan->at < scan->length && scan->text[scan->at] != quote; scan->at++) {
        char c = scan->text[scan->at];
        if (c == '\\' || c < ' ' || used + 1 >= room)
            return false;
        text[used++] = c;
    }
    text[used] = 0;
    return scan->at < scan->length && scan->text[scan->at++] == quote;
}

static bool npy_scan_word(struct scan *scan, const char *word) {
    size_t length = strlen(word);
    npy_peek(scan);
    if (scan->length - scan->at < length || memcmp(scan->text + scan->at, word, length) != 0)
        return false;
    scan->at += length;
    return true;
}

static bool npy_scan_number(struct scan *scan, size_t *number) {
    char c = npy_peek(scan);
    if (c < '0' || c > '9')
        return false;
    size_t value = 0;
    for (; scan->at < scan->length && scan->text[scan->at] >= '0' && scan->text[scan->at] <= '9';
         scan->at++) {
        size_t digit = (size_t)(scan->text[scan->at] - '0');
        if (value > (SIZE_MAX - digit) / 10)
            return false;
        value = value * 10 + digit;
    }
    *number = value;
    return true;
}

/* (60000, 28, 28) or (60000,); *rank also counts dimensions beyond the room for them. */
static bool npy_scan_shape(struct scan *scan, size_t *dim, size_t *rank) {
    if (!npy_accept(scan, '('))
        return false;
    for (*rank = 0; !npy_accept(scan, ')'); ++*rank) {
        size_t number;
        if (!npy_scan_number(scan, &number))
            return false;
        if (*rank <= RT_MAX_RANK)
            dim[*rank] = number;
        if (!npy_accept(scan, ',') && npy_peek(scan) != ')')
            return false;
    }
    return true;
}

static rt_status npy_fail_at(const struct rt_input *input, size_t offset, struct rt_error *err) {
    return rt_fail(err, RT_BAD_INPUT, "%s: cannot parse the NPY header at offset %zu", input->name, offset);
}

static rt_status npy_set_type(const struct rt_input *input, const char *descr, struct rt_array_head *head,
                              struct rt_error *err) {
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(types[i].descr, descr) == 0) {
            head->type = types[i].type;
            head->stored_bytes = rt_data_type_bytes(types[i].type);
            return RT_OK;
        }
    const char *name = input->name;
    if (descr[0] == '>')
        return rt_fail(
            err, RT_BAD_INPUT,
            "%s: its numbers are big-endian ('%s'); save it again as little-endian, for instance with "
            "x.astype('<f4')",
            name, descr);
    if (strchr(descr, 'O'))
        return rt_fail(err, RT_BAD_INPUT,
                       "%s: holds Python objects ('%s'), not numbers; save it again after x.astype('<f4')",
                       name, descr);
    return rt_fail(err, RT_BAD_INPUT,
                   "%s: numbers of type '%s' cannot be read; these can: u1, b1, i4, i8, f4, f8", name, descr);
}

/* The dictionary; base is its offset in the file. */
static rt_status npy_read_dictionary(const struct rt_input *input, const char *text, size_t length,
                                     size_t base, struct rt_array_head *head, struct rt_error *err) {
    struct scan scan = {text, length, 0};
    char key[32], descr[64];
    bool has_descr = false, has_order = false, has_shape = false, fortran = false;
    if (!npy_accept(&scan, '{'))
        return npy_fail_at(input, base + scan.at, err);
    while (!npy_accept(&scan, '}')) {
        bool good = npy_scan_text(&scan, key, sizeof key) && npy_accept(&scan, ':');
        if (good && strcmp(key, "descr") == 0) {
            if (npy_peek(&scan) == '[')
                return rt_fail(err, RT_BAD_INPUT,
                               "%s: holds records with named fields; save one plain array of numbers",
                               input->name);
            good = !has_descr && npy_scan_text(&scan, descr, sizeof descr);
            has_descr = true;
        } else if (good && strcmp(key, "fortran_order") == 0) {
            fortran = npy_scan_word(&scan, "True");
            good = !has_order && (fortran || npy_scan_word(&scan, "False"));
            has_order = true;
        } else if (good && strcmp(key, "shape") == 0) {
            good = !has_shape && npy_scan_shape(&scan, head->dim, &head->rank);
            has_shape = true;
        } else {
            good = false;
        }
        if (!good || (!npy_accept(&scan, ',') && npy_peek(&scan) != '}'))
            return npy_fail_at(input, base + scan.at, err);
    }
    if (npy_peek(&scan))
        return npy_fail_at(input, base + scan.at, err);
    if (!has_descr || !has_order || !has_shape)
        return rt_fail(err, RT_BAD_INPUT, "%s: the NPY header lacks '%s'", input->name,
                       !has_descr   ? "descr"
                       : !has_order ? "fortran_order"
                                    : "shape");
    rt_status status = npy_set_type(input, descr, head, err);
    if (status != RT_OK)
        return status;
    if (head->rank == 0 || head->rank > RT_MAX_RANK + 1)
        return rt_fail(err, RT_BAD_INPUT, "%s: has %s; 1 to %d can be read", input->name,
                       RT_COUNTED(head->rank, "dimension"), RT_MAX_RANK + 1);
    /* With one dimension both orders are the same. */
    if (fortran && head->rank > 1)
        return rt_fail(err, RT_BAD_INPUT,
                       "%s: is stored column by column (Fortran order); save it again with "
                       "numpy.save(file, numpy.ascontiguousarray(x))",
                       input->name);
    return RT_OK;
}

rt_status rt_npy_head(struct rt_input *input, struct rt_array_head *head, struct rt_error *err) {
    uint8_t front[12];
    size_t got;
    rt_status status = rt_input_read(input, front, 10, &got, err);
    if (status != RT_OK)
        return status;
    if (got < 10 || memcmp(front, "\x93NUMPY", 6) != 0)
        return rt_fail(err, RT_BAD_INPUT,
                       "%s: is not an NPY file: it does not begin with the NPY magic string", input->name);
    if (front[6] < 1 || front[6] > 3)
        return rt_fail(err, RT_BAD_INPUT, "%s: is an NPY file of version %d.%d; 1 to 3 can be read",
                       input->name, front[6], front[7]);
    size_t length = rt_get_le16(front + 8);
    if (front[6] > 1) {
        status = rt_input_read(input, front + 10, 2, &got, err);
        if (status != RT_OK)
            return status;
        length = got < 2 ? 0 : rt_get_le32(front + 8);
    }
    size_t base = (size_t)input->given;
    if (length == 0 || length > MAX_HEADER)
        return rt_fail(err, RT_BAD_INPUT, "%s: the NPY header has %s (offset 8), which is not valid",
                       input->name, RT_COUNTED(length, "byte"));
    char *text = malloc(length);
    if (!text)
        return rt_fail(err, RT_NO_MEMORY, "not enough memory for the header of %s", input->name);
    status = rt_input_read(input, text, length, &got, err);
    if (status == RT_OK && got < length)
        status = rt_fail(err, RT_BAD_INPUT, "%s: is cut short: it ends inside its header, at offset %zu",
                         input->name, base + got);
    if (status == RT_OK)
        status = npy_read_dictionary(input, text, length, base, head, err);
    free(text);
    return status;
}
