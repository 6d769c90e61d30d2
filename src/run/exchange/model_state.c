/*
 * The state of a model that is trained by an exchange. Every worker has all parameters. A server has those of
 * its range, and the optimizer's state is where gradients are applied. The master gathers the state to save
 * it, and sends it to all nodes to set it.
 */
#include "run/exchange/inside.h"

#include "base/memory.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool exchange_is_carried_out(void *self) {
    return rt_coordinator_idle(self);
}

/* After a failure the engine lives on, to say goodbye: what it was to fill may be gone by then. */
static rt_status exchange_await_order(struct rt_exchange_learner *learner, struct rt_error *err) {
    struct rt_engine *engine = learner->exchanger->engine;
    const rt_status status =
        rt_engine_wait_as(engine, rt_net_replica_states(learner->exchanger->net), RT_STATE_WAIT_BARRIER,
                          exchange_is_carried_out, learner->coordinator, err);
    if (status != RT_OK) {
        rt_engine_enter(engine);
        rt_coordinator_cancel(learner->coordinator);
        rt_engine_leave(engine);
    }
    return status;
}

static rt_status exchange_ask(struct rt_exchange_learner *learner, uint16_t rank, size_t tensor, size_t first,
                              size_t count, float *into, struct rt_error *err) {
    rt_engine_enter(learner->exchanger->engine);
    rt_coordinator_fetch_state(learner->coordinator, rank, tensor, first, count, into);
    rt_engine_leave(learner->exchanger->engine);
    return exchange_await_order(learner, err);
}

/* from: the tensor's first float. */
static rt_status exchange_tell(struct rt_exchange_learner *learner, uint16_t rank, size_t tensor,
                               struct rt_span range, const float *from, struct rt_error *err) {
    rt_engine_enter(learner->exchanger->engine);
    rt_coordinator_send_state(learner->coordinator, rank, tensor, range.first, range.count,
                              from + range.first);
    rt_engine_leave(learner->exchanger->engine);
    learner->moved += range.count * sizeof *from;
    return exchange_await_order(learner, err);
}

/* The ranges of the block that a rank's optimizer owns. */
static rt_status exchange_find_owned(const struct rt_exchange_learner *learner, uint16_t rank,
                                     struct rt_span *owned, size_t *ranges, struct rt_error *err) {
    const struct rt_exchanger *exchanger = learner->exchanger;
    const struct rt_replica *replica = exchanger->replica;
    *ranges = rt_exchange_owned(learner->config.exchange, learner->options, &exchanger->roles, rank,
                                replica->spans, replica->span_count, replica->param_count, owned);
    if (*ranges > RT_MAX_OWNED)
        return rt_fail(err, RT_FAILED, "%.80s owns more ranges of the parameters than can be asked for",
                       learner->who.name[learner->device[rank]]);
    return RT_OK;
}

/* ---- to the master ---- */

/* Nothing is under way any more. A worker's last gradient may still be on its way to a server when the master
 * has its result: a node answers a question about numbers only when it is at rest itself. */
static rt_status exchange_come_to_rest(struct rt_exchange_learner *learner, struct rt_error *err) {
    struct rt_exchanger *exchanger = learner->exchanger;
    rt_status status = rt_exchanger_settle(exchanger, err);
    for (uint16_t rank = 1; exchanger->rules && status == RT_OK && rank < learner->count; rank++) {
        float ignored;
        status = exchange_ask(learner, rank, 0, 0, 1, &ignored, err);
    }
    return status;
}

/* What the other owners have of a tensor. */
static rt_status exchange_fetch_tensor(struct rt_exchange_learner *learner, size_t tensor, float *into,
                                       struct rt_span *owned, struct rt_error *err) {
    rt_status status = RT_OK;
    for (uint16_t rank = 1; status == RT_OK && rank < learner->count; rank++) {
        size_t ranges = 0;
        status = exchange_find_owned(learner, rank, owned, &ranges, err);
        for (size_t i = 0; status == RT_OK && i < ranges; i++)
            status = exchange_ask(learner, rank, tensor, owned[i].first, owned[i].count,
                                  into + owned[i].first, err);
    }
    return status;
}

rt_status rt_exchange_fetch(struct rt_exchange_learner *learner, size_t tensors, struct rt_error *err) {
    struct rt_exchanger *exchanger = learner->exchanger;
    const bool replicated = rt_exchange_is_replicated(learner->config.exchange);
    const size_t params = exchanger->replica->param_count;
    if (learner->fetched >= tensors)
        return RT_OK;
    struct rt_span *owned;
    rt_status status = rt_alloc(RT_MAX_OWNED, sizeof *owned, "the numbers", &owned, err);
    if (status == RT_OK && learner->fetched == 0)
        status = exchange_come_to_rest(learner, err);
    for (size_t tensor = learner->fetched; status == RT_OK && tensor < tensors; tensor++) {
        /* After collectives the master's worker has all parameters. */
        const bool here = replicated || (tensor == 0 && !exchanger->rules && exchanger->works);
        float *into = tensor ? exchanger->state + (tensor - 1) * params : exchanger->replica->params;
        if (!here)
            status = exchange_fetch_tensor(learner, tensor, into, owned, err);
        if (tensor == 0)
            rt_exchanger_publish(exchanger);
    }
    free(owned);
    if (status == RT_OK)
        learner->fetched = tensors;
    return rt_exchange_explain(learner, status, err);
}

static rt_status exchange_check(const struct rt_exchange_learner *learner, size_t tensors,
                                struct rt_error *err) {
    const struct rt_network *network = learner->config.network;
    const struct rt_model *model = network->model;
    const char *what = NULL;
    if (!rt_block_is_finite(network->blocks.params, model->param_count))
        what = "a parameter";
    else if (!rt_block_is_finite(network->blocks.buffers, model->buffer_count))
        what = "a buffer of the model";
    else if (tensors > 1 &&
             !rt_block_is_finite(learner->exchanger->state, model->param_count * (tensors - 1)))
        what = "the optimizer's state";
    if (!what)
        return RT_OK;
    return rt_fail(err, RT_DIVERGED, "%s is not finite after update %llu", what,
                   (unsigned long long)rt_scheduler_returned(learner->scheduler));
}

static rt_status exchange_begin(void *self, size_t tensors, rt_state_write write, void *user,
                                struct rt_error *err) {
    struct rt_exchange_learner *learner = self;
    rt_status status = rt_exchange_fetch(learner, tensors, err);
    if (status == RT_OK)
        status = exchange_check(learner, tensors, err);
    return status == RT_OK ? learner->blocks.begin(&learner->local, tensors, write, user, err) : status;
}

/* ---- to all nodes ---- */

/* All parameters, and of the optimizer's state what the node owns. owned: room for the ranges. */
static rt_status exchange_send_to(struct rt_exchange_learner *learner, uint16_t rank, size_t tensors,
                                  uint64_t update, struct rt_span *owned, struct rt_error *err) {
    const struct rt_exchanger *exchanger = learner->exchanger;
    const size_t params = exchanger->replica->param_count;
    size_t ranges = 0;
    rt_status status = exchange_find_owned(learner, rank, owned, &ranges, err);
    if (status == RT_OK)
        status =
            exchange_tell(learner, rank, 0, (struct rt_span){0, params}, exchanger->replica->params, err);
    for (size_t tensor = 1; status == RT_OK && tensor < tensors; tensor++)
        for (size_t i = 0; status == RT_OK && i < ranges; i++)
            status =
                exchange_tell(learner, rank, tensor, owned[i], exchanger->state + (tensor - 1) * params, err);
    if (status != RT_OK)
        return status;
    rt_engine_enter(exchanger->engine);
    rt_coordinator_set_update(learner->coordinator, rank, update);
    rt_engine_leave(exchanger->engine);
    return exchange_await_order(learner, err);
}

static rt_status exchange_send_out(struct rt_exchange_learner *learner, size_t tensors, uint64_t update,
                                   struct rt_error *err) {
    struct rt_span *owned;
    rt_status status = rt_alloc(RT_MAX_OWNED, sizeof *owned, "the numbers", &owned, err);
    for (uint16_t rank = 1; status == RT_OK && rank < learner->count; rank++)
        status = exchange_send_to(learner, rank, tensors, update, owned, err);
    free(owned);
    return status;
}

static rt_status exchange_load(void *self, size_t tensors, uint64_t update, rt_state_read read, void *user,
                               struct rt_error *err) {
    struct rt_exchange_learner *learner = self;
    struct rt_exchanger *exchanger = learner->exchanger;
    rt_status status = exchange_come_to_rest(learner, err);
    if (status != RT_OK)
        return rt_exchange_explain(learner, status, err);
    learner->fetched = 0;
    status = learner->blocks.load(&learner->local, tensors, update, read, user, err);
    if (status != RT_OK)
        return status;
    status = exchange_send_out(learner, tensors, update, err);
    if (status != RT_OK)
        return rt_exchange_explain(learner, status, err);
    if (exchanger->server_params)
        memcpy(exchanger->server_params, exchanger->replica->params,
               exchanger->replica->param_count * sizeof(float));
    rt_exchanger_loaded(exchanger, update);
    rt_scheduler_set(learner->scheduler, update);
    return RT_OK;
}

struct rt_model_state rt_exchange_model_state(struct rt_exchange_learner *learner) {
    const struct rt_training_config *config = &learner->config;
    learner->local = (struct rt_local_state){.network = config->network,
                                             .state = learner->exchanger->state,
                                             .optim_tensors = config->optim->type->state_tensors};
    learner->blocks = rt_model_state_local(&learner->local);
    return (struct rt_model_state){.model = config->network->model,
                                   .tensors = learner->blocks.tensors,
                                   .self = learner,
                                   .begin = exchange_begin,
                                   .done = learner->blocks.done,
                                   .finish = learner->blocks.finish,
                                   .load = exchange_load};
}
