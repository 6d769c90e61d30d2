/*
 * Reading the bytes of a stream; see stream_inlet.h. Everything waits in poll(), also for a pipe named
 * `stop`, so that closing a stream never depends on its sender.
 */
#define _GNU_SOURCE /* pipe2 */
#include "data/stream_inlet.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Another descriptor of standard input, so that closing the stream leaves that open. */
static rt_status inlet_open_standard(struct rt_inlet *inlet, const struct rt_tree *where,
                                     struct rt_error *err) {
    inlet->fd = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0);
    return inlet->fd >= 0 ? RT_OK
                          : rt_tree_fail(where, err, "standard input cannot be read: %s", strerror(errno));
}

/* Does not wait for the writer of a FIFO: poll() does that. */
static rt_status inlet_open_path(const struct rt_source *source, struct rt_inlet *inlet,
                                 const struct rt_tree *where, const char *from, struct rt_error *err) {
    char *path;
    struct stat info;
    rt_status status = rt_source_path(source, where, from, &path, err);
    if (status != RT_OK)
        return status;
    free(inlet->name);
    inlet->name = path;
    inlet->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (inlet->fd < 0 || fstat(inlet->fd, &info) != 0)
        return rt_tree_fail(where, err, "%s: cannot be read: %s", path, strerror(errno));
    if (S_ISDIR(info.st_mode))
        return rt_tree_fail(where, err, "%s: is a directory", path);
    return RT_OK;
}

rt_status rt_inlet_open(const struct rt_source *source, const struct rt_tree *where, const char *from,
                        bool insecure, struct rt_inlet *inlet, struct rt_error *err) {
    struct rt_inlet made = {.fd = -1, .listener = -1, .stop = {-1, -1}};
    bool standard = strcmp(from, "-") == 0;
    made.name = strdup(standard ? "standard input" : from);
    rt_status status = RT_OK;
    if (!made.name)
        status = rt_fail(err, RT_NO_MEMORY, "not enough memory for a stream");
    else if (pipe2(made.stop, O_CLOEXEC | O_NONBLOCK) != 0)
        status = rt_fail(err, RT_IO, "%s: cannot be read: %s", from, strerror(errno));
    else if (standard)
        status = inlet_open_standard(&made, where, err);
    else if (strncmp(from, "tcp:", 4) == 0)
        status = rt_inlet_connect(&made, where, from + 4, err);
    else if (strncmp(from, "listen:", 7) == 0)
        status = rt_inlet_listen(&made, where, from + 7, insecure, err);
    else
        status = inlet_open_path(source, &made, where, from, err);
    if (status == RT_OK)
        *inlet = made;
    else
        rt_inlet_close(&made);
    return status;
}

static void inlet_close_fd(int *fd) {
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

void rt_inlet_close(struct rt_inlet *inlet) {
    inlet_close_fd(&inlet->fd);
    inlet_close_fd(&inlet->listener);
    inlet_close_fd(&inlet->stop[0]);
    inlet_close_fd(&inlet->stop[1]);
    free(inlet->name);
    inlet->name = NULL;
}

void rt_inlet_stop(struct rt_inlet *inlet) {
    ssize_t written = write(inlet->stop[1], "", 1); /* a pipe that is full stops as well */
    (void)written;
}

/* Waits until fd is readable or the inlet is stopped. */
static rt_status inlet_await(const struct rt_inlet *inlet, int fd, bool *stopped, struct rt_error *err) {
    struct pollfd both[2] = {{.fd = fd, .events = POLLIN}, {.fd = inlet->stop[0], .events = POLLIN}};
    while (poll(both, 2, -1) < 0)
        if (errno != EINTR)
            return rt_fail(err, RT_IO, "%s: cannot wait for data: %s", inlet->name, strerror(errno));
    *stopped = both[1].revents != 0;
    return RT_OK;
}

rt_status rt_inlet_read(struct rt_inlet *inlet, void *buffer, size_t room, size_t *got, bool *stopped,
                        struct rt_error *err) {
    *got = 0;
    *stopped = false;
    for (;;) {
        bool waits = inlet->fd < 0;
        rt_status status = inlet_await(inlet, waits ? inlet->listener : inlet->fd, stopped, err);
        if (status == RT_OK && !*stopped && waits)
            status = rt_inlet_accept(inlet, err);
        if (status != RT_OK || *stopped)
            return status;
        if (waits)
            continue;
        ssize_t result = read(inlet->fd, buffer, room);
        if (result >= 0) {
            *got = (size_t)result;
            return RT_OK;
        }
        if (errno == ECONNRESET || errno == ETIMEDOUT)
            return rt_fail(err, RT_IO, "%s: the sender is gone: %s", inlet->name, strerror(errno));
        if (errno != EAGAIN && errno != EINTR)
            return rt_fail(err, RT_IO, "%s: cannot be read: %s", inlet->name, strerror(errno));
    }
}
