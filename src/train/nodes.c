/* The devices of a run while it is under way: their reports become rates for people and lines in the journal.
 */
#include "train/drive.h"

#include "base/memory.h"
#include "cluster/traffic.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static double idle_of(const double seconds[RT_METRIC_STATES]) {
    struct rt_states states = {0};
    memcpy(states.seconds, seconds, sizeof states.seconds);
    return rt_states_idle(&states);
}

static uint64_t bytes_of(const struct rt_metrics_row *row) {
    return rt_traffic_sum(row->sent) + rt_traffic_sum(row->received);
}

/* Rates from one report to a later one. */
static struct rt_node_view view_of(const struct rt_node_report *report, const struct rt_metrics_row *before) {
    const struct rt_metrics_row *row = &report->row;
    const double seconds = row->seconds - before->seconds;
    const bool some = seconds > 0;
    struct rt_node_view view = {
        .role = report->role,
        .first = report->first,
        .count = report->count,
        .tail = report->tail,
        .samples_per_s = some ? (double)(row->samples - before->samples) / seconds : (double)NAN,
        .idle_fraction = some ? (idle_of(row->state) - idle_of(before->state)) / seconds : (double)NAN,
        .bytes_per_s = some ? (double)(bytes_of(row) - bytes_of(before)) / seconds : (double)NAN,
        .queue = row->queue,
        .peak_memory = row->peak_memory,
        .predicted_idle = report->predicted_idle,
        .predicted_memory = report->predicted_memory};
    snprintf(view.name, sizeof view.name, "%s", report->name);
    return view;
}

static void journal_node(struct rt_drive *drive, size_t node, const struct rt_node_view *view) {
    const struct rt_field fields[] = {
        RT_INT("node", node),
        RT_TEXT("name", view->name),
        RT_REAL("samples_per_s", view->samples_per_s),
        RT_REAL("idle_fraction", view->idle_fraction),
        RT_REAL("bytes_per_s", view->bytes_per_s),
        RT_INT("queue", view->queue),
        RT_INT("peak_rss_bytes", view->peak_memory),
    };
    rt_journal_write(drive->journal, "node", fields, sizeof fields / sizeof *fields);
}

static rt_status take_memory(struct rt_drive *drive, struct rt_error *err) {
    const size_t nodes = drive->learner.nodes;
    rt_status status = rt_alloc(nodes, sizeof *drive->reports, "the reports", &drive->reports, err);
    if (status == RT_OK)
        status = rt_alloc(nodes, sizeof *drive->before, "the reports", &drive->before, err);
    if (status == RT_OK && !drive->choice.strategy->alone)
        status = rt_alloc(nodes, sizeof *drive->run->views, "the reports", &drive->run->views, err);
    return status;
}

/* A node that had no part in a validation waited for its end, and cannot know it. */
static void set_validation_apart(const struct rt_drive *drive, struct rt_metrics_row *row) {
    const double apart = rt_states_take_waiting(row->state, drive->standing.validation_seconds -
                                                                drive->validated_before - row->validation);
    row->seconds -= apart;
    row->validation += apart;
}

rt_status rt_drive_watch(struct rt_drive *drive, bool last, struct rt_error *err) {
    const bool several = !drive->choice.strategy->alone;
    bool fresh = false;
    /* The views of the whole run are the last: what a device does while files are written is not training. */
    const bool over = drive->reports && !drive->before;
    if (over || (!several && !last))
        return RT_OK;
    rt_status status = drive->reports ? RT_OK : take_memory(drive, err);
    if (status == RT_OK)
        status = drive->learner.report(drive->learner.self, !last, drive->reports, &fresh, err);
    for (size_t i = 0; status == RT_OK && fresh && i < drive->learner.nodes; i++)
        set_validation_apart(drive, &drive->reports[i].row);
    if (status != RT_OK || !fresh || !several)
        return status;
    for (size_t i = 0; i < drive->learner.nodes; i++) {
        static const struct rt_metrics_row nothing;
        struct rt_node_view view = view_of(&drive->reports[i], last ? &nothing : &drive->before[i]);
        if (!isfinite(view.idle_fraction))
            continue;
        drive->run->views[i] = view;
        drive->before[i] = drive->reports[i].row;
        journal_node(drive, i, &view);
        drive->run->view_count = drive->learner.nodes;
    }
    if (last) {
        free(drive->before);
        drive->before = NULL;
    }
    return RT_OK;
}

rt_status rt_drive_watch_end(struct rt_drive *drive, struct rt_error *err) {
    const size_t nodes = drive->learner.nodes;
    struct rt_node_report *reports;
    bool fresh;
    rt_status status = rt_alloc(nodes, sizeof *reports, "the reports", &reports, err);
    if (status != RT_OK)
        return status;
    status = drive->learner.report(drive->learner.self, false, reports, &fresh, err);
    for (size_t i = 0; status == RT_OK && i < nodes; i++) {
        drive->reports[i].row.peak_memory = reports[i].row.peak_memory;
        if (drive->run->views)
            drive->run->views[i].peak_memory = reports[i].row.peak_memory;
    }
    free(reports);
    return status;
}
