/*
 * What the TCP transport writes into a connection: its private format, pure functions on bytes.
 *
 * A connection starts with one preamble in each direction, which joins the two connections of a link. After
 * them come frames. Every frame starts with the same 12 bytes, little-endian, which carry a checksum of their
 * own, so that a length is known to be as it was sent before anything is done with it:
 *
 *   byte  0      kind
 *         1      channel
 *         2-3    bytes of the head     DATA, OFFER; the note of the last step: PING; milliseconds by which
 *                                      heartbeats are late: ECHO; else 0
 *         4-7    bytes of the body     DATA; number of receives that were posted: CREDIT; loans given back
 *                                      since the link began: RETURN; milliseconds since the last step: PING;
 *                                      heartbeats that came since the link began: ECHO; else 0
 *         8-11   CRC-32C of the above
 *
 * DATA is followed by the head, the body and 4 bytes: the CRC-32C of start, head and body. Where nothing can
 * damage a body unseen, within one machine or under TLS, the sender leaves it out of the sum: the frame is
 * light, and its kind is 4. Where the receiver can read the sender's memory the body need not travel at all:
 * the frame is lent, its kind is 5, and it says where the body lies. OFFER, AGREE and RETURN are about such
 * loans (tcp_cma.c).
 */
#ifndef RT_NET_FRAME_H
#define RT_NET_FRAME_H

#include "net/transport.h"

enum { RT_FRAME_BYTES = 12, RT_FRAME_TAIL_BYTES = 4, RT_MAX_CREDIT = 1 << 20 };

enum rt_frame_kind {
    RT_FRAME_DATA,
    RT_FRAME_CREDIT,
    RT_FRAME_PING,
    RT_FRAME_OFFER,
    RT_FRAME_AGREE,
    RT_FRAME_RETURN,
    RT_FRAME_ECHO /* the answer to heartbeats */
};

enum rt_frame_body {
    RT_BODY_SEALED, /* the checksum is of all */
    RT_BODY_LIGHT,  /* of start and head alone */
    RT_BODY_LENT,   /* a loan stands in the body's place; the checksum is of all */
};

struct rt_frame {
    enum rt_frame_kind kind;
    unsigned channel;
    uint32_t head_bytes;     /* DATA, OFFER */
    uint32_t body_bytes;     /* DATA */
    enum rt_frame_body body; /* DATA */
    uint32_t count;          /* CREDIT, RETURN, ECHO */
    uint16_t late;           /* ECHO: milliseconds; UINT16_MAX: as many or more */
    uint16_t note;           /* PING, as in rt_heartbeat; */
    uint32_t age;            /* milliseconds; UINT32_MAX: as many or more, or there was no step */
};

void rt_frame_encode(const struct rt_frame *frame, uint8_t bytes[RT_FRAME_BYTES]);

/* Refuses an invalid frame; the message goes after the peer's name. */
rt_status rt_frame_decode(const uint8_t bytes[RT_FRAME_BYTES], struct rt_frame *frame, struct rt_error *err);

/* The number of bytes after the start: head, body or loan, and checksum; 0 if there is neither. */
size_t rt_frame_following(const struct rt_frame *frame);

/* The address of a lent body in its sender's memory. */
struct rt_cma_offer {
    struct {
        uint64_t at;
        uint32_t bytes;
    } pieces[RT_PIECES];
};

/* The head of an offer: the process number, and the address at which the peer finds the answer to its
 * challenge: the challenge with every bit inverted. */
enum { RT_CHALLENGE_BYTES = 16 };

struct rt_offer {
    uint32_t process;
    uint64_t answer_at;
    uint8_t challenge[RT_CHALLENGE_BYTES];
};

enum { RT_CMA_OFFER_BYTES = 12 * RT_PIECES, RT_OFFER_BYTES = 12 + RT_CHALLENGE_BYTES };

void rt_cma_offer_encode(const struct rt_cma_offer *offer, uint8_t bytes[RT_CMA_OFFER_BYTES]);
rt_status rt_cma_offer_decode(const uint8_t bytes[RT_CMA_OFFER_BYTES], uint32_t body_bytes,
                              struct rt_cma_offer *offer, struct rt_error *err);
void rt_offer_encode(const struct rt_offer *offer, uint8_t bytes[RT_OFFER_BYTES]);
void rt_offer_decode(const uint8_t bytes[RT_OFFER_BYTES], struct rt_offer *offer);

/* The preamble. Up to the version number its layout stays the same in all versions; no TLS connection starts
 * with its first byte, so each side can tell them apart. */
enum { RT_PREAMBLE_BYTES = 28, RT_TOKEN_BYTES = 16, RT_LINK_VERSION = 5, RT_PREAMBLE_FIRST = 'R' };

enum rt_preamble_kind {
    RT_PREAMBLE_CONTROL = 1, /* the connection of the control channel */
    RT_PREAMBLE_DATA,        /* that of the others */
    RT_PREAMBLE_REFUSED,     /* in an answer: no, for the reason given */
};

enum rt_refusal {
    RT_REFUSED_NOTHING,
    RT_REFUSED_ENCRYPTION, /* one side has a cluster key and the other none */
    RT_REFUSED_VERSION,
    RT_REFUSED_BUSY, /* has reached its maximum number of links */
    RT_REFUSALS
};

struct rt_preamble {
    uint16_t version;
    enum rt_preamble_kind kind;
    enum rt_refusal refusal;
    uint8_t token[RT_TOKEN_BYTES]; /* the same for both connections of a link; the answer repeats it */
};

void rt_preamble_encode(const struct rt_preamble *preamble, uint8_t bytes[RT_PREAMBLE_BYTES]);

/* Another version is not an error here: version is set, and nothing else. */
rt_status rt_preamble_decode(const uint8_t bytes[RT_PREAMBLE_BYTES], struct rt_preamble *preamble,
                             struct rt_error *err);

#endif
