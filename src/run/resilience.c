/* What images and checkpoints cost, as lines of a plan. */
#include "run/resilience.h"

#include "base/clock.h"
#include "base/sentence.h"
#include "base/sha256.h"
#include "plan/planner.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

void rt_resilience_print_image(const struct rt_spec *spec, size_t bytes, const char *where, FILE *out) {
    const struct rt_spec_cluster *cluster = &spec->cluster;
    char often[40], size[32];
    if (!cluster->recover || cluster->replica == RT_REPLICA_OFF)
        return;
    if (cluster->replica_every > 0)
        snprintf(often, sizeof often, "every %s", RT_COUNTED((uint64_t)cluster->replica_every, "update"));
    else
        snprintf(often, sizeof often, "for at most 2 %% of the speed");
    fprintf(out, "The master keeps an image of the state for when a device is lost: %s %s; renewed %s.\n",
            rt_plan_bytes_text((double)bytes, size), where, often);
}

/* Seconds in which this device copies a byte and adds it to a hash. What the disk takes is not in it. */
static double resilience_seconds_per_byte(void) {
    enum { HALF = 256 << 10 };
    uint8_t *bytes = calloc(2, HALF);
    double best = 1;
    for (size_t i = 0; bytes && i < 3; i++) {
        struct rt_sha256 hash;
        const double before = rt_clock_thread();
        memcpy(bytes + HALF, bytes, HALF);
        rt_sha256_init(&hash);
        rt_sha256_add(&hash, bytes + HALF, HALF);
        rt_sha256_finish(&hash, bytes);
        best = fmin(best, rt_clock_thread() - before);
    }
    free(bytes);
    return bytes ? best / HALF : 1e-8;
}

char *rt_resilience_add_checkpoint(char *plan, const struct rt_spec *spec, size_t bytes) {
    const double every = spec->train.checkpoint_seconds;
    char size[32], *text = NULL;
    size_t length;
    if (!plan || every <= 0)
        return plan;
    FILE *out = open_memstream(&text, &length);
    if (!out)
        return plan;
    fprintf(out,
            "%sA checkpoint of %s is written every %g s, while training goes on: about %.2g %% of the "
            "master's time.\n",
            plan, rt_plan_bytes_text((double)bytes, size), every,
            100 * fmin(1, (double)bytes * resilience_seconds_per_byte() / every));
    if (fclose(out) != 0) {
        free(text);
        return plan;
    }
    free(plan);
    return text;
}
