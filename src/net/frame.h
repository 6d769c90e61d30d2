/*
 * What the TCP transport writes into a connection: its private format, pure functions on bytes.
 *
 * A connection starts with one preamble in each direction, which joins the two connections of a link. After
 * them come frames. Every frame starts with the same 12 bytes, little-endian, which carry a checksum of their
 * own, so that a length is known to be as it was sent before anything is done with it:
 *
 *   byte  0      kind
 *         1      channel
 *         2-3    bytes of the head     DATA; else 0
 *         4-7    bytes of the body     DATA; number of receives that were posted: CREDIT; else 0
 *         8-11   CRC-32C of the above
 *
 * DATA is followed by the head, the body and 4 bytes: the CRC-32C of start, head and body. Where nothing can
 * damage a body unseen, within one machine or under TLS, the sender leaves it out of the sum: the frame is
 * light, and its kind is 4.
 */
#ifndef RT_NET_FRAME_H
#define RT_NET_FRAME_H

#include "net/transport.h"

enum { RT_FRAME_BYTES = 12, RT_FRAME_TAIL_BYTES = 4, RT_MAX_CREDIT = 1 << 20 };

enum rt_frame_kind { RT_FRAME_DATA = 1, RT_FRAME_CREDIT, RT_FRAME_PING };

struct rt_frame {
    enum rt_frame_kind kind;
    unsigned channel;
    uint32_t head_bytes; /* DATA */
    uint32_t body_bytes; /* DATA */
    bool light;          /* DATA: the checksum is of start and head alone */
    uint32_t count;      /* CREDIT */
};

void rt_frame_encode(const struct rt_frame *frame, uint8_t bytes[RT_FRAME_BYTES]);

/* Refuses what no frame of ours can be: the sentence goes after the peer's name. */
rt_status rt_frame_decode(const uint8_t bytes[RT_FRAME_BYTES], struct rt_frame *frame, struct rt_error *err);

/* The preamble. Its layout stays the same in all versions up to the version number; the first byte is one
 * that no TLS connection starts with, so that both can tell which of the two they are looking at. */
enum { RT_PREAMBLE_BYTES = 28, RT_TOKEN_BYTES = 16, RT_LINK_VERSION = 2, RT_PREAMBLE_FIRST = 'R' };

enum rt_preamble_kind {
    RT_PREAMBLE_CONTROL = 1, /* the connection of the control channel */
    RT_PREAMBLE_DATA,        /* that of the others */
    RT_PREAMBLE_REFUSED,     /* in an answer: no, for the reason given */
};

enum rt_refusal {
    RT_REFUSED_NOTHING,
    RT_REFUSED_ENCRYPTION, /* one side has a cluster key and the other none */
    RT_REFUSED_VERSION,
    RT_REFUSED_BUSY, /* has as many links as it takes */
    RT_REFUSALS
};

struct rt_preamble {
    uint16_t version;
    enum rt_preamble_kind kind;
    enum rt_refusal refusal;
    uint8_t token[RT_TOKEN_BYTES]; /* the same for both connections of a link; the answer repeats it */
};

void rt_preamble_encode(const struct rt_preamble *preamble, uint8_t bytes[RT_PREAMBLE_BYTES]);

/* Another version is not an error here: version tells, and nothing else is set then. */
rt_status rt_preamble_decode(const uint8_t bytes[RT_PREAMBLE_BYTES], struct rt_preamble *preamble,
                             struct rt_error *err);

#endif
