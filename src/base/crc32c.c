/*
 * CRC-32C three ways: the instruction of x86-64, the one of 64-bit ARM, and a table. The CRC is linear, so
 * the effect of a 32-bit word is the sum (exclusive or) of the effects of its eight half-bytes: eight rows of
 * sixteen are enough, and stay in the first-level cache.
 */
#include "base/crc32c.h"

#include "base/bytes.h"

#if defined(__x86_64__)
#include <nmmintrin.h>
#define RT_CRC32C_TARGET       __attribute__((target("sse4.2")))
#define RT_CRC32C_8(crc, word) ((uint32_t)_mm_crc32_u64(crc, word))
#define RT_CRC32C_1(crc, byte) _mm_crc32_u8(crc, byte)
static int crc32c_has_instruction(void) {
    return __builtin_cpu_supports("sse4.2");
}
#elif defined(__aarch64__) && defined(__linux__) && (!defined(__clang__) || defined(__ARM_FEATURE_CRC32))
#include <arm_acle.h>
#include <asm/hwcap.h>
#include <sys/auxv.h>
#define RT_CRC32C_TARGET       __attribute__((target("+crc")))
#define RT_CRC32C_8(crc, word) __crc32cd(crc, word)
#define RT_CRC32C_1(crc, byte) __crc32cb(crc, byte)
static int crc32c_has_instruction(void) {
    return (getauxval(AT_HWCAP) & HWCAP_CRC32) != 0;
}
#endif

/* effect[k][v]: the effect of value v in half-byte k of a word, after the 32 bits of the word. */
static const uint32_t effect[8][16] = {
    {0x00000000, 0xdd45aab8, 0xbf672381, 0x62228939, 0x7b2231f3, 0xa6679b4b, 0xc4451272, 0x1900b8ca,
     0xf64463e6, 0x2b01c95e, 0x49234067, 0x9466eadf, 0x8d665215, 0x5023f8ad, 0x32017194, 0xef44db2c},
    {0x00000000, 0xe964b13d, 0xd725148b, 0x3e41a5b6, 0xaba65fe7, 0x42c2eeda, 0x7c834b6c, 0x95e7fa51,
     0x52a0c93f, 0xbbc47802, 0x8585ddb4, 0x6ce16c89, 0xf90696d8, 0x106227e5, 0x2e238253, 0xc747336e},
    {0x00000000, 0xa541927e, 0x4f6f520d, 0xea2ec073, 0x9edea41a, 0x3b9f3664, 0xd1b1f617, 0x74f06469,
     0x38513ec5, 0x9d10acbb, 0x773e6cc8, 0xd27ffeb6, 0xa68f9adf, 0x03ce08a1, 0xe9e0c8d2, 0x4ca15aac},
    {0x00000000, 0x70a27d8a, 0xe144fb14, 0x91e6869e, 0xc76580d9, 0xb7c7fd53, 0x26217bcd, 0x56830647,
     0x8b277743, 0xfb850ac9, 0x6a638c57, 0x1ac1f1dd, 0x4c42f79a, 0x3ce08a10, 0xad060c8e, 0xdda47104},
    {0x00000000, 0x13a29877, 0x274530ee, 0x34e7a899, 0x4e8a61dc, 0x5d28f9ab, 0x69cf5132, 0x7a6dc945,
     0x9d14c3b8, 0x8eb65bcf, 0xba51f356, 0xa9f36b21, 0xd39ea264, 0xc03c3a13, 0xf4db928a, 0xe7790afd},
    {0x00000000, 0x3fc5f181, 0x7f8be302, 0x404e1283, 0xff17c604, 0xc0d23785, 0x809c2506, 0xbf59d487,
     0xfbc3faf9, 0xc4060b78, 0x844819fb, 0xbb8de87a, 0x04d43cfd, 0x3b11cd7c, 0x7b5fdfff, 0x449a2e7e},
    {0x00000000, 0xf26b8303, 0xe13b70f7, 0x1350f3f4, 0xc79a971f, 0x35f1141c, 0x26a1e7e8, 0xd4ca64eb,
     0x8ad958cf, 0x78b2dbcc, 0x6be22838, 0x9989ab3b, 0x4d43cfd0, 0xbf284cd3, 0xac78bf27, 0x5e133c24},
    {0x00000000, 0x105ec76f, 0x20bd8ede, 0x30e349b1, 0x417b1dbc, 0x5125dad3, 0x61c69362, 0x7198540d,
     0x82f63b78, 0x92a8fc17, 0xa24bb5a6, 0xb21572c9, 0xc38d26c4, 0xd3d3e1ab, 0xe330a81a, 0xf36e6f75}};

/* The sum of the effects of a word's half-bytes. */
static inline uint32_t crc32c_sum_effects(const uint32_t effects[8][16], uint32_t word) {
    uint32_t sum = 0;
    for (int k = 0; k < 8; k++)
        sum ^= effects[k][word >> 4 * k & 15];
    return sum;
}

uint32_t rt_crc32c_table(uint32_t crc, const void *data, size_t bytes) {
    const uint8_t *at = data;
    uint32_t state = ~crc;
    for (; bytes >= 4; bytes -= 4, at += 4)
        state = crc32c_sum_effects(effect, state ^ rt_get_le32(at));
    for (; bytes > 0; bytes--, at++) {
        uint32_t low = state ^ *at; /* only its lowest byte counts */
        state = state >> 8 ^ effect[6][low & 15] ^ effect[7][low >> 4 & 15];
    }
    return ~state;
}

#if defined(RT_CRC32C_TARGET)
/* The instruction has a latency of three cycles and a throughput of one per cycle. So three lanes of LANE
 * bytes are summed side by side and combined: the first as if followed by 2 * LANE zeros, the second as if
 * followed by LANE zeros. */
enum { LANE = 1024 };

/* The processor does not predict this access pattern. Prefetching two blocks ahead makes data that is not in
 * the cache nearly twice as fast. */
enum { LINE = 64, AHEAD = 6 * LANE };

/* The effect of value v in half-byte k of a state, after LANE zeros. */
static const uint32_t lane_effect[8][16] = {
    {0x00000000, 0xfe314258, 0xf98ef241, 0x07bfb019, 0xf6f19273, 0x08c0d02b, 0x0f7f6032, 0xf14e226a,
     0xe80f5217, 0x163e104f, 0x1181a056, 0xefb0e20e, 0x1efec064, 0xe0cf823c, 0xe7703225, 0x1941707d},
    {0x00000000, 0xd5f2d2df, 0xae09d34f, 0x7bfb0190, 0x59ffd06f, 0x8c0d02b0, 0xf7f60320, 0x2204d1ff,
     0xb3ffa0de, 0x660d7201, 0x1df67391, 0xc804a14e, 0xea0070b1, 0x3ff2a26e, 0x4409a3fe, 0x91fb7121},
    {0x00000000, 0x6213374d, 0xc4266e9a, 0xa63559d7, 0x8da0abc5, 0xefb39c88, 0x4986c55f, 0x2b95f212,
     0x1ead217b, 0x7cbe1636, 0xda8b4fe1, 0xb89878ac, 0x930d8abe, 0xf11ebdf3, 0x572be424, 0x3538d369},
    {0x00000000, 0x3d5a42f6, 0x7ab485ec, 0x47eec71a, 0xf5690bd8, 0xc833492e, 0x8fdd8e34, 0xb287ccc2,
     0xef3e6141, 0xd26423b7, 0x958ae4ad, 0xa8d0a65b, 0x1a576a99, 0x270d286f, 0x60e3ef75, 0x5db9ad83},
    {0x00000000, 0xdb90b473, 0xb2cd1e17, 0x695daa64, 0x60764adf, 0xbbe6feac, 0xd2bb54c8, 0x092be0bb,
     0xc0ec95be, 0x1b7c21cd, 0x72218ba9, 0xa9b13fda, 0xa09adf61, 0x7b0a6b12, 0x1257c176, 0xc9c77505},
    {0x00000000, 0x84355d8d, 0x0d86cdeb, 0x89b39066, 0x1b0d9bd6, 0x9f38c65b, 0x168b563d, 0x92be0bb0,
     0x361b37ac, 0xb22e6a21, 0x3b9dfa47, 0xbfa8a7ca, 0x2d16ac7a, 0xa923f1f7, 0x20906191, 0xa4a53c1c},
    {0x00000000, 0x6c366f58, 0xd86cdeb0, 0xb45ab1e8, 0xb535cb91, 0xd903a4c9, 0x6d591521, 0x016f7a79,
     0x6f87e1d3, 0x03b18e8b, 0xb7eb3f63, 0xdbdd503b, 0xdab22a42, 0xb684451a, 0x02def4f2, 0x6ee89baa},
    {0x00000000, 0xdf0fc3a6, 0xbbf3f1bd, 0x64fc321b, 0x720b958b, 0xad04562d, 0xc9f86436, 0x16f7a790,
     0xe4172b16, 0x3b18e8b0, 0x5fe4daab, 0x80eb190d, 0x961cbe9d, 0x49137d3b, 0x2def4f20, 0xf2e08c86}};

RT_CRC32C_TARGET static uint32_t three_lanes(uint32_t state, const uint8_t *at) {
    uint32_t second = 0, third = 0;
    for (const uint8_t *end = at + LANE; at < end; at += LINE) {
        for (int i = 0; i < 3; i++)
            __builtin_prefetch(at + AHEAD + i * LANE);
        for (int i = 0; i < LINE; i += 8) {
            state = RT_CRC32C_8(state, rt_get_le64(at + i));
            second = RT_CRC32C_8(second, rt_get_le64(at + i + LANE));
            third = RT_CRC32C_8(third, rt_get_le64(at + i + 2 * LANE));
        }
    }
    return crc32c_sum_effects(lane_effect, crc32c_sum_effects(lane_effect, state) ^ second) ^ third;
}

RT_CRC32C_TARGET static uint32_t by_instruction(uint32_t crc, const void *data, size_t bytes) {
    const uint8_t *at = data;
    uint32_t state = ~crc;
    for (; bytes >= 3 * LANE; bytes -= 3 * LANE, at += 3 * LANE)
        state = three_lanes(state, at);
    for (; bytes >= 8; bytes -= 8, at += 8)
        state = RT_CRC32C_8(state, rt_get_le64(at));
    for (; bytes > 0; bytes--, at++)
        state = RT_CRC32C_1(state, *at);
    return ~state;
}

uint32_t rt_crc32c(uint32_t crc, const void *data, size_t bytes) {
    return crc32c_has_instruction() ? by_instruction(crc, data, bytes) : rt_crc32c_table(crc, data, bytes);
}
#else
uint32_t rt_crc32c(uint32_t crc, const void *data, size_t bytes) {
    return rt_crc32c_table(crc, data, bytes);
}
#endif
