/* The learner that is an exchange: workers, each with the whole model, and perhaps servers. */
#include "run/exchange/inside.h"

#include "base/clock.h"
#include "base/memory.h"
#include "base/sentence.h"
#include "run/resilience.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* Seconds that the master waits for the nodes to say goodbye. */
static const double goodbye_seconds = 5;

rt_status rt_exchange_explain(struct rt_exchange_learner *learner, rt_status status, struct rt_error *err) {
    if (status == RT_OK)
        return status;
    if (learner->failure.status == RT_OK)
        rt_fail(&learner->failure, status, "%s", err->text);
    struct rt_error why;
    const uint16_t lost =
        learner->exchanger->engine ? rt_engine_lost(learner->exchanger->engine, &why) : UINT16_MAX;
    /* Invalid data from a node is RT_BAD_INPUT where it was read; here that node counts as lost. */
    if ((status != RT_FAILED && status != RT_BAD_INPUT) || lost >= learner->count)
        return status;
    *err = why;
    return rt_membership_lost(&learner->who, learner->device[lost], learner->config.lost, err);
}

static rt_status exchange_step(void *self, struct rt_step *result, struct rt_error *err) {
    struct rt_exchange_learner *learner = self;
    struct rt_done sum;
    const double exchange_start = rt_clock_wall();
    learner->fetched = 0;
    rt_status status = rt_scheduler_step(learner->scheduler, &sum, err);
    const uint64_t update = rt_scheduler_returned(learner->scheduler);
    /* An update of 0 rows would be taken for the end of the examples, so it is refused. */
    if (status == RT_OK && sum.rows == 0)
        status = rt_fail(err, RT_FAILED, "update %llu was made of no examples", (unsigned long long)update);
    status = rt_exchange_explain(learner, status, err);
    if (status == RT_OK)
        *result = (struct rt_step){.update = update,
                                   .rows = sum.rows,
                                   .loss = sum.loss,
                                   .correct = sum.correct,
                                   .start = exchange_start,
                                   .end = rt_clock_wall()};
    return status;
}

static bool exchange_at_rest(void *self) {
    struct rt_exchange_learner *learner = self;
    return rt_scheduler_drain(learner->scheduler);
}

/* Deferred updates count as training time. */
static rt_status exchange_set_apart(void *self, bool is_apart, struct rt_error *err) {
    struct rt_exchange_learner *learner = self;
    rt_status status = is_apart ? rt_exchanger_settle(learner->exchanger, err) : RT_OK;
    rt_net_replica_set_apart(learner->exchanger->net, is_apart);
    return rt_exchange_explain(learner, status, err);
}

static rt_status exchange_forward(void *self, size_t examples, const struct rt_forward_pass *pass,
                                  struct rt_error *err) {
    struct rt_exchange_learner *learner = self;
    rt_status status = rt_exchange_fetch(learner, 1, err);
    const struct rt_forward local = rt_forward_local(learner->config.network);
    return status == RT_OK ? local.run(local.self, examples, pass, err) : status;
}

/* ---- reports ---- */

static bool exchange_rows_are_here(void *self) {
    struct rt_exchange_learner *learner = self;
    return rt_coordinator_metrics(learner->coordinator, learner->rows);
}

static void exchange_ask_rows(struct rt_exchange_learner *learner) {
    rt_engine_enter(learner->exchanger->engine);
    rt_coordinator_ask_metrics(learner->coordinator);
    rt_engine_leave(learner->exchanger->engine);
    learner->asked = true;
}

/* The rows of the nodes; of a recent report those that came since the last one. */
static rt_status exchange_collect_rows(struct rt_exchange_learner *learner, bool recent, bool *fresh,
                                       struct rt_error *err) {
    *fresh = true;
    if (!learner->coordinator)
        return RT_OK;
    if (!recent) {
        exchange_ask_rows(learner);
        return rt_engine_wait_as(learner->exchanger->engine, rt_net_replica_states(learner->exchanger->net),
                                 RT_STATE_WAIT_BARRIER, exchange_rows_are_here, learner, err);
    }
    *fresh = false;
    if (learner->asked) {
        rt_engine_enter(learner->exchanger->engine);
        *fresh = exchange_rows_are_here(learner);
        rt_engine_leave(learner->exchanger->engine);
    }
    if (!learner->asked || *fresh)
        exchange_ask_rows(learner);
    return RT_OK;
}

static rt_status exchange_report(void *self, bool recent, struct rt_node_report *reports, bool *fresh,
                                 struct rt_error *err) {
    struct rt_exchange_learner *learner = self;
    const struct rt_roles *roles = &learner->exchanger->roles;
    rt_status status = exchange_collect_rows(learner, recent, fresh, err);
    if (status != RT_OK)
        return rt_exchange_explain(learner, status, err);
    if (!*fresh)
        return RT_OK;
    rt_exchanger_metrics(learner->exchanger, &learner->rows[0]);
    for (uint16_t i = 0; i < learner->count; i++) {
        const bool works = rt_roles_place(roles, i) < roles->workers;
        const size_t device = learner->device[i];
        reports[i] = (struct rt_node_report){.role = i ? rt_exchanger_role(roles, i) : "master",
                                             .name = learner->who.name[device],
                                             .address = learner->who.address[device],
                                             .count = works ? learner->config.network->model->count : 0,
                                             .row = learner->rows[i],
                                             .predicted_idle = (double)NAN};
    }
    return RT_OK;
}

/* Adds what one server counted; mean: the sum, so far. */
static void exchange_add_tally(const uint64_t *tally, const struct rt_metrics_row *row,
                               struct rt_exchange_counts *counts) {
    for (size_t i = 0; i < RT_STALENESS_BINS && i < RT_EXCHANGE_BINS; i++)
        counts->staleness[i] += tally[i];
    counts->applied += tally[RT_TALLY_APPLIED];
    counts->dropped += tally[RT_TALLY_DROPPED];
    counts->forced += tally[RT_TALLY_FORCED];
    counts->held += tally[RT_TALLY_HELD];
    counts->mean += row->staleness_sum;
    counts->most = row->staleness_max > counts->most ? row->staleness_max : counts->most;
}

/* The nodes elsewhere said so with their last report. */
static bool exchange_counts(void *self, struct rt_exchange_counts *counts) {
    struct rt_exchange_learner *learner = self;
    struct rt_exchanger *exchanger = learner->exchanger;
    uint64_t own[RT_TALLIES], all = 0;
    struct rt_metrics_row row;
    if (!exchanger->member.server)
        return false;
    *counts = (struct rt_exchange_counts){.bins = RT_EXCHANGE_BINS};
    rt_exchanger_tally(exchanger, own);
    rt_exchanger_metrics(exchanger, &row);
    exchange_add_tally(own, &row, counts);
    for (uint16_t rank = 1; learner->coordinator && rank < exchanger->roles.servers; rank++)
        exchange_add_tally(rt_coordinator_tally(learner->coordinator, rank), &learner->rows[rank], counts);
    counts->spread = own[RT_TALLY_SPREAD];
    for (uint16_t rank = 1; learner->coordinator && rank < learner->count; rank++) {
        const uint64_t spread = rt_coordinator_tally(learner->coordinator, rank)[RT_TALLY_SPREAD];
        counts->spread = spread > counts->spread ? spread : counts->spread;
    }
    for (size_t i = 0; i < RT_EXCHANGE_BINS; i++)
        all += counts->staleness[i];
    counts->mean /= all ? (double)all : 1;
    while (counts->bins > 1 && counts->staleness[counts->bins - 1] == 0)
        counts->bins--;
    return true;
}

/* ---- the end ---- */

static bool exchange_are_gone(void *self) {
    const struct rt_exchange_learner *learner = self;
    return rt_coordinator_gone(learner->coordinator);
}

void rt_exchange_linger(struct rt_exchange_learner *learner, double seconds) {
    struct rt_engine *engine = learner->exchanger->engine;
    rt_engine_linger(engine, exchange_are_gone, learner, rt_engine_now(engine) + seconds);
}

static rt_status exchange_stop(void *self, struct rt_error *err) {
    struct rt_exchange_learner *learner = self;
    (void)err;
    if (!learner->coordinator)
        return RT_OK;
    rt_engine_let_go(learner->exchanger->engine);
    rt_engine_enter(learner->exchanger->engine);
    rt_coordinator_stop(learner->coordinator);
    rt_engine_leave(learner->exchanger->engine);
    rt_exchange_linger(learner, goodbye_seconds);
    learner->stopped = true;
    return RT_OK;
}

/* The nodes are told why. */
static void exchange_abandon(struct rt_exchange_learner *learner) {
    struct rt_engine *engine = learner->exchanger ? learner->exchanger->engine : NULL;
    if (!engine || !learner->coordinator || learner->stopped)
        return;
    const bool failed = learner->failure.status != RT_OK;
    rt_engine_let_go(engine);
    rt_engine_enter(engine);
    rt_coordinator_fail(learner->coordinator, failed ? learner->failure.status : RT_INTERRUPTED,
                        failed ? learner->failure.text : "the master has ended the run");
    rt_engine_leave(engine);
    rt_exchange_linger(learner, goodbye_seconds);
}

static void exchange_destroy(void *self) {
    struct rt_exchange_learner *learner = self;
    exchange_abandon(learner);
    rt_exchange_leave(learner);
    rt_membership_deinit(&learner->who);
    free(learner->device);
    free(learner->slice_seconds);
    free(learner);
}

/* ---- the beginning ---- */

uint64_t rt_exchange_per_epoch(const void *options, uint64_t batches) {
    const double cut = ((const struct rt_exchange_options *)options)->cut;
    if (!(cut > 0 && cut < 1))
        return batches;
    const double kept = ceil(cut * (double)batches - 1e-9);
    return kept < 1 ? 1 : (uint64_t)kept;
}

/* The roles of the nodes, as lines to print. NULL: out of memory. */
static char *exchange_print(const struct rt_exchange_learner *learner) {
    const struct rt_exchanger *exchanger = learner->exchanger;
    const struct rt_roles *roles = &exchanger->roles;
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    if (!out)
        return NULL;
    fprintf(out, "%s: %s, each with the whole model; ", learner->config.exchange->name,
            RT_COUNTED(roles->workers, "worker"));
    if (exchanger->grouped)
        fprintf(out, "in %s, each of which takes a batch of its own\n",
                RT_COUNTED(exchanger->clients.workers, "group"));
    else
        fprintf(out, exchanger->asynchronous ? "each takes a batch of its own\n" : "they share each batch\n");
    rt_membership_print_addresses(&learner->who, out);
    for (uint16_t i = 0; i < learner->count; i++) {
        const bool proxy =
            exchanger->grouped && rt_roles_place(&exchanger->clients, i) < exchanger->clients.workers;
        fprintf(out, "  %2u  %-24s %s%s\n", i, learner->who.name[learner->device[i]],
                rt_exchanger_role(roles, i), proxy ? ", proxy of its group" : "");
    }
    rt_exchange_print_shares(learner, out);
    if (learner->who.cluster)
        rt_resilience_print_image(learner->config.spec, rt_exchange_image_bytes(learner),
                                  learner->image_on_disk ? "in a file" : "of memory", out);
    if (fclose(out) == 0)
        return text;
    free(text);
    return NULL;
}

void rt_exchange_describe(struct rt_exchange_learner *learner, struct rt_learner *described) {
    described->model_state = rt_exchange_model_state(learner);
    described->nodes = learner->count;
    described->image_on_disk = learner->image_on_disk;
}

static rt_status exchange_open(const struct rt_training_config *config, struct rt_exchange_learner *learner,
                               struct rt_error *err) {
    const struct rt_start start = {.gone = config->spec->cluster.recover ? config->gone : NULL,
                                   .warn = config->warn,
                                   .user = config->notice_user};
    learner->config = *config;
    RT_TRY(rt_exchange_gather(learner, err));
    const rt_status status = rt_exchange_form_anew(learner, err);
    return rt_membership_start_without(&learner->who, &start, rt_exchange_form_anew, learner, status, err);
}

rt_status rt_learner_exchange(const struct rt_training_config *config, struct rt_learner *learner,
                              struct rt_error *err) {
    struct rt_exchange_learner *made;
    RT_TRY(rt_alloc(1, sizeof *made, "the exchange", &made, err));
    const rt_status status = exchange_open(config, made, err);
    if (status != RT_OK) {
        exchange_destroy(made);
        return status;
    }
    const size_t micro = rt_net_replica_micro_batch(made->exchanger->net);
    *learner = (struct rt_learner){
        .self = made,
        .micro_batch = micro ? micro : made->config.settings.batch,
        .forward = {.self = made, .rows = rt_forward_local(config->network).rows, .run = exchange_forward},
        .predicted_samples_per_s = (double)NAN,
        .plan = exchange_print(made),
        .step = exchange_step,
        .at_rest = exchange_at_rest,
        .set_apart = exchange_set_apart,
        .report = exchange_report,
        .exchange_counts = exchange_counts,
        .stop = exchange_stop,
        .destroy = exchange_destroy,
    };
    rt_exchange_describe(made, learner);
    rt_exchange_can_recover(made, learner);
    return RT_OK;
}
