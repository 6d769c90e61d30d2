/* Messages between neighbours: posting receives, validating and sending. All fields are validated: the run,
 * the numbers, the shapes. */
#include "ring/flow.h"

void rt_hop_send(struct rt_flow *flow, struct rt_neighbour *to, unsigned channel,
                 const struct rt_message *message, const void *body, size_t bytes, const void *more,
                 size_t more_bytes, struct rt_send *send, bool *sending) {
    struct rt_message whole = *message;
    rt_states_catch_up(&flow->states);
    whole.run = flow->settings.run;
    send->channel = channel;
    send->head_bytes = RT_MESSAGE_HEAD;
    rt_message_encode(&whole, send->head);
    send->body[0] = (struct rt_piece){body, bytes};
    send->body[1] = (struct rt_piece){more, more_bytes};
    send->user = sending;
    *sending = true;
    rt_link_send(to->talk.link, send);
}

/* ---- shapes -------------------------------------------------------------------------------------------- */

/* [rows] + shape; examples of more dimensions than a message has travel flat. */
static void hop_describe(const struct rt_shape *shape, size_t rows, struct rt_message_tensor *tensor) {
    *tensor = (struct rt_message_tensor){.dtype = RT_DTYPE_F32, .rank = 2};
    tensor->dims[0] = (uint32_t)rows;
    tensor->dims[1] = (uint32_t)rt_shape_size(shape);
    if (shape->rank == 0 || shape->rank >= RT_MESSAGE_RANK)
        return;
    tensor->rank = (uint8_t)(1 + shape->rank);
    for (size_t i = 0; i < shape->rank; i++)
        tensor->dims[1 + i] = (uint32_t)shape->dim[i];
}

static bool hop_is_same(const struct rt_message_tensor *a, const struct rt_message_tensor *b) {
    bool same = a->dtype == b->dtype && a->rank == b->rank;
    for (size_t i = 0; same && i < a->rank; i++)
        same = a->dims[i] == b->dims[i];
    return same;
}

static void hop_describe_all(const struct rt_shape *shape, size_t rows, bool indices,
                             struct rt_message *message) {
    message->tensors = indices ? 2 : 1;
    hop_describe(shape, rows, &message->tensor[0]);
    message->tensor[1] = (struct rt_message_tensor){0};
    if (indices)
        message->tensor[1] =
            (struct rt_message_tensor){.dtype = RT_DTYPE_U32, .rank = 1, .dims = {(uint32_t)rows}};
}

static rt_status hop_check_shapes(const struct rt_message *message, const struct rt_shape *shape, size_t rows,
                                  bool indices, struct rt_error *err) {
    struct rt_message expected;
    hop_describe_all(shape, rows, indices, &expected);
    if (message->tensors != expected.tensors)
        return rt_fail(err, RT_BAD_INPUT, "a %s message has %zu tensors instead of %zu",
                       rt_message_name(message->type), message->tensors, expected.tensors);
    for (size_t i = 0; i < expected.tensors; i++)
        if (!hop_is_same(&message->tensor[i], &expected.tensor[i]))
            return rt_fail(err, RT_BAD_INPUT,
                           "a %s message of micro-batch %llu has the wrong shape (%zu rows of %zu were "
                           "expected)",
                           rt_message_name(message->type), (unsigned long long)message->micro, rows,
                           rt_shape_size(shape));
    return RT_OK;
}

static rt_status hop_check_source(const struct rt_flow *flow, const struct rt_message *message,
                                  const struct rt_neighbour *from, struct rt_error *err) {
    const size_t first = flow->settings.inter_ring.first;
    char name[RT_NAME_ROOM];
    if (message->run != flow->settings.run)
        return rt_fail(err, RT_BAD_INPUT, "it sent a message (%s) of another run",
                       rt_message_name(message->type));
    if (message->source != from->index)
        return rt_fail(err, RT_BAD_INPUT, "a %s message says that it is from %s",
                       rt_message_name(message->type),
                       rt_node_name(&flow->settings.names, first + message->source, name));
    return RT_OK;
}

static rt_status hop_check_number(const struct rt_message *message, const char *what, uint64_t is,
                                  uint64_t expected, struct rt_error *err) {
    if (is == expected)
        return RT_OK;
    return rt_fail(err, RT_BAD_INPUT, "a %s message is of %s %llu where %llu was expected",
                   rt_message_name(message->type), what, (unsigned long long)is,
                   (unsigned long long)expected);
}

/* ---- clockwise ----------------------------------------------------------------------------------------- */

void rt_segment_post(struct rt_segment *segment, const struct rt_job *job) {
    if (!segment->in)
        return;
    const size_t row = rt_shape_size(&segment->in_shape) + (segment->indices_in ? 1 : 0);
    for (; segment->posted < segment->oldest + segment->count; segment->posted++) {
        struct rt_inflight *inflight = rt_segment_inflight(segment, segment->posted);
        inflight->input = (struct rt_receive){.channel = RT_CHANNEL_SECOND,
                                              .body = inflight->x,
                                              .body_room = rt_job_micro_rows(job) * row * sizeof(float),
                                              .user = inflight};
        rt_link_receive(segment->in->talk.link, &inflight->input);
    }
}

void rt_sequence_take(struct rt_sequence *next, const struct rt_job *job, const struct rt_message *message,
                      struct rt_inflight *inflight) {
    if (next->part == 0) {
        next->rows = message->rows;
        next->epoch = message->epoch;
        next->parts = rt_job_micros(job, message->rows);
    }
    const struct rt_micro part = rt_job_micro(job, next->rows, next->part);
    inflight->message = *message;
    inflight->rows = part.rows;
    inflight->last = next->part + 1 == next->parts;
    if (inflight->slot) {
        inflight->slot->micro = message->micro;
        inflight->slot->epoch = message->epoch;
        inflight->slot->rows = part.rows;
        inflight->slot->batch_rows = message->rows;
        inflight->slot->part = part;
    }
    next->micro++;
    next->part = inflight->last ? 0 : next->part + 1;
    next->update += inflight->last ? 1 : 0;
}

static rt_status hop_take_forward(struct rt_segment *segment, const struct rt_job *job,
                                  const struct rt_message *message, struct rt_inflight *inflight,
                                  struct rt_error *err) {
    struct rt_sequence *next = &segment->next;
    if (job->evaluate_only)
        return rt_fail(err, RT_BAD_INPUT, "a forward message came in a run that only evaluates");
    /* Where rings share the batches, it is the first of them that loads numbers; the others follow. */
    if (job->ring.part > 0 && next->micro == 0)
        next->update = message->update;
    /* Where each ring has its own batches, some of the numbers belong to other rings. */
    if (job->ring.with_servers && next->part == 0 && message->update > next->update &&
        message->update < INT64_MAX)
        next->update = message->update;
    rt_status status = hop_check_number(message, "micro-batch", message->micro, next->micro, err);
    if (status == RT_OK)
        status = hop_check_number(message, "update", message->update, next->update, err);
    if (status != RT_OK)
        return status;
    if (message->rows == 0 || message->rows > (uint64_t)job->batch)
        return rt_fail(err, RT_BAD_INPUT, "an update of %u examples, where a batch has %lld", message->rows,
                       (long long)job->batch);
    if (next->part && (message->rows != next->rows || message->epoch != next->epoch))
        return rt_fail(err, RT_BAD_INPUT,
                       "micro-batch %llu is of %u examples in epoch %u, but its update of %u in epoch %u",
                       (unsigned long long)message->micro, message->rows, message->epoch, next->rows,
                       next->epoch);
    status = hop_check_shapes(message, &segment->in_shape, rt_job_micro(job, message->rows, next->part).rows,
                              segment->indices_in, err);
    if (status == RT_OK)
        rt_sequence_take(next, job, message, inflight);
    return status;
}

static rt_status hop_take_evaluation(struct rt_segment *segment, const struct rt_job *job,
                                     const struct rt_message *message, struct rt_inflight *inflight,
                                     struct rt_error *err) {
    const size_t rows = message->tensor[0].dims[0];
    rt_status status = hop_check_number(message, "part", message->micro, segment->next.evaluation, err);
    if (status == RT_OK && (rows == 0 || rows > rt_job_micro_rows(job)))
        status = rt_fail(err, RT_BAD_INPUT, "%zu examples to be evaluated at a time, where %zu can be", rows,
                         rt_job_micro_rows(job));
    if (status == RT_OK)
        status = hop_check_shapes(message, &segment->in_shape, rows, false, err);
    if (status != RT_OK)
        return status;
    segment->next.evaluation++;
    inflight->message = *message;
    inflight->rows = rows;
    if (inflight->slot) {
        inflight->slot->rows = inflight->slot->batch_rows = rows;
        inflight->slot->part = (struct rt_micro){.rows = rows};
    }
    return RT_OK;
}

rt_status rt_segment_arrived(struct rt_flow *flow, struct rt_segment *segment, struct rt_inflight *inflight,
                             struct rt_error *err) {
    struct rt_message message;
    rt_status status = rt_message_decode(inflight->input.head, inflight->input.head_bytes,
                                         inflight->input.body_bytes, &message, err);
    if (status == RT_OK)
        status = hop_check_source(flow, &message, segment->in, err);
    if (status != RT_OK)
        return status;
    /* All but FORWARD are of the parameters that the updates so far will lead to. */
    if (message.type != RT_MESSAGE_FORWARD && segment->next.part)
        return rt_fail(err, RT_BAD_INPUT, "a %s message came in the middle of an update",
                       rt_message_name(message.type));
    switch (message.type) {
    case RT_MESSAGE_FORWARD:
        status = hop_take_forward(segment, flow->job, &message, inflight, err);
        break;
    case RT_MESSAGE_EVALUATE:
        status = hop_check_number(&message, "update", message.update, segment->next.update, err);
        if (status == RT_OK)
            status = hop_take_evaluation(segment, flow->job, &message, inflight, err);
        break;
    case RT_MESSAGE_PULL:
        if (!flow->job->ring.with_servers || !(message.flags & RT_FLAG_REST))
            return rt_fail(err, RT_BAD_INPUT, "a pull message came where there are no servers");
        /* fall through */
    case RT_MESSAGE_SNAPSHOT:
    case RT_MESSAGE_STOP:
        status = hop_check_number(&message, "update", message.update, segment->next.update, err);
        inflight->message = message;
        break;
    default:
        status = rt_fail(err, RT_BAD_INPUT, "a %s message came among the activations",
                         rt_message_name(message.type));
    }
    if (status != RT_OK)
        return status;
    inflight->state = RT_INFLIGHT_FILLED;
    segment->arrived++;
    return RT_OK;
}

void rt_segment_send(struct rt_flow *flow, struct rt_segment *segment, struct rt_inflight *inflight,
                     const float *y) {
    struct rt_message message = inflight->message;
    message.source = flow->settings.index;
    message.tensors = 0;
    size_t bytes = 0, index_bytes = 0;
    const size_t in = rt_shape_size(&segment->in_shape);
    if (y) {
        const bool indices = segment->indices_out && message.type == RT_MESSAGE_FORWARD;
        hop_describe_all(&segment->out_shape, inflight->rows, indices, &message);
        bytes = inflight->rows * rt_shape_size(&segment->out_shape) * sizeof(float);
        index_bytes = indices ? inflight->rows * sizeof(uint32_t) : 0;
    }
    rt_hop_send(flow, segment->out, RT_CHANNEL_SECOND, &message, y, bytes,
                index_bytes ? inflight->x + inflight->rows * in : NULL, index_bytes, &inflight->output,
                &inflight->sending);
}

/* ---- anticlockwise ------------------------------------------------------------------------------------- */

void rt_segment_post_gradient(struct rt_segment *segment, struct rt_inflight *inflight) {
    inflight->gradient =
        (struct rt_receive){.channel = RT_CHANNEL_FIRST,
                            .body = inflight->slot->dy,
                            .body_room = inflight->rows * rt_shape_size(&segment->out_shape) * sizeof(float),
                            .user = inflight};
    rt_link_receive(segment->out->talk.link, &inflight->gradient);
}

rt_status rt_segment_returned(struct rt_flow *flow, struct rt_segment *segment, struct rt_inflight *inflight,
                              struct rt_error *err) {
    struct rt_message message;
    rt_status status = rt_message_decode(inflight->gradient.head, inflight->gradient.head_bytes,
                                         inflight->gradient.body_bytes, &message, err);
    if (status == RT_OK)
        status = hop_check_source(flow, &message, segment->out, err);
    if (status == RT_OK && message.type != RT_MESSAGE_BACKWARD)
        status = rt_fail(err, RT_BAD_INPUT, "a %s message came among the gradients",
                         rt_message_name(message.type));
    if (status == RT_OK)
        status = hop_check_number(&message, "micro-batch", message.micro, inflight->message.micro, err);
    if (status == RT_OK)
        status = hop_check_number(&message, "update", message.update, inflight->message.update, err);
    if (status == RT_OK)
        status = hop_check_shapes(&message, &segment->out_shape, inflight->rows, false, err);
    if (status != RT_OK)
        return status;
    inflight->state = RT_INFLIGHT_GRADIENT;
    segment->gradient++;
    return RT_OK;
}

void rt_segment_send_back(struct rt_flow *flow, struct rt_segment *segment,
                          const struct rt_inflight *inflight, struct rt_send_buffer *buffer) {
    struct rt_message message = {.type = RT_MESSAGE_BACKWARD,
                                 .source = flow->settings.index,
                                 .micro = inflight->message.micro,
                                 .update = inflight->message.update,
                                 .epoch = inflight->message.epoch};
    hop_describe_all(&segment->in_shape, inflight->rows, false, &message);
    rt_hop_send(flow, segment->in, RT_CHANNEL_FIRST, &message, buffer->floats,
                inflight->rows * rt_shape_size(&segment->in_shape) * sizeof(float), NULL, 0, &buffer->send,
                &buffer->sending);
}
