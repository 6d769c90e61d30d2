/* Streams: where they come from, what is refused, waking, failing, closing, memory. */
/* labels: threads */
#include "base/clock.h"
#include "stream_rig.h"
#include "support/counting.h"
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>

static const char three[] = "1,2,0\n3,4,1\n5,6,2\n";

/* Takes everything and compares it with `three`. */
static void check_three(struct rt_stream *stream, struct waiter *waiter) {
    struct rt_error err;
    float x[8];
    int32_t classes[4];
    size_t taken = 0, all = 0;
    do {
        CHECK_OK(take(stream, waiter, 2, x + 2 * all, classes + all, NULL, &taken, &err));
        all += taken;
    } while (taken > 0 && all < 3);
    CHECK(all == 3);
    for (int i = 0; i < 3; i++)
        CHECK(x[2 * i] == (float)(2 * i + 1) && x[2 * i + 1] == (float)(2 * i + 2) && classes[i] == i);
    CHECK_OK(take(stream, waiter, 2, x, classes, NULL, &taken, &err));
    CHECK(taken == 0 && rt_stream_ended(stream));
    struct rt_stream_counters counters = rt_stream_counters(stream);
    CHECK(counters.read == 3 && counters.taken == 3 && counters.dropped == 0);
}

static void check_source(const char *yaml) {
    struct rt_error err;
    struct waiter waiter = WAITER;
    struct rt_stream *stream;
    struct rt_data_wish wish = rt_test_wish(2, 3);
    CHECK_OK(open_stream(yaml, &wish, 0, &waiter, &stream, &err));
    check_three(stream, &waiter);
    rt_stream_close(stream);
}

/* A sender on a thread of its own. */
struct sender {
    pthread_t thread;
    const char *path; /* a FIFO to open, or NULL */
    int fd;           /* else where to write; a listening socket when `accepts` */
    bool accepts;
    const void *data;
    size_t bytes;
};

static void *sender_main(void *argument) {
    struct sender *sender = argument;
    int fd = sender->path      ? open(sender->path, O_WRONLY)
             : sender->accepts ? accept(sender->fd, NULL, NULL)
                               : sender->fd;
    send_all(fd, sender->data, sender->bytes);
    close(fd);
    return NULL;
}

static void start(struct sender *sender) {
    if (pthread_create(&sender->thread, NULL, sender_main, sender) != 0)
        exit(1);
}

/* A socket on loopback, and its port. */
static int listening(unsigned *port) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t bytes = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&at, bytes) != 0 || listen(fd, 1) != 0 ||
        getsockname(fd, (struct sockaddr *)&at, &bytes) != 0)
        exit(1);
    *port = ntohs(at.sin_port);
    return fd;
}

static int connected(const char *address) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    at.sin_port = htons((uint16_t)atoi(strrchr(address, ':') + 1));
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&at, sizeof at) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

TEST(file) {
    rt_test_write_text("a.csv", three);
    check_source("stream: a.csv");
    check_source("stream: {from: a.csv, buffer: 2}");
}

TEST(standard_input) {
    int fd = pipe_to_standard();
    REQUIRE(fd >= 0);
    send_text(fd, three);
    close(fd);
    check_source("stream: {from: \"-\"}");
    CHECK(fcntl(STDIN_FILENO, F_GETFD) >= 0); /* still open, and at its end */
}

TEST(fifo) {
    struct sender sender = {.path = rt_test_path("pipe"), .data = three, .bytes = strlen(three)};
    REQUIRE(mkfifo(sender.path, 0600) == 0);
    start(&sender);
    check_source("stream: {from: pipe, format: csv}");
    pthread_join(sender.thread, NULL);
}

/* The stream is there first, and a writer that opens the FIFO later is not missed. */
TEST(fifo_waits_for_its_writer) {
    struct rt_error err;
    struct waiter waiter = WAITER;
    struct rt_stream *stream;
    struct rt_data_wish wish = rt_test_wish(2, 3);
    REQUIRE(mkfifo(rt_test_path("pipe"), 0600) == 0);
    CHECK_OK(open_stream("stream: pipe", &wish, 0, &waiter, &stream, &err));
    nap();
    CHECK(!rt_stream_ended(stream));
    int fd = open(rt_test_path("pipe"), O_WRONLY);
    send_text(fd, three);
    close(fd);
    check_three(stream, &waiter);
    rt_stream_close(stream);
}

TEST(tcp_connect) {
    unsigned port;
    struct sender sender = {.accepts = true, .data = three, .bytes = strlen(three)};
    char yaml[80];
    sender.fd = listening(&port);
    start(&sender);
    snprintf(yaml, sizeof yaml, "stream: {from: \"tcp:127.0.0.1:%u\"}", port);
    check_source(yaml);
    pthread_join(sender.thread, NULL);
}

TEST(tcp_listen) {
    struct rt_error err;
    struct waiter waiter = WAITER;
    struct rt_stream *stream;
    struct rt_data_wish wish = rt_test_wish(2, 3);
    CHECK_OK(open_stream("stream: {from: \"listen:127.0.0.1:0\"}", &wish, 0, &waiter, &stream, &err));
    CHECK(strncmp(rt_stream_address(stream), "127.0.0.1:", 10) == 0);
    int fd = connected(rt_stream_address(stream));
    REQUIRE(fd >= 0);
    send_text(fd, "1,2,0\n");
    AWAIT(rt_stream_count(stream) == 1);
    CHECK(connected(rt_stream_address(stream)) < 0); /* one sender only */
    send_text(fd, three + 6);
    close(fd);
    check_three(stream, &waiter);
    rt_stream_close(stream);
}

TEST(sender_breaks_off) {
    struct rt_error err;
    struct waiter waiter = WAITER;
    struct rt_stream *stream;
    struct rt_data_wish wish = rt_test_wish(2, 3);
    float x[4];
    int32_t classes[2];
    size_t taken;
    CHECK_OK(open_stream("stream: {from: \"listen:127.0.0.1:0\"}", &wish, 0, &waiter, &stream, &err));
    int fd = connected(rt_stream_address(stream));
    send_text(fd, "1,2,0\n");
    AWAIT(rt_stream_count(stream) == 1);
    struct linger at_once = {.l_onoff = 1};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    close(fd);
    CHECK(take(stream, &waiter, 2, x, classes, NULL, &taken, &err) == RT_IO);
    CHECK_MSG(strstr(err.text, "the sender is gone"), "%s", err.text);
    rt_stream_close(stream);
}

static void refused(const char *yaml, const char *sentence) {
    struct rt_error err = {.text = ""};
    struct rt_stream *stream;
    struct rt_data_wish wish = rt_test_wish(2, 3);
    rt_status status = open_stream(yaml, &wish, 0, NULL, &stream, &err);
    CHECK_MSG(status == RT_BAD_INPUT && strstr(err.text, "run.yaml:1") && strstr(err.text, sentence),
              "%s gave status %d: %s\n  expected: %s", yaml, (int)status, err.text, sentence);
    if (status == RT_OK)
        rt_stream_close(stream);
}

TEST(refused_sources) {
    unsigned port;
    char yaml[200];
    int fd = listening(&port);
    mkdir(rt_test_path("folder"), 0700);
    refused("csv: a.csv", "a stream is written like");
    refused("stream: {format: csv}", "from must be given");
    refused("stream: {from: \"-\", fromat: csv}", "'format'");
    refused("stream: {from: \"-\", overflow: lose}", "overflow");
    refused("stream: {from: \"-\", buffer: 0}", "buffer");
    refused("stream: {from: \"-\", separator: ab}", "separator must be one character");
    refused("stream: {from: \"-\", names: [a, b]}", "names: 2 class names, but the model has 3 outputs");
    refused("stream: nowhere.csv", "there is no file 'nowhere.csv'");
    refused("stream: folder", "is a directory");
    refused("stream: {from: \"tcp:127.0.0.1\"}", "'127.0.0.1' is not an address; write HOST:PORT");
    refused("stream: {from: \"tcp:127.0.0.1:70000\"}", "is not an address");
    refused("stream: {from: \"tcp:::1:80\"}", "is not an address");
    refused("stream: {from: \"tcp:no-such-host.invalid:80\"}", "no-such-host.invalid does not resolve");
    refused("stream: {from: \"listen:0.0.0.0:0\"}", "set `insecure: true` in the stream to allow that");
    refused("stream: {from: \"listen:[::]:0\"}", "set `insecure: true` in the stream to allow that");
    snprintf(yaml, sizeof yaml, "stream: {from: \"listen:127.0.0.1:%u\"}", port);
    refused(yaml, "address already in use");
    close(fd);
    snprintf(yaml, sizeof yaml, "stream: {from: \"tcp:127.0.0.1:%u\"}", port);
    refused(yaml, "cannot connect: ");
    struct rt_error err;
    struct rt_stream *stream;
    struct rt_data_wish wish = rt_test_wish(2, 3);
    CHECK_OK(
        open_stream("stream: {from: \"listen:0.0.0.0:0\", insecure: true}", &wish, 0, NULL, &stream, &err));
    rt_stream_close(stream);
    wish.input.dim[0] = (size_t)1 << 40; /* more than any machine has, found before it is taken */
    CHECK(open_stream("stream: \"-\"", &wish, 0, NULL, &stream, &err) != RT_OK);
}

/* A buffer smaller than what is taken at once would wait for ever. */
TEST(buffer_holds_a_batch) {
    struct rt_error err;
    struct waiter waiter = WAITER;
    struct rt_stream *stream;
    struct rt_data_wish wish = rt_test_wish(2, 3);
    float x[20];
    int32_t classes[10];
    size_t taken;
    rt_test_write_text("a.csv", three);
    CHECK_OK(open_stream("stream: {from: a.csv, buffer: 1}", &wish, 3, &waiter, &stream, &err));
    CHECK_OK(take(stream, &waiter, 3, x, classes, NULL, &taken, &err));
    CHECK(taken == 3 && classes[2] == 2);
    CHECK(rt_stream_take(stream, 4, NULL, NULL, x, classes, NULL, &taken, &err) == RT_FAILED);
    rt_stream_close(stream);
}

/* ---- waking, failing, closing -------------------------------------------------------------------------- */

TEST(wakes_once_when_enough_are_there) {
    struct rt_error err;
    struct waiter waiter = WAITER;
    struct rt_stream *stream;
    struct rt_data_wish wish = rt_test_wish(2, 3);
    float x[8];
    int32_t classes[4];
    size_t taken = 9;
    int fd = pipe_to_standard();
    CHECK_OK(open_stream("stream: \"-\"", &wish, 0, &waiter, &stream, &err));
    send_text(fd, three);
    AWAIT(rt_stream_count(stream) == 3);
    CHECK(wakes(&waiter) == 0); /* no wake was asked for */
    CHECK_OK(rt_stream_take(stream, 4, NULL, NULL, x, classes, NULL, &taken, &err));
    CHECK(taken == 0 && rt_stream_count(stream) == 3);
    /* An example is there as soon as its line is, whatever follows. */
    send_text(fd, "7,");
    nap();
    CHECK(wakes(&waiter) == 0);
    send_text(fd, "8,0"); /* read before its line end comes */
    for (int i = 0; i < 5; i++)
        nap();
    send_text(fd, "\n9");
    CHECK(await_wake(&waiter));
    CHECK_OK(rt_stream_take(stream, 4, NULL, NULL, x, classes, NULL, &taken, &err));
    CHECK(taken == 4 && x[6] == 7 && x[7] == 8);
    send_text(fd, ",1,1\n1,1,1\n");
    AWAIT(rt_stream_count(stream) == 2);
    CHECK(wakes(&waiter) == 1);
    CHECK_OK(rt_stream_take(stream, 3, NULL, NULL, x, classes, NULL, &taken, &err));
    CHECK(taken == 0);
    send_text(fd, "2,2,2"); /* no line end: that of the stream does */
    close(fd);
    CHECK(await_wake(&waiter) && wakes(&waiter) == 2);
    AWAIT(rt_stream_ended(stream));
    CHECK_OK(rt_stream_take(stream, 4, NULL, NULL, x, classes, NULL, &taken, &err));
    CHECK(taken == 3 && classes[2] == 2);
    CHECK(wakes(&waiter) == 2);
    rt_stream_close(stream);
}

TEST(gives_whole_batches_before_a_failure) {
    struct rt_error err;
    struct waiter waiter = WAITER;
    struct rt_stream *stream;
    struct rt_data_wish wish = rt_test_wish(2, 3);
    float x[4];
    int32_t classes[2];
    size_t taken;
    rt_test_write_text("a.csv", "1,2,0\n3,4,1\n5,6,2\n7,8\n9,9,1\n");
    CHECK_OK(open_stream("stream: a.csv", &wish, 0, &waiter, &stream, &err));
    CHECK_OK(take(stream, &waiter, 2, x, classes, NULL, &taken, &err));
    CHECK(taken == 2 && x[3] == 4);
    CHECK(take(stream, &waiter, 2, x, classes, NULL, &taken, &err) == RT_BAD_INPUT);
    CHECK_MSG(strstr(err.text, "a.csv:4: this line has 2 fields, but an example 3 (2 inputs and the class)"),
              "%s", err.text);
    CHECK(rt_stream_count(stream) == 1 && rt_stream_ended(stream));
    rt_stream_close(stream);
}

static void check_close(const char *yaml, const char *text) {
    struct rt_error err;
    struct waiter waiter = WAITER;
    struct rt_stream *stream;
    struct rt_data_wish wish = rt_test_wish(2, 3);
    int fd = pipe_to_standard();
    CHECK_OK(open_stream(yaml, &wish, 0, &waiter, &stream, &err));
    send_text(fd, text);
    nap();
    double before = rt_clock_wall();
    rt_stream_close(stream);
    CHECK_MSG(rt_clock_wall() - before < 1, "%s: closing took %g s", yaml, rt_clock_wall() - before);
    CHECK(wakes(&waiter) == 0);
    close(fd);
}

TEST(closes_at_once) {
    mkfifo(rt_test_path("pipe"), 0600);
    check_close("stream: \"-\"", "");
    check_close("stream: \"-\"", "1,2");
    check_close("stream: {from: \"-\", buffer: 1}", three); /* the reader waits for room */
    check_close("stream: pipe", "");                        /* without a writer */
    check_close("stream: {from: \"listen:127.0.0.1:0\"}", "");
    unsigned port;
    char yaml[80];
    int fd = listening(&port);
    snprintf(yaml, sizeof yaml, "stream: {from: \"tcp:127.0.0.1:%u\"}", port);
    check_close(yaml, "");
    close(fd);
    rt_stream_close(NULL);
}

TEST(takes_no_memory_once_open) {
    need_counting();
    struct rt_error err;
    struct waiter waiter = WAITER;
    struct rt_stream *stream;
    struct rt_data_wish wish = rt_test_wish(2, 3);
    float x[6];
    int32_t classes[3];
    size_t taken = 1;
    int fd = pipe_to_standard();
    CHECK_OK(open_stream("stream: {from: \"-\", buffer: 4}", &wish, 3, &waiter, &stream, &err));
    long before = allocations;
    size_t bytes = allocated;
    for (int i = 0; i < 1000; i++) {
        send_text(fd, three);
        CHECK_OK(take(stream, &waiter, 3, x, classes, NULL, &taken, &err));
    }
    /* Numbers with many digits, a long line with many fields, and a failure. */
    send_text(fd, "3.14159265358979323846264338327950288,1e-300,\"2\"\n");
    CHECK_OK(take(stream, &waiter, 1, x, classes, NULL, &taken, &err));
    for (int i = 0; i < 4280; i++)
        send_text(fd, ",");
    send_text(fd, "\n");
    close(fd);
    CHECK(take(stream, &waiter, 3, x, classes, NULL, &taken, &err) == RT_BAD_INPUT);
    CHECK_MSG(allocations == before, "%ld allocations of %zu bytes", allocations - before, allocated - bytes);
    CHECK(rt_stream_counters(stream).taken == 3001);
    rt_stream_close(stream);
}

TEST_MAIN()
