/* The devices of a run while it is under way: their reports become rates for people and lines in the journal.
 */
#include "run/training.h"

#include "base/memory.h"
#include "cluster/traffic.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static double nodes_idle_of(const double seconds[RT_METRIC_STATES]) {
    struct rt_states states = {0};
    memcpy(states.seconds, seconds, sizeof states.seconds);
    return rt_states_idle(&states);
}

static uint64_t nodes_bytes_of(const struct rt_metrics_row *row) {
    return rt_traffic_sum(row->sent) + rt_traffic_sum(row->received);
}

/* Rates from one report to a later one. */
static struct rt_node_view nodes_view_of(const struct rt_node_report *report,
                                         const struct rt_metrics_row *before) {
    const struct rt_metrics_row *row = &report->row;
    const double seconds = row->seconds - before->seconds;
    const bool some = seconds > 0;
    struct rt_node_view view = {
        .role = report->role,
        .first = report->first,
        .count = report->count,
        .tail = report->tail,
        .samples_per_s = some ? (double)(row->samples - before->samples) / seconds : (double)NAN,
        .idle_fraction =
            some ? (nodes_idle_of(row->state) - nodes_idle_of(before->state)) / seconds : (double)NAN,
        .bytes_per_s = some ? (double)(nodes_bytes_of(row) - nodes_bytes_of(before)) / seconds : (double)NAN,
        .queue = row->queue,
        .peak_memory = row->peak_memory,
        .predicted_idle = report->predicted_idle,
        .predicted_memory = report->predicted_memory};
    snprintf(view.name, sizeof view.name, "%s", report->name);
    return view;
}

static void nodes_journal_node(struct rt_training *training, size_t node, const struct rt_node_view *view) {
    const struct rt_field fields[] = {
        RT_INT("node", node),
        RT_TEXT("name", view->name),
        RT_REAL("samples_per_s", view->samples_per_s),
        RT_REAL("idle_fraction", view->idle_fraction),
        RT_REAL("bytes_per_s", view->bytes_per_s),
        RT_INT("queue", view->queue),
        RT_INT("peak_rss_bytes", view->peak_memory),
    };
    rt_journal_write(training->journal, "node", fields, sizeof fields / sizeof *fields);
}

static rt_status nodes_take_memory(struct rt_training *training, struct rt_error *err) {
    const size_t nodes = training->learner.nodes;
    rt_status status = rt_alloc(nodes, sizeof *training->reports, "the reports", &training->reports, err);
    if (status == RT_OK)
        status = rt_alloc(nodes, sizeof *training->before, "the reports", &training->before, err);
    if (status == RT_OK && !training->choice.strategy->alone)
        status = rt_alloc(nodes, sizeof *training->run->views, "the reports", &training->run->views, err);
    return status;
}

/* A node that had no part in a validation waited for its end, and cannot know it. */
static void nodes_set_validation_apart(const struct rt_training *training, struct rt_metrics_row *row) {
    const double apart = rt_states_take_waiting(row->state, training->state.validation_seconds -
                                                                training->validated_before - row->validation);
    row->seconds -= apart;
    row->validation += apart;
}

/* Keeping the cores awake is the master's process's work, but not its device's. */
static void nodes_subtract_awake(const struct rt_training *training, struct rt_metrics_row *master) {
    master->cpu_seconds = fmax(0, master->cpu_seconds - rt_keep_awake_seconds(training->awake));
}

rt_status rt_training_watch(struct rt_training *training, bool last, struct rt_error *err) {
    const bool several = !training->choice.strategy->alone;
    bool fresh = false;
    /* The views of the whole run are the last: what a device does while files are written is not training. */
    const bool over = training->reports && !training->before;
    if (over || (!several && !last))
        return RT_OK;
    rt_status status = training->reports ? RT_OK : nodes_take_memory(training, err);
    if (status == RT_OK)
        status = training->learner.report(training->learner.self, !last, training->reports, &fresh, err);
    if (status == RT_OK && fresh)
        nodes_subtract_awake(training, &training->reports[0].row);
    for (size_t i = 0; status == RT_OK && fresh && i < training->learner.nodes; i++)
        nodes_set_validation_apart(training, &training->reports[i].row);
    if (status != RT_OK || !fresh || !several)
        return status;
    for (size_t i = 0; i < training->learner.nodes; i++) {
        static const struct rt_metrics_row nothing;
        struct rt_node_view view =
            nodes_view_of(&training->reports[i], last ? &nothing : &training->before[i]);
        if (!isfinite(view.idle_fraction))
            continue;
        training->run->views[i] = view;
        training->before[i] = training->reports[i].row;
        nodes_journal_node(training, i, &view);
        training->run->view_count = training->learner.nodes;
    }
    if (last) {
        free(training->before);
        training->before = NULL;
    }
    return RT_OK;
}

rt_status rt_training_watch_end(struct rt_training *training, struct rt_error *err) {
    const size_t nodes = training->learner.nodes;
    struct rt_node_report *reports;
    bool fresh;
    rt_status status = rt_alloc(nodes, sizeof *reports, "the reports", &reports, err);
    if (status != RT_OK)
        return status;
    status = training->learner.report(training->learner.self, false, reports, &fresh, err);
    for (size_t i = 0; status == RT_OK && i < nodes; i++) {
        training->reports[i].row.peak_memory = reports[i].row.peak_memory;
        if (training->run->views)
            training->run->views[i].peak_memory = reports[i].row.peak_memory;
    }
    free(reports);
    return status;
}
