/* Spans, and a worker's step; see exchange.h. */
#include "exchange/exchange.h"

size_t rt_spans_join(struct rt_span *spans, size_t count, size_t floats) {
    size_t made = 0;
    for (size_t i = 0; i < count; i++) {
        struct rt_span *last = made ? &spans[made - 1] : NULL;
        if (last && last->first + last->count == spans[i].first && last->count <= floats &&
            spans[i].count <= floats - last->count)
            last->count += spans[i].count;
        else
            spans[made++] = spans[i];
    }
    return made;
}

rt_status rt_exchange_learn(const struct rt_exchange *exchange, const struct rt_replica *replica,
                            const struct rt_ticket *ticket, struct rt_done *done, struct rt_error *err) {
    *done = (struct rt_done){.batch = ticket->batch};
    rt_status status = exchange->begin(exchange->self, ticket, err);
    if (status == RT_OK && replica->compute)
        status = replica->compute(replica->self, ticket, exchange, done, err);
    return status == RT_OK ? exchange->end(exchange->self, done, err) : status;
}
