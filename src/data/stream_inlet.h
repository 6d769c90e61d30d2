/*
 * The source of a stream's bytes: standard input, a file or FIFO, a TCP connection made or accepted. Every
 * wait can be ended from another thread.
 */
#ifndef RT_DATA_STREAM_INLET_H
#define RT_DATA_STREAM_INLET_H

#include "data/source.h"

struct rt_inlet {
    char *name;       /* for messages; owned */
    int fd;           /* what is read; -1: no sender has connected yet */
    int listener;     /* -1: none, or its one sender is there */
    int stop[2];      /* a pipe: a byte in it ends every wait */
    char address[64]; /* where it listens, "" otherwise */
};

/* from: "-", "tcp:HOST:PORT", "listen:HOST:PORT" or a path; where: its position in the run file. insecure:
 * may listen beyond loopback. */
rt_status rt_inlet_open(const struct rt_source *source, const struct rt_tree *where, const char *from,
                        bool insecure, struct rt_inlet *inlet, struct rt_error *err);
void rt_inlet_close(struct rt_inlet *inlet);

/* Waits for bytes, and before that for a sender; *got 0 is the end, or with *stopped the effect of
 * rt_inlet_stop. */
rt_status rt_inlet_read(struct rt_inlet *inlet, void *buffer, size_t room, size_t *got, bool *stopped,
                        struct rt_error *err);

/* Ends the current wait and every later one. For any thread. */
void rt_inlet_stop(struct rt_inlet *inlet);

/* Implemented in stream_socket.c. where: for messages. */
rt_status rt_inlet_connect(struct rt_inlet *inlet, const struct rt_tree *where, const char *address,
                           struct rt_error *err);
rt_status rt_inlet_listen(struct rt_inlet *inlet, const struct rt_tree *where, const char *address,
                          bool insecure, struct rt_error *err);
/* Accepts the sender that is connecting, if it still is, and stops listening. */
rt_status rt_inlet_accept(struct rt_inlet *inlet, struct rt_error *err);

#endif
