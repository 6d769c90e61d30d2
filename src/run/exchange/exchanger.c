/* A device in an exchange: its parts are made as its way and its rank say, and joined to one engine. */
#include "run/exchange/exchanger.h"

#include "base/clock.h"
#include "base/memory.h"
#include <stdlib.h>
#include <string.h>

/* Layers that are smaller together travel together: a message costs as much as some ten thousand floats. */
enum { BUCKET_FLOATS = 1 << 14 };

/* ---- what the exchange asks of the training ---- */

/* By the thread that computes, where every worker has the optimizer: with all threads of the device. */
static void apply(void *user, const struct rt_optim_step *step, size_t first, size_t count,
                  const float *gradient) {
    const struct rt_exchanger *exchanger = user;
    const struct rt_network *network = exchanger->settings.replica.network;
    rt_gradient_apply_span(&network->device, exchanger->settings.optim, step, first, count,
                           network->model->param_count, gradient, network->blocks.params, exchanger->state);
}

static double squares(void *user, const float *gradient) {
    struct rt_exchanger *exchanger = user;
    const struct rt_device *device =
        exchanger->single_open ? &exchanger->single : &exchanger->settings.replica.network->device;
    return rt_norm_squares(&exchanger->norm, device, gradient, 0);
}

static struct rt_learning learning_of(struct rt_exchanger *exchanger) {
    const struct rt_exchanger_settings *settings = &exchanger->settings;
    return (struct rt_learning){.optim = settings->optim,
                                .schedule = settings->schedule,
                                .updates = settings->updates,
                                .per_epoch = settings->per_epoch,
                                .clip_norm = settings->clip_norm,
                                .state = exchanger->state,
                                .squares = settings->clip_norm > 0 ? squares : NULL,
                                .apply = rt_exchange_is_replicated(settings->strategy) ? apply : NULL,
                                .user = exchanger,
                                .states = rt_net_replica_states(exchanger->net)};
}

/* ---- life ---- */

static rt_status take_roles(struct rt_exchanger *exchanger, struct rt_error *err) {
    const struct rt_exchanger_settings *settings = &exchanger->settings;
    const size_t nodes = settings->comm.count;
    rt_status status =
        rt_alloc(nodes, sizeof *exchanger->worker, "the roles of the nodes", &exchanger->worker, err);
    if (status == RT_OK)
        status = rt_alloc(nodes, sizeof *exchanger->proxy, "the roles of the nodes", &exchanger->proxy, err);
    if (status == RT_OK)
        status = rt_exchange_roles(settings->strategy, settings->options, nodes, exchanger->worker,
                                   &exchanger->roles, err);
    if (status != RT_OK)
        return status;
    exchanger->clients =
        rt_exchange_clients(settings->strategy, settings->options, &exchanger->roles, exchanger->proxy);
    exchanger->team =
        rt_exchange_team(settings->strategy, settings->options, &exchanger->roles, settings->comm.rank);
    exchanger->grouped = rt_exchange_is_nested(settings->strategy, settings->options);
    exchanger->place = rt_roles_place(&exchanger->roles, settings->comm.rank);
    exchanger->works = exchanger->place < exchanger->roles.workers;
    exchanger->serves = settings->comm.rank < exchanger->roles.servers;
    exchanger->rules = rt_exchange_rules(settings->strategy, settings->options);
    exchanger->asynchronous = rt_exchange_is_asynchronous(settings->strategy, settings->options);
    return RT_OK;
}

static rt_status make_replica(struct rt_exchanger *exchanger, struct rt_error *err) {
    struct rt_net_replica_settings *settings = &exchanger->settings.replica;
    const struct rt_exchange_options *options = exchanger->settings.options;
    settings->parts = exchanger->team.count;
    settings->sum = options->reduce == RT_SUM;
    settings->bucket = options->bucket < 0 ? BUCKET_FLOATS : (size_t)options->bucket * 1024 / sizeof(float);
    settings->computes = exchanger->works;
    settings->rising = rt_exchange_is_rising(exchanger->settings.strategy, options);
    rt_status status = rt_net_replica_create(settings, &exchanger->net, err);
    if (status != RT_OK)
        return status;
    struct rt_communicator *comm = &exchanger->settings.comm;
    exchanger->replica = rt_net_replica_face(exchanger->net);
    comm->pace = settings->pace;
    comm->clock = comm->endpoint ? &exchanger->events : rt_net_replica_states(exchanger->net);
    return RT_OK;
}

/* What the optimizer's state is at first, where this rank owns it. */
static void start_state(struct rt_exchanger *exchanger) {
    const struct rt_exchanger_settings *settings = &exchanger->settings;
    const struct rt_replica *replica = exchanger->replica;
    const struct rt_optim_type *type = settings->optim->type;
    for (size_t i = 0; type->state_start != 0 && i < replica->span_count; i++) {
        const struct rt_span part =
            rt_exchange_owned_part(settings->strategy, settings->options, &exchanger->roles,
                                   settings->comm.rank, &replica->spans[i], replica->param_count);
        for (size_t word = 0; word < type->state_words; word++)
            for (size_t at = part.first; at < part.first + part.count; at++)
                exchanger->state[word * replica->param_count + at] = type->state_start;
    }
}

/* The optimizer's state, and what the norm needs. What is not owned here is never touched, except on the
 * master, where the numbers of all come together to be saved. */
static rt_status make_state(struct rt_exchanger *exchanger, struct rt_error *err) {
    const struct rt_exchanger_settings *settings = &exchanger->settings;
    const struct rt_network *network = settings->replica.network;
    const struct rt_optim_type *type = settings->optim->type;
    const size_t params = network->model->param_count, words = type->state_words;
    rt_status status = RT_OK;
    if (words && params > SIZE_MAX / sizeof(float) / words)
        return rt_fail(err, RT_NO_MEMORY, "the optimizer's state is too large for this machine");
    const bool all = rt_exchange_is_replicated(settings->strategy) ||
                     (settings->comm.rank == 0 && exchanger->roles.servers == 1);
    if (words && all)
        status = rt_floats_create(params * words, "the optimizer's state", &exchanger->state, err);
    else if (words) /* zeros that take memory only where they are used */
        status = rt_alloc(params * words, sizeof(float), "the optimizer's state", &exchanger->state, err);
    if (status == RT_OK)
        start_state(exchanger);
    if (status == RT_OK && settings->clip_norm > 0) {
        status = rt_norm_create(network->model, &exchanger->norm, err);
        if (status == RT_OK && !rt_exchange_is_replicated(settings->strategy)) {
            /* The thread that takes events has no part in the device's pool. */
            exchanger->single = (struct rt_device){.kernels = network->device.kernels};
            status = rt_pool_create(1, 0, &exchanger->single.pool, err);
            exchanger->single_open = status == RT_OK;
        }
    }
    return status;
}

static rt_status make_server(struct rt_exchanger *exchanger, struct rt_error *err) {
    const struct rt_exchanger_settings *settings = &exchanger->settings;
    const struct rt_replica *replica = exchanger->replica;
    const size_t params = replica->param_count, batch = settings->replica.batch,
                 count = settings->replica.count;
    struct rt_span *owned;
    rt_status status = rt_alloc(RT_MAX_OWNED, sizeof *owned, "the server", &owned, err);
    if (status != RT_OK)
        return status;
    const size_t ranges =
        rt_exchange_owned(settings->strategy, settings->options, &exchanger->roles, settings->comm.rank,
                          replica->spans, replica->span_count, params, owned);
    const struct rt_span range = ranges ? owned[0] : (struct rt_span){0};
    free(owned);
    if (ranges > 1)
        return rt_fail(err, RT_FAILED, "a server has %zu ranges of the parameters, and can have one", ranges);
    /* A worker uses its parameters while the server changes its own. */
    if (exchanger->works)
        status = rt_floats_create(params, "the server's parameters", &exchanger->server_params, err);
    if (status != RT_OK)
        return status;
    if (exchanger->server_params)
        memcpy(exchanger->server_params, replica->params, params * sizeof(float));
    const struct rt_server_settings server = {
        .strategy = settings->strategy,
        .rules = exchanger->rules,
        .options = settings->options,
        .roles = &exchanger->clients,
        .comm = &settings->comm,
        .spans = replica->spans,
        .span_count = replica->span_count,
        .first = range.first,
        .count = range.count,
        .param_count = params,
        .params = exchanger->server_params ? exchanger->server_params : replica->params,
        .learning = learning_of(exchanger),
        .batch_rows = batch < count ? batch : count,
        .last_rows = batch < count && count % batch ? count % batch
                     : batch < count                ? batch
                                                    : count,
        .numbered = (count + batch - 1) / batch,
        .updated = settings->updated,
        .judged = settings->judged,
        .user = settings->user,
    };
    return rt_server_create(&server, &exchanger->server, err);
}

static rt_status make_collective(struct rt_exchanger *exchanger, struct rt_error *err) {
    const struct rt_exchanger_settings *settings = &exchanger->settings;
    const struct rt_collective_exchange_settings collective = {.strategy = settings->strategy,
                                                               .options = settings->options,
                                                               .roles = &exchanger->roles,
                                                               .comm = &settings->comm,
                                                               .replica = exchanger->replica,
                                                               .learning = learning_of(exchanger),
                                                               .cost = settings->cost};
    rt_status status = rt_collective_exchange_create(&collective, &exchanger->collective, err);
    if (status == RT_OK)
        exchanger->exchange = rt_collective_exchange_face(exchanger->collective);
    return status;
}

static rt_status make_client(struct rt_exchanger *exchanger, struct rt_error *err) {
    const struct rt_exchanger_settings *settings = &exchanger->settings;
    struct rt_ps_client_settings client = {.strategy = settings->strategy,
                                           .options = settings->options,
                                           .roles = &exchanger->clients,
                                           .comm = &settings->comm,
                                           .replica = exchanger->replica,
                                           .local = exchanger->server,
                                           .learning = learning_of(exchanger)};
    if (rt_exchange_is_nested(settings->strategy, settings->options))
        client.learning.states = NULL; /* its steps are taken by the thread that takes the events */
    rt_status status = rt_ps_client_create(&client, &exchanger->client, err);
    if (status == RT_OK)
        exchanger->exchange = rt_ps_client_face(exchanger->client);
    return status;
}

static size_t rows_of(void *user, uint64_t number) {
    const struct rt_exchanger *exchanger = user;
    const size_t count = exchanger->settings.replica.count, batch = exchanger->settings.replica.batch;
    const uint64_t left = count - (number - 1) % ((count + batch - 1) / batch) * batch;
    return left < batch ? (size_t)left : batch;
}

static rt_status make_nested(struct rt_exchanger *exchanger, struct rt_error *err) {
    rt_status status = exchanger->team.place == 0 ? make_client(exchanger, err) : RT_OK;
    const struct rt_nested_settings nested = {.options = exchanger->settings.options,
                                              .team = &exchanger->team,
                                              .comm = &exchanger->settings.comm,
                                              .replica = exchanger->replica,
                                              .client = exchanger->client,
                                              .rows = rows_of,
                                              .user = exchanger,
                                              .states = rt_net_replica_states(exchanger->net)};
    if (status == RT_OK)
        status = rt_nested_create(&nested, &exchanger->nested, err);
    if (status == RT_OK)
        exchanger->exchange = rt_nested_face(exchanger->nested);
    return status;
}

static rt_status make_exchange(struct rt_exchanger *exchanger, struct rt_error *err) {
    if (!exchanger->rules)
        return make_collective(exchanger, err);
    rt_status status = exchanger->serves ? make_server(exchanger, err) : RT_OK;
    if (status != RT_OK || !exchanger->works)
        return status;
    return exchanger->grouped ? make_nested(exchanger, err) : make_client(exchanger, err);
}

rt_status rt_exchanger_create(const struct rt_exchanger_settings *settings, struct rt_exchanger **exchanger,
                              struct rt_error *err) {
    struct rt_exchanger *made;
    rt_status status = rt_alloc(1, sizeof *made, "the exchange", &made, err);
    if (status != RT_OK)
        return status;
    made->settings = *settings;
    status = take_roles(made, err);
    if (status == RT_OK)
        status = make_replica(made, err);
    if (status == RT_OK)
        status = make_state(made, err);
    if (status == RT_OK)
        status = make_exchange(made, err);
    if (status != RT_OK) {
        rt_exchanger_destroy(made);
        return status;
    }
    *exchanger = made;
    return RT_OK;
}

rt_status rt_exchanger_learn(struct rt_exchanger *exchanger, uint64_t batch, struct rt_done *done,
                             struct rt_error *err) {
    const struct rt_ticket ticket = {
        .batch = batch, .part = exchanger->works ? exchanger->team.place : 0, .parts = exchanger->team.count};
    return rt_exchange_learn(&exchanger->exchange, exchanger->replica, &ticket, done, err);
}

rt_status rt_exchanger_settle(struct rt_exchanger *exchanger, struct rt_error *err) {
    return exchanger->exchange.settle(exchanger->exchange.self, err);
}

rt_status rt_exchanger_start(struct rt_exchanger *exchanger, const struct rt_exchanger_run *run,
                             struct rt_error *err) {
    struct rt_engine_settings settings = {.comm = &exchanger->settings.comm,
                                          .threaded = true,
                                          .stray = run->stray,
                                          .user = run->user,
                                          .stop = run->stop,
                                          .finishes = run->finishes};
    for (size_t i = 0; i < run->part_count; i++)
        settings.parts[settings.part_count++] = run->parts[i];
    if (exchanger->collective)
        settings.parts[settings.part_count++] = rt_collective_exchange_part(exchanger->collective);
    if (exchanger->server)
        settings.parts[settings.part_count++] = rt_server_part(exchanger->server);
    if (exchanger->nested) /* which hands its client's events on */
        settings.parts[settings.part_count++] = rt_nested_part(exchanger->nested);
    else if (exchanger->client)
        settings.parts[settings.part_count++] = rt_ps_client_part(exchanger->client);
    exchanger->cpu_start = rt_clock_process();
    rt_status status = rt_engine_create(&settings, &exchanger->engine, err);
    if (status != RT_OK)
        return status;
    if (exchanger->collective)
        rt_collective_exchange_attach(exchanger->collective, exchanger->engine);
    if (exchanger->nested)
        rt_nested_attach(exchanger->nested, exchanger->engine);
    else if (exchanger->client)
        rt_ps_client_attach(exchanger->client, exchanger->engine);
    rt_net_replica_attach(exchanger->net, exchanger->engine);
    return RT_OK;
}

void rt_exchanger_halt(struct rt_exchanger *exchanger) {
    if (!exchanger)
        return;
    rt_engine_destroy(exchanger->engine);
    exchanger->engine = NULL;
}

void rt_exchanger_destroy(struct rt_exchanger *exchanger) {
    if (!exchanger)
        return;
    rt_exchanger_halt(exchanger);
    rt_collective_exchange_destroy(exchanger->collective);
    rt_nested_destroy(exchanger->nested);
    if (exchanger->client)
        rt_ps_client_destroy(exchanger->client);
    if (exchanger->server)
        rt_server_destroy(exchanger->server);
    rt_net_replica_destroy(exchanger->net);
    rt_norm_destroy(&exchanger->norm);
    if (exchanger->single_open)
        rt_pool_destroy(exchanger->single.pool);
    free(exchanger->state);
    free(exchanger->server_params);
    free(exchanger->worker);
    free(exchanger->proxy);
    free(exchanger);
}

/* ---- numbers ---- */

float *rt_exchanger_state(struct rt_exchanger *exchanger, size_t word) {
    const size_t params = exchanger->replica->param_count;
    if (word > exchanger->settings.optim->type->state_words)
        return NULL;
    if (word > 0)
        return exchanger->state + (word - 1) * params;
    return exchanger->server_params ? exchanger->server_params : exchanger->replica->params;
}

void rt_exchanger_loaded(struct rt_exchanger *exchanger, uint64_t update) {
    const struct rt_replica *replica = exchanger->replica;
    if (exchanger->server_params)
        memcpy(replica->params, exchanger->server_params, replica->param_count * sizeof(float));
    exchanger->settings.replica.network->blocks.prepared_valid = false;
    if (exchanger->collective)
        rt_collective_exchange_set_update(exchanger->collective, update);
    if (exchanger->server) {
        rt_engine_enter(exchanger->engine);
        rt_server_set_version(exchanger->server, update);
        rt_engine_leave(exchanger->engine);
    }
}

void rt_exchanger_publish(struct rt_exchanger *exchanger) {
    const struct rt_exchanger_settings *settings = &exchanger->settings;
    const struct rt_replica *replica = exchanger->replica;
    for (size_t i = 0; exchanger->server_params && i < replica->span_count; i++) {
        const struct rt_span part =
            rt_exchange_owned_part(settings->strategy, settings->options, &exchanger->roles,
                                   settings->comm.rank, &replica->spans[i], replica->param_count);
        memcpy(replica->params + part.first, exchanger->server_params + part.first,
               part.count * sizeof(float));
    }
}
