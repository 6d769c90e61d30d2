/* The plan of batches: one seeded permutation of the examples per epoch, cut into batches in order. */
#include "learn/batches.h"

#include "base/memory.h"
#include "base/rng.h"
#include <stdlib.h>

uint64_t rt_batches_count(uint64_t examples, uint64_t batch, bool drop_last) {
    const uint64_t whole = examples / batch;
    return examples % batch == 0 || (drop_last && whole > 0) ? whole : whole + 1;
}

/* For one batch: its slices have rows / slices rows, or one more; slices without rows are not computed. */
static uint64_t batches_fewest_rows(uint64_t rows, uint64_t slices, uint64_t micro) {
    uint64_t fewest = rows;
    for (uint64_t slice = rows / slices; slice <= rows / slices + (rows % slices > 0); slice++) {
        const uint64_t rest = micro && micro < slice ? slice % micro : slice;
        const uint64_t least = rest ? rest : micro;
        if (slice > 0 && least < fewest)
            fewest = least;
    }
    return fewest;
}

size_t rt_batches_fewest(uint64_t examples, uint64_t batch, bool drop_last, uint64_t slices, uint64_t micro) {
    const uint64_t whole = batch < examples ? batch : examples, last = examples % whole;
    const uint64_t fewest = batches_fewest_rows(whole, slices, micro);
    const uint64_t then = last && !drop_last ? batches_fewest_rows(last, slices, micro) : fewest;
    return (size_t)(then < fewest ? then : fewest);
}

rt_status rt_batches_create(uint64_t seed, size_t examples, size_t batch, bool shuffle, bool drop_last,
                            struct rt_batches *batches, struct rt_error *err) {
    if (examples == 0)
        return rt_fail(err, RT_BAD_INPUT, "there are no training examples");
    if (examples > UINT32_MAX)
        return rt_fail(err, RT_BAD_INPUT, "%zu training examples are more than the %u that are possible",
                       examples, UINT32_MAX);
    if (batch == 0)
        return rt_fail(err, RT_BAD_INPUT, "a batch must have at least one example");
    if (batch > examples)
        batch = examples;
    uint32_t *order;
    /* The number of examples may come from another machine. */
    rt_status status =
        rt_memory_check((double)examples * sizeof *order, "the order of the training examples", err);
    if (status == RT_OK)
        status = rt_alloc(examples, sizeof *order, "the order of the training examples", &order, err);
    if (status != RT_OK)
        return status;
    for (uint32_t i = 0; i < examples; i++)
        order[i] = i;
    *batches = (struct rt_batches){.seed = seed,
                                   .examples = (uint32_t)examples,
                                   .batch = (uint32_t)batch,
                                   .shuffle = shuffle,
                                   .per_epoch = rt_batches_count(examples, batch, drop_last),
                                   .order = order,
                                   .ordered = UINT64_MAX};
    return RT_OK;
}

void rt_batches_destroy(struct rt_batches *batches) {
    free(batches->order);
    *batches = (struct rt_batches){0};
}

void rt_batches_at(struct rt_batches *batches, uint64_t update, struct rt_batch *batch) {
    uint64_t epoch = (update - 1) / batches->per_epoch;
    if (batches->shuffle && epoch != batches->ordered) {
        rt_rng_shuffle(batches->seed, RT_PURPOSE_SHUFFLE, (uint32_t)epoch, batches->examples, batches->order);
        batches->ordered = epoch;
    }
    uint64_t first = (update - 1) % batches->per_epoch * batches->batch;
    uint64_t left = batches->examples - first;
    const size_t rows = (size_t)(left < batches->batch ? left : batches->batch);
    *batch = (struct rt_batch){.examples = batches->order + first,
                               .rows = rows,
                               .following = (size_t)left - rows,
                               .epoch = (uint32_t)epoch};
}
