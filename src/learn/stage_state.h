/* The state of a stage in the order of files: a table with the position of each tensor of its layers. */
#ifndef RT_LEARN_STAGE_STATE_H
#define RT_LEARN_STAGE_STATE_H

#include "learn/stage.h"

/* A tensor of a layer, in state tensor 0. */
struct rt_state_span {
    size_t at, count; /* its offset in the state tensor */
    size_t offset;    /* its offset in its block */
    bool is_buffer;   /* which block */
};

/* Fills in spans. */
rt_status rt_state_spans_create(struct rt_stage *stage, struct rt_error *err);

#endif
