/* A refusal, or the end of a run, with the reason. */
#include "wire/bytes.h"
#include "wire/message.h"

size_t rt_error_encode(const struct rt_error_message *error, uint8_t *bytes, size_t room) {
    struct rt_writer writer = {.bytes = bytes, .room = room};
    rt_write_u16(&writer, error->status);
    rt_write_u16(&writer, error->node);
    rt_write_text(&writer, error->text);
    return rt_writer_end(&writer);
}

rt_status rt_error_decode(const uint8_t *bytes, size_t count, struct rt_error_message *error,
                          struct rt_error *err) {
    struct rt_reader reader = {.name = "error", .bytes = bytes, .count = count, .err = err};
    struct rt_error_message made = {0};
    made.status = rt_read_u16(&reader);
    made.node = rt_read_index(&reader, "node", RT_MAX_NODES);
    rt_read_text(&reader, "sentence", made.text);
    if (made.status == RT_OK || made.status > RT_INTERRUPTED)
        rt_reader_refuse(&reader, "has status %u, which is no failure", made.status);
    rt_status status = rt_reader_end(&reader);
    if (status == RT_OK)
        *error = made;
    return status;
}
