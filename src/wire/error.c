/* A refusal, or the end of a run, with the reason. */
#include "wire/bytes.h"
#include "wire/message.h"

size_t rt_error_encode(const struct rt_error_message *error, uint8_t *bytes, size_t room) {
    struct rt_encoder encoder = {.bytes = bytes, .room = room};
    rt_write_u16(&encoder, error->status);
    rt_write_u16(&encoder, error->node);
    rt_write_text(&encoder, error->text);
    return rt_encoder_end(&encoder);
}

rt_status rt_error_decode(const uint8_t *bytes, size_t count, struct rt_error_message *error,
                          struct rt_error *err) {
    struct rt_decoder decoder = {.name = "error", .bytes = bytes, .count = count, .err = err};
    struct rt_error_message made = {0};
    made.status = rt_read_u16(&decoder);
    made.node = rt_read_index(&decoder, "node", RT_MAX_NODES);
    rt_read_text(&decoder, "sentence", made.text);
    if (made.status == RT_OK || made.status > RT_DIVERGED)
        rt_decoder_refuse(&decoder, "has status %u, which is not a failure", made.status);
    rt_status status = rt_decoder_end(&decoder);
    if (status == RT_OK)
        *error = made;
    return status;
}
