/* A device in an exchange: the memory that it says it will need. */
#include "run/exchange/exchanger.h"
#include "support/test.h"
#include "support/tiny.h"

static const char model[] =
    "{input: 50, loss: cross_entropy, layers: [{dense: 40}, tanh, {dense: 30}, tanh, {dense: 10}]}";

/* What a word of state for each parameter adds, in parameters. */
static double state_of(struct tiny *tiny, const char *strategy, size_t nodes, int64_t servers,
                       uint16_t rank) {
    struct rt_exchange_options options;
    struct rt_error err;
    uint16_t worker[8];
    struct rt_roles roles;
    double bytes[2];
    static const char *const rules[] = {"sgd", "adam"};
    if (rt_exchange_options_read(rt_exchange_strategy_find(strategy), NULL, &options, &err) != RT_OK)
        return -1;
    options.servers = servers;
    if (rt_exchange_roles(rt_exchange_strategy_find(strategy), &options, nodes, worker, &roles, &err) !=
        RT_OK)
        return -1;
    for (size_t i = 0; i < 2; i++) {
        const struct rt_optim optim = {.type = rt_optim_type_find(rules[i])};
        const struct rt_exchanger_settings settings = {
            .strategy = rt_exchange_strategy_find(strategy),
            .options = &options,
            .comm = {.rank = rank, .count = (uint16_t)nodes},
            .optim = &optim,
            .replica = {.network = &tiny->network, .set = &tiny->set, .count = 64, .batch = 16},
            .shards = 1};
        bytes[i] = (double)rt_exchanger_bytes(&settings, &roles, tiny->network.model);
    }
    return (bytes[1] - bytes[0]) / sizeof(float) / 2;
}

/* The optimizer's state is where the step is made, and nowhere else. */
TEST(state_takes_memory_where_it_is) {
    struct rt_error err;
    struct tiny tiny;
    static const struct rt_trainer_settings single = {.seed = 1, .batch = 16, .micro_batch = 16, .shards = 1};
    CHECK_OK(tiny_open(model, "sgd", 64, &(struct tiny_way){.threads = 1}, &single, &tiny, &err));
    const double params = (double)tiny.network.model->param_count;
    CHECK(state_of(&tiny, "allreduce-rd", 4, -1, 1) == params);
    CHECK(state_of(&tiny, "ps-sync", 4, -1, 0) == params && state_of(&tiny, "ps-sync", 4, -1, 1) == 0);
    CHECK(state_of(&tiny, "ps-async", 4, -1, 3) == 0);
    double sum = 0;
    for (uint16_t rank = 0; rank < 4; rank++) {
        const double part = state_of(&tiny, "ps-peer", 4, -1, rank);
        CHECK_MSG(part > 0.24 * params && part < 0.26 * params, "%g of %g", part, params);
        sum += part;
    }
    CHECK(sum == params);
    sum = 0;
    for (uint16_t rank = 0; rank < 5; rank++) {
        const double part = state_of(&tiny, "ps-shard", 5, 3, rank);
        CHECK(rank < 3 ? part > 0.3 * params : part == 0);
        sum += part;
    }
    CHECK(sum == params);
    tiny_close(&tiny);
}

/* A server of groups holds something for each of them, not for each worker; whoever is in a group computes a
 * part of a batch. */
TEST(groups_need_less_than_workers) {
    struct rt_error err;
    struct tiny tiny;
    static const struct rt_trainer_settings single = {.seed = 1, .batch = 16, .micro_batch = 16, .shards = 1};
    CHECK_OK(tiny_open(model, "sgd", 64, &(struct tiny_way){.threads = 1}, &single, &tiny, &err));
    const struct rt_optim optim = {.type = rt_optim_type_find("sgd")};
    const struct rt_exchange_strategy *strategy = rt_exchange_strategy_find("ps-hier");
    const double block = sizeof(float) * (double)tiny.network.model->param_count;
    double server[3] = {0}, member = 0;
    for (int64_t group = 1; group <= 2; group++) {
        struct rt_exchange_options options;
        struct rt_roles roles;
        uint16_t worker[8];
        CHECK_OK(rt_exchange_options_read(strategy, NULL, &options, &err));
        options.base = RT_BASE_ASYNC;
        options.group = group;
        options.dedicated = true;
        CHECK_OK(rt_exchange_roles(strategy, &options, 7, worker, &roles, &err));
        struct rt_exchanger_settings settings = {
            .strategy = strategy,
            .options = &options,
            .comm = {.count = 7},
            .optim = &optim,
            .replica = {.network = &tiny.network, .set = &tiny.set, .count = 64, .batch = 16},
            .shards = 1};
        server[group] = (double)rt_exchanger_bytes(&settings, &roles, tiny.network.model);
        settings.comm.rank = 2;
        const double before = member;
        member = (double)rt_exchanger_bytes(&settings, &roles, tiny.network.model);
        CHECK(group == 1 || member < before);
    }
    CHECK_MSG(server[1] - server[2] == 6 * block, "%g blocks less", (server[1] - server[2]) / block);
    tiny_close(&tiny);
}

/* A worker whose slices are several pieces has a block for each; a server waits with terms of the others. */
TEST(pieces_of_a_run_need_memory) {
    struct rt_error err;
    struct tiny tiny;
    static const struct rt_trainer_settings single = {.seed = 1, .batch = 16, .micro_batch = 16, .shards = 1};
    static const struct rt_slice_run equal[] = {{0, 4}, {4, 4}, {8, 4}, {12, 4}},
                                     uneven[] = {{0, 4}, {4, 3}, {7, 5}, {12, 4}};
    CHECK_OK(tiny_open(model, "sgd", 64, &(struct tiny_way){.threads = 1}, &single, &tiny, &err));
    const struct rt_optim optim = {.type = rt_optim_type_find("sgd")};
    const struct rt_exchange_strategy *strategy = rt_exchange_strategy_find("ps-sync");
    const double block = sizeof(float) * (double)tiny.network.model->param_count;
    struct rt_exchange_options options;
    struct rt_roles roles;
    uint16_t worker[4];
    double bytes[2][4];
    CHECK_OK(rt_exchange_options_read(strategy, NULL, &options, &err));
    CHECK_OK(rt_exchange_roles(strategy, &options, 4, worker, &roles, &err));
    for (size_t k = 0; k < 2; k++)
        for (uint16_t rank = 0; rank < 4; rank++) {
            const struct rt_exchanger_settings settings = {.strategy = strategy,
                                                           .options = &options,
                                                           .comm = {.rank = rank, .count = 4},
                                                           .optim = &optim,
                                                           .replica = {.network = &tiny.network,
                                                                       .set = &tiny.set,
                                                                       .count = 64,
                                                                       .batch = 16,
                                                                       .micro_batch = 1},
                                                           .shards = 16};
            roles.runs = k ? uneven : equal;
            bytes[k][rank] = (double)rt_exchanger_bytes(&settings, &roles, tiny.network.model);
        }
    /* 4-5, 6: while 5 is computed, 4 waits, afterwards the sum of both while 6 is; of four slices, three. */
    CHECK_MSG(bytes[1][1] - bytes[0][1] < -0.5 * block, "%g blocks", (bytes[1][1] - bytes[0][1]) / block);
    /* 7, 8-11: a block more than four slices alone */
    CHECK_MSG(bytes[1][2] - bytes[0][2] > 0.5 * block, "%g blocks", (bytes[1][2] - bytes[0][2]) / block);
    /* The server waits with 4-5, 6 and then 7 where before one term waited. */
    CHECK_MSG(bytes[1][0] - bytes[0][0] > 0.5 * block, "%g blocks", (bytes[1][0] - bytes[0][0]) / block);
    tiny_close(&tiny);
}

TEST_MAIN()
