/*
 * Records of float32: the number of bytes that follow as 32 bits, then the inputs, then the class as a float
 * or the target values; all little-endian. The length is the same in every record: it reveals a sender with
 * another layout at once, not after a day of training on shifted numbers.
 */
#include "data/stream_record.h"

#include "base/bytes.h"
#include "base/sentence.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

static rt_status stream_f32_fail_record(const struct rt_decoder *decoder, const char *sentence,
                                        struct rt_error *err) {
    return rt_fail(err, RT_BAD_INPUT, "%s: record %" PRIu64 " (counted from 0) at offset %" PRIu64 ": %s",
                   decoder->settings.name, decoder->count, decoder->offset, sentence);
}

/* What an example is made of. */
static const char *stream_f32_composition(const struct rt_decoder *decoder, char text[80]) {
    char targets[40] = "";
    if (decoder->settings.target == RT_TARGET_CLASSES)
        snprintf(targets, sizeof targets, " and a class");
    else if (decoder->targets)
        snprintf(targets, sizeof targets, " and %s", RT_COUNTED(decoder->targets, "target value"));
    snprintf(text, 80, "%s%s", RT_COUNTED(decoder->settings.inputs, "input"), targets);
    return text;
}

static rt_status stream_f32_check_length(const struct rt_decoder *decoder, const uint8_t *data,
                                         struct rt_error *err) {
    uint32_t length = rt_get_le32(data);
    size_t expected = decoder->longest - sizeof length;
    char sentence[200], text[80];
    if (length == expected)
        return RT_OK;
    snprintf(sentence, sizeof sentence, "its length is %" PRIu32 ", but an example has %s (%s)", length,
             RT_COUNTED(expected, "byte"), stream_f32_composition(decoder, text));
    return stream_f32_fail_record(decoder, sentence, err);
}

static float stream_f32_get_float(const uint8_t *data) {
    uint32_t bits = rt_get_le32(data);
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static rt_status stream_f32_read_floats(const struct rt_decoder *decoder, const uint8_t *data, size_t count,
                                        const char *what, float *out, struct rt_error *err) {
    for (size_t i = 0; i < count; i++) {
        out[i] = stream_f32_get_float(data + i * sizeof(float));
        if (isfinite(out[i]))
            continue;
        char sentence[100];
        snprintf(sentence, sizeof sentence, "%s %zu (counted from 0) is %s", what, i,
                 isnan(out[i]) ? "NaN" : "infinite");
        return stream_f32_fail_record(decoder, sentence, err);
    }
    return RT_OK;
}

static rt_status stream_f32_read_class(const struct rt_decoder *decoder, const uint8_t *data, int32_t *class,
                                       struct rt_error *err) {
    float number = stream_f32_get_float(data);
    size_t outputs = decoder->settings.outputs;
    if (number >= 0 && number < (float)INT32_MAX && (size_t)number < outputs &&
        (float)(int32_t)number == number) {
        *class = (int32_t)number;
        return RT_OK;
    }
    char sentence[120];
    snprintf(sentence, sizeof sentence, "its class is %.9g, but the model has %s: classes go from 0 to %zu",
             (double)number, RT_COUNTED(outputs, "output"), outputs - 1);
    return stream_f32_fail_record(decoder, sentence, err);
}

rt_status rt_decoder_f32(struct rt_decoder *decoder, bool ended, const struct rt_example *example,
                         size_t *used, bool *found, struct rt_error *err) {
    const uint8_t *data = decoder->window + decoder->begin;
    size_t bytes = decoder->end - decoder->begin, inputs = decoder->settings.inputs;
    rt_status status = bytes >= sizeof(uint32_t) ? stream_f32_check_length(decoder, data, err) : RT_OK;
    *used = 0;
    if (status == RT_OK && bytes < decoder->longest && ended && bytes > 0)
        status = stream_f32_fail_record(decoder, "the stream ends in the middle of it", err);
    if (status != RT_OK || bytes < decoder->longest)
        return status;
    data += sizeof(uint32_t);
    status = stream_f32_read_floats(decoder, data, inputs, "input", example->inputs, err);
    data += inputs * sizeof(float);
    if (status == RT_OK && decoder->settings.target == RT_TARGET_CLASSES)
        status = stream_f32_read_class(decoder, data, example->class, err);
    else if (status == RT_OK && decoder->targets)
        status =
            stream_f32_read_floats(decoder, data, decoder->targets, "target value", example->values, err);
    *used = decoder->longest;
    *found = status == RT_OK;
    return status;
}
