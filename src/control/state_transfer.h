/*
 * State transfer: these floats of these state tensors, from there to here. Saving a checkpoint, resuming,
 * starting several rings from the same state: all of them use this protocol.
 *
 * State tensor 0 is the parameters (in a ring the buffers too), tensor w > 0 the optimizer's w-th value of
 * every parameter. A node holds a range of each, of one version or several: the number of updates that have
 * been applied to it. Two sides:
 *
 * - The initiator gives orders, one at a time: fetch a range of a version from a node, store a range there,
 * or declare that what was stored is the state after so many updates.
 *
 * - The holder has a store, and does what the orders say, in the order in which they come.
 *
 * On RT_CHANNEL_BULK, where activations and gradients go first, or a channel that the two sides agree on.
 * FETCH asks for a range of a version; it comes back as PARTs of at most RT_STATE_PIECE floats, in order,
 * when the holder has that version, and not before. To store a range PARTs are sent. LOAD goes behind the
 * last, says which version that is and how many floats were stored for it, and is sent back when the holder
 * has taken note.
 *
 * Every message names the node it is for. Over a direct link that is the node at the other end. Round a ring
 * they go clockwise, hop by hop: a holder passes on what is for others, from the buffer it came into, so the
 * memory that a transfer takes does not depend on what is transferred.
 *
 * Neither side waits or has a thread: events are handed to them, and go_on does what can be done.
 */
#ifndef RT_CONTROL_STATE_TRANSFER_H
#define RT_CONTROL_STATE_TRANSFER_H

#include "net/transport.h"
#include "wire/message.h"
#include <stdbool.h>

enum { RT_STATE_PIECE = 1 << 16, RT_STATE_WINDOW = 2 };

/* A message with room for a piece. */
struct rt_state_frame {
    unsigned channel;
    float *floats; /* [RT_STATE_PIECE] */
    struct rt_message message;
    struct rt_receive receive;
    struct rt_send send;
    bool sending;
};

/* ---- the holder ---- */

enum rt_state_presence {
    RT_STATE_HERE,
    RT_STATE_NOT_YET, /* it will come */
    RT_STATE_GONE,    /* only a newer one is here: asking for it is an error */
};

/* Floats of a state tensor, at a version. */
struct rt_state_range {
    uint64_t version;
    size_t tensor, first, count;
};

/* What a node holds of the model's state. */
struct rt_state_store {
    void *self;
    size_t tensors;
    /* The floats of a tensor that may be written here: *first, and how many. */
    size_t (*floats)(const void *self, size_t tensor, size_t *first);
    /* Whether a range of a version is here to be read, or may be written, now; asked again when something may
     * have changed. RT_VERSION_NOW: the state as it is, where there is one version at a time. */
    enum rt_state_presence (*has)(const void *self, const struct rt_state_range *range); /* NULL: never, so
                                                                              that asking is an error */
    bool (*can_write)(const void *self, const struct rt_state_range *range);
    void (*read)(const void *self, const struct rt_state_range *range, float *into);
    void (*write)(void *self, const struct rt_state_range *range, const float *from);
    /* What was written is the state after so many updates. false: the owner needs time to take note, and is
     * told again. */
    bool (*loaded)(void *self, uint64_t update);
};

struct rt_state_holder_settings {
    struct rt_state_store store;
    struct rt_link *in, *out; /* borrowed; the same: a direct link */
    uint32_t run;
    uint16_t rank;    /* messages for this node name it */
    unsigned channel; /* 0: RT_CHANNEL_BULK */
    bool finite;      /* non-finite floats are refused, also in frames that are passed on */
    /* Takes EXAMPLES, which come on the same channel, in order; NULL: they are refused. Never waits. */
    rt_status (*examples)(void *user, uint64_t batch, uint64_t first, const float *floats, size_t count,
                          struct rt_error *err);
    void *user;
};

struct rt_state_holder {
    struct rt_state_holder_settings settings;
    float *memory;
    struct rt_state_frame in[RT_STATE_WINDOW], out[RT_STATE_WINDOW];
    uint64_t posted, arrived, taken; /* frames, ever rising; frame n is in[n % RT_STATE_WINDOW] */
    size_t given;                    /* floats of the FETCH at hand that have been sent */
    uint64_t written;                /* floats that were stored since the last LOAD */
    bool failed;                     /* a frame was refused: all later frames are dropped */
};

/* Posts the first receives. deinit only when the links are closed, also after a failure. */
rt_status rt_state_holder_init(struct rt_state_holder *holder,
                               const struct rt_state_holder_settings *settings, struct rt_error *err);
void rt_state_holder_deinit(struct rt_state_holder *holder); /* a zeroed one is fine */
/* Whether the event is of a transfer; if so it has been taken in. A failure is attributed to the sender. */
bool rt_state_holder_event(struct rt_state_holder *holder, const struct rt_event *event, rt_status *status,
                           struct rt_error *err);
/* Does what can be done; *worked is set to true if there was anything. */
rt_status rt_state_holder_go_on(struct rt_state_holder *holder, bool *worked, struct rt_error *err);
/* Whether nothing is under way. */
bool rt_state_holder_is_idle(const struct rt_state_holder *holder);
/* Whether a frame for this node waits until the store can be read or written. */
bool rt_state_holder_is_waiting(const struct rt_state_holder *holder);

/* ---- the initiator ---- */

enum rt_state_order_kind { RT_STATE_FETCH, RT_STATE_STORE, RT_STATE_DECLARE };

struct rt_state_order {
    enum rt_state_order_kind kind;
    uint16_t node;            /* who holds the state */
    struct rt_link *in, *out; /* where answers come from, and where the order goes */
    /* Of FETCH and STORE: */
    size_t tensor, first, count;
    /* FETCH: takes consecutive floats. After a failure the rest of the transfer is received and dropped. */
    rt_status (*take)(void *user, size_t tensor, size_t count, const float *floats, struct rt_error *err);
    /* STORE: gives consecutive floats. A failure ends the order. */
    rt_status (*give)(void *user, size_t tensor, size_t count, float *floats, struct rt_error *err);
    void *user;
    uint64_t version; /* of what is fetched or stored; DECLARE: of all that was stored, count floats */
};

struct rt_state_initiator {
    unsigned channel;
    uint32_t run;
    uint16_t rank; /* our own */
    bool finite;
    float *memory;
    struct rt_state_frame in[RT_STATE_WINDOW], out[RT_STATE_WINDOW];
    struct rt_state_order order;
    bool busy;
    bool failed;         /* an answer was refused: all later frames are dropped */
    size_t asked, moved; /* floats of it: asked for; that have come, or were sent */
    size_t posted;       /* receives that have not come yet */
    uint64_t received;   /* frames, ever rising; frame n is in[n % RT_STATE_WINDOW] */
    rt_status status;    /* of take or give, of the last order */
    struct rt_error error;
};

/* channel 0: RT_CHANNEL_BULK. finite: a float that is not finite is refused. */
rt_status rt_state_initiator_init(struct rt_state_initiator *initiator, uint32_t run, uint16_t rank,
                                  unsigned channel, bool finite, struct rt_error *err);
void rt_state_initiator_deinit(struct rt_state_initiator *initiator); /* when the links are closed */
/* While it is not busy. The order is begun by the next go_on; begin does both. */
void rt_state_initiator_order(struct rt_state_initiator *initiator, const struct rt_state_order *order);
void rt_state_initiator_begin(struct rt_state_initiator *initiator, const struct rt_state_order *order);
/* Whether the event is of a transfer; if so it has been taken in. A failure is the holder's fault. */
bool rt_state_initiator_event(struct rt_state_initiator *initiator, const struct rt_event *event,
                              rt_status *status, struct rt_error *err);
void rt_state_initiator_go_on(struct rt_state_initiator *initiator);
/* Gives up the order: later answers to it are dropped, and its take and give are not called again. */
void rt_state_initiator_cancel(struct rt_state_initiator *initiator);
/* Of the last order: whether what it took or gave went well. */
rt_status rt_state_initiator_result(const struct rt_state_initiator *initiator, struct rt_error *err);

/* ---- shared by both ---- */

/* Memory for the frames of one side. */
rt_status rt_state_frames_init(struct rt_state_frame in[RT_STATE_WINDOW],
                               struct rt_state_frame out[RT_STATE_WINDOW], unsigned channel, float **memory,
                               struct rt_error *err);
void rt_state_frame_post(struct rt_state_frame *frame, struct rt_link *link);
/* Sends the first count floats of the frame; the frame is in use until its send completes. */
void rt_state_frame_send(struct rt_state_frame *frame, struct rt_link *link, const struct rt_message *message,
                         size_t count);
/* Decodes what came into the frame; checks what holds for every message of a transfer. */
rt_status rt_state_frame_decode(struct rt_state_frame *frame, uint32_t run, bool finite,
                                struct rt_error *err);
/* A frame that is not being sent; NULL: none. */
struct rt_state_frame *rt_state_frame_free(struct rt_state_frame frames[RT_STATE_WINDOW]);
/* The frame whose send or receive the event is about; NULL: none of these. */
struct rt_state_frame *rt_state_frame_of(struct rt_state_frame frames[RT_STATE_WINDOW],
                                         const struct rt_event *event);
/* The floats that a PART carries. */
size_t rt_state_frame_floats(const struct rt_state_frame *frame);

#endif
