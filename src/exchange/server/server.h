/*
 * The server: parameters, the optimizer and its state for a range of the block, and the workers' gradients as
 * they come. What it does with them is decided by rules, a small file for each strategy; the loop is one:
 *
 *   a gradient is complete -> it waits; of those that wait the next is chosen (prio); the rules judge it:
 *       apply   it becomes an update by itself
 *       gather  it is kept until the rules say that the round is complete; then all gathered ones, added in
 *               the binary tree over the workers' places, become one update
 *       hold    it waits on
 *       drop    it is counted and forgotten
 *   a worker asks for parameters -> it is answered when the rules let it read
 *
 * Passive: a part of an engine. A worker in the same process is served without a link.
 */
#ifndef RT_EXCHANGE_SERVER_SERVER_H
#define RT_EXCHANGE_SERVER_SERVER_H

#include "control/engine.h"
#include "exchange/strategy.h"
#include "optim/updater.h"

struct rt_server;

/* What a server knows about a worker. A worker without work reports that it rests: no bound or round waits
 * for it, and when it returns its clock is at least that of the slowest worker that did not rest. */
struct rt_worker_state {
    uint64_t clock;   /* gradients it has pushed; where they are gathered, those that count */
    uint64_t version; /* of the parameters it was last given */
    uint64_t batch;   /* that it asks for parameters for; 0: it does not say */
    bool begun;       /* has asked for parameters at least once */
    bool resting;
    bool given;    /* has parameters that it has not pushed a gradient for */
    bool reading;  /* has asked for parameters and not been answered */
    bool waiting;  /* its gradient waits to be judged, or is held */
    bool gathered; /* its gradient is in the round */
    uint64_t held; /* times that it was held or not let read: for the summary */
};

/* What rules look at. */
struct rt_server_view {
    const struct rt_exchange_options *options;
    size_t workers;
    const struct rt_worker_state *state; /* [workers] */
    uint64_t version;                    /* updates applied */
    size_t gathered;                     /* gradients in the round */
    uint64_t rows;                       /* that they are made of */
    uint64_t per_epoch;                  /* batches */
    void *memory;                        /* the rules' own, memory_bytes of it, zeroed at first */
    bool forced;                         /* set by judge: applied although a bound forbids it; is counted */
    const struct rt_server *server;      /* for rt_server_distance and the like */
};

struct rt_rules {
    bool asynchronous; /* every worker has a batch of its own; otherwise all share each batch */
    size_t memory_bytes;
    enum rt_verdict (*judge)(struct rt_server_view *view, const struct rt_push *push);
    bool (*complete)(struct rt_server_view *view);                /* NULL: nothing is gathered */
    bool (*may_read)(struct rt_server_view *view, size_t worker); /* NULL: always */
    /* Parameters were loaded as those after so many gradients. May be NULL. */
    void (*loaded)(struct rt_server_view *view, uint64_t gradients);
    /* The server must be able to tell how far a push would take the parameters from what the others have. */
    bool keeps_versions;
};

/* The largest distance, in the norm of the options, between the parameters as the push would make them and
 * those that another worker was last given (keeps_versions; who rests has none); and how far the push itself
 * would move them. */
double rt_server_distance(const struct rt_server *server, const struct rt_push *push);
double rt_server_stride(const struct rt_server *server, const struct rt_push *push);

struct rt_server_counts {
    uint64_t staleness[RT_STALENESS_BINS]; /* gradients by staleness: versions between read and apply */
    double staleness_sum;
    uint64_t staleness_max;
    uint64_t applied; /* updates */
    uint64_t gathered, dropped, forced;
    uint64_t held; /* gradients that were held, and readers that were made to wait */
};

struct rt_server_settings {
    const struct rt_exchange_strategy *strategy;
    const struct rt_rules *rules;
    const struct rt_exchange_options *options;
    const struct rt_roles *roles;
    const struct rt_communicator *comm;
    const struct rt_span *spans;
    size_t span_count;
    size_t first, count; /* its range of the block */
    size_t param_count;
    float *params; /* the whole block's first float; only its range is used. Not those of a worker. */
    struct rt_updater updater;
    /* Rows of a batch, and of an epoch's last one: what a round in which some are missing is scaled by. 0:
     * not known; then it is the mean of those that are there. */
    uint64_t batch_rows, last_rows;
    /* Batches of a whole epoch, as they are numbered, where updater.per_epoch is that of epochs cut short;
     * 0: they are as many. */
    uint64_t numbered;
    /* Seconds that an update takes beside its arithmetic, under virtual time: the endpoint sleeps. */
    double apply_seconds;
    /* Told of every update, in order: whose gradients it was made of; and of every gradient, in the order of
     * a worker's own, what became of it, once it is not held any more. May be NULL. */
    void (*updated)(void *user, uint64_t version, size_t pushes, const struct rt_push *const *push);
    void (*judged)(void *user, const struct rt_push *push, enum rt_verdict verdict);
    void *user;
};

/* It receives nothing before rt_server_start: until then it can be destroyed while its links are open. */
void rt_server_start(struct rt_server *server);
rt_status rt_server_create(const struct rt_server_settings *settings, struct rt_server **server,
                           struct rt_error *err);
void rt_server_destroy(struct rt_server *server);
struct rt_engine_part rt_server_part(struct rt_server *server);
bool rt_server_has_work(const struct rt_server *server); /* something has changed that the rules look at */
const struct rt_server_counts *rt_server_counts(const struct rt_server *server);
uint64_t rt_server_version(const struct rt_server *server);
/* Its parameters (and state) were loaded as those of this version; nothing is under way. */
void rt_server_set_version(struct rt_server *server, uint64_t version);

/* ---- a worker in the same process (exchange/server/client.h) ---- */

struct rt_server_local {
    void *self;
    /* The worker may push again. */
    void (*room)(void *self);
    /* What it has asked for: the parameters of the server's range. */
    void (*answer)(void *self, uint64_t version, const float *params);
};
void rt_server_attach(struct rt_server *server, const struct rt_server_local *local);
/* Whether a gradient may be pushed now; then its floats are written here, and it is pushed. */
bool rt_server_has_room(const struct rt_server *server);
float *rt_server_room(struct rt_server *server);
void rt_server_push(struct rt_server *server, uint64_t batch, uint32_t rows);
/* batch: that it is for; 0: not said. */
void rt_server_pull(struct rt_server *server, bool rest, uint64_t batch);

#endif
