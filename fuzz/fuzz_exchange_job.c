/* Any text as the job of an exchange. What is accepted must be usable: whoever has a role knows his part, and
 * the lists of moves are made or refused. */
#include "exchange/server/server.h"
#include "formats/yaml.h"
#include "run/exchange/job.h"
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

enum { MOST_NODES = 6, PARAMS = 500 };

static void check_rank(const struct rt_exchange_job *job, const struct rt_roles *roles, uint16_t rank) {
    static struct rt_span owned[RT_MAX_OWNED];
    const struct rt_span spans[] = {{0, 300}, {300, 7}, {307, PARAMS - 307}};
    const size_t ranges =
        rt_exchange_owned(job->strategy, &job->options, roles, rank, spans, 3, PARAMS, owned);
    for (size_t i = 0; i < ranges; i++)
        if (owned[i].count == 0 || owned[i].first + owned[i].count > PARAMS)
            abort();
    if (rt_exchange_rules(job->strategy, &job->options))
        return;
    for (size_t i = 0; i < 3; i++) {
        struct rt_error err;
        struct rt_collective collective = {0};
        if (job->strategy->collective(&job->options, roles, rank, &spans[i], PARAMS, &job->cost, &collective,
                                      &err) == RT_OK)
            for (size_t k = 0; k < collective.count; k++)
                if (collective.list[k].count == 0 ||
                    collective.list[k].first + collective.list[k].count > spans[i].count)
                    abort();
        rt_collective_deinit(&collective);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    struct rt_error err;
    struct rt_tree *tree;
    struct rt_exchange_job *job;
    if (rt_yaml_parse((const char *)data, bytes, "fuzz", &tree, &err) != RT_OK)
        return 0;
    if (rt_exchange_job_create(tree, &job, &err) == RT_OK) {
        uint16_t worker[MOST_NODES];
        struct rt_roles roles;
        for (uint16_t nodes = 1; nodes <= MOST_NODES; nodes++)
            if (rt_exchange_roles(job->strategy, &job->options, nodes, worker, &roles, &err) == RT_OK)
                for (uint16_t rank = 0; rank < nodes; rank++)
                    check_rank(job, &roles, rank);
        rt_exchange_job_destroy(job);
    }
    rt_tree_destroy(tree);
    return 0;
}
