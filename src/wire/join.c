/* A node is told to connect to another, and answers how well the two are joined. */
#include "wire/bytes.h"
#include "wire/message.h"

size_t rt_join_encode(const struct rt_join *join, uint8_t *bytes, size_t room) {
    struct rt_writer writer = {.bytes = bytes, .room = room};
    rt_write_u16(&writer, join->index);
    rt_write_u16(&writer, join->count);
    rt_write_u16(&writer, join->peer);
    rt_write_u16(&writer, join->label);
    rt_write_u32(&writer, join->probe_bytes);
    rt_write_text(&writer, join->address);
    return rt_writer_end(&writer);
}

rt_status rt_join_decode(const uint8_t *bytes, size_t count, struct rt_join *join, struct rt_error *err) {
    struct rt_reader reader = {.name = "join", .bytes = bytes, .count = count, .err = err};
    struct rt_join made = {0};
    made.index = rt_read_u16(&reader);
    made.count = rt_read_u16(&reader);
    made.peer = rt_read_u16(&reader);
    made.label = rt_read_u16(&reader);
    made.probe_bytes = rt_read_u32(&reader);
    rt_read_text(&reader, "address", made.address);
    if (made.count > RT_MAX_NODES)
        rt_reader_refuse(&reader, "speaks of %u nodes; at most %d can be", made.count, RT_MAX_NODES);
    if (made.index >= made.count || made.peer >= made.count || made.peer == made.index)
        rt_reader_refuse(&reader, "asks node %u of %u, counted from 0, to connect to node %u", made.index,
                         made.count, made.peer);
    if (made.probe_bytes > RT_MAX_TENSOR_BYTES)
        rt_reader_refuse(&reader, "asks for a probe of %lu bytes; at most %d can be",
                         (unsigned long)made.probe_bytes, RT_MAX_TENSOR_BYTES);
    rt_status status = rt_reader_end(&reader);
    if (status == RT_OK)
        *join = made;
    return status;
}

size_t rt_joined_encode(const struct rt_joined *joined, uint8_t *bytes, size_t room) {
    struct rt_writer writer = {.bytes = bytes, .room = room};
    rt_write_u16(&writer, joined->peer);
    rt_write_u16(&writer, joined->label);
    rt_write_f64(&writer, joined->latency);
    rt_write_f64(&writer, joined->bandwidth);
    return rt_writer_end(&writer);
}

rt_status rt_joined_decode(const uint8_t *bytes, size_t count, struct rt_joined *joined,
                           struct rt_error *err) {
    struct rt_reader reader = {.name = "joined", .bytes = bytes, .count = count, .err = err};
    struct rt_joined made = {0};
    made.peer = rt_read_index(&reader, "node", RT_MAX_NODES);
    made.label = rt_read_u16(&reader);
    made.latency = rt_read_amount(&reader, "a latency");
    made.bandwidth = rt_read_amount(&reader, "a bandwidth");
    rt_status status = rt_reader_end(&reader);
    if (status == RT_OK)
        *joined = made;
    return status;
}
