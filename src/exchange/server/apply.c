/* Making updates of gradients: of a single one, or of a round of them. */
#include "exchange/server/server_inside.h"

#include "base/clones.h"
#include "optim/power.h"

/* ---- arithmetic ---------------------------------------------------------------------------------------- */

RT_CLONES static void compensate(size_t n, float lambda, const float *g, const float *w, const float *base,
                                 float *out) {
    for (size_t i = 0; i < n; i++)
        out[i] = g[i] + lambda * g[i] * g[i] * (w[i] - base[i]);
}

RT_CLONES static void add(size_t n, float *restrict sum, const float *restrict term) {
    for (size_t i = 0; i < n; i++)
        sum[i] += term[i];
}

RT_CLONES static void scale_all(size_t n, float factor, float *g) {
    for (size_t i = 0; i < n; i++)
        g[i] *= factor;
}

const float *rt_server_shape(const struct rt_server *server, const struct rt_push *push, float *out) {
    const struct rt_server_client *client = &server->clients[push->worker];
    if (!server->shaped || !client->base || push->base == server->view.version)
        return push->gradient;
    compensate(server->settings.count, (float)server->settings.options->compensate, push->gradient,
               rt_server_params(server), client->base->floats, out);
    return out;
}

static double server_damping(const struct rt_server *server, uint64_t staleness) {
    const double power = server->settings.options->damp;
    return power > 0 ? rt_power(1 + (double)staleness, (uint64_t)power) : 1;
}

uint64_t rt_server_batches_of(const struct rt_server *server, const struct rt_push *push) {
    const int64_t most = server->settings.options->push_every;
    const uint64_t rows = server->settings.batch_rows;
    if (most <= 1 || rows == 0)
        return 1;
    const uint64_t batches = (push->rows + rows - 1) / rows;
    return batches < 1 ? 1 : batches < (uint64_t)most ? batches : (uint64_t)most;
}

/* Every server counts its own updates; all make one of the same gradients, so their rates agree. A schedule
 * goes by batches, as on one device, also where an update is made of several. */
void rt_server_step(const struct rt_server *server, const struct rt_push *push, const float *gradient,
                    double scale, struct rt_optim_step *step) {
    const uint64_t number = server->view.version + 1,
                   staleness = push ? server->view.version - push->base : 0;
    const uint64_t batch = server->batches + (push ? rt_server_batches_of(server, push) : 0);
    const struct rt_update update = {.number = number,
                                     .batch = server->rules->asynchronous ? batch : number,
                                     .damping = server_damping(server, staleness),
                                     .scale = scale};
    rt_updater_begin(&server->settings.updater, &update, gradient, step);
}

/* Adds the round's gradients in the binary tree over the workers' places: neighbours, then neighbouring
 * pairs, and so on; missing workers are skipped. Block by block, so that sums stay in the cache. Returns
 * where the sum is: in the memory of the first of them. */
static const float *server_add_round(struct rt_server *server) {
    enum { BLOCK = 8192 };
    const size_t workers = server->view.workers, count = server->settings.count;
    float **sums = server->sums;
    for (size_t from = 0; from < count; from += BLOCK) {
        const size_t n = count - from < BLOCK ? count - from : BLOCK;
        for (size_t i = 0; i < workers; i++)
            sums[i] = server->states[i].gathered ? server->clients[i].gradient : NULL;
        for (size_t step = 1; step < workers; step *= 2)
            for (size_t i = 0; i + step < workers; i += 2 * step) {
                if (!sums[i])
                    sums[i] = sums[i + step];
                else if (sums[i + step])
                    add(n, sums[i] + from, sums[i + step] + from);
            }
    }
    return sums[0];
}

/* ---- updates ------------------------------------------------------------------------------------------- */

static void server_note(struct rt_server *server, const struct rt_push *push) {
    struct rt_server_counts *counts = &server->counts;
    const uint64_t staleness = server->view.version - push->base;
    counts->staleness[staleness < RT_STALENESS_BINS ? staleness : RT_STALENESS_BINS - 1]++;
    counts->staleness_sum += (double)staleness;
    if (staleness > counts->staleness_max)
        counts->staleness_max = staleness;
}

/* The update is made of the first `pushes` of server->round. */
static void server_finish_update(struct rt_server *server, size_t pushes, const struct rt_optim_step *step,
                                 const float *gradient, enum rt_state before) {
    const struct rt_server_settings *settings = &server->settings;
    for (size_t i = 0; i < pushes; i++)
        server_note(server, server->round[i]);
    rt_updater_apply(&settings->updater, step, settings->first, settings->count, settings->param_count,
                     settings->params, gradient);
    rt_communicator_enter(settings->comm, before);
    server->view.version++;
    server->counts.applied++;
    if (settings->updated)
        settings->updated(settings->user, server->view.version, pushes, server->round);
}

static enum rt_state server_begin_update(const struct rt_server *server) {
    const struct rt_communicator *comm = server->settings.comm;
    if (server->settings.apply_seconds > 0 && comm->endpoint)
        rt_endpoint_sleep(comm->endpoint, rt_endpoint_now(comm->endpoint) + server->settings.apply_seconds);
    if (comm->clock)
        rt_states_at_update(comm->clock, server->view.version + 1);
    return rt_communicator_enter(comm, RT_STATE_UPDATE);
}

void rt_server_apply(struct rt_server *server, const struct rt_push *push) {
    const enum rt_state before = server_begin_update(server);
    const float *gradient = rt_server_shape(server, push, server->shaped);
    struct rt_optim_step step;
    rt_server_step(server, push, gradient, 1, &step);
    server->round[0] = push;
    server_finish_update(server, 1, &step, gradient, before);
}

/* The factor that turns the sum of the present gradients into the mean over their examples: each gradient is
 * divided by the rows of the whole batch. */
static double server_round_scale(const struct rt_server *server, size_t pushes) {
    const struct rt_server_settings *settings = &server->settings;
    const uint64_t per_epoch = server->view.per_epoch, batch = server->round[0]->batch;
    uint64_t rows = 0;
    if (pushes == server->view.workers || settings->options->reduce == RT_SUM || server->rules->asynchronous)
        return 1;
    for (size_t i = 0; i < pushes; i++)
        rows += server->round[i]->rows;
    const bool last = per_epoch > 0 && batch % per_epoch == 0;
    const uint64_t whole = last ? settings->last_rows : settings->batch_rows;
    if (whole == 0 || rows == 0)
        return (double)server->view.workers / (double)pushes;
    return (double)whole / (double)rows;
}

void rt_server_apply_round(struct rt_server *server) {
    const enum rt_state before = server_begin_update(server);
    size_t pushes = 0;
    for (size_t i = 0; i < server->view.workers; i++) {
        const struct rt_push *push = &server->clients[i].push;
        if (!server->states[i].gathered)
            continue;
        float *own = server->clients[i].gradient;
        rt_server_shape(server, push, own);
        const double damp = server_damping(server, server->view.version - push->base);
        if (damp != 1)
            scale_all(server->settings.count, (float)(1 / damp), own);
        server->round[pushes++] = push;
    }
    const double scale = server_round_scale(server, pushes);
    const float *sum = server_add_round(server);
    struct rt_optim_step step;
    rt_server_step(server, NULL, sum, scale, &step);
    server_finish_update(server, pushes, &step, sum, before);
}
