#include "support/servelog.h"

#include "support/test.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static void note_update(void *user, struct exrig *rig, uint16_t server, uint64_t version, size_t pushes,
                        const struct rt_push *const *push) {
    struct servelog *log = user;
    if (server != 0 || log->updates == LOG_UPDATES)
        return;
    CHECK(version == log->updates + 1 && pushes <= LOG_PUSHES);
    struct log_update *update = &log->update[log->updates++];
    update->at = rt_endpoint_now(rig->node[0].endpoint);
    update->pushes = pushes;
    for (size_t i = 0; i < pushes && i < LOG_PUSHES; i++)
        update->push[i] = (struct log_push){push[i]->worker, push[i]->batch, push[i]->base, push[i]->rows};
}

static void note_drop(void *user, struct exrig *rig, uint16_t server, const struct rt_push *push,
                      enum rt_verdict verdict) {
    struct servelog *log = user;
    (void)rig, (void)push;
    log->dropped += server == 0 && verdict == RT_VERDICT_DROP;
}

static void train(void *user, struct exrig *rig) {
    (void)user;
    if (exrig_train(rig, rig->settings.updates))
        exrig_settle(rig);
}

bool servelog_run(const struct exrig_settings *settings, struct servelog *log, struct exrig *rig) {
    struct exrig_settings own = *settings;
    struct rt_error err;
    memset(log, 0, sizeof *log);
    own.updated = note_update;
    own.judged = note_drop;
    if (exrig_open(&own, rig, &err) != RT_OK) {
        rt_test_fail(__FILE__, __LINE__, "%s", err.text);
        return false;
    }
    bool good = exrig_run(rig, train, log, &err) == RT_OK;
    if (!good)
        rt_test_fail(__FILE__, __LINE__, "%s", err.text);
    for (size_t i = 0; i < own.nodes && good; i++)
        if (rig->node[i].status != RT_OK) {
            rt_test_fail(__FILE__, __LINE__, "node %zu: %s", i, rig->node[i].error.text);
            good = false;
        }
    if (!good)
        exrig_close(rig);
    return good;
}

/* The sum of an update's gradients, in the binary tree over the places. */
static void add_pushes(const struct exrig *rig, const struct log_update *update, const float *versions,
                       size_t version, float *sum) {
    const float dc = (float)rig->options.compensate;
    const size_t n = rig->settings.params, parts = rig->node[rig->worker[0]].parts;
    float *slices = calloc(rig->roles.workers * n, sizeof *slices);
    bool there[EXRIG_NODES] = {false};
    for (size_t i = 0; i < update->pushes; i++) {
        const struct log_push *push = &update->push[i];
        const size_t rows = exrig_rows(rig, push->batch), part = parts > 1 ? push->worker : 0;
        exrig_gradient(rig, push->batch, part * rows / parts, (part + 1) * rows / parts,
                       versions + push->base * n, slices + push->worker * n);
        there[push->worker] = true;
        for (size_t j = 0; dc > 0 && push->base != version && j < n; j++) {
            float *g = &slices[push->worker * n + j];
            *g += dc * *g * *g * (versions[version * n + j] - versions[push->base * n + j]);
        }
    }
    for (size_t step = 1; step < rig->roles.workers; step *= 2)
        for (size_t i = 0; i + step < rig->roles.workers; i += 2 * step) {
            for (size_t j = 0; there[i + step] && j < n; j++)
                if (there[i])
                    slices[i * n + j] += slices[(i + step) * n + j];
                else
                    slices[i * n + j] = slices[(i + step) * n + j];
            there[i] |= there[i + step];
        }
    memcpy(sum, slices, n * sizeof *sum);
    free(slices);
}

float *servelog_replay(const struct exrig *rig, const struct servelog *log) {
    const size_t n = rig->settings.params;
    float *versions = calloc((log->updates + 1) * n, sizeof *versions), *sum = calloc(n, sizeof *sum);
    const float lr = (float)rig->optim->lr;
    for (size_t v = 0; v < log->updates; v++) {
        const struct log_update *update = &log->update[v];
        double rows = 0;
        for (size_t i = 0; i < update->pushes; i++)
            rows += update->push[i].rows;
        const bool round = rig->node[rig->worker[0]].parts > 1 && update->pushes < rig->roles.workers;
        const float scale = round ? (float)((double)rig->settings.batch / rows) : 1;
        add_pushes(rig, update, versions, v, sum);
        for (size_t j = 0; j < n; j++)
            versions[(v + 1) * n + j] = versions[v * n + j] - lr * (sum[j] * scale);
    }
    free(sum);
    return versions;
}

void servelog_check(const struct exrig *rig, const struct servelog *log) {
    const size_t n = rig->settings.params;
    float *versions = servelog_replay(rig, log);
    CHECK(memcmp(versions + log->updates * n, rig->node[0].shelf, n * sizeof *versions) == 0);
    free(versions);
}

size_t servelog_count(const struct servelog *log, uint64_t version, size_t worker) {
    size_t count = 0;
    for (uint64_t v = 0; v < version && v < log->updates; v++)
        for (size_t i = 0; i < log->update[v].pushes; i++)
            count += log->update[v].push[i].worker == worker;
    return count;
}
