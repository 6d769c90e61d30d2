/* Sizes in bytes, rates and times from text; test_option.c has the numbers themselves. */
#include "base/option.h"
#include "support/test.h"
#include <math.h>

TEST(sizes) {
    static const struct {
        const char *text;
        uint64_t alone, bytes;
    } right[] = {
        {"0", 1, 0},
        {"0", 1 << 20, 0},
        {"17", 1, 17},
        {"17", 1 << 20, 17 << 20},
        {"1K", 1, 1024},
        {"512M", 1, 512 << 20},
        {"512M", 1 << 20, 512 << 20},
        {"2G", 1 << 20, UINT64_C(2) << 30},
        {"3T", 1, UINT64_C(3) << 40},
        {"0G", 1, 0},
        {"8388607T", 1, UINT64_C(8388607) << 40},
        {"9223372036854775807", 1, INT64_MAX},
    };
    for (size_t i = 0; i < sizeof right / sizeof *right; i++) {
        uint64_t bytes = 5;
        CHECK_MSG(rt_parse_size(right[i].text, right[i].alone, &bytes) && bytes == right[i].bytes,
                  "'%s': %llu", right[i].text, (unsigned long long)bytes);
    }
}

TEST(what_is_no_size) {
    static const char *const wrong[] = {"",
                                        "M",
                                        "-1",
                                        "-1M",
                                        "-0",
                                        "1.5G",
                                        "512m",
                                        "512MB",
                                        "12X",
                                        "1 M",
                                        " 1M",
                                        "1M ",
                                        "1MM",
                                        "0x1M",
                                        "+1M",
                                        "8388608T",
                                        "1e3M",
                                        "M1",
                                        "9223372036854775808",
                                        "99999999999999999999999999999999M"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        uint64_t bytes = 5;
        CHECK_MSG(!rt_parse_size(wrong[i], 1, &bytes) && bytes == 5, "'%s'", wrong[i]);
    }
    uint64_t bytes = 5;
    CHECK(!rt_parse_size("9223372036854775807", 1 << 20, &bytes) && bytes == 5);
}

TEST(rates_and_times) {
    double value = 5;
    CHECK(rt_parse_rate("100M", &value) && value == 12.5e6);
    CHECK(rt_parse_rate("1.5G", &value) && value == 1.5e9 / 8);
    CHECK(rt_parse_rate("8k", &value) && value == 1000 && rt_parse_rate("8K", &value) && value == 1000);
    CHECK(rt_parse_rate("800", &value) && value == 100 && rt_parse_rate("0", &value) && value == 0);
    CHECK(rt_parse_duration("1ms", &value) && value == 1e-3);
    CHECK(rt_parse_duration("200us", &value) && fabs(value - 2e-4) < 1e-18);
    CHECK(rt_parse_duration("0.5s", &value) && value == 0.5 && rt_parse_duration("2", &value) && value == 2);
    static const char *const wrong[] = {"",     "M",      "ms", "s",   "-1", "-1M",
                                        "-1ms", "1e308G", "x",  "1 M", "1Q", "nan"};
    value = 5;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        CHECK_MSG(!rt_parse_rate(wrong[i], &value) && !rt_parse_duration(wrong[i], &value) && value == 5,
                  "'%s'", wrong[i]);
}

TEST_MAIN()
