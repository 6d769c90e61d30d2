/*
 * Every way of exchange: what its moves do, carried out in plain C for any number of nodes; who owns what,
 * who needs a link to whom; its options, and what is refused.
 */
#include "exchange/server/server.h"
#include "exchange/strategies/strategies.h"
#include "support/collectivesim.h"
#include "support/test.h"
#include <math.h>

enum { MOST_NODES = 9, SPANS = 5 };

/* Spans of all sizes: smaller than the nodes, one float, and one that is cut in the middle by every server.
 */
static const struct rt_span spans[SPANS] = {{0, 3}, {3, 1}, {4, 40}, {44, 7}, {51, 20}};
enum { PARAMS = 71 };

static const struct rt_link_cost cost = {.latency = 1e-4, .bandwidth = 1e8, .adding = 1e-9};

/* "k=2,base=sync" as a map. */
static struct rt_tree *map_of(const char *text) {
    struct rt_error err;
    struct rt_tree *map = NULL, *value;
    char copy[200];
    snprintf(copy, sizeof copy, "%s", text);
    if (rt_tree_create(RT_TREE_MAP, NULL, "test", 1, &map, &err) != RT_OK)
        exit(1);
    for (char *word = strtok(copy, ","); word; word = strtok(NULL, ",")) {
        char *equals = strchr(word, '=');
        *equals = 0;
        if (rt_tree_create(RT_TREE_SCALAR, equals + 1, "test", 1, &value, &err) != RT_OK ||
            rt_tree_add(map, word, value, &err) != RT_OK)
            exit(1);
    }
    return map;
}

static rt_status read_options(const struct rt_exchange_strategy *strategy, const char *text,
                              struct rt_exchange_options *options, struct rt_error *err) {
    struct rt_tree *map = map_of(text);
    rt_status status = rt_exchange_options_read(strategy, map, options, err);
    rt_tree_destroy(map);
    return status;
}

/* ---- moves ---- */

/* A way with options on some nodes. */
struct setting {
    const struct rt_exchange_strategy *strategy;
    const char *text;
    struct rt_exchange_options options;
    uint16_t worker[MOST_NODES];
    struct rt_roles roles;
};

static bool set_up(struct setting *setting, const struct rt_exchange_strategy *strategy, const char *text,
                   size_t nodes) {
    struct rt_error err = {0};
    *setting = (struct setting){.strategy = strategy, .text = text};
    rt_status status = read_options(strategy, text, &setting->options, &err);
    if (status == RT_OK)
        status =
            rt_exchange_roles(strategy, &setting->options, nodes, setting->worker, &setting->roles, &err);
    CHECK_MSG(status == RT_OK, "%s,%s on %zu nodes: %s", strategy->name, text, nodes, err.text);
    return status == RT_OK;
}

/* A gradient of whole numbers, whose sum is exact, or of any floats. */
static float gradient_of(size_t rank, size_t i, bool whole) {
    if (whole)
        return (float)((rank + 1) * (i % 5 + 1));
    const uint32_t mixed = (uint32_t)(rank * 7919 + i + 1) * UINT32_C(2654435761);
    return ((float)(mixed >> 8) - 8e6f) / 1e5f;
}

static bool fill_in(const struct setting *setting, const struct rt_span *span, bool whole,
                    struct rt_collectivesim *sim) {
    struct rt_error err = {0};
    rt_collectivesim_init(sim, setting->roles.nodes, span->count);
    for (size_t rank = 0; rank < setting->roles.nodes; rank++) {
        struct rt_collectivesim_member *member = &sim->member[rank];
        const bool works = rt_roles_place(&setting->roles, (uint16_t)rank) < setting->roles.workers;
        for (size_t i = 0; i < span->count; i++) {
            /* What a server without a worker has there must not matter. */
            member->buffer[RT_BUFFER_GRADIENT][i] = works ? gradient_of(rank, i, whole) : NAN;
            /* Nothing is rounded away where bits are compared. */
            member->buffer[RT_BUFFER_PARAMS][i] = whole ? (float)(1000 + i) : 0;
        }
        rt_status status = setting->strategy->collective(&setting->options, &setting->roles, (uint16_t)rank,
                                                         span, PARAMS, &cost, &member->collective, &err);
        CHECK_MSG(status == RT_OK, "%s: %s", setting->strategy->name, err.text);
        if (status != RT_OK)
            return false;
    }
    return true;
}

static float exact_sum(const struct setting *setting, size_t i) {
    float sum = 0;
    for (size_t w = 0; w < setting->roles.workers; w++)
        sum += gradient_of(setting->roles.worker[w], i, true);
    return sum;
}

/* Everyone who works has what the update makes of the sum, and each float was applied where it is owned. */
static size_t wrong_floats(const struct setting *setting, const struct rt_span *span,
                           const struct rt_collectivesim *sim) {
    const bool replicated = rt_exchange_is_replicated(setting->strategy);
    size_t wrong = 0;
    for (size_t rank = 0; rank < setting->roles.nodes; rank++) {
        const struct rt_collectivesim_member *member = &sim->member[rank];
        const bool works = rt_roles_place(&setting->roles, (uint16_t)rank) < setting->roles.workers;
        const struct rt_span own = rt_exchange_owned_part(setting->strategy, &setting->options,
                                                          &setting->roles, (uint16_t)rank, span, PARAMS);
        for (size_t i = 0; i < span->count; i++) {
            const float sum = exact_sum(setting, i), params = (float)(1000 + i);
            const size_t at = span->first + i;
            const bool owned = own.count > 0 && at >= own.first && at < own.first + own.count;
            if (replicated)
                wrong += (works && member->buffer[RT_BUFFER_GRADIENT][i] != sum) || member->applied[i];
            else
                wrong += ((works || owned) && member->buffer[RT_BUFFER_PARAMS][i] != params - sum) ||
                         member->applied[i] != owned;
        }
    }
    return wrong;
}

/* All bits are the same on all workers, whatever the numbers. */
static size_t different_floats(const struct setting *setting, const struct rt_span *span,
                               const struct rt_collectivesim *sim) {
    const unsigned buffer =
        rt_exchange_is_replicated(setting->strategy) ? RT_BUFFER_GRADIENT : RT_BUFFER_PARAMS;
    const float *first = sim->member[setting->roles.worker[0]].buffer[buffer];
    size_t different = 0;
    for (size_t w = 1; w < setting->roles.workers; w++)
        different += memcmp(sim->member[setting->roles.worker[w]].buffer[buffer], first,
                            span->count * sizeof(float)) != 0;
    return different;
}

/* Whoever exchanges something has a link. */
static void check_links(const struct setting *setting, const struct rt_collectivesim *sim) {
    for (size_t rank = 0; rank < sim->members; rank++)
        for (size_t i = 0; i < sim->member[rank].collective.count; i++) {
            const struct rt_collective_op *op = &sim->member[rank].collective.list[i];
            if (!rt_op_has_peer(op))
                continue;
            const uint16_t a = (uint16_t)rank, b = op->peer;
            CHECK_MSG(rt_exchange_links(setting->strategy, &setting->options, &setting->roles, a, b) &&
                          rt_exchange_links(setting->strategy, &setting->options, &setting->roles, b, a),
                      "%s,%s: no link between %u and %u of %zu", setting->strategy->name, setting->text, a, b,
                      sim->members);
        }
}

static void check_operations(const struct rt_exchange_strategy *strategy, const char *text, size_t nodes) {
    struct setting setting;
    if (!set_up(&setting, strategy, text, nodes))
        return;
    for (size_t s = 0; s < SPANS; s++)
        for (int whole = 0; whole <= 1; whole++) {
            struct rt_collectivesim sim;
            char why[200] = "";
            const bool made = fill_in(&setting, &spans[s], whole, &sim);
            CHECK_MSG(made && rt_collectivesim_run(&sim, why), "%s,%s on %zu nodes, span %zu: %s",
                      strategy->name, text, nodes, s, why);
            if (whole)
                CHECK_MSG(wrong_floats(&setting, &spans[s], &sim) == 0,
                          "%s,%s on %zu nodes, span %zu: %zu floats are wrong", strategy->name, text, nodes,
                          s, wrong_floats(&setting, &spans[s], &sim));
            CHECK_MSG(different_floats(&setting, &spans[s], &sim) == 0,
                      "%s,%s on %zu nodes, span %zu: workers have different bits", strategy->name, text,
                      nodes, s);
            check_links(&setting, &sim);
            rt_collectivesim_deinit(&sim);
        }
}

static bool has_option(const struct rt_exchange_strategy *strategy, const char *name) {
    for (size_t i = 0; i < strategy->option_count; i++)
        if (strcmp(strategy->options[i].name, name) == 0)
            return true;
    return false;
}

TEST(every_strategy_by_collectives_makes_the_update_everywhere) {
    size_t checked = 0;
    for (const struct rt_exchange_strategy *const *strategy = rt_exchange_strategies(); *strategy;
         strategy++) {
        if (!(*strategy)->collective || (*strategy)->exact == RT_EXACT_NOT)
            continue;
        for (size_t nodes = 1; nodes <= MOST_NODES; nodes++) {
            check_operations(*strategy, "", nodes);
            if (has_option(*strategy, "dedicated") && nodes > 1)
                check_operations(*strategy, "dedicated=true", nodes);
        }
        checked++;
    }
    CHECK(checked >= 12);
}

TEST(options_change_the_operations_and_not_the_update) {
    for (size_t nodes = 1; nodes <= MOST_NODES; nodes++) {
        check_operations(rt_exchange_strategy_find("ps-sync"), "exchange=binom", nodes);
        check_operations(rt_exchange_strategy_find("ps-sync"), "exchange=scatter", nodes);
        for (size_t k = 1; k <= nodes; k++) {
            char text[80];
            snprintf(text, sizeof text, "k=%zu", k);
            check_operations(rt_exchange_strategy_find("ps-shard"), text, nodes);
            snprintf(text, sizeof text, "k=%zu,align=layer", k);
            check_operations(rt_exchange_strategy_find("ps-shard"), text, nodes);
            snprintf(text, sizeof text, "k=%zu,dedicated=true", k);
            if (k < nodes)
                check_operations(rt_exchange_strategy_find("ps-shard"), text, nodes);
            snprintf(text, sizeof text, "degree=%zu", k);
            check_operations(rt_exchange_strategy_find("allreduce-tree"), text, nodes);
            snprintf(text, sizeof text, "group=%zu", k);
            check_operations(rt_exchange_strategy_find("ps-hier"), text, nodes);
            snprintf(text, sizeof text, "group=%zu,dedicated=true", k);
            if (nodes > 1)
                check_operations(rt_exchange_strategy_find("ps-hier"), text, nodes);
        }
    }
}

/* ((0+1)+(2+3))+...: the sum that one device makes of as many slices. */
static float tree_sum(size_t first, size_t count, size_t first_rank, size_t i) {
    if (count == 1)
        return gradient_of(first_rank + first, i, false);
    return tree_sum(first, count / 2, first_rank, i) + tree_sum(first + count / 2, count / 2, first_rank, i);
}

static void check_tree(const char *name, const char *text, size_t nodes, size_t workers) {
    struct setting setting;
    if (!set_up(&setting, rt_exchange_strategy_find(name), text, nodes))
        return;
    const struct rt_span *span = &spans[2];
    struct rt_collectivesim sim;
    char why[200] = "";
    REQUIRE(setting.roles.workers == workers && fill_in(&setting, span, false, &sim));
    CHECK_MSG(rt_collectivesim_run(&sim, why), "%s: %s", name, why);
    size_t wrong = 0;
    for (size_t i = 0; i < span->count; i++) {
        const float sum = tree_sum(0, workers, setting.roles.worker[0], i);
        for (size_t w = 0; w < workers; w++) {
            const struct rt_collectivesim_member *member = &sim.member[setting.roles.worker[w]];
            const float got = member->buffer[RT_BUFFER_PARAMS][i];
            wrong += rt_exchange_is_replicated(setting.strategy)
                         ? member->buffer[RT_BUFFER_GRADIENT][i] != sum
                         : got != 0 - sum;
        }
    }
    CHECK_MSG(wrong == 0, "%s,%s: %zu floats differ from one device's", name, text, wrong);
    rt_collectivesim_deinit(&sim);
}

TEST(a_power_of_two_of_workers_adds_as_one_device_does) {
    for (size_t n = 1; n <= 8; n *= 2) {
        for (const struct rt_exchange_strategy *const *at = rt_exchange_strategies(); *at; at++)
            if ((*at)->exact == RT_EXACT_BITS)
                check_tree((*at)->name, "", n, n);
        check_tree("ps-sync", "dedicated=true", n + 1, n);
        check_tree("ps-cut", "", n, n);
        check_tree("ps-hier", "group=2", n, n);
    }
    CHECK(rt_exchange_strategy_find("ps-sync")->exact == RT_EXACT_BITS);
    check_tree("ps-shard", "k=8", 8, 8);
    check_tree("ps-shard", "k=3", 4, 4);
    check_tree("ps-shard", "k=1,dedicated=true", 9, 8);
    check_tree("ps-shard", "k=3,dedicated=true", 7, 4);
}

/* ---- roles, ranges, links ---- */

TEST(every_parameter_has_one_owner) {
    static const char *const texts[] = {"", "k=2", "k=3,align=layer", "k=2,dedicated=true", "dedicated=true"};
    static struct rt_span owned[RT_MAX_OWNED];
    for (const struct rt_exchange_strategy *const *strategy = rt_exchange_strategies(); *strategy; strategy++)
        for (size_t t = 0; t < sizeof texts / sizeof *texts; t++) {
            struct setting setting;
            if ((strstr(texts[t], "k=") && !has_option(*strategy, "k")) ||
                (strstr(texts[t], "align") && !has_option(*strategy, "align")) ||
                (strstr(texts[t], "dedicated") && !has_option(*strategy, "dedicated")) ||
                !set_up(&setting, *strategy, texts[t], 5))
                continue;
            unsigned owners[PARAMS] = {0};
            for (uint16_t rank = 0; rank < 5; rank++) {
                const size_t ranges = rt_exchange_owned(*strategy, &setting.options, &setting.roles, rank,
                                                        spans, SPANS, PARAMS, owned);
                CHECK_MSG(ranges <= 1 || (*strategy)->servers == RT_SERVERS_EVERY, "%s: %zu ranges",
                          (*strategy)->name, ranges);
                for (size_t r = 0; r < ranges; r++)
                    for (size_t i = 0; i < owned[r].count; i++)
                        owners[owned[r].first + i]++;
            }
            const unsigned expected = rt_exchange_is_replicated(*strategy) ? 5 : 1;
            for (size_t i = 0; i < PARAMS; i++)
                CHECK_MSG(owners[i] == expected, "%s,%s: parameter %zu has %u owners", (*strategy)->name,
                          texts[t], i, owners[i]);
        }
}

TEST(ranges_that_touch_are_joined_and_more_than_fit_are_counted) {
    static struct rt_span many[RT_MAX_OWNED + 2], owned[RT_MAX_OWNED + 1];
    struct setting setting;
    REQUIRE(set_up(&setting, rt_exchange_strategy_find("ps-peer"), "", 2));
    for (size_t i = 0; i < RT_MAX_OWNED + 2; i++)
        many[i] = (struct rt_span){2 * i, 2};
    owned[RT_MAX_OWNED] = (struct rt_span){77, 77};
    CHECK(rt_exchange_owned(setting.strategy, &setting.options, &setting.roles, 1, many, RT_MAX_OWNED + 2,
                            2 * (RT_MAX_OWNED + 2), owned) == RT_MAX_OWNED + 2);
    CHECK(owned[3].first == 7 && owned[3].count == 1 && owned[RT_MAX_OWNED].first == 77);
    REQUIRE(set_up(&setting, rt_exchange_strategy_find("ps-sync"), "", 2));
    CHECK(rt_exchange_owned(setting.strategy, &setting.options, &setting.roles, 0, many, 10, 20, owned) == 1);
    CHECK(owned[0].first == 0 && owned[0].count == 20);
    CHECK(rt_exchange_owned(setting.strategy, &setting.options, &setting.roles, 1, many, 10, 20, owned) == 0);
}

TEST(layers_are_not_cut_where_they_are_aligned) {
    struct setting setting;
    REQUIRE(set_up(&setting, rt_exchange_strategy_find("ps-shard"), "k=3,align=layer", 4));
    for (size_t s = 0; s < SPANS; s++) {
        size_t owners = 0;
        for (uint16_t rank = 0; rank < 4; rank++) {
            const struct rt_span part = rt_exchange_owned_part(setting.strategy, &setting.options,
                                                               &setting.roles, rank, &spans[s], PARAMS);
            owners += part.count > 0;
            CHECK(part.count == 0 || part.count == spans[s].count);
        }
        CHECK(owners == 1);
    }
}

TEST(roles_follow_from_nodes_and_options) {
    struct setting setting;
    REQUIRE(set_up(&setting, rt_exchange_strategy_find("ps-sync"), "", 4));
    CHECK(setting.roles.servers == 1 && setting.roles.workers == 4 && setting.worker[0] == 0);
    REQUIRE(set_up(&setting, rt_exchange_strategy_find("ps-async"), "dedicated=true", 4));
    CHECK(setting.roles.servers == 1 && setting.roles.workers == 3 && setting.worker[0] == 1);
    REQUIRE(set_up(&setting, rt_exchange_strategy_find("ps-shard"), "k=2,dedicated=true", 5));
    CHECK(setting.roles.servers == 2 && setting.roles.workers == 3 && setting.worker[2] == 4);
    CHECK(rt_roles_place(&setting.roles, 2) == 0 && rt_roles_place(&setting.roles, 1) == 3);
    REQUIRE(set_up(&setting, rt_exchange_strategy_find("ps-shard"), "", 9));
    CHECK(setting.roles.servers == 4 && setting.roles.workers == 9);
    REQUIRE(set_up(&setting, rt_exchange_strategy_find("ps-shard"), "", 2));
    CHECK(setting.roles.servers == 2);
    REQUIRE(set_up(&setting, rt_exchange_strategy_find("ps-shard"), "dedicated=true", 3));
    CHECK(setting.roles.servers == 2 && setting.roles.workers == 1);
    REQUIRE(set_up(&setting, rt_exchange_strategy_find("ps-peer"), "", 3));
    CHECK(setting.roles.servers == 3 && setting.roles.workers == 3);
    REQUIRE(set_up(&setting, rt_exchange_strategy_find("allreduce-ring"), "", 3));
    CHECK(setting.roles.servers == 0 && setting.roles.workers == 3);
}

TEST(links_are_those_that_are_used) {
    struct setting setting;
    REQUIRE(set_up(&setting, rt_exchange_strategy_find("allreduce-ring"), "", 6));
    for (uint16_t a = 1; a < 6; a++)
        for (uint16_t b = 1; b < 6; b++)
            CHECK(rt_exchange_links(setting.strategy, &setting.options, &setting.roles, a, b) ==
                  (a + 1 == b || b + 1 == a));
    for (uint16_t b = 0; b < 6; b++)
        CHECK(rt_exchange_links(setting.strategy, &setting.options, &setting.roles, 0, b) == (b > 0));
    REQUIRE(set_up(&setting, rt_exchange_strategy_find("ps-async"), "", 6));
    CHECK(!rt_exchange_links(setting.strategy, &setting.options, &setting.roles, 2, 3));
    REQUIRE(set_up(&setting, rt_exchange_strategy_find("ps-shard"), "k=2,base=async,dedicated=true", 6));
    CHECK(rt_exchange_links(setting.strategy, &setting.options, &setting.roles, 1, 3));
    CHECK(rt_exchange_links(setting.strategy, &setting.options, &setting.roles, 3, 1));
    CHECK(!rt_exchange_links(setting.strategy, &setting.options, &setting.roles, 3, 4));
    REQUIRE(set_up(&setting, rt_exchange_strategy_find("ps-shard"), "k=2,base=async", 6));
    CHECK(rt_exchange_links(setting.strategy, &setting.options, &setting.roles, 1, 5));
    REQUIRE(set_up(&setting, rt_exchange_strategy_find("allreduce-auto"), "", 6));
    CHECK(rt_exchange_links(setting.strategy, &setting.options, &setting.roles, 2, 5));
}

TEST(collectives_or_servers) {
    static const struct {
        const char *name, *text;
        bool servers, asynchronous;
    } cases[] = {
        {"allreduce-ring", "", false, false},
        {"ps-sync", "", false, false},
        {"ps-async", "", true, true},
        {"ps-ssp", "", true, true},
        {"ps-vap", "", true, true},
        {"ps-backup", "", true, false},
        {"ps-hier", "", false, false},
        {"ps-hier", "base=async", true, true},
        {"ps-cut", "", false, false},
        {"ps-cut", "base=async", true, true},
        {"ps-cut", "base=ssp", true, true},
        {"ps-shard", "", false, false},
        {"ps-shard", "base=async", true, true},
        {"ps-shard", "base=ssp", true, true},
        {"downpour", "", true, true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct setting setting;
        REQUIRE(set_up(&setting, rt_exchange_strategy_find(cases[i].name), cases[i].text, 4));
        CHECK_MSG((rt_exchange_rules(setting.strategy, &setting.options) != NULL) == cases[i].servers &&
                      rt_exchange_is_asynchronous(setting.strategy, &setting.options) ==
                          cases[i].asynchronous,
                  "%s,%s", cases[i].name, cases[i].text);
    }
}

/* ---- options ---- */

TEST(the_registry_is_in_order) {
#define NAME(symbol, name) name,
    static const char *const names[] = {RT_STRATEGY_LIST(NAME) NULL};
#undef NAME
    for (size_t i = 0; names[i]; i++) {
        const struct rt_exchange_strategy *strategy = rt_exchange_strategies()[i];
        CHECK_MSG(strcmp(strategy->name, names[i]) == 0, "%s is called %s", names[i], strategy->name);
        CHECK(rt_exchange_strategy_find(strategy->name) == strategy);
        CHECK_MSG(strategy->collective || strategy->rules, "%s can do nothing", strategy->name);
        CHECK_MSG(strlen(strategy->name) + 2 + strlen(strategy->help) <= 100, "%s: a long line",
                  strategy->name);
        CHECK(strategy->place.parallelism && strategy->place.optimization && strategy->place.scheduling &&
              strategy->place.exchange && strategy->place.topology);
        CHECK((strategy->servers == RT_SERVERS_SOME) == has_option(strategy, "k"));
    }
    CHECK(!rt_exchange_strategy_find("ps") && !rt_exchange_strategy_find(""));
}

TEST(options_are_what_was_typed) {
    struct rt_exchange_options options;
    struct rt_error err;
    CHECK_OK(read_options(rt_exchange_strategy_find("ps-ssp"),
                          "s=5,prio=stale,damp=2,dc=0.04,wfbp=off,step=clock", &options, &err));
    CHECK(options.bound == 5 && options.prio == RT_PRIO_STALE && options.damp == 2 && !options.wfbp);
    CHECK(options.compensate == 0.04 && options.whole_clock && options.bucket == -1);
    CHECK_OK(read_options(rt_exchange_strategy_find("ps-ssp"), "s=inf", &options, &err));
    CHECK(options.bound == -1 && options.wfbp && options.prio == RT_PRIO_ARRIVAL);
    CHECK_OK(read_options(rt_exchange_strategy_find("ps-ssp"), "", &options, &err));
    CHECK(options.bound == 3);
    CHECK_OK(read_options(rt_exchange_strategy_find("ps-vap"), "delta=inf", &options, &err));
    CHECK(isinf(options.delta) && options.delta > 0 && options.factor == 10);
    CHECK_OK(read_options(rt_exchange_strategy_find("ps-vap"), "delta=0.5,norm=two", &options, &err));
    CHECK(options.delta == 0.5 && options.norm == RT_NORM_TWO);
    CHECK_OK(read_options(rt_exchange_strategy_find("ps-backup"), "backup=2,reduce=sum", &options, &err));
    CHECK(options.backups == 2 && options.quorum == 1 && options.reduce == RT_SUM);
    CHECK_OK(read_options(rt_exchange_strategy_find("downpour"), "n_push=4,n_fetch=2,warm_start=0", &options,
                          &err));
    CHECK(options.push_every == 4 && options.fetch_every == 2 && options.warm_start == 0);
    CHECK(options.servers == 1 && strstr(rt_exchange_strategy_find("downpour")->optimizer, "adagrad"));
    CHECK_OK(read_options(rt_exchange_strategy_find("ps-sync"), "order=down", &options, &err));
    CHECK(options.order == RT_ORDER_DOWN &&
          !rt_exchange_is_rising(rt_exchange_strategy_find("ps-sync"), &options));
    CHECK_OK(read_options(rt_exchange_strategy_find("ps-sync"), "", &options, &err));
    CHECK(rt_exchange_is_rising(rt_exchange_strategy_find("ps-sync"), &options));
    CHECK_OK(read_options(rt_exchange_strategy_find("ps-sync"), "wfbp=off", &options, &err));
    CHECK(!rt_exchange_is_rising(rt_exchange_strategy_find("ps-sync"), &options));
    CHECK_OK(read_options(rt_exchange_strategy_find("ps-shard"), "base=async", &options, &err));
    CHECK(!rt_exchange_is_rising(rt_exchange_strategy_find("ps-shard"), &options));
    CHECK_OK(read_options(rt_exchange_strategy_find("ps-cut"), "base=ssp,s=0", &options, &err));
    CHECK(options.cut == 0.75 && options.base == RT_BASE_SSP && options.bound == 0);
    CHECK_OK(read_options(rt_exchange_strategy_find("ps-shard"), "k=4,align=layer,dedicated=true", &options,
                          &err));
    CHECK(options.servers == 4 && options.align == RT_ALIGN_LAYER && options.dedicated);
    CHECK_OK(read_options(&rt_strategy_hybrid, "rings=3,exchange=ps-peer", &options, &err));
    CHECK(options.rings == 3 &&
          rt_exchange_strategies()[options.inter_ring] == rt_exchange_strategy_find("ps-peer"));
}

/* What is sent to a node is read there as it was here. */
TEST(options_survive_being_written) {
    static const char *const texts[] = {"",
                                        "s=inf,damp=3,dc=0.0123456789",
                                        "delta=inf",
                                        "delta=0.1,norm=two",
                                        "k=3,align=layer,base=ssp",
                                        "quorum=0.3,reduce=sum",
                                        "bucket=7,order=down",
                                        "dedicated=true,wfbp=off"};
    size_t written = 0;
    for (const struct rt_exchange_strategy *const *strategy = rt_exchange_strategies(); *strategy; strategy++)
        for (size_t t = 0; t < sizeof texts / sizeof *texts; t++) {
            struct rt_exchange_options options, again;
            struct rt_tree *tree;
            struct rt_error err;
            if (read_options(*strategy, texts[t], &options, &err) != RT_OK)
                continue;
            CHECK_OK(rt_exchange_options_write(*strategy, &options, &tree, &err));
            CHECK(tree->count == (*strategy)->option_count);
            CHECK_OK(rt_exchange_options_read(*strategy, tree, &again, &err));
            CHECK_MSG(options.bound == again.bound && options.delta == again.delta &&
                          options.servers == again.servers && options.quorum == again.quorum &&
                          options.dedicated == again.dedicated && options.wfbp == again.wfbp &&
                          options.bucket == again.bucket && options.order == again.order &&
                          options.base == again.base && options.reduce == again.reduce &&
                          options.compensate == again.compensate && options.damp == again.damp &&
                          options.norm == again.norm && options.cut == again.cut &&
                          options.backups == again.backups,
                      "%s,%s", (*strategy)->name, texts[t]);
            rt_tree_destroy(tree);
            written++;
        }
    CHECK(written > 30);
}

TEST(what_cannot_be_is_refused) {
    static const struct {
        const char *name, *text;
        size_t nodes, params;
        const char *reason;
    } cases[] = {
        {"ps-shard", "k=5", 4, 0, "k: 5 servers cannot be on 4 nodes"},
        {"ps-shard", "k=4", 4, 3, "k: 4 servers cannot share 3 parameters"},
        {"ps-shard", "k=4,dedicated=true", 4, 0, "dedicated: 4 servers"},
        {"ps-sync", "dedicated=true", 1, 0,
         "dedicated: 1 server without a worker of its own and at least 1 worker are 2 nodes, but there is 1"},
        {"ps-shard", "k=2,dedicated=true", 2, 0, "2 servers without a worker of their own"},
        {"ps-ssp", "s=-1", 4, 0, "s must be at least 0 or 'inf', not '-1'"},
        {"ps-ssp", "s=inf,stale=1", 4, 0, "unknown key 'stale'"},
        {"ps-ssp", "prio=stael", 4, 0, "one of arrival, stale"},
        {"ps-ssp", "dampp=1", 4, 0, "did you mean 'damp'?"},
        {"ps-ssp", "damp=0.5", 4, 0, "damp: the power must be a whole number"},
        {"ps-ssp", "dc=-1", 4, 0, "dc must be"},
        {"ps-backup", "quorum=1.5", 4, 0, "quorum must be between 0 and 1"},
        {"ps-backup", "quorum=0", 4, 0, "quorum: must be above 0 and at most 1, not 0"},
        {"ps-backup", "quorum=0.5,backup=1", 4, 0, "backup: give backup or quorum, not both"},
        {"ps-backup", "backup=4", 4, 0, "backup: 4 of 4 workers cannot be spare"},
        {"ps-backup", "backup=3,dedicated=true", 4, 0, "backup: 3 of 3 workers cannot be spare"},
        {"ps-cut", "cut=0", 4, 0, "cut: must be above 0"},
        {"ps-cut", "cut=1.01", 4, 0, "cut must be between 0 and 1"},
        {"ps-vap", "factor=0", 4, 0, "factor: must be above 0"},
        {"ps-vap", "delta=-3", 4, 0, "delta must be"},
        {"ps-hier", "group=0", 4, 0, "group must be"},
        {"ps-hier", "base=ssp,depth=1", 4, 0, "depth: with base=ssp there are the proxies and the server"},
        {"ps-hier", "dc=1", 4, 0, "dc: is for base=async or base=ssp and does nothing with base=sync"},
        {"ps-hier", "base=async,s=1", 4, 0, "s: is for base=ssp and does nothing with base=async"},
        {"allreduce-tree", "degree=0", 4, 0, "degree must be"},
        {"downpour", "n_push=0", 4, 0, "n_push must be"},
        {"downpour", "warm_start=2", 4, 0, "warm_start must be"},
        {"ps-sync", "wfbp=maybe", 4, 0, "one of off, on"},
        {"ps-sync", "reduce=max", 4, 0, "one of mean, sum"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct rt_exchange_strategy *strategy = rt_exchange_strategy_find(cases[i].name);
        struct rt_exchange_options options;
        struct rt_error err = {0};
        rt_status status = read_options(strategy, cases[i].text, &options, &err);
        if (status == RT_OK)
            status = rt_exchange_check(strategy, &options, cases[i].nodes, cases[i].params, &err);
        CHECK_MSG(status != RT_OK && strstr(err.text, cases[i].reason), "%s,%s: '%s' and not '%s'",
                  cases[i].name, cases[i].text, err.text, cases[i].reason);
    }
    struct rt_exchange_options options;
    struct rt_error err = {0};
    CHECK_OK(read_options(&rt_strategy_hybrid, "rings=2", &options, &err));
    CHECK_OK(rt_exchange_check(&rt_strategy_hybrid, &options, 6, 0, &err));
    CHECK(rt_exchange_check(&rt_strategy_hybrid, &options, 5, 0, &err) != RT_OK);
    CHECK(strstr(err.text, "rings: 5 nodes cannot be 2 rings of equal length"));
    CHECK(rt_exchange_check(rt_exchange_strategy_find("ps-sync"), &options, 0, 0, &err) != RT_OK);
    CHECK(rt_exchange_check(rt_exchange_strategy_find("ps-sync"), &options, 70000, 0, &err) != RT_OK);
}

/* As many servers as there are parameters for, unless somebody asks for more. */
TEST(auto_servers_share_few_parameters) {
    static const struct {
        const char *name, *text;
        size_t nodes, params, servers;
    } cases[] = {
        {"ps-shard", "", 6, 1000, 4},    {"ps-shard", "", 3, 1000, 3},
        {"ps-shard", "", 6, 2, 2},       {"ps-shard", "", 3, 1, 1},
        {"ps-shard", "", 6, 0, 4},       {"ps-shard", "dedicated=true", 4, 2, 2},
        {"ps-shard", "k=3", 6, 1000, 3}, {"ps-sync", "", 4, 1, 1},
        {"allreduce-rd", "", 4, 1, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct rt_exchange_strategy *strategy = rt_exchange_strategy_find(cases[i].name);
        struct rt_exchange_options options;
        struct rt_error err = {0};
        CHECK_OK(read_options(strategy, cases[i].text, &options, &err));
        rt_exchange_fit(strategy, &options, cases[i].nodes, cases[i].params);
        CHECK_MSG(rt_exchange_servers(strategy, &options, cases[i].nodes) == cases[i].servers,
                  "%s,%s: %zu servers", cases[i].name, cases[i].text,
                  rt_exchange_servers(strategy, &options, cases[i].nodes));
        CHECK_OK(rt_exchange_check(strategy, &options, cases[i].nodes, cases[i].params, &err));
    }
}

/* One node is a cluster too. */
TEST(every_strategy_works_on_one_node) {
    for (const struct rt_exchange_strategy *const *strategy = rt_exchange_strategies(); *strategy;
         strategy++) {
        struct setting setting;
        if (!set_up(&setting, *strategy, "", 1))
            continue;
        CHECK(setting.roles.workers == 1 && setting.roles.servers <= 1);
    }
}

TEST_MAIN()
