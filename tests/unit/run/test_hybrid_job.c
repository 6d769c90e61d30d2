/* The job of a node in rings side by side: what the master writes a node reads, as its own part; what makes
 * no sense is refused. */
#include "formats/yaml.h"
#include "run/hybrid/job.h"
#include "support/test.h"

static const char inter_ring[] =
    "{exchange: %s, examples: 10, updates: 5, per_epoch: 5, run: {model: {input: 12, layers: [{dense: 5}], "
    "loss: mse}, data: {train: {csv: a}}}}";

static rt_status read_job(const char *rings, const char *ring, const char *strategy, uint16_t index,
                          size_t nodes, struct rt_hybrid_job **job, struct rt_error *err) {
    struct rt_tree *tree;
    char text[1000], inner[600];
    snprintf(inner, sizeof inner, inter_ring, strategy);
    snprintf(text, sizeof text, "{%s, %s, across: %s}", rings, ring, inner);
    rt_status status = rt_yaml_parse(text, strlen(text), "job", &tree, err);
    if (status != RT_OK)
        return status;
    CHECK(rt_hybrid_job_is(tree));
    status = rt_hybrid_job_create(tree, index, nodes, job, err);
    rt_tree_destroy(tree);
    return status;
}

static const char ring[] = "ring: {input: 12, layers: [{dense: 5}], loss: mse, batch: 24}";

TEST(a_node_finds_its_place) {
    for (uint16_t index = 0; index < 12; index++) {
        struct rt_error err;
        struct rt_hybrid_job *job;
        char number[8];
        CHECK_OK(read_job("rings: 3", ring, "allreduce-rd", index, 12, &job, &err));
        CHECK(job->rings == 3 && job->places == 4 && job->ours == index / 4 && job->place == index % 4);
        snprintf(number, sizeof number, "%u", index / 4);
        CHECK(strcmp(rt_tree_get(job->ring, "part")->text, number) == 0);
        CHECK(strcmp(rt_tree_get(job->ring, "parts")->text, "3") == 0);
        rt_hybrid_job_destroy(job);
    }
}

/* Also what the master says of parts: they are what the assignment makes them. */
TEST(parts_are_the_nodes_own_business) {
    struct rt_error err;
    struct rt_hybrid_job *job;
    CHECK_OK(read_job("rings: 2",
                      "ring: {input: 12, layers: [{dense: 5}], loss: mse, batch: 24, part: 7, parts: 9}",
                      "ps-sync", 1, 2, &job, &err));
    CHECK(strcmp(rt_tree_get(job->ring, "part")->text, "1") == 0);
    CHECK(strcmp(rt_tree_get(job->ring, "parts")->text, "2") == 0);
    rt_hybrid_job_destroy(job);
}

/* Whose batches are whole, and who shares them. */
TEST(rings_that_do_not_stay_together) {
    static const struct {
        const char *strategy, *part, *parts, *served;
    } cases[] = {
        {"allreduce-rd", "1", "2", "false"},
        {"ps-async", "0", "1", "true"},
        {"ps-backup", "1", "2", "true"},
        {"ps-cut", "1", "2", "false"},
        {"ps-cut, options: {base: ssp}", "0", "1", "true"},
        {"ps-shard, options: {base: async, k: 1}", "0", "1", "true"},
        {"downpour", "0", "1", "true"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct rt_error err;
        struct rt_hybrid_job *job;
        CHECK_OK(read_job("rings: 2", ring, cases[i].strategy, 3, 4, &job, &err));
        CHECK_MSG(strcmp(rt_tree_get(job->ring, "part")->text, cases[i].part) == 0 &&
                      strcmp(rt_tree_get(job->ring, "parts")->text, cases[i].parts) == 0 &&
                      strcmp(rt_tree_get(job->ring, "served")->text, cases[i].served) == 0 &&
                      job->with_servers == (cases[i].served[0] == 't'),
                  "%s", cases[i].strategy);
        rt_hybrid_job_destroy(job);
    }
}

TEST(what_makes_no_sense_is_refused) {
    static const struct {
        const char *rings, *ring, *strategy;
        uint16_t index;
        size_t nodes;
        const char *said;
    } cases[] = {
        {"rings: 1", ring, "allreduce-rd", 1, 2, "rings"},
        {"rings: 0", ring, "allreduce-rd", 1, 2, "rings"},
        {"rings: 1025", ring, "allreduce-rd", 1, 2, "rings"},
        {"rings: two", ring, "allreduce-rd", 1, 2, "rings"},
        {"rings: 2", ring, "allreduce-rd", 1, 3, "2 rings cannot be made of 3 nodes"},
        {"rings: 4", ring, "allreduce-rd", 1, 2, "4 rings cannot be made of 2 nodes"},
        {"rings: 2", ring, "allreduce-rd", 4, 4, "2 rings cannot be made of 4 nodes"},
        {"rings: 2", "ring: 7", "allreduce-rd", 1, 2, "the job has no ring"},
        {"rings: 2", "more: 7", "allreduce-rd", 1, 2, "more"},
        {"rings: 2", "ring: {input: 12, layers: [{dense: 1}], loss: mse, batch: 24}", "ps-sync", 1, 2,
         "differ in the model's layers"},
        {"rings: 2", "ring: {input: 1, layers: [{dense: 5}], loss: mse, batch: 24}", "ps-sync", 1, 2,
         "differ in the model's input"},
        {"rings: 2", "ring: {input: 12, layers: [{dense: 5}], loss: cross_entropy, batch: 24}", "ps-sync", 1,
         2, "differ in the model's loss"},
        {"rings: 2", ring, "hybrid", 1, 2, "hybrid"},
        {"rings: 2", ring, "ps-shard, options: {base: async, k: 2}", 1, 2, "one server at each place"},
        {"rings: 2", ring, "ps-shard, options: {base: async}", 1, 2, "one server at each place"},
        {"rings: 2", ring, "ps-sync, options: {dedicated: true}", 1, 2, "by ps-sync, dedicated"},
        {"rings: 2", ring, "ps-shard, options: {k: 3}", 1, 2, "k: 3 servers"},
        {"rings: 2", ring, "nothing", 1, 2, "nothing"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct rt_error err = {.text = ""};
        struct rt_hybrid_job *job;
        const rt_status status = read_job(cases[i].rings, cases[i].ring, cases[i].strategy, cases[i].index,
                                          cases[i].nodes, &job, &err);
        CHECK_MSG(status == RT_BAD_INPUT && strstr(err.text, cases[i].said), "case %zu: %s", i, err.text);
        if (status == RT_OK)
            rt_hybrid_job_destroy(job);
    }
}

TEST_MAIN()
