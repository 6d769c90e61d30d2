/* What follows from the question and a size of micro-batch: times, links, bytes at each cut. */
#include "base/memory.h"
#include "plan/planner.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A model of more layers than this has only about so many cut points, or several for each device, with equal
 * work between them: the time to find a cut grows with the square of their number. */
enum { MOST_PLACES = 256, PLACES_PER_DEVICE = 4 };

/* The loss of one number where it was not measured: an exponential and a handful of other operations. */
#define LOSS_SECONDS 8e-9

size_t rt_plan_least(const struct rt_model *model) {
    size_t first = 0;
    while (first < model->count && model->layers[first]->param_count == 0)
        first++;
    return first + 1;
}

/* The time of an operation on `rows` rows: a line through the two measurements, never falling and never below
 * zero. */
static double problem_fit_time(const struct rt_plan_question *q, double rows, double time, double more) {
    if (!q->more_rows)
        return time * rows / (double)q->rows;
    const double slope = (more - time) / ((double)q->more_rows - (double)q->rows);
    const double start = time - slope * (double)q->rows;
    if (slope < 0)
        return (time + more) / 2;
    return start < 0 ? more * rows / (double)q->more_rows : start + slope * rows;
}

static void problem_fill_times(struct rt_planner *planner) {
    const struct rt_plan_question *q = planner->question;
    for (size_t d = 0; d < planner->devices; d++)
        for (size_t i = 0; i < planner->layers; i++) {
            const struct rt_layer_times *a = &q->devices[d].layers[i];
            const struct rt_layer_times *b = q->more_rows ? &q->devices[d].more_layers[i] : a;
            const bool back = !q->job->evaluate_only;
            planner->times[d * planner->layers + i] = (struct rt_layer_times){
                .forward = problem_fit_time(q, planner->rows, a->forward, b->forward),
                .input = back ? problem_fit_time(q, planner->rows, a->input, b->input) : 0,
                .weights = back ? problem_fit_time(q, planner->rows, a->weights, b->weights) : 0,
                .update = back ? (a->update + b->update) / 2 : 0,
            };
        }
}

/* Seconds of a layer per update. */
static double problem_layer_work(const struct rt_planner *planner, size_t device, size_t layer) {
    const struct rt_layer_times *t = &planner->times[device * planner->layers + layer];
    return (double)planner->micros * (t->forward + t->input + t->weights) + t->update;
}

/* An activation that the layer before would have applied inside its product: here it is a separate pass,
 * about as long as its backward. */
double rt_planner_start(const struct rt_planner *planner, size_t device, size_t layer) {
    if (layer >= planner->layers || !planner->question->model->layers[layer]->absorbed)
        return 0;
    return planner->times[device * planner->layers + layer].input;
}

static const struct rt_shape *problem_shape(const struct rt_planner *planner, size_t cut) {
    const struct rt_model *model = planner->question->model;
    return cut < planner->layers ? &model->layers[cut]->in : &model->out;
}

/* Activations or gradients, and the indices of their examples. */
double rt_planner_message(const struct rt_planner *planner, size_t cut) {
    return sizeof(float) * (double)rt_job_micro_rows(&planner->job) *
           ((double)rt_shape_size(problem_shape(planner, cut)) + 1);
}

static void problem_fill_work(struct rt_planner *planner) {
    for (size_t d = 0; d < planner->devices; d++) {
        double *work = planner->work + d * (planner->chain + 1);
        double *start = planner->start + d * (planner->chain + 1);
        const size_t as = planner->question->even ? 0 : d;
        for (size_t i = 0; i < planner->chain; i++) {
            start[i] = (double)planner->micros * rt_planner_start(planner, as, i);
            work[i + 1] = work[i] + problem_layer_work(planner, as, i);
        }
    }
    const struct rt_model *model = planner->question->model;
    const double guess = LOSS_SECONDS * (double)rt_shape_size(&model->out);
    const double loss = planner->question->master_loss;
    planner->inputs = planner->rows * planner->question->master_inputs;
    planner->loss = planner->rows * (loss > 0 ? loss : guess);
    planner->extra = (double)planner->micros * (planner->inputs + planner->loss);
    for (size_t i = planner->chain; i < planner->layers; i++) {
        planner->extra += problem_layer_work(planner, 0, i);
        planner->loss += planner->times[i].forward + planner->times[i].input;
    }
    const double batch = planner->rows * (double)planner->micros;
    for (size_t cut = 0; cut <= planner->chain; cut++) {
        planner->bytes[cut] = sizeof(float) * batch * (double)rt_shape_size(problem_shape(planner, cut));
    }
}

/* Links between neighbours were measured. When devices between them are left out, two others become
 * neighbours: each is then assumed to be as good as the better of its own links, as with a switch between
 * them, and the link as good as the worse of the two. */
static void problem_fill_links(struct rt_planner *planner) {
    const struct rt_plan_device *device = planner->question->devices;
    const size_t n = planner->devices;
    double *wait = planner->port + n;
    for (size_t d = 0; d < n; d++) {
        const size_t before = (d + n - 1) % n;
        const double here = device[d].bandwidth > 0 ? 1 / device[d].bandwidth : 0;
        const double there = device[before].bandwidth > 0 ? 1 / device[before].bandwidth : 0;
        planner->port[d] = here < there ? here : there;
        wait[d] = device[d].latency < device[before].latency ? device[d].latency : device[before].latency;
    }
    for (size_t a = 0; a < n; a++)
        for (size_t b = 0; b < n; b++) {
            planner->link[a * n + b] = planner->port[planner->port[a] > planner->port[b] ? a : b];
            planner->latency[a * n + b] = wait[wait[a] > wait[b] ? a : b];
        }
    for (size_t d = 0; d < n; d++) {
        const size_t next = (d + 1) % n;
        const double seconds = device[d].bandwidth > 0 ? 1 / device[d].bandwidth : 0;
        planner->link[d * n + next] = seconds;
        planner->latency[d * n + next] = device[d].latency;
        if (n > 2) {
            planner->link[next * n + d] = seconds;
            planner->latency[next * n + d] = device[d].latency;
        }
    }
}

static void problem_cut_links(struct rt_planner *planner) {
    const struct rt_plan_device *device = planner->question->devices;
    for (size_t a = 0; a < planner->devices; a++)
        for (size_t b = 0; b < planner->devices; b++)
            if (a != b && device[a].hidden && device[b].hidden)
                planner->link[a * planner->devices + b] = INFINITY;
}

static rt_status problem_take_numbers(struct rt_planner *planner, struct rt_error *err) {
    const size_t n = planner->devices, layers = planner->layers, cuts = planner->chain + 1;
    const size_t each = sizeof(struct rt_layer_times) / sizeof(double);
    /* RT_MAX_NODES and RT_MAX_LAYERS keep these sums far from overflow. */
    const size_t count = n * layers * each + 2 * n * cuts + cuts + 2 * n * n + 2 * n;
    rt_status status = rt_alloc(count, sizeof *planner->numbers, "the planner", &planner->numbers, err);
    if (status == RT_OK)
        status = rt_alloc(layers + 1, sizeof *planner->alone, "the planner", &planner->alone, err);
    if (status == RT_OK)
        status = rt_alloc(layers, sizeof *planner->runs, "the planner", &planner->runs, err);
    if (status != RT_OK)
        return status;
    double *next = planner->numbers;
    planner->times = (struct rt_layer_times *)next, next += n * layers * each;
    planner->work = next, next += n * cuts;
    planner->start = next, next += n * cuts;
    planner->bytes = next, next += cuts;
    planner->link = next, next += n * n;
    planner->latency = next, next += n * n;
    planner->port = next;
    return RT_OK;
}

static bool problem_can_pass(const struct rt_planner *planner, size_t cut) {
    return rt_planner_message(planner, cut) <= RT_MAX_TENSOR_BYTES;
}

/* The cut points, after the work is known. The output passes the last cut: it returns to the master, or goes
 * to its tail. */
static rt_status problem_choose_points(struct rt_planner *planner, struct rt_error *err) {
    const size_t each = PLACES_PER_DEVICE * planner->devices, chain = planner->chain;
    const size_t most = each > MOST_PLACES ? each : MOST_PLACES;
    size_t open = 0;
    for (size_t i = planner->least; i < chain; i++)
        open += problem_can_pass(planner, i);
    planner->many = chain > most;
    planner->too_large = planner->least < chain && (open == 0 || !problem_can_pass(planner, chain));
    if (!planner->many && planner->least + open >= chain && !planner->too_large)
        return RT_OK;
    rt_status status = rt_alloc(chain + 2, sizeof *planner->points, "the planner", &planner->points, err);
    if (status != RT_OK)
        return status;
    const double *work = planner->work, first = work[planner->least < chain ? planner->least : chain];
    for (size_t i = planner->least; i < chain; i++) {
        const double done = work[i] - first, all = work[chain] - first;
        const double share = planner->many ? (double)planner->point_count / (double)most : 0;
        /* If layers take no time at all, their number counts. */
        const double part = all > 0 ? done / all : (double)(i - planner->least) / (double)chain;
        if (problem_can_pass(planner, i) && part >= share)
            planner->points[planner->point_count++] = i;
    }
    if (problem_can_pass(planner, chain))
        planner->points[planner->point_count++] = chain;
    return RT_OK;
}

rt_status rt_planner_init(const struct rt_plan_question *question, size_t micro_batch,
                          struct rt_planner *planner, struct rt_error *err) {
    *planner = (struct rt_planner){
        .question = question,
        .job = *question->job,
        .layers = question->model->count,
        .chain = question->model->count - question->master_tail,
        .least = rt_plan_least(question->model),
        .devices = question->count,
        .flow = question->job->ring.mode == RT_RING_FLOW,
        .least_slots = 1,
        .margin = 1,
    };
    planner->job.micro_batch = (int64_t)micro_batch;
    planner->micros = rt_job_micros(&planner->job, (size_t)planner->job.batch);
    planner->rows = (double)planner->job.batch / (double)planner->micros;
    rt_status status = problem_take_numbers(planner, err);
    if (status != RT_OK) {
        rt_planner_deinit(planner);
        return status;
    }
    problem_fill_times(planner);
    problem_fill_work(planner);
    problem_fill_links(planner);
    problem_cut_links(planner);
    status = problem_choose_points(planner, err);
    if (status != RT_OK)
        rt_planner_deinit(planner);
    return status;
}

void rt_planner_deinit(struct rt_planner *planner) {
    for (size_t i = 0; planner->runs && i < planner->layers; i++)
        free(planner->runs[i]);
    free(planner->runs);
    free(planner->alone);
    free(planner->numbers);
    free(planner->points);
    *planner = (struct rt_planner){0};
}
