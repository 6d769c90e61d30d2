/* The JSON text inside a checkpoint. */
#include "run/training_state.h"

#include <jansson.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

rt_status rt_fingerprint_add(struct rt_fingerprint *fingerprint, const char *key, bool scoring, char *value,
                             struct rt_error *err) {
    if (!value)
        return rt_fail(err, RT_NO_MEMORY, "not enough memory to write down the settings of the run");
    if (fingerprint->count == RT_MAX_SETTINGS) {
        free(value);
        return rt_fail(err, RT_FAILED, "a checkpoint has no room for the setting %s", key);
    }
    fingerprint->settings[fingerprint->count].key = key;
    fingerprint->settings[fingerprint->count].scoring = scoring;
    fingerprint->settings[fingerprint->count++].value = value;
    return RT_OK;
}

void rt_fingerprint_deinit(struct rt_fingerprint *fingerprint) {
    for (size_t i = 0; i < fingerprint->count; i++)
        free(fingerprint->settings[i].value);
    fingerprint->count = 0;
}

/* The values of a training state by name. Infinite is written as null. */
static const struct {
    const char *key;
    size_t offset;
    enum { WHOLE, REAL, LATER } kind; /* LATER: a real that older files do not have */
} model_state[] = {
    {"update", offsetof(struct rt_training_state, update), WHOLE},
    {"samples", offsetof(struct rt_training_state, samples), WHOLE},
    {"planned", offsetof(struct rt_training_state, planned), WHOLE},
    {"seconds", offsetof(struct rt_training_state, seconds), REAL},
    {"step_seconds", offsetof(struct rt_training_state, step_seconds), REAL},
    {"validation_seconds", offsetof(struct rt_training_state, validation_seconds), LATER},
    {"setup_seconds", offsetof(struct rt_training_state, setup_seconds), LATER},
    {"epoch_loss", offsetof(struct rt_training_state, epoch_loss), REAL},
    {"epoch_correct", offsetof(struct rt_training_state, epoch_correct), WHOLE},
    {"epoch_samples", offsetof(struct rt_training_state, epoch_samples), WHOLE},
    {"best_loss", offsetof(struct rt_training_state, best_loss), REAL},
    {"best_update", offsetof(struct rt_training_state, best_update), WHOLE},
    {"best_accuracy", offsetof(struct rt_training_state, best_accuracy), REAL},
    {"stale", offsetof(struct rt_training_state, stale), WHOLE},
    {"validated", offsetof(struct rt_training_state, validated), WHOLE},
};

static json_t *training_state_number_out(const struct rt_training_state *training_state, size_t i) {
    const char *at = (const char *)training_state + model_state[i].offset;
    if (model_state[i].kind != WHOLE) {
        double value;
        memcpy(&value, at, sizeof value);
        return isfinite(value) ? json_real(value) : json_null();
    }
    uint64_t value;
    memcpy(&value, at, sizeof value);
    return json_integer((json_int_t)value);
}

static bool training_state_number_in(const json_t *map, size_t i, struct rt_training_state *training_state) {
    const json_t *item = json_object_get(map, model_state[i].key);
    char *at = (char *)training_state + model_state[i].offset;
    if (!item && model_state[i].kind == LATER)
        return true;
    if (model_state[i].kind != WHOLE) {
        double value = json_is_null(item) ? (double)INFINITY : json_number_value(item);
        memcpy(at, &value, sizeof value);
        return json_is_null(item) || json_is_number(item);
    }
    uint64_t value = (uint64_t)json_integer_value(item);
    memcpy(at, &value, sizeof value);
    return json_is_integer(item) && json_integer_value(item) >= 0;
}

rt_status rt_training_state_json(const struct rt_training_state *training_state,
                                 const struct rt_fingerprint *fingerprint, char **json,
                                 struct rt_error *err) {
    json_t *map = json_object(), *settings = json_object();
    bool ok = map && settings && json_object_set_new(map, "version", json_string(RT_VERSION)) == 0;
    for (size_t i = 0; ok && i < sizeof model_state / sizeof *model_state; i++)
        ok = json_object_set_new(map, model_state[i].key, training_state_number_out(training_state, i)) == 0;
    for (size_t i = 0; ok && i < fingerprint->count; i++)
        ok = json_object_set_new(settings, fingerprint->settings[i].key,
                                 json_string(fingerprint->settings[i].value)) == 0;
    ok = ok && json_object_set(map, "settings", settings) == 0;
    char *text = ok ? json_dumps(map, JSON_COMPACT | JSON_REAL_PRECISION(17)) : NULL;
    json_decref(settings);
    json_decref(map);
    if (!text)
        return rt_fail(err, RT_NO_MEMORY, "not enough memory to write down where the run stands");
    *json = text;
    return RT_OK;
}

/* What is compared of a value: see training_state.h. */
static const char *training_state_compared(const char *value) {
    const char *bar = strchr(value, '|');
    return bar ? bar + 1 : value;
}

enum { SHOWN = 128, BEFORE = 40 };

/* What people are shown of a value. Of a long one that begins as the other does: the part around the place
 * where they differ. */
static const char *training_state_shown(const char *value, const char *other, char text[SHOWN]) {
    const size_t length = strcspn(value, "|"), most = SHOWN - 8;
    size_t same = 0, from = 0;
    while (same < length && value[same] == other[same])
        same++;
    if (length > most && same > BEFORE)
        from = same - BEFORE;
    const size_t left = length - from;
    snprintf(text, SHOWN, "%s%.*s%s", from ? "..." : "", (int)(left < most ? left : most), value + from,
             left > most ? "..." : "");
    return text;
}

static bool training_state_is_asynchronous(const char *value) {
    return strncmp(training_state_compared(value), "asynchronous", strlen("asynchronous")) == 0;
}

/* Why a strategy does not do instead of another; other settings need no reason. */
static const char *training_state_reason_of(const char *key, const char *then, const char *now) {
    if (strcmp(key, "cluster.strategy") != 0)
        return "";
    if (training_state_is_asynchronous(then) != training_state_is_asynchronous(now))
        return "; synchronous strategies may be exchanged for one another, but an asynchronous run cannot go "
               "on "
               "as a synchronous one, nor the other way round";
    return "; only strategies that make the same updates may be exchanged for one another";
}

static rt_status training_state_compare(const json_t *settings, const char *path,
                                        const struct rt_fingerprint *fingerprint, const char **rescored,
                                        struct rt_error *err) {
    char before[SHOWN], after[SHOWN];
    *rescored = NULL;
    for (size_t i = 0; i < fingerprint->count; i++) {
        const char *key = fingerprint->settings[i].key, *now = fingerprint->settings[i].value;
        const char *then = json_string_value(json_object_get(settings, key));
        if (then && strcmp(training_state_compared(then), training_state_compared(now)) == 0)
            continue;
        if (!fingerprint->settings[i].scoring)
            return rt_fail(err, RT_BAD_INPUT,
                           "%s: cannot be resumed, because %s has changed: it was %s and is now %s%s", path,
                           key, then ? training_state_shown(then, now, before) : "unknown",
                           training_state_shown(now, then ? then : "", after),
                           then ? training_state_reason_of(key, then, now) : "");
        *rescored = *rescored ? *rescored : key;
    }
    return RT_OK;
}

rt_status rt_training_state_read(const char *json, const char *path, const struct rt_fingerprint *fingerprint,
                                 struct rt_training_state *training_state, const char **rescored,
                                 struct rt_error *err) {
    json_t *map = json_loads(json, 0, NULL);
    struct rt_training_state made = {0};
    bool good = json_is_object(map) && json_is_object(json_object_get(map, "settings"));
    for (size_t i = 0; good && i < sizeof model_state / sizeof *model_state; i++)
        good = training_state_number_in(map, i, &made);
    rt_status status =
        good ? training_state_compare(json_object_get(map, "settings"), path, fingerprint, rescored, err)
             : rt_fail(err, RT_BAD_INPUT, "%s: does not say where the run stands", path);
    json_decref(map);
    if (status == RT_OK)
        *training_state = made;
    return status;
}
