/*
 * How far an update would go, for rules that bound it. The optimizer step is run on copies of the parameters
 * and of its state, block by block, so the distance is exact for any optimizer.
 */
#include "exchange/server/server_inside.h"

#include "base/exactmath.h"
#include <math.h>
#include <string.h>

enum { BLOCK = 1024, WORDS = 4 };

struct trial {
    const struct rt_server *server;
    const float *gradient; /* of the range */
    struct rt_optim_step step;
    float made[BLOCK];
    float state[WORDS][BLOCK];
};

static void trial_begin(struct trial *trial, const struct rt_server *server, const struct rt_push *push) {
    trial->server = server;
    trial->gradient = rt_server_shape(server, push, server->shaped);
    rt_server_step(server, push, trial->gradient, 1, &trial->step);
}

/* Makes the parameters from..from+n of the range as the update would. */
static void trial_try_block(struct trial *trial, size_t from, size_t n) {
    const struct rt_server_settings *settings = &trial->server->settings;
    const struct rt_optim *optim = settings->updater.optim;
    float *words[WORDS] = {NULL};
    memcpy(trial->made, rt_server_params(trial->server) + from, n * sizeof(float));
    for (size_t w = 0; w < optim->type->state_tensors && w < WORDS; w++) {
        const float *word = settings->updater.state + w * settings->param_count + settings->first + from;
        memcpy(trial->state[w], word, n * sizeof(float));
        words[w] = trial->state[w];
    }
    optim->type->apply(optim, &trial->step, n, trial->made, trial->gradient + from, words);
}

/* The distance so far, with n more: the largest difference, or the sum of their squares. NaN counts as
 * infinitely far. */
static double trial_add(int norm, double sum, size_t n, const float *a, const float *b) {
    for (size_t i = 0; i < n; i++) {
        const float difference = rt_abs(a[i] - b[i]);
        if (norm == RT_NORM_TWO)
            sum += (double)difference * (double)difference;
        else if (!((double)difference <= sum))
            sum = difference == difference ? (double)difference : (double)INFINITY;
    }
    return sum;
}

static double trial_end(int norm, double sum) {
    return norm == RT_NORM_TWO ? sqrt(sum) : sum;
}

double rt_server_distance(const struct rt_server *server, const struct rt_push *push) {
    const int norm = server->settings.options->norm;
    const size_t count = server->settings.count;
    struct trial trial;
    for (size_t i = 0; i < server->image_count; i++) {
        server->marks[i] = false;
        server->distances[i] = 0;
    }
    for (size_t i = 0; i < server->view.workers; i++) {
        const struct rt_server_image *image = server->clients[i].image;
        if (i != push->worker && image && !server->states[i].resting)
            server->marks[image - server->images] = true;
    }
    trial_begin(&trial, server, push);
    for (size_t from = 0; from < count; from += BLOCK) {
        const size_t n = count - from < BLOCK ? count - from : BLOCK;
        trial_try_block(&trial, from, n);
        for (size_t i = 0; i < server->image_count; i++)
            if (server->marks[i])
                server->distances[i] =
                    trial_add(norm, server->distances[i], n, trial.made, server->images[i].floats + from);
    }
    double largest = 0;
    for (size_t i = 0; i < server->image_count; i++)
        if (!(server->distances[i] <= largest))
            largest = server->distances[i];
    return trial_end(norm, largest);
}

double rt_server_stride(const struct rt_server *server, const struct rt_push *push) {
    const int norm = server->settings.options->norm;
    const size_t count = server->settings.count;
    struct trial trial;
    double sum = 0;
    trial_begin(&trial, server, push);
    for (size_t from = 0; from < count; from += BLOCK) {
        const size_t n = count - from < BLOCK ? count - from : BLOCK;
        trial_try_block(&trial, from, n);
        sum = trial_add(norm, sum, n, trial.made, rt_server_params(server) + from);
    }
    return trial_end(norm, sum);
}
