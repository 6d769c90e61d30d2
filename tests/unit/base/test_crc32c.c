/* CRC-32C: known answers, pieces, and the instruction against the table. */
#include "base/crc32c.h"
#include "support/test.h"

/* From RFC 3720, appendix B.4. */
TEST(known_answers) {
    uint8_t data[32] = {0};
    CHECK(rt_crc32c(0, "123456789", 9) == 0xe3069283);
    CHECK(rt_crc32c(0, data, 32) == 0x8a9136aa);
    memset(data, 0xff, 32);
    CHECK(rt_crc32c(0, data, 32) == 0x62a8ab43);
    for (int i = 0; i < 32; i++)
        data[i] = (uint8_t)i;
    CHECK(rt_crc32c(0, data, 32) == 0x46dd794e);
    CHECK(rt_crc32c_table(0, data, 32) == 0x46dd794e);
    CHECK(rt_crc32c_table(0, "123456789", 9) == 0xe3069283);
    CHECK(rt_crc32c(0, "", 0) == 0 && rt_crc32c_table(0, "", 0) == 0);
}

TEST(any_length_place_and_cut_gives_the_same) {
    uint8_t data[200];
    uint32_t word = 1;
    for (size_t i = 0; i < sizeof data; i++) {
        word = word * 1664525u + 1013904223u;
        data[i] = (uint8_t)(word >> 24);
    }
    for (size_t from = 0; from < 9; from++)
        for (size_t bytes = 0; from + bytes <= 100; bytes++) {
            uint32_t whole = rt_crc32c(0, data + from, bytes);
            size_t cut = bytes / 3;
            CHECK(rt_crc32c_table(0, data + from, bytes) == whole);
            CHECK(rt_crc32c(rt_crc32c(0, data + from, cut), data + from + cut, bytes - cut) == whole);
            CHECK(rt_crc32c_table(rt_crc32c(0, data + from, cut), data + from + cut, bytes - cut) == whole);
        }
}

/* Long data take another way. */
TEST(lengths_around_several_kilobytes) {
    static uint8_t data[10000];
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (uint8_t)(i * i * 31 >> 3);
    for (size_t bytes = 3050; bytes + 1 < sizeof data; bytes += bytes % 7 + 1)
        CHECK(rt_crc32c(5, data + 1, bytes) == rt_crc32c_table(5, data + 1, bytes));
}

TEST(every_changed_bit_is_found) {
    uint8_t data[40];
    memset(data, 0x5a, sizeof data);
    uint32_t right = rt_crc32c(0, data, sizeof data);
    for (size_t bit = 0; bit < 8 * sizeof data; bit++) {
        data[bit / 8] ^= (uint8_t)(1u << bit % 8);
        CHECK(rt_crc32c(0, data, sizeof data) != right);
        data[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
}

TEST_MAIN()
