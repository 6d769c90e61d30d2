/* HELLO identifies the connecting side, WELCOME the answering one. */
#include "wire/bytes.h"
#include "wire/message.h"
#include <string.h>

bool rt_token_equal(const uint8_t a[RT_TOKEN_BYTES], const uint8_t b[RT_TOKEN_BYTES]) {
    unsigned differs = 0;
    for (size_t i = 0; i < RT_TOKEN_BYTES; i++)
        differs |= (unsigned)(a[i] ^ b[i]);
    return differs == 0;
}

size_t rt_hello_encode(const struct rt_hello *hello, uint8_t *bytes, size_t room) {
    struct rt_encoder encoder = {.bytes = bytes, .room = room};
    rt_write_u8(&encoder, hello->role);
    rt_write_u16(&encoder, hello->from);
    rt_write_u16(&encoder, hello->label);
    rt_write_u32(&encoder, hello->view);
    rt_write_raw(&encoder, hello->token, sizeof hello->token);
    rt_write_raw(&encoder, hello->answer, sizeof hello->answer);
    rt_write_text(&encoder, hello->version);
    return rt_encoder_end(&encoder);
}

static void hello_read_token(struct rt_decoder *decoder, uint8_t token[RT_TOKEN_BYTES]) {
    const uint8_t *at = rt_read_raw(decoder, RT_TOKEN_BYTES);
    if (at)
        memcpy(token, at, RT_TOKEN_BYTES);
}

static void hello_read_answer(struct rt_decoder *decoder, uint8_t answer[32]) {
    const uint8_t *at = rt_read_raw(decoder, 32);
    if (at)
        memcpy(answer, at, 32);
}

rt_status rt_hello_decode(const uint8_t *bytes, size_t count, struct rt_hello *hello, struct rt_error *err) {
    struct rt_decoder decoder = {.name = "hello", .bytes = bytes, .count = count, .err = err};
    struct rt_hello made = {0};
    made.role = rt_read_u8(&decoder);
    made.from = rt_read_index(&decoder, "node", RT_MAX_NODES);
    made.label = rt_read_u16(&decoder);
    made.view = rt_read_view(&decoder);
    hello_read_token(&decoder, made.token);
    hello_read_answer(&decoder, made.answer);
    rt_read_text(&decoder, "version", made.version);
    if (made.role < RT_ROLE_MASTER || made.role > RT_ROLE_OFFER)
        rt_decoder_refuse(&decoder, "has unknown role %u", made.role);
    if (made.role == RT_ROLE_MASTER && made.from != 0)
        rt_decoder_refuse(&decoder, "is from a master that calls itself node %u", made.from);
    if (made.role == RT_ROLE_OFFER && made.from != 0)
        rt_decoder_refuse(&decoder, "is an offer from a node that calls itself node %u", made.from);
    rt_status status = rt_decoder_end(&decoder);
    if (status == RT_OK)
        *hello = made;
    return status;
}

size_t rt_welcome_encode(const struct rt_welcome *welcome, uint8_t *bytes, size_t room) {
    struct rt_encoder encoder = {.bytes = bytes, .room = room};
    rt_write_raw(&encoder, welcome->answer, sizeof welcome->answer);
    rt_write_u32(&encoder, welcome->view);
    rt_write_u32(&encoder, welcome->cores);
    rt_write_u32(&encoder, welcome->threads);
    rt_write_u64(&encoder, welcome->memory);
    rt_write_text(&encoder, welcome->name);
    rt_write_text(&encoder, welcome->version);
    rt_write_text(&encoder, welcome->kernels);
    rt_write_u32(&encoder, (uint32_t)welcome->holdings);
    for (size_t i = 0; i < welcome->holdings && i < RT_MAX_HOLDINGS; i++) {
        rt_write_u64(&encoder, welcome->holding[i].version);
        rt_write_u32(&encoder, welcome->holding[i].first);
        rt_write_u32(&encoder, welcome->holding[i].count);
    }
    return rt_encoder_end(&encoder);
}

static uint32_t hello_read_cores(struct rt_decoder *decoder, const char *what) {
    uint32_t count = rt_read_u32(decoder);
    if (count > RT_MAX_CORES)
        rt_decoder_refuse(decoder, "has %lu %s; the maximum is %d", (unsigned long)count, what, RT_MAX_CORES);
    return count;
}

static void hello_read_holdings(struct rt_decoder *decoder, struct rt_welcome *welcome) {
    welcome->holdings = rt_read_count(decoder, "holdings", RT_MAX_HOLDINGS, 16);
    for (size_t i = 0; i < welcome->holdings; i++) {
        struct rt_holding *holding = &welcome->holding[i];
        holding->version = rt_read_u64(decoder);
        holding->first = rt_read_u32(decoder);
        holding->count = rt_read_u32(decoder);
        if (holding->count == 0 || holding->first >= RT_MAX_LAYERS ||
            holding->count > RT_MAX_LAYERS - holding->first)
            rt_decoder_refuse(decoder, "holds %lu layers from %lu on", (unsigned long)holding->count,
                              (unsigned long)holding->first);
    }
}

rt_status rt_welcome_decode(const uint8_t *bytes, size_t count, struct rt_welcome *welcome,
                            struct rt_error *err) {
    struct rt_decoder decoder = {.name = "welcome", .bytes = bytes, .count = count, .err = err};
    struct rt_welcome made = {0};
    hello_read_answer(&decoder, made.answer);
    made.view = rt_read_u32(&decoder);
    made.cores = hello_read_cores(&decoder, "cores");
    made.threads = hello_read_cores(&decoder, "threads");
    made.memory = rt_read_u64(&decoder);
    rt_read_text(&decoder, "name", made.name);
    rt_read_text(&decoder, "version", made.version);
    rt_read_text(&decoder, "name of its kernels", made.kernels);
    hello_read_holdings(&decoder, &made);
    rt_status status = rt_decoder_end(&decoder);
    if (status == RT_OK)
        *welcome = made;
    return status;
}
