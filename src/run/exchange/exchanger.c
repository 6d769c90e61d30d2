/* A device in an exchange: its parts are made as its strategy and its rank say, and joined to one engine. */
#include "run/exchange/exchanger.h"

#include "base/clock.h"
#include "base/memory.h"
#include <stdlib.h>
#include <string.h>

/* Layers that are smaller together travel together: a message costs as much as some ten thousand floats. */
enum { BUCKET_FLOATS = 1 << 14 };

/* ---- what the exchange asks of the training ---- */

/* By the thread that computes, where every worker has the optimizer: with all threads of the device. */
static void exchanger_apply(void *user, const struct rt_optim_step *step, size_t first, size_t count,
                            const float *gradient) {
    const struct rt_exchanger *exchanger = user;
    const struct rt_network *network = exchanger->settings.replica.network;
    rt_gradient_apply_span(&network->device, exchanger->settings.optim, step, first, count,
                           network->model->param_count, gradient, network->blocks.params, exchanger->state);
}

static double exchanger_squares(void *user, const float *gradient) {
    struct rt_exchanger *exchanger = user;
    const struct rt_device *device =
        exchanger->single_open ? &exchanger->single : &exchanger->settings.replica.network->device;
    return rt_norm_squares(&exchanger->norm, device, gradient, 0);
}

static struct rt_updater exchanger_updater(struct rt_exchanger *exchanger) {
    const struct rt_exchanger_settings *settings = &exchanger->settings;
    return (struct rt_updater){.optim = settings->optim,
                               .schedule = settings->schedule,
                               .updates = settings->updates,
                               .per_epoch = settings->per_epoch,
                               .clip_norm = settings->clip_norm,
                               .state = exchanger->state,
                               .squares = settings->clip_norm > 0 ? exchanger_squares : NULL,
                               .apply =
                                   rt_exchange_is_replicated(settings->strategy) ? exchanger_apply : NULL,
                               .user = exchanger};
}

/* ---- life ---- */

static rt_status exchanger_take_roles(struct rt_exchanger *exchanger, struct rt_error *err) {
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
    exchanger->roles.runs = settings->runs;
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

static rt_status exchanger_make_replica(struct rt_exchanger *exchanger, struct rt_error *err) {
    struct rt_net_replica_settings *settings = &exchanger->settings.replica;
    const struct rt_exchange_options *options = exchanger->settings.options;
    settings->part = rt_exchange_part(exchanger->settings.strategy, options, &exchanger->roles,
                                      exchanger->settings.shards, exchanger->settings.comm.rank);
    settings->sum = options->reduce == RT_SUM;
    settings->bucket = options->bucket < 0 ? BUCKET_FLOATS : (size_t)options->bucket * 1024 / sizeof(float);
    settings->computes = exchanger->works;
    settings->rising = rt_exchange_is_rising(exchanger->settings.strategy, options);
    rt_status status = rt_net_replica_create(settings, &exchanger->net, err);
    if (status != RT_OK)
        return status;
    struct rt_communicator *comm = &exchanger->settings.comm;
    exchanger->replica = rt_net_replica_base(exchanger->net);
    comm->pace = settings->pace;
    comm->clock = comm->endpoint ? &exchanger->events : rt_net_replica_states(exchanger->net);
    return RT_OK;
}

/* What the optimizer's state is at first, where this rank owns it. */
static void exchanger_start_state(struct rt_exchanger *exchanger) {
    const struct rt_exchanger_settings *settings = &exchanger->settings;
    const struct rt_replica *replica = exchanger->replica;
    const struct rt_optim_type *type = settings->optim->type;
    for (size_t i = 0; type->state_start != 0 && i < replica->span_count; i++) {
        const struct rt_span part =
            rt_exchange_owned_part(settings->strategy, settings->options, &exchanger->roles,
                                   settings->comm.rank, &replica->spans[i], replica->param_count);
        for (size_t k = 0; k < type->state_tensors; k++)
            for (size_t at = part.first; at < part.first + part.count; at++)
                exchanger->state[k * replica->param_count + at] = type->state_start;
    }
}

/* The optimizer's state, and what the norm needs. What is not owned here is never touched, except on the
 * master, where the state of all comes together to be saved. */
static rt_status exchanger_make_state(struct rt_exchanger *exchanger, struct rt_error *err) {
    const struct rt_exchanger_settings *settings = &exchanger->settings;
    const struct rt_network *network = settings->replica.network;
    const struct rt_optim_type *type = settings->optim->type;
    const size_t params = network->model->param_count, tensors = type->state_tensors;
    rt_status status = RT_OK;
    if (tensors && params > SIZE_MAX / sizeof(float) / tensors)
        return rt_fail(err, RT_NO_MEMORY, "the optimizer's state is too large for this machine");
    const bool all = rt_exchange_is_replicated(settings->strategy) ||
                     (settings->comm.rank == 0 && exchanger->roles.servers == 1);
    if (tensors && all)
        status = rt_floats_create(params * tensors, "the optimizer's state", &exchanger->state, err);
    else if (tensors) /* zeros that take memory only where they are used */
        status = rt_alloc(params * tensors, sizeof(float), "the optimizer's state", &exchanger->state, err);
    if (status == RT_OK)
        exchanger_start_state(exchanger);
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

/* A worker uses its parameters while the server changes its own. */
static rt_status exchanger_make_server_params(struct rt_exchanger *exchanger, struct rt_error *err) {
    const struct rt_replica *replica = exchanger->replica;
    if (!exchanger->rules || !exchanger->serves || !exchanger->works)
        return RT_OK;
    RT_TRY(rt_floats_create(replica->param_count, "the server's parameters", &exchanger->server_params, err));
    memcpy(exchanger->server_params, replica->params, replica->param_count * sizeof(float));
    return RT_OK;
}

static rt_status exchanger_make_member(struct rt_exchanger *exchanger, struct rt_error *err) {
    const struct rt_exchanger_settings *settings = &exchanger->settings;
    RT_TRY(exchanger_make_server_params(exchanger, err));
    const struct rt_exchange_member_settings member = {.strategy = settings->strategy,
                                                       .options = settings->options,
                                                       .roles = &exchanger->roles,
                                                       .clients = &exchanger->clients,
                                                       .team = &exchanger->team,
                                                       .comm = &settings->comm,
                                                       .cost = settings->cost,
                                                       .replica = exchanger->replica,
                                                       .updater = exchanger_updater(exchanger),
                                                       .clock = rt_net_replica_states(exchanger->net),
                                                       .server_params = exchanger->server_params,
                                                       .examples = settings->replica.count,
                                                       .batch = settings->replica.batch,
                                                       .updated = settings->updated,
                                                       .judged = settings->judged,
                                                       .user = settings->user};
    RT_TRY(rt_exchange_member_init(&exchanger->member, &member, err));
    exchanger->exchange = (struct rt_blocking_exchange){.exchange = exchanger->member.exchange,
                                                        .span_count = exchanger->replica->span_count,
                                                        .states = rt_net_replica_states(exchanger->net)};
    return RT_OK;
}

static rt_status exchanger_init(struct rt_exchanger *exchanger, const struct rt_exchanger_settings *settings,
                                struct rt_error *err) {
    exchanger->settings = *settings;
    RT_TRY(exchanger_take_roles(exchanger, err));
    RT_TRY(exchanger_make_replica(exchanger, err));
    RT_TRY(exchanger_make_state(exchanger, err));
    return exchanger_make_member(exchanger, err);
}

rt_status rt_exchanger_create(const struct rt_exchanger_settings *settings, struct rt_exchanger **exchanger,
                              struct rt_error *err) {
    struct rt_exchanger *made;
    RT_TRY(rt_alloc(1, sizeof *made, "the exchange", &made, err));
    RT_FINISH_CREATE(exchanger_init(made, settings, err), made, rt_exchanger_destroy, exchanger);
}

bool rt_exchanger_takes_tickets(const struct rt_exchanger *exchanger) {
    return exchanger->exchange.exchange.self != NULL;
}

rt_status rt_exchanger_learn(struct rt_exchanger *exchanger, uint64_t batch, struct rt_done *done,
                             struct rt_error *err) {
    const struct rt_ticket ticket = {
        .batch = batch, .part = exchanger->works ? exchanger->team.place : 0, .parts = exchanger->team.count};
    return rt_blocking_learn(&exchanger->exchange, exchanger->replica, &ticket, done, err);
}

rt_status rt_exchanger_settle(struct rt_exchanger *exchanger, struct rt_error *err) {
    return rt_exchanger_takes_tickets(exchanger) ? rt_blocking_settle(&exchanger->exchange, err) : RT_OK;
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
    settings.part_count += rt_exchange_member_parts(&exchanger->member, settings.parts + settings.part_count);
    exchanger->cpu_start = rt_clock_process();
    rt_exchange_member_start(&exchanger->member);
    RT_TRY(rt_engine_create(&settings, &exchanger->engine, err));
    exchanger->exchange.engine = exchanger->engine;
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
    rt_exchange_member_deinit(&exchanger->member);
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

/* ---- model state ---- */

float *rt_exchanger_state(struct rt_exchanger *exchanger, size_t tensor) {
    const size_t params = exchanger->replica->param_count;
    if (tensor > exchanger->settings.optim->type->state_tensors)
        return NULL;
    if (tensor > 0)
        return exchanger->state + (tensor - 1) * params;
    return exchanger->server_params ? exchanger->server_params : exchanger->replica->params;
}

void rt_exchanger_loaded(struct rt_exchanger *exchanger, uint64_t update) {
    const struct rt_replica *replica = exchanger->replica;
    if (exchanger->server_params)
        memcpy(replica->params, exchanger->server_params, replica->param_count * sizeof(float));
    exchanger->settings.replica.network->blocks.prepared_valid = false;
    if (exchanger->engine)
        rt_engine_enter(exchanger->engine);
    rt_exchange_member_loaded(&exchanger->member, update);
    if (exchanger->engine)
        rt_engine_leave(exchanger->engine);
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
