/* The life of one node of the rig. */
#include "support/exrig_parts.h"

#include "base/fpenv.h"
#include "base/memory.h"
#include <math.h>
#include <string.h>

/* ---- a node's replica ---------------------------------------------------------------------------------- */

/* Time passes, and the exchange goes on. */
static rt_status spend(struct exrig_node *node, double seconds, struct rt_error *err) {
    if (!(seconds > 0))
        return RT_OK;
    return rt_engine_wait(node->engine, NULL, NULL, rt_engine_now(node->engine) + seconds, err);
}

/* Inside the engine: floats of the examples of a ticket that has come or is to come. */
static rt_status take_examples(void *user, uint64_t batch, uint64_t at, const float *floats, size_t count,
                               struct rt_error *err) {
    struct exrig_node *node = user;
    const size_t place = batch % RT_TICKETS_AHEAD,
                 room = node->rig->settings.batch * node->rig->settings.params;
    if (at == 0 && node->got_batch[place] < batch) {
        node->got_batch[place] = batch;
        node->got[place] = 0;
    }
    if (node->got_batch[place] != batch || at != node->got[place] || count > room - node->got[place])
        return rt_fail(err, RT_BAD_INPUT, "these are not the examples of batch %llu",
                       (unsigned long long)batch);
    memcpy(node->sent + place * room + at, floats, count * sizeof *floats);
    node->got[place] += count;
    return RT_OK;
}

static size_t own_rows(const struct exrig_node *node, uint64_t batch) {
    const size_t rows = exrig_rows(node->rig, batch);
    return (node->part + 1) * rows / node->parts - node->part * rows / node->parts;
}

static bool has_examples(void *self) {
    const struct exrig_node *node = self;
    const size_t place = node->batch % RT_TICKETS_AHEAD, rows = own_rows(node, node->batch);
    return rows == 0 ||
           (node->got_batch[place] == node->batch && node->got[place] == rows * node->rig->settings.params);
}

static rt_status compute(void *self, const struct rt_ticket *ticket, struct rt_blocking_exchange *exchange,
                         struct rt_done *done, struct rt_error *err) {
    struct exrig_node *node = self;
    struct exrig *rig = node->rig;
    const size_t spans = rig->settings.spans;
    const double share = rig->settings.seconds[node->rank] / (double)(2 * spans);
    rt_status status = RT_OK;
    node->batch = ticket->batch;
    if (rig->settings.begins)
        status = rig->settings.begins(rig->user, rig, node->rank, ticket->batch, err);
    if (status == RT_OK && rig->settings.send && node->rank)
        status = rt_engine_wait(node->engine, has_examples, node, INFINITY, err);
    for (size_t i = 0; i < spans && status == RT_OK; i++) {
        rt_blocking_need(exchange, i);
        status = spend(node, share, err);
    }
    if (status == RT_OK && rig->settings.reads)
        status = rig->settings.reads(rig->user, rig, node->rank, ticket->batch, err);
    if (status != RT_OK)
        return status;
    done->loss = exrig_compute(node, ticket);
    done->rows = own_rows(node, ticket->batch);
    for (size_t k = 0; k < spans && status == RT_OK; k++) {
        const size_t i = node->replica.rising ? k : spans - 1 - k;
        const struct rt_span *span = &rig->span[i];
        status = spend(node, share, err);
        memcpy(node->gradient + span->first, node->slices + span->first, span->count * sizeof(float));
        rt_blocking_ready(exchange, i);
    }
    node->batches++;
    return status;
}

float *exrig_word(void *user, size_t word) {
    struct exrig_node *node = user;
    float *params = node->server ? node->shelf : node->params;
    return word == 0 ? params : node->state + (word - 1) * node->rig->settings.params;
}

void exrig_take_update(void *user, uint64_t update) {
    struct exrig_node *node = user;
    node->loaded = update;
    rt_engine_enter(node->engine);
    if (node->collective)
        rt_collective_exchange_set_update(node->collective, update);
    if (node->server)
        rt_server_set_version(node->server, update);
    rt_engine_leave(node->engine);
}

static void give_metrics(void *user, struct rt_metrics_row *row) {
    struct exrig_node *node = user;
    row->samples = node->batches;
    row->updates = node->collective ? rt_collective_exchange_update(node->collective) : 0;
}

/* ---- a node's life ------------------------------------------------------------------------------------- */

rt_status exrig_take_memory(struct exrig_node *node, struct rt_error *err) {
    const struct exrig *rig = node->rig;
    const size_t n = rig->settings.params, words = rig->optim->type->state_tensors;
    const size_t slices = rig->settings.shards > 1 ? rig->settings.shards : 1;
    rt_status status = rt_floats_create(n, "params", &node->params, err);
    if (status == RT_OK)
        status = rt_floats_create(n, "a server's params", &node->shelf, err);
    if (status == RT_OK)
        status = rt_floats_create(n, "a gradient", &node->gradient, err);
    if (status == RT_OK)
        status = rt_floats_create(n * words, "a state", &node->state, err);
    if (status == RT_OK)
        status = rt_floats_create(n * slices, "slices", &node->slices, err);
    const size_t buffers = RT_TICKETS_AHEAD * (node->rank ? 1 : rig->settings.nodes);
    if (status == RT_OK && rig->settings.send)
        status = rt_floats_create(buffers * rig->settings.batch * n, "examples", &node->sent, err);
    for (size_t i = 0; status == RT_OK && i < n * words; i++)
        node->state[i] = rig->optim->type->state_start;
    node->works = rt_roles_place(&rig->roles, node->rank) < rig->roles.workers;
    node->replica = (struct rt_replica){.self = node,
                                        .params = node->params,
                                        .gradient = node->gradient,
                                        .param_count = n,
                                        .spans = rig->span,
                                        .span_count = rig->settings.spans,
                                        .rising = rt_exchange_is_rising(rig->strategy, &rig->options),
                                        .compute = node->works ? compute : NULL};
    node->team = rt_exchange_team(rig->strategy, &rig->options, &rig->roles, node->rank);
    node->part = node->works ? node->team.place : 0;
    node->parts = node->team.count;
    return status;
}

static struct rt_updater updater_of(struct exrig_node *node) {
    const struct exrig *rig = node->rig;
    return (struct rt_updater){.optim = rig->optim,
                               .schedule = &rig->schedule,
                               .updates = 1000,
                               .per_epoch = 10,
                               .clip_norm = rig->settings.clip_norm,
                               .state = node->state,
                               .squares = exrig_squares,
                               .user = node};
}

static void tell_updated(void *user, uint64_t version, size_t pushes, const struct rt_push *const *push) {
    const struct exrig_node *node = user;
    node->rig->settings.updated(node->rig->user, node->rig, node->rank, version, pushes, push);
}

static void tell_judged(void *user, const struct rt_push *push, enum rt_verdict verdict) {
    const struct exrig_node *node = user;
    node->rig->settings.judged(node->rig->user, node->rig, node->rank, push, verdict);
}

static rt_status open_server(struct exrig_node *node, struct rt_error *err) {
    struct exrig *rig = node->rig;
    const size_t n = rig->settings.params;
    struct rt_span owned[RT_MAX_OWNED];
    if (node->rank >= rig->roles.servers)
        return RT_OK;
    if (rt_exchange_owned(rig->strategy, &rig->options, &rig->roles, node->rank, rig->span,
                          rig->settings.spans, n, owned) != 1)
        return rt_fail(err, RT_FAILED, "server %u does not own one range", node->rank);
    const struct rt_server_settings settings = {.strategy = rig->strategy,
                                                .rules = rt_exchange_rules(rig->strategy, &rig->options),
                                                .options = &rig->options,
                                                .roles = &rig->clients,
                                                .comm = &node->comm,
                                                .spans = rig->span,
                                                .span_count = rig->settings.spans,
                                                .first = owned[0].first,
                                                .count = owned[0].count,
                                                .param_count = n,
                                                .params = node->shelf,
                                                .updater = updater_of(node),
                                                .batch_rows = rig->settings.batch,
                                                .last_rows = rig->settings.batch,
                                                .apply_seconds = rig->settings.apply_seconds,
                                                .updated = rig->settings.updated ? tell_updated : NULL,
                                                .judged = rig->settings.judged ? tell_judged : NULL,
                                                .user = node};
    RT_TRY(rt_server_create(&settings, &node->server, err));
    rt_server_start(node->server);
    return RT_OK;
}

static rt_status open_client(struct exrig_node *node, struct rt_error *err) {
    struct exrig *rig = node->rig;
    const struct rt_ps_client_settings settings = {.strategy = rig->strategy,
                                                   .options = &rig->options,
                                                   .roles = &rig->clients,
                                                   .comm = &node->comm,
                                                   .replica = &node->replica,
                                                   .local = node->server,
                                                   .updater = updater_of(node)};
    rt_status status = rt_ps_client_create(&settings, &node->client, err);
    if (status == RT_OK)
        node->exchange.exchange = rt_ps_client_exchange(node->client);
    return status;
}

static size_t rows_of(void *user, uint64_t batch) {
    return exrig_rows(user, batch);
}

static rt_status open_nested(struct exrig_node *node, struct rt_error *err) {
    struct exrig *rig = node->rig;
    rt_status status = node->team.place == 0 ? open_client(node, err) : RT_OK;
    node->inner = node->exchange.exchange;
    const struct rt_nested_settings settings = {.options = &rig->options,
                                                .team = &node->team,
                                                .comm = &node->comm,
                                                .replica = &node->replica,
                                                .client = node->client ? &node->inner : NULL,
                                                .rows = rows_of,
                                                .user = rig,
                                                .segment_floats = rig->settings.segment_floats};
    if (status == RT_OK)
        status = rt_nested_create(&settings, &node->nested, err);
    if (status == RT_OK)
        node->exchange.exchange = rt_nested_exchange(node->nested);
    return status;
}

static rt_status open_by_servers(struct exrig_node *node, struct rt_error *err) {
    rt_status status = open_server(node, err);
    if (status != RT_OK || !node->works)
        return status;
    return rt_exchange_is_nested(node->rig->strategy, &node->rig->options) ? open_nested(node, err)
                                                                           : open_client(node, err);
}

static rt_status open_collective(struct exrig_node *node, struct rt_error *err) {
    struct exrig *rig = node->rig;
    const struct rt_collective_exchange_settings settings = {.strategy = rig->strategy,
                                                             .options = &rig->options,
                                                             .roles = &rig->roles,
                                                             .comm = &node->comm,
                                                             .replica = &node->replica,
                                                             .updater = updater_of(node),
                                                             .cost = {1e-4, 1e8, 1e-9},
                                                             .segment_floats = rig->settings.segment_floats};
    rt_status status = rt_collective_exchange_create(&settings, &node->collective, err);
    if (status == RT_OK)
        node->exchange.exchange = rt_collective_exchange(node->collective);
    return status;
}

rt_status exrig_learn(void *self, uint64_t batch, struct rt_done *done, struct rt_error *err) {
    struct exrig_node *node = self;
    const struct rt_ticket ticket = {.batch = batch, .part = node->part, .parts = node->parts};
    return rt_blocking_learn(&node->exchange, &node->replica, &ticket, done, err);
}

static rt_status settle(void *self, struct rt_error *err) {
    struct exrig_node *node = self;
    return rt_blocking_settle(&node->exchange, err);
}

static rt_status run_agent(struct exrig_node *node) {
    const struct rt_agent_run run = {.worker = {.self = node,
                                                .learn = node->exchange.exchange.self ? exrig_learn : NULL,
                                                .settle = node->exchange.exchange.self ? settle : NULL},
                                     .loaded = exrig_take_update,
                                     .metrics = give_metrics,
                                     .user = node};
    return rt_agent_run(node->agent, &run, node->engine, &node->error);
}

static rt_status open_parts(struct exrig_node *node, struct rt_error *err) {
    struct exrig *rig = node->rig;
    rt_status status = rt_exchange_rules(rig->strategy, &rig->options) ? open_by_servers(node, err)
                                                                       : open_collective(node, err);
    if (status != RT_OK)
        return status;
    const struct rt_agent_settings agent = {.comm = &node->comm,
                                            .learns = node->exchange.exchange.self != NULL,
                                            .state = exrig_word,
                                            .state_tensors = 1 + rig->optim->type->state_tensors,
                                            .param_count = rig->settings.params,
                                            .user = node,
                                            .examples =
                                                rig->settings.send && node->works ? take_examples : NULL};
    return node->rank == 0 ? rt_coordinator_create(&(struct rt_coordinator_settings){.comm = &node->comm},
                                                   &node->coordinator, err)
                           : rt_agent_create(&agent, &node->agent, err);
}

static rt_status open_engine(struct exrig_node *node, struct rt_error *err) {
    struct exrig *rig = node->rig;
    struct rt_engine_settings settings = {
        .comm = &node->comm, .threaded = rig->settings.tcp, .stop = node->rank ? NULL : &rig->stop};
    if (node->rank == 0)
        settings.parts[settings.part_count++] =
            rig->settings.part ? rig->settings.part(rig->user, rig) : rt_coordinator_part(node->coordinator);
    else
        settings.parts[settings.part_count++] = rt_agent_part(node->agent);
    if (node->server)
        settings.parts[settings.part_count++] = rt_server_part(node->server);
    if (node->exchange.exchange.self)
        settings.parts[settings.part_count++] = node->exchange.exchange.part;
    rt_status status = rt_engine_create(&settings, &node->engine, err);
    node->exchange.engine = node->engine;
    node->exchange.span_count = rig->settings.spans;
    return status;
}

static rt_status open_talks(struct exrig_node *node, struct rt_error *err) {
    rt_status status = RT_OK;
    for (uint16_t peer = 0; peer < node->comm.count && status == RT_OK; peer++) {
        if (!node->links[peer] || (node->rank != 0 && peer != 0))
            continue;
        status = rt_talk_open(node->links[peer], &node->talks[peer], err);
        node->talks[peer].run = node->rig->run;
    }
    return status;
}

static void close_node(struct exrig_node *node) {
    node->lost = node->engine ? rt_engine_lost(node->engine, NULL) : UINT16_MAX;
    rt_engine_destroy(node->engine);
    /* The links first: they may still use the memory. */
    for (size_t peer = 0; peer < EXRIG_NODES; peer++) {
        if (node->talks[peer].link)
            rt_talk_close(&node->talks[peer]);
        else
            rt_link_close(node->links[peer]);
        node->links[peer] = NULL;
    }
    rt_coordinator_destroy(node->coordinator);
    rt_agent_destroy(node->agent);
    rt_collective_exchange_destroy(node->collective);
    rt_nested_destroy(node->nested);
    rt_ps_client_destroy(node->client);
    if (node->server)
        node->counts = *rt_server_counts(node->server);
    rt_server_destroy(node->server);
    node->engine = NULL;
    node->coordinator = NULL;
    node->agent = NULL;
    node->collective = NULL;
    node->nested = NULL;
    node->client = NULL;
    node->server = NULL;
}

static bool are_gone(void *self) {
    return rt_coordinator_gone(self);
}

static void be_master(struct exrig *rig, struct exrig_node *node) {
    struct rt_error err;
    rig->program(rig->user, rig);
    const bool failed = !exrig_fail(rig, rt_engine_status(node->engine, &err), &err);
    rt_engine_let_go(node->engine);
    rt_engine_enter(node->engine);
    if (failed)
        rt_coordinator_fail(node->coordinator, node->status, node->error.text);
    else
        rt_coordinator_stop(node->coordinator);
    rt_engine_leave(node->engine);
    rt_engine_linger(node->engine, are_gone, node->coordinator, rt_engine_now(node->engine) + 5);
}

void exrig_be_node(void *user, size_t i, struct rt_endpoint *endpoint) {
    struct exrig *rig = user;
    struct exrig_node *node = &rig->node[i];
    fenv_t theirs;
    rt_fp_enter(&theirs);
    node->endpoint = endpoint;
    node->comm = (struct rt_communicator){.endpoint = endpoint,
                                          .run = rig->run,
                                          .rank = (uint16_t)i,
                                          .count = (uint16_t)rig->settings.nodes,
                                          .links = node->links,
                                          .timeout = rig->settings.timeout};
    if (!exrig_join(node, &node->error)) {
        node->status = RT_FAILED;
    } else if (rig->settings.behave && i == rig->settings.other) {
        rig->settings.behave(rig->user, rig, endpoint, node->links);
        memset(node->links, 0, sizeof node->links);
    } else {
        node->status = open_talks(node, &node->error);
        if (node->status == RT_OK)
            node->status = open_parts(node, &node->error);
        if (node->status == RT_OK)
            node->status = open_engine(node, &node->error);
        if (node->status == RT_OK && i == 0)
            be_master(rig, node);
        else if (node->status == RT_OK)
            node->status = run_agent(node);
    }
    node->ended = rt_endpoint_now(endpoint);
    close_node(node);
    rt_fp_leave(&theirs);
}
