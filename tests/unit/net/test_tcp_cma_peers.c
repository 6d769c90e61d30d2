/*
 * Cross-memory attach against peers that break its rules, as plain sockets: the rules keep a peer from having
 * us read memory that is not its own, and from giving us a body that it has taken back.
 */
/* labels: threads */
#include "cma_rig.h"

#include "base/bytes.h"
#include "base/crc32c.h"
#include "raw_peer.h"
#include <signal.h>
#include <sys/mman.h>

/* A raw peer and the endpoint that it talks to, on whose FIRST channel one large receive is posted. */
struct borrower {
    struct rt_endpoint *endpoint;
    struct raw_link raw;
    struct rt_receive receive;
    struct rt_offer offer; /* the endpoint's */
    uint8_t body[LARGE], lent[LARGE], answer[RT_CHALLENGE_BYTES];
};

static struct borrower *make_borrower(struct rt_tcp_settings settings) {
    struct borrower *borrower = calloc(1, sizeof *borrower);
    need_lending();
    if (!borrower)
        exit(1);
    borrower->endpoint = listen_at_loopback(settings);
    if (!raw_join(borrower->endpoint, &borrower->raw))
        exit(1);
    borrower->receive = make_receive(RT_CHANNEL_FIRST, borrower->body, LARGE);
    rt_link_receive(borrower->raw.link, &borrower->receive);
    if (!raw_await_credit(borrower->raw.control))
        exit(1);
    fill_bytes(borrower->lent, LARGE, 3);
    return borrower;
}

static void destroy_borrower(struct borrower *borrower) {
    raw_leave(&borrower->raw);
    rt_endpoint_destroy(borrower->endpoint);
    free(borrower);
}

static void say_offer_of(struct borrower *borrower, pid_t process, const void *answer) {
    const struct rt_offer offer = {.process = (uint32_t)process, .answer_at = (uintptr_t)answer};
    uint8_t bytes[RT_FRAME_BYTES + RT_OFFER_BYTES + RT_FRAME_TAIL_BYTES];
    rt_frame_encode(&(struct rt_frame){.kind = RT_FRAME_OFFER, .head_bytes = RT_OFFER_BYTES}, bytes);
    rt_offer_encode(&offer, bytes + RT_FRAME_BYTES);
    rt_put_le32(bytes + RT_FRAME_BYTES + RT_OFFER_BYTES,
                rt_crc32c(0, bytes, RT_FRAME_BYTES + RT_OFFER_BYTES));
    raw_send(borrower->raw.control, bytes, sizeof bytes);
}

static void say_offer(struct borrower *borrower, const void *answer) {
    say_offer_of(borrower, getpid(), answer);
}

static void say(struct borrower *borrower, struct rt_frame frame) {
    uint8_t bytes[RT_FRAME_BYTES];
    rt_frame_encode(&frame, bytes);
    raw_send(borrower->raw.control, bytes, sizeof bytes);
}

/* The endpoint's next frame about cross-memory attach; an offer's challenge is answered in the given place.
 */
static bool hear(struct borrower *borrower, enum rt_frame_kind kind, uint8_t *answer) {
    uint8_t bytes[RT_FRAME_BYTES], following[RT_OFFER_BYTES + RT_FRAME_TAIL_BYTES];
    struct rt_frame frame = {.kind = RT_FRAME_PING};
    while (frame.kind == RT_FRAME_PING || frame.kind == RT_FRAME_ECHO || frame.kind == RT_FRAME_CREDIT)
        if (!raw_receive(borrower->raw.control, bytes, sizeof bytes) ||
            rt_frame_decode(bytes, &frame, NULL) != RT_OK ||
            !raw_receive(borrower->raw.control, following, rt_frame_following(&frame)))
            return false;
    if (frame.kind == RT_FRAME_OFFER) {
        rt_offer_decode(following, &borrower->offer);
        for (int i = 0; i < RT_CHALLENGE_BYTES; i++)
            answer[i] = (uint8_t)~borrower->offer.challenge[i];
    }
    return frame.kind == kind;
}

static bool agree(struct borrower *borrower) {
    say_offer(borrower, borrower->answer);
    if (!hear(borrower, RT_FRAME_OFFER, borrower->answer))
        return false;
    say(borrower, (struct rt_frame){.kind = RT_FRAME_AGREE});
    return hear(borrower, RT_FRAME_AGREE, NULL);
}

static void lend(struct borrower *borrower, const void *at, size_t bytes, size_t said) {
    uint8_t frame[RT_FRAME_BYTES + RT_CMA_OFFER_BYTES + RT_FRAME_TAIL_BYTES];
    const struct rt_cma_offer offer = {{{(uintptr_t)at, (uint32_t)bytes}}};
    rt_frame_encode(&(struct rt_frame){.kind = RT_FRAME_DATA,
                                       .channel = RT_CHANNEL_FIRST,
                                       .body_bytes = (uint32_t)said,
                                       .body = RT_BODY_LENT},
                    frame);
    rt_cma_offer_encode(&offer, frame + RT_FRAME_BYTES);
    rt_put_le32(frame + RT_FRAME_BYTES + RT_CMA_OFFER_BYTES,
                rt_crc32c(0, frame, RT_FRAME_BYTES + RT_CMA_OFFER_BYTES));
    raw_send(borrower->raw.data, frame, sizeof frame);
}

static void check_closed(struct borrower *borrower, const char *sentence) {
    REQUIRE(expect(borrower->endpoint, RT_EVENT_CLOSED));
    CHECK(says(sentence));
}

TEST(a_peer_by_the_rules_lends_and_is_told_when_it_is_taken) {
    struct borrower *borrower = make_borrower(cma);
    REQUIRE(agree(borrower));
    lend(borrower, borrower->lent, LARGE, LARGE);
    REQUIRE(expect(borrower->endpoint, RT_EVENT_RECEIVED));
    CHECK(borrower->receive.body_bytes == LARGE && memcmp(borrower->body, borrower->lent, LARGE) == 0);
    CHECK(hear(borrower, RT_FRAME_RETURN, NULL));
    destroy_borrower(borrower);
}

TEST(without_the_right_answer_nothing_is_borrowed) {
    struct borrower *borrower = make_borrower(cma);
    say_offer(borrower, borrower->answer);
    REQUIRE(hear(borrower, RT_FRAME_OFFER, borrower->answer));
    borrower->answer[7] ^= 1;
    say(borrower, (struct rt_frame){.kind = RT_FRAME_AGREE});
    lend(borrower, borrower->lent, LARGE, LARGE);
    check_closed(borrower, "offered memory without an agreement on cross-memory attach");
    destroy_borrower(borrower);
}

TEST(our_own_process_is_not_offered_to_us) {
    struct borrower *borrower = make_borrower((struct rt_tcp_settings){0});
    say_offer(borrower, borrower->answer);
    lend(borrower, borrower->lent, LARGE, LARGE);
    check_closed(borrower, "offered memory without an agreement on cross-memory attach");
    destroy_borrower(borrower);
}

/* A peer can place the right answer in the memory of a third process, by sending it there. */
TEST(a_third_process_is_not_read_on_a_peers_word) {
    void *everybodys =
        mmap(NULL, RT_CHALLENGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    REQUIRE(everybodys != MAP_FAILED);
    need_lending_to_a_child();
    pid_t third = fork();
    if (third == 0) {
        pause();
        _exit(0);
    }
    struct borrower *borrower = make_borrower(
        (struct rt_tcp_settings){.cma = RT_LENDS_TO_ITSELF, .heartbeat_seconds = 10, .silence_seconds = 40});
    struct pollfd look = {.fd = borrower->raw.control, .events = POLLIN}; /* no sign of life comes so soon */
    say_offer_of(borrower, third, everybodys);
    if (poll(&look, 1, 100) == 1 && hear(borrower, RT_FRAME_OFFER, everybodys)) {
        say(borrower, (struct rt_frame){.kind = RT_FRAME_AGREE});
        CHECK(!hear(borrower, RT_FRAME_AGREE, NULL));
    }
    lend(borrower, borrower->lent, LARGE, LARGE);
    check_closed(borrower, "offered memory without an agreement on cross-memory attach");
    destroy_borrower(borrower);
    kill(third, SIGKILL);
    waitpid(third, NULL, 0);
    munmap(everybodys, RT_CHALLENGE_BYTES);
}

TEST(what_was_taken_back_is_not_delivered) {
    struct borrower *borrower = make_borrower(cma);
    REQUIRE(agree(borrower));
    memset(borrower->answer, 0, sizeof borrower->answer);
    lend(borrower, borrower->lent, LARGE, LARGE);
    shutdown(borrower->raw.control, SHUT_WR);
    check_closed(borrower, "closed the connection");
    CHECK(is_quiet(borrower->endpoint, 0));
    destroy_borrower(borrower);
}

/* What was sent arrives, whatever lies before it on the connection. */
TEST(what_was_sent_behind_a_loan_that_was_taken_back_arrives) {
    struct pair pair;
    need_lending();
    REQUIRE(make_pair(cma, &pair) && comes_to_lend(&pair));
    uint8_t *body = calloc(2, LARGE);
    struct rt_receive large = make_receive(RT_CHANNEL_BULK, body, LARGE),
                      next = make_receive(RT_CHANNEL_BULK, NULL, 0),
                      small = make_receive(RT_CHANNEL_FIRST, NULL, 0);
    struct rt_send offer = make_send(RT_CHANNEL_BULK, "", body + LARGE, LARGE),
                   behind = make_send(RT_CHANNEL_BULK, "", NULL, 0),
                   beside = make_send(RT_CHANNEL_FIRST, "", NULL, 0);
    rt_link_receive(pair.ba, &large);
    rt_link_receive(pair.ba, &next);
    rt_link_receive(pair.ba, &small);
    CHECK(is_quiet(pair.a, 0.05));    /* what may be sent is known */
    rt_endpoint_attend(pair.b, true); /* and from here on b does nothing */
    rt_link_send(pair.ab, &offer);
    rt_link_send(pair.ab, &behind);
    CHECK(is_quiet(pair.a, 0.05));
    rt_link_send(pair.ab, &beside);
    REQUIRE(expect(pair.a, RT_EVENT_SENT) && event.send == &beside);
    rt_link_close(pair.ab);
    REQUIRE(expect(pair.b, RT_EVENT_RECEIVED) && event.receive == &small);
    REQUIRE(expect(pair.b, RT_EVENT_CLOSED));
    CHECK(says("closed the connection"));
    rt_endpoint_attend(pair.b, false);
    destroy_pair(&pair);
    free(body);
}

TEST(loans_that_cannot_be_are_refused) {
    void *hidden = mmap(NULL, LARGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(hidden != MAP_FAILED);
    struct borrower *borrower = make_borrower(cma);
    REQUIRE(agree(borrower));
    lend(borrower, hidden, LARGE, LARGE);
    check_closed(borrower, "its memory cannot be read: Bad address");
    destroy_borrower(borrower);

    borrower = make_borrower(cma);
    REQUIRE(agree(borrower));
    lend(borrower, borrower->lent, LARGE, LARGE - 1);
    check_closed(borrower, "offered 1048576 bytes of memory as a body of 1048575");
    destroy_borrower(borrower);

    borrower = make_borrower(cma);
    REQUIRE(agree(borrower));
    lend(borrower, borrower->lent, LARGE + 1, LARGE + 1);
    check_closed(borrower, "where there is room for 1048576");
    destroy_borrower(borrower);
    munmap(hidden, LARGE);
}

TEST(words_out_of_turn_close_the_link) {
    struct borrower *borrower = make_borrower(cma);
    say(borrower, (struct rt_frame){.kind = RT_FRAME_AGREE});
    check_closed(borrower, "accepted an offer that was not made");
    destroy_borrower(borrower);

    borrower = make_borrower(cma);
    REQUIRE(agree(borrower));
    say(borrower, (struct rt_frame){.kind = RT_FRAME_AGREE});
    check_closed(borrower, "accepted an offer that was not made");
    destroy_borrower(borrower);

    borrower = make_borrower(cma);
    REQUIRE(agree(borrower));
    say_offer(borrower, borrower->answer);
    check_closed(borrower, "offered cross-memory attach when it was not its turn");
    destroy_borrower(borrower);

    borrower = make_borrower(cma);
    REQUIRE(agree(borrower));
    say(borrower, (struct rt_frame){.kind = RT_FRAME_RETURN, .channel = RT_CHANNEL_FIRST, .count = 1});
    check_closed(borrower, "returned a buffer on channel 1 that it had not been given");
    destroy_borrower(borrower);
}

/* Told on two connections, of which one may be late. */
TEST(what_is_known_to_be_returned_may_be_told_again) {
    struct borrower *borrower = make_borrower(cma);
    struct rt_send sends[2];
    REQUIRE(agree(borrower));
    for (int i = 0; i < 2; i++) {
        sends[i] = make_send(RT_CHANNEL_SECOND, "", borrower->lent, LARGE);
        rt_link_send(borrower->raw.link, &sends[i]);
    }
    say(borrower, (struct rt_frame){.kind = RT_FRAME_CREDIT, .channel = RT_CHANNEL_SECOND, .count = 2});
    uint8_t frames[2 * (RT_FRAME_BYTES + RT_CMA_OFFER_BYTES + RT_FRAME_TAIL_BYTES)];
    REQUIRE(raw_receive(borrower->raw.data, frames, sizeof frames));
    CHECK(is_quiet(borrower->endpoint, 0.05)); /* not sent before they are returned */
    const uint32_t told[] = {1, 1, 0, 2, 1};
    for (size_t i = 0; i < sizeof told / sizeof *told; i++)
        say(borrower,
            (struct rt_frame){.kind = RT_FRAME_RETURN, .channel = RT_CHANNEL_SECOND, .count = told[i]});
    for (int i = 0; i < 2; i++) {
        REQUIRE(expect(borrower->endpoint, RT_EVENT_SENT));
        CHECK(event.send == &sends[i]);
    }
    CHECK(is_quiet(borrower->endpoint, 0.05));
    destroy_borrower(borrower);
}

enum { LOAN_FRAME = RT_FRAME_BYTES + RT_CMA_OFFER_BYTES + RT_FRAME_TAIL_BYTES };

/* Whether the next frames of a connection are these. */
static bool hear_frame(int fd, enum rt_frame_kind kind, unsigned channel, uint32_t count) {
    uint8_t bytes[LOAN_FRAME];
    struct rt_frame frame;
    return raw_receive(fd, bytes, RT_FRAME_BYTES) && rt_frame_decode(bytes, &frame, NULL) == RT_OK &&
           rt_frame_following(&frame) <= sizeof bytes && raw_receive(fd, bytes, rt_frame_following(&frame)) &&
           frame.kind == kind && frame.channel == channel && frame.count == count;
}

/* A lender that ends the link has wiped its answer before its owner has the memory back: our challenge was
 * all zeros, so the answer all ones. */
TEST(who_ends_a_link_wipes_the_answer) {
    struct borrower *borrower = make_borrower(cma);
    uint8_t answer[RT_CHALLENGE_BYTES], right[RT_CHALLENGE_BYTES];
    REQUIRE(agree(borrower));
    const struct iovec there = {(void *)(uintptr_t)borrower->offer.answer_at, sizeof answer};
    const struct iovec here = {answer, sizeof answer};
    memset(right, 0xff, sizeof right);
    CHECK(process_vm_readv(getpid(), &here, 1, &there, 1, 0) == sizeof answer);
    CHECK(memcmp(answer, right, sizeof right) == 0);
    say(borrower, (struct rt_frame){.kind = RT_FRAME_AGREE}); /* against the rules */
    check_closed(borrower, "accepted an offer that was not made");
    CHECK(process_vm_readv(getpid(), &here, 1, &there, 1, 0) == sizeof answer);
    CHECK(memcmp(answer, right, sizeof right) != 0);
    destroy_borrower(borrower);
}

/* So that the answer to a message is not heard of before the message's own end, also where the connection
 * that has told of it already is slower. */
TEST(a_return_goes_before_the_next_frame_on_each_connection) {
    struct borrower *borrower = make_borrower(cma);
    struct rt_send send = make_send(RT_CHANNEL_SECOND, "", NULL, 0);
    REQUIRE(agree(borrower));
    lend(borrower, borrower->lent, LARGE, LARGE);
    REQUIRE(expect(borrower->endpoint, RT_EVENT_RECEIVED));
    CHECK(hear(borrower, RT_FRAME_RETURN, NULL));
    rt_link_send(borrower->raw.link, &send);
    say(borrower, (struct rt_frame){.kind = RT_FRAME_CREDIT, .channel = RT_CHANNEL_SECOND, .count = 1});
    CHECK(hear_frame(borrower->raw.data, RT_FRAME_RETURN, RT_CHANNEL_FIRST, 1));
    CHECK(hear_frame(borrower->raw.data, RT_FRAME_DATA, RT_CHANNEL_SECOND, 0));
    destroy_borrower(borrower);
}

/* An attending owner may be away for a while after it was told. */
TEST(a_return_does_not_wait_for_an_owner_who_attends) {
    struct borrower *borrower = make_borrower(cma);
    REQUIRE(agree(borrower));
    rt_endpoint_attend(borrower->endpoint, true);
    lend(borrower, borrower->lent, LARGE, LARGE);
    REQUIRE(expect(borrower->endpoint, RT_EVENT_RECEIVED));
    CHECK(hear(borrower, RT_FRAME_RETURN, NULL));
    rt_endpoint_attend(borrower->endpoint, false);
    destroy_borrower(borrower);
}

TEST(little_is_lent_ahead) {
    struct borrower *borrower = make_borrower(cma);
    struct pollfd look = {.fd = borrower->raw.data, .events = POLLIN};
    struct rt_send sends[4];
    REQUIRE(agree(borrower));
    for (int i = 0; i < 4; i++) {
        sends[i] = make_send(RT_CHANNEL_SECOND, "", borrower->lent, LARGE);
        rt_link_send(borrower->raw.link, &sends[i]);
    }
    say(borrower, (struct rt_frame){.kind = RT_FRAME_CREDIT, .channel = RT_CHANNEL_SECOND, .count = 4});
    for (uint32_t taken = 0; taken < 2; taken++) {
        for (int i = taken > 0; i < 2; i++)
            CHECK(hear_frame(borrower->raw.data, RT_FRAME_DATA, RT_CHANNEL_SECOND, 0));
        CHECK(poll(&look, 1, 50) == 0); /* the next one waits for a return */
        say(borrower,
            (struct rt_frame){.kind = RT_FRAME_RETURN, .channel = RT_CHANNEL_SECOND, .count = taken + 1});
    }
    CHECK(hear_frame(borrower->raw.data, RT_FRAME_DATA, RT_CHANNEL_SECOND, 0));
    destroy_borrower(borrower);
}

TEST_MAIN()
