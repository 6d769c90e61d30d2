/* The pace of an emulated device, see pace.h. */
#include "metrics/pace.h"

#include "base/option.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const double most = 1e6;

bool rt_pace_is_emulated(const struct rt_pace *pace) {
    return pace && (pace->count > 0 || pace->first > 1);
}

double rt_pace_factor(const struct rt_pace *pace, uint64_t update) {
    double factor = pace && pace->first > 0 ? pace->first : 1;
    for (size_t i = 0; pace && i < pace->count && pace->change[i].from <= update; i++)
        factor = pace->change[i].factor;
    return factor;
}

bool rt_pace_is_factor(double factor) {
    return factor >= 1 && factor <= most;
}

rt_status rt_pace_add(struct rt_pace *pace, uint64_t from, double factor, struct rt_error *err) {
    size_t at = pace->count;
    while (at > 0 && pace->change[at - 1].from > from)
        at--;
    if (at > 0 && pace->change[at - 1].from == from)
        return rt_fail(err, RT_BAD_INPUT, "is given twice from update %" PRIu64 " on", from);
    if (pace->count == RT_PACE_CHANGES)
        return rt_fail(err, RT_BAD_INPUT, "of one device can change %d times at most", RT_PACE_CHANGES);
    memmove(&pace->change[at + 1], &pace->change[at], (pace->count - at) * sizeof *pace->change);
    pace->change[at] = (struct rt_pace_change){from, factor};
    pace->count++;
    return RT_OK;
}

static bool pace_read_factor(const char *text, double *factor) {
    return rt_parse_real(text, factor) && rt_pace_is_factor(*factor);
}

rt_status rt_pace_parse(const char *text, struct rt_pace *pace, struct rt_error *err) {
    char copy[RT_PACE_TEXT], *next = copy;
    *pace = (struct rt_pace){0};
    bool good = strlen(text) < sizeof copy;
    snprintf(copy, sizeof copy, "%s", text);
    for (bool first = true; good && next; first = false) {
        char *part = next, *colon;
        next = strchr(part, ',');
        if (next)
            *next++ = '\0';
        if (first) {
            good = pace_read_factor(part, &pace->first);
            continue;
        }
        int64_t from;
        double factor;
        colon = strchr(part, ':');
        if (colon)
            *colon = '\0';
        good = colon && rt_parse_int(part, &from) && from > 0 && pace_read_factor(colon + 1, &factor);
        if (good && rt_pace_add(pace, (uint64_t)from, factor, err) != RT_OK)
            return RT_BAD_INPUT;
    }
    if (good)
        return RT_OK;
    return rt_fail(err, RT_BAD_INPUT,
                   "must be a number from 1 to 1000000, not '%.200s'; changes may follow it: 1,500:4 is 1, "
                   "and 4 from update 500 on",
                   text);
}

void rt_pace_print(const struct rt_pace *pace, char text[RT_PACE_TEXT]) {
    char real[RT_REAL_ROOM];
    size_t used = (size_t)snprintf(text, RT_PACE_TEXT, "%s", rt_real_text(rt_pace_factor(pace, 0), real));
    for (size_t i = 0; i < pace->count && used < RT_PACE_TEXT; i++)
        used += (size_t)snprintf(text + used, RT_PACE_TEXT - used, ",%" PRIu64 ":%s", pace->change[i].from,
                                 rt_real_text(pace->change[i].factor, real));
}
