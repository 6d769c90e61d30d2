/* Random numbers: the published vectors of Philox, and permutations that are ones. */
#include "base/rng.h"
#include "support/test.h"

TEST(philox_known_answers) {
    /* Random123's known answers for philox4x32-10: counter and key all zeros */
    uint32_t out[4];
    rt_rng_block(0, (enum rt_purpose)0, 0, 0, 0, out);
    CHECK(out[0] == 0x6627e8d5 && out[1] == 0xe169c58d && out[2] == 0xbc57ac4c && out[3] == 0x9b00dbd8);
}

TEST(every_input_matters) {
    uint32_t base[4], other[4];
    rt_rng_block(1, RT_PURPOSE_INIT, 2, 3, 4, base);
    rt_rng_block(2, RT_PURPOSE_INIT, 2, 3, 4, other);
    CHECK(memcmp(base, other, sizeof base) != 0);
    rt_rng_block(1, RT_PURPOSE_DROPOUT, 2, 3, 4, other);
    CHECK(memcmp(base, other, sizeof base) != 0);
    rt_rng_block(1, RT_PURPOSE_INIT, 5, 3, 4, other);
    CHECK(memcmp(base, other, sizeof base) != 0);
    rt_rng_block(1, RT_PURPOSE_INIT, 2, 3 | (uint64_t)1 << 40, 4, other);
    CHECK(memcmp(base, other, sizeof base) != 0);
    rt_rng_block(1, RT_PURPOSE_INIT, 2, 3, 5, other);
    CHECK(memcmp(base, other, sizeof base) != 0);
}

TEST(unit_floats_stay_below_one) {
    CHECK(rt_rng_unit(0) == 0.0f);
    CHECK(rt_rng_unit(UINT32_MAX) < 1.0f);
}

TEST(shuffles_are_permutations) {
    enum { N = 1000 };
    static uint32_t order[N], again[N], next[N];
    static int seen[N];
    rt_rng_shuffle(7, RT_PURPOSE_SHUFFLE, 0, N, order);
    rt_rng_shuffle(7, RT_PURPOSE_SHUFFLE, 0, N, again);
    rt_rng_shuffle(7, RT_PURPOSE_SHUFFLE, 1, N, next);
    CHECK(memcmp(order, again, sizeof order) == 0);
    CHECK(memcmp(order, next, sizeof order) != 0);
    for (int i = 0; i < N; i++) {
        REQUIRE(order[i] < N);
        seen[order[i]]++;
    }
    for (int i = 0; i < N; i++)
        CHECK(seen[i] == 1);
}

TEST(every_place_is_equally_likely) {
    /* Each of 5 elements lands on each of 5 places 1/5 of the time: 4,000 +- 5 standard deviations of 20,000.
     */
    int count[5][5] = {{0}};
    for (uint32_t round = 0; round < 20000; round++) {
        uint32_t order[5];
        rt_rng_shuffle(3, RT_PURPOSE_SHUFFLE, round, 5, order);
        for (int i = 0; i < 5; i++)
            count[i][order[i]]++;
    }
    for (int i = 0; i < 5; i++)
        for (int j = 0; j < 5; j++)
            CHECK_MSG(abs(count[i][j] - 4000) < 283, "place %d, element %d: %d times", i, j, count[i][j]);
}

TEST_MAIN()
