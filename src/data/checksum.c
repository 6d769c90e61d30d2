/* The checksum; see checksum.h. Four lanes, because a multiplication waits for the one before it. */
#include "data/checksum.h"

#include "base/bytes.h"
#include <string.h>

/* A bijection of word and of lane, so the change of a single word always changes the result. The factor is
 * 2^64 divided by the golden ratio, made odd. */
static uint64_t checksum_mix(uint64_t lane, uint64_t word) {
    lane = (lane ^ word) * UINT64_C(0x9e3779b97f4a7c15) + 1;
    return lane << 29 | lane >> 35;
}

static void checksum_add_blocks(struct rt_checksum *sum, const uint8_t *data, size_t blocks) {
    uint64_t a = sum->lanes[0], b = sum->lanes[1], c = sum->lanes[2], d = sum->lanes[3];
    for (size_t i = 0; i < blocks; i++, data += RT_CHECKSUM_BLOCK) {
        a = checksum_mix(a, rt_get_le64(data));
        b = checksum_mix(b, rt_get_le64(data + 8));
        c = checksum_mix(c, rt_get_le64(data + 16));
        d = checksum_mix(d, rt_get_le64(data + 24));
    }
    sum->lanes[0] = a, sum->lanes[1] = b, sum->lanes[2] = c, sum->lanes[3] = d;
}

void rt_checksum_add(struct rt_checksum *sum, const void *data, size_t bytes) {
    if (bytes == 0)
        return;
    const uint8_t *at = data;
    size_t kept = sum->bytes % RT_CHECKSUM_BLOCK;
    sum->bytes += bytes;
    if (kept) {
        size_t n = bytes < RT_CHECKSUM_BLOCK - kept ? bytes : RT_CHECKSUM_BLOCK - kept;
        memcpy(sum->rest + kept, at, n);
        at += n;
        bytes -= n;
        if (kept + n < RT_CHECKSUM_BLOCK)
            return;
        checksum_add_blocks(sum, sum->rest, 1);
    }
    size_t blocks = bytes / RT_CHECKSUM_BLOCK;
    checksum_add_blocks(sum, at, blocks);
    if (bytes % RT_CHECKSUM_BLOCK)
        memcpy(sum->rest, at + blocks * RT_CHECKSUM_BLOCK, bytes % RT_CHECKSUM_BLOCK);
}

uint64_t rt_checksum_value(const struct rt_checksum *sum) {
    struct rt_checksum last = *sum;
    size_t kept = sum->bytes % RT_CHECKSUM_BLOCK;
    memset(last.rest + kept, 0, RT_CHECKSUM_BLOCK - kept);
    if (kept)
        checksum_add_blocks(&last, last.rest, 1);
    uint64_t value = sum->bytes;
    for (size_t i = 0; i < 4; i++)
        value = checksum_mix(value, last.lanes[i]);
    return value;
}
