/*
 * A bound on value: a gradient is held while it would take the parameters further than delta from those that
 * another worker computes with. delta is given, or `factor` times the usual stride of an update.
 *
 * Other workers get newer parameters when they push, so a gradient is usually not held for long. But no other
 * worker may be able to push: each has the newest parameters already, or computes with none (it rests, has
 * yet to begin or to ask again, or has a gradient that is held as well). Then the gradient is applied
 * regardless, and counted.
 */
#include "exchange/server/rules.h"

/* Part of the newest stride in the average. */
static const double freshness = 0.1;

struct memory {
    bool known;
    double stride;
};

static bool vap_nobody_moves(const struct rt_server_view *view, size_t worker) {
    for (size_t i = 0; i < view->workers; i++) {
        const struct rt_worker_state *other = &view->state[i];
        if (i != worker && other->given && other->version != view->version)
            return false;
    }
    return true;
}

static enum rt_verdict vap_judge(struct rt_server_view *view, const struct rt_push *push) {
    struct memory *memory = view->memory;
    const bool adaptive = view->options->delta == 0;
    const double stride = adaptive ? rt_server_stride(view->server, push) : 0;
    const double usual = memory->known ? memory->stride : stride;
    const double bound = adaptive ? view->options->factor * usual : view->options->delta;
    /* Written so that a distance which is not a number is not within the bound. */
    if (!(bound > 1e300) && !(rt_server_distance(view->server, push) < bound)) {
        if (!vap_nobody_moves(view, push->worker))
            return RT_VERDICT_HOLD;
        view->forced = true;
    }
    memory->stride = memory->known ? usual + freshness * (stride - usual) : stride;
    memory->known = true;
    return RT_VERDICT_APPLY;
}

const struct rt_rules rt_rules_vap = {
    .asynchronous = true, .memory_bytes = sizeof(struct memory), .judge = vap_judge, .keeps_versions = true};
