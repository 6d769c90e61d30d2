/*
 * Inside a server. server.c is the server at work: gradients and requests come in, the rules judge, updates
 * are made, readers are answered. What it calls: what workers may send (check.c), how an update is made
 * (apply.c), and how parameters are sent (answer.c). How far an update would go is for the rules to ask
 * (distance.c); what a server is made of is in create.c.
 */
#ifndef RT_EXCHANGE_SERVER_SERVER_INSIDE_H
#define RT_EXCHANGE_SERVER_SERVER_INSIDE_H

#include "exchange/server/portions.h"
#include "exchange/server/server.h"

/* A copy of the parameters at one version, shared by the workers that were given it. */
struct rt_server_image {
    bool valid;
    uint64_t version;
    size_t users;
    float *floats;
};

struct rt_server_client {
    uint16_t rank;
    struct rt_link *link;        /* NULL: in this process */
    float *gradient;             /* of the range */
    struct rt_receive *receives; /* [portions]; the one for the last portion is first */
    struct rt_send *sends;       /* [portions] */
    size_t sending;
    size_t came;              /* messages of the group that is coming */
    struct rt_message opened; /* the first of them */
    uint64_t pushes;          /* that have come */
    struct rt_push push;      /* while it waits or is gathered */
    bool push_counted;        /* as held */
    bool read_counted;
    struct rt_server_image *image; /* what it was last given; NULL: none is kept */
    struct rt_server_image *base;  /* what its gradient that is here was made with, for delay compensation */
    uint64_t looked;               /* the look at waiting gradients in which it was judged */
};

struct rt_server {
    struct rt_server_settings settings;
    const struct rt_rules *rules;
    struct rt_portion *portions;
    size_t portion_count;
    struct rt_server_client *clients; /* [workers] */
    struct rt_worker_state *states;   /* [workers] */
    size_t local;                     /* the worker in this process; workers: none */
    struct rt_server_local here;
    struct rt_receive *receives; /* [workers * portions] */
    struct rt_send *sends;
    float *gradients;               /* [workers * count] */
    struct rt_server_image *images; /* [image_count] */
    size_t image_count;             /* as many as workers; twice that where `base` may be another */
    float *image_floats;
    float *shaped;                /* [count], with delay compensation; otherwise NULL */
    double *distances;            /* [image_count] */
    bool *marks;                  /* [image_count] */
    const struct rt_push **round; /* [workers] what an update is made of */
    float **sums;                 /* [workers] */
    struct rt_server_view view;
    uint64_t arrivals, looks;
    uint64_t batches; /* that the gradients were made of which have come to something, dropped ones too */
    bool changed;     /* something that the rules look at, since they last had nothing to do */
    struct rt_server_counts counts;
};

static inline float *rt_server_params(const struct rt_server *server) {
    return server->settings.params + server->settings.first;
}

/* check.c: whether a worker may send this message now. */
rt_status rt_server_check(const struct rt_server *server, size_t worker, const struct rt_message *message,
                          struct rt_error *err);

/* apply.c: an update made of one gradient, or of all that are gathered. */
void rt_server_apply(struct rt_server *server, const struct rt_push *push);
void rt_server_apply_round(struct rt_server *server);
/* The batches that a gradient was made of: more than one where workers add several up. */
uint64_t rt_server_batches_of(const struct rt_server *server, const struct rt_push *push);
/* The gradient as it is applied, delay compensation included; out: where it is written if it differs. */
const float *rt_server_shape(const struct rt_server *server, const struct rt_push *push, float *out);
/* The step of the next update, made of this (shaped) gradient; scale: what it is multiplied by. push: whose
 * it is; NULL: that of the round. */
void rt_server_step(const struct rt_server *server, const struct rt_push *push, const float *gradient,
                    double scale, struct rt_optim_step *step);

/* answer.c: gives a worker that asked the parameters as they are now. */
void rt_server_answer(struct rt_server *server, size_t worker);

#endif
