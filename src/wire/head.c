/* The head of a message, and what is known of each type; see message.h. */
#include "base/bytes.h"
#include "wire/bytes.h"
#include "wire/message.h"
#include <string.h>

static const uint8_t magic[4] = {'R', 'T', 'M', 'P'};

enum { PROTOCOL_END = sizeof magic + 2 };

/* The properties of a type, and the fields of the head that it uses. */
enum carries { HEAD_ONLY, FIELDS, TENSORS };
enum { ROWS = 1, VALUE = 2, TARGET = 4 }; /* ROWS: or what else is in its place */

struct type {
    uint16_t type;
    const char *name;
    enum carries carries;
    uint16_t flags; /* those it may have */
    unsigned uses;  /* ROWS, VALUE, TARGET */
};

static const struct type types[] = {
    {RT_MESSAGE_HELLO, "hello", FIELDS, 0, 0},
    {RT_MESSAGE_WELCOME, "welcome", FIELDS, 0, 0},
    {RT_MESSAGE_ERROR, "error", FIELDS, RT_FLAG_AGAIN, 0},
    {RT_MESSAGE_JOIN, "join", FIELDS, 0, 0},
    {RT_MESSAGE_JOINED, "joined", FIELDS, 0, 0},
    {RT_MESSAGE_PROFILE, "profile", FIELDS, 0, 0},
    {RT_MESSAGE_PROFILED, "profiled", FIELDS, 0, 0},
    {RT_MESSAGE_ASSIGN, "assign", FIELDS, 0, 0},
    {RT_MESSAGE_READY, "ready", FIELDS, 0, 0},
    {RT_MESSAGE_GO, "go", HEAD_ONLY, 0, 0},
    {RT_MESSAGE_SETTLE, "settle", FIELDS, 0, 0},
    {RT_MESSAGE_SETTLED, "settled", HEAD_ONLY, 0, 0},
    {RT_MESSAGE_FORWARD, "forward", TENSORS, 0, ROWS},
    {RT_MESSAGE_EVALUATE, "evaluate", TENSORS, 0, 0},
    {RT_MESSAGE_SNAPSHOT, "snapshot", HEAD_ONLY, 0, 0},
    {RT_MESSAGE_STOP, "stop", HEAD_ONLY, 0, 0},
    {RT_MESSAGE_BACKWARD, "backward", TENSORS, 0, 0},
    {RT_MESSAGE_NORM, "norm", HEAD_ONLY, RT_FLAG_LAST, VALUE},
    {RT_MESSAGE_METRICS, "metrics", FIELDS, 0, 0},
    {RT_MESSAGE_PART, "part", TENSORS, 0, ROWS | TARGET},
    {RT_MESSAGE_FETCH, "fetch", HEAD_ONLY, 0, ROWS | TARGET},
    {RT_MESSAGE_LOAD, "load", HEAD_ONLY, 0, TARGET},
    {RT_MESSAGE_TICKET, "ticket", HEAD_ONLY, 0, 0},
    {RT_MESSAGE_DONE, "done", HEAD_ONLY, 0, ROWS | VALUE},
    {RT_MESSAGE_EXAMPLES, "examples", TENSORS, 0, 0},
    {RT_MESSAGE_TALLY, "tally", HEAD_ONLY, 0, 0},
    {RT_MESSAGE_CHUNK, "chunk", TENSORS, 0, 0},
    {RT_MESSAGE_PUSH, "push", TENSORS, RT_FLAG_LAST | RT_FLAG_ASK, ROWS},
    {RT_MESSAGE_PULL, "pull", HEAD_ONLY, RT_FLAG_LAST | RT_FLAG_REST, 0},
    {RT_MESSAGE_PARAM, "param", TENSORS, RT_FLAG_LAST, 0},
};

static const struct type *head_find_type(uint16_t type) {
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].type == type)
            return &types[i];
    return NULL;
}

const char *rt_message_name(uint16_t type) {
    const struct type *found = head_find_type(type);
    return found ? found->name : "unknown";
}

/* ---- tensors ------------------------------------------------------------------------------------------- */

/* Both element types take 4 bytes. SIZE_MAX: more than RT_MAX_TENSOR_BYTES. */
static size_t head_tensor_bytes(const struct rt_message_tensor *tensor) {
    uint64_t bytes = 4;
    size_t rank = tensor->rank < RT_MESSAGE_RANK ? tensor->rank : RT_MESSAGE_RANK;
    for (size_t i = 0; i < rank; i++)
        if (tensor->dims[i] == 0)
            return 0;
    /* A product below 2^30 times a dimension below 2^32 fits. */
    for (size_t i = 0; i < rank; i++) {
        bytes *= tensor->dims[i];
        if (bytes > RT_MAX_TENSOR_BYTES)
            return SIZE_MAX;
    }
    return (size_t)bytes;
}

size_t rt_message_tensor_bytes(const struct rt_message *message) {
    size_t sum = 0, count = message->tensors < RT_MESSAGE_TENSORS ? message->tensors : RT_MESSAGE_TENSORS;
    for (size_t i = 0; i < count; i++) {
        size_t bytes = head_tensor_bytes(&message->tensor[i]);
        if (bytes > RT_MAX_TENSOR_BYTES - sum)
            return SIZE_MAX;
        sum += bytes;
    }
    return sum;
}

static void head_write_tensor(struct rt_encoder *encoder, const struct rt_message_tensor *tensor, bool used) {
    static const struct rt_message_tensor none = {0};
    const struct rt_message_tensor *from = used ? tensor : &none;
    rt_write_u8(encoder, from->dtype);
    rt_write_u8(encoder, from->rank);
    for (size_t i = 0; i < RT_MESSAGE_RANK; i++)
        rt_write_u32(encoder, i < from->rank ? from->dims[i] : 0);
}

/* Unused fields must be zero, so that later versions can use them. */
static void head_read_tensor(struct rt_decoder *decoder, bool used, struct rt_message_tensor *tensor) {
    tensor->dtype = rt_read_u8(decoder);
    tensor->rank = rt_read_u8(decoder);
    for (size_t i = 0; i < RT_MESSAGE_RANK; i++)
        tensor->dims[i] = rt_read_u32(decoder);
    if (used && tensor->dtype != RT_DTYPE_F32 && tensor->dtype != RT_DTYPE_U32)
        rt_decoder_refuse(decoder, "has a tensor of unknown element type %u", tensor->dtype);
    if (!used && tensor->dtype != 0)
        rt_decoder_refuse(decoder, "describes a tensor that it does not count");
    if (tensor->rank > (used ? RT_MESSAGE_RANK : 0))
        rt_decoder_refuse(decoder, "has a tensor of rank %u; the maximum is %d", tensor->rank,
                          RT_MESSAGE_RANK);
    for (size_t i = tensor->rank; i < RT_MESSAGE_RANK; i++)
        if (tensor->dims[i] != 0)
            rt_decoder_refuse(decoder, "has a tensor with more dimensions than its rank");
}

/* ---- the head ------------------------------------------------------------------------------------------ */

void rt_message_encode(const struct rt_message *message, uint8_t head[RT_MESSAGE_HEAD]) {
    struct rt_encoder encoder = {.bytes = head, .room = RT_MESSAGE_HEAD};
    size_t tensors = message->tensors < RT_MESSAGE_TENSORS ? message->tensors : RT_MESSAGE_TENSORS;
    rt_write_raw(&encoder, magic, sizeof magic);
    rt_write_u16(&encoder, RT_PROTOCOL);
    rt_write_u16(&encoder, message->type);
    rt_write_u16(&encoder, message->flags);
    rt_write_u16(&encoder, message->source);
    rt_write_u32(&encoder, message->run);
    rt_write_u64(&encoder, message->micro);
    rt_write_u64(&encoder, message->update);
    rt_write_u32(&encoder, message->epoch);
    rt_write_u32(&encoder, message->rows);
    rt_write_f64(&encoder, message->value);
    rt_write_u8(&encoder, (uint8_t)tensors);
    rt_write_u8(&encoder, 0);
    rt_write_u16(&encoder, message->target);
    for (size_t i = 0; i < RT_MESSAGE_TENSORS; i++)
        head_write_tensor(&encoder, &message->tensor[i], i < tensors);
}

/* The protocol and version are checked before the length, which another version may have changed. */
static rt_status head_check_protocol(const uint8_t *head, size_t head_bytes, struct rt_error *err) {
    if (head_bytes < PROTOCOL_END || memcmp(head, magic, sizeof magic) != 0)
        return rt_fail(err, RT_BAD_INPUT, "not a RingTMP message (bad magic number)");
    unsigned protocol = rt_get_le16(head + sizeof magic);
    if (protocol != RT_PROTOCOL)
        return rt_fail(
            err, RT_BAD_INPUT,
            "uses protocol version %u; this program uses version %d: install the same ringtmp on all nodes",
            protocol, RT_PROTOCOL);
    if (head_bytes != RT_MESSAGE_HEAD)
        return rt_fail(err, RT_BAD_INPUT, "a message head has %zu bytes instead of %d", head_bytes,
                       RT_MESSAGE_HEAD);
    return RT_OK;
}

static void head_check_body(struct rt_decoder *decoder, const struct rt_message *message,
                            const struct type *type, size_t body_bytes) {
    if (message->tensors && type->carries != TENSORS)
        rt_decoder_refuse(decoder, "must not carry tensors");
    if (type->carries == HEAD_ONLY && body_bytes)
        rt_decoder_refuse(decoder, "has a body of %zu bytes, but must have none", body_bytes);
    if (type->carries == FIELDS && body_bytes > RT_MAX_CONTROL)
        rt_decoder_refuse(decoder, "has a body of %zu bytes; the maximum is %d", body_bytes, RT_MAX_CONTROL);
    if (type->carries != TENSORS)
        return;
    size_t bytes = rt_message_tensor_bytes(message);
    if (bytes == SIZE_MAX)
        rt_decoder_refuse(decoder, "has tensors of more than %d bytes", RT_MAX_TENSOR_BYTES);
    else if (bytes != body_bytes)
        rt_decoder_refuse(decoder, "has a body of %zu bytes for tensors of %zu", body_bytes, bytes);
}

rt_status rt_message_decode(const uint8_t *head, size_t head_bytes, size_t body_bytes,
                            struct rt_message *message, struct rt_error *err) {
    rt_status status = head_check_protocol(head, head_bytes, err);
    if (status != RT_OK)
        return status;
    struct rt_decoder decoder = {
        .name = "message", .bytes = head, .count = RT_MESSAGE_HEAD, .used = PROTOCOL_END, .err = err};
    struct rt_message made = {0};
    made.type = rt_read_u16(&decoder);
    const struct type *type = head_find_type(made.type);
    if (!type)
        return rt_fail(err, RT_BAD_INPUT, "unknown message type %u", made.type);
    decoder.name = type->name;
    made.flags = rt_read_u16(&decoder);
    made.source = rt_read_index(&decoder, "node", RT_MAX_NODES);
    made.run = rt_read_u32(&decoder);
    made.micro = rt_read_u64(&decoder);
    made.update = rt_read_u64(&decoder);
    made.epoch = rt_read_u32(&decoder);
    made.rows = rt_read_u32(&decoder);
    made.value = rt_read_f64(&decoder);
    made.tensors = rt_read_u8(&decoder);
    const unsigned reserved = rt_read_u8(&decoder);
    made.target = rt_read_index(&decoder, "target", RT_MAX_NODES);
    if (made.flags & ~(unsigned)type->flags || reserved)
        rt_decoder_refuse(&decoder, "has unknown flags");
    if (!(type->uses & TARGET) && made.target != 0)
        rt_decoder_refuse(&decoder, "must not name a target");
    if (!(type->uses & ROWS) && made.rows != 0)
        rt_decoder_refuse(&decoder, "must not carry a number of examples");
    if (!(type->uses & VALUE) && made.value != 0) /* true of NaN too */
        rt_decoder_refuse(&decoder, "must not carry a value");
    if (made.tensors > RT_MESSAGE_TENSORS)
        rt_decoder_refuse(&decoder, "has %zu tensors; the maximum is %d", made.tensors, RT_MESSAGE_TENSORS);
    for (size_t i = 0; i < RT_MESSAGE_TENSORS; i++)
        head_read_tensor(&decoder, i < made.tensors, &made.tensor[i]);
    if (decoder.status == RT_OK)
        head_check_body(&decoder, &made, type, body_bytes);
    status = rt_decoder_end(&decoder);
    if (status == RT_OK)
        *message = made;
    return status;
}
