/* What the files of an engine share; see engine.h. */
#ifndef RT_CONTROL_ENGINE_INSIDE_H
#define RT_CONTROL_ENGINE_INSIDE_H

#include "cluster/liveness.h"
#include "control/engine.h"
#include <pthread.h>

/* A waiting thread. */
struct rt_watcher {
    bool (*test)(void *self);
    void *self;
    double until; /* the end of its waiting, at the latest */
    bool lingers; /* a failure does not end it */
    bool met;
    struct rt_watcher *next;
};

/* What is known of a rank. */
struct rt_peer_record {
    double heard; /* when its link last had an event */
    struct rt_link_counts counts;
};

struct rt_engine {
    struct rt_engine_settings settings;
    struct rt_endpoint *endpoint; /* NULL: we are alone */
    double timeout;
    struct rt_peer_record *peers;         /* [communicator->count] */
    struct rt_wait wait[RT_ENGINE_PARTS]; /* of each part */
    bool due;                             /* parts are to take their turn */
    bool works;                           /* some part has work of its own */
    atomic_bool letting_go;
    struct { /* another node that this one lost */
        bool yes;
        uint16_t who;
        double until; /* the master may say why */
        struct rt_error error;
    } gone;
    double check;     /* when timeout is looked at again, by the thread */
    double stopped;   /* since when a thread waits although the owner was asked to stop; 0: none does */
    rt_status status; /* the first failure stays */
    struct rt_error error;
    uint16_t lost;

    bool threaded;
    atomic_bool ending;
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed;      /* a watcher's test is true, or the engine has failed */
    struct rt_watcher *watchers; /* without an engine thread: the only waiter */
    double helped;               /* seconds that the thread worked while another waited for it */
};

/* The first failure; the later ones are forgotten. lost: the rank that caused it. */
void rt_engine_fail(struct rt_engine *engine, rt_status status, const struct rt_error *err, uint16_t lost);

/* Longest sleep in seconds: a waiting thread then checks for a stop request and for timeouts. */
#define RT_ENGINE_LOOK_UP 0.5

/* Lets every part take its turn; hands an event to the parts; lets a part do some work with what is known. */
void rt_engine_take_turn(struct rt_engine *engine);
void rt_engine_take_event(struct rt_engine *engine, const struct rt_event *event);
bool rt_engine_do_work(struct rt_engine *engine);

/* ---- engine_thread.c ---- */

rt_status rt_engine_start_thread(struct rt_engine *engine, struct rt_error *err);
void rt_engine_end_thread(struct rt_engine *engine);
/* Waits as the watcher says; not on the engine's thread. */
void rt_engine_watch_threaded(struct rt_engine *engine, struct rt_watcher *watcher);

/* ---- engine_timeout.c: reasons not to wait any longer ---- */

enum rt_owner {
    RT_OWNER_WORKS,
    RT_OWNER_WAITS, /* for something that has not come */
    RT_OWNER_NAPS,  /* it lets time pass: its device is an emulated one */
};
enum rt_owner rt_engine_owner(const struct rt_engine *engine, double now);

/* A link is gone that was still needed. */
void rt_engine_take_loss(struct rt_engine *engine, uint16_t rank, const struct rt_error *why);
/* Fails when there is no more reason to wait; otherwise the time to look again. */
double rt_engine_check_timeout(struct rt_engine *engine, double now);
/* Fails when the owner is to stop. */
void rt_engine_check_stop(struct rt_engine *engine, double now);

#endif
