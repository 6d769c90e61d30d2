/* What the leader of a ring does: one ticket after another, until the master says that the run is over. */
#include "run/hybrid/leader_inside.h"

#include <math.h>

/* Seconds that a leader whose ring has failed waits until the master has heard why. */
static const double reason_seconds = 5;

/* ---- the talk ------------------------------------------------------------------------------------------ */

static void leader_stray(void *user, const struct rt_event *event) {
    struct rt_session *session = user;
    if (session->node)
        rt_node_stray(session, event);
}

/* Asked before an update begins, again and again while there is no ticket. */
static bool leader_can_begin(const struct leader *leader, uint64_t batch) {
    return batch && rt_agent_ticket(leader->agent) == batch &&
           (!leader->samples || rt_sample_receiver_has(leader->samples, batch));
}

static bool leader_may_begin(void *user, uint64_t batch) {
    return leader_can_begin(user, batch);
}

/* Whether a message other than the next ticket has come: the ring must return to handle it. */
static bool leader_needs_attention(const struct leader *leader) {
    const uint64_t ticket = rt_agent_ticket(leader->agent);
    return rt_agent_is_asked(leader->agent) || rt_agent_is_stopped(leader->agent) ||
           (ticket && ticket != leader->expected);
}

/* The agent, as the group sees it. */
static bool leader_take_event(void *self, const struct rt_event *event, uint16_t *lost, rt_status *status,
                              struct rt_error *err) {
    struct leader *leader = self;
    const struct rt_engine_part part = rt_agent_part(leader->agent);
    if (!part.event(part.self, event, status, err))
        return false;
    if (*status != RT_OK) {
        *lost = rt_agent_lost(leader->agent);
    } else if (event->kind == RT_EVENT_CLOSED && !rt_agent_is_stopped(leader->agent)) {
        *err = event->error;
        *status = RT_FAILED;
        *lost = 0;
    }
    if (leader_needs_attention(leader))
        atomic_store(&leader->halt, 1);
    return true;
}

static rt_status leader_take_examples(void *self, uint64_t batch, uint64_t first, const float *floats,
                                      size_t count, struct rt_error *err) {
    return rt_sample_receiver_take(((struct leader *)self)->samples, batch, first, floats, count, err);
}

static rt_status leader_use_examples(void *self, uint64_t batch, struct rt_received_rows *rows,
                                     struct rt_error *err) {
    return rt_sample_receiver_use(self, batch, rows, err);
}

/* A failure stays, and is found with the next event. */
static void leader_flush(struct leader *leader) {
    const struct rt_engine_part part = rt_agent_part(leader->agent);
    struct rt_error ignored;
    part.turn(part.self, &ignored);
}

/* A ring that has no batch waits for the master of the run, which may validate meanwhile. */
static bool leader_waits_for(const void *self, uint16_t ring) {
    const struct leader *leader = self;
    return ring == 0 && !(leader->ring && rt_ring_is_busy(leader->ring)) &&
           !leader_can_begin(leader, rt_agent_ticket(leader->agent));
}

/* Leaders keep their links until the master closes them: it knows when all rings are at rest. */
static bool leader_may_leave(void *self) {
    struct leader *leader = self;
    if (!leader->left)
        rt_agent_say_goodbye(leader->agent);
    leader->left = true;
    leader_flush(leader);
    return rt_agent_is_over(leader->agent);
}

/* ---- the run ------------------------------------------------------------------------------------------- */

static rt_status leader_open_ring(struct leader *leader, struct rt_session *session, struct rt_error *err) {
    const struct rt_position *position = leader->position;
    const struct rt_leader_context *context = session->user;
    const size_t micro = leader->plan.micro_batch;
    rt_status status;
    if (leader->samples) {
        const struct rt_pipeline_rows rows = {.self = leader->samples,
                                              .examples = (size_t)position->job->data.examples,
                                              .take = leader_use_examples};
        status = rt_input_pipeline_open_rows(&leader->config, micro, &rows, &leader->pipeline, err);
    } else {
        status = rt_input_pipeline_open(&leader->config, micro, NULL, &leader->pipeline, err);
    }
    if (status != RT_OK)
        return status;
    leader->part_pipeline = (struct rt_part_pipeline){.whole = rt_input_pipeline_source(&leader->pipeline),
                                                      .part = (size_t)leader->ring_job->ring.part,
                                                      .parts = (size_t)leader->ring_job->ring.parts,
                                                      .sum = position->inter_ring.options.reduce == RT_SUM,
                                                      .numbering = rt_hybrid_numbering(position),
                                                      .may_begin = leader_may_begin,
                                                      .user = leader};
    rt_group_set_talk(context->group,
                      (struct rt_group_talk){.self = leader,
                                             .event = leader_take_event,
                                             .waits_for = leader_waits_for,
                                             .may_leave = leader_may_leave,
                                             .examples = leader->samples ? leader_take_examples : NULL});
    const struct rt_ring_settings settings = {.job = leader->ring_job,
                                              .plan = &leader->plan,
                                              .device = &leader->network.device,
                                              .endpoint = session->endpoint,
                                              .next = session->next,
                                              .previous = session->previous,
                                              .run = session->run,
                                              .names = session->names,
                                              .source = rt_part_pipeline_source(&leader->part_pipeline),
                                              .pace = &context->device->ring.pace,
                                              .timeout = position->job->timeout,
                                              .stop = &leader->halt,
                                              .abandon = session->stop,
                                              .recalled = &session->recalled,
                                              .stray = leader_stray,
                                              .user = session,
                                              .inter_ring = rt_group_inter_ring(context->group)};
    session->next = session->previous = NULL;
    return rt_ring_create(&settings, &leader->ring, err);
}

static rt_status leader_answer_metrics(struct leader *leader, struct rt_error *err) {
    RT_TRY(rt_ring_metrics(leader->ring, leader->rows, err));
    for (uint16_t i = 0; i < leader->position->ring_size; i++)
        leader->rows[i].node = (uint16_t)(leader->position->index + i);
    rt_agent_answer(leader->agent, leader->rows, NULL);
    leader_flush(leader);
    return RT_OK;
}

/* Handles stop requests and metrics between two batches. */
static rt_status leader_attend(struct leader *leader, struct rt_error *err) {
    atomic_store(&leader->halt, 0);
    if (leader->stop && atomic_load(leader->stop))
        return rt_fail(err, RT_INTERRUPTED, "the node is stopped");
    return rt_agent_is_asked(leader->agent) ? leader_answer_metrics(leader, err) : RT_OK;
}

/* One update; reports its result. */
static rt_status leader_step(struct leader *leader, struct rt_error *err) {
    const struct rt_part_pipeline *part_pipeline = &leader->part_pipeline;
    struct rt_ring_update update;
    RT_TRY(rt_ring_step(leader->ring, &update, err));
    const struct rt_done done = {.rows =
                                     rt_hybrid_rows(update.rows, part_pipeline->part, part_pipeline->parts),
                                 .correct = update.correct,
                                 .loss = update.loss};
    rt_agent_take(leader->agent);
    rt_agent_done(leader->agent, &done);
    leader->expected = leader->position->with_servers ? 0 : update.update + 1;
    leader_flush(leader);
    if (leader_needs_attention(leader))
        atomic_store(&leader->halt, 1);
    return RT_OK;
}

static bool leader_is_finished(const struct leader *leader) {
    return rt_agent_is_stopped(leader->agent) && !rt_agent_ticket(leader->agent);
}

/* Of rings that stay together: the tickets follow one another, and the ring waits for them by itself. */
static rt_status leader_learn_together(struct leader *leader, struct rt_error *err) {
    while (!leader_is_finished(leader)) {
        const rt_status status = leader_step(leader, err);
        if (status != RT_INTERRUPTED) {
            RT_TRY(status);
            continue;
        }
        RT_TRY(leader_attend(leader, err));
        const uint64_t ticket = rt_agent_ticket(leader->agent), last = rt_agent_last_done(leader->agent);
        if (ticket && last && ticket != last + 1)
            return rt_fail(err, RT_FAILED, "a ticket for batch %llu came behind batch %llu",
                           (unsigned long long)ticket, (unsigned long long)last);
        if (ticket && !last) {
            leader->expected = ticket;
            rt_ring_follow(leader->ring, ticket - 1);
        }
    }
    return RT_OK;
}

static bool leader_has_ticket(void *user) {
    const struct leader *leader = user;
    return rt_agent_ticket(leader->agent) || rt_agent_is_stopped(leader->agent);
}

static bool leader_may_rest(const struct leader *leader) {
    return rt_agent_has_begun(leader->agent) && !rt_agent_ticket(leader->agent) && !leader->resting;
}

static bool leader_has_news(void *user) {
    const struct leader *leader = user;
    const uint64_t ticket = rt_agent_ticket(leader->agent);
    return rt_agent_is_asked(leader->agent) || rt_agent_is_stopped(leader->agent) ||
           leader_may_rest(leader) || leader_can_begin(leader, ticket) ||
           (leader->stop && atomic_load(leader->stop));
}

/* Seconds that a ring waits for another batch before it rests: the next ticket may be on its way. */
static const double moment = 0.02;

static rt_status leader_rest(struct leader *leader, struct rt_error *err) {
    const double until = rt_endpoint_now(leader->comm.endpoint) + moment;
    RT_TRY(rt_ring_wait(leader->ring, leader_has_ticket, leader, until, err));
    if (leader_has_ticket(leader))
        return RT_OK;
    RT_TRY(rt_ring_rest(leader->ring, err));
    leader->resting = true;
    rt_agent_rest(leader->agent);
    leader_flush(leader);
    return RT_OK;
}

/* Of a ring that has its own batches: while it has none it rests, so that no other waits for it. */
static rt_status leader_learn_alone(struct leader *leader, struct rt_error *err) {
    while (!leader_is_finished(leader)) {
        RT_TRY(leader_attend(leader, err));
        const uint64_t ticket = rt_agent_ticket(leader->agent);
        if (leader_can_begin(leader, ticket)) {
            leader->resting = false;
            rt_ring_follow(leader->ring, ticket - 1);
            RT_TRY(leader_step(leader, err));
        } else if (leader_may_rest(leader)) {
            RT_TRY(leader_rest(leader, err));
        } else {
            RT_TRY(rt_ring_wait(leader->ring, leader_has_news, leader, (double)INFINITY, err));
        }
    }
    return RT_OK;
}

/* Tells the master why the ring has failed, and hears from it how to go on. */
static void leader_tell_why(struct leader *leader, struct rt_session *session, rt_status status,
                            const struct rt_error *err) {
    struct rt_error why = *err;
    struct rt_error_message report;
    leader->lost = leader->ring ? rt_ring_lost(leader->ring, &why) : RT_NODE_NONE;
    why.status = status;
    rt_node_names_report(&session->names, leader->position->index, leader->lost, &why, &report);
    if (rt_agent_is_over(leader->agent))
        return;
    rt_agent_fail(leader->agent, (rt_status)report.status, report.node, report.text);
    leader_flush(leader);
    const struct rt_engine_part part = rt_agent_part(leader->agent);
    const double until = rt_endpoint_now(leader->comm.endpoint) + reason_seconds;
    struct rt_event event;
    struct rt_error ignored;
    rt_status too_late;
    while (!rt_agent_is_over(leader->agent) && !atomic_load(&session->recalled) &&
           rt_endpoint_wait(leader->comm.endpoint, until, &event))
        if (!part.event(part.self, &event, &too_late, &ignored))
            leader_stray(session, &event);
}

/* After a failure: whether the master may form another view, with this ring's nodes. It may be gone, and
 * started again; but not where it has ended the run. */
static bool leader_goes_on(const struct leader *leader, const struct rt_session *session, rt_status status) {
    const bool over = rt_agent_is_view_over(leader->agent);
    if (status != RT_FAILED || (rt_agent_has_ended(leader->agent) && !over))
        return false;
    return rt_session_may_go_on(session, leader->lost, over);
}

/* The nodes of the ring wait for another view as well, or know that the run is over. */
static void leader_part_ways(const struct leader *leader, bool goes_on) {
    if (leader->ring && goes_on)
        rt_ring_give_up(leader->ring);
    else if (leader->ring)
        rt_ring_abandon(leader->ring);
}

static rt_status leader_work(struct leader *leader, struct rt_session *session, struct rt_error *err) {
    rt_status status = leader_open_ring(leader, session, err);
    if (status == RT_OK)
        status = leader->position->with_servers ? leader_learn_alone(leader, err)
                                                : leader_learn_together(leader, err);
    if (status == RT_OK)
        status = rt_ring_stop(leader->ring, err);
    /* Not later: it is forgotten soon. */
    leader->stalled = status != RT_OK && rt_endpoint_stalled(session->endpoint) > 0;
    if (status != RT_OK)
        leader_tell_why(leader, session, status, err);
    const bool goes_on = leader_goes_on(leader, session, status);
    session->keep = goes_on ? leader->position->job->keep : 0;
    if (status != RT_OK)
        leader_part_ways(leader, goes_on || rt_agent_is_orphaned(leader->agent));
    return status;
}

static rt_status leader_open_agent(struct leader *leader, struct rt_session *session, struct rt_error *err) {
    const struct rt_leader_context *context = session->user;
    const struct rt_position *position = leader->position;
    leader->comm = (struct rt_communicator){.endpoint = session->endpoint,
                                            .run = session->run,
                                            .rank = position->ring,
                                            .count = position->rings,
                                            .stride = position->ring_size,
                                            .names = session->names,
                                            .links = context->links};
    RT_TRY(rt_talk_open(context->links[0], &leader->talk, err));
    leader->talk.run = session->run;
    const struct rt_agent_settings settings = {
        .comm = &leader->comm, .learns = true, .ahead = RT_LEADER_TICKETS_AHEAD, .rows = position->ring_size};
    return rt_agent_create(&settings, &leader->agent, err);
}

rt_status rt_leader_run(struct rt_session *session, struct rt_error *err) {
    const struct rt_leader_context *context = session->user;
    struct leader *leader = session->role;
    leader->stop = session->stop;
    rt_status status = leader_open_agent(leader, session, err);
    if (status == RT_OK)
        status = leader_work(leader, session, err);
    session->orphaned =
        status != RT_OK && !leader->stalled && leader->agent && rt_agent_is_orphaned(leader->agent);
    if (leader->talk.link)
        context->links[0] = NULL;
    rt_talk_close(&leader->talk);
    rt_agent_destroy(leader->agent);
    leader->agent = NULL;
    /* Before the ring's memory is freed: the links may write to it until then. */
    rt_group_hang_up(context->group);
    rt_ring_destroy(leader->ring);
    rt_input_pipeline_close(&leader->pipeline);
    return status;
}
