/* How slow an emulated device is: factors, their changes, and how they are written. */
#include "formats/runfile.h"
#include "metrics/pace.h"
#include "run/emulate.h"
#include "support/test.h"
#include <string.h>

TEST(a_pace_changes_at_its_updates) {
    struct rt_error err;
    struct rt_pace pace = {.first = 2};
    CHECK(rt_pace_is_emulated(&pace) && !rt_pace_is_emulated(NULL));
    CHECK(!rt_pace_is_emulated(&(struct rt_pace){0}) && !rt_pace_is_emulated(&(struct rt_pace){.first = 1}));
    CHECK(rt_pace_factor(&(struct rt_pace){0}, 7) == 1 && rt_pace_factor(NULL, 7) == 1);
    CHECK_OK(rt_pace_add(&pace, 500, 4, &err));
    CHECK_OK(rt_pace_add(&pace, 100, 3, &err));
    CHECK(rt_pace_factor(&pace, 1) == 2 && rt_pace_factor(&pace, 99) == 2);
    CHECK(rt_pace_factor(&pace, 100) == 3 && rt_pace_factor(&pace, 499) == 3);
    CHECK(rt_pace_factor(&pace, 500) == 4 && rt_pace_factor(&pace, UINT64_MAX) == 4);
    CHECK(rt_pace_add(&pace, 100, 5, &err) == RT_BAD_INPUT && strstr(err.text, "twice from update 100"));
    for (uint64_t i = pace.count; i < RT_PACE_CHANGES; i++)
        CHECK_OK(rt_pace_add(&pace, 1000 + i, 1e6, &err));
    CHECK(rt_pace_add(&pace, 5000, 5, &err) == RT_BAD_INPUT && strstr(err.text, "16 times at most"));
    char text[RT_PACE_TEXT];
    struct rt_pace again;
    rt_pace_print(&pace, text);
    CHECK_OK(rt_pace_parse(text, &again, &err));
    CHECK(memcmp(&again, &pace, sizeof pace) == 0);
}

TEST(what_is_no_pace_is_refused) {
    static const char *const bad[] = {"",    "0",     "0.5",    "nan",    "2e6",   "1,",     "1,5", "1,5:",
                                      "1,:", "1,0:2", "1,-3:2", "1,5:.5", "1;5:2", "1,5:2,", "5:2", "x"};
    struct rt_pace pace;
    struct rt_error err;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CHECK_MSG(rt_pace_parse(bad[i], &pace, &err) == RT_BAD_INPUT &&
                      strstr(err.text, "must be a number from 1 to 1000000"),
                  "'%s'", bad[i]);
    CHECK(rt_pace_parse("1,5:2,5:3", &pace, &err) == RT_BAD_INPUT);
    CHECK_OK(rt_pace_parse("1.5,5:2", &pace, &err));
    CHECK(pace.first == 1.5 && pace.count == 1 && pace.change[0].from == 5 && pace.change[0].factor == 2);
}

enum { NODES = 3 };

static rt_status read_paces(const char *slowdown, struct rt_pace paces[NODES], struct rt_error *err) {
    char setting[400];
    snprintf(setting, sizeof setting, "cluster.slowdown=%s", slowdown);
    const char *const settings[] = {"cluster.nodes=3", setting};
    struct rt_spec *spec;
    rt_status status = rt_spec_parse("name: x\n", 8, "run.yaml", settings, 2, &spec, err);
    if (status != RT_OK)
        return status;
    status = rt_emulate_paces(spec, paces, err);
    rt_spec_destroy(spec);
    return status;
}

TEST(a_run_file_gives_paces) {
    struct rt_pace paces[NODES];
    struct rt_error err;
    CHECK_OK(read_paces("4", paces, &err));
    CHECK(paces[0].first == 4 && paces[2].first == 4);
    CHECK_OK(read_paces("[1, 2.5, 10]", paces, &err));
    CHECK(paces[0].first == 1 && paces[1].first == 2.5 && paces[2].first == 10 && paces[2].count == 0);
    CHECK_OK(read_paces("[{node: 2, from_update: 500, factor: 4}]", paces, &err));
    CHECK(paces[2].first == 1 && rt_pace_factor(&paces[2], 500) == 4 && !rt_pace_is_emulated(&paces[1]));
    CHECK_OK(
        read_paces("[2, 2, 2, {node: 0, from_update: 9, factor: 1}, {node: 0, from_update: 5, factor: 3}]",
                   paces, &err));
    CHECK(rt_pace_factor(&paces[0], 4) == 2 && rt_pace_factor(&paces[0], 5) == 3 &&
          rt_pace_factor(&paces[0], 9) == 1);
}

TEST(what_is_wrong_with_a_slowdown_is_said) {
    static const struct {
        const char *slowdown, *said;
    } bad[] = {
        {"[1, 2]", "a list of 3 factors, one for each local process"},
        {"[1, 2, 3, 4]", "a list of 3 factors"},
        {"[]", "a list of 3 factors"},
        {"{node: 1, from_update: 5, factor: 2}", "a list of 3 factors"},
        {"[1, 0.5, 1]", "a factor is a number from 1 to 1000000"},
        {"fast", "a factor is a number from 1 to 1000000"},
        {"[{node: 3, from_update: 5, factor: 2}]", "there is no local process 3: they are 0 to 2"},
        {"[{node: 1, from_update: 0, factor: 2}]", "from_update"},
        {"[{node: 1, from_update: 5, factor: 0.5}]", "factor"},
        {"[{node: 1, from_update: 5}]", "factor"},
        {"[{node: 1, from_update: 5, factor: 2, speed: 3}]", "unknown key 'speed'"},
        {"[{node: 1, from_update: 5, factor: 2}, 3]", "cluster.slowdown"},
        {"[{node: 1, from_update: 5, factor: 2}, {node: 1, from_update: 5, factor: 3}]",
         "cluster.slowdown of process 1 is given twice from update 5 on"},
    };
    struct rt_pace paces[NODES];
    struct rt_error err;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CHECK_MSG(read_paces(bad[i].slowdown, paces, &err) == RT_BAD_INPUT && strstr(err.text, bad[i].said),
                  "%s: %s", bad[i].slowdown, err.text);
}

TEST_MAIN()
