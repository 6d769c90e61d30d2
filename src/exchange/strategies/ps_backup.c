/* The synchronous parameter server that does not wait for the slowest workers: an update uses the gradients
 * that arrive first, and late ones are dropped. */
#include "base/sentence.h"
#include "exchange/server/rules.h"
#include "exchange/strategies/strategies.h"

static const struct rt_option options[] = {
    {"backup", RT_OPTION_INT, RT_STRATEGY_AT(backups), "auto", 0, RT_STRATEGY_COUNT_MAX, .auto_word = "auto",
     .help = "workers that an update does not wait for; auto: 5 %, at least 1"},
    {"quorum", RT_OPTION_REAL, RT_STRATEGY_AT(quorum), "1", 0, 1,
     .help = "instead: the part of the workers that suffices; 1: as backup says"},
    RT_STRATEGY_DEDICATED,
    RT_STRATEGY_SYNCHRONOUS_OPTIONS,
};

static rt_status ps_backup_check(const struct rt_exchange_options *given, size_t nodes,
                                 struct rt_error *err) {
    const size_t workers = nodes - (given->dedicated ? 1 : 0);
    if (!(given->quorum > 0))
        return rt_fail(err, RT_BAD_INPUT, "quorum: must be above 0 and at most 1, not %g", given->quorum);
    if (given->quorum < 1 && given->backups >= 0)
        return rt_fail(err, RT_BAD_INPUT, "backup: give backup or quorum, not both");
    if (given->backups > 0 && (size_t)given->backups >= workers)
        return rt_fail(err, RT_BAD_INPUT, "backup: %lld of %s cannot be spare", (long long)given->backups,
                       RT_COUNTED(workers, "worker"));
    return RT_OK;
}

static const struct rt_rules *ps_backup_rules(const struct rt_exchange_options *given) {
    (void)given;
    return &rt_rules_backup;
}

static double ps_backup_delay(const struct rt_exchange_options *given, const struct rt_delay_terms *terms) {
    (void)given;
    return rt_delay_star(terms);
}

const struct rt_exchange_strategy rt_strategy_ps_backup = {
    .name = "ps-backup",
    .help = "ps-sync that does not wait for the slowest workers: their gradients are dropped",
    .place = {"data", "central", "synchronous but for backup workers", "each with the server", "one server"},
    RT_STRATEGY_OPTIONS(options),
    .exact = RT_EXACT_NOT,
    .servers = RT_SERVERS_ONE,
    .can_clip = true,
    .check = ps_backup_check,
    .rules = ps_backup_rules,
    .delay = ps_backup_delay,
};
