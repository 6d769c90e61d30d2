/*
 * The ranks of the devices of an exchange. Of two devices that nobody can connect to, which have no link with
 * one another, one is left out where the strategy needs that link. Two orders are tried: such devices last,
 * so that they are workers and not servers; and each between others, as a ring needs it.
 */
#include "run/exchange/inside.h"

#include "base/memory.h"
#include <stdlib.h>
#include <string.h>

struct ranks {
    const struct rt_exchange_learner *learner;
    struct rt_exchange_options options;
    size_t *device; /* [who.devices] */
    size_t count;
    uint16_t *worker;
};

/* The place of a device that has to be left out; 0: none has. */
static rt_status ranks_find_unlinked(struct ranks *ranks, size_t *place, struct rt_error *err) {
    const struct rt_exchange_learner *learner = ranks->learner;
    struct rt_roles roles;
    *place = 0;
    RT_TRY(rt_exchange_roles(learner->config.exchange, &ranks->options, ranks->count, ranks->worker, &roles,
                             err));
    for (uint16_t a = 1; a < ranks->count; a++)
        for (uint16_t b = (uint16_t)(a + 1); b < ranks->count; b++) {
            if (rt_membership_can_link(&learner->who, ranks->device[a], ranks->device[b]) ||
                !rt_exchange_links(learner->config.exchange, &ranks->options, &roles, a, b))
                continue;
            const bool last = rt_cluster_member(learner->who.cluster, ranks->device[b] - 1)->hidden;
            *place = last ? b : a;
            return RT_OK;
        }
    return RT_OK;
}

static rt_status ranks_leave_out(struct ranks *ranks, struct rt_error *err) {
    for (;;) {
        size_t place;
        ranks->options = *(const struct rt_exchange_options *)ranks->learner->config.options;
        rt_exchange_shrink(ranks->learner->config.exchange, &ranks->options, ranks->count);
        if (ranks->count == 1)
            return RT_OK;
        RT_TRY(ranks_find_unlinked(ranks, &place, err));
        if (place == 0)
            return RT_OK;
        ranks->count--;
        memmove(ranks->device + place, ranks->device + place + 1,
                (ranks->count - place) * sizeof *ranks->device);
    }
}

static void ranks_list(struct ranks *ranks, bool apart) {
    const struct rt_membership *who = &ranks->learner->who;
    ranks->count = 0;
    for (size_t i = 0; i < who->devices; i++)
        if (i == 0 || !rt_cluster_member(who->cluster, i - 1)->gone)
            ranks->device[ranks->count++] = i;
    if (apart)
        rt_membership_set_apart(who, ranks->device, ranks->count);
}

/* deinit also on failure. */
static rt_status ranks_find(const struct rt_exchange_learner *learner, struct ranks *ranks,
                            struct rt_error *err) {
    const size_t devices = learner->who.devices;
    *ranks = (struct ranks){.learner = learner};
    RT_TRY(rt_alloc(devices, sizeof *ranks->device, "the devices", &ranks->device, err));
    RT_TRY(rt_alloc(devices, sizeof *ranks->worker, "the devices", &ranks->worker, err));
    ranks_list(ranks, false);
    const size_t all = ranks->count;
    RT_TRY(ranks_leave_out(ranks, err));
    const size_t count = ranks->count;
    if (count == all)
        return RT_OK;
    ranks_list(ranks, true);
    RT_TRY(ranks_leave_out(ranks, err));
    if (ranks->count > count)
        return RT_OK;
    ranks_list(ranks, false);
    return ranks_leave_out(ranks, err);
}

static void ranks_deinit(struct ranks *ranks) {
    free(ranks->device);
    free(ranks->worker);
}

static void ranks_tell_left(const struct ranks *ranks) {
    const struct rt_training_config *config = &ranks->learner->config;
    const struct rt_membership *who = &ranks->learner->who;
    char sentence[RT_TITLE_ROOM + 200], title[RT_TITLE_ROOM];
    for (size_t i = 1; i < who->devices && config->waits; i++) {
        size_t at = 0;
        while (at < ranks->count && ranks->device[at] != i)
            at++;
        if (at < ranks->count || rt_cluster_member(who->cluster, i - 1)->gone)
            continue;
        snprintf(sentence, sizeof sentence,
                 "%s is left out: it cannot be connected to, and neither can a node that it needs a link "
                 "with; start it with --listen HOST:PORT as well",
                 rt_membership_title(who, i, title));
        config->waits(config->waits_user, sentence);
    }
}

rt_status rt_exchange_number_nodes(struct rt_exchange_learner *learner, struct rt_error *err) {
    struct ranks ranks;
    const rt_status status = ranks_find(learner, &ranks, err);
    if (status == RT_OK) {
        ranks_tell_left(&ranks);
        learner->count = (uint16_t)ranks.count;
        memcpy(learner->device, ranks.device, ranks.count * sizeof *ranks.device);
        learner->view_options = ranks.options;
        learner->options = &learner->view_options;
    }
    ranks_deinit(&ranks);
    return status;
}

bool rt_exchange_has_place(const struct rt_exchange_learner *learner) {
    struct ranks ranks;
    struct rt_error ignored;
    const bool has = ranks_find(learner, &ranks, &ignored) == RT_OK && ranks.count > learner->count;
    ranks_deinit(&ranks);
    return has;
}
