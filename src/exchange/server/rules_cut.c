/*
 * The end of an epoch is not waited for: when enough of its batches have been learnt from, it is over, and
 * gradients of it that come later are dropped. Everything else is as in the base.
 *
 * Between rings the servers of other places see the same gradients in another order: one of the next epoch
 * may come before this one has enough here.
 */
#include "exchange/server/rules.h"

struct memory {
    uint64_t epoch, taken; /* gradients of it */
    uint64_t missing;      /* of the epoch before */
};

uint64_t rt_rules_cut_after(const struct rt_exchange_options *options, uint64_t per_epoch) {
    const double part = options->cut * (double)per_epoch - 1e-9;
    if (!(options->cut > 0) || !(part < (double)per_epoch - 0.5))
        return per_epoch;
    const uint64_t whole = part > 0 ? (uint64_t)part : 0;
    return whole + ((double)whole < part);
}

static const struct rt_rules *cut_base(const struct rt_server_view *view) {
    return view->options->base == RT_BASE_SSP ? &rt_rules_ssp : &rt_rules_async;
}

static enum rt_verdict cut_judge(struct rt_server_view *view, const struct rt_push *push) {
    struct memory *memory = view->memory;
    const uint64_t enough = rt_rules_cut_after(view->options, view->per_epoch);
    if (enough == view->per_epoch)
        return cut_base(view)->judge(view, push);
    const uint64_t epoch = (push->batch - 1) / view->per_epoch;
    if (epoch > memory->epoch)
        *memory = (struct memory){.epoch = epoch,
                                  .missing = epoch == memory->epoch + 1 ? enough - memory->taken : 0};
    const bool before = epoch + 1 == memory->epoch && memory->missing > 0;
    if (!before && (epoch < memory->epoch || memory->taken >= enough))
        return RT_VERDICT_DROP;
    const enum rt_verdict verdict = cut_base(view)->judge(view, push);
    const bool counts = verdict == RT_VERDICT_APPLY || verdict == RT_VERDICT_GATHER;
    memory->taken += counts && !before;
    memory->missing -= counts && before;
    return verdict;
}

static void cut_loaded(struct rt_server_view *view, uint64_t gradients) {
    struct memory *memory = view->memory;
    const uint64_t enough = rt_rules_cut_after(view->options, view->per_epoch);
    if (enough > 0)
        *memory = (struct memory){.epoch = gradients / enough, .taken = gradients % enough};
}

static bool cut_complete(struct rt_server_view *view) {
    return cut_base(view)->complete && cut_base(view)->complete(view);
}

static bool cut_may_read(struct rt_server_view *view, size_t worker) {
    return !cut_base(view)->may_read || cut_base(view)->may_read(view, worker);
}

const struct rt_rules rt_rules_cut = {.asynchronous = true,
                                      .memory_bytes = sizeof(struct memory),
                                      .judge = cut_judge,
                                      .complete = cut_complete,
                                      .may_read = cut_may_read,
                                      .loaded = cut_loaded};
