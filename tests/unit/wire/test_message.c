/* Messages: their bytes, compared with golden files that were made without the library; the trip there and
 * back; and what a peer should not have sent. */
#include "metrics/states.h"
#include "net/transport.h"
#include "support/test.h"
#include "support/wire.h"
#include "wire/bytes.h"
#include "wire/message.h"
#include "wire/tree.h"
#include <math.h>

enum { ROOM = 4096 };

/* ---- the values of the golden files -------------------------------------------------------------------- */

static void fill_answer(uint8_t answer[32]) {
    for (uint8_t i = 0; i < 32; i++)
        answer[i] = i;
}

static size_t make_hello(uint8_t *bytes, size_t room) {
    struct rt_hello hello = {.role = RT_ROLE_NODE, .from = 5, .label = 1, .view = 7, .version = "0.1.0"};
    fill_answer(hello.answer);
    for (uint8_t i = 0; i < RT_TOKEN_BYTES; i++)
        hello.token[i] = (uint8_t)(64 + i);
    return rt_hello_encode(&hello, bytes, room);
}

static size_t make_welcome(uint8_t *bytes, size_t room) {
    struct rt_welcome welcome = {.view = 6,
                                 .cores = 4,
                                 .threads = 3,
                                 .memory = UINT64_C(8) << 30,
                                 .name = "pi-k\xc3\xbc"
                                         "che",
                                 .version = "0.1.0",
                                 .kernels = "exact-neon",
                                 .holdings = 2,
                                 .holding = {{UINT64_C(1) << 33, 3, 2}, {7, 0, 3}}};
    fill_answer(welcome.answer);
    return rt_welcome_encode(&welcome, bytes, room);
}

static size_t make_error(uint8_t *bytes, size_t room) {
    struct rt_error_message error = {RT_FAILED, 2, "layer 3 does not fit into 64 MiB"};
    return rt_error_encode(&error, bytes, room);
}

static size_t make_settle(uint8_t *bytes, size_t room) {
    struct rt_settle_link links[4] = {
        {0, RT_LABEL_PREVIOUS}, {2, RT_LABEL_NEXT}, {0, RT_LABEL_MESH}, {3, RT_LABEL_MESH}};
    return rt_settle_encode(&(struct rt_settle){1, 4, 7, 4, links}, bytes, room);
}

static size_t make_join(uint8_t *bytes, size_t room) {
    struct rt_join join = {.peer = 2,
                           .label = 1,
                           .probe_bytes = 65536,
                           .milliseconds = 5000,
                           .address = "10.0.0.2:7117",
                           .name = "pi-k\u00fcche"};
    return rt_join_encode(&join, bytes, room);
}

static size_t make_joined(uint8_t *bytes, size_t room) {
    struct rt_joined joined = {.peer = 2, .label = 1, .latency = 0.00025, .bandwidth = 117e6};
    return rt_joined_encode(&joined, bytes, room);
}

/* The tree is that of test_wire_tree.c, which builds it by hand. */
static struct rt_tree *golden_tree(void) {
    static uint8_t bytes[ROOM];
    struct rt_error err;
    struct rt_tree *tree = NULL;
    FILE *file = fopen("tests/golden/wire/tree.bin", "rb");
    if (!file)
        return NULL;
    size_t count = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    return rt_tree_decode(bytes, count, "test", &tree, &err) == RT_OK ? tree : NULL;
}

static size_t make_profile(uint8_t *bytes, size_t room) {
    struct rt_profile profile = {16, golden_tree()};
    size_t used = profile.job ? rt_profile_encode(&profile, bytes, room) : 0;
    rt_profile_deinit(&profile);
    return used;
}

static size_t make_profiled(uint8_t *bytes, size_t room) {
    struct rt_layer_times layers[2] = {{0.001, 0.002, 0.003, 0.0004}, {0, 1.5, 2e-300, 4}};
    return rt_profiled_encode(&(struct rt_profiled){2, layers}, bytes, room);
}

static size_t make_assign(uint8_t *bytes, size_t room) {
    struct rt_assigned_node nodes[2] = {{0, 3, 8}, {3, 2, 6}};
    char names[2][RT_NODE_NAME + 1] = {"master", "pi-k\u00fcche"};
    struct rt_assign assign = {1, 7, UINT64_C(1) << 33, 2, nodes, names, golden_tree()};
    size_t used = assign.job ? rt_assign_encode(&assign, bytes, room) : 0;
    rt_tree_destroy(assign.job);
    return used;
}

static size_t make_ready(uint8_t *bytes, size_t room) {
    return rt_ready_encode(&(struct rt_ready){UINT64_C(123456789012)}, bytes, room);
}

static struct rt_metrics_row golden_row(void) {
    struct rt_metrics_row row = {
        .node = 3,
        .seconds = 10.5,
        .cpu_seconds = 9.25,
        .validation = 1.75,
        .samples = 1000,
        .updates = 50,
        .queue = 4,
        .peak_memory = UINT64_C(1) << 33,
        .sent = {{1, 2, 3, 4, 5, 6}, {7, 8, 9, 10, 11, 12}, {13, 14, 15, 16, 17, 18}},
        .received = {{21, 22, 23, 24, 25, 26}, {27, 28, 29, 30, 31, 32}, {33, 34, 35, 36, 37, 38}},
        .staleness_sum = 7,
        .staleness_max = 2};
    for (size_t i = 0; i < RT_METRIC_STATES; i++)
        row.state[i] = (double)i + 0.5;
    return row;
}

static size_t make_metrics(uint8_t *bytes, size_t room) {
    struct rt_metrics_row rows[2] = {{0}, golden_row()};
    return rt_metrics_encode(&(struct rt_metrics){.count = 2, .rows = rows}, bytes, room);
}

/* ---- there and back ------------------------------------------------------------------------------------ */

static void keep(void *body) {
    (void)body;
}

#define RECODE(name_, type_, deinit_)                                                                        \
    static rt_status recode_##name_(const uint8_t *bytes, size_t count, uint8_t *out, size_t room,           \
                                    size_t *used, struct rt_error *err) {                                    \
        type_ body;                                                                                          \
        rt_status status = rt_##name_##_decode(bytes, count, &body, err);                                    \
        if (status == RT_OK) {                                                                               \
            *used = rt_##name_##_encode(&body, out, room);                                                   \
            deinit_(&body);                                                                                  \
        }                                                                                                    \
        return status;                                                                                       \
    }
RECODE(hello, struct rt_hello, keep)
RECODE(welcome, struct rt_welcome, keep)
RECODE(error, struct rt_error_message, keep)
RECODE(settle, struct rt_settle, rt_settle_deinit)
RECODE(join, struct rt_join, keep)
RECODE(joined, struct rt_joined, keep)
RECODE(profile, struct rt_profile, rt_profile_deinit)
RECODE(profiled, struct rt_profiled, rt_profiled_deinit)
RECODE(assign, struct rt_assign, rt_assign_deinit)
RECODE(ready, struct rt_ready, keep)

static rt_status recode_metrics(const uint8_t *bytes, size_t count, uint8_t *out, size_t room, size_t *used,
                                struct rt_error *err) {
    static struct rt_metrics_row rows[RT_MAX_NODES];
    struct rt_metrics body = {.room = RT_MAX_NODES, .rows = rows};
    RT_TRY(rt_metrics_decode(bytes, count, &body, err));
    *used = rt_metrics_encode(&body, out, room);
    return RT_OK;
}

static const struct {
    const char *name;
    size_t (*make)(uint8_t *bytes, size_t room);
    rt_recode recode;
} bodies[] = {
    {"hello", make_hello, recode_hello},          {"welcome", make_welcome, recode_welcome},
    {"error", make_error, recode_error},          {"join", make_join, recode_join},
    {"joined", make_joined, recode_joined},       {"profile", make_profile, recode_profile},
    {"profiled", make_profiled, recode_profiled}, {"assign", make_assign, recode_assign},
    {"ready", make_ready, recode_ready},          {"metrics", make_metrics, recode_metrics},
    {"settle", make_settle, recode_settle},
};

enum { BODIES = sizeof bodies / sizeof *bodies };

TEST(bodies_have_their_golden_bytes_and_come_back) {
    for (size_t i = 0; i < BODIES; i++) {
        uint8_t bytes[ROOM];
        size_t count = bodies[i].make(bytes, sizeof bytes);
        rt_check_golden(bodies[i].name, bytes, count);
        rt_check_recode(bodies[i].name, bytes, count, bodies[i].recode);
    }
}

TEST(bodies_that_were_cut_or_changed) {
    for (size_t i = 0; i < BODIES; i++) {
        uint8_t bytes[ROOM];
        size_t count = bodies[i].make(bytes, sizeof bytes);
        rt_check_abuse(bodies[i].name, bytes, count, bodies[i].recode);
    }
}

TEST(an_encoder_without_room_gives_0_and_stays_inside) {
    for (size_t i = 0; i < BODIES; i++) {
        uint8_t bytes[ROOM];
        size_t count = bodies[i].make(bytes, sizeof bytes);
        REQUIRE(count > 0);
        for (size_t room = 0; room < count; room++) {
            uint8_t *exact = malloc(room + 1);
            REQUIRE(exact);
            exact[room] = 0xa5;
            CHECK_MSG(bodies[i].make(exact, room) == 0, "%s in %zu bytes", bodies[i].name, room);
            CHECK(exact[room] == 0xa5);
            free(exact);
        }
        CHECK(bodies[i].make(bytes, count) == count);
        CHECK(bodies[i].make(NULL, 0) == 0);
    }
}

/* One place of a good body overwritten. */
static void refused(const char *name, size_t at, const void *wrong, size_t wrong_bytes, const char *words) {
    for (size_t i = 0; i < BODIES; i++) {
        uint8_t bytes[ROOM];
        if (strcmp(bodies[i].name, name) != 0)
            continue;
        size_t count = bodies[i].make(bytes, sizeof bytes);
        REQUIRE(at + wrong_bytes <= count);
        memcpy(bytes + at, wrong, wrong_bytes);
        rt_check_refused(name, bytes, count, bodies[i].recode, words);
        return;
    }
    rt_test_fail(__FILE__, __LINE__, "no body %s", name);
}

/* A double as it lies on the wire. */
static const void *wire_double(double value) {
    static uint8_t bytes[8];
    struct rt_encoder encoder = {.bytes = bytes, .room = sizeof bytes};
    rt_write_f64(&encoder, value);
    return bytes;
}

TEST(bodies_are_refused_with_the_reason) {
    refused("hello", 0, "\x07", 1, "the hello has unknown role 7");
    refused("hello", 0, "\x01", 1, "a master that calls itself node 5");
    refused("hello", 0, "\x03", 1, "an offer from a node that calls itself node 5");
    refused("hello", 5, "\x00", 1, "the hello is of view 0; views are counted from 1");
    refused("hello", 1, "\x00\x04", 2, "names node 1024, counted from 0; there can be at most 1024");
    refused("hello", 57, "\x91\x01", 2, "the hello has a version of 401 bytes; the maximum is 400");
    refused("hello", 59, "\x1b", 1, "the hello has a version that is not plain text");
    refused("hello", 59, "\x00", 1, "not plain text");
    refused("hello", 59, "\xc2\x9b", 2, "not plain text");
    refused("hello", 63, "\xc3", 1, "not plain text");
    refused("hello", 57, "\x04", 1, "the hello has 1 bytes left over behind its fields");
    refused("hello", 57, "\x06", 1, "the hello is shorter than its fields: it ends after 64 bytes");
    refused("welcome", 36, "\x01\x00\x01\x00", 4, "has 65537 cores; the maximum is 65536");
    refused("welcome", 40, "\xff\xff\xff\xff", 4, "has 4294967295 threads");
    refused("error", 0, "\x00", 1, "the error has status 0, which is not a failure");
    refused("error", 0, "\x08", 1, "the error has status 8, which is not a failure");
    refused("settle", 0, "\x04", 1, "the settle is for node 4, counted from 0, of 4");
    refused("settle", 0, "\x00", 1,
            "the settle is for node 0, counted from 0, of 4: only the other nodes get one");
    refused("settle", 0, "\x02", 1, "gives node 2 of 4, counted from 0, a link with node 2");
    refused("settle", 2, "\x01\x04", 2, "has 1025 nodes; the maximum is 1024");
    refused("settle", 2, "\x03", 1, "gives node 1 of 3, counted from 0, a link with node 3");
    refused("settle", 4, "\x00", 1, "the settle is of view 0; views are counted from 1");
    refused("settle", 8, "\x02\x04", 2, "has 1026 links; the maximum is 1025");
    refused("settle", 8, "\x05", 1, "28 bytes cannot hold 5 links");
    refused("settle", 8, "\x00", 1, "the settle gives a node no link");
    refused("settle", 14, "\x04", 1, "a link with unknown label 4");
    refused("settle", 14, "\x00", 1, "a link with unknown label 0");
    refused("settle", 14, "\x01", 1, "gives a node two links that are the same");
    refused("settle", 18, "\x02", 1, "gives a node two links that are the same");
    refused("settle", 24, "\x00", 1, "gives a node two links that are the same");
    refused("join", 0, "\x00\x04", 2, "the join names node 1024, counted from 0; there can be at most 1024");
    refused("join", 4, "\x01\x00\x00\x40", 4, "a probe of 1073741825 bytes");
    refused("join", 29, "\x1b", 1, "the join has a node's name that is not plain text");
    refused("join", 27, "\x91\x01", 2, "has a node's name of 401 bytes; the maximum is 80");
    refused("joined", 4, wire_double(-1), 8, "the joined gives a latency of -1");
    refused("joined", 4, wire_double(NAN), 8, "gives a latency of");
    refused("joined", 12, wire_double(INFINITY), 8, "gives a bandwidth of inf");
    refused("profile", 0, "\x00", 1, "the profile asks for micro-batches without examples");
    refused("profiled", 0, "\x01\x00\x01\x00", 4, "has 65537 layers; the maximum is 65536");
    refused("profiled", 0, "\x00\x00\x01\x00", 4, "68 bytes cannot hold 65536 layers");
    refused("profiled", 0, "\x01", 1, "has 32 bytes left over");
    refused("profiled", 60, wire_double(-0.5), 8, "gives a time of -0.5");
    refused("assign", 0, "\x02", 1, "the assign is for node 2, counted from 0, of 2");
    refused("assign", 2, "\x00", 1, "the assign is of view 0; views are counted from 1");
    refused("assign", 14, "\x01\x04", 2, "has 1025 nodes; the maximum is 1024");
    refused("assign", 14, "\xff\x03", 2, "242 bytes cannot hold 1023 nodes");
    refused("assign", 30, "\xff\xff\x00\x00", 4, "gives node 1 layers beyond number 65536");
    refused("assign", 30, "\xff\xff\xff\xff", 4, "gives node 1 layers beyond number 65536");
    refused("assign", 42, "\x51", 1, "the assign has a node's name of 81 bytes; the maximum is 80");
    refused("assign", 42, "\x91\x01", 2, "has a node's name of 401 bytes; the maximum is 80");
    refused("assign", 45, "\x1b", 1, "the assign has a node's name that is not plain text");
    refused("assign", 52, "\n", 1, "not plain text");
    refused("metrics", 0, "\x01\x04\x00\x00", 4, "has 1025 nodes");
    refused("metrics", 0, "\x03", 1, "944 bytes cannot hold 3 nodes");
    refused("metrics", 6, wire_double(-1), 8, "gives a time of -1");
    refused("metrics", 4, "\xff\xff", 2, "names node 65535");
    size_t row = RT_METRICS_BYTES + RT_METRICS_ROW_BYTES;
    for (size_t i = 0; i < 3 + RT_METRIC_STATES; i++)
        refused("metrics", row + 2 + 8 * i, wire_double(NAN), 8, "gives a time of");
    refused("metrics", row + RT_METRICS_ROW_BYTES - 16, wire_double(-2), 8, "gives a staleness of -2");
    for (size_t i = 0; i < 8; i++)
        refused("profiled", 4 + 8 * i, wire_double(INFINITY), 8, "gives a time of inf");
}

TEST(a_refusal_leaves_the_output_alone) {
    struct rt_error err;
    struct rt_ready ready = {7};
    struct rt_metrics metrics = {.count = 99};
    CHECK(rt_ready_decode((const uint8_t *)"1234567", 7, &ready, &err) == RT_BAD_INPUT && ready.memory == 7);
    CHECK(rt_metrics_decode((const uint8_t *)"1", 1, &metrics, NULL) == RT_BAD_INPUT && metrics.count == 99);
    CHECK(rt_ready_decode(NULL, 0, &ready, &err) == RT_BAD_INPUT);
}

/* The caller gives the memory; a peer cannot make the decoder write beyond it. */
TEST(metrics_fit_the_memory_that_is_given) {
    static uint8_t bytes[RT_MAX_CONTROL];
    struct rt_error err;
    struct rt_metrics_row rows[3] = {{.node = 7}, {.node = 7}, {.node = 7}};
    struct rt_metrics metrics = {.count = 99, .room = 2, .rows = rows};
    const size_t used = make_metrics(bytes, sizeof bytes); /* two rows */
    CHECK_OK(rt_metrics_decode(bytes, used, &metrics, &err));
    CHECK(metrics.count == 2 && metrics.rows == rows && rows[0].node != 7 && rows[2].node == 7);
    metrics.count = 99;
    metrics.room = 1;
    CHECK(rt_metrics_decode(bytes, used, &metrics, &err) == RT_BAD_INPUT && metrics.count == 99);
    CHECK(strstr(err.text, "have 2 rows; at most 1"));
}

TEST(too_many_are_not_encoded) {
    static uint8_t bytes[RT_MAX_CONTROL];
    CHECK(rt_profiled_encode(&(struct rt_profiled){RT_MAX_LAYERS + 1, NULL}, bytes, sizeof bytes) == 0);
    CHECK(rt_metrics_encode(&(struct rt_metrics){.count = RT_MAX_NODES + 1}, bytes, sizeof bytes) == 0);
    CHECK(rt_settle_encode(&(struct rt_settle){1, 2, 1, RT_MAX_LINKS + 1, NULL}, bytes, sizeof bytes) == 0);
    struct rt_assign assign = {.view = 1, .nodes = RT_MAX_NODES + 1, .job = golden_tree()};
    REQUIRE(assign.job);
    CHECK(rt_assign_encode(&assign, bytes, sizeof bytes) == 0);
    rt_tree_destroy(assign.job);
}

/* A peer may report any end of a run, also that another node is lost. */
TEST(every_failure_can_be_reported) {
    struct rt_error err;
    uint8_t bytes[ROOM];
    for (unsigned status = RT_BAD_INPUT; status <= RT_DIVERGED; status++) {
        struct rt_error_message error = {.status = (uint16_t)status, .text = "why"}, back = {0};
        size_t count = rt_error_encode(&error, bytes, sizeof bytes);
        CHECK_OK(rt_error_decode(bytes, count, &back, &err));
        CHECK(back.status == status);
    }
}

TEST(labels_as_the_other_end_sees_them) {
    CHECK(rt_label_mirror(RT_LABEL_NEXT) == RT_LABEL_PREVIOUS);
    CHECK(rt_label_mirror(RT_LABEL_PREVIOUS) == RT_LABEL_NEXT);
    CHECK(rt_label_mirror(RT_LABEL_MESH) == RT_LABEL_MESH && rt_label_mirror(7) == 7);
}

/* A reason may be cut in the middle of a character, or quote the user's input: it must arrive. */
TEST(texts_are_made_fit_to_be_read) {
    struct rt_error err;
    uint8_t bytes[ROOM];
    struct rt_error_message error = {.status = RT_FAILED, .text = "a\tb\x1b[2Jc\x7f\xc2\x85 \xff\xc3\xa9"};
    size_t count = rt_error_encode(&error, bytes, sizeof bytes);
    CHECK_OK(rt_error_decode(bytes, count, &error, &err));
    CHECK_MSG(strcmp(error.text, "a?b?[2Jc??? ?\xc3\xa9") == 0, "%s", error.text);
    memset(error.text, 'x', RT_MAX_TEXT);
    error.text[RT_MAX_TEXT - 1] = '\xc3';
    error.text[RT_MAX_TEXT] = '\xa9'; /* no end either */
    count = rt_error_encode(&error, bytes, sizeof bytes);
    CHECK_OK(rt_error_decode(bytes, count, &error, &err));
    CHECK(strlen(error.text) == RT_MAX_TEXT && error.text[RT_MAX_TEXT - 1] == '?');
}

TEST(rows_are_appended_as_they_would_be_encoded) {
    struct rt_metrics_row rows[2] = {{0}, golden_row()};
    uint8_t bytes[ROOM];
    size_t first = rt_metrics_append(&rows[0], bytes, 0, sizeof bytes);
    CHECK(first == RT_METRICS_BYTES + RT_METRICS_ROW_BYTES);
    CHECK(rt_metrics_append(&rows[1], bytes, first, first + RT_METRICS_ROW_BYTES - 1) == 0);
    size_t second = rt_metrics_append(&rows[1], bytes, first, first + RT_METRICS_ROW_BYTES);
    rt_check_golden("metrics", bytes, second);
    CHECK(rt_metrics_append(&rows[1], bytes, second - 1, sizeof bytes) == 0);
    CHECK(rt_metrics_append(&rows[1], bytes, 3, sizeof bytes) == 0);
    CHECK(rt_metrics_append(&rows[1], bytes, 0, 3) == 0);
    static uint8_t large[RT_MAX_CONTROL];
    size_t used = 0;
    for (size_t i = 0; i < RT_MAX_NODES; i++)
        used = rt_metrics_append(&rows[1], large, used, sizeof large);
    CHECK(used == RT_METRICS_BYTES + RT_MAX_NODES * RT_METRICS_ROW_BYTES);
    rt_check_recode("metrics of all nodes", large, used, recode_metrics);
    CHECK(rt_metrics_append(&rows[1], large, used, sizeof large) == 0);
}

TEST(the_fields_match_their_makers) {
    CHECK((int)RT_METRIC_STATES == (int)RT_STATES);
    CHECK((int)RT_METRIC_PROBE == (int)RT_CHANNELS);
    CHECK((int)RT_MESSAGE_HEAD <= (int)RT_HEAD_ROOM);
    CHECK((int)RT_MAX_TENSOR_BYTES <= (int)RT_MAX_BODY);
}

/* A job is read as if from the master's file, with its lines. */
TEST(an_assigned_job_names_its_lines) {
    struct rt_error err;
    struct rt_assign assign;
    uint8_t bytes[ROOM];
    size_t count = make_assign(bytes, sizeof bytes);
    CHECK_OK(rt_assign_decode(bytes, count, &assign, &err));
    CHECK(assign.view == 7 && assign.version == UINT64_C(1) << 33);
    CHECK(assign.index == 1 && assign.nodes == 2 && assign.node[1].first == 3 && assign.node[1].slots == 6);
    CHECK(strcmp(assign.name[0], "master") == 0 && strcmp(assign.name[1], "pi-k\u00fcche") == 0);
    rt_tree_fail(rt_tree_get(assign.job, "name"), &err, "wrong");
    CHECK_MSG(strcmp(err.text, "the master's run file:7: wrong") == 0, "%s", err.text);
    rt_assign_deinit(&assign);
}

TEST_MAIN()
