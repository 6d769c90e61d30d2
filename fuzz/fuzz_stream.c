/* The first byte chooses the format and what the model wants, the second in which pieces the bytes arrive;
 * the rest is the stream. It is read twice, in these pieces and in large ones: what comes out, and what is
 * refused with which sentence, must not depend on how the bytes arrive. */
#include "data/stream_record.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

enum { INPUTS = 3, OUTPUTS = 2 };

struct outcome {
    uint64_t count, mix;
    struct rt_error err; /* status RT_OK: read to the end */
};

static void use(const float *numbers, size_t count, struct outcome *outcome) {
    for (size_t i = 0; i < count; i++) {
        uint32_t bits;
        if (!isfinite(numbers[i]))
            abort();
        memcpy(&bits, &numbers[i], sizeof bits);
        outcome->mix = outcome->mix * 31 + bits;
    }
}

/* All examples that the bytes seen so far hold. */
static rt_status drain(struct rt_decoder *decoder, bool ended, struct outcome *outcome) {
    float inputs[INPUTS], values[OUTPUTS] = {0};
    int32_t class = 0;
    struct rt_example example = {inputs, &class, values};
    for (bool found = true; found;) {
        rt_status status = rt_decoder_next(decoder, ended, &example, &found, &outcome->err);
        if (status != RT_OK)
            return status;
        if (!found)
            break;
        if (class < 0 || class >= OUTPUTS)
            abort();
        use(inputs, INPUTS, outcome);
        use(values, OUTPUTS, outcome);
        outcome->mix = outcome->mix * 31 + (uint64_t) class;
        outcome->count++;
    }
    return RT_OK;
}

static void read_stream(const struct rt_record_settings *settings, const uint8_t *data, size_t bytes,
                        size_t piece, struct outcome *outcome) {
    struct rt_decoder *decoder;
    *outcome = (struct outcome){0};
    if (rt_decoder_create(settings, &decoder, NULL) != RT_OK)
        abort();
    rt_status status = RT_OK;
    for (bool ended = false; !ended && status == RT_OK;) {
        size_t room, part = bytes < piece ? bytes : piece;
        uint8_t *space = rt_decoder_space(decoder, &room);
        part = part < room ? part : room;
        if (room == 0)
            abort();
        if (part)
            memcpy(space, data, part);
        rt_decoder_add(decoder, part);
        data += part;
        bytes -= part;
        ended = part == 0;
        status = drain(decoder, ended, outcome);
    }
    outcome->err.status = status;
    if (decoder->count != outcome->count)
        abort();
    rt_decoder_destroy(decoder);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    static const char *const names[OUTPUTS] = {"no", "yes"};
    static const enum rt_target targets[4] = {RT_TARGET_CLASSES, RT_TARGET_VALUES, RT_TARGET_INPUT,
                                              RT_TARGET_CLASSES};
    if (bytes < 2)
        return 0;
    struct rt_dataset named = {0};
    if (data[0] & 16) {
        named.class_names = names;
        named.class_count = OUTPUTS;
    }
    struct rt_record_settings settings = {.format = data[0] & 1 ? RT_RECORD_F32 : RT_RECORD_CSV,
                                          .name = "fuzz",
                                          .target = targets[data[0] >> 1 & 3],
                                          .inputs = INPUTS,
                                          .outputs = OUTPUTS,
                                          .names = &named,
                                          .label_first = data[0] & 8,
                                          .separator = "auto",
                                          .skip = data[0] >> 5 & 1};
    if (data[0] & 64)
        memcpy(settings.separator, "space", 6);
    struct outcome pieces, whole;
    read_stream(&settings, data + 2, bytes - 2, (size_t)data[1] + 1, &pieces);
    read_stream(&settings, data + 2, bytes - 2, SIZE_MAX, &whole);
    if (pieces.count != whole.count || pieces.mix != whole.mix || pieces.err.status != whole.err.status ||
        (whole.err.status != RT_OK && strcmp(pieces.err.text, whole.err.text) != 0))
        abort();
    return 0;
}
