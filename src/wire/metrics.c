/* What the nodes did with their time: a row for each, added as the message goes round. */
#include "base/bytes.h"
#include "base/memory.h"
#include "wire/bytes.h"
#include "wire/message.h"
#include <stdlib.h>

static void write_row(struct rt_writer *writer, const struct rt_metrics_row *row) {
    rt_write_u16(writer, row->node);
    rt_write_f64(writer, row->seconds);
    rt_write_f64(writer, row->cpu_seconds);
    for (size_t i = 0; i < RT_METRIC_STATES; i++)
        rt_write_f64(writer, row->state[i]);
    rt_write_u64(writer, row->samples);
    rt_write_u64(writer, row->updates);
    rt_write_u32(writer, row->queue);
    rt_write_u64(writer, row->peak_memory);
    for (size_t i = 0; i < RT_METRIC_LINKS; i++)
        for (size_t j = 0; j < RT_METRIC_CHANNELS; j++)
            rt_write_u64(writer, row->sent[i][j]);
    for (size_t i = 0; i < RT_METRIC_LINKS; i++)
        for (size_t j = 0; j < RT_METRIC_CHANNELS; j++)
            rt_write_u64(writer, row->received[i][j]);
    rt_write_f64(writer, row->staleness_sum);
    rt_write_u64(writer, row->staleness_max);
}

static void read_row(struct rt_reader *reader, struct rt_metrics_row *row) {
    row->node = rt_read_index(reader, "node", RT_MAX_NODES);
    row->seconds = rt_read_amount(reader, "a time");
    row->cpu_seconds = rt_read_amount(reader, "a time");
    for (size_t i = 0; i < RT_METRIC_STATES; i++)
        row->state[i] = rt_read_amount(reader, "a time");
    row->samples = rt_read_u64(reader);
    row->updates = rt_read_u64(reader);
    row->queue = rt_read_u32(reader);
    row->peak_memory = rt_read_u64(reader);
    for (size_t i = 0; i < RT_METRIC_LINKS; i++)
        for (size_t j = 0; j < RT_METRIC_CHANNELS; j++)
            row->sent[i][j] = rt_read_u64(reader);
    for (size_t i = 0; i < RT_METRIC_LINKS; i++)
        for (size_t j = 0; j < RT_METRIC_CHANNELS; j++)
            row->received[i][j] = rt_read_u64(reader);
    row->staleness_sum = rt_read_amount(reader, "a staleness");
    row->staleness_max = rt_read_u64(reader);
}

size_t rt_metrics_encode(const struct rt_metrics *metrics, uint8_t *bytes, size_t room) {
    struct rt_writer writer = {.bytes = bytes, .room = room, .full = metrics->count > RT_MAX_NODES};
    rt_write_u32(&writer, (uint32_t)metrics->count);
    for (size_t i = 0; i < metrics->count && !writer.full; i++)
        write_row(&writer, &metrics->rows[i]);
    return rt_writer_end(&writer);
}

size_t rt_metrics_append(const struct rt_metrics_row *row, uint8_t *bytes, size_t count, size_t room) {
    uint32_t rows = 0;
    if (count) {
        if (count < RT_METRICS_BYTES)
            return 0;
        rows = rt_get_le32(bytes);
        if (rows >= RT_MAX_NODES || count != RT_METRICS_BYTES + (size_t)rows * RT_METRICS_ROW_BYTES)
            return 0;
    }
    size_t used = count ? count : RT_METRICS_BYTES;
    if (room < used || room - used < RT_METRICS_ROW_BYTES)
        return 0;
    struct rt_writer writer = {.bytes = bytes, .room = room, .used = used};
    write_row(&writer, row);
    rt_put_le32(bytes, rows + 1);
    return rt_writer_end(&writer);
}

rt_status rt_metrics_decode(const uint8_t *bytes, size_t count, struct rt_metrics *metrics,
                            struct rt_error *err) {
    struct rt_reader reader = {.name = "metrics", .bytes = bytes, .count = count, .err = err};
    struct rt_metrics made = {0};
    made.count = rt_read_count(&reader, "nodes", RT_MAX_NODES, RT_METRICS_ROW_BYTES);
    if (reader.status == RT_OK)
        reader.status = rt_alloc(made.count, sizeof *made.rows, "the rows of the metrics", &made.rows, err);
    for (size_t i = 0; i < made.count && reader.status == RT_OK; i++)
        read_row(&reader, &made.rows[i]);
    rt_status status = rt_reader_end(&reader);
    if (status == RT_OK)
        *metrics = made;
    else
        rt_metrics_deinit(&made);
    return status;
}

void rt_metrics_deinit(struct rt_metrics *metrics) {
    free(metrics->rows);
    metrics->rows = NULL;
    metrics->count = 0;
}
