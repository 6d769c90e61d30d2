/*
 * How many examples of a stream the master keeps until a replica has them (run/ring/stream_batches.h). While
 * one replica is under way another is complete, so there are two intervals between replicas in it; as much
 * again, since a prediction may be too low. Where that is too much memory, replicas follow one another
 * sooner: half of the room is the most that lies between two of them.
 */
#include "run/ring/setup_inside.h"

#include "base/sentence.h"
#include "data/stream.h"
#include "plan/planner.h"
#include "run/ring/stream_batches.h"
#include <math.h>

#define LEAST_SECONDS 0.25               /* between two replicas: see run/replicate.c */
#define MOST_BYTES    (64.0 * (1 << 20)) /* that are kept, unless two batches take more */
#define LEAST_ROOM    4                  /* batches, where the memory allows it */

/* Updates in two intervals between replicas. */
static double stream_plan_updates(const struct rt_ring_setup_settings *settings,
                                  const struct rt_ring_setup *setup) {
    const double every = (double)settings->spec->cluster.replica_every;
    const double interval = fmax(LEAST_SECONDS, setup->replica_interval);
    return every > 0 ? 2 * every
                     : 4 * ceil(interval * setup->plan->samples_per_s / (double)setup->job->batch);
}

/* Bytes that the master has left for them. */
static double stream_plan_most_bytes(const struct rt_ring_setup *setup) {
    const uint64_t offered = setup->device[0].memory, taken = setup->plan->node[0].memory;
    const double left = offered > taken ? (double)(offered - taken) : 0;
    return offered > 0 ? fmin(MOST_BYTES, left) : MOST_BYTES;
}

rt_status rt_ring_setup_count_stream(const struct rt_ring_setup_settings *settings,
                                     struct rt_ring_setup *setup, struct rt_error *err) {
    const struct rt_network *network = settings->network;
    const struct rt_job *job = setup->job;
    size_t bytes;
    if (!rt_stream_named(settings->spec->data.train) || !settings->spec->cluster.recover ||
        job->ring.replica == RT_REPLICA_OFF || setup->plan->nodes == 1)
        return RT_OK;
    RT_TRY(rt_stream_batches_bytes((size_t)job->batch, network->inputs, network->outputs, &bytes, err));
    if (setup->stream_room == 0) { /* it stays for the whole run */
        const double most = floor(stream_plan_most_bytes(setup) / (double)bytes);
        const double wanted = fmax(LEAST_ROOM, stream_plan_updates(settings, setup));
        setup->stream_room = (size_t)fmax(2, fmin(wanted, most));
    }
    setup->stream_bytes = setup->stream_room * bytes;
    setup->plan->node[0].memory += setup->stream_bytes;
    return RT_OK;
}

void rt_ring_setup_print_stream(const struct rt_ring_setup *setup, FILE *out) {
    char bytes[32];
    if (setup->stream_bytes > 0)
        fprintf(out,
                "The master keeps the examples that are in no replica yet: %s at most, which take %s of "
                "memory. A replica is "
                "made when half of that has come since the last one; when it is full, the stream waits.\n",
                RT_COUNTED(setup->stream_room * (size_t)setup->job->batch, "example"),
                rt_plan_bytes_text((double)setup->stream_bytes, bytes));
}
