/* The memory that a part in an exchange will take, told before any of it is taken. */
#include "run/exchange/exchanger.h"

#include "plan/plan.h"

/* Parameters whose optimizer a rank has. Where they are cut at layers it may be a few more or less: small
 * layers go together. */
static double exchanger_owned_params(const struct rt_exchanger_settings *settings,
                                     const struct rt_roles *roles, const struct rt_model *model) {
    double owned = 0;
    for (size_t i = 0; i < model->count; i++) {
        const struct rt_span layer = {model->param_at[i], model->layers[i]->param_count};
        owned += (double)rt_exchange_owned_part(settings->strategy, settings->options, roles,
                                                settings->comm.rank, &layer, model->param_count)
                     .count;
    }
    return owned;
}

/* What a proxy adds its members' gradients with: of n of them sums that wait for their like, as a binary
 * counter has digits, and frames that have come. */
static double exchanger_proxy_bytes(size_t members, double params) {
    enum { FRAME_FLOATS = 128 << 10, FRAMES = 4 };
    const double frame = params < FRAME_FLOATS ? params : FRAME_FLOATS;
    double sums = 0;
    for (size_t n = members + 1; n >= 4; n /= 2)
        sums++;
    return sizeof(float) * (sums * params + (double)(members - 1) * FRAMES * frame);
}

/* Terms that wait for their turn while pieces of workers' runs are added, in blocks of all parameters. */
static double exchanger_waiting_terms(const struct rt_exchanger_settings *settings,
                                      const struct rt_roles *roles, const struct rt_slice_part *part,
                                      size_t params) {
    const struct rt_span all = {0, params};
    const size_t pieces = rt_slices_count_pieces(part->run), own = pieces > 0 ? pieces - 1 : 0;
    struct rt_collective collective = {0};
    struct rt_error ignored; /* the exchange itself says it */
    if (!roles->runs ||
        settings->strategy->collective(settings->options, roles, settings->comm.rank, &all, params,
                                       &settings->cost, &collective, &ignored) != RT_OK)
        return 0;
    const size_t terms = collective.spares > own ? collective.spares - own : 0;
    rt_collective_deinit(&collective);
    return (double)terms;
}

size_t rt_exchanger_bytes(const struct rt_exchanger_settings *settings, const struct rt_roles *roles,
                          const struct rt_model *model) {
    const struct rt_net_replica_settings *replica = &settings->replica;
    const uint16_t rank = settings->comm.rank;
    const bool works = rt_roles_place(roles, rank) < roles->workers, serves = rank < roles->servers,
               client = rt_exchange_rules(settings->strategy, settings->options) != NULL;
    const struct rt_team team = rt_exchange_team(settings->strategy, settings->options, roles, rank);
    const struct rt_slice_part part =
        rt_exchange_part(settings->strategy, settings->options, roles, settings->shards, rank);
    const size_t clients = rt_exchange_clients(settings->strategy, settings->options, roles, NULL).workers;
    const double block = sizeof(float) * (double)model->param_count;
    double bytes = (double)rt_net_replica_bytes(model, replica->batch, replica->micro_batch, &part, works) +
                   sizeof(float) * exchanger_owned_params(settings, roles, model) *
                       (double)settings->optim->type->state_tensors;
    /* The order of the examples; and where they are sent, those of the tickets that are held. */
    if (works)
        bytes += sizeof(uint32_t) * (double)replica->count;
    if (works && !replica->set)
        bytes += 4 * sizeof(float) * ((double)rt_slices_most_rows(&part, replica->batch) + 1) *
                 ((double)rt_shape_size(&model->in) + (double)rt_shape_size(&model->out));
    /* A server holds for each worker a gradient and parameters on their way; collectives, terms of sums. */
    if (client && serves)
        bytes += block * (works ? 1 : 0) + 2 * block * (double)clients / (double)roles->servers;
    if (!client)
        bytes += block * (1 + exchanger_waiting_terms(settings, roles, &part, model->param_count));
    if (rt_exchange_is_nested(settings->strategy, settings->options) && team.place == 0 && team.count > 1)
        bytes += exchanger_proxy_bytes(team.count, (double)model->param_count);
    return bytes < 0x1p62 ? (size_t)bytes : SIZE_MAX;
}

rt_status rt_exchanger_check_memory(const struct rt_exchanger_settings *settings,
                                    const struct rt_roles *roles, const struct rt_model *model,
                                    uint64_t limit, uint64_t *memory, struct rt_error *err) {
    const double bytes = RT_PLAN_PROGRAM_BYTES + (double)rt_exchanger_bytes(settings, roles, model) +
                         sizeof(float) * ((double)model->param_count + (double)model->buffer_count);
    *memory = bytes < 0x1p62 ? (uint64_t)bytes : UINT64_MAX;
    if (limit == 0 || bytes <= (double)limit)
        return RT_OK;
    return rt_fail(err, RT_BAD_INPUT,
                   "to be a %s of this run needs %.1f MiB besides the data, and it offers %.1f MiB",
                   rt_exchanger_role(roles, settings->comm.rank), bytes / 0x1p20, (double)limit / 0x1p20);
}
