/*
 * A bound on delay: a worker that has pushed t gradients may read when all workers have pushed t - s, so none
 * is more than s ahead of the slowest. A worker at clock t then sees every update of clocks up to t - s - 1
 * and none of clock t + s or later. To keep the second promise, a gradient is held while another worker still
 * has to read at an earlier clock. This happens, for example, at the start of a run.
 *
 * whole_clock: a clock's gradients are gathered and make one update, for optimizers that have a state. A
 * gradient in the round is not applied yet: its worker counts as one behind.
 */
#include "exchange/server/rules.h"

static enum rt_verdict ssp_judge(struct rt_server_view *view, const struct rt_push *push) {
    if (view->options->bound < 0)
        return RT_VERDICT_APPLY;
    if (view->options->whole_clock)
        return RT_VERDICT_GATHER;
    for (size_t i = 0; i < view->workers; i++) {
        const struct rt_worker_state *other = &view->state[i];
        if (i != push->worker && !other->resting && !other->given && !other->waiting &&
            push->clock >= other->clock + (uint64_t)view->options->bound)
            return RT_VERDICT_HOLD;
    }
    return RT_VERDICT_APPLY;
}

static bool ssp_complete(struct rt_server_view *view) {
    for (size_t i = 0; i < view->workers; i++)
        if (!view->state[i].resting && !view->state[i].gathered)
            return false;
    return view->gathered > 0;
}

static bool ssp_may_read(struct rt_server_view *view, size_t worker) {
    const struct rt_worker_state *reader = &view->state[worker];
    const uint64_t bound = (uint64_t)view->options->bound;
    if (view->options->bound < 0 || reader->resting || reader->clock <= bound)
        return true;
    for (size_t i = 0; i < view->workers; i++) {
        const struct rt_worker_state *other = &view->state[i];
        if (!other->resting && other->clock - (other->gathered ? 1 : 0) < reader->clock - bound)
            return false;
    }
    return true;
}

const struct rt_rules rt_rules_ssp = {
    .asynchronous = true, .judge = ssp_judge, .complete = ssp_complete, .may_read = ssp_may_read};
