/*
 * Bodies that the receiver reads from the sender's memory. The system may allow two processes of one
 * machine to read each other's memory (process_vm_readv: the same user, no sandbox between them). Then a
 * large body need not pass through a socket, which copies it twice and costs several times as much: its
 * frame has its address, the receiver's network thread copies it to its destination and reports that to
 * the sender, and the send is done. Small bodies are sent, and so is everything where this does not work.
 *
 * Negotiation: the side that connected makes an offer with its process number, an address, and a
 * challenge. The other side puts its answer, the challenge with every bit inverted, into its own memory,
 * and makes an offer too. Each checks that it can read the right answer in the other's memory, the side
 * that connected first, and agrees if so. The answer proves access to that memory. It does not prove whose
 * memory it is: a peer can place its words in the memory of a third process by sending them there. So the
 * process must also be the one that has the other end of our connection open, as the system reports it.
 * Our own process is never read on a peer's word. Offers are made only to processes of our own user with
 * our own address: other peers learn no addresses.
 *
 * A sender that ends the link takes its memory back at once, though the receiver may be about to read it.
 * So it clears its answer first, and a receiver checks the answer after it has read a body: if the answer
 * is still there, the memory was still lent when it was read.
 *
 * The receiver reports the number of all loans returned so far, on the control connection at once and on
 * the data connection before the next frame. So the answer to a message never arrives before the message's
 * own completion, on either connection. And sends of one channel complete in order: one that was sent
 * behind a loan waits for its return.
 */
#define _GNU_SOURCE /* process_vm_readv */
#include "net/tcp_parts.h"

#include "base/bytes.h"
#include "base/crc32c.h"
#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

enum {
    /* Below this size the second message costs more than the copies. A bare all-reduce gains only from some
     * 400 KiB on, but a worker that computes at the same time gains sooner: less of its core goes into
     * copying. */
    SMALLEST_LOAN = 64 << 10,
    /* Lent frames do not wait in the socket, so this bounds how far frames of a lower-priority channel may
     * get ahead: one that is being read, and one more so that the reader need not wait. */
    LOANS_AT_ONCE = 2,
    LENT_AT_ONCE = 1 << 20, /* bytes; smaller bodies may exceed the count */
};

/* ---- the other process's memory ---- */

static bool cma_read_memory(uint32_t process, uint64_t at, void *to, size_t bytes) {
#if defined(__linux__)
    uint8_t *next = to;
    while (bytes > 0) {
        struct iovec here = {next, bytes}, there = {(void *)(uintptr_t)at, bytes};
        ssize_t n = at <= UINTPTR_MAX ? process_vm_readv((pid_t)process, &here, 1, &there, 1, 0) : 0;
        if (n <= 0) {
            errno = n < 0 ? errno : EFAULT;
            return false;
        }
        next += n;
        at += (uint64_t)n;
        bytes -= (size_t)n;
    }
    return true;
#else
    (void)process, (void)at, (void)to, (void)bytes;
    errno = ENOSYS;
    return false;
#endif
}

enum sight { ANSWERED, NOT_ANSWERED, NO_SIGHT /* errno: why */ };

static enum sight cma_check_answer(const struct rt_cma_state *cma) {
    uint8_t answer[RT_CHALLENGE_BYTES];
    if (!cma_read_memory(cma->peer.process, cma->peer.answer_at, answer, sizeof answer))
        return errno == ESRCH || errno == EFAULT ? NOT_ANSWERED : NO_SIGHT; /* it has ended, or is about to */
    uint8_t wrong = 0;
    for (size_t i = 0; i < sizeof answer; i++)
        wrong |= (uint8_t)(answer[i] ^ cma->ours.challenge[i] ^ 0xff);
    return wrong == 0 ? ANSWERED : NOT_ANSWERED;
}

/* Reads the next part of a body, at most so many bytes. */
static bool cma_read_part(const struct rt_cma_state *cma, const struct rt_cma_offer *offer, uint8_t *body,
                          size_t *fetched, size_t most) {
    size_t skip = *fetched;
    for (size_t i = 0; i < RT_PIECES && most > 0; i++) {
        const size_t skipped = skip < offer->pieces[i].bytes ? skip : offer->pieces[i].bytes;
        const size_t left = offer->pieces[i].bytes - skipped, n = left < most ? left : most;
        skip -= skipped;
        if (n > 0 && !cma_read_memory(cma->peer.process, offer->pieces[i].at + skipped, body + *fetched, n))
            return false;
        *fetched += n;
        most -= n;
    }
    return true;
}

rt_status rt_cma_fetch(struct rt_tcp_link *link, const uint8_t loan_bytes[RT_CMA_OFFER_BYTES],
                       struct rt_receive *receive, uint32_t bytes, size_t *fetched, size_t *budget,
                       struct rt_error *err) {
    struct rt_cma_state *cma = &link->cma;
    struct rt_cma_offer offer;
    rt_status status = rt_cma_offer_decode(loan_bytes, bytes, &offer, err);
    if (status != RT_OK)
        return status;
    const size_t before = *fetched;
    const bool whole = cma_read_part(cma, &offer, receive->body, fetched, *budget);
    const int error = errno;
    *budget -= *fetched - before;
    if (whole && *fetched < bytes)
        return RT_OK;
    atomic_thread_fence(memory_order_seq_cst); /* the answer is looked for after the body was read */
    const enum sight sight = cma_check_answer(cma);
    if (sight == NO_SIGHT)
        return rt_fail(err, RT_BAD_INPUT, "its memory can no longer be read: %s", strerror(errno));
    if (sight == NOT_ANSWERED)
        return rt_fail(err, RT_IO, "closed the connection");
    if (!whole)
        return rt_fail(err, RT_BAD_INPUT, "its memory cannot be read: %s", strerror(error));
    cma->taken[receive->channel]++;
    return RT_OK;
}

/* ---- negotiation ---- */

/* Finds out which process is at the other end, and whether it belongs to our own user. The system is asked
 * only about peers that we have called or that offer something. */
static bool cma_identify_peer(struct rt_tcp_link *link) {
    return rt_owner_find(link->lanes[RT_LANE_CONTROL]->stream.fd, &link->cma.owner) &&
           link->cma.owner.user == geteuid();
}

void rt_cma_begin(struct rt_tcp_link *link, bool initiator) {
    const struct rt_tcp *tcp = (const struct rt_tcp *)link->base.endpoint;
    struct rt_cma_state *cma = &link->cma;
    cma->begins = initiator;
    cma->ours.process = (uint32_t)getpid();
    cma->ours.answer_at = (uintptr_t)cma->answer;
    cma->willing = tcp->cma != RT_LENDS_NOTHING && link->lanes[RT_LANE_CONTROL]->stream.local &&
                   (!initiator || cma_identify_peer(link)) &&
                   getrandom(cma->ours.challenge, RT_CHALLENGE_BYTES, GRND_NONBLOCK) == RT_CHALLENGE_BYTES;
    cma->offer_due = cma->willing && initiator;
}

void rt_cma_end(struct rt_tcp_link *link) {
    memset(&link->cma, 0, sizeof link->cma);
    atomic_thread_fence(memory_order_seq_cst); /* before anything that was lent is written to */
}

static void cma_check_peer(struct rt_tcp_link *link) {
    struct rt_cma_state *cma = &link->cma;
    cma->borrows = cma_check_answer(cma) == ANSWERED;
    cma->agree_due = cma->borrows;
}

rt_status rt_cma_offered(struct rt_tcp_link *link, struct rt_error *err) {
    const struct rt_tcp *tcp = (const struct rt_tcp *)link->base.endpoint;
    struct rt_cma_state *cma = &link->cma;
    if (cma->answered || (cma->begins && !cma->offered))
        return rt_fail(err, RT_BAD_INPUT, "offered cross-memory attach when it was not its turn");
    rt_offer_decode(cma->room.head, &cma->peer);
    cma->answered = true;
    if (!cma->willing || (!cma->begins && !cma_identify_peer(link)) ||
        (cma->peer.process == cma->ours.process && tcp->cma != RT_LENDS_TO_ITSELF) ||
        !rt_owner_is(&cma->owner, cma->peer.process))
        return RT_OK; /* the peer gets no agreement, and sends its bodies */
    for (size_t i = 0; i < RT_CHALLENGE_BYTES; i++)
        cma->answer[i] = cma->peer.challenge[i] ^ 0xff;
    if (cma->begins)
        cma_check_peer(link);
    else
        cma->offer_due = true;
    return RT_OK;
}

static rt_status cma_agree(struct rt_tcp_link *link, struct rt_error *err) {
    struct rt_cma_state *cma = &link->cma;
    if (!cma->offered || !cma->answered || cma->lends)
        return rt_fail(err, RT_BAD_INPUT, "accepted an offer that was not made");
    cma->lends = true;
    if (!cma->begins)
        cma_check_peer(link);
    return RT_OK;
}

/* ---- loans ---- */

static bool cma_is_loan(const struct rt_send *send) {
    return rt_send_body(send) >= SMALLEST_LOAN;
}

/* The control channel lends nothing: it must not wait for the loans of others. */
bool rt_cma_suits(const struct rt_tcp_link *link, const struct rt_send *send) {
    return link->cma.lends && send->channel != RT_CHANNEL_CONTROL && cma_is_loan(send);
}

bool rt_cma_is_full(const struct rt_tcp_link *link) {
    return link->cma.offers >= LOANS_AT_ONCE && link->cma.lent_bytes >= LENT_AT_ONCE;
}

void rt_cma_written(struct rt_tcp_link *link, struct rt_send *send, bool lent) {
    struct rt_cma_state *cma = &link->cma;
    struct rt_send_queue *waiting = &cma->waiting[send->channel];
    if (lent) {
        cma->offers++;
        cma->lent_bytes += rt_send_body(send);
        cma->lent_count[send->channel]++;
    }
    if (lent || waiting->first)
        rt_send_push(waiting, send);
    else
        rt_tcp_tell_sent(link, send);
}

/* Completes the first waiting send, and those behind it that were sent. */
static void cma_take_back(struct rt_tcp_link *link, unsigned channel) {
    struct rt_cma_state *cma = &link->cma;
    struct rt_send_queue *waiting = &cma->waiting[channel];
    cma->given_back[channel]++;
    cma->offers--;
    cma->lent_bytes -= rt_send_body(waiting->first);
    do
        rt_tcp_tell_sent(link, rt_send_pop(waiting));
    while (waiting->first && !cma_is_loan(waiting->first));
}

/* Both connections report returns: the slower one repeats what is known. */
static rt_status cma_count_returned(struct rt_tcp_link *link, unsigned channel, uint32_t count,
                                    struct rt_error *err) {
    struct rt_cma_state *cma = &link->cma;
    const uint32_t more = count - cma->given_back[channel];
    if (more > UINT32_MAX / 2)
        return RT_OK;
    if (more > cma->lent_count[channel] - cma->given_back[channel])
        return rt_fail(err, RT_BAD_INPUT, "returned a buffer on channel %u that it had not been given",
                       channel);
    while (cma->given_back[channel] != count)
        cma_take_back(link, channel);
    return RT_OK;
}

rt_status rt_cma_frame(struct rt_tcp_link *link, const struct rt_frame *frame, struct rt_error *err) {
    if (frame->kind == RT_FRAME_AGREE)
        return cma_agree(link, err);
    return cma_count_returned(link, frame->channel, frame->count, err);
}

/* ---- frames ---- */

bool rt_cma_has_frames(const struct rt_tcp_link *link, enum rt_lane lane) {
    const struct rt_cma_state *cma = &link->cma;
    bool any = lane == RT_LANE_CONTROL && (cma->offer_due || cma->agree_due);
    for (unsigned channel = 0; channel < RT_CHANNELS; channel++)
        any |= cma->taken[channel] != cma->said[lane][channel];
    return any;
}

static size_t cma_write_offer(const struct rt_offer *offer, uint8_t *bytes) {
    rt_frame_encode(&(struct rt_frame){.kind = RT_FRAME_OFFER, .head_bytes = RT_OFFER_BYTES}, bytes);
    rt_offer_encode(offer, bytes + RT_FRAME_BYTES);
    rt_put_le32(bytes + RT_FRAME_BYTES + RT_OFFER_BYTES,
                rt_crc32c(0, bytes, RT_FRAME_BYTES + RT_OFFER_BYTES));
    return RT_FRAME_BYTES + RT_OFFER_BYTES + RT_FRAME_TAIL_BYTES;
}

size_t rt_cma_frames(struct rt_tcp_link *link, enum rt_lane lane, uint8_t *bytes) {
    struct rt_cma_state *cma = &link->cma;
    size_t count = 0;
    for (unsigned channel = 0; channel < RT_CHANNELS; channel++) {
        if (cma->taken[channel] == cma->said[lane][channel])
            continue;
        cma->said[lane][channel] = cma->taken[channel];
        rt_frame_encode(
            &(struct rt_frame){.kind = RT_FRAME_RETURN, .channel = channel, .count = cma->taken[channel]},
            bytes + count);
        count += RT_FRAME_BYTES;
    }
    if (lane != RT_LANE_CONTROL)
        return count;
    if (cma->offer_due) {
        count += cma_write_offer(&cma->ours, bytes + count);
        cma->offer_due = false;
        cma->offered = true;
    }
    if (cma->agree_due) {
        rt_frame_encode(&(struct rt_frame){.kind = RT_FRAME_AGREE}, bytes + count);
        count += RT_FRAME_BYTES;
        cma->agree_due = false;
    }
    return count;
}
