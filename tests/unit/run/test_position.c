/* A node of rings side by side: its place and the job of its ring follow from its index; what makes no sense
 * is refused. */
#include "formats/yaml.h"
#include "run/hybrid/position.h"
#include "support/test.h"

static const char model[] = "input: 12, layers: [{dense: 5}], loss: mse, batch: 24";

static rt_status read_job(const char *rings, const char *keys, const char *strategy, uint16_t index,
                          size_t nodes, struct rt_position **position, struct rt_error *err) {
    struct rt_tree *tree;
    char text[1000];
    snprintf(text, sizeof text,
             "{learner: hybrid, %s, %s, updates: 5, per_epoch: 5, exchange: {strategy: %s}, data: {examples: "
             "10, options: {train: {csv: a}}}}",
             rings, keys, strategy);
    RT_TRY(rt_yaml_parse(text, strlen(text), "job", &tree, err));
    const rt_status status = rt_position_create(tree, index, nodes, position, err);
    rt_tree_destroy(tree);
    return status;
}

TEST(a_node_finds_its_place) {
    for (uint16_t index = 0; index < 12; index++) {
        struct rt_error err;
        struct rt_position *position;
        CHECK_OK(read_job("rings: 3", model, "allreduce-rd", index, 12, &position, &err));
        CHECK(position->rings == 3 && position->ring_size == 4 && position->index == index);
        CHECK(position->ring == index / 4 && position->ring_position == index % 4);
        const struct rt_job *ring = position->ring_job;
        CHECK(ring->learner == RT_JOB_RING && ring->ring.part == index / 4 && ring->ring.parts == 3);
        CHECK(rt_tree_equal(ring->layers, position->job->layers) && ring->batch == 24);
        rt_position_destroy(position);
    }
}

/* Also what the master says of parts: they are what the assignment makes them. */
TEST(parts_are_the_nodes_own_business) {
    struct rt_error err;
    struct rt_position *position;
    CHECK_OK(read_job("rings: 2, ring: {part: 7, parts: 9, served: true}", model, "ps-sync", 1, 2, &position,
                      &err));
    const struct rt_job *ring = position->ring_job;
    CHECK(ring->ring.part == 1 && ring->ring.parts == 2 && ring->all_slices == 2);
    CHECK(!ring->ring.with_servers);
    rt_position_destroy(position);
}

/* Whose batches are whole, and who shares them. */
/* One that is left when devices were lost, whatever the rings exchanged by. */
TEST(one_ring_is_left) {
    static const char *const strategies[] = {"allreduce-rd", "ps-sync", "ps-async",
                                             "ps-backup, options: {backup: 0}"};
    struct rt_position *position;
    struct rt_error err;
    for (size_t i = 0; i < sizeof strategies / sizeof *strategies; i++) {
        CHECK_OK(read_job("rings: 1", model, strategies[i], 2, 3, &position, &err));
        CHECK(position->rings == 1 && position->ring_size == 3 && position->ring == 0);
        CHECK(position->ring_position == 2 && position->ring_job->ring.parts == 1);
        rt_position_destroy(position);
    }
}

TEST(rings_that_do_not_stay_together) {
    static const struct {
        const char *strategy;
        int64_t part, parts;
        bool served;
    } cases[] = {
        {"allreduce-rd", 1, 2, false},
        {"ps-async", 0, 1, true},
        {"ps-backup", 1, 2, true},
        {"ps-cut", 1, 2, false},
        {"ps-cut, options: {base: ssp}", 0, 1, true},
        {"ps-shard, options: {base: async, k: 1}", 0, 1, true},
        {"downpour", 0, 1, true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct rt_error err;
        struct rt_position *position;
        CHECK_OK(read_job("rings: 2", model, cases[i].strategy, 3, 4, &position, &err));
        const struct rt_job_ring *ring = &position->ring_job->ring;
        CHECK_MSG(ring->part == cases[i].part && ring->parts == cases[i].parts &&
                      ring->with_servers == cases[i].served && position->with_servers == cases[i].served,
                  "%s", cases[i].strategy);
        rt_position_destroy(position);
    }
}

TEST(what_makes_no_sense_is_refused) {
    static const struct {
        const char *rings, *keys, *strategy;
        uint16_t index;
        size_t nodes;
        const char *said;
    } cases[] = {
        {"rings: 0", model, "allreduce-rd", 1, 2, "rings"},
        {"rings: 1025", model, "allreduce-rd", 1, 2, "rings"},
        {"rings: two", model, "allreduce-rd", 1, 2, "rings"},
        {"rings: 2", model, "allreduce-rd", 1, 3, "2 rings cannot be made of 3 nodes"},
        {"rings: 4", model, "allreduce-rd", 1, 2, "4 rings cannot be made of 2 nodes"},
        {"rings: 2", model, "allreduce-rd", 4, 4, "2 rings cannot be made of 4 nodes"},
        {"rings: 2, ring: 7", model, "allreduce-rd", 1, 2, "ring must be a map"},
        {"rings: 2, more: 7", model, "allreduce-rd", 1, 2, "more"},
        {"rings: 2", "input: 12, layers: [{dense: 5}], loss: mse", "allreduce-rd", 1, 2, "batch"},
        {"rings: 2, ring: {mode: ring-flow}", model, "allreduce-rd", 1, 2, "part"},
        {"rings: 2", "input: 12, layers: [{dense: 5}], loss: mse, batch: 1", "ps-sync", 1, 2, "part"},
        {"rings: 2, clip_norm: 1", model, "ps-async", 1, 2, "by servers"},
        {"rings: 2", model, "hybrid", 1, 2, "hybrid"},
        {"rings: 2", model, "ps-shard, options: {base: async, k: 2}", 1, 2, "one server at each place"},
        {"rings: 2", model, "ps-shard, options: {base: async}", 1, 2, "one server at each place"},
        {"rings: 2", model, "ps-sync, options: {dedicated: true}", 1, 2, "by ps-sync, dedicated"},
        {"rings: 2", model, "ps-shard, options: {k: 3}", 1, 2, "k: 3 servers"},
        {"rings: 2", model, "nothing", 1, 2, "nothing"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct rt_error err = {.text = ""};
        struct rt_position *position;
        const rt_status status = read_job(cases[i].rings, cases[i].keys, cases[i].strategy, cases[i].index,
                                          cases[i].nodes, &position, &err);
        CHECK_MSG(status == RT_BAD_INPUT && strstr(err.text, cases[i].said), "case %zu: %s", i, err.text);
        if (status == RT_OK)
            rt_position_destroy(position);
    }
}

/* A job for another learner is not read as one of these. */
TEST(a_job_for_one_ring_has_no_places) {
    static const char text[] = "{learner: ring, input: 12, layers: [{dense: 5}], loss: mse, batch: 24}";
    struct rt_error err = {.text = ""};
    struct rt_tree *tree;
    struct rt_position *position;
    CHECK_OK(rt_yaml_parse(text, strlen(text), "job", &tree, &err));
    CHECK(rt_position_create(tree, 1, 2, &position, &err) == RT_BAD_INPUT);
    CHECK_MSG(strstr(err.text, "not for several rings"), "%s", err.text);
    rt_tree_destroy(tree);
}

TEST_MAIN()
