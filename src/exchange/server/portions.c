/* The range of a server, and how it is cut into portions; see portions.h. */
#include "exchange/server/portions.h"

#include "base/memory.h"
#include <stdlib.h>

rt_status rt_server_range(const struct rt_exchange_strategy *strategy,
                          const struct rt_exchange_options *options, const struct rt_roles *roles,
                          uint16_t server, const struct rt_replica *replica, struct rt_span *range,
                          struct rt_error *err) {
    struct rt_span *owned;
    RT_TRY(rt_alloc(RT_MAX_OWNED, sizeof *owned, "the range of a server", &owned, err));
    const size_t count = rt_exchange_owned(strategy, options, roles, server, replica->spans,
                                           replica->span_count, replica->param_count, owned);
    *range = count > 0 ? owned[0] : (struct rt_span){0};
    free(owned);
    return count > 1 ? rt_fail(err, RT_FAILED, "server %u has %zu ranges of the parameters, and can have one",
                               server, count)
                     : RT_OK;
}

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

bool rt_operation_is_among(const void *operation, const void *first, size_t bytes, size_t count,
                           size_t *index) {
    const uintptr_t at = (uintptr_t)operation, from = (uintptr_t)first;
    *index = (size_t)((at - from) / bytes);
    return at >= from && *index < count;
}
