/* Moments that recur: the next one, against a count from one to the next; and at the far end of the numbers.
 */
#include "base/periods.h"
#include "support/test.h"

TEST(the_next_is_a_multiple_of_one_of_them) {
    static const struct rt_periods some[] = {{{7, 10}}, {{10, 7}}, {{0, 6}}, {{1, 0}}, {{0, 0}}};
    for (size_t i = 0; i < sizeof some / sizeof *some; i++)
        for (uint64_t from = 1; from < 100; from++) {
            const uint64_t *every = some[i].every;
            uint64_t at = from;
            while (at < 90 && !(every[0] && at % every[0] == 0) && !(every[1] && at % every[1] == 0))
                at++;
            const uint64_t next = rt_periods_next(&some[i], from, 90);
            CHECK_MSG(from > 90 ? next == 90 : next == at, "%d from %d", (int)next, (int)from);
            CHECK(rt_periods_hit(&some[i], from) ==
                  ((every[0] && from % every[0] == 0) || (every[1] && from % every[1] == 0)));
        }
    CHECK(!rt_periods_hit(&some[0], 0));
}

TEST(a_period_may_be_longer_than_any_run) {
    const struct rt_periods longest = {{UINT64_MAX, UINT64_MAX - 1}};
    CHECK(rt_periods_next(&longest, 5, 1000) == 1000 && !rt_periods_hit(&longest, 1000));
    CHECK(rt_periods_next(&longest, UINT64_MAX - 3, UINT64_MAX) == UINT64_MAX - 1);
}

TEST_MAIN()
