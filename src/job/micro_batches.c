/* How a batch is cut into micro-batches. */
#include "job/job.h"

size_t rt_job_micro_rows(const struct rt_job *job) {
    return (size_t)(job->micro_batch > 0 ? job->micro_batch : job->batch);
}

/* Row of the batch at which a slice begins. */
static size_t micro_batches_slice_start(const struct rt_job *job, size_t rows, uint64_t slice) {
    return (size_t)(slice * rows / (uint64_t)job->all_slices);
}

/* Parts in the slices before `slice`. A slice has rows / shards rows or one more, and of the first s slices s
 * * (rows mod shards) / shards have one more: so slices need not be counted one by one. */
static size_t micro_batches_parts_before(const struct rt_job *job, size_t rows, uint64_t slice) {
    const uint64_t micro = rt_job_micro_rows(job), shards = (uint64_t)job->all_slices;
    const uint64_t fewer = rows / shards, longer = slice * (rows % shards) / shards;
    return (size_t)((slice - longer) * ((fewer + micro - 1) / micro) + longer * (fewer / micro + 1));
}

size_t rt_job_slices(const struct rt_job *job) {
    return (size_t)(job->all_slices / job->ring.parts);
}

size_t rt_job_micros(const struct rt_job *job, size_t rows) {
    const uint64_t slices = rt_job_slices(job), first = (uint64_t)job->ring.part * slices;
    const size_t parts =
        micro_batches_parts_before(job, rows, first + slices) - micro_batches_parts_before(job, rows, first);
    return parts > 0 ? parts : 1;
}

struct rt_micro rt_job_micro(const struct rt_job *job, size_t batch_rows, size_t i) {
    /* The last slice with at most i parts before it: an empty one has as many before it as the next. */
    const uint64_t slices = rt_job_slices(job), ours = (uint64_t)job->ring.part * slices;
    uint64_t slice = ours, beyond = ours + slices;
    if (micro_batches_parts_before(job, batch_rows, ours) ==
        micro_batches_parts_before(job, batch_rows, beyond))
        return (struct rt_micro){.first = micro_batches_slice_start(job, batch_rows, ours),
                                 .first_of_slice = true,
                                 .last_of_slice = true};
    i += micro_batches_parts_before(job, batch_rows, ours);
    while (beyond - slice > 1) {
        const uint64_t middle = slice + (beyond - slice) / 2;
        if (micro_batches_parts_before(job, batch_rows, middle) <= i)
            slice = middle;
        else
            beyond = middle;
    }
    const size_t micro = rt_job_micro_rows(job), end = micro_batches_slice_start(job, batch_rows, slice + 1);
    const size_t index = i - micro_batches_parts_before(job, batch_rows, slice);
    struct rt_micro part = {.slice = (size_t)(slice - ours), .first_of_slice = index == 0};
    part.first = micro_batches_slice_start(job, batch_rows, slice) + index * micro;
    part.rows = end - part.first < micro ? end - part.first : micro;
    part.last_of_slice = part.first + part.rows == end;
    return part;
}
