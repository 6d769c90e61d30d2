/* A rank's part in an exchange: the strategy says what it is made of. See member.h. */
#include "exchange/member.h"

#include "exchange/server/portions.h"

static rt_status member_make_server(struct rt_exchange_member *member, struct rt_error *err) {
    const struct rt_exchange_member_settings *settings = &member->settings;
    const struct rt_replica *replica = settings->replica;
    const size_t batch = settings->batch, count = settings->examples;
    struct rt_span range;
    RT_TRY(rt_server_range(settings->strategy, settings->options, settings->roles, settings->comm->rank,
                           replica, &range, err));
    const struct rt_server_settings server = {
        .strategy = settings->strategy,
        .rules = rt_exchange_rules(settings->strategy, settings->options),
        .options = settings->options,
        .roles = settings->clients,
        .comm = settings->comm,
        .spans = replica->spans,
        .span_count = replica->span_count,
        .first = range.first,
        .count = range.count,
        .param_count = replica->param_count,
        .params = settings->server_params ? settings->server_params : replica->params,
        .updater = settings->updater,
        .batch_rows = batch < count ? batch : count,
        .last_rows = batch < count && count % batch ? count % batch
                     : batch < count                ? batch
                                                    : count,
        .numbered = (count + batch - 1) / batch,
        .updated = settings->updated,
        .judged = settings->judged,
        .user = settings->user,
    };
    return rt_server_create(&server, &member->server, err);
}

static rt_status member_make_collective(struct rt_exchange_member *member, struct rt_error *err) {
    const struct rt_exchange_member_settings *settings = &member->settings;
    const struct rt_collective_exchange_settings collective = {.strategy = settings->strategy,
                                                               .options = settings->options,
                                                               .roles = settings->roles,
                                                               .comm = settings->comm,
                                                               .replica = settings->replica,
                                                               .updater = settings->updater,
                                                               .clock = settings->clock,
                                                               .cost = settings->cost,
                                                               .sums = settings->sums};
    RT_TRY(rt_collective_exchange_create(&collective, &member->collective, err));
    member->exchange = rt_collective_exchange(member->collective);
    return RT_OK;
}

static rt_status member_make_client(struct rt_exchange_member *member, bool nested, struct rt_error *err) {
    const struct rt_exchange_member_settings *settings = &member->settings;
    const struct rt_ps_client_settings client = {
        .strategy = settings->strategy,
        .options = settings->options,
        .roles = settings->clients,
        .comm = settings->comm,
        .replica = settings->replica,
        .local = member->server,
        .updater = settings->updater,
        /* nested: its steps are taken by the thread that takes the events */
        .clock = nested ? NULL : settings->clock,
        .lazy = settings->lazy};
    RT_TRY(rt_ps_client_create(&client, &member->client, err));
    member->exchange = rt_ps_client_exchange(member->client);
    return RT_OK;
}

static size_t member_batch_rows(void *user, uint64_t number) {
    const struct rt_exchange_member_settings *settings = user;
    const size_t count = settings->examples, batch = settings->batch;
    const uint64_t left = count - (number - 1) % ((count + batch - 1) / batch) * batch;
    return left < batch ? (size_t)left : batch;
}

static rt_status member_make_nested(struct rt_exchange_member *member, struct rt_error *err) {
    struct rt_exchange_member_settings *settings = &member->settings;
    const bool proxy = settings->team->place == 0;
    if (proxy)
        RT_TRY(member_make_client(member, true, err));
    const struct rt_exchange client = member->exchange;
    const struct rt_nested_settings nested = {.options = settings->options,
                                              .team = settings->team,
                                              .comm = settings->comm,
                                              .replica = settings->replica,
                                              .client = proxy ? &client : NULL,
                                              .rows = member_batch_rows,
                                              .user = settings};
    RT_TRY(rt_nested_create(&nested, &member->nested, err));
    member->exchange = rt_nested_exchange(member->nested);
    return RT_OK;
}

rt_status rt_exchange_member_init(struct rt_exchange_member *member,
                                  const struct rt_exchange_member_settings *settings, struct rt_error *err) {
    const uint16_t rank = settings->comm->rank;
    *member = (struct rt_exchange_member){.settings = *settings};
    if (!rt_exchange_rules(settings->strategy, settings->options))
        return member_make_collective(member, err);
    if (rank < settings->roles->servers)
        RT_TRY(member_make_server(member, err));
    if (rt_roles_place(settings->roles, rank) == settings->roles->workers)
        return RT_OK;
    return rt_exchange_is_nested(settings->strategy, settings->options)
               ? member_make_nested(member, err)
               : member_make_client(member, false, err);
}

void rt_exchange_member_deinit(struct rt_exchange_member *member) {
    rt_collective_exchange_destroy(member->collective);
    rt_nested_destroy(member->nested);
    rt_ps_client_destroy(member->client);
    rt_server_destroy(member->server);
    *member = (struct rt_exchange_member){0};
}

void rt_exchange_member_start(struct rt_exchange_member *member) {
    if (member->server)
        rt_server_start(member->server);
}

size_t rt_exchange_member_parts(const struct rt_exchange_member *member, struct rt_engine_part parts[2]) {
    size_t count = 0;
    if (member->server)
        parts[count++] = rt_server_part(member->server);
    if (member->exchange.self)
        parts[count++] = member->exchange.part;
    return count;
}

void rt_exchange_member_loaded(struct rt_exchange_member *member, uint64_t update) {
    if (member->collective)
        rt_collective_exchange_set_update(member->collective, update);
    if (member->server)
        rt_server_set_version(member->server, update);
}
