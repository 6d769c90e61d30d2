/* Shares of a batch; see shares.h. */
#include "plan/shares.h"

#include "base/memory.h"
#include <math.h>
#include <stdlib.h>

/* With more slices boundaries are not looked for: a slice is little then. */
enum { MOST_SLICES = 512 };
/* How much longer than the shortest time for computing is tried, in so many steps. */
enum { STEPS = 8 };
static const double longest = 1.4;

/* The cheapest runs of the workers so far, by the slices that they have together. */
struct ways {
    const struct rt_shares_question *question;
    uint32_t *least, *most; /* [workers] slices that each may have */
    double *cost;           /* [workers + 1][slices + 1] */
    uint32_t *count;        /* [workers][slices + 1] of the last worker's run */
};

static double shares_slice(const struct rt_shares_question *question, size_t worker) {
    return question->equal ? 1 : question->slice[worker];
}

/* That an update takes a worker with so many slices. */
static double shares_worker(const struct rt_shares_question *question, size_t worker, uint32_t count) {
    const double fixed = question->fixed && !question->equal ? question->fixed[worker] : 0;
    return fixed + count * shares_slice(question, worker);
}

double rt_shares_seconds(const struct rt_shares_question *question, const struct rt_slice_run *runs) {
    double longest_run = 0, more = 0;
    for (size_t i = 0; i < question->workers; i++) {
        const double seconds = shares_worker(question, i, runs[i].count);
        const size_t pieces = rt_slices_count_pieces(runs[i]);
        longest_run = seconds > longest_run ? seconds : longest_run;
        more += pieces > 1 ? (double)(pieces - 1) : 0;
    }
    return longest_run + more * question->piece;
}

static void shares_lay_out(struct rt_slice_run *runs, size_t workers) {
    for (size_t i = 0; i < workers; i++)
        runs[i].first = i ? runs[i - 1].first + runs[i - 1].count : 0;
}

/* Each slice to the worker that is done with it first. */
static void shares_deal(const struct rt_shares_question *question, struct rt_slice_run *runs) {
    for (size_t i = 0; i < question->workers; i++)
        runs[i] = (struct rt_slice_run){0, 0};
    for (uint32_t slice = 0; slice < question->slices; slice++) {
        size_t first = 0;
        for (size_t i = 1; i < question->workers; i++)
            if (shares_worker(question, i, runs[i].count + 1) <
                shares_worker(question, first, runs[first].count + 1))
                first = i;
        runs[first].count++;
    }
    shares_lay_out(runs, question->workers);
}

/* What the run adds to the cost; of equal ones those of more equal times. */
static double shares_cost(const struct ways *ways, size_t worker, struct rt_slice_run run, double seconds) {
    const double part = shares_worker(ways->question, worker, run.count) / seconds;
    const size_t pieces = rt_slices_count_pieces(run);
    return (double)(pieces > 1 ? pieces : 1) + 1e-4 * part * part;
}

/* The runs with the fewest pieces in which no worker computes for longer than so many seconds. */
static bool shares_align(struct ways *ways, double seconds, struct rt_slice_run *runs) {
    const struct rt_shares_question *question = ways->question;
    const uint32_t slices = question->slices;
    const size_t row = (size_t)slices + 1, workers = question->workers;
    for (size_t at = 0; at < row * (workers + 1); at++)
        ways->cost[at] = (double)INFINITY;
    ways->cost[0] = 0;
    for (size_t i = 0; i < workers; i++)
        for (uint32_t before = 0; before <= slices; before++) {
            const double so_far = ways->cost[i * row + before];
            for (uint32_t count = ways->least[i];
                 so_far < (double)INFINITY && count <= ways->most[i] && before + count <= slices; count++) {
                const size_t to = before + count;
                const double cost =
                    so_far + shares_cost(ways, i, (struct rt_slice_run){before, count}, seconds);
                if (cost >= ways->cost[(i + 1) * row + to])
                    continue;
                ways->cost[(i + 1) * row + to] = cost;
                ways->count[i * row + to] = count;
            }
        }
    if (!(ways->cost[workers * row + slices] < (double)INFINITY))
        return false;
    uint32_t end = slices;
    for (size_t i = workers; i-- > 0; end = runs[i].first) {
        runs[i].count = ways->count[i * row + end];
        runs[i].first = end - runs[i].count;
    }
    return true;
}

static void shares_bound(struct ways *ways, double seconds) {
    const struct rt_shares_question *question = ways->question;
    const uint32_t slices = question->slices, workers = (uint32_t)question->workers;
    for (size_t i = 0; i < question->workers; i++) {
        const double left = seconds * (1 + 1e-9) - shares_worker(question, i, 0);
        const double most = left > 0 ? left / shares_slice(question, i) : 0;
        ways->least[i] = question->equal ? slices / workers : 0;
        ways->most[i] = most < slices ? (uint32_t)most : slices;
    }
}

static void shares_search(struct ways *ways, struct rt_slice_run *best, struct rt_slice_run *trial) {
    const struct rt_shares_question *question = ways->question;
    double shortest = 0;
    for (size_t i = 0; i < question->workers; i++) {
        const double seconds = shares_worker(question, i, best[i].count);
        if (seconds > shortest) /* fmax here crashes gcc 12 for ARM */
            shortest = seconds;
    }
    for (int step = 0; step <= (question->equal ? 0 : STEPS); step++) {
        const double seconds = shortest * (1 + (longest - 1) * step / STEPS);
        shares_bound(ways, seconds);
        if (!shares_align(ways, seconds, trial) ||
            rt_shares_seconds(question, trial) >
                rt_shares_seconds(question, best) * (step > 0 ? 1 - 1e-9 : 1))
            continue;
        for (size_t i = 0; i < question->workers; i++)
            best[i] = trial[i];
    }
}

rt_status rt_shares_choose(const struct rt_shares_question *question, struct rt_slice_run *runs,
                           struct rt_error *err) {
    const size_t workers = question->workers, row = (size_t)question->slices + 1;
    struct ways ways = {.question = question};
    struct rt_slice_run *trial = NULL;
    shares_deal(question, runs);
    if (question->slices > MOST_SLICES)
        return RT_OK;
    rt_status status = rt_alloc(workers, sizeof *ways.least, "the workers' shares", &ways.least, err);
    if (status == RT_OK)
        status = rt_alloc(workers, sizeof *ways.most, "the workers' shares", &ways.most, err);
    if (status == RT_OK)
        status = rt_alloc((workers + 1) * row, sizeof *ways.cost, "the workers' shares", &ways.cost, err);
    if (status == RT_OK)
        status = rt_alloc(workers * row, sizeof *ways.count, "the workers' shares", &ways.count, err);
    if (status == RT_OK)
        status = rt_alloc(workers, sizeof *trial, "the workers' shares", &trial, err);
    if (status == RT_OK)
        shares_search(&ways, runs, trial);
    free(ways.least);
    free(ways.most);
    free(ways.cost);
    free(ways.count);
    free(trial);
    return status;
}
