/*
 * The inside of an executor, for the files that implement it.
 *
 * A load is cut into equal segments of about segment_floats, and both ends of a link cut an operation into
 * the same frames: its range at multiples of the load's segment. A load is cut finer, into cells: also where
 * any of its own operations begins or ends. So every frame is a run of whole cells, and all floats of a cell
 * go through the same operations: a cell knows which of them is next.
 *
 * A lane is one direction of one channel of one link. Its stops are the operations that it serves, in the
 * order of loads and operations, for one update; it goes round them for ever, frame by frame.
 */
#ifndef RT_EXCHANGE_COLLECTIVE_EXECUTOR_INSIDE_H
#define RT_EXCHANGE_COLLECTIVE_EXECUTOR_INSIDE_H

#include "exchange/collective/executor.h"

enum {
    RT_SEGMENT_FLOATS = 128 << 10, /* unless told otherwise */
    RT_MAX_SEGMENT = 1 << 24,      /* that may be asked for; equal ones may be half as long again */
    RT_LANE_FRAMES = 4, /* posted at a time; also the bound on frames received ahead of their turn */
};

/* Neighbouring cells with the same operations share the list of them. */
struct rt_zone {
    const uint32_t *ops; /* indices into the load's list */
    uint32_t count;
};

struct rt_cell {
    size_t first;
    uint32_t count;
    uint32_t zone;
    uint32_t next;    /* of the zone's operations */
    uint32_t sending; /* frames with this cell that have been posted and are not sent */
};

struct rt_load {
    struct rt_load_settings settings;
    float *buffers[RT_MAX_BUFFERS];
    float *spare; /* owned: behind the buffers beyond those of the gradient's pieces */
    size_t segment;
    struct rt_cell *cells;
    size_t cell_count;
    struct rt_zone *zones;
    uint32_t *zone_ops;
    size_t zone_count;
    uint32_t *lane_of; /* [operations]: the lane of each that has a peer */
    uint64_t number;   /* of the load since the start, while it is under way */
    bool active;
    size_t left; /* cells that are not done */
};

struct rt_stop {
    uint32_t load, op;
    uint32_t cell; /* its first */
};

/* A frame that is posted, or, of those received ahead of their turn, one that waits. */
struct rt_slot {
    union {
        struct rt_send send;
        struct rt_receive receive;
    } post; /* first: an event's pointer is the slot's */
    struct rt_lane *lane;
    enum { RT_SLOT_FREE, RT_SLOT_POSTED, RT_SLOT_ARRIVED } state;
    uint64_t number; /* of the load */
    uint32_t load, op, cell, cells;
    uint32_t waiting; /* cells that have not had their turn */
    size_t first, count;
    float *scratch; /* NULL: what comes goes to its place */
};

struct rt_lane {
    uint16_t peer;
    bool incoming;
    unsigned channel;
    struct rt_link *link;
    struct rt_stop *stops;
    size_t stop_count;
    size_t largest; /* frame, in floats */
    bool ahead;     /* some of its frames are received before their turn */
    /* the next frame to be posted */
    uint64_t round;
    size_t stop, at;
    uint32_t cell;
    struct rt_slot *slots; /* [RT_LANE_FRAMES] */
    bool queued;
    struct rt_lane *next_queued;
};

struct rt_executor {
    struct rt_communicator comm;
    size_t segment;
    struct rt_load *loads;
    size_t load_count;
    struct rt_lane *lanes;
    size_t lane_count;
    struct rt_stop *stops;
    struct rt_slot *slots;
    size_t slot_count;
    float *scratch;
    uint64_t started, activated, done;
    struct rt_lane *first_queued, *last_queued;
    void (*apply)(void *user, size_t offset, size_t count, const float *gradient);
    void *user;
    size_t bytes;
};

/* Whether what comes waits for its turn in a place of its own: it is added, or becomes a term. */
static inline bool rt_op_is_ahead(const struct rt_collective_op *op) {
    return op->kind == RT_OP_ADD || (op->kind == RT_OP_TAKE && op->buffer >= RT_BUFFER_SPARE);
}

/* ---- executor_cells.c: cutting a load ---- */
rt_status rt_load_cut(struct rt_load *load, size_t about, size_t *bytes, struct rt_error *err);
uint32_t rt_load_find_cell(const struct rt_load *load, size_t first);
/* Where the frame that begins at float `at` of an operation ends. */
static inline size_t rt_frame_end(const struct rt_collective_op *op, size_t at, size_t segment) {
    const size_t end = op->first + op->count, next = (at / segment + 1) * segment;
    return next < end ? next : end;
}

/* ---- executor_run.c: what happens ---- */
/* Posts what can be posted, and goes on with whatever that makes possible. */
void rt_executor_run(struct rt_executor *executor);
void rt_executor_queue(struct rt_executor *executor, struct rt_lane *lane);

#endif
