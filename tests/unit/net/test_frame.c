/* The private format of the TCP transport: bytes as written down, and everything else refused. */
#include "base/bytes.h"
#include "base/crc32c.h"
#include "net/frame.h"
#include "support/test.h"

static void seal(uint8_t *bytes) {
    rt_put_le32(bytes + 8, rt_crc32c(0, bytes, 8));
}

TEST(a_frame_starts_with_these_bytes) {
    struct rt_frame frame = {.kind = RT_FRAME_DATA, .channel = 2, .head_bytes = 96, .body_bytes = 0x01020304};
    struct rt_frame back;
    struct rt_error err;
    uint8_t bytes[RT_FRAME_BYTES];
    rt_frame_encode(&frame, bytes);
    const uint8_t expected[8] = {1, 2, 96, 0, 4, 3, 2, 1};
    CHECK(memcmp(bytes, expected, sizeof expected) == 0);
    CHECK(rt_get_le32(bytes + 8) == rt_crc32c(0, bytes, 8));
    CHECK_OK(rt_frame_decode(bytes, &back, &err));
    CHECK(back.kind == frame.kind && back.channel == 2 && back.head_bytes == 96);
    CHECK(back.body_bytes == 0x01020304 && back.count == 0);

    CHECK(back.body == RT_BODY_SEALED && rt_frame_following(&back) == 96 + 0x01020304 + 4);

    frame.body = RT_BODY_LIGHT;
    rt_frame_encode(&frame, bytes);
    CHECK(bytes[0] == 4 && memcmp(bytes + 1, expected + 1, 7) == 0);
    CHECK_OK(rt_frame_decode(bytes, &back, &err));
    CHECK(back.kind == RT_FRAME_DATA && back.body == RT_BODY_LIGHT && back.body_bytes == 0x01020304);

    frame.body = RT_BODY_LENT;
    rt_frame_encode(&frame, bytes);
    CHECK(bytes[0] == 5 && memcmp(bytes + 1, expected + 1, 7) == 0);
    CHECK_OK(rt_frame_decode(bytes, &back, &err));
    CHECK(back.kind == RT_FRAME_DATA && back.body == RT_BODY_LENT && back.body_bytes == 0x01020304);
    CHECK(rt_frame_following(&back) == 96 + RT_CMA_OFFER_BYTES + 4);

    frame = (struct rt_frame){.kind = RT_FRAME_CREDIT, .channel = 3, .count = 5};
    rt_frame_encode(&frame, bytes);
    CHECK_OK(rt_frame_decode(bytes, &back, &err));
    CHECK(back.kind == RT_FRAME_CREDIT && back.channel == 3 && back.count == 5 && back.body_bytes == 0);

    frame = (struct rt_frame){.kind = RT_FRAME_PING, .note = 0x0102, .age = 0x03040506};
    rt_frame_encode(&frame, bytes);
    CHECK(memcmp(bytes, (const uint8_t[]){3, 0, 2, 1, 6, 5, 4, 3}, 8) == 0);
    CHECK_OK(rt_frame_decode(bytes, &back, &err));
    CHECK(back.kind == RT_FRAME_PING && rt_frame_following(&back) == 0);
    CHECK(back.note == 0x0102 && back.age == 0x03040506 && back.count == 0 && back.head_bytes == 0);

    frame = (struct rt_frame){.kind = RT_FRAME_ECHO, .late = 0x0102, .count = 0x03040506};
    rt_frame_encode(&frame, bytes);
    CHECK(memcmp(bytes, (const uint8_t[]){9, 0, 2, 1, 6, 5, 4, 3}, 8) == 0);
    CHECK_OK(rt_frame_decode(bytes, &back, &err));
    CHECK(back.kind == RT_FRAME_ECHO && rt_frame_following(&back) == 0);
    CHECK(back.late == 0x0102 && back.count == 0x03040506 && back.head_bytes == 0);

    frame = (struct rt_frame){.kind = RT_FRAME_OFFER, .head_bytes = RT_OFFER_BYTES};
    rt_frame_encode(&frame, bytes);
    CHECK(bytes[0] == 6);
    CHECK_OK(rt_frame_decode(bytes, &back, &err));
    CHECK(back.kind == RT_FRAME_OFFER && rt_frame_following(&back) == RT_OFFER_BYTES + 4);

    frame = (struct rt_frame){.kind = RT_FRAME_AGREE};
    rt_frame_encode(&frame, bytes);
    CHECK(bytes[0] == 7);
    CHECK_OK(rt_frame_decode(bytes, &back, &err));
    CHECK(back.kind == RT_FRAME_AGREE && rt_frame_following(&back) == 0);

    frame = (struct rt_frame){.kind = RT_FRAME_RETURN, .channel = 1, .count = UINT32_MAX};
    rt_frame_encode(&frame, bytes);
    CHECK(bytes[0] == 8);
    CHECK_OK(rt_frame_decode(bytes, &back, &err));
    CHECK(back.kind == RT_FRAME_RETURN && back.channel == 1 && back.count == UINT32_MAX);
}

TEST(a_loan_and_an_offer_are_these_bytes) {
    const struct rt_cma_offer cma_offer = {{{0x1112131415161718, 0x21222324}, {5, 6}}};
    const struct rt_offer offer = {
        .process = 0x01020304, .answer_at = 0x1112131415161718, .challenge = {7, 8}};
    struct rt_cma_offer loan_back;
    struct rt_offer offer_back;
    struct rt_error err;
    uint8_t bytes[RT_CMA_OFFER_BYTES + RT_OFFER_BYTES];
    rt_cma_offer_encode(&cma_offer, bytes);
    rt_offer_encode(&offer, bytes + RT_CMA_OFFER_BYTES);
    const uint8_t expected[] = {0x18, 0x17, 0x16, 0x15, 0x14, 0x13, 0x12, 0x11, 0x24, 0x23, 0x22, 0x21, 5,
                                0,    0,    0,    0,    0,    0,    0,    6,    0,    0,    0,    4,    3,
                                2,    1,    0x18, 0x17, 0x16, 0x15, 0x14, 0x13, 0x12, 0x11, 7,    8,    0,
                                0,    0,    0,    0,    0,    0,    0,    0,    0,    0,    0,    0,    0};
    CHECK(sizeof expected == sizeof bytes && memcmp(bytes, expected, sizeof bytes) == 0);
    CHECK_OK(rt_cma_offer_decode(bytes, 0x21222324 + 6, &loan_back, &err));
    CHECK(memcmp(&loan_back.pieces[0].at, &cma_offer.pieces[0].at, 8) == 0 && loan_back.pieces[1].bytes == 6);
    CHECK(rt_cma_offer_decode(bytes, 0x21222324, &loan_back, &err) == RT_BAD_INPUT);
    rt_offer_decode(bytes + RT_CMA_OFFER_BYTES, &offer_back);
    CHECK(offer_back.process == offer.process && offer_back.answer_at == offer.answer_at);
    CHECK(memcmp(offer_back.challenge, offer.challenge, RT_CHALLENGE_BYTES) == 0);
}

TEST(what_is_no_frame_is_refused) {
    struct {
        uint8_t bytes[8];
        const char *says;
    } cases[] = {
        {{0, 0, 0, 0, 0, 0, 0, 0}, "unknown kind 0"},
        {{10, 0, 0, 0, 0, 0, 0, 0}, "unknown kind 10"},
        {{1, RT_CHANNELS, 0, 0, 0, 0, 0, 0}, "channel 5"},
        {{1, 0, 97, 0, 0, 0, 0, 0}, "head of 97 bytes"},
        {{4, 0, 97, 0, 0, 0, 0, 0}, "head of 97 bytes"},
        {{1, 0, 0, 1, 0, 0, 0, 0}, "head of 256 bytes"},
        {{1, 0, 0, 0, 1, 0, 0, 0x40}, "body of 1073741825 bytes"},
        {{1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff}, "body of 4294967295 bytes"},
        {{2, 0, 0, 0, 0, 0, 0, 0}, "asked for 0 frames"},
        {{2, 0, 0, 0, 0, 0, 0, 1}, "asked for 16777216 frames"},
        {{2, 0, 1, 0, 1, 0, 0, 0}, "none belong"},
        {{3, 1, 0, 0, 0, 0, 0, 0}, "none belong"},
        {{9, 1, 0, 0, 0, 0, 0, 0}, "none belong"},
        {{6, 0, 27, 0, 0, 0, 0, 0}, "none belong"},
        {{6, 0, 28, 0, 1, 0, 0, 0}, "none belong"},
        {{7, 0, 0, 0, 1, 0, 0, 0}, "none belong"},
        {{7, 1, 0, 0, 0, 0, 0, 0}, "none belong"},
        {{8, 0, 1, 0, 1, 0, 0, 0}, "none belong"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint8_t bytes[RT_FRAME_BYTES];
        struct rt_frame frame;
        struct rt_error err = {0};
        memcpy(bytes, cases[i].bytes, 8);
        seal(bytes);
        CHECK_MSG(rt_frame_decode(bytes, &frame, &err) == RT_BAD_INPUT, "case %zu", i);
        CHECK_MSG(strstr(err.text, cases[i].says), "case %zu: %s", i, err.text);
    }
    uint8_t largest[RT_FRAME_BYTES] = {1, 3, 96, 0, 0, 0, 0, 0x40};
    struct rt_frame frame;
    seal(largest);
    CHECK(rt_frame_decode(largest, &frame, NULL) == RT_OK && frame.body_bytes == RT_MAX_BODY);
    largest[5] ^= 1; /* changed on the way */
    CHECK(rt_frame_decode(largest, &frame, NULL) == RT_BAD_INPUT);
}

TEST(a_preamble_starts_with_these_bytes) {
    struct rt_preamble preamble = {.version = RT_LINK_VERSION, .kind = RT_PREAMBLE_DATA}, back;
    struct rt_error err;
    uint8_t bytes[RT_PREAMBLE_BYTES];
    memset(preamble.token, 0x7e, RT_TOKEN_BYTES);
    rt_preamble_encode(&preamble, bytes);
    CHECK(memcmp(bytes, "RTLK\5\0\2\0\x7e", 9) == 0);
    CHECK_OK(rt_preamble_decode(bytes, &back, &err));
    CHECK(back.version == RT_LINK_VERSION && back.kind == RT_PREAMBLE_DATA && back.refusal == 0);
    CHECK(memcmp(back.token, preamble.token, RT_TOKEN_BYTES) == 0);

    for (size_t bit = 0; bit < 8 * RT_PREAMBLE_BYTES; bit++) { /* no changed bit is overlooked */
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        rt_status status = rt_preamble_decode(bytes, &back, NULL);
        CHECK_MSG(status == RT_BAD_INPUT || back.version != RT_LINK_VERSION, "bit %zu", bit);
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    bytes[4] = 9; /* a later version may mean anything by the rest */
    CHECK_OK(rt_preamble_decode(bytes, &back, &err));
    CHECK(back.version == 9 && back.kind == 0);

    preamble.kind = RT_PREAMBLE_REFUSED; /* without a reason: damaged */
    rt_preamble_encode(&preamble, bytes);
    CHECK(rt_preamble_decode(bytes, &back, NULL) == RT_BAD_INPUT);
    preamble.refusal = RT_REFUSED_BUSY;
    rt_preamble_encode(&preamble, bytes);
    CHECK(rt_preamble_decode(bytes, &back, NULL) == RT_OK && back.refusal == RT_REFUSED_BUSY);
}

TEST_MAIN()
