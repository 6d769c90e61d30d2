/* JOIN tells a node to connect to another; the answer has the quality of the link. */
#include "wire/bytes.h"
#include "wire/message.h"

uint16_t rt_label_mirror(uint16_t label) {
    return label == RT_LABEL_NEXT ? RT_LABEL_PREVIOUS : label == RT_LABEL_PREVIOUS ? RT_LABEL_NEXT : label;
}

size_t rt_join_encode(const struct rt_join *join, uint8_t *bytes, size_t room) {
    struct rt_encoder encoder = {.bytes = bytes, .room = room};
    rt_write_u16(&encoder, join->peer);
    rt_write_u16(&encoder, join->label);
    rt_write_u32(&encoder, join->probe_bytes);
    rt_write_u32(&encoder, join->milliseconds);
    rt_write_text(&encoder, join->address);
    rt_write_text(&encoder, join->name);
    return rt_encoder_end(&encoder);
}

rt_status rt_join_decode(const uint8_t *bytes, size_t count, struct rt_join *join, struct rt_error *err) {
    struct rt_decoder decoder = {.name = "join", .bytes = bytes, .count = count, .err = err};
    struct rt_join made = {0};
    made.peer = rt_read_index(&decoder, "node", RT_MAX_NODES);
    made.label = rt_read_u16(&decoder);
    made.probe_bytes = rt_read_u32(&decoder);
    made.milliseconds = rt_read_u32(&decoder);
    rt_read_text(&decoder, "peer's address", made.address);
    rt_read_name(&decoder, made.name);
    if (made.probe_bytes > RT_MAX_TENSOR_BYTES)
        rt_decoder_refuse(&decoder, "asks for a probe of %lu bytes; the maximum is %d",
                          (unsigned long)made.probe_bytes, RT_MAX_TENSOR_BYTES);
    rt_status status = rt_decoder_end(&decoder);
    if (status == RT_OK)
        *join = made;
    return status;
}

size_t rt_joined_encode(const struct rt_joined *joined, uint8_t *bytes, size_t room) {
    struct rt_encoder encoder = {.bytes = bytes, .room = room};
    rt_write_u16(&encoder, joined->peer);
    rt_write_u16(&encoder, joined->label);
    rt_write_f64(&encoder, joined->latency);
    rt_write_f64(&encoder, joined->bandwidth);
    return rt_encoder_end(&encoder);
}

rt_status rt_joined_decode(const uint8_t *bytes, size_t count, struct rt_joined *joined,
                           struct rt_error *err) {
    struct rt_decoder decoder = {.name = "joined", .bytes = bytes, .count = count, .err = err};
    struct rt_joined made = {0};
    made.peer = rt_read_index(&decoder, "node", RT_MAX_NODES);
    made.label = rt_read_u16(&decoder);
    made.latency = rt_read_amount(&decoder, "a latency");
    made.bandwidth = rt_read_amount(&decoder, "a bandwidth");
    rt_status status = rt_decoder_end(&decoder);
    if (status == RT_OK)
        *joined = made;
    return status;
}
