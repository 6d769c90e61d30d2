/* The bytes of frames and preambles; see frame.h. */
#include "net/frame.h"

#include "base/bytes.h"
#include "base/crc32c.h"
#include <string.h>

enum { LIGHT_DATA = RT_FRAME_PING + 1 };

static const uint8_t magic[4] = {RT_PREAMBLE_FIRST, 'T', 'L', 'K'};

void rt_frame_encode(const struct rt_frame *frame, uint8_t bytes[RT_FRAME_BYTES]) {
    bytes[0] = frame->kind == RT_FRAME_DATA && frame->light ? LIGHT_DATA : (uint8_t)frame->kind;
    bytes[1] = (uint8_t)frame->channel;
    rt_put_le16(bytes + 2, frame->kind == RT_FRAME_DATA ? (uint16_t)frame->head_bytes : 0);
    rt_put_le32(bytes + 4, frame->kind == RT_FRAME_DATA     ? frame->body_bytes
                           : frame->kind == RT_FRAME_CREDIT ? frame->count
                                                            : 0);
    rt_put_le32(bytes + 8, rt_crc32c(0, bytes, 8));
}

rt_status rt_frame_decode(const uint8_t bytes[RT_FRAME_BYTES], struct rt_frame *frame, struct rt_error *err) {
    const bool light = bytes[0] == LIGHT_DATA;
    unsigned kind = light ? RT_FRAME_DATA : bytes[0], channel = bytes[1], head = rt_get_le16(bytes + 2);
    uint32_t value = rt_get_le32(bytes + 4);
    if (rt_get_le32(bytes + 8) != rt_crc32c(0, bytes, 8))
        return rt_fail(err, RT_BAD_INPUT, "sent bytes that are no frame");
    if (kind < RT_FRAME_DATA || kind > RT_FRAME_PING)
        return rt_fail(err, RT_BAD_INPUT, "sent a frame of unknown kind %u", kind);
    if (channel >= RT_CHANNELS)
        return rt_fail(err, RT_BAD_INPUT, "sent a frame for channel %u, which does not exist", channel);
    if (kind == RT_FRAME_DATA) {
        if (head > RT_HEAD_ROOM)
            return rt_fail(err, RT_BAD_INPUT, "sent a frame with a head of %u bytes; at most %d are allowed",
                           head, RT_HEAD_ROOM);
        if (value > RT_MAX_BODY)
            return rt_fail(err, RT_BAD_INPUT, "sent a frame with a body of %lu bytes; at most %d are allowed",
                           (unsigned long)value, RT_MAX_BODY);
    } else if (head != 0 || (kind == RT_FRAME_PING && (value != 0 || channel != 0))) {
        return rt_fail(err, RT_BAD_INPUT, "sent a frame with values where none belong");
    } else if (kind == RT_FRAME_CREDIT && (value == 0 || value > RT_MAX_CREDIT)) {
        return rt_fail(err, RT_BAD_INPUT, "asked for %lu frames at once", (unsigned long)value);
    }
    *frame = (struct rt_frame){
        .kind = (enum rt_frame_kind)kind,
        .channel = channel,
        .head_bytes = head,
        .body_bytes = kind == RT_FRAME_DATA ? value : 0,
        .light = light,
        .count = kind == RT_FRAME_CREDIT ? value : 0,
    };
    return RT_OK;
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
        return rt_fail(err, RT_BAD_INPUT, "is not RingTMP: it sent something else");
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
