/* The exchange by collectives: whatever the way, the delays and the cut of the spans, what comes out is what
 * one device would have made of the same batches. */
#include "support/exrig.h"
#include "support/test.h"
#include <math.h>

static const char *const carried_ways[] = {"allreduce-auto",
                                           "allreduce-ring",
                                           "allreduce-rd",
                                           "allreduce-hd",
                                           "allreduce-tree",
                                           "ps-sync",
                                           "ps-tree",
                                           "ps-scatter",
                                           "ps-hier",
                                           "ps-peer",
                                           NULL};

/* Those that add in the binary tree over the workers. */
static bool adds_in_tree(const char *way) {
    return strcmp(way, "allreduce-rd") == 0 || strcmp(way, "allreduce-hd") == 0 ||
           strcmp(way, "ps-sync") == 0;
}

/* Everybody has the same parameters, and they are those of one device: to the bit, or nearly. */
static void check_result(const struct exrig *rig, size_t slices, bool exact) {
    float *params = calloc(rig->settings.params, sizeof *params);
    float *state = calloc(exrig_floats(rig), sizeof *state);
    REQUIRE(params && state);
    const size_t bytes = rig->settings.params * sizeof *params;
    exrig_serial(rig, 1, rig->settings.updates, slices, params, state);
    for (size_t i = 0; i < rig->settings.nodes; i++) {
        const float *theirs = rig->node[i].params;
        CHECK_MSG(memcmp(theirs, rig->node[0].params, bytes) == 0, "%s, %zu nodes: node %zu differs",
                  rig->way->name, rig->settings.nodes, i);
        const double away = exrig_distance(rig, theirs, params);
        CHECK_MSG(exact ? memcmp(theirs, params, bytes) == 0 : away < 1e-5,
                  "%s, %zu nodes: node %zu is %g from one device", rig->way->name, rig->settings.nodes, i,
                  away);
    }
    CHECK(rig->rows > 0);
    free(params);
    free(state);
}

TEST(every_way_is_one_device) {
    for (size_t w = 0; carried_ways[w]; w++)
        for (size_t n = 1; n <= 5; n++) {
            struct exrig rig;
            const struct exrig_settings settings = {
                .way = carried_ways[w], .nodes = n, .updates = 10, .optimizer = "{momentum: {lr: 0.1}}"};
            if (!exrig_succeeds(&settings, &rig))
                continue;
            const bool power = (n & (n - 1)) == 0;
            check_result(&rig, 0, power && adds_in_tree(carried_ways[w]));
            exrig_close(&rig);
        }
}

TEST_MAIN()
