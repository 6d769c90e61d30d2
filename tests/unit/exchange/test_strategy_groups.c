/* Groups of workers: who is in which, whom the server takes for one worker, and which links that needs. */
#include "exchange/strategy.h"
#include "support/test.h"

enum { MOST = 12 };

static struct rt_exchange_options options;
static uint16_t worker[MOST], proxy[MOST];
static struct rt_roles roles, clients;
static const struct rt_exchange_strategy *strategy;

static bool set_up(const char *name, size_t nodes, int base, int64_t group, bool dedicated) {
    struct rt_error err = {0};
    strategy = rt_exchange_strategy_find(name);
    rt_status status = rt_exchange_options_read(strategy, NULL, &options, &err);
    options.base = base;
    options.group = group;
    options.dedicated = dedicated;
    if (status == RT_OK)
        status = rt_exchange_roles(strategy, &options, nodes, worker, &roles, &err);
    CHECK_MSG(status == RT_OK, "%s", err.text);
    clients = rt_exchange_clients(strategy, &options, &roles, proxy);
    return status == RT_OK;
}

TEST(neighbours_form_groups) {
    REQUIRE(set_up("ps-hier", 8, RT_BASE_ASYNC, 3, false));
    CHECK(rt_exchange_is_nested(strategy, &options));
    CHECK(clients.workers == 3 && proxy[0] == 0 && proxy[1] == 3 && proxy[2] == 6);
    CHECK(clients.nodes == 8 && clients.servers == 1);
    for (uint16_t rank = 0; rank < 8; rank++) {
        const struct rt_team team = rt_exchange_team(strategy, &options, &roles, rank);
        CHECK(team.count == (rank < 6 ? 3 : 2) && team.place == rank % 3);
        CHECK(team.ranks[0] == rank / 3 * 3 && team.ranks[team.place] == rank);
    }
    for (uint16_t a = 1; a < 8; a++)
        for (uint16_t b = 1; b < 8; b++)
            CHECK_MSG(rt_exchange_links(strategy, &options, &roles, a, b) ==
                          (a != b && a / 3 == b / 3 && (a % 3 == 0 || b % 3 == 0)),
                      "%u and %u", a, b);
}

TEST(a_server_of_its_own_is_in_no_group) {
    REQUIRE(set_up("ps-hier", 6, RT_BASE_SSP, 2, true));
    CHECK(clients.workers == 3 && proxy[0] == 1 && proxy[1] == 3 && proxy[2] == 5);
    const struct rt_team none = rt_exchange_team(strategy, &options, &roles, 0),
                         last = rt_exchange_team(strategy, &options, &roles, 5);
    CHECK(none.count == 1 && none.place == 1);
    CHECK(last.count == 1 && last.place == 0 && last.ranks[0] == 5);
    CHECK(rt_exchange_links(strategy, &options, &roles, 1, 2) &&
          !rt_exchange_links(strategy, &options, &roles, 2, 3));
    CHECK(rt_exchange_clients(strategy, &options, &roles, NULL).workers == 3);
}

/* As few as make a tree of two levels of it. */
TEST(groups_are_about_as_large_as_they_are_many) {
    static const size_t size[] = {0, 1, 2, 2, 2, 3, 3, 3, 3, 3, 4};
    for (size_t nodes = 1; nodes <= 10; nodes++) {
        REQUIRE(set_up("ps-hier", nodes, RT_BASE_ASYNC, -1, false));
        CHECK_MSG(rt_exchange_team(strategy, &options, &roles, 0).count == size[nodes], "%zu nodes: %zu",
                  nodes, rt_exchange_team(strategy, &options, &roles, 0).count);
    }
    REQUIRE(set_up("ps-hier", 4, RT_BASE_ASYNC, 9, false));
    CHECK(clients.workers == 1 && rt_exchange_team(strategy, &options, &roles, 3).count == 4);
}

/* Elsewhere a batch is everybody's, or one worker's. */
TEST(without_groups) {
    REQUIRE(set_up("ps-hier", 6, RT_BASE_SYNC, 2, false));
    CHECK(!rt_exchange_is_nested(strategy, &options) && clients.workers == 6);
    CHECK(rt_exchange_team(strategy, &options, &roles, 4).count == 6 &&
          rt_exchange_team(strategy, &options, &roles, 4).place == 4);
    REQUIRE(set_up("ps-backup", 4, RT_BASE_SYNC, 0, false));
    CHECK(rt_exchange_team(strategy, &options, &roles, 3).count == 4 && clients.workers == 4);
    REQUIRE(set_up("ps-async", 4, RT_BASE_SYNC, 0, true));
    CHECK(rt_exchange_team(strategy, &options, &roles, 3).count == 1 &&
          rt_exchange_team(strategy, &options, &roles, 3).place == 0);
    CHECK(clients.workers == 3 && proxy[0] == 1 && proxy[2] == 3);
}

TEST_MAIN()
