/*
 * The input pipeline of a ring's master: the examples of each update and the loss at the outputs, from a data
 * set, a stream, or rows that another node has sent. See struct rt_ring_source.
 */
#ifndef RT_RUN_RING_INPUT_PIPELINE_H
#define RT_RUN_RING_INPUT_PIPELINE_H

#include "learn/batches.h"
#include "learn/gradient_work.h"
#include "ring/ring.h"
#include "run/ring/stream_batches.h"

/* Where rows come from that are sent: of a part of a batch, all here when they are asked for; good until the
 * next are. */
struct rt_pipeline_rows {
    void *self;      /* NULL: there is a data set, or a stream */
    size_t examples; /* in the whole data set */
    rt_status (*take)(void *self, uint64_t batch, struct rt_received_rows *rows, struct rt_error *err);
};

struct rt_input_pipeline {
    const struct rt_training_config *config; /* borrowed */
    struct rt_row_reader reader;             /* of a data set: for the targets of a micro-batch */
    struct rt_batches batches;
    float *losses;

    /* Of rows that are sent: those of the batch that is being learnt from, and how many of them have had
     * their loss: they have it in order. */
    struct rt_pipeline_rows rows_from;
    struct rt_received_rows sent;
    const uint32_t *sent_examples;
    size_t lost;

    /* Of a stream: its batches, borrowed, and the one that is being learnt from. */
    struct rt_stream_batches *stream;
    const struct rt_stream_batch *batch;
    atomic_int halt; /* the ring is to return: the stream has ended or failed, or the run is to stop */
};

/* rows: of the largest micro-batch. stream: where the examples come from; NULL: from config->set. */
rt_status rt_input_pipeline_open(const struct rt_training_config *config, size_t rows,
                                 struct rt_stream_batches *stream, struct rt_input_pipeline *pipeline,
                                 struct rt_error *err);
/* The same from rows that are sent. Of the training configuration: network, target and settings. */
rt_status rt_input_pipeline_open_rows(const struct rt_training_config *config, size_t rows,
                                      const struct rt_pipeline_rows *from, struct rt_input_pipeline *pipeline,
                                      struct rt_error *err);
void rt_input_pipeline_close(struct rt_input_pipeline *pipeline); /* a zeroed one is fine */
struct rt_ring_source rt_input_pipeline_source(struct rt_input_pipeline *pipeline);

#endif
