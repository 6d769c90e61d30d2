/* Spans; see exchange.h. */
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
