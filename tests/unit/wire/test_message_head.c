/* The head of a message: its bytes, the trip there and back, and what a peer should not have sent. */
#include "base/bytes.h"
#include "support/test.h"
#include "support/wire.h"
#include "wire/message.h"
#include <math.h>

static const struct rt_message go = {.type = RT_MESSAGE_GO, .run = 0x01020304};
static const struct rt_message norm = {
    .type = RT_MESSAGE_NORM, .flags = RT_FLAG_LAST, .source = 1, .run = 9, .update = 12, .value = 0.1};
static const struct rt_message forward = {
    .type = RT_MESSAGE_FORWARD,
    .source = 3,
    .run = 0xdeadbeef,
    .micro = UINT64_C(0x1122334455667788),
    .update = 70000,
    .epoch = 2,
    .rows = 128,
    .tensors = 2,
    .tensor = {{RT_DTYPE_F32, 4, {16, 32, 7, 5}}, {RT_DTYPE_U32, 1, {16}}}};
enum { FORWARD_BYTES = 4 * 16 * 32 * 7 * 5 + 4 * 16 };

/* Where fields lie; docs/protocol.md. */
enum { AT_PROTOCOL = 4, AT_TYPE = 6, AT_FLAGS = 8, AT_SOURCE = 10, AT_ROWS = 36, AT_VALUE = 40 };
enum { AT_TENSORS = 48, AT_RESERVED = 49, AT_FIRST = 52, AT_SECOND = 70 };

/* Of an exchange. */
static const struct rt_message ticket = {.type = RT_MESSAGE_TICKET, .run = 9, .micro = UINT64_C(1) << 40};
static const struct rt_message done = {
    .type = RT_MESSAGE_DONE, .source = 7, .run = 9, .micro = 12, .update = 29, .rows = 32, .value = 0.75};
static const struct rt_message examples = {.type = RT_MESSAGE_EXAMPLES,
                                           .run = 9,
                                           .micro = 12,
                                           .tensors = 2,
                                           .tensor = {{RT_DTYPE_F32, 3, {8, 3, 5}}, {RT_DTYPE_U32, 1, {8}}}};
static const struct rt_message chunk = {.type = RT_MESSAGE_CHUNK,
                                        .source = 2,
                                        .run = 9,
                                        .micro = 70000,
                                        .update = 4096,
                                        .tensors = 1,
                                        .tensor = {{RT_DTYPE_F32, 1, {1024}}}};
static const struct rt_message push = {.type = RT_MESSAGE_PUSH,
                                       .flags = RT_FLAG_LAST | RT_FLAG_ASK,
                                       .source = 3,
                                       .run = 9,
                                       .micro = 12,
                                       .update = 11,
                                       .epoch = 2,
                                       .rows = 32,
                                       .tensors = 1,
                                       .tensor = {{RT_DTYPE_F32, 1, {33}}}};
static const struct rt_message pull = {
    .type = RT_MESSAGE_PULL, .flags = RT_FLAG_LAST | RT_FLAG_REST, .source = 3, .run = 9, .update = 12};
static const struct rt_message param = {.type = RT_MESSAGE_PARAM,
                                        .flags = RT_FLAG_LAST,
                                        .run = 9,
                                        .update = 11,
                                        .epoch = 2,
                                        .tensors = 1,
                                        .tensor = {{RT_DTYPE_F32, 1, {33}}}};

static size_t body_bytes; /* of the message that is recoded */

static rt_status recode(const uint8_t *bytes, size_t count, uint8_t *out, size_t room, size_t *used,
                        struct rt_error *err) {
    struct rt_message message;
    rt_status status = rt_message_decode(bytes, count, body_bytes, &message, err);
    if (status == RT_OK && room >= RT_MESSAGE_HEAD) {
        rt_message_encode(&message, out);
        *used = RT_MESSAGE_HEAD;
        CHECK(message.tensors == 0 || rt_message_tensor_bytes(&message) == body_bytes);
    }
    return status;
}

static void check_head(const char *name, const struct rt_message *message, size_t bytes) {
    uint8_t head[RT_MESSAGE_HEAD];
    rt_message_encode(message, head);
    body_bytes = bytes;
    rt_check_golden(name, head, sizeof head);
    rt_check_recode(name, head, sizeof head, recode);
    rt_check_abuse(name, head, sizeof head, recode);
}

TEST(heads_have_their_golden_bytes_and_come_back) {
    check_head("head_go", &go, 0);
    check_head("head_forward", &forward, FORWARD_BYTES);
    check_head("head_norm", &norm, 0);
    check_head("head_ticket", &ticket, 0);
    check_head("head_done", &done, 0);
    check_head("head_examples", &examples, 4 * 8 * 15 + 4 * 8);
    check_head("head_chunk", &chunk, 4096);
    check_head("head_push", &push, 132);
    check_head("head_pull", &pull, 0);
    check_head("head_param", &param, 132);
}

TEST(every_field_is_decoded) {
    struct rt_error err;
    struct rt_message message;
    uint8_t head[RT_MESSAGE_HEAD];
    rt_message_encode(&forward, head);
    CHECK_OK(rt_message_decode(head, sizeof head, FORWARD_BYTES, &message, &err));
    CHECK(message.type == forward.type && message.source == 3 && message.run == forward.run);
    CHECK(message.micro == forward.micro && message.update == 70000 && message.epoch == 2 &&
          message.rows == 128);
    CHECK(message.tensors == 2 && message.tensor[0].dims[3] == 5 && message.tensor[1].dims[0] == 16);
    rt_message_encode(&norm, head);
    CHECK_OK(rt_message_decode(head, sizeof head, 0, &message, &err));
    CHECK(message.value == 0.1 && message.flags == RT_FLAG_LAST && message.tensors == 0);
}

static void refused(const struct rt_message *message, size_t bytes, size_t at, const void *wrong,
                    size_t wrong_bytes, const char *words) {
    uint8_t head[RT_MESSAGE_HEAD];
    rt_message_encode(message, head);
    memcpy(head + at, wrong, wrong_bytes);
    body_bytes = bytes;
    rt_check_refused(rt_message_name(message->type), head, sizeof head, recode, words);
}

TEST(heads_are_refused_with_the_reason) {
    refused(&go, 0, 0, "HTTP", 4, "not a RingTMP message (bad magic number)");
    refused(&go, 0, AT_PROTOCOL, "\x07", 1, "uses protocol version 7; this program uses version 6");
    refused(&go, 0, AT_TYPE, "\xe7\x03", 2, "unknown message type 999");
    refused(&go, 0, AT_TYPE, "\x00", 1, "type 0");
    refused(&go, 0, AT_FLAGS, "\x01", 1, "the go has unknown flags");
    refused(&norm, 0, AT_FLAGS, "\x03", 1, "the norm has unknown flags");
    refused(&go, 0, AT_RESERVED, "\x80", 1, "has unknown flags");
    refused(&go, 0, AT_SOURCE, "\x00\x04", 2, "names node 1024");
    refused(&go, 0, AT_ROWS, "\x01", 1, "the go must not carry a number of examples");
    refused(&go, 0, AT_VALUE + 7, "\x40", 1, "the go must not carry a value");
    refused(&go, 0, AT_TENSORS, "\x03", 1, "has 3 tensors; the maximum is 2");
    refused(&go, 0, AT_FIRST, "\x01", 1, "describes a tensor that it does not count");
    refused(&go, 0, AT_SECOND + 2, "\x01", 1, "more dimensions than its rank");
    refused(&go, 1, 0, "", 0, "the go has a body of 1 bytes, but must have none");
    refused(&forward, FORWARD_BYTES, AT_FIRST, "\x03", 1, "unknown element type 3");
    refused(&forward, FORWARD_BYTES, AT_FIRST, "\x00", 1, "unknown element type 0");
    refused(&forward, FORWARD_BYTES, AT_FIRST + 1, "\x05", 1, "a tensor of rank 5; the maximum is 4");
    refused(&forward, FORWARD_BYTES, AT_FIRST + 1, "\x03", 1, "more dimensions than its rank");
    refused(&forward, FORWARD_BYTES - 1, 0, "", 0, "has a body of 71743 bytes for tensors of 71744");
    refused(&forward, FORWARD_BYTES + 1, 0, "", 0, "has a body of 71745 bytes for tensors of 71744");
    refused(&forward, 0, AT_TENSORS, "\x00", 1, "describes a tensor that it does not count");
    struct rt_message bare = forward;
    bare.rows = 0;
    refused(&bare, FORWARD_BYTES, AT_TYPE, "\x0a", 1, "the go must not carry tensors");
}

TEST(heads_of_an_exchange_carry_what_they_mean_only) {
    refused(&ticket, 0, AT_ROWS, "\x01", 1, "the ticket must not carry a number of examples");
    refused(&ticket, 0, AT_VALUE + 7, "\x40", 1, "the ticket must not carry a value");
    refused(&ticket, 4, 0, "", 0, "the ticket has a body of 4 bytes, but must have none");
    refused(&ticket, 0, AT_FLAGS, "\x01", 1, "the ticket has unknown flags");
    refused(&done, 0, AT_FLAGS, "\x01", 1, "the done has unknown flags");
    refused(&examples, 4 * 8 * 15, 0, "", 0, "the examples has a body of 480 bytes for tensors of 512");
    refused(&chunk, 4096, AT_FLAGS, "\x01", 1, "the chunk has unknown flags");
    refused(&chunk, 4096, AT_ROWS, "\x01", 1, "the chunk must not carry a number of examples");
    refused(&chunk, 4092, 0, "", 0, "the chunk has a body of 4092 bytes for tensors of 4096");
    refused(&push, 132, AT_VALUE + 7, "\x40", 1, "the push must not carry a value");
    refused(&push, 132, AT_FLAGS, "\x04", 1, "the push has unknown flags");
    refused(&pull, 0, AT_FLAGS, "\x02", 1, "the pull has unknown flags");
    refused(&pull, 0, AT_ROWS, "\x01", 1, "the pull must not carry a number of examples");
    refused(&param, 132, AT_ROWS, "\x01", 1, "the param must not carry a number of examples");
    refused(&param, 136, 0, "", 0, "the param has a body of 136 bytes for tensors of 132");
}

TEST(a_head_of_another_length) {
    uint8_t head[RT_MESSAGE_HEAD + 1] = {0};
    rt_message_encode(&go, head);
    body_bytes = 0;
    rt_check_refused("long", head, RT_MESSAGE_HEAD + 1, recode, "has 89 bytes instead of 88");
    rt_check_refused("short", head, 6, recode, "has 6 bytes instead of 88");
    rt_check_refused("shorter", head, 5, recode, "not a RingTMP message");
    /* Another version may have a head of another length: the version is what matters then. */
    rt_put_le16(head + AT_PROTOCOL, 7);
    rt_check_refused("version", head, RT_MESSAGE_HEAD + 1, recode, "uses protocol version 7");
}

/* The product of the dimensions must neither wrap round nor go beyond the limit. */
TEST(tensors_too_large) {
    struct rt_message message = {.type = RT_MESSAGE_PART, .tensors = 1};
    message.tensor[0] = (struct rt_message_tensor){RT_DTYPE_F32, 4, {65536, 65536, 65536, 65536}};
    CHECK(rt_message_tensor_bytes(&message) == SIZE_MAX);
    refused(&message, 0, 0, "", 0, "the part has tensors of more than 1073741824 bytes");
    message.tensor[0] = (struct rt_message_tensor){RT_DTYPE_F32, 2, {0xffffffff, 0xffffffff}};
    CHECK(rt_message_tensor_bytes(&message) == SIZE_MAX);
    message.tensor[0] = (struct rt_message_tensor){RT_DTYPE_F32, 1, {1 << 28}};
    CHECK(rt_message_tensor_bytes(&message) == RT_MAX_TENSOR_BYTES);
    message.tensors = 2;
    message.tensor[1] = (struct rt_message_tensor){RT_DTYPE_F32, 1, {0}};
    CHECK(rt_message_tensor_bytes(&message) == RT_MAX_TENSOR_BYTES);
    message.tensor[1].dims[0] = 1;
    CHECK(rt_message_tensor_bytes(&message) == SIZE_MAX);
    refused(&message, RT_MAX_TENSOR_BYTES, 0, "", 0, "has tensors of more than");
}

TEST(empty_tensors_and_scalars) {
    struct rt_error err;
    struct rt_message message = {.type = RT_MESSAGE_PART, .tensors = 2}, back;
    uint8_t head[RT_MESSAGE_HEAD];
    message.tensor[0] = (struct rt_message_tensor){RT_DTYPE_F32, 3, {0xffffffff, 0, 0xffffffff}};
    message.tensor[1] = (struct rt_message_tensor){RT_DTYPE_U32, 0, {0}};
    rt_message_encode(&message, head);
    CHECK_OK(rt_message_decode(head, sizeof head, 4, &back, &err));
    CHECK(rt_message_tensor_bytes(&back) == 4);
}

TEST(fields_have_a_longest_body) {
    struct rt_error err;
    struct rt_message message = {.type = RT_MESSAGE_ASSIGN};
    uint8_t head[RT_MESSAGE_HEAD];
    rt_message_encode(&message, head);
    CHECK_OK(rt_message_decode(head, sizeof head, RT_MAX_CONTROL, &message, &err));
    refused(&message, RT_MAX_CONTROL + 1, 0, "", 0,
            "the assign has a body of 1048577 bytes; the maximum is 1048576");
}

/* A run that diverges says so itself: the message must get through for that. */
TEST(a_norm_or_a_loss_may_be_any_number) {
    struct rt_error err;
    const uint16_t types[] = {RT_MESSAGE_NORM, RT_MESSAGE_DONE};
    for (size_t i = 0; i < 2; i++) {
        struct rt_message message = {.type = types[i], .value = INFINITY}, back;
        uint8_t head[RT_MESSAGE_HEAD];
        rt_message_encode(&message, head);
        CHECK_OK(rt_message_decode(head, sizeof head, 0, &back, &err));
        CHECK(isinf(back.value));
        message.value = NAN;
        rt_message_encode(&message, head);
        CHECK_OK(rt_message_decode(head, sizeof head, 0, &back, &err));
        CHECK(isnan(back.value));
    }
}

/* Every message there is. The numbers are written out here, and not taken from the header: programs of other
 * versions know them, so none may ever change. The same rows are in docs/protocol.md. */
enum body { NOTHING, FIELDS, TENSORS };
static const struct kind {
    unsigned number, type;
    const char *name;
    enum body body;
} kinds[] = {
    {1, RT_MESSAGE_HELLO, "hello", FIELDS},         {2, RT_MESSAGE_WELCOME, "welcome", FIELDS},
    {3, RT_MESSAGE_ERROR, "error", FIELDS},         {4, RT_MESSAGE_JOIN, "join", FIELDS},
    {5, RT_MESSAGE_JOINED, "joined", FIELDS},       {6, RT_MESSAGE_PROFILE, "profile", FIELDS},
    {7, RT_MESSAGE_PROFILED, "profiled", FIELDS},   {8, RT_MESSAGE_ASSIGN, "assign", FIELDS},
    {9, RT_MESSAGE_READY, "ready", FIELDS},         {10, RT_MESSAGE_GO, "go", NOTHING},
    {11, RT_MESSAGE_SETTLE, "settle", FIELDS},      {12, RT_MESSAGE_SETTLED, "settled", NOTHING},
    {32, RT_MESSAGE_FORWARD, "forward", TENSORS},   {33, RT_MESSAGE_EVALUATE, "evaluate", TENSORS},
    {34, RT_MESSAGE_SNAPSHOT, "snapshot", NOTHING}, {35, RT_MESSAGE_STOP, "stop", NOTHING},
    {48, RT_MESSAGE_BACKWARD, "backward", TENSORS}, {64, RT_MESSAGE_NORM, "norm", NOTHING},
    {65, RT_MESSAGE_METRICS, "metrics", FIELDS},    {66, RT_MESSAGE_PART, "part", TENSORS},
    {67, RT_MESSAGE_FETCH, "fetch", NOTHING},       {68, RT_MESSAGE_LOAD, "load", NOTHING},
    {80, RT_MESSAGE_TICKET, "ticket", NOTHING},     {81, RT_MESSAGE_DONE, "done", NOTHING},
    {82, RT_MESSAGE_EXAMPLES, "examples", TENSORS}, {84, RT_MESSAGE_TALLY, "tally", NOTHING},
    {96, RT_MESSAGE_CHUNK, "chunk", TENSORS},       {112, RT_MESSAGE_PUSH, "push", TENSORS},
    {113, RT_MESSAGE_PULL, "pull", NOTHING},        {114, RT_MESSAGE_PARAM, "param", TENSORS},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

TEST(every_type_has_its_number_and_its_name) {
    size_t named = 0;
    for (size_t i = 0; i < KINDS; i++) {
        const struct kind *kind = &kinds[i];
        CHECK_MSG(kind->type == kind->number, "%s is %u, not %u", kind->name, kind->type, kind->number);
        CHECK_MSG(strcmp(rt_message_name((uint16_t)kind->number), kind->name) == 0, "%u is called %s, not %s",
                  kind->number, rt_message_name((uint16_t)kind->number), kind->name);
    }
    for (unsigned type = 0; type <= UINT16_MAX; type++)
        named += strcmp(rt_message_name((uint16_t)type), "unknown") != 0;
    CHECK_MSG(named == KINDS, "%zu types have a name, and this test knows %d", named, KINDS);
}

/* A head with nothing but the type, and a body of four bytes: which types accept it. */
TEST(every_type_has_its_bytes_and_its_body) {
    for (size_t i = 0; i < KINDS; i++) {
        const struct kind *kind = &kinds[i];
        const struct rt_message plain = {.type = (uint16_t)kind->type};
        struct rt_message message = {.type = (uint16_t)kind->type, .tensors = 1};
        struct rt_error err;
        uint8_t head[RT_MESSAGE_HEAD], expected[RT_MESSAGE_HEAD] = {'R', 'T', 'M', 'P', 6};
        expected[AT_TYPE] = (uint8_t)kind->number;
        rt_message_encode(&plain, head);
        CHECK_MSG(memcmp(head, expected, sizeof head) == 0, "%s has other bytes", kind->name);
        CHECK_MSG((rt_message_decode(head, sizeof head, 4, &message, &err) == RT_OK) ==
                      (kind->body == FIELDS),
                  "%s and a body of fields", kind->name);
        message = (struct rt_message){
            .type = (uint16_t)kind->type, .tensors = 1, .tensor = {{RT_DTYPE_F32, 1, {1}}}};
        rt_message_encode(&message, head);
        CHECK_MSG((rt_message_decode(head, sizeof head, 4, &message, &err) == RT_OK) ==
                      (kind->body == TENSORS),
                  "%s and a tensor", kind->name);
    }
}

/* The catalogue of docs/protocol.md: "| 32 | FORWARD | tensors |". */
TEST(the_page_has_every_type) {
    static const char *const bodies[] = {[NOTHING] = "none", [FIELDS] = "fields", [TENSORS] = "tensors"};
    bool found[KINDS] = {false};
    char line[1000], name[20], body[20];
    unsigned number;
    size_t rows = 0;
    FILE *page = fopen("docs/protocol.md", "r");
    REQUIRE(page);
    while (fgets(line, sizeof line, page)) {
        if (sscanf(line, "| %u | %19[A-Z] | %19[a-z] |", &number, name, body) != 3)
            continue;
        rows++;
        for (char *c = name; *c; c++)
            *c = (char)(*c - 'A' + 'a');
        for (size_t i = 0; i < KINDS; i++)
            found[i] |= number == kinds[i].number && strcmp(name, kinds[i].name) == 0 &&
                        strcmp(body, bodies[kinds[i].body]) == 0;
    }
    fclose(page);
    for (size_t i = 0; i < KINDS; i++)
        CHECK_MSG(found[i], "no row for %s", kinds[i].name);
    CHECK_MSG(rows == KINDS, "%zu rows, and there are %d types", rows, KINDS);
}

TEST_MAIN()
