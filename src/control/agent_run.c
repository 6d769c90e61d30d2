/*
 * What a worker or a server of an exchange does, driven by its agent: one ticket after another.
 *
 * How a run ends. In good order: STOP comes behind all tickets; the node lets go of its links, answers, and
 * stays until the master has hung up, so that no node loses a peer that it still needs. With a failure of its
 * own: the node says why and stays in the same way. When the master says why, the node leaves at once.
 */
#include "control/agent_inside.h"

#include <math.h>
#include <string.h>

/* Seconds that a node which is done waits for the master to hang up. */
static const double goodbye_seconds = 5;
/* Seconds without a ticket after which a worker rests: no server's bound waits for it then. For the first one
 * it waits longer: that all begin together matters where workers may not drift apart. */
static const double idle_seconds = 0.05, first_seconds = 1;

struct work {
    struct rt_agent *agent;
    const struct rt_agent_run *run;
    struct rt_engine *engine;
    bool stop;
};

static bool work_is_there(void *self) {
    const struct rt_agent *agent = ((const struct work *)self)->agent;
    uint64_t update;
    return agent->asked || rt_agent_ticket(agent) || rt_agent_wants_rest(agent) ||
           rt_agent_was_loaded(agent, &update) || agent->stopped;
}

static void work_answer_metrics(struct work *work) {
    const struct rt_agent_run *run = work->run;
    struct rt_metrics_row row = {0};
    uint64_t tally[RT_TALLIES] = {0};
    if (run->metrics)
        run->metrics(run->user, &row);
    if (run->tally)
        run->tally(run->user, tally);
    row.node = work->agent->settings.comm->rank;
    rt_engine_enter(work->engine);
    rt_agent_answer(work->agent, &row, tally);
    rt_engine_leave(work->engine);
}

static rt_status work_learn(struct work *work, uint64_t batch, struct rt_error *err) {
    const struct rt_batch_worker *worker = &work->run->worker;
    struct rt_done done = {.batch = batch};
    RT_TRY(worker->learn(worker->self, batch, &done, err));
    rt_engine_enter(work->engine);
    rt_agent_done(work->agent, &done);
    rt_engine_leave(work->engine);
    return RT_OK;
}

static rt_status work_settle(struct work *work, struct rt_error *err) {
    const struct rt_batch_worker *worker = &work->run->worker;
    const rt_status status = worker->settle ? worker->settle(worker->self, err) : RT_OK;
    rt_engine_enter(work->engine);
    rt_agent_set_at_rest(work->agent, status == RT_OK);
    rt_engine_leave(work->engine);
    return status;
}

static void work_note_loaded(struct work *work, uint64_t update) {
    if (work->run->loaded)
        work->run->loaded(work->run->user, update);
    rt_engine_enter(work->engine);
    rt_agent_note_loaded(work->agent);
    rt_engine_leave(work->engine);
}

/* One thing that is to be done. */
static rt_status work_on(struct work *work, struct rt_error *err) {
    struct rt_agent *agent = work->agent;
    uint64_t update;
    rt_engine_enter(work->engine);
    const bool asked = agent->asked, loaded = rt_agent_was_loaded(agent, &update);
    const bool rest = rt_agent_wants_rest(agent) || !agent->stopped;
    const uint64_t batch = asked ? 0 : rt_agent_ticket(agent);
    if (batch)
        rt_agent_take(agent);
    rt_engine_leave(work->engine);
    if (batch)
        return work_learn(work, batch, err);
    if (asked)
        work_answer_metrics(work);
    else if (loaded)
        work_note_loaded(work, update);
    else if (rest)
        return work_settle(work, err);
    else
        work->stop = true;
    return RT_OK;
}

static bool work_is_over(void *self) {
    return rt_agent_is_over(((const struct work *)self)->agent);
}

/* Says goodbye, or why this node ends, and stays until the master has heard it. */
static void work_part(struct work *work, rt_status status, const struct rt_error *err) {
    struct rt_agent *agent = work->agent;
    const struct rt_communicator *comm = agent->settings.comm;
    struct rt_error why = *err;
    struct rt_error_message report;
    const uint16_t self = rt_communicator_node(comm, comm->rank), lost = rt_engine_lost(work->engine, &why);
    if (status == RT_DIVERGED && lost == UINT16_MAX) /* no node is lost */
        rt_node_names_blame(&comm->names, self, &why);
    rt_node_names_report(&comm->names, self, lost, &why, &report);
    rt_engine_let_go(work->engine);
    rt_engine_enter(work->engine);
    if (status == RT_OK)
        rt_agent_say_goodbye(agent);
    else
        rt_agent_fail(agent, (rt_status)report.status, report.node, report.text);
    rt_engine_leave(work->engine);
    rt_engine_linger(work->engine, work_is_over, work, rt_engine_now(work->engine) + goodbye_seconds);
}

rt_status rt_agent_run(struct rt_agent *agent, const struct rt_agent_run *run, struct rt_engine *engine,
                       struct rt_error *err) {
    struct work work = {.agent = agent, .run = run, .engine = engine};
    struct rt_error why = {0};
    rt_status status = RT_OK;
    while (status == RT_OK && !work.stop) {
        const double seconds = agent->taken > 0 ? idle_seconds : first_seconds;
        const double until = agent->at_rest ? (double)INFINITY : rt_engine_now(engine) + seconds;
        status = rt_engine_wait(engine, work_is_there, &work, until, &why);
        if (status == RT_OK)
            status = work_on(&work, &why);
    }
    if (status == RT_OK)
        status = work_settle(&work, &why);
    work_part(&work, status, &why);
    if (status != RT_OK)
        rt_fail(err, status, "%s", why.text);
    return status;
}
