/* Exchanges by servers as programs run them: over TCP, with threads that take the events. */
/* labels: threads */
#include "support/exrig.h"
#include "support/test.h"
#include <math.h>

static struct exrig rig;

static const struct {
    const char *strategy, *options;
    size_t nodes;
} cases[] = {
    {"ps-async", NULL, 3},
    {"ps-async", "{dedicated: true, prio: stale, damp: 1, dc: 0.1}", 4},
    {"ps-ssp", "{s: 1}", 3},
    {"ps-ssp", "{s: 0, step: clock, dedicated: true}", 4},
    {"ps-vap", NULL, 3},
    {"ps-vap", "{delta: 0.01, dedicated: true}", 4},
    {"ps-backup", NULL, 3},
    {"ps-backup", "{quorum: 0.5, wfbp: off}", 4},
    {"ps-cut", "{base: async}", 3},
    {"ps-shard", "{k: 3, base: async}", 3},
    {"ps-shard", "{k: 2, base: ssp, dedicated: true}", 4},
    {"ps-hier", "{base: async, group: 2}", 4},
    {"ps-hier", "{base: ssp, group: 2, dedicated: true, wfbp: off}", 6},
    {"downpour", "{n_push: 2, n_fetch: 4, k: 2}", 3},
};

TEST(every_way_by_servers_over_tcp) {
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct exrig_settings settings = {.strategy = cases[i].strategy,
                                                .options = cases[i].options,
                                                .optimizer = "{momentum: {lr: 0.01}}",
                                                .nodes = cases[i].nodes,
                                                .params = 3000,
                                                .spans = 5,
                                                .updates = 60,
                                                .tcp = true};
        if (!exrig_succeeds(&settings, &rig)) {
            rt_test_fail(__FILE__, __LINE__, "%s %s", cases[i].strategy, cases[i].options);
            return;
        }
        for (size_t s = 0; s < rig.roles.servers; s++) {
            const struct rt_server_counts *counts = &rig.node[s].counts;
            CHECK_MSG(counts->applied + counts->gathered + counts->dropped >= 30, "%s: %d updates",
                      cases[i].strategy, (int)counts->applied);
        }
        /* Who has settled last has what the first server has. */
        const struct exrig_node *server = &rig.node[0], *worker = &rig.node[rig.worker[0]];
        size_t first, end;
        rt_collective_part(3000, rig.roles.servers, 0, &first, &end);
        for (size_t j = first; j < end; j++)
            if (!isfinite(server->shelf[j]) || !isfinite(worker->params[j])) {
                rt_test_fail(__FILE__, __LINE__, "%s: parameter %zu", cases[i].strategy, j);
                break;
            }
        exrig_close(&rig);
    }
}

/* What does not depend on the order of arrival is the same over TCP: one worker, and plain rounds. */
TEST(what_has_one_order_has_one_result_over_tcp) {
    static const struct exrig_settings settings[] = {
        {.strategy = "ps-async", .nodes = 1},
        {.strategy = "ps-async", .options = "{dedicated: true}", .nodes = 2},
        {.strategy = "ps-shard", .options = "{base: async, k: 3, dedicated: true}", .nodes = 4},
        {.strategy = "ps-backup", .options = "{backup: 0}", .nodes = 4},
        {.strategy = "downpour", .options = "{n_fetch: 3, dedicated: true}", .nodes = 2},
    };
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        struct exrig_settings tcp = settings[i];
        float *params = calloc(500, sizeof *params);
        tcp.params = 500;
        tcp.updates = 30;
        tcp.uneven = true;
        tcp.tcp = true;
        if (exrig_succeeds(&tcp, &rig)) {
            exrig_serial(&rig, 1, 30, 0, params, NULL);
            for (size_t s = 0; s < rig.roles.servers; s++) {
                size_t first, end;
                rt_collective_part(500, rig.roles.servers, s, &first, &end);
                CHECK_MSG(memcmp(params + first, rig.node[s].shelf + first, (end - first) * sizeof *params) ==
                              0,
                          "%s %s", tcp.strategy, tcp.options ? tcp.options : "");
            }
            CHECK(memcmp(params, rig.node[rig.worker[0]].params, 500 * sizeof *params) == 0);
            exrig_close(&rig);
        }
        free(params);
    }
}

TEST_MAIN()
