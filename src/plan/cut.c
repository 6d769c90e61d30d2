/*
 * The state is (device d, layers j): d is the last device used so far and everything before layer j is
 * placed. From there the next device used takes layers j..e. The cost of a step depends on the devices at
 * both ends of the link and on the layers at its cut, never on how the state was reached, so only the best
 * way to each state need be kept. O(points^2 devices + points devices^2) steps.
 *
 * The programme runs twice: first for the smallest possible time of the busiest part, then, with that time
 * as a limit, for the smallest sum of squares of the devices' times.
 */
#include "plan/cut.h"

#include "base/memory.h"
#include <math.h>
#include <stdlib.h>

struct solver {
    const struct rt_cut_problem *p;
    double limit;  /* INFINITY in the first round: then a value is the largest so far, later a sum */
    double *value; /* [devices][layers + 1]: the best way to each state */
    size_t *from_device, *from_layer;
    double *enter; /* [devices]: the best way to begin a run at this layer on each device */
    size_t *enter_from;
};

static double cut_run_seconds(const struct rt_cut_problem *p, size_t device, size_t first, size_t end) {
    const double *work = p->work + device * (p->layers + 1);
    const double start = p->start ? p->start[device * (p->layers + 1) + first] : 0;
    return work[end] - work[first] + start;
}

static double cut_max(double a, double b) {
    return a > b ? a : b;
}

/* A link between two devices: the slower of its directions. */
static double cut_link_seconds(const struct rt_cut_problem *p, size_t a, size_t b, size_t cut) {
    const double there = p->link[a * p->devices + b], back = p->link[b * p->devices + a];
    return p->messages + p->bytes[cut] * (p->backward ? cut_max(there, back) : there);
}

/* What a device sends: activations at the end of its run, gradients at its start. */
static double cut_port_seconds(const struct rt_cut_problem *p, size_t device, size_t first, size_t end) {
    const double activations = p->messages + p->bytes[end] * p->port[device];
    const size_t below = device == 0 ? p->layers : first; /* the master sends the gradient of the loss */
    return p->backward ? activations + p->messages + p->bytes[below] * p->port[device] : activations;
}

static double cut_node_seconds(const struct rt_cut_problem *p, size_t device, size_t first, size_t end) {
    return cut_run_seconds(p, device, first, end) + (device == 0 ? p->extra : 0);
}

double rt_cut_slowest(const struct rt_cut_problem *p, const struct rt_cut *cut) {
    if (cut->nodes == 1)
        return cut_node_seconds(p, 0, 0, cut->end[0]);
    double slowest = 0;
    for (size_t k = 0; k < cut->nodes; k++) {
        const size_t first = k ? cut->end[k - 1] : 0, next = k + 1 < cut->nodes ? cut->device[k + 1] : 0;
        slowest = cut_max(slowest, cut_node_seconds(p, cut->device[k], first, cut->end[k]));
        slowest = cut_max(slowest, cut_port_seconds(p, cut->device[k], first, cut->end[k]));
        slowest = cut_max(slowest, cut_link_seconds(p, cut->device[k], next, cut->end[k]));
    }
    return slowest;
}

/* A value with one more part added: seconds of work; port and link only bound it. */
static double cut_join(const struct solver *s, double value, double work, double other) {
    if (isinf(s->limit))
        return cut_max(value, cut_max(work, other));
    return work > s->limit || other > s->limit ? INFINITY : value + work * work;
}

/* Tries the run first..end on device d, reached with `value` from the state (from, first). *fits: false when
 * the device lacks the memory for it. */
static rt_status cut_try_run(struct solver *s, size_t d, size_t first, size_t end, double value, size_t from,
                             bool *fits, struct rt_error *err) {
    const struct rt_cut_problem *p = s->p;
    const size_t at = d * (p->layers + 1) + end;
    const double reached =
        cut_join(s, value, cut_node_seconds(p, d, first, end), cut_port_seconds(p, d, first, end));
    if (reached >= s->value[at])
        return RT_OK;
    rt_status status = p->fits ? p->fits(p->user, d, first, end, false, fits, err) : RT_OK;
    if (status == RT_OK && *fits) {
        s->value[at] = reached;
        s->from_device[at] = from;
        s->from_layer[at] = first;
    }
    return status;
}

/* For each device the best device before it, if its run begins at layer first. */
static void cut_enter_devices(struct solver *s, size_t first) {
    const struct rt_cut_problem *p = s->p;
    for (size_t d = 1; d < p->devices; d++) {
        s->enter[d] = INFINITY;
        if (p->use[d] == RT_CUT_OUT)
            continue;
        for (size_t before = d; before-- > 0;) {
            const double value = s->value[before * (p->layers + 1) + first];
            const double link = isinf(value) ? 0 : cut_link_seconds(p, before, d, first);
            const double reached = isinf(value) ? INFINITY : cut_join(s, value, 0, link);
            if (reached < s->enter[d]) {
                s->enter[d] = reached;
                s->enter_from[d] = before;
            }
            if (p->use[before] == RT_CUT_MUST)
                break;
        }
    }
}

/* Layers before point i, from 0 to cut_points(p) - 1. */
static size_t cut_point(const struct rt_cut_problem *p, size_t i) {
    return p->points ? p->points[i] : i + 1;
}

static size_t cut_points(const struct rt_cut_problem *p) {
    return p->points ? p->point_count : p->layers;
}

/* All runs that begin after `first` layers on device d, and end at point `from` or later. */
static rt_status cut_try_runs(struct solver *s, size_t d, size_t first, size_t from, double value,
                              size_t before, struct rt_error *err) {
    const struct rt_cut_problem *p = s->p;
    rt_status status = RT_OK;
    bool fits = !isinf(value);
    for (size_t i = from; status == RT_OK && fits && i < cut_points(p); i++)
        if (d > 0 || (cut_point(p, i) >= p->least && cut_point(p, i) < p->layers))
            status = cut_try_run(s, d, first, cut_point(p, i), value, before, &fits, err);
    return status;
}

static rt_status cut_fill(struct solver *s, struct rt_error *err) {
    const struct rt_cut_problem *p = s->p;
    for (size_t i = 0; i < p->devices * (p->layers + 1); i++)
        s->value[i] = INFINITY;
    rt_status status = cut_try_runs(s, 0, 0, 0, 0, 0, err);
    for (size_t i = 0; status == RT_OK && i + 1 < cut_points(p); i++) {
        const size_t first = cut_point(p, i);
        cut_enter_devices(s, first);
        for (size_t d = 1; status == RT_OK && d < p->devices; d++)
            status = cut_try_runs(s, d, first, i + 1, s->enter[d], s->enter_from[d], err);
    }
    return status;
}

/* The best last device, and the path back from it. Returns INFINITY if there is none. */
static double cut_read(const struct solver *s, struct rt_cut *cut) {
    const struct rt_cut_problem *p = s->p;
    double best = INFINITY;
    size_t last = 0;
    for (size_t d = p->devices; d-- > 1;) {
        const double value = s->value[d * (p->layers + 1) + p->layers];
        const double reached =
            isinf(value) ? INFINITY : cut_join(s, value, 0, cut_link_seconds(p, d, 0, p->layers));
        if (reached < best)
            best = reached, last = d;
        if (p->use[d] == RT_CUT_MUST)
            break;
    }
    if (isinf(best))
        return best;
    size_t nodes = 1;
    for (size_t d = last, end = p->layers; d > 0; nodes++) {
        const size_t at = d * (p->layers + 1) + end;
        d = s->from_device[at], end = s->from_layer[at];
    }
    cut->nodes = nodes;
    for (size_t d = last, end = p->layers; nodes > 0;) {
        const size_t at = d * (p->layers + 1) + end;
        cut->device[--nodes] = d;
        cut->end[nodes] = end;
        d = s->from_device[at], end = s->from_layer[at];
    }
    return best;
}

/* The master alone, if that is allowed and not slower than the limit. */
static rt_status cut_try_alone(const struct rt_cut_problem *p, struct rt_cut *cut, struct rt_error *err) {
    for (size_t d = 1; d < p->devices; d++)
        if (p->use[d] == RT_CUT_MUST)
            return RT_OK;
    const double seconds = cut_node_seconds(p, 0, 0, p->layers);
    bool yes = true;
    if (cut->nodes && seconds >= cut->slowest)
        return RT_OK;
    rt_status status = p->fits ? p->fits(p->user, 0, 0, p->layers, true, &yes, err) : RT_OK;
    if (status == RT_OK && yes) {
        cut->nodes = 1;
        cut->device[0] = 0;
        cut->end[0] = p->layers;
        cut->slowest = seconds;
    }
    return status;
}

rt_status rt_cut_solve(const struct rt_cut_problem *p, struct rt_cut *cut, struct rt_error *err) {
    const size_t states = p->devices * (p->layers + 1);
    struct solver s = {.p = p, .limit = INFINITY};
    rt_status status = rt_alloc(states + p->devices, sizeof *s.value, "the planner", &s.value, err);
    if (status == RT_OK)
        status = rt_alloc(2 * states + p->devices, sizeof *s.from_device, "the planner", &s.from_device, err);
    if (status == RT_OK) {
        s.enter = s.value + states;
        s.from_layer = s.from_device + states;
        s.enter_from = s.from_layer + states;
        cut->nodes = 0;
        status = cut_fill(&s, err);
    }
    if (status == RT_OK) {
        cut->slowest = cut_read(&s, cut);
        if (cut->nodes) {
            s.limit = cut->slowest * (1 + 1e-9); /* room for the last bits */
            status = cut_fill(&s, err);
            if (status == RT_OK)
                cut_read(&s, cut);
            cut->slowest = rt_cut_slowest(p, cut);
        }
    }
    if (status == RT_OK)
        status = cut_try_alone(p, cut, err);
    free(s.value);
    free(s.from_device);
    return status;
}
