/*
 * The batches of a stream, as the master of a ring learns from them. Examples of a stream do not come again:
 * so those of updates that the newest complete replica of the state does not have yet (ring/replicas.h) are
 * kept, and given out again when the ring goes back to it. The room is fixed; whoever drives the ring waits
 * for a replica before it asks for a batch that there is no room for. Outlives the ring, as the stream does.
 */
#ifndef RT_RUN_RING_STREAM_BATCHES_H
#define RT_RUN_RING_STREAM_BATCHES_H

#include "base/file_memory.h"
#include "data/stream.h"
#include "net/transport.h"
#include "run/learner.h"

/* The loss of examples before they were learnt from ("test, then train"). */
struct rt_progressive {
    uint64_t examples;
    double sum;
    double faded, weight; /* the same with examples fading by RT_FADING each */
};
#define RT_FADING 0.999

/* Examples are numbered by arrival. */
struct rt_stream_batch {
    uint64_t update; /* that is made of it */
    size_t rows;
    uint64_t first;               /* the number of its first example */
    struct rt_progressive before; /* when it was given out first */
    /* [batch size] of the training configuration: */
    float *x, *values;
    int32_t *classes;
    uint32_t *examples; /* their numbers */
};

struct rt_stream_batches {
    const struct rt_training_config *config; /* borrowed */
    struct rt_stream *stream;
    struct rt_stream_batch *batch; /* [room] */
    struct rt_file_memory memory;  /* of them; pages that are not needed are never touched */
    size_t room, oldest, count;    /* those that are kept, in order */
    uint64_t arrived;              /* examples that have been taken from the stream */
    struct rt_progressive progressive;
    bool ended;              /* nothing more will come */
    struct rt_error failure; /* of the stream; status RT_OK: none */
};

/* Bytes of each batch. */
rt_status rt_stream_batches_bytes(size_t batch, size_t inputs, size_t outputs, size_t *bytes,
                                  struct rt_error *err);

/* Opens the stream of config->spec. room: batches that are kept, at least 1. endpoint: woken when there are
 * examples; it outlives this. */
rt_status rt_stream_batches_open(const struct rt_training_config *config, size_t room,
                                 struct rt_endpoint *endpoint, struct rt_stream_batches **batches,
                                 struct rt_error *err);
void rt_stream_batches_close(struct rt_stream_batches *batches); /* NULL is fine */

/* The batch of that update: one that is kept, or the one after the newest of them, once it has arrived as a
 * whole or is the rest at the end. NULL: it is not there yet, or the stream has ended or failed. */
const struct rt_stream_batch *rt_stream_batches_take(struct rt_stream_batches *batches, uint64_t update);
/* Batches of updates up to this one are not needed any more. */
void rt_stream_batches_release(struct rt_stream_batches *batches, uint64_t update);
/* Whether there is no room for the batch of that update. */
bool rt_stream_batches_full(const struct rt_stream_batches *batches, uint64_t update);
/* The state is that of this update again: the next one is made of the oldest batch after it that is kept. */
struct rt_rewound rt_stream_batches_rewind(struct rt_stream_batches *batches, uint64_t update);

#endif
