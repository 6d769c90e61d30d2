/* Cutting a range into portions; see server_portions.h. */
#include "exchange/server/portions.h"

#include "base/memory.h"
#include <stdlib.h>

static bool portion_meets(const struct rt_span *span, size_t first, size_t end, struct rt_portion *portion) {
    const size_t span_end = span->first + span->count;
    const size_t from = span->first > first ? span->first : first, to = span_end < end ? span_end : end;
    if (from >= to)
        return false;
    portion->first = from;
    portion->count = to - from;
    return true;
}

rt_status rt_portions_create(const struct rt_span *spans, size_t span_count, size_t first, size_t count,
                             struct rt_portion **portions, size_t *portion_count, struct rt_error *err) {
    struct rt_portion *made;
    rt_status status = rt_alloc(span_count + 1, sizeof *made, "the portions of a server", &made, err);
    if (status != RT_OK)
        return status;
    size_t found = 0;
    for (size_t i = 0; i < span_count; i++) {
        struct rt_portion portion = {.span = i};
        if (!portion_meets(&spans[i], first, first + count, &portion))
            continue;
        if (portion.count > RT_MAX_TENSOR_BYTES / sizeof(float)) {
            free(made);
            return rt_fail(err, RT_BAD_INPUT,
                           "%zu parameters that are exchanged together are too many for a message; more "
                           "servers make them fewer",
                           portion.count);
        }
        made[found++] = portion;
    }
    *portions = made;
    *portion_count = found;
    return RT_OK;
}

void rt_portion_describe(const struct rt_portion *portion, struct rt_message *message) {
    message->span = (uint32_t)portion->span;
    message->tensors = 1;
    message->tensor[0] =
        (struct rt_message_tensor){.dtype = RT_DTYPE_F32, .rank = 1, .dims = {(uint32_t)portion->count}};
}

bool rt_portion_fits(const struct rt_portion *portion, const struct rt_message *message) {
    return message->span == portion->span && message->tensors == 1 &&
           message->tensor[0].dtype == RT_DTYPE_F32 && message->tensor[0].rank == 1 &&
           message->tensor[0].dims[0] == portion->count;
}
