/* What the fuzz targets of the messages share: any bytes as the body of one. What is accepted must come back
 * the same when it is encoded again. */
#ifndef RT_FUZZ_MESSAGE_CHECK_H
#define RT_FUZZ_MESSAGE_CHECK_H

#include "wire/message.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static inline void rt_fuzz_same(const uint8_t *data, size_t bytes, const uint8_t *out, size_t used) {
    if (used != bytes || memcmp(data, out, bytes) != 0)
        abort();
}

/* A target for the body `struct type`, which `name` encodes and decodes and release (or nothing) releases. */
#define RT_FUZZ_BODY(name_, type_, release_)                                                                 \
    int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {                                          \
        struct rt_error err;                                                                                 \
        struct type_ body;                                                                                   \
        if (rt_##name_##_decode(data, bytes, &body, &err) != RT_OK)                                          \
            return 0;                                                                                        \
        uint8_t *out = malloc(bytes);                                                                        \
        if (!out)                                                                                            \
            abort();                                                                                         \
        rt_fuzz_same(data, bytes, out, rt_##name_##_encode(&body, out, bytes));                              \
        release_;                                                                                            \
        free(out);                                                                                           \
        return 0;                                                                                            \
    }

#endif
