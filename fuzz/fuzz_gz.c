/* Any bytes as a compressed file. Reading it in small pieces and in large ones must end the same way. */
#include "data/input.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

enum { MOST = 1 << 20 };

/* Reads up to MOST bytes in pieces; a sum of them tells their content apart. */
static rt_status drain(const uint8_t *data, size_t bytes, size_t piece, uint64_t *total, uint64_t *sum) {
    static uint8_t buffer[1 << 14];
    struct rt_error err;
    struct rt_input input;
    rt_status status = rt_input_memory(data, bytes, "fuzz", &input, &err);
    if (status != RT_OK)
        return status;
    size_t got = piece;
    *total = *sum = 0;
    while (status == RT_OK && got == piece && *total < MOST) {
        status = rt_input_read(&input, buffer, piece, &got, &err);
        for (size_t i = 0; status == RT_OK && i < got; i++)
            *sum = *sum * 31 + buffer[i];
        *total += status == RT_OK ? got : 0;
    }
    if (status == RT_OK && (input.given != *total || *total > rt_input_limit(&input)))
        abort();
    rt_input_close(&input);
    return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    uint64_t small_total, small_sum, large_total, large_sum;
    rt_status small = drain(data, bytes, 64, &small_total, &small_sum);
    rt_status large = drain(data, bytes, 1 << 14, &large_total, &large_sum);
    if (small != large || (small == RT_OK && (small_total != large_total || small_sum != large_sum)))
        abort();
    return 0;
}
