#include "support/exrig_parts.h"

#include "base/memory.h"
#include "base/rng.h"
#include "formats/yaml.h"
#include "net/tcp.h"
#include "support/test.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

bool exrig_fail(struct exrig *rig, rt_status status, const struct rt_error *err) {
    if (status != RT_OK && rig->node[0].status == RT_OK) {
        rig->node[0].status = status;
        rig->node[0].error = *err;
    }
    return rig->node[0].status == RT_OK;
}

/* ---- the master's program ------------------------------------------------------------------------------ */

static size_t tickets_out(const struct exrig *rig) {
    size_t out = 0;
    for (uint16_t rank = 1; rank < rig->settings.nodes; rank++)
        out += rt_coordinator_held(rig->node[0].coordinator, rank);
    return out;
}

/* A result has come. */
static bool may_go_on(void *self) {
    const struct exrig *rig = self;
    return tickets_out(rig) < rig->out;
}

static void take_results(struct exrig *rig) {
    struct rt_done done;
    for (uint16_t rank = 1; rank < rig->settings.nodes; rank++)
        while (rt_coordinator_take(rig->node[0].coordinator, rank, &done)) {
            rig->loss += done.loss;
            rig->rows += done.rows;
            rig->results++;
            rig->by[rank]++;
        }
}

static bool learn(struct exrig *rig, uint64_t batch) {
    struct exrig_node *master = &rig->node[0];
    struct rt_done done;
    struct rt_error err;
    const rt_status status = exrig_learn(master, batch, &done, &err);
    rig->loss += done.loss;
    rig->rows += done.rows;
    rig->results++;
    rig->by[0]++;
    return exrig_fail(rig, status, &err);
}

bool exrig_train(struct exrig *rig, uint64_t batches) {
    struct exrig_node *master = &rig->node[0];
    const bool alone = rt_exchange_is_asynchronous(rig->strategy, &rig->options),
               takes = exrig_gets_tickets(rig, 0);
    const uint64_t last = rig->given + batches;
    uint64_t next[EXRIG_NODES];
    struct rt_error err;
    for (size_t i = 0; i < EXRIG_NODES; i++)
        next[i] = rig->given;
    bool more = master->status == RT_OK, settled = false;
    while (more) {
        rt_engine_enter(master->engine);
        take_results(rig);
        exrig_give_tickets(rig, next, last);
        const uint64_t own = alone ? rig->given : next[0];
        const bool ours = own < last && takes;
        rig->out = tickets_out(rig);
        if (ours && alone)
            rig->given++;
        rt_engine_leave(master->engine);
        if (ours)
            more = exrig_give_beside(rig, own + 1) && learn(rig, own + 1);
        else if (rig->out && master->client && !settled)
            more = settled = exrig_settle(rig); /* its worker need not be waited for */
        else if (rig->out)
            more = exrig_fail(rig, rt_engine_wait(master->engine, may_go_on, rig, INFINITY, &err), &err);
        else
            break;
        next[0] += ours;
    }
    if (more && !alone)
        rig->given = last;
    return more;
}

bool exrig_settle(struct exrig *rig) {
    struct rt_blocking_exchange *exchange = &rig->node[0].exchange;
    struct rt_error err;
    if (rig->node[0].status != RT_OK || !exchange->exchange.self) /* a server without a worker has none */
        return rig->node[0].status == RT_OK;
    return exrig_fail(rig, rt_blocking_settle(exchange, &err), &err);
}

static void train_and_settle(void *user, struct exrig *rig) {
    (void)user;
    if (exrig_train(rig, rig->settings.updates))
        exrig_settle(rig);
}

static bool has_metrics(void *self) {
    struct rt_metrics_row rows[EXRIG_NODES];
    return rt_coordinator_metrics(self, rows);
}

bool exrig_metrics(struct exrig *rig, struct rt_metrics_row rows[EXRIG_NODES]) {
    struct exrig_node *master = &rig->node[0];
    struct rt_error err;
    rt_engine_enter(master->engine);
    rt_coordinator_ask_metrics(master->coordinator);
    rt_engine_leave(master->engine);
    if (!exrig_fail(rig, rt_engine_wait(master->engine, has_metrics, master->coordinator, INFINITY, &err),
                    &err))
        return false;
    rt_engine_enter(master->engine);
    rt_coordinator_metrics(master->coordinator, rows);
    rt_engine_leave(master->engine);
    return true;
}

static bool all_idle(void *self) {
    const struct exrig *rig = self;
    return rt_coordinator_idle(rig->node[0].coordinator);
}

static bool wait_idle(struct exrig *rig) {
    struct rt_error err;
    return exrig_fail(rig, rt_engine_wait(rig->node[0].engine, all_idle, rig, INFINITY, &err), &err);
}

bool exrig_gather(struct exrig *rig, uint16_t rank, size_t tensor, float *floats) {
    struct exrig_node *master = &rig->node[0];
    if (!exrig_settle(rig))
        return false;
    if (rank == 0) {
        memcpy(floats, exrig_word(master, tensor), rig->settings.params * sizeof *floats);
        return true;
    }
    rt_engine_enter(master->engine);
    rt_coordinator_fetch_state(master->coordinator, rank, tensor, 0, rig->settings.params, floats);
    rt_engine_leave(master->engine);
    return wait_idle(rig);
}

bool exrig_load(struct exrig *rig, uint16_t rank, const float *floats, uint64_t update) {
    struct exrig_node *master = &rig->node[0];
    const size_t n = rig->settings.params;
    if (!exrig_settle(rig))
        return false;
    for (size_t tensor = 0; tensor <= rig->optim->type->state_tensors; tensor++) {
        if (rank == 0) {
            memcpy(exrig_word(master, tensor), floats + tensor * n, n * sizeof *floats);
            continue;
        }
        rt_engine_enter(master->engine);
        rt_coordinator_send_state(master->coordinator, rank, tensor, 0, n, floats + tensor * n);
        rt_engine_leave(master->engine);
        if (!wait_idle(rig))
            return false;
    }
    if (rank == 0) {
        exrig_take_update(master, update);
        return true;
    }
    rt_engine_enter(master->engine);
    rt_coordinator_set_update(master->coordinator, rank, update);
    rt_engine_leave(master->engine);
    return wait_idle(rig);
}

/* ---- the rig ------------------------------------------------------------------------------------------- */

static void make_spans(struct exrig *rig) {
    const size_t n = rig->settings.params, spans = rig->settings.spans, total = spans * (spans + 1) / 2;
    for (size_t i = 0, at = 0; i < spans; i++) {
        const size_t end = i + 1 == spans ? n : at + n * (i + 1) / total;
        rig->span[i] = (struct rt_span){at, end - at};
        at = end;
    }
}

static rt_status read_options(struct exrig *rig, struct rt_error *err) {
    const char *text = rig->settings.options;
    struct rt_tree *tree = NULL;
    rt_status status = text ? rt_yaml_parse(text, strlen(text), "options", &tree, err) : RT_OK;
    if (status == RT_OK)
        status = rt_exchange_options_read(rig->strategy, tree, &rig->options, err);
    rt_tree_destroy(tree);
    return status;
}

static rt_status make_optim(struct exrig *rig, struct rt_error *err) {
    const char *text = rig->settings.optimizer;
    struct rt_tree *tree = NULL;
    rt_status status = rt_yaml_parse(text, strlen(text), "optimizer", &tree, err);
    if (status == RT_OK)
        status = rt_optim_create(tree, &rig->optim, err);
    rt_tree_destroy(tree);
    return status == RT_OK ? rt_schedule_read(NULL, &rig->schedule, err) : status;
}

static rt_status make_points(struct exrig *rig, struct rt_error *err) {
    const size_t n = rig->settings.params;
    rt_status status = rt_floats_create(rig->settings.examples * n, "points", &rig->points, err);
    for (size_t i = 0; status == RT_OK && i < rig->settings.examples * n; i++) {
        uint32_t tensors[4];
        rt_rng_block(11, RT_PURPOSE_INIT, 0, i, 0, tensors);
        rig->points[i] = 2 * rt_rng_unit(tensors[0]) - 1;
    }
    return status;
}

rt_status exrig_open(const struct exrig_settings *settings, struct exrig *rig, struct rt_error *err) {
    memset(rig, 0, sizeof *rig);
    rig->settings = *settings;
    rig->run = 4711;
    struct exrig_settings *s = &rig->settings;
    s->optimizer = s->optimizer ? s->optimizer : "{sgd: {lr: 0.1}}";
    s->params = s->params ? s->params : 24;
    s->spans = s->spans ? s->spans : 4;
    s->examples = s->examples ? s->examples : 60;
    s->batch = s->batch ? s->batch : 12;
    rig->strategy = s->own ? s->own : rt_exchange_strategy_find(s->strategy);
    if (!rig->strategy || s->spans > EXRIG_SPANS || s->nodes > EXRIG_NODES || s->nodes == 0)
        return rt_fail(err, RT_BAD_INPUT, "there is no such rig");
    make_spans(rig);
    for (size_t i = 0; i < EXRIG_NODES; i++)
        rig->node[i] = (struct exrig_node){.rig = rig, .rank = (uint16_t)i};
    rt_status status = read_options(rig, err);
    if (status == RT_OK)
        status = rt_exchange_roles(rig->strategy, &rig->options, s->nodes, rig->worker, &rig->roles, err);
    if (status == RT_OK)
        rig->clients = rt_exchange_clients(rig->strategy, &rig->options, &rig->roles, rig->proxy);
    if (status == RT_OK)
        status = make_optim(rig, err);
    if (status == RT_OK)
        rt_exchange_suit(rig->strategy, &rig->options, rig->optim);
    if (status == RT_OK)
        status = make_points(rig, err);
    for (size_t i = 0; i < s->nodes && status == RT_OK; i++)
        status = exrig_take_memory(&rig->node[i], err);
    const struct rt_memnet_settings net = {.seed = s->seed,
                                           .latency = s->latency,
                                           .bandwidth = s->bandwidth,
                                           .random_delay = s->random_delay,
                                           .silence_seconds = s->silence};
    if (status == RT_OK && !s->tcp)
        status = rt_memnet_create(&net, s->nodes, &rig->net, err);
    if (status != RT_OK)
        exrig_close(rig);
    return status;
}

void exrig_close(struct exrig *rig) {
    rt_memnet_destroy(rig->net);
    for (size_t i = 0; i < EXRIG_NODES; i++) {
        free(rig->node[i].params);
        free(rig->node[i].gradient);
        free(rig->node[i].state);
        free(rig->node[i].slices);
        free(rig->node[i].shelf);
        free(rig->node[i].sent);
    }
    rt_optim_destroy(rig->optim);
    free(rig->points);
}

static void *run_thread(void *user) {
    struct exrig_node *node = user;
    struct rt_endpoint *endpoint;
    node->status = rt_tcp_create(&(struct rt_tcp_settings){0}, &endpoint, &node->error);
    if (node->status != RT_OK)
        abort(); /* the others wait for it at the barrier */
    exrig_be_node(node->rig, node->rank, endpoint);
    rt_endpoint_destroy(endpoint);
    return NULL;
}

static rt_status run_threads(struct exrig *rig) {
    pthread_t threads[EXRIG_NODES];
    pthread_barrier_init(&rig->barrier, NULL, (unsigned)rig->settings.nodes);
    for (size_t i = 0; i < rig->settings.nodes; i++)
        if (pthread_create(&threads[i], NULL, run_thread, &rig->node[i]) != 0)
            abort();
    for (size_t i = 0; i < rig->settings.nodes; i++)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&rig->barrier);
    return RT_OK;
}

rt_status exrig_run(struct exrig *rig, void (*program)(void *user, struct exrig *rig), void *user,
                    struct rt_error *err) {
    rig->program = program ? program : train_and_settle;
    rig->user = user;
    const double limit = rig->settings.limit > 0 ? rig->settings.limit : 3600;
    return rig->settings.tcp ? run_threads(rig) : rt_memnet_run(rig->net, exrig_be_node, rig, limit, err);
}

bool exrig_succeeds(const struct exrig_settings *settings, struct exrig *rig) {
    struct rt_error err;
    if (exrig_open(settings, rig, &err) != RT_OK) {
        rt_test_fail(__FILE__, __LINE__, "%s", err.text);
        return false;
    }
    bool good = exrig_run(rig, NULL, NULL, &err) == RT_OK;
    if (!good)
        rt_test_fail(__FILE__, __LINE__, "%s", err.text);
    for (size_t i = 0; i < settings->nodes; i++)
        if (rig->node[i].status != RT_OK) {
            rt_test_fail(__FILE__, __LINE__, "node %zu: %s", i, rig->node[i].error.text);
            good = false;
        }
    if (!good)
        exrig_close(rig);
    return good;
}
