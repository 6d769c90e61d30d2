/* How the nodes spent their time: each appends a row as the message goes round. */
#include "base/bytes.h"
#include "wire/bytes.h"
#include "wire/message.h"

static void metrics_write_row(struct rt_encoder *encoder, const struct rt_metrics_row *row) {
    rt_write_u16(encoder, row->node);
    rt_write_f64(encoder, row->seconds);
    rt_write_f64(encoder, row->cpu_seconds);
    rt_write_f64(encoder, row->validation);
    for (size_t i = 0; i < RT_METRIC_STATES; i++)
        rt_write_f64(encoder, row->state[i]);
    rt_write_u64(encoder, row->samples);
    rt_write_u64(encoder, row->updates);
    rt_write_u32(encoder, row->queue);
    rt_write_u64(encoder, row->peak_memory);
    for (size_t i = 0; i < RT_METRIC_LINKS; i++)
        for (size_t j = 0; j < RT_METRIC_KINDS; j++)
            rt_write_u64(encoder, row->sent[i][j]);
    for (size_t i = 0; i < RT_METRIC_LINKS; i++)
        for (size_t j = 0; j < RT_METRIC_KINDS; j++)
            rt_write_u64(encoder, row->received[i][j]);
    rt_write_f64(encoder, row->staleness_sum);
    rt_write_u64(encoder, row->staleness_max);
}

static void metrics_read_row(struct rt_decoder *decoder, struct rt_metrics_row *row) {
    row->node = rt_read_index(decoder, "node", RT_MAX_NODES);
    row->seconds = rt_read_amount(decoder, "a time");
    row->cpu_seconds = rt_read_amount(decoder, "a time");
    row->validation = rt_read_amount(decoder, "a time");
    for (size_t i = 0; i < RT_METRIC_STATES; i++)
        row->state[i] = rt_read_amount(decoder, "a time");
    row->samples = rt_read_u64(decoder);
    row->updates = rt_read_u64(decoder);
    row->queue = rt_read_u32(decoder);
    row->peak_memory = rt_read_u64(decoder);
    for (size_t i = 0; i < RT_METRIC_LINKS; i++)
        for (size_t j = 0; j < RT_METRIC_KINDS; j++)
            row->sent[i][j] = rt_read_u64(decoder);
    for (size_t i = 0; i < RT_METRIC_LINKS; i++)
        for (size_t j = 0; j < RT_METRIC_KINDS; j++)
            row->received[i][j] = rt_read_u64(decoder);
    row->staleness_sum = rt_read_amount(decoder, "a staleness");
    row->staleness_max = rt_read_u64(decoder);
}

size_t rt_metrics_encode(const struct rt_metrics *metrics, uint8_t *bytes, size_t room) {
    struct rt_encoder encoder = {.bytes = bytes, .room = room, .full = metrics->count > RT_MAX_NODES};
    rt_write_u32(&encoder, (uint32_t)metrics->count);
    for (size_t i = 0; i < metrics->count && !encoder.full; i++)
        metrics_write_row(&encoder, &metrics->rows[i]);
    return rt_encoder_end(&encoder);
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
    struct rt_encoder encoder = {.bytes = bytes, .room = room, .used = used};
    metrics_write_row(&encoder, row);
    rt_put_le32(bytes, rows + 1);
    return rt_encoder_end(&encoder);
}

rt_status rt_metrics_decode(const uint8_t *bytes, size_t count, struct rt_metrics *metrics,
                            struct rt_error *err) {
    struct rt_decoder decoder = {.name = "metrics", .bytes = bytes, .count = count, .err = err};
    const size_t rows = rt_read_count(&decoder, "nodes", RT_MAX_NODES, RT_METRICS_ROW_BYTES);
    if (decoder.status == RT_OK && rows > metrics->room)
        return rt_fail(err, RT_BAD_INPUT, "the metrics have %zu rows; at most %zu were expected", rows,
                       metrics->room);
    for (size_t i = 0; i < rows && decoder.status == RT_OK; i++)
        metrics_read_row(&decoder, &metrics->rows[i]);
    RT_TRY(rt_decoder_end(&decoder));
    metrics->count = rows;
    return RT_OK;
}
