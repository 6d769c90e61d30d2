/*
 * When is a silent peer gone? One rule for every transport, without clocks or sockets.
 *
 * A host sends a heartbeat at a fixed interval, whatever its program computes. The peer answers each, so both
 * know how long a round trip takes, and the answer says how late the peer's own heartbeats have been of late:
 * on an overloaded machine, or where the thread that computes also moves the bytes, as late as one operation
 * is long. So the bound on silence can adapt to the network and to the peer:
 *
 *   bound = min(most, max(least,
 *                         2 heartbeats + 4 (smoothed round trip + 4 deviations),
 *                         2 heartbeats + 2 times the peer's lateness))
 *
 * The first term is at least 4 heartbeats: one lost heartbeat is no silence, and the network repeats it in
 * less than that. A jump of the round trip is believed at once and forgotten slowly. Until enough has been
 * measured the bound is `most`. Nothing that the peer says can make the bound longer than `most`, or shorter
 * than `least`.
 *
 * Adaptation has to be asked for (`least`). A run that goes on without a lost node asks for it: the sooner a
 * silent node is given up, the less time all others lose. Where a loss ends the run it is not asked for: a
 * short bound would end runs that survive a stop of a few seconds with the long one. Round trips are measured
 * in any case: a peer may adapt.
 */
#ifndef RT_NET_SILENCE_H
#define RT_NET_SILENCE_H

#include "base/status.h"

struct rt_silence_terms {
    double most;      /* seconds without a sign of life after which a peer is gone, at most */
    double least;     /* and at least; as `most`: the bound does not adapt */
    double heartbeat; /* seconds between two */
};

/* The defaults, 5 s, `most` and 0.25 s, where a value is 0; and never fewer than 4 heartbeats in a bound. */
struct rt_silence_terms rt_silence_terms(double most, double least, double heartbeat);

/* What is known of one peer; all 0: nothing yet. */
struct rt_silence {
    unsigned samples;
    double smoothed, deviation; /* of the round trip, seconds */
    double late;                /* seconds by which its heartbeats may be late, as it says */
};

void rt_silence_sample(struct rt_silence *silence, double round_trip);
double rt_silence_bound(const struct rt_silence *silence, const struct rt_silence_terms *terms);

/* Seconds of not running after which a program cannot judge its peers by what was measured before, and may
 * have been given up by those whose bound is this. */
double rt_silence_stall(double bound, const struct rt_silence_terms *terms);

/* What is left of a lateness after so many seconds: it halves in eight. */
double rt_silence_fade(double late, double seconds);
/* What peers are told. An owner who attends to the network (rt_endpoint_attend) may compute for a while,
 * which cannot be known before. */
double rt_silence_told(double late, bool attended);

/* The reason why the link closes, without a name. */
rt_status rt_silence_fail(double bound, struct rt_error *err);

#endif
