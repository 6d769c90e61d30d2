/* SHA-256 against the examples of FIPS 180-4 and its companions, and against itself in other pieces. */
#include "base/sha256.h"
#include "support/test.h"

static void hash_text(const void *data, size_t bytes, size_t piece, char text[65]) {
    struct rt_sha256 hash;
    uint8_t digest[32];
    rt_sha256_init(&hash);
    for (size_t at = 0; at < bytes; at += piece)
        rt_sha256_add(&hash, (const char *)data + at, bytes - at < piece ? bytes - at : piece);
    rt_sha256_finish(&hash, digest);
    rt_sha256_hex(digest, text);
}

TEST(known_answers) {
    static const struct {
        const char *text, *digest;
    } cases[] = {
        {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
         "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
        {"abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmno"
         "pqrst"
         "nopqrstu",
         "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[65];
        hash_text(cases[i].text, strlen(cases[i].text), 1000, text);
        CHECK_MSG(strcmp(text, cases[i].digest) == 0, "'%s': %s", cases[i].text, text);
    }
}

TEST(a_million_letters) {
    char *data = malloc(1000000), text[65];
    REQUIRE(data);
    memset(data, 'a', 1000000);
    hash_text(data, 1000000, 1000000, text);
    CHECK(strcmp(text, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0") == 0);
    free(data);
}

/* Every length around the block size, fed whole and in pieces of every size: the paddings and the buffer. */
TEST(pieces_do_not_matter) {
    uint8_t data[200];
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (uint8_t)(i * 37 + 11);
    for (size_t bytes = 0; bytes <= sizeof data; bytes++) {
        char whole[65], pieces[65];
        hash_text(data, bytes, sizeof data, whole);
        for (size_t piece = 1; piece < 130; piece += 7) {
            hash_text(data, bytes, piece, pieces);
            CHECK_MSG(strcmp(whole, pieces) == 0, "%zu bytes in pieces of %zu", bytes, piece);
        }
    }
}

/* Whatever this processor has. */
TEST(instructions_agree_with_portable_rounds) {
    uint8_t data[64 * 9];
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (uint8_t)(i * 61 + (i >> 3));
    for (size_t count = 0; count <= 9; count++) {
        uint32_t state[8], portable[8];
        for (size_t i = 0; i < 8; i++)
            state[i] = portable[i] = (uint32_t)(0x9e3779b9u * (i + count + 1));
        rt_sha256_choose_rounds()(state, data, count);
        rt_sha256_rounds_portable(portable, data, count);
        CHECK_MSG(memcmp(state, portable, sizeof state) == 0, "%zu blocks", count);
    }
}

TEST_MAIN()
