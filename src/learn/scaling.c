/* The scaling of data as JSON. A float written as a double and read back is the same float. */
#include "learn/scaling.h"

#include "base/memory.h"
#include <jansson.h>
#include <math.h>
#include <stdlib.h>

static json_t *scaling_write_list(const float *values, size_t count) {
    json_t *list = json_array();
    for (size_t i = 0; list && i < count; i++) {
        if (json_array_append_new(list, json_real((double)values[i])) != 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

rt_status rt_scaling_json(const struct rt_scaling *scaling, char **json, struct rt_error *err) {
    json_t *map = json_pack("{s:f, s:f}", "scale", scaling->scale, "offset", scaling->offset);
    bool ok = map;
    if (ok && scaling->features)
        ok =
            json_object_set_new(map, "mean", scaling_write_list(scaling->mean, scaling->features)) == 0 &&
            json_object_set_new(map, "inverse", scaling_write_list(scaling->inverse, scaling->features)) == 0;
    char *text = ok ? json_dumps(map, JSON_COMPACT | JSON_REAL_PRECISION(17)) : NULL;
    json_decref(map);
    if (!text)
        return rt_fail(err, RT_NO_MEMORY, "not enough memory to write down the scaling of the data");
    *json = text;
    return RT_OK;
}

static bool scaling_read_list(const json_t *list, size_t count, float *values) {
    if (!json_is_array(list) || json_array_size(list) != count)
        return false;
    for (size_t i = 0; i < count; i++) {
        const json_t *item = json_array_get(list, i);
        values[i] = (float)json_number_value(item);
        if (!json_is_number(item) || !isfinite(values[i]))
            return false;
    }
    return true;
}

rt_status rt_scaling_read(const char *json, const char *path, size_t inputs, struct rt_scaling *scaling,
                          struct rt_error *err) {
    json_t *map = json_loads(json, 0, NULL);
    const json_t *scale = json_object_get(map, "scale"), *offset = json_object_get(map, "offset");
    const json_t *mean = json_object_get(map, "mean"), *inverse = json_object_get(map, "inverse");
    struct rt_scaling made = {.scale = json_number_value(scale), .offset = json_number_value(offset)};
    bool good = json_is_number(scale) && json_is_number(offset), features = mean || inverse;
    /* A key that is not known means that the file was altered. */
    good = good && json_object_size(map) == (features ? 4 : 2);
    rt_status status = RT_OK;
    /* Allocates nothing for lists that are absent. */
    if (features)
        good = good && json_array_size(mean) == inputs && json_array_size(inverse) == inputs;
    if (good && features) {
        made.features = inputs;
        status = rt_floats_create(inputs, "the scaling of the data", &made.mean, err);
        if (status == RT_OK)
            status = rt_floats_create(inputs, "the scaling of the data", &made.inverse, err);
        good = status != RT_OK || (scaling_read_list(mean, inputs, made.mean) &&
                                   scaling_read_list(inverse, inputs, made.inverse));
    }
    json_decref(map);
    if (status == RT_OK && !good)
        status = rt_fail(err, RT_BAD_INPUT, "%s: `scaling` in its metadata is not what ringtmp train writes",
                         path);
    if (status != RT_OK) {
        rt_scaling_deinit(&made);
        return status;
    }
    *scaling = made;
    return RT_OK;
}
