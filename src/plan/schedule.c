/*
 * Everything in the ring happens in the order of the micro-batches, so counters describe nearly the whole
 * state: how many forwards a node has begun and done, how many gradients it has sent. What remains are the
 * times at which messages and free slots reach a node; there are never more of them in flight than the
 * node has slots.
 *
 * At each moment all operations that end are processed first, at all nodes, with their messages; only then
 * do the nodes choose what to do next. So the order of the nodes changes nothing.
 */
#include "plan/schedule.h"

#include "base/memory.h"
#include <math.h>
#include <stdlib.h>

enum kind { IDLE, LOSS, BACKWARD, FORWARD, WEIGHTS, UPDATE };

struct node {
    enum kind doing;
    double until;
    size_t forward, input, weights; /* begun */
    size_t forward_done, input_done, weights_done;
    size_t updates; /* done */
    size_t sent_forward, sent_backward;
    double port_free;
    double update_from;       /* when the update may start; INFINITY: its gradients are not complete */
    size_t slots, mask;       /* mask: the power of two from slots on, less one: moments lie in rings */
    size_t inputs, gradients; /* messages on their way to this node or there, from the start */
    double *input_at, *gradient_at,
        *slot_at; /* [mask + 1]: when they arrive; when the sender knows of a slot */
    bool queued, seen;
};

struct simulation {
    const struct rt_schedule_settings *set;
    struct node *nodes;
    size_t count, total; /* micro-batches of all updates */
    double now;
    /* node 0: the loss */
    size_t outputs, losses, losses_done, sent_losses;
    double *output_at; /* [mask of node 0 + 1] */
    size_t complete;   /* nodes whose gradients of the update are complete, for clipping */
    double *complete_at;
    /* The next moment of each node, as a tree of minima; leaves from `leaves` on. */
    double *tree;
    size_t leaves;
    size_t *queue, head, queued; /* a ring: nodes where something happens now */
    size_t *seen;                /* nodes that will choose what to do */
    double *moments;             /* [updates]: when node 0 had done them */
    double *busy;
};

/* ---- which node is next ---- */

static void schedule_set_next(struct simulation *sim, size_t k, double when) {
    size_t i = sim->leaves + k;
    sim->tree[i] = when;
    for (i /= 2; i > 0; i /= 2)
        sim->tree[i] = sim->tree[2 * i] < sim->tree[2 * i + 1] ? sim->tree[2 * i] : sim->tree[2 * i + 1];
}

static size_t schedule_first_node(const struct simulation *sim) {
    size_t i = 1;
    while (i < sim->leaves)
        i = sim->tree[2 * i] <= sim->tree[2 * i + 1] ? 2 * i : 2 * i + 1;
    return i - sim->leaves;
}

/* Node k has something to do, now or later. */
static void schedule_wake(struct simulation *sim, size_t k, double when) {
    struct node *node = &sim->nodes[k];
    if (when > sim->now) {
        if (when < sim->tree[sim->leaves + k])
            schedule_set_next(sim, k, when);
    } else if (!node->queued) {
        node->queued = true;
        sim->queue[(sim->head + sim->queued++) & (sim->leaves - 1)] = k;
    }
}

/* ---- messages ---- */

static double schedule_leave(struct simulation *sim, struct node *node, double hop) {
    node->port_free = sim->now + hop;
    return node->port_free;
}

/* Sends the gradient that has waited longest. */
static bool schedule_send_gradient(struct simulation *sim, size_t k) {
    struct node *node = &sim->nodes[k];
    const size_t last = sim->count - 1, to = k ? k - 1 : last;
    size_t *sent = k ? &node->sent_backward : &sim->sent_losses;
    const size_t done = k ? node->input_done : sim->losses_done;
    if (sim->count == 1 || *sent == done)
        return false;
    const struct rt_schedule_node *link = &sim->set->nodes[to];
    struct node *receiver = &sim->nodes[to];
    double arrives = schedule_leave(sim, node, link->hop_backward) + link->latency;
    (*sent)++;
    receiver->gradient_at[receiver->gradients++ & receiver->mask] = arrives;
    if (receiver->doing == IDLE) /* one that works looks for itself when it is done */
        schedule_wake(sim, to, arrives);
    return true;
}

/* When the next node has a slot for this node's next output; INFINITY: not known yet. */
static double schedule_slot_known(const struct simulation *sim, size_t k) {
    const struct node *receiver = &sim->nodes[k + 1];
    const size_t micro = sim->nodes[k].sent_forward;
    if (micro < receiver->slots)
        return 0;
    return receiver->weights_done > micro - receiver->slots
               ? receiver->slot_at[(micro - receiver->slots) & receiver->mask]
               : INFINITY;
}

static bool schedule_send_activations(struct simulation *sim, size_t k) {
    struct node *node = &sim->nodes[k];
    const bool closing = k + 1 == sim->count;
    if (sim->count == 1 || node->sent_forward == node->forward_done ||
        (!closing && schedule_slot_known(sim, k) > sim->now))
        return false;
    const struct rt_schedule_node *link = &sim->set->nodes[k];
    double arrives = schedule_leave(sim, node, link->hop_forward) + link->latency;
    node->sent_forward++;
    struct node *receiver = &sim->nodes[closing ? 0 : k + 1];
    if (closing)
        sim->output_at[sim->outputs++ & receiver->mask] = arrives;
    else
        receiver->input_at[receiver->inputs++ & receiver->mask] = arrives;
    if (receiver->doing == IDLE)
        schedule_wake(sim, closing ? 0 : k + 1, arrives);
    return true;
}

static void schedule_use_port(struct simulation *sim, size_t k) {
    while (sim->nodes[k].port_free <= sim->now &&
           (schedule_send_gradient(sim, k) || schedule_send_activations(sim, k)))
        ;
}

/* ---- what ends ---- */

static void schedule_finish_update(struct simulation *sim, size_t k) {
    struct node *node = &sim->nodes[k];
    node->update_from = INFINITY;
    node->updates++;
    const size_t each = sim->set->flow ? sim->set->micros : 1;
    if (k == 0 && node->updates % each == 0)
        sim->moments[node->updates / each - 1] = sim->now;
}

/* The last node has its gradients: the sum of squares has gone round to the master, as fast as each node
 * could add its own, and the factor follows it. */
static void schedule_send_norm(struct simulation *sim) {
    double at = sim->complete_at[0];
    for (size_t k = 1; k < sim->count; k++) {
        at += sim->set->nodes[k - 1].latency;
        at = sim->complete_at[k] > at ? sim->complete_at[k] : at;
    }
    if (sim->count > 1)
        at += sim->set->nodes[sim->count - 1].latency;
    for (size_t k = 0; k < sim->count; k++) {
        sim->nodes[k].update_from = at;
        schedule_wake(sim, k, at);
        at += sim->set->nodes[k].latency;
    }
    sim->complete = 0;
}

static void schedule_finish_weights(struct simulation *sim, size_t k) {
    struct node *node = &sim->nodes[k];
    if (k > 0) {
        const double known = sim->now + sim->set->nodes[k - 1].latency;
        node->slot_at[node->weights_done & node->mask] = known;
        if (sim->nodes[k - 1].sent_forward < sim->nodes[k - 1].forward_done)
            schedule_wake(sim, k - 1, known);
    }
    node->weights_done++;
    if (!sim->set->flow && node->weights_done < sim->set->micros * (node->updates + 1))
        return;
    if (!sim->set->clip) {
        node->update_from = sim->now;
        return;
    }
    sim->complete_at[k] = sim->now;
    if (++sim->complete == sim->count)
        schedule_send_norm(sim);
}

static void schedule_finish(struct simulation *sim, size_t k) {
    struct node *node = &sim->nodes[k];
    const enum kind done = node->doing;
    node->doing = IDLE;
    switch (done) {
    case LOSS:
        sim->losses_done++;
        break;
    case FORWARD:
        node->forward_done++;
        break;
    case BACKWARD:
        node->input_done++;
        if (!sim->set->split) {
            node->weights++;
            schedule_finish_weights(sim, k);
        }
        break;
    case WEIGHTS:
        schedule_finish_weights(sim, k);
        break;
    case UPDATE:
        schedule_finish_update(sim, k);
        break;
    case IDLE:
        break;
    }
}

/* ---- what begins ---- */

/* When the next operation of each kind can begin at node k: now or earlier, later, or INFINITY. */
static double schedule_loss_from(const struct simulation *sim, size_t k) {
    if (k > 0)
        return INFINITY;
    if (sim->count == 1)
        return sim->nodes[0].forward_done > sim->losses ? 0 : INFINITY;
    return sim->outputs > sim->losses ? sim->output_at[sim->losses & sim->nodes[0].mask] : INFINITY;
}

static double schedule_backward_from(const struct simulation *sim, size_t k) {
    const struct node *node = &sim->nodes[k];
    if (sim->count == 1)
        return sim->losses_done > node->input ? 0 : INFINITY;
    return node->gradients > node->input ? node->gradient_at[node->input & node->mask] : INFINITY;
}

static double schedule_forward_from(const struct simulation *sim, size_t k) {
    const struct node *node = &sim->nodes[k];
    if (!sim->set->flow && node->forward >= sim->set->micros * (node->updates + 1))
        return INFINITY;
    if (k == 0)
        return node->forward < sim->total && node->forward - node->weights_done < node->slots ? 0 : INFINITY;
    return node->inputs > node->forward ? node->input_at[node->forward & node->mask] : INFINITY;
}

static void schedule_begin(struct simulation *sim, size_t k, enum kind kind, double seconds) {
    sim->nodes[k].doing = kind;
    sim->nodes[k].until = sim->now + seconds;
    sim->busy[k] += seconds;
}

static void schedule_choose(struct simulation *sim, size_t k) {
    struct node *node = &sim->nodes[k];
    const struct rt_schedule_node *times = &sim->set->nodes[k];
    if (node->update_from <= sim->now) {
        schedule_begin(sim, k, UPDATE, times->update);
    } else if (schedule_loss_from(sim, k) <= sim->now) {
        sim->losses++;
        schedule_begin(sim, k, LOSS, sim->set->loss);
    } else if (schedule_backward_from(sim, k) <= sim->now) {
        node->input++;
        schedule_begin(sim, k, BACKWARD, sim->set->split ? times->input : times->input + times->weights);
    } else if (schedule_forward_from(sim, k) <= sim->now) {
        node->forward++;
        schedule_begin(sim, k, FORWARD, times->forward);
    } else if (sim->set->split && node->weights < node->input_done) {
        node->weights++;
        schedule_begin(sim, k, WEIGHTS, times->weights);
    }
}

static double schedule_sooner(const struct simulation *sim, double a, double b) {
    return b > sim->now && b < a ? b : a;
}

static void schedule_find_next(struct simulation *sim, size_t k) {
    const struct node *node = &sim->nodes[k];
    double when = INFINITY;
    if (node->doing != IDLE) {
        when = node->until;
    } else {
        when = schedule_sooner(sim, when, node->update_from);
        when = schedule_sooner(sim, when, schedule_loss_from(sim, k));
        when = schedule_sooner(sim, when, schedule_backward_from(sim, k));
        when = schedule_sooner(sim, when, schedule_forward_from(sim, k));
    }
    const bool gradients = k ? node->sent_backward < node->input_done : sim->sent_losses < sim->losses_done;
    if (sim->count > 1 && (gradients || node->sent_forward < node->forward_done)) {
        when = schedule_sooner(sim, when, node->port_free);
        if (k + 1 < sim->count && node->sent_forward < node->forward_done)
            when = schedule_sooner(sim, when, schedule_slot_known(sim, k));
    }
    schedule_set_next(sim, k, when);
}

/* ---- all of it ---- */

static void schedule_run(struct simulation *sim) {
    for (size_t k = 0; k < sim->leaves; k++)
        schedule_set_next(sim, k, k ? INFINITY : 0);
    while (sim->tree[1] < INFINITY) {
        sim->now = sim->tree[1];
        while (sim->tree[1] <= sim->now) {
            const size_t k = schedule_first_node(sim);
            schedule_set_next(sim, k, INFINITY);
            schedule_wake(sim, k, sim->now);
        }
        size_t seen = 0;
        while (sim->queued > 0) {
            const size_t k = sim->queue[sim->head];
            struct node *node = &sim->nodes[k];
            sim->head = (sim->head + 1) & (sim->leaves - 1);
            sim->queued--;
            node->queued = false;
            if (!node->seen)
                sim->seen[seen++] = k;
            node->seen = true;
            if (node->doing != IDLE && node->until <= sim->now)
                schedule_finish(sim, k);
            schedule_use_port(sim, k);
        }
        for (size_t i = 0; i < seen; i++) {
            const size_t k = sim->seen[i];
            sim->nodes[k].seen = false;
            if (sim->nodes[k].doing == IDLE)
                schedule_choose(sim, k);
            schedule_find_next(sim, k);
        }
    }
}

static rt_status schedule_check(const struct rt_schedule_settings *set, struct rt_error *err) {
    if (set->count == 0 || set->count > RT_MAX_NODES || set->micros == 0 || set->updates == 0 ||
        set->micros > SIZE_MAX / set->updates)
        return rt_fail(err, RT_BAD_INPUT,
                       "a schedule needs 1 to %d nodes, and at least one micro-batch and one update",
                       RT_MAX_NODES);
    bool good = set->loss >= 0 && set->loss < INFINITY;
    for (size_t k = 0; k < set->count; k++) {
        const struct rt_schedule_node *node = &set->nodes[k];
        const double times[] = {node->forward,     node->input,        node->weights, node->update,
                                node->hop_forward, node->hop_backward, node->latency};
        for (size_t i = 0; i < sizeof times / sizeof *times; i++)
            good = good && times[i] >= 0 && times[i] < INFINITY;
        if (node->slots == 0)
            return rt_fail(err, RT_BAD_INPUT, "node %zu of the schedule has no slot for a micro-batch", k);
    }
    return good ? RT_OK : rt_fail(err, RT_BAD_INPUT, "a time of the schedule is negative or not finite");
}

/* One block for all times, handed out in order. */
static rt_status schedule_take_moments(struct simulation *sim, double **memory, struct rt_error *err) {
    const struct rt_schedule_settings *set = sim->set;
    size_t floats = 2 * sim->leaves + set->updates + 2 * sim->count;
    for (size_t k = 0; k < sim->count; k++) {
        struct node *node = &sim->nodes[k];
        node->slots = set->nodes[k].slots < sim->total ? set->nodes[k].slots : sim->total;
        node->update_from = INFINITY;
        while (node->mask + 1 < node->slots)
            node->mask = 2 * node->mask + 1;
        floats += 4 * (node->mask + 1);
    }
    rt_status status = rt_alloc(floats, sizeof **memory, "the simulation of a schedule", memory, err);
    if (status != RT_OK)
        return status;
    double *next = *memory;
    sim->tree = next, next += 2 * sim->leaves;
    sim->moments = next, next += set->updates;
    sim->complete_at = next, next += sim->count;
    sim->busy = next, next += sim->count;
    sim->output_at = next, next += sim->nodes[0].mask + 1;
    for (size_t k = 0; k < sim->count; k++) {
        struct node *node = &sim->nodes[k];
        node->input_at = next, next += node->mask + 1;
        node->gradient_at = next, next += node->mask + 1;
        node->slot_at = next, next += node->mask + 1;
    }
    for (size_t i = 0; i < 2 * sim->leaves; i++)
        sim->tree[i] = INFINITY;
    return RT_OK;
}

rt_status rt_schedule_simulate(const struct rt_schedule_settings *settings, struct rt_schedule_result *result,
                               struct rt_error *err) {
    rt_status status = schedule_check(settings, err);
    if (status != RT_OK)
        return status;
    struct simulation sim = {.set = settings, .count = settings->count, .leaves = 1};
    sim.total = settings->micros * settings->updates;
    while (sim.leaves < sim.count)
        sim.leaves *= 2;
    double *memory = NULL;
    status = rt_alloc(sim.count, sizeof *sim.nodes, "the simulation of a schedule", &sim.nodes, err);
    if (status == RT_OK)
        status = rt_alloc(sim.leaves, 2 * sizeof *sim.queue, "the simulation of a schedule", &sim.queue, err);
    if (status == RT_OK)
        status = schedule_take_moments(&sim, &memory, err);
    if (status == RT_OK) {
        sim.seen = sim.queue + sim.leaves;
        schedule_run(&sim);
        const size_t last = settings->updates - 1, from = last / 4;
        result->seconds = sim.now;
        result->update_seconds =
            last ? (sim.moments[last] - sim.moments[from]) / (double)(last - from) : sim.now;
        for (size_t k = 0; k < sim.count; k++)
            result->busy[k] = sim.busy[k];
    }
    free(memory);
    free(sim.queue);
    free(sim.nodes);
    return status;
}
