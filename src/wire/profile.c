/* PROFILE asks a node how long each layer takes on it; PROFILED has the times. */
#include "base/memory.h"
#include "wire/bytes.h"
#include "wire/message.h"
#include "wire/tree.h"
#include <stdlib.h>

size_t rt_profile_encode(const struct rt_profile *profile, uint8_t *bytes, size_t room) {
    struct rt_encoder encoder = {.bytes = bytes, .room = room};
    rt_write_u32(&encoder, profile->rows);
    rt_write_tree(&encoder, profile->job);
    return rt_encoder_end(&encoder);
}

rt_status rt_profile_decode(const uint8_t *bytes, size_t count, struct rt_profile *profile,
                            struct rt_error *err) {
    struct rt_decoder decoder = {.name = "profile", .bytes = bytes, .count = count, .err = err};
    struct rt_profile made = {0};
    made.rows = rt_read_u32(&decoder);
    if (made.rows == 0)
        rt_decoder_refuse(&decoder, "asks for micro-batches without examples");
    made.job = rt_read_tree(&decoder, RT_TREE_FILE);
    rt_status status = rt_decoder_end(&decoder);
    if (status == RT_OK)
        *profile = made;
    else
        rt_profile_deinit(&made);
    return status;
}

void rt_profile_deinit(struct rt_profile *profile) {
    rt_tree_destroy(profile->job);
    profile->job = NULL;
}

enum { TIMES_BYTES = 4 * 8 };

size_t rt_profiled_encode(const struct rt_profiled *profiled, uint8_t *bytes, size_t room) {
    struct rt_encoder encoder = {.bytes = bytes, .room = room, .full = profiled->count > RT_MAX_LAYERS};
    rt_write_u32(&encoder, (uint32_t)profiled->count);
    for (size_t i = 0; i < profiled->count && !encoder.full; i++) {
        const struct rt_layer_times *times = &profiled->layers[i];
        rt_write_f64(&encoder, times->forward);
        rt_write_f64(&encoder, times->input);
        rt_write_f64(&encoder, times->weights);
        rt_write_f64(&encoder, times->update);
    }
    return rt_encoder_end(&encoder);
}

rt_status rt_profiled_decode(const uint8_t *bytes, size_t count, struct rt_profiled *profiled,
                             struct rt_error *err) {
    struct rt_decoder decoder = {.name = "profiled", .bytes = bytes, .count = count, .err = err};
    struct rt_profiled made = {0};
    made.count = rt_read_count(&decoder, "layers", RT_MAX_LAYERS, TIMES_BYTES);
    if (decoder.status == RT_OK)
        decoder.status =
            rt_alloc(made.count, sizeof *made.layers, "the times of the layers", &made.layers, err);
    for (size_t i = 0; i < made.count && decoder.status == RT_OK; i++) {
        made.layers[i].forward = rt_read_amount(&decoder, "a time");
        made.layers[i].input = rt_read_amount(&decoder, "a time");
        made.layers[i].weights = rt_read_amount(&decoder, "a time");
        made.layers[i].update = rt_read_amount(&decoder, "a time");
    }
    rt_status status = rt_decoder_end(&decoder);
    if (status == RT_OK)
        *profiled = made;
    else
        rt_profiled_deinit(&made);
    return status;
}

void rt_profiled_deinit(struct rt_profiled *profiled) {
    free(profiled->layers);
    profiled->layers = NULL;
    profiled->count = 0;
}
