/*
 * A stream: examples that arrive from outside and are used once, in the order of their arrival. A thread
 * reads and checks them and puts them into a ring buffer, from which the training takes them. The memory is
 * allocated when the stream is opened and does not depend on how long it runs. docs/streams.md describes the
 * options and the records.
 */
#ifndef RT_DATA_STREAM_H
#define RT_DATA_STREAM_H

#include "data/dataset.h"

struct rt_stream;

/* Called by the stream's own thread; must neither block nor close the stream. */
typedef void (*rt_stream_wake)(void *context);

struct rt_stream_counters {
    uint64_t read;    /* examples that arrived and are good */
    uint64_t taken;   /* of these, given out by rt_stream_take */
    uint64_t dropped; /* of these, lost because the buffer was full; the rest waits in the buffer */
};

/* Whether a data source is a stream, {stream: ...}: then it is opened here, not by rt_dataset_open. */
bool rt_stream_named(const struct rt_tree *source);

/* A set without examples, for a source that is not opened yet; it has the class names if the wish or the
 * source has them. */
rt_status rt_stream_describe(const struct rt_tree *source, const struct rt_data_wish *wish,
                             struct rt_dataset *set, struct rt_error *err);

/* Opens a source {stream: ...} and begins to read. wish: what the model requires; its outputs must be known.
 * A connection to a sender is made before this returns (it waits for 10 s at most); a listening stream waits
 * for its sender later. at_least: the most examples that are taken at once; a smaller buffer is enlarged to
 * that. wake may be NULL; it is never called before the first take, nor after close. */
rt_status rt_stream_open(const struct rt_tree *source, const char *base_dir, const struct rt_data_wish *wish,
                         size_t at_least, rt_stream_wake wake, void *context, struct rt_stream **stream,
                         struct rt_error *err);
void rt_stream_close(struct rt_stream *stream); /* at once, whatever the reader waits for; NULL is fine */

/* Takes exactly n examples, oldest first, or at the end of the stream the rest (*taken). Never waits: with
 * fewer than n examples *taken is 0, and wake is called once, as soon as there are n or the stream has
 * ended. When the stream has failed and fewer than n are left, they are dropped, and this returns the
 * failure.
 *
 * x [n][inputs]: the inputs, converted with scaling as rt_dataset_inputs does, so that the bits are those
 * of the same examples from a file; scaling NULL (then device may be NULL too): the values unchanged. What
 * the outputs are compared with: classes [n], or values [n][outputs], which for RT_TARGET_INPUT are the
 * inputs, converted the same way; a pointer that is not needed may be NULL. For one thread at a time. */
rt_status rt_stream_take(struct rt_stream *stream, size_t n, const struct rt_scaling *scaling,
                         const struct rt_device *device, float *x, int32_t *classes, float *values,
                         size_t *taken, struct rt_error *err);

/* For any thread: */
size_t rt_stream_count(struct rt_stream *stream); /* examples in the buffer */
bool rt_stream_ended(struct rt_stream *stream);   /* nothing more will come; the buffer may hold examples */
rt_status rt_stream_status(struct rt_stream *stream, struct rt_error *err); /* why reading failed, or RT_OK */
struct rt_stream_counters rt_stream_counters(struct rt_stream *stream);

/* The stream's name in messages: "standard input", or its address. */
const char *rt_stream_name(const struct rt_stream *stream);

/* The address on which a stream listens, "127.0.0.1:7200", or "". */
const char *rt_stream_address(const struct rt_stream *stream);

/* The class names, if the wish or the source has them; else NULL. */
const char *const *rt_stream_names(const struct rt_stream *stream, size_t *count);

#endif
