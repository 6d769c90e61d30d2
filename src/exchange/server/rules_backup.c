/*
 * Rounds: all workers share a batch; the first gradients of the newest version are gathered, and when there
 * are enough they become one update. What was made with older parameters is dropped. A worker whose gradient
 * is in the round reads after the update.
 */
#include "exchange/server/rules.h"

size_t rt_rules_quorum(const struct rt_exchange_options *options, size_t workers) {
    size_t enough;
    if (options->quorum > 0 && options->quorum < 1) {
        /* A little less, so that 0.55 of 20 is 11 although the product is rounded upwards. */
        const double part = options->quorum * (double)workers - 1e-9;
        enough = (size_t)part;
        enough += (double)enough < part;
    } else {
        const size_t spare = options->backups >= 0 ? (size_t)options->backups : (workers + 19) / 20;
        enough = spare < workers ? workers - spare : 1;
    }
    return enough > 0 ? enough : 1;
}

/* Batch b makes update b: a worker that is behind may have fresh parameters for a batch that is over, and one
 * that has gone ahead older ones for a batch whose round has not begun. */
static enum rt_verdict backup_judge(struct rt_server_view *view, const struct rt_push *push) {
    return push->base == view->version && push->batch == view->version + 1 ? RT_VERDICT_GATHER
                                                                           : RT_VERDICT_DROP;
}

/* Of a small batch some have no examples, and are done first: an update needs some. */
static bool backup_complete(struct rt_server_view *view) {
    return view->gathered == view->workers ||
           (view->rows > 0 && view->gathered >= rt_rules_quorum(view->options, view->workers));
}

/* Between rings one may have a batch here whose round has begun elsewhere: it waits for the parameters that
 * the round is made with, or its gradient would be dropped here, and perhaps those of all rings. */
static bool backup_may_read(struct rt_server_view *view, size_t worker) {
    const struct rt_worker_state *reader = &view->state[worker];
    return !reader->gathered && view->version + 1 >= reader->batch;
}

const struct rt_rules rt_rules_backup = {
    .judge = backup_judge, .complete = backup_complete, .may_read = backup_may_read};
