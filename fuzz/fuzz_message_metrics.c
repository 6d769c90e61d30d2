/* Any bytes as metrics. */
#include "message_check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    static struct rt_metrics_row rows[RT_MAX_NODES];
    struct rt_error err;
    struct rt_metrics body = {.room = RT_MAX_NODES, .rows = rows};
    if (rt_metrics_decode(data, bytes, &body, &err) != RT_OK)
        return 0;
    uint8_t *out = malloc(bytes);
    if (!out)
        abort();
    rt_fuzz_same(data, bytes, out, rt_metrics_encode(&body, out, bytes));
    free(out);
    return 0;
}
