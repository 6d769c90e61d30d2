/*
 * IDX, the format of MNIST: two zero bytes, a type, the number of dimensions, the dimensions (32 bits each),
 * then the numbers, all big-endian. Bytes are used as they are; wider numbers are turned around.
 */
#include "base/bytes.h"
#include "data/array.h"
#include <string.h>

static void idx_convert_i8(const uint8_t *stored, size_t n, uint8_t *out) {
    for (size_t i = 0; i < n; i++)
        rt_put_le32(out + 4 * i, (uint32_t)(int8_t)stored[i]);
}

static void idx_convert_i16(const uint8_t *stored, size_t n, uint8_t *out) {
    for (size_t i = 0; i < n; i++)
        rt_put_le32(out + 4 * i, (uint32_t)(int16_t)rt_get_be16(stored + 2 * i));
}

static void idx_convert_32(const uint8_t *stored, size_t n, uint8_t *out) {
    for (size_t i = 0; i < n; i++)
        rt_put_le32(out + 4 * i, rt_get_be32(stored + 4 * i));
}

static void idx_convert_64(const uint8_t *stored, size_t n, uint8_t *out) {
    for (size_t i = 0; i < n; i++)
        rt_put_le64(out + 8 * i, rt_get_be64(stored + 8 * i));
}

static const struct {
    uint8_t code;
    enum rt_data_type type;
    size_t bytes;
    void (*convert)(const uint8_t *stored, size_t n, uint8_t *out);
} types[] = {
    {0x08, RT_DATA_U8, 1, NULL},
    {0x09, RT_DATA_I32, 1, idx_convert_i8},
    {0x0b, RT_DATA_I32, 2, idx_convert_i16},
    {0x0c, RT_DATA_I32, 4, idx_convert_32},
    {0x0d, RT_DATA_F32, 4, idx_convert_32},
    {0x0e, RT_DATA_F64, 8, idx_convert_64},
};

rt_status rt_idx_head(struct rt_input *input, struct rt_array_head *head, struct rt_error *err) {
    uint8_t bytes[4 + 4 * (RT_MAX_RANK + 1)];
    size_t got;
    rt_status status = rt_input_read(input, bytes, 4, &got, err);
    if (status != RT_OK)
        return status;
    if (got < 4 || bytes[0] || bytes[1])
        return rt_fail(err, RT_BAD_INPUT,
                       "%s: is not an IDX file: it does not begin with two zero bytes and a type",
                       input->name);
    size_t type = 0;
    while (type < sizeof types / sizeof *types && types[type].code != bytes[2])
        type++;
    if (type == sizeof types / sizeof *types)
        return rt_fail(err, RT_BAD_INPUT, "%s: is not an IDX file: unknown type 0x%02x (offset 2)",
                       input->name, bytes[2]);
    if (bytes[3] == 0 || bytes[3] > RT_MAX_RANK + 1)
        return rt_fail(err, RT_BAD_INPUT, "%s: has %d dimensions (offset 3); 1 to %d can be read",
                       input->name, bytes[3], RT_MAX_RANK + 1);
    *head = (struct rt_array_head){.type = types[type].type,
                                   .rank = bytes[3],
                                   .stored_bytes = types[type].bytes,
                                   .convert = types[type].convert};
    status = rt_input_read(input, bytes + 4, 4 * head->rank, &got, err);
    if (status == RT_OK && got < 4 * head->rank)
        status = rt_fail(err, RT_BAD_INPUT, "%s: is cut short: it ends inside its header, at offset %zu",
                         input->name, 4 + got);
    for (size_t i = 0; i < head->rank && status == RT_OK; i++)
        head->dim[i] = rt_get_be32(bytes + 4 + 4 * i);
    return status;
}
