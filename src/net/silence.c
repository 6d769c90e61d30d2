/* The bound on a peer's silence; see silence.h. */
#include "net/silence.h"

#include <math.h>

enum { ENOUGH = 8, LEAST_BEATS = 4, MARGIN_BEATS = 2, STALL_BEATS = 2 };
static const double trips = 4, deviations = 4, latenesses = 2;
/* Shares of a new sample in the smoothed round trip and, when it is further off or nearer than usual, in the
 * deviation. */
static const double share = 1.0 / 8, share_up = 1.0 / 4, share_down = 1.0 / 32;
static const double half_life = 8, longest_trip = 3600;

struct rt_silence_terms rt_silence_terms(double most, double least, double heartbeat) {
    struct rt_silence_terms terms = {.most = most > 0 ? most : 5,
                                     .heartbeat = heartbeat > 0 ? heartbeat : 0.25};
    terms.least = least > 0 ? fmin(least, terms.most) : terms.most;
    terms.heartbeat = fmin(terms.heartbeat, terms.least / LEAST_BEATS);
    return terms;
}

void rt_silence_sample(struct rt_silence *silence, double round_trip) {
    const double trip = fmin(fmax(round_trip, 0), longest_trip);
    if (silence->samples == 0) {
        silence->smoothed = trip;
        silence->deviation = trip / 2;
    } else {
        const double off = fabs(trip - silence->smoothed);
        silence->deviation += (off - silence->deviation) * (off > silence->deviation ? share_up : share_down);
        silence->smoothed += (trip - silence->smoothed) * share;
    }
    if (silence->samples < ENOUGH)
        silence->samples++;
}

double rt_silence_bound(const struct rt_silence *silence, const struct rt_silence_terms *terms) {
    if (silence->samples < ENOUGH)
        return terms->most;
    const double margin = MARGIN_BEATS * terms->heartbeat;
    double bound = fmax(terms->least, margin + trips * (silence->smoothed + deviations * silence->deviation));
    bound = fmax(bound, margin + latenesses * silence->late);
    return fmin(bound, terms->most);
}

double rt_silence_stall(double bound, const struct rt_silence_terms *terms) {
    return bound - STALL_BEATS * terms->heartbeat;
}

double rt_silence_fade(double late, double seconds) {
    return late * exp2(-seconds / half_life);
}

double rt_silence_told(double late, bool attended) {
    static const double operation = 1;
    return attended ? fmax(late, operation) : late;
}

rt_status rt_silence_fail(double bound, struct rt_error *err) {
    return rt_fail(err, RT_IO, "has been silent for %.3g seconds", bound);
}
