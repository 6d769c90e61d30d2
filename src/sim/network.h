/*
 * A network in memory, under virtual time: for tests of everything above it. Each endpoint has a thread of
 * its own, but only one runs at a time, in a fixed order; virtual time advances when all of them wait. So
 * a run is a function of its seed: the same events in the same order at the same times, every time.
 *
 * The clocks of base/clock.h show a program's thread virtual time too.
 * Programs spend no virtual time computing unless they say so, with rt_endpoint_sleep. Others run only
 * while a program waits or sleeps. A wait that does not sleep (its time has come already) first lets all
 * others do what they can at the present time, but time does not advance: a program that only polls, and
 * never waits, loops for ever.
 *
 * An endpoint is a host with one program. Faults come on request, at an exact time: a host is killed, killed
 * and started again, stopped for a while, unplugged; its program hangs while its heartbeats go on; nothing
 * passes between two hosts, or in one direction only. Programs see of a fault what they would see over TCP. A
 * silent peer is noticed by the same rule, from the same settings (net/silence.h, outage.c).
 */
#ifndef RT_SIM_NETWORK_H
#define RT_SIM_NETWORK_H

#include "net/transport.h"

struct rt_memnet;

/* How a frame travels: it leaves when the link is free and a receive for it is posted (which the other side
 * knows at once), occupies the link for bytes / bandwidth, and arrives latency later, plus a random delay.
 * Frames of one channel stay in order; links and channels do not wait for one another. Connecting takes a
 * latency each way and waits for a peer that does not listen yet; closing takes one. */
struct rt_memnet_settings {
    uint64_t seed;
    double latency;      /* seconds */
    double bandwidth;    /* bytes (heads and bodies) per second and direction; 0: without limit */
    double random_delay; /* seconds, uniform from 0 to this, drawn anew for each frame */
    /* Different for some links: may change latency, bandwidth and random_delay for frames from one endpoint
     * to another. May be NULL. */
    void (*shape)(void *user, size_t from, size_t to, double now, double *latency, double *bandwidth,
                  double *random_delay);
    void *user;
    /* As of the TCP transport: heartbeats, and how long a peer may be silent (net/silence.h); 0: 0.25, 5, and
     * no adaptation */
    double heartbeat_seconds, silence_seconds, silence_least;
};

rt_status rt_memnet_create(const struct rt_memnet_settings *settings, size_t endpoints,
                           struct rt_memnet **net, struct rt_error *err);
void rt_memnet_destroy(struct rt_memnet *net); /* with all links; NULL is fine */

/* Endpoint i; it listens at "mem:<i>" once it is told to (rt_endpoint_listen takes that address, or "mem:*").
 * Owned by the net; rt_endpoint_destroy on it only closes its links and stops listening. */
struct rt_endpoint *rt_memnet_endpoint(struct rt_memnet *net, size_t i);

/* Runs program(user, i, endpoint) for every endpoint, each on a thread of its own, until all have returned,
 * or none can go on (RT_FAILED: a deadlock, with a list of the waits) or virtual time passes `limit`
 * (RT_FAILED). After a failure every link is closed, with the reason, and every wait and sleep returns at
 * once, the endpoint's own time being what it waited for: so that programs can end. A wait that had no time
 * limit and returns false says so: nothing will ever come. A rt_endpoint_wake from a thread outside the run
 * is seen when the programs next wait; it does not hold up the verdict of a deadlock. */
typedef void (*rt_memnet_program)(void *user, size_t i, struct rt_endpoint *endpoint);
rt_status rt_memnet_run(struct rt_memnet *net, rt_memnet_program program, void *user, double limit,
                        struct rt_error *err);

/* ---- faults: called by a program, or before the run; fault.h has lists of them ---- */

/* From now on nothing passes from one host to another; or in either direction; or between one and all others
 * (a pulled cable). Links: what is sent is held up, acknowledgements, too, so that soon nothing comes the
 * other way either, and both sides notice the silence of the other. Requests to connect get no answer.
 * heal: it passes again. The next repetition of the system, the later the longer the outage was, brings what
 * was held up, to links that are still there. Outages may overlap. */
void rt_memnet_cut_one_way(struct rt_memnet *net, size_t from, size_t to);
void rt_memnet_heal_one_way(struct rt_memnet *net, size_t from, size_t to);
void rt_memnet_cut(struct rt_memnet *net, size_t a, size_t b);
void rt_memnet_heal(struct rt_memnet *net, size_t a, size_t b);
void rt_memnet_unplug(struct rt_memnet *net, size_t i);
void rt_memnet_plug(struct rt_memnet *net, size_t i);

/* A host stops for so long, as by SIGSTOP and SIGCONT: its program does not run, and its heartbeats stop.
 * What is sent to it waits, up to a window; peers may give it up meanwhile, which it hears when it goes on.
 */
void rt_memnet_pause(struct rt_memnet *net, size_t i, double seconds);

/* Ends an endpoint as a whole, as when a process is killed: others notice at once (a latency later), after
 * the frames that had left before. For its own program the run has failed. */
void rt_memnet_kill(struct rt_memnet *net, size_t i);

/* The same, and after so many seconds a new program starts at the same host, with an endpoint of its own
 * (rt_memnet_endpoint). It is the program of the run, or the one that was given here. One that has not
 * started when all others have ended does not. */
rt_status rt_memnet_restart(struct rt_memnet *net, size_t i, double after, struct rt_error *err);
void rt_memnet_restarts(struct rt_memnet *net, rt_memnet_program program, void *user);

/* The program of a host hangs for so long, and its heartbeats go on. */
void rt_memnet_hang(struct rt_memnet *net, size_t i, double seconds);

/* The program of an endpoint hangs from one time to another: it takes no event and its sleeps do not end
 * before that, but its links live. Called by the program itself, before it hangs. */
void rt_memnet_freeze(struct rt_endpoint *endpoint, double from, double until);
/* It hangs for so long repeatedly, with the given period, from the first time on. */
void rt_memnet_freeze_again(struct rt_endpoint *endpoint, double every);
/* From then on its heartbeats lie: they say that it takes steps, and carry this note. */
void rt_memnet_pretend(struct rt_endpoint *endpoint, double from, uint16_t note);

double rt_memnet_now(const struct rt_memnet *net);

#endif
