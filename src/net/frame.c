/* The bytes of frames and preambles; see frame.h. */
#include "net/frame.h"

#include "base/bytes.h"
#include "base/crc32c.h"
#include <string.h>

static const uint8_t magic[4] = {RT_PREAMBLE_FIRST, 'T', 'L', 'K'};

/* The kinds by number. */
static const struct {
    enum rt_frame_kind kind;
    enum rt_frame_body body;
} kinds[] = {
    [1] = {RT_FRAME_DATA, RT_BODY_SEALED},
    [2] = {RT_FRAME_CREDIT, 0},
    [3] = {RT_FRAME_PING, 0},
    [4] = {RT_FRAME_DATA, RT_BODY_LIGHT},
    [5] = {RT_FRAME_DATA, RT_BODY_LENT},
    [6] = {RT_FRAME_OFFER, 0},
    [7] = {RT_FRAME_AGREE, 0},
    [8] = {RT_FRAME_RETURN, 0},
    [9] = {RT_FRAME_ECHO, 0},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

static uint8_t frame_number(const struct rt_frame *frame) {
    uint8_t number = 1;
    while (number < KINDS - 1 && (kinds[number].kind != frame->kind ||
                                  (frame->kind == RT_FRAME_DATA && kinds[number].body != frame->body)))
        number++;
    return number;
}

void rt_frame_encode(const struct rt_frame *frame, uint8_t bytes[RT_FRAME_BYTES]) {
    const bool has_head = frame->kind == RT_FRAME_DATA || frame->kind == RT_FRAME_OFFER;
    const bool is_ping = frame->kind == RT_FRAME_PING, is_echo = frame->kind == RT_FRAME_ECHO;
    const bool has_count = frame->kind == RT_FRAME_CREDIT || frame->kind == RT_FRAME_RETURN || is_echo;
    bytes[0] = frame_number(frame);
    bytes[1] = (uint8_t)frame->channel;
    rt_put_le16(bytes + 2, has_head  ? (uint16_t)frame->head_bytes
                           : is_ping ? frame->note
                           : is_echo ? frame->late
                                     : 0);
    rt_put_le32(bytes + 4, frame->kind == RT_FRAME_DATA ? frame->body_bytes
                           : has_count                  ? frame->count
                           : is_ping                    ? frame->age
                                                        : 0);
    rt_put_le32(bytes + 8, rt_crc32c(0, bytes, 8));
}

static rt_status frame_check_data(unsigned head, uint32_t body, struct rt_error *err) {
    if (head > RT_HEAD_ROOM)
        return rt_fail(err, RT_BAD_INPUT, "sent a frame with a head of %u bytes; at most %d are allowed",
                       head, RT_HEAD_ROOM);
    if (body > RT_MAX_BODY)
        return rt_fail(err, RT_BAD_INPUT, "sent a frame with a body of %lu bytes; at most %d are allowed",
                       (unsigned long)body, RT_MAX_BODY);
    return RT_OK;
}

/* For the kinds that the transport itself sends. */
static rt_status frame_check_values(enum rt_frame_kind kind, unsigned channel, unsigned head, uint32_t value,
                                    struct rt_error *err) {
    const bool counts = kind == RT_FRAME_CREDIT || kind == RT_FRAME_RETURN;
    if ((kind == RT_FRAME_PING || kind == RT_FRAME_ECHO) && channel == 0)
        return RT_OK;
    if (head != (kind == RT_FRAME_OFFER ? RT_OFFER_BYTES : 0) || (!counts && (value != 0 || channel != 0)))
        return rt_fail(err, RT_BAD_INPUT, "sent a frame with values where none belong");
    if (kind == RT_FRAME_CREDIT && (value == 0 || value > RT_MAX_CREDIT))
        return rt_fail(err, RT_BAD_INPUT, "asked for %lu frames at once", (unsigned long)value);
    return RT_OK;
}

rt_status rt_frame_decode(const uint8_t bytes[RT_FRAME_BYTES], struct rt_frame *frame, struct rt_error *err) {
    const unsigned number = bytes[0], channel = bytes[1], head = rt_get_le16(bytes + 2);
    const uint32_t value = rt_get_le32(bytes + 4);
    if (rt_get_le32(bytes + 8) != rt_crc32c(0, bytes, 8))
        return rt_fail(err, RT_BAD_INPUT, "sent bytes that are not a frame");
    if (number == 0 || number >= KINDS)
        return rt_fail(err, RT_BAD_INPUT, "sent a frame of unknown kind %u", number);
    if (channel >= RT_CHANNELS)
        return rt_fail(err, RT_BAD_INPUT, "sent a frame for channel %u, which does not exist", channel);
    const enum rt_frame_kind kind = kinds[number].kind;
    rt_status status = kind == RT_FRAME_DATA ? frame_check_data(head, value, err)
                                             : frame_check_values(kind, channel, head, value, err);
    if (status != RT_OK)
        return status;
    *frame = (struct rt_frame){.kind = kind, .channel = channel};
    if (kind == RT_FRAME_PING) {
        frame->note = (uint16_t)head;
        frame->age = value;
        return RT_OK;
    }
    if (kind == RT_FRAME_ECHO) {
        frame->late = (uint16_t)head;
        frame->count = value;
        return RT_OK;
    }
    frame->head_bytes = head;
    frame->body_bytes = kind == RT_FRAME_DATA ? value : 0;
    frame->body = kinds[number].body;
    frame->count = kind == RT_FRAME_DATA ? 0 : value;
    return RT_OK;
}

size_t rt_frame_following(const struct rt_frame *frame) {
    if (frame->kind != RT_FRAME_DATA && frame->kind != RT_FRAME_OFFER)
        return 0;
    return frame->head_bytes +
           (frame->body == RT_BODY_LENT ? RT_CMA_OFFER_BYTES : (size_t)frame->body_bytes) +
           RT_FRAME_TAIL_BYTES;
}

void rt_cma_offer_encode(const struct rt_cma_offer *offer, uint8_t bytes[RT_CMA_OFFER_BYTES]) {
    for (size_t i = 0; i < RT_PIECES; i++) {
        rt_put_le64(bytes + 12 * i, offer->pieces[i].at);
        rt_put_le32(bytes + 12 * i + 8, offer->pieces[i].bytes);
    }
}

rt_status rt_cma_offer_decode(const uint8_t bytes[RT_CMA_OFFER_BYTES], uint32_t body_bytes,
                              struct rt_cma_offer *offer, struct rt_error *err) {
    uint64_t total = 0;
    for (size_t i = 0; i < RT_PIECES; i++) {
        offer->pieces[i].at = rt_get_le64(bytes + 12 * i);
        offer->pieces[i].bytes = rt_get_le32(bytes + 12 * i + 8);
        total += offer->pieces[i].bytes;
    }
    if (total != body_bytes)
        return rt_fail(err, RT_BAD_INPUT, "offered %llu bytes of memory as a body of %lu",
                       (unsigned long long)total, (unsigned long)body_bytes);
    return RT_OK;
}

void rt_offer_encode(const struct rt_offer *offer, uint8_t bytes[RT_OFFER_BYTES]) {
    rt_put_le32(bytes, offer->process);
    rt_put_le64(bytes + 4, offer->answer_at);
    memcpy(bytes + 12, offer->challenge, RT_CHALLENGE_BYTES);
}

void rt_offer_decode(const uint8_t bytes[RT_OFFER_BYTES], struct rt_offer *offer) {
    offer->process = rt_get_le32(bytes);
    offer->answer_at = rt_get_le64(bytes + 4);
    memcpy(offer->challenge, bytes + 12, RT_CHALLENGE_BYTES);
}

void rt_preamble_encode(const struct rt_preamble *preamble, uint8_t bytes[RT_PREAMBLE_BYTES]) {
    memcpy(bytes, magic, sizeof magic);
    rt_put_le16(bytes + 4, preamble->version);
    bytes[6] = (uint8_t)preamble->kind;
    bytes[7] = (uint8_t)preamble->refusal;
    memcpy(bytes + 8, preamble->token, RT_TOKEN_BYTES);
    rt_put_le32(bytes + 24, rt_crc32c(0, bytes, 24));
}

rt_status rt_preamble_decode(const uint8_t bytes[RT_PREAMBLE_BYTES], struct rt_preamble *preamble,
                             struct rt_error *err) {
    if (memcmp(bytes, magic, sizeof magic) != 0)
        return rt_fail(err, RT_BAD_INPUT, "is not RingTMP: its first bytes are not the greeting");
    struct rt_preamble read = {.version = rt_get_le16(bytes + 4)};
    if (read.version == RT_LINK_VERSION) {
        unsigned kind = bytes[6], refusal = bytes[7];
        bool refused = kind == RT_PREAMBLE_REFUSED;
        if (rt_get_le32(bytes + 24) != rt_crc32c(0, bytes, 24) || kind < RT_PREAMBLE_CONTROL ||
            kind > RT_PREAMBLE_REFUSED || refusal >= RT_REFUSALS ||
            refused != (refusal != RT_REFUSED_NOTHING))
            return rt_fail(err, RT_BAD_INPUT, "sent a damaged greeting");
        read.kind = (enum rt_preamble_kind)kind;
        read.refusal = (enum rt_refusal)refusal;
        memcpy(read.token, bytes + 8, RT_TOKEN_BYTES);
    }
    *preamble = read;
    return RT_OK;
}
