/* Runs of slices and their subtrees; see slices.h. */
#include "base/slices.h"

size_t rt_power_below(size_t n) {
    size_t power = 1;
    while (power <= n / 2)
        power *= 2;
    return power;
}

/* The largest subtree that begins with this slice and has no more than `most` of them. */
static uint32_t slices_subtree(uint32_t first, uint32_t most) {
    const uint32_t below = (uint32_t)rt_power_below(most), aligned = first & (~first + 1);
    return first == 0 || below < aligned ? below : aligned;
}

size_t rt_slices_pieces(struct rt_slice_run run, struct rt_slice_run piece[RT_MAX_PIECES]) {
    size_t count = 0;
    for (; run.count > 0 && count < RT_MAX_PIECES; count++) {
        piece[count] = (struct rt_slice_run){run.first, slices_subtree(run.first, run.count)};
        run.first += piece[count].count;
        run.count -= piece[count].count;
    }
    return count;
}

size_t rt_slices_count_pieces(struct rt_slice_run run) {
    struct rt_slice_run piece[RT_MAX_PIECES];
    return rt_slices_pieces(run, piece);
}

unsigned rt_slices_merges(uint32_t first, uint32_t slice) {
    unsigned merges = 0;
    for (uint32_t size = 2; (slice + 1) % size == 0 && slice + 1 - size >= first && slice + 1 >= size;
         size *= 2)
        merges++;
    return merges;
}

/* While a piece is added, the pieces before it wait, and within it one sum of each smaller size. */
size_t rt_slices_height(struct rt_slice_run run) {
    struct rt_slice_run piece[RT_MAX_PIECES];
    const size_t pieces = rt_slices_pieces(run, piece);
    size_t height = 1;
    for (size_t i = 0; i < pieces; i++) {
        size_t here = i + 1;
        for (uint32_t size = piece[i].count; size > 1; size /= 2)
            here++;
        height = here > height ? here : height;
    }
    return height;
}

size_t rt_slices_row(size_t rows, uint32_t all, uint32_t slice) {
    return (size_t)((uint64_t)slice * rows / all);
}

struct rt_slice_part rt_slices_equal_part(size_t shards, size_t parts, size_t part) {
    const uint32_t all = (uint32_t)(shards % parts == 0 ? shards : parts), count = all / (uint32_t)parts;
    return (struct rt_slice_part){all, {(uint32_t)part * count, count}};
}

size_t rt_slices_rows(const struct rt_slice_part *part, size_t rows, size_t *first) {
    *first = rt_slices_row(rows, part->all, part->run.first);
    return rt_slices_row(rows, part->all, part->run.first + part->run.count) - *first;
}

size_t rt_slices_most_rows(const struct rt_slice_part *part, size_t rows) {
    const uint64_t share = (uint64_t)part->run.count * rows;
    return (size_t)(share / part->all + (share % part->all ? 1 : 0));
}
