/*
 * The communication delays of three networks on three kinds of links, for 1 to 32 workers, as the literature
 * plots them: every strategy's bound against a golden table, and the number of workers from which it exceeds
 * the time of the computing.
 *
 *     RT_DELAYS=1 build/tests/test_delay the_golden_table    prints what tools/plot_delays.py draws
 */
#include "exchange/strategies/strategies.h"
#include "support/test.h"

#include <math.h>
#include <stdlib.h>

enum { COLUMNS = 8, MOST_WORKERS = 1024 };

static const struct column {
    const struct rt_exchange_strategy *strategy;
    struct rt_exchange_options options;
    size_t servers;
} columns[COLUMNS] = {
    {.strategy = &rt_strategy_ps_sync, .servers = 1},
    {.strategy = &rt_strategy_ps_shard, .servers = 4},
    {.strategy = &rt_strategy_ps_tree, .servers = 1},
    {.strategy = &rt_strategy_ps_scatter, .servers = 1},
    {.strategy = &rt_strategy_ps_async, .servers = 1},
    {.strategy = &rt_strategy_ps_shard, .options = {.base = RT_BASE_ASYNC}, .servers = 4},
    {.strategy = &rt_strategy_allreduce_rd},
    {.strategy = &rt_strategy_allreduce_ring},
};

static const struct {
    const char *name;
    double mebibytes, compute; /* parameters; seconds of an update */
} models[] = {{"ResNet-110 / CIFAR-10", 6.7, 0.09},
              {"VGG-A / ImageNet", 491, 0.45},
              {"ResNet-152 / ImageNet", 223, 0.77}};
static const double links[] = {1.25e8, 1.25e9,
                               7e9}; /* bytes per second: 1 and 10 Gbit/s Ethernet, FDR InfiniBand */

static const struct {
    int model, link;
    size_t workers;
    double milliseconds[COLUMNS];
} golden[] = {
    {0, 0, 1, {115.68, 113.23, 115.68, 115.68, 115.68, 113.23, 3.27, 3.27}},
    {0, 0, 4, {454.86, 113.72, 341.80, 200.48, 228.09, 113.23, 116.99, 88.07}},
    {0, 0, 16, {1811.60, 452.90, 567.93, 221.67, 902.53, 225.63, 230.70, 109.27}},
    {0, 0, 32, {3620.59, 905.15, 680.99, 225.21, 1801.79, 450.45, 287.56, 112.80}},
    {0, 1, 1, {14.51, 12.06, 14.51, 14.51, 14.51, 12.06, 3.27, 3.27}},
    {0, 1, 4, {50.20, 12.55, 38.30, 23.43, 25.75, 12.06, 15.82, 12.19}},
    {0, 1, 16, {192.94, 48.23, 62.09, 25.66, 93.20, 23.30, 28.37, 14.42}},
    {0, 1, 32, {383.26, 95.81, 73.99, 26.04, 183.12, 45.78, 34.64, 14.79}},
    {0, 2, 1, {5.28, 2.83, 5.28, 5.28, 5.28, 2.83, 3.27, 3.27}},
    {0, 2, 4, {13.26, 3.32, 10.60, 7.27, 7.29, 2.83, 6.59, 5.27}},
    {0, 2, 16, {45.20, 11.30, 15.93, 7.77, 19.33, 4.83, 9.90, 5.77}},
    {0, 2, 32, {87.79, 21.95, 18.59, 7.86, 35.39, 8.85, 11.56, 5.85}},
    {1, 0, 1, {8477.36, 8297.55, 8477.36, 8477.36, 8477.36, 8297.55, 239.75, 239.75}},
    {1, 0, 4, {33334.05, 8333.51, 25048.48, 14691.53, 16714.97, 8297.55, 8573.26, 6453.92}},
    {1, 0, 16, {132760.79, 33190.20, 41619.61, 16245.07, 66140.65, 16535.16, 16906.77, 8007.46}},
    {1, 0, 32, {265329.79, 66332.45, 49905.17, 16504.00, 132041.55, 33010.39, 21073.52, 8266.38}},
    {1, 1, 1, {1063.51, 883.70, 1063.51, 1063.51, 1063.51, 883.70, 239.75, 239.75}},
    {1, 1, 4, {3678.64, 919.66, 2806.93, 1717.29, 1887.27, 883.70, 1159.41, 893.53}},
    {1, 1, 16, {14139.17, 3534.79, 4550.35, 1880.74, 6829.84, 1707.46, 2079.07, 1056.97}},
    {1, 1, 32, {28086.53, 7021.63, 5422.06, 1907.98, 13419.93, 3354.98, 2538.90, 1084.22}},
    {1, 2, 1, {386.85, 207.04, 386.85, 386.85, 386.85, 207.04, 239.75, 239.75}},
    {1, 2, 4, {971.99, 243.00, 776.95, 533.13, 533.95, 207.04, 482.74, 386.03}},
    {1, 2, 16, {3312.59, 828.15, 1167.04, 569.71, 1416.55, 354.14, 725.74, 422.60}},
    {1, 2, 32, {6433.38, 1608.34, 1362.09, 575.80, 2593.35, 648.34, 847.24, 428.70}},
    {2, 0, 1, {3850.21, 3768.54, 3850.21, 3850.21, 3850.21, 3768.54, 108.89, 108.89}},
    {2, 0, 4, {15139.50, 3784.87, 11376.40, 6672.53, 7591.53, 3768.54, 3893.76, 2931.21}},
    {2, 0, 16, {60296.65, 15074.16, 18902.59, 7378.11, 30039.44, 7509.86, 7678.63, 3636.79}},
    {2, 0, 32, {120506.20, 30126.55, 22665.69, 7495.71, 59969.99, 14992.50, 9571.07, 3754.39}},
    {2, 1, 1, {483.02, 401.35, 483.02, 483.02, 483.02, 401.35, 108.89, 108.89}},
    {2, 1, 4, {1670.75, 417.69, 1274.84, 779.95, 857.15, 401.35, 526.57, 405.82}},
    {2, 1, 16, {6421.66, 1605.41, 2066.66, 854.18, 3101.94, 775.49, 944.26, 480.05}},
    {2, 1, 32, {12756.21, 3189.05, 2462.56, 866.56, 6095.00, 1523.75, 1153.10, 492.42}},
    {2, 2, 1, {175.70, 94.03, 175.70, 175.70, 175.70, 94.03, 108.89, 108.89}},
    {2, 2, 4, {441.46, 110.36, 352.87, 242.14, 242.51, 94.03, 219.25, 175.33}},
    {2, 2, 16, {1504.50, 376.12, 530.04, 258.75, 643.36, 160.84, 329.61, 191.94}},
    {2, 2, 32, {2921.88, 730.47, 618.63, 261.51, 1177.84, 294.46, 384.80, 194.71}},
};

/* The smallest number of workers whose exchange takes longer than the computing; 0: none up to MOST_WORKERS.
 */
static const struct {
    int model, link;
    size_t workers[COLUMNS];
} crossings[] = {
    {0, 0, {1, 1, 1, 1, 1, 1, 3, 5}},       {0, 1, {8, 31, 128, 0, 16, 64, 0, 0}},
    {0, 2, {33, 135, 0, 0, 87, 356, 0, 0}}, {1, 0, {1, 1, 1, 1, 1, 1, 2, 2}},
    {1, 1, {1, 1, 1, 1, 1, 1, 2, 2}},       {1, 2, {2, 9, 2, 2, 3, 22, 3, 0}},
    {2, 0, {1, 1, 1, 1, 1, 1, 2, 2}},       {2, 1, {2, 8, 2, 4, 4, 16, 9, 0}},
    {2, 2, {8, 34, 128, 0, 20, 89, 0, 0}},
};

static double delay(const struct column *column, int model, int link, size_t workers) {
    const double bytes = models[model].mebibytes * 0x1p20;
    const struct rt_delay_terms terms = {.workers = workers,
                                         .servers = column->servers,
                                         .transfer = bytes / links[link],
                                         .adding = bytes / (10 * 0x1p30),
                                         .step = bytes / (2 * 0x1p30)};
    return column->strategy->delay(&column->options, &terms);
}

static void print_all(void) {
    for (int model = 0; model < 3; model++)
        for (int link = 0; link < 3; link++)
            for (size_t c = 0; c < COLUMNS; c++)
                for (size_t workers = 1; workers <= 32; workers++)
                    printf("delay,%s,%g,%s%s,%zu,%zu,%.6f,%g\n", models[model].name, links[link],
                           columns[c].strategy->name,
                           columns[c].options.base == RT_BASE_ASYNC ? " base=async" : "", columns[c].servers,
                           workers, 1e3 * delay(&columns[c], model, link, workers),
                           1e3 * models[model].compute);
}

TEST(the_golden_table) {
    if (getenv("RT_DELAYS"))
        print_all();
    for (size_t i = 0; i < sizeof golden / sizeof *golden; i++)
        for (size_t c = 0; c < COLUMNS; c++) {
            const double found = 1e3 * delay(&columns[c], golden[i].model, golden[i].link, golden[i].workers);
            CHECK_MSG(fabs(found - golden[i].milliseconds[c]) <= 0.01,
                      "%s, link %d, %zu workers, %s: %.3f ms, not %.2f", models[golden[i].model].name,
                      golden[i].link, golden[i].workers, columns[c].strategy->name, found,
                      golden[i].milliseconds[c]);
        }
}

static size_t crossing(const struct column *column, int model, int link) {
    for (size_t workers = 1; workers <= MOST_WORKERS; workers++)
        if (delay(column, model, link, workers) > models[model].compute)
            return workers;
    return 0;
}

TEST(where_the_exchange_takes_longer_than_the_computing) {
    for (size_t i = 0; i < sizeof crossings / sizeof *crossings; i++)
        for (size_t c = 0; c < COLUMNS; c++) {
            const size_t found = crossing(&columns[c], crossings[i].model, crossings[i].link);
            CHECK_MSG(found == crossings[i].workers[c], "%s, link %d, %s: from %zu workers on, not %zu",
                      models[crossings[i].model].name, crossings[i].link, columns[c].strategy->name, found,
                      crossings[i].workers[c]);
        }
}

/* Every strategy has one; none is shorter with a slower link, nor with latency. */
TEST(every_strategy_has_a_bound) {
    for (const struct rt_exchange_strategy *const *each = rt_exchange_strategies(); *each; each++) {
        struct rt_exchange_options options;
        struct rt_error err;
        CHECK_OK(rt_exchange_options_read(*each, NULL, &options, &err));
        const size_t workers = 8, servers = rt_exchange_servers(*each, &options, workers);
        struct rt_delay_terms terms = {
            .workers = workers, .servers = servers ? servers : 1, .transfer = 1, .adding = 0.1, .step = 0.2};
        REQUIRE((*each)->delay);
        const double seconds = (*each)->delay(&options, &terms);
        CHECK_MSG(isfinite(seconds) && seconds > 0, "%s: %g s", (*each)->name, seconds);
        terms.latency = 0.01;
        CHECK_MSG((*each)->delay(&options, &terms) > seconds, "%s: latency costs nothing", (*each)->name);
        terms.latency = 0;
        terms.transfer = 2;
        CHECK_MSG((*each)->delay(&options, &terms) > seconds, "%s: a slower link costs nothing",
                  (*each)->name);
    }
}

TEST_MAIN()
