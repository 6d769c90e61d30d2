/* Ends a node in time, or starts it again; see watch.h. */
#include "cli/watch.h"

#include "base/clock.h"
#include "cli/commands.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* A node that has to end tells the others of its run why; if that takes too long the process ends anyway. */
#define SECONDS_TO_END 0.6
/* How long a node may go on for a master that is gone: usually it notices and ends the run itself. */
#define SECONDS_WITHOUT_MASTER 3.0
#define SECONDS_BETWEEN_LOOKS  1.0

/* Signal handlers have no other access. */
static atomic_int stop;
static int signal_pipe[2] = {-1, -1};
static pthread_t thread;

static const int stop_signals[] = {SIGINT, SIGTERM, SIGHUP};

enum { STOPPED = 's', FINISHED = 'f', TORN = 't' };

static void watch_say(char what) {
    (void)!write(signal_pipe[1], &what, 1);
}

/* The second signal of a kind ends the process at once. */
static void watch_on_signal(int number) {
    int saved = errno;
    signal(number, SIG_DFL);
    atomic_store(&stop, 1);
    watch_say(STOPPED);
    errno = saved;
}

/* A mapped file was cut short. The thread that read it cannot go on. */
static void watch_on_bus_error(int number) {
    (void)number;
    watch_say(TORN);
    for (;;)
        pause();
}

/* A node with a lifeline leaves the meaning of a signal to its master: the master may want to collect the
 * model first. */
static void watch_catch_signals(bool lifeline) {
    signal(SIGPIPE, SIG_IGN);
    signal(SIGBUS, watch_on_bus_error);
    for (size_t i = 0; i < sizeof stop_signals / sizeof *stop_signals; i++) {
        struct sigaction old,
            action = {.sa_handler = lifeline ? SIG_IGN : watch_on_signal, .sa_flags = SA_RESTART};
        sigemptyset(&action.sa_mask);
        if (sigaction(stop_signals[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)
            sigaction(stop_signals[i], &action, NULL);
    }
}

/* Waits some seconds for the next byte; 0: none came. */
static char watch_hear(double seconds) {
    struct pollfd pipe = {.fd = signal_pipe[0], .events = POLLIN};
    char what = 0;
    const double until = rt_clock_wall() + seconds;
    double left;
    while (what == 0 && (left = until - rt_clock_wall()) > 0)
        if (poll(&pipe, 1, (int)(left * 1000) + 1) > 0 && read(signal_pipe[0], &what, 1) != 1)
            what = 0;
    return what;
}

static void watch_end_soon(const struct rt_watch *watch, int status) {
    const double until = rt_clock_wall() + SECONDS_TO_END;
    atomic_store(&stop, 1);
    rt_endpoint_wake(watch->endpoint);
    while (rt_clock_wall() < until)
        if (watch_hear(until - rt_clock_wall()) == FINISHED)
            return;
    _exit(status);
}

/* The working thread cannot be stopped, but the process can be replaced: it becomes a new one, with the same
 * number, the same command line, and none of the memory. */
static void watch_start_again(const struct rt_watch *watch, const char *why) {
    sigset_t none;
    fprintf(stderr, "ringtmp: %s%s\n", why, watch->again ? "; this node starts again" : "");
    if (watch->again) {
        sigemptyset(&none);
        pthread_sigmask(SIG_SETMASK, &none, NULL);
        execv("/proc/self/exe", watch->again);
    }
    _exit(RT_EXIT_FAILED);
}

static void *watch_main(void *argument) {
    const struct rt_watch *watch = argument;
    double alone_since = 0; /* 0: it has a master, or no work */
    for (;;) {
        struct pollfd wait[2] = {{.fd = signal_pipe[0], .events = POLLIN},
                                 {.fd = watch->lifeline, .events = POLLIN}};
        char byte;
        const int got = poll(wait, 2, (int)(SECONDS_BETWEEN_LOOKS * 1000));
        if (got > 0 && wait[0].revents && read(signal_pipe[0], &byte, 1) == 1) {
            if (byte == STOPPED)
                watch_end_soon(watch, RT_EXIT_DONE);
            if (byte == TORN)
                watch_start_again(watch,
                                  "a data file could not be read: it was cut short, or its disk has failed");
            return NULL;
        }
        if (got > 0 && wait[1].revents && read(watch->lifeline, &byte, 1) <= 0) {
            watch_end_soon(watch, RT_EXIT_FAILED);
            return NULL;
        }
        const double now = rt_clock_wall();
        if (!rt_node_is_orphaned(&watch->work))
            alone_since = 0;
        else if (alone_since == 0)
            alone_since = now;
        else if (now >= alone_since + SECONDS_WITHOUT_MASTER)
            watch_start_again(watch, "the master of a run is gone, and the work for it does not end");
    }
}

rt_status rt_watch_start(struct rt_watch *watch, struct rt_error *err) {
    if (pipe(signal_pipe) != 0)
        return rt_fail(err, RT_FAILED, "cannot create a pipe to watch for signals: %s", strerror(errno));
    for (int i = 0; i < 2; i++)
        fcntl(signal_pipe[i], F_SETFD, FD_CLOEXEC);
    watch_catch_signals(watch->lifeline >= 0);
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    int code = pthread_create(&thread, NULL, watch_main, watch);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return code ? rt_fail(err, RT_FAILED, "cannot start a thread to watch for signals: %s", strerror(code))
                : RT_OK;
}

const atomic_int *rt_watch_stop_flag(void) {
    return &stop;
}

void rt_watch_finish(void) {
    watch_say(FINISHED);
    pthread_join(thread, NULL);
}
