/*
 * A node of an exchange: it makes the network that the job describes, opens its own copy of the data, which
 * must be the master's, and then does one ticket after another until the run ends.
 */
#include "run/roles.h"

#include "base/fpenv.h"
#include "base/memory.h"
#include "control/agent.h"
#include "exchange/section.h"
#include "learn/datasets.h"
#include "run/exchange/exchanger.h"
#include "run/exchange/samples.h"
#include "run/job_data.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The data, once opened and found to be the master's, serve all views of a run: hashing them may take longer
 * than all else in forming one. */
struct worker_data {
    char fingerprint[65];   /* empty: none are open */
    size_t inputs, outputs; /* of the network that they were found to suit */
    const struct rt_loss_type *loss;
    struct rt_datasets sets;
    struct rt_scaling scaling;
};

struct worker {
    struct rt_job *job;
    struct rt_exchange_section section; /* of it */
    uint16_t rank, count;
    struct rt_network network;
    struct worker_data *data;
    enum rt_target target;

    struct rt_talk talk; /* with the master */
    struct rt_exchanger *exchanger;
    struct rt_agent *agent;
    struct rt_sample_receiver *box; /* data.send */
};

/* ---- before the run ------------------------------------------------------------------------------------ */

static rt_status worker_wait_rows(void *user, uint64_t batch, size_t first, size_t rows,
                                  struct rt_received_rows *sent, struct rt_error *err) {
    (void)first, (void)rows;
    const struct worker *worker = user;
    return rt_sample_receiver_rows(worker->box, worker->exchanger->engine, batch, sent, err);
}

/* In place of the node's own examples while they are not open: it has some, and is not sent any. */
static const struct rt_dataset worker_not_open;

static struct rt_exchanger_settings worker_settings_of(const struct rt_session *session,
                                                       struct worker *worker) {
    const struct rt_node_device *device = session->user;
    const struct rt_job *job = worker->job;
    return (struct rt_exchanger_settings){
        .strategy = worker->section.strategy,
        .options = &worker->section.options,
        .cost = worker->section.cost,
        .comm = {.endpoint = session->endpoint,
                 .run = session->run,
                 .rank = worker->rank,
                 .count = worker->count,
                 .names = session->names,
                 .links = session->links,
                 .timeout = job->timeout},
        .optim = job->optim,
        .schedule = &job->lr_schedule,
        .updates = (uint64_t)job->updates,
        .per_epoch = (uint64_t)job->per_epoch,
        .clip_norm = job->clip_norm,
        .shards = (size_t)job->shards,
        .runs = job->exchange.runs,
        .replica = {.network = &worker->network,
                    .set = job->data.set.send ? NULL
                           : worker->data     ? &worker->data->sets.train
                                              : &worker_not_open,
                    .rows = worker_wait_rows,
                    .user = worker,
                    .scaling = worker->data ? &worker->data->scaling : NULL,
                    .target = worker->target,
                    .count = (size_t)job->data.examples,
                    .seed = (uint64_t)job->seed,
                    .batch = (size_t)job->batch,
                    .micro_batch = job->micro_batch < 0 ? 0 : (size_t)job->micro_batch,
                    .shuffle = job->data.set.shuffle,
                    .drop_last = job->data.drop_last,
                    .pace = &device->ring.pace,
                    .endpoint = session->endpoint,
                    .between = RT_STATE_WAIT_INPUT},
    };
}

static rt_status worker_read_job(struct worker *worker, const struct rt_tree *tree, struct rt_error *err) {
    struct rt_tree *copy;
    RT_TRY(rt_tree_copy(tree, &copy, err));
    RT_TRY(rt_job_create(copy, &worker->job, err));
    if (worker->job->learner != RT_JOB_EXCHANGE)
        return rt_fail(err, RT_BAD_INPUT, "the job is not for an exchange");
    return rt_exchange_section_read(worker->job, &worker->section, err);
}

static rt_status worker_make_network(const struct rt_session *session, struct worker *worker,
                                     struct rt_error *err) {
    const struct rt_node_device *device = session->user;
    const struct rt_job *job = worker->job;
    const struct rt_computing computing = {.math = (enum rt_math)job->math,
                                           .kernels = device->ring.kernels ? device->ring.kernels : "auto",
                                           .threads = device->ring.threads};
    return rt_network_describe(job->input, job->layers, job->loss, &computing, &worker->network, err);
}

/* Where each worker has slices of its own number, the job says which. */
static rt_status worker_check_shares(const struct worker *worker, struct rt_roles *roles,
                                     struct rt_error *err) {
    const struct rt_job_exchange *given = &worker->job->exchange;
    if (!given->runs)
        return RT_OK;
    if (given->workers != roles->workers ||
        !rt_exchange_takes_slices(worker->section.strategy, &worker->section.options))
        return rt_fail(err, RT_BAD_INPUT, "the job has shares for %zu workers of %s, which are %zu",
                       given->workers, worker->section.strategy->name, roles->workers);
    roles->runs = given->runs;
    return RT_OK;
}

/* Refuses more than the node offers, before any of it is taken. */
static rt_status worker_check_memory(const struct rt_session *session, struct worker *worker,
                                     const struct rt_roles *roles, uint64_t *memory, struct rt_error *err) {
    const struct rt_node_settings *node = session->node ? rt_node_settings(session->node) : NULL;
    const struct rt_exchanger_settings settings = worker_settings_of(session, worker);
    return rt_exchanger_check_memory(&settings, roles, worker->network.model, node ? node->memory : 0, memory,
                                     err);
}

static void worker_data_destroy(struct worker_data *data) {
    if (!data)
        return;
    rt_datasets_close(&data->sets);
    rt_scaling_deinit(&data->scaling);
    free(data);
}

/* Whether what is open is what rt_job_data_open would open, and find right. */
static bool worker_data_serves(const struct worker_data *data, const struct worker *worker) {
    const struct rt_job_data *wanted = &worker->job->data;
    return data->fingerprint[0] && strcmp(data->fingerprint, wanted->fingerprint) == 0 &&
           data->sets.train.count == (uint64_t)wanted->examples && data->sets.target == worker->target &&
           data->inputs == worker->network.inputs && data->outputs == worker->network.outputs &&
           data->loss == worker->network.loss;
}

/* kept: of a view before, or NULL; taken over, or destroyed. */
static rt_status worker_open_data(const struct rt_session *session, struct worker *worker, bool needed,
                                  struct worker_data *kept, struct rt_error *err) {
    const struct rt_node_device *device = session->user;
    const struct rt_job *job = worker->job;
    if (needed && kept && worker_data_serves(kept, worker)) {
        worker->data = kept;
        return RT_OK;
    }
    worker_data_destroy(kept);
    RT_TRY(rt_alloc(1, sizeof *worker->data, "the data of a node", &worker->data, err));
    if (!needed)
        return RT_OK;
    RT_TRY(rt_job_data_open(job, &worker->network, device->data, device->cache, session->stop,
                            &worker->data->sets, &worker->data->scaling, err));
    worker->data->inputs = worker->network.inputs;
    worker->data->outputs = worker->network.outputs;
    worker->data->loss = worker->network.loss;
    snprintf(worker->data->fingerprint, sizeof worker->data->fingerprint, "%.64s", job->data.fingerprint);
    return RT_OK;
}

/* kept: data of a view before, or NULL; NULL afterwards if they were taken over. */
static rt_status worker_take_part(const struct rt_session *session, struct worker *worker,
                                  const struct rt_assign *asked, struct worker_data **kept, uint64_t *memory,
                                  struct rt_error *err) {
    if (asked->nodes < 2 || asked->index == 0 || asked->index >= asked->nodes)
        return rt_fail(err, RT_BAD_INPUT, "the assignment is for node %u of %zu", asked->index, asked->nodes);
    worker->rank = asked->index;
    worker->count = (uint16_t)asked->nodes;
    struct rt_roles roles;
    uint16_t *ranks;
    rt_status status = worker_read_job(worker, asked->job, err);
    if (status == RT_OK)
        status = worker_make_network(session, worker, err);
    if (status != RT_OK)
        return status;
    struct rt_data_wish wish;
    status = rt_datasets_wish(&worker->job->data.set, &worker->network, &wish, err);
    if (status != RT_OK)
        return status;
    worker->target = wish.target;
    status = rt_alloc(asked->nodes, sizeof *ranks, "the roles of the nodes", &ranks, err);
    if (status != RT_OK)
        return status;
    status = rt_exchange_roles(worker->section.strategy, &worker->section.options, asked->nodes, ranks,
                               &roles, err);
    if (status == RT_OK)
        status = worker_check_shares(worker, &roles, err);
    if (status == RT_OK)
        status = worker_check_memory(session, worker, &roles, memory, err);
    if (status == RT_OK)
        status = rt_network_allocate(&worker->network, err);
    if (status == RT_OK) {
        const struct rt_blocks *blocks = &worker->network.blocks;
        rt_model_init(worker->network.model, (uint64_t)worker->job->seed, blocks->params, blocks->buffers);
    }
    const bool needed = rt_roles_place(&roles, worker->rank) < roles.workers && !worker->job->data.set.send;
    if (status == RT_OK) {
        struct worker_data *taken = *kept;
        *kept = NULL;
        status = worker_open_data(session, worker, needed, taken, err);
    }
    free(ranks);
    return status;
}

static void worker_close_links(struct rt_session *session, struct worker *worker) {
    if (worker->talk.link) {
        rt_talk_close(&worker->talk);
        session->links[0] = NULL;
    }
    for (uint16_t i = 0; session->links && i < worker->count; i++) {
        rt_link_close(session->links[i]);
        session->links[i] = NULL;
    }
}

static void worker_end(struct rt_session *session) {
    struct worker *worker = session->role;
    if (!worker)
        return;
    worker_data_destroy(worker->data);
    rt_network_destroy(&worker->network);
    rt_job_destroy(worker->job);
    free(worker);
    session->role = NULL;
}

static rt_status worker_assign(struct rt_session *session, const struct rt_assign *asked, uint64_t *memory,
                               struct rt_error *err) {
    struct worker *worker = session->role;
    struct worker_data *kept = worker ? worker->data : NULL;
    if (worker)
        worker->data = NULL;
    worker_end(session); /* a second assignment takes the place of the first */
    rt_status status = rt_alloc(1, sizeof *worker, "a node of an exchange", &worker, err);
    if (status != RT_OK) {
        worker_data_destroy(kept);
        return status;
    }
    session->role = worker;
    fenv_t theirs;
    rt_fp_enter(&theirs);
    status = worker_take_part(session, worker, asked, &kept, memory, err);
    rt_fp_leave(&theirs);
    worker_data_destroy(kept);
    if (status != RT_OK)
        worker_end(session);
    return status;
}

/* ---- the run ------------------------------------------------------------------------------------------- */

static void worker_stray(void *user, const struct rt_event *event) {
    struct rt_session *session = user;
    if (session->node)
        rt_node_stray(session, event);
}

static rt_status worker_learn(void *self, uint64_t batch, struct rt_done *done, struct rt_error *err) {
    return rt_exchanger_learn(self, batch, done, err);
}

static rt_status worker_settle(void *self, struct rt_error *err) {
    return rt_exchanger_settle(self, err);
}

static float *worker_state_tensor(void *user, size_t tensor) {
    return rt_exchanger_state(((struct worker *)user)->exchanger, tensor);
}

static void worker_loaded(void *user, uint64_t update) {
    rt_exchanger_loaded(((struct worker *)user)->exchanger, update);
}

static void worker_metrics(void *user, struct rt_metrics_row *row) {
    rt_exchanger_metrics(((struct worker *)user)->exchanger, row);
}

static void worker_tally(void *user, uint64_t *counts) {
    rt_exchanger_tally(((struct worker *)user)->exchanger, counts);
}

static rt_status worker_take_examples(void *user, uint64_t batch, uint64_t at, const float *floats,
                                      size_t count, struct rt_error *err) {
    return rt_sample_receiver_take(((struct worker *)user)->box, batch, at, floats, count, err);
}

static rt_status worker_make_box(struct worker *worker, struct rt_error *err) {
    const struct rt_exchanger *exchanger = worker->exchanger;
    const struct rt_net_replica_settings *settings = &exchanger->settings.replica;
    const struct rt_sample_layout layout = {.examples = settings->count,
                                            .batch = settings->batch < settings->count ? settings->batch
                                                                                       : settings->count,
                                            .part = settings->part,
                                            .drop_last = settings->drop_last,
                                            .inputs = worker->network.inputs,
                                            .outputs = worker->network.outputs,
                                            .target = worker->target,
                                            .loss = worker->network.loss};
    return rt_sample_receiver_create(&layout, &worker->box, err);
}

static rt_status worker_make_site(struct rt_session *session, struct worker *worker, struct rt_error *err) {
    const struct rt_exchanger_settings settings = worker_settings_of(session, worker);
    rt_status status = rt_exchanger_create(&settings, &worker->exchanger, err);
    if (status != RT_OK)
        return status;
    const struct rt_exchanger *exchanger = worker->exchanger;
    if (exchanger->works && worker->job->data.set.send)
        status = worker_make_box(worker, err);
    if (status != RT_OK)
        return status;
    const struct rt_agent_settings agent = {
        .comm = &exchanger->settings.comm,
        .learns = rt_exchanger_takes_tickets(exchanger),
        .state = worker_state_tensor,
        .state_tensors = 1 + worker->job->optim->type->state_tensors,
        .param_count = exchanger->replica->param_count,
        .examples = worker->box ? worker_take_examples : NULL,
        .user = worker,
    };
    return rt_agent_create(&agent, &worker->agent, err);
}

static rt_status worker_work(struct rt_session *session, struct worker *worker, struct rt_error *err) {
    if (!session->links || session->count != worker->count || !session->links[0])
        return rt_fail(err, RT_FAILED, "the links of the run are not those of its assignment");
    rt_status status = rt_talk_open(session->links[0], &worker->talk, err);
    if (status != RT_OK)
        return status;
    worker->talk.run = session->run;
    status = worker_make_site(session, worker, err);
    if (status != RT_OK) {
        rt_talk_refuse(&worker->talk, status, worker->rank, err->text);
        return status;
    }
    const struct rt_engine_part part = rt_agent_part(worker->agent);
    const struct rt_exchanger_run worker_run = {
        .parts = &part, .part_count = 1, .stray = worker_stray, .user = session, .stop = session->stop};
    status = rt_exchanger_start(worker->exchanger, &worker_run, err);
    if (status != RT_OK)
        return status;
    const struct rt_exchanger *exchanger = worker->exchanger;
    const struct rt_agent_run worker_work = {
        .worker = {.self = worker->exchanger,
                   .learn = rt_exchanger_takes_tickets(exchanger) ? worker_learn : NULL,
                   .settle = rt_exchanger_takes_tickets(exchanger) ? worker_settle : NULL},
        .loaded = worker_loaded,
        .metrics = worker_metrics,
        .tally = exchanger->member.server ? worker_tally : NULL,
        .user = worker};
    return rt_agent_run(worker->agent, &worker_work, exchanger->engine, err);
}

/* Ends the engine's thread, which had the agent until then. */
static void worker_leave(struct rt_session *session, struct worker *worker, rt_status status) {
    struct rt_engine *engine = worker->exchanger ? worker->exchanger->engine : NULL;
    const bool worked = engine != NULL;
    const uint16_t lost = worked ? rt_engine_lost(engine, NULL) : RT_NODE_NONE;
    rt_exchanger_halt(worker->exchanger);
    session->keep = 0;
    session->orphaned = false;
    if (!worker->agent || status == RT_OK)
        return;
    if (status == RT_FAILED && worked &&
        rt_session_may_go_on(session, lost, rt_agent_is_view_over(worker->agent)))
        session->keep = worker->job->keep;
    session->orphaned = rt_agent_is_orphaned(worker->agent);
}

static rt_status worker_run(struct rt_session *session, struct rt_error *err) {
    struct worker *worker = session->role;
    fenv_t theirs;
    rt_fp_enter(&theirs);
    rt_status status = worker_work(session, worker, err);
    worker_leave(session, worker, status);
    worker_close_links(session, worker);
    rt_agent_destroy(worker->agent);
    rt_exchanger_destroy(worker->exchanger);
    rt_sample_receiver_destroy(worker->box);
    worker->agent = NULL;
    worker->exchanger = NULL;
    worker->box = NULL;
    rt_fp_leave(&theirs);
    return status;
}

const struct rt_role rt_exchange_node_role = {.assign = worker_assign, .run = worker_run, .end = worker_end};
