/*
 * The message catalogue: the messages between the nodes of a cluster, byte by byte. Pure functions without
 * input or output.
 *
 * A message is a head of fixed layout, which has its type and describes the tensors that follow, and a
 * body: either the bytes of the tensors, or the fields of one of the structs below. All numbers are
 * little-endian. The transport detects damage. Decoding trusts nothing: every count and length is checked
 * against its limit and against the bytes that are there before memory is allocated, and bytes left over
 * are an error. docs/protocol.md has the layout of each message and their order.
 */
#ifndef RT_WIRE_MESSAGE_H
#define RT_WIRE_MESSAGE_H

#include "base/status.h"
#include "base/tree.h"
#include <stdint.h>

enum { RT_PROTOCOL = 6 };

enum rt_message_type {
    /* between the master and a node, while a cluster is formed */
    RT_MESSAGE_HELLO = 1, /* rt_hello: the first on every link, from the side that connected */
    RT_MESSAGE_WELCOME,   /* rt_welcome: the answer */
    RT_MESSAGE_ERROR,     /* rt_error_message: a refusal, or the end of a run, with the reason */
    RT_MESSAGE_JOIN,      /* rt_join: connect to another node */
    RT_MESSAGE_JOINED,    /* rt_joined: it is done */
    RT_MESSAGE_PROFILE,   /* rt_profile: measure these layers */
    RT_MESSAGE_PROFILED,  /* rt_profiled: the times */
    RT_MESSAGE_ASSIGN,    /* rt_assign: your part of the work */
    RT_MESSAGE_READY,     /* rt_ready: memory is taken, work can begin */
    RT_MESSAGE_GO,        /* head only: the cluster is complete; this link will be closed */
    RT_MESSAGE_SETTLE,    /* rt_settle: your index among the nodes, and the links that you will have */
    RT_MESSAGE_SETTLED,   /* head only: former links are dropped, those are waited for */

    /* round the ring, clockwise, in order with one another */
    RT_MESSAGE_FORWARD = 32, /* activations of a micro-batch */
    RT_MESSAGE_EVALUATE,     /* the same, of examples that are only evaluated: nothing is kept */
    RT_MESSAGE_SNAPSHOT,     /* head only: keep an image of the parameters as they are now */
    RT_MESSAGE_STOP,         /* head only: the end; nothing comes after it */

    /* anticlockwise */
    RT_MESSAGE_BACKWARD = 48, /* the gradient at the output of a micro-batch */

    /* clockwise, each beside the others */
    RT_MESSAGE_NORM = 64, /* value: the sum of squares so far, or the factor that follows from it */
    RT_MESSAGE_METRICS,   /* rt_metrics: every node adds its row */

    /* state transfer (control/state_transfer.h), to node `target`, directly or hop by hop round a ring */
    RT_MESSAGE_PART = 66, /* floats of state tensor `tensor_index`, from float `first` on, of version
                             `state_version` */
    RT_MESSAGE_FETCH, /* head only: send `floats` floats of state tensor `tensor_index` from `first` on, of
                         version `state_version` */
    RT_MESSAGE_LOAD,  /* head only, behind parts: they are the state after `update` updates; sent back */

    /* of an exchange, between the master and a worker */
    RT_MESSAGE_TICKET = 80, /* head only: learn from batch `batch` */
    RT_MESSAGE_DONE,     /* head only: its loss is `loss`, summed over `rows` examples; `correct` are right */
    RT_MESSAGE_EXAMPLES, /* inputs and targets of a worker's part of batch `batch`, from float `first` on */
    RT_MESSAGE_TALLY = 84, /* head only, before the answer to METRICS: counter `counter` of the server there
                              stands at `count` */

    /* between any two who take part in a collective */
    RT_MESSAGE_CHUNK = 96, /* floats of load `load`, counted from the start of the run, from float `first` of
                              its span on */

    /* between a worker and a server */
    RT_MESSAGE_PUSH = 112, /* a gradient: of span `span`, from batch `batch`, made of `rows` examples with the
                              parameters of version `version` */
    RT_MESSAGE_PULL,       /* head only: the worker of clock `clock` asks for parameters, for batch `batch` or
                              (0) whichever; one in place of each PUSH, so that what is received next is always
                              known */
    RT_MESSAGE_PARAM,      /* span `span` of the parameters of version `version` */
};

/* ---- the head ---- */

enum { RT_DTYPE_F32 = 1, RT_DTYPE_U32 = 2 };
enum { RT_MESSAGE_TENSORS = 2, RT_MESSAGE_RANK = 4, RT_MESSAGE_HEAD = 88 };

struct rt_message_tensor {
    uint8_t dtype, rank;
    uint32_t dims[RT_MESSAGE_RANK];
};

/* LAST: of NORM: it carries the factor; of PUSH, PULL and PARAM: the last one of a group. ASK, of the last
 * PUSH: includes a PULL. REST, of PULL: the worker has nothing to do, and need not be waited for until it
 * asks again. AGAIN, of ERROR instead of WELCOME: the node is too busy with other callers; it may be called
 * again. */
enum { RT_FLAG_LAST = 1, RT_FLAG_ASK = 2, RT_FLAG_REST = 4, RT_FLAG_AGAIN = 8 };

#define RT_VERSION_NOW UINT64_MAX

struct rt_message {
    uint16_t type; /* enum rt_message_type */
    uint16_t flags;
    uint16_t source; /* index of the node that made it; 0: the master */
    uint16_t target; /* of state transfer: the node it is for; otherwise 0 */
    uint32_t run;    /* which run it belongs to: random, chosen by the master */
    /* Five slots, each under the name of its content in the respective message. */
    union {
        uint64_t micro;         /* FORWARD, EVALUATE, BACKWARD: number of the micro-batch in the run */
        uint64_t batch;         /* TICKET, DONE, EXAMPLES, PUSH, PULL: number of the batch in the run */
        uint64_t state_version; /* PART, FETCH: updates applied to the state; RT_VERSION_NOW: as it is */
        uint64_t complete;      /* SNAPSHOT: the newest version whose replicas are all complete; 0: none */
        uint64_t stored;        /* LOAD: floats that were stored before it */
        uint64_t counter;       /* TALLY: which */
        uint64_t load;          /* CHUNK: number of the span's exchange in the run */
    };
    union {
        uint64_t update;  /* FORWARD, BACKWARD, SNAPSHOT, NORM, LOAD: updates applied to the parameters */
        uint64_t version; /* PUSH, PARAM: of the server's parameters */
        uint64_t first;   /* PART, FETCH, EXAMPLES, CHUNK: the first float */
        uint64_t correct; /* DONE: examples that were predicted right */
        uint64_t count;   /* TALLY: where the counter stands */
        uint64_t clock;   /* PULL: of the worker */
    };
    union {
        uint32_t epoch;  /* FORWARD: of the examples, from 0 */
        uint32_t floats; /* FETCH: how many */
        uint32_t span;   /* PUSH, PARAM: which */
    };
    union {            /* otherwise 0 */
        uint32_t rows; /* FORWARD: examples of the update that the micro-batch is part of; DONE, PUSH: that it
                          is made of */
        uint32_t tensor_index; /* PART, FETCH: 0 parameters and buffers, w the optimizer's tensor w */
    };
    union {
        double value; /* any of the following; otherwise 0 */
        double norm;  /* NORM: the sum of squares so far, or the factor that follows from it */
        double loss;  /* DONE: summed over the rows in order */
    };
    size_t tensors;
    struct rt_message_tensor tensor[RT_MESSAGE_TENSORS];
};

/* Writes RT_MESSAGE_HEAD bytes. */
void rt_message_encode(const struct rt_message *message, uint8_t head[RT_MESSAGE_HEAD]);

/* body_bytes: of the frame. Checks that this is a message of our protocol, of a known type, that unused
 * fields are not set, and that the body has a valid length: that of the tensors, 0 for a head alone, at most
 * RT_MAX_CONTROL for fields. */
rt_status rt_message_decode(const uint8_t *head, size_t head_bytes, size_t body_bytes,
                            struct rt_message *message, struct rt_error *err);

/* Bytes of the tensors together; a decoded message has at most RT_MAX_TENSOR_BYTES. SIZE_MAX: more. */
enum { RT_MAX_TENSOR_BYTES = 1 << 30 };
size_t rt_message_tensor_bytes(const struct rt_message *message);
const char *rt_message_name(uint16_t type); /* "forward"; "unknown" */

/* ---- bodies ---- */

enum {
    RT_MAX_TEXT = 400,        /* bytes of a name or a sentence: UTF-8 without control characters */
    RT_NODE_NAME = 80,        /* bytes of a name by which nodes speak of another; a longer one is cut */
    RT_MAX_CONTROL = 1 << 20, /* bytes of any body below */
    RT_MAX_NODES = 1024,
    RT_MAX_LINKS = RT_MAX_NODES + 1, /* of a node: with all others, the next and the previous */
    RT_MAX_LAYERS = 1 << 16,
    RT_MAX_CORES = 1 << 16,
};

/* OFFER: a node that offers itself to a master which accepts connections; the master then greets it as one
 * that it has connected to. */
enum rt_hello_role { RT_ROLE_MASTER = 1, RT_ROLE_NODE = 2, RT_ROLE_OFFER = 3 };

/* The purpose of a link, as seen from the sender of the label. */
enum rt_label {
    RT_LABEL_NEXT = 1,     /* the next node of a ring */
    RT_LABEL_PREVIOUS = 2, /* the node before it */
    RT_LABEL_MESH = 3,     /* another member of an exchange */
};
uint16_t rt_label_mirror(uint16_t label); /* the same link, as seen from the other end */

/* What a run proves itself with to its nodes: a random number that only its master and its nodes have. Unlike
 * the number of the run it stays the same when the run is resumed. */
enum { RT_TOKEN_BYTES = 16 };
/* Takes the same time wherever they differ. */
bool rt_token_equal(const uint8_t a[RT_TOKEN_BYTES], const uint8_t b[RT_TOKEN_BYTES]);

struct rt_hello {
    uint8_t role;   /* of the connecting side: enum rt_hello_role */
    uint16_t from;  /* a node: its index; the master, and an offer: 0 */
    uint16_t label; /* what the link is for, enum rt_label; 0: the master's own talk with a node. Of an offer:
                       the port at which the node listens; 0: it cannot be connected to */
    uint32_t view;  /* of the run, that the link belongs to; in the master's own talk the one that it is
                       about to form */
    uint8_t token[RT_TOKEN_BYTES]; /* of the run; of an offer: the node's own, by which it is known again */
    uint8_t answer[32]; /* hash of the kernels' known answers: nodes that differ cannot share an exact run */
    char version[RT_MAX_TEXT + 1];
};

/* Layers whose state a node has in memory, as it was after so many updates. */
struct rt_holding {
    uint64_t version;
    uint32_t first, count;
};
enum { RT_MAX_HOLDINGS = 32 };

struct rt_welcome {
    uint8_t answer[32];
    uint32_t view;   /* of this run, that the node has worked in; 0: none */
    size_t holdings; /* what it holds since then */
    struct rt_holding holding[RT_MAX_HOLDINGS];
    uint32_t cores, threads;
    uint64_t memory; /* bytes it offers; 0: it did not say */
    char name[RT_MAX_TEXT + 1], version[RT_MAX_TEXT + 1], kernels[RT_MAX_TEXT + 1];
};

struct rt_error_message {
    uint16_t status; /* enum rt_status */
    uint16_t node;   /* index of the node that it is about */
    char text[RT_MAX_TEXT + 1];
};

struct rt_settle_link {
    uint16_t peer, label; /* with node `peer`, which is the label's to this one */
};

struct rt_settle {
    uint16_t index, count; /* the node's own index, and how many there are */
    uint32_t view;         /* that this is its index in */
    size_t links;
    struct rt_settle_link *link; /* [links]; owned. At most one next and one previous
                                   node, and one link of a mesh with each. */
};

struct rt_join {
    uint16_t peer, label;
    uint32_t probe_bytes;  /* measure the link with so many; 0: do not */
    uint32_t milliseconds; /* give up after so many */
    char address[RT_MAX_TEXT + 1];
    char name[RT_NODE_NAME + 1]; /* of the peer, for sentences */
};

struct rt_joined {
    uint16_t peer, label;
    double latency, bandwidth; /* seconds, bytes per second; 0: not measured */
};

struct rt_profile {
    uint32_t rows;       /* of a micro-batch */
    struct rt_tree *job; /* owned */
};

struct rt_layer_times {
    double forward, input, weights, update; /* seconds; update: the optimizer's pass over its parameters */
};

struct rt_profiled {
    size_t count;
    struct rt_layer_times *layers; /* owned */
};

/* In an exchange every worker has all layers, a server without a worker none, and slots are 0. */
struct rt_assigned_node {
    uint32_t first, count; /* its run of layers */
    uint32_t slots;        /* micro-batches it holds at a time */
};

struct rt_assign {
    uint16_t index;   /* of the node that this goes to */
    uint32_t view;    /* that it is a part of */
    uint64_t version; /* updates applied to the state with which the view begins */
    size_t nodes;
    struct rt_assigned_node *node;  /* [nodes]; owned */
    char (*name)[RT_NODE_NAME + 1]; /* [nodes] what each is called; owned. To encode, NULL: nothing */
    struct rt_tree *job;            /* owned: the model and how it is trained, see job/job.h */
};

struct rt_ready {
    uint64_t memory; /* bytes taken */
};

enum { RT_METRIC_STATES = 14, RT_METRIC_LINKS = 3, RT_METRIC_KINDS = 6 };

/* Kinds of bytes: one for each channel of a link, and those for greeting and measuring it before it was
 * used. */
enum { RT_METRIC_PROBE = 5 };

/* How a node spent its time, from its first forward on. */
struct rt_metrics_row {
    uint16_t node;
    double seconds, cpu_seconds;
    double validation; /* seconds spent in validations, not included in `seconds` and the states */
    double state[RT_METRIC_STATES]; /* in the order of enum rt_state */
    uint64_t samples, updates;
    uint32_t queue; /* micro-batches that wait to be worked on */
    uint64_t peak_memory;
    /* Bytes to the next and to the previous node of a ring, and to nodes of other rings; in an exchange to
     * the master and to all others. */
    uint64_t sent[RT_METRIC_LINKS][RT_METRIC_KINDS];
    uint64_t received[RT_METRIC_LINKS][RT_METRIC_KINDS];
    double staleness_sum; /* ring-flow: over the micro-batches, updates between forward and backward */
    uint64_t staleness_max;
};

struct rt_metrics {
    size_t count;
    size_t room;                 /* rows there is memory for; for the decoder only */
    struct rt_metrics_row *rows; /* borrowed */
};

/* Each encoder writes into room bytes and returns the number used, or 0 when they do not fit or a count is
 * above its limit; control characters and invalid UTF-8 in a text become '?', so that the receiver can always
 * read what is sent. Each decoder takes the whole body. Its result is to be released by the deinit of the
 * same name if there is one, and only on RT_OK. */
size_t rt_hello_encode(const struct rt_hello *hello, uint8_t *bytes, size_t room);
rt_status rt_hello_decode(const uint8_t *bytes, size_t count, struct rt_hello *hello, struct rt_error *err);
size_t rt_welcome_encode(const struct rt_welcome *welcome, uint8_t *bytes, size_t room);
rt_status rt_welcome_decode(const uint8_t *bytes, size_t count, struct rt_welcome *welcome,
                            struct rt_error *err);
size_t rt_error_encode(const struct rt_error_message *error, uint8_t *bytes, size_t room);
rt_status rt_error_decode(const uint8_t *bytes, size_t count, struct rt_error_message *error,
                          struct rt_error *err);
size_t rt_settle_encode(const struct rt_settle *settle, uint8_t *bytes, size_t room);
rt_status rt_settle_decode(const uint8_t *bytes, size_t count, struct rt_settle *settle,
                           struct rt_error *err);
void rt_settle_deinit(struct rt_settle *settle);
size_t rt_join_encode(const struct rt_join *join, uint8_t *bytes, size_t room);
rt_status rt_join_decode(const uint8_t *bytes, size_t count, struct rt_join *join, struct rt_error *err);
size_t rt_joined_encode(const struct rt_joined *joined, uint8_t *bytes, size_t room);
rt_status rt_joined_decode(const uint8_t *bytes, size_t count, struct rt_joined *joined,
                           struct rt_error *err);
size_t rt_profile_encode(const struct rt_profile *profile, uint8_t *bytes, size_t room);
rt_status rt_profile_decode(const uint8_t *bytes, size_t count, struct rt_profile *profile,
                            struct rt_error *err);
void rt_profile_deinit(struct rt_profile *profile);
size_t rt_profiled_encode(const struct rt_profiled *profiled, uint8_t *bytes, size_t room);
rt_status rt_profiled_decode(const uint8_t *bytes, size_t count, struct rt_profiled *profiled,
                             struct rt_error *err);
void rt_profiled_deinit(struct rt_profiled *profiled);
size_t rt_assign_encode(const struct rt_assign *assign, uint8_t *bytes, size_t room);
rt_status rt_assign_decode(const uint8_t *bytes, size_t count, struct rt_assign *assign,
                           struct rt_error *err);
void rt_assign_deinit(struct rt_assign *assign);
size_t rt_ready_encode(const struct rt_ready *ready, uint8_t *bytes, size_t room);
rt_status rt_ready_decode(const uint8_t *bytes, size_t count, struct rt_ready *ready, struct rt_error *err);
size_t rt_metrics_encode(const struct rt_metrics *metrics, uint8_t *bytes, size_t room);
/* Decodes into the caller's rows, at most `room` of them, and allocates nothing. On failure metrics->count is
 * unchanged; the rows may have been written. */
rt_status rt_metrics_decode(const uint8_t *bytes, size_t count, struct rt_metrics *metrics,
                            struct rt_error *err);

/* Appends a row to an encoded body of `count` bytes, in place and without allocation; returns the new number
 * of bytes, or 0 when it does not fit or the body is invalid. count 0: begins a body. A body of n rows takes
 * RT_METRICS_BYTES + n * RT_METRICS_ROW_BYTES. */
enum { RT_METRICS_BYTES = 4, RT_METRICS_ROW_BYTES = 470 };
size_t rt_metrics_append(const struct rt_metrics_row *row, uint8_t *bytes, size_t count, size_t room);

#endif
