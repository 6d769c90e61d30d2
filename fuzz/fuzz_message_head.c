/* Any bytes as the head of a message; the first four are the length of its body. */
#include "base/bytes.h"
#include "message_check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    struct rt_error err;
    struct rt_message message;
    uint8_t head[RT_MESSAGE_HEAD];
    if (bytes < 4)
        return 0;
    size_t body_bytes = rt_get_le32(data);
    if (rt_message_decode(data + 4, bytes - 4, body_bytes, &message, &err) != RT_OK)
        return 0;
    if (message.tensors && rt_message_tensor_bytes(&message) != body_bytes)
        abort();
    rt_message_encode(&message, head);
    rt_fuzz_same(data + 4, bytes - 4, head, sizeof head);
    return 0;
}
