/* The options of ways: words that several tables share, reading, and writing them out again for nodes. */
#include "exchange/ways/ways.h"

#include <math.h>
#include <string.h>

const char *const rt_way_off_on[] = {"off", "on", NULL};
const char *const rt_way_orders[] = {"down", "up", NULL};
const char *const rt_way_mean_sum[] = {"mean", "sum", NULL};
const char *const rt_way_prios[] = {"arrival", "stale", NULL};
const char *const rt_way_bases[] = {"sync", "async", "ssp", NULL};
const char *const rt_way_steps[] = {"push", "clock", NULL};

rt_status rt_way_check_base(const struct rt_way_options *given, struct rt_error *err) {
    const bool sync = given->base == RT_BASE_SYNC, ssp = given->base == RT_BASE_SSP;
    const struct {
        const char *option;
        bool set, read;
        const char *by;
    } all[] = {
        {"s", given->bound != RT_WAY_USUAL_BOUND, ssp, "ssp"},
        {"step", given->whole_clock, ssp, "ssp"},
        {"prio", given->prio != RT_PRIO_ARRIVAL, !sync, "async or base=ssp"},
        {"damp", given->damp > 0, !sync, "async or base=ssp"},
        {"dc", given->compensate > 0, !sync, "async or base=ssp"},
        {"order", given->order != RT_ORDER_UP, sync, "sync"},
        {"reduce", given->reduce != RT_MEAN, sync, "sync"},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i].set && !all[i].read)
            return rt_fail(err, RT_BAD_INPUT, "%s: is for base=%s and does nothing with base=%s",
                           all[i].option, all[i].by, rt_way_bases[given->base]);
    return RT_OK;
}

rt_status rt_way_options_read(const struct rt_way *way, const struct rt_tree *tree,
                              struct rt_way_options *options, struct rt_error *err) {
    *options = (struct rt_way_options){0};
    rt_status status = rt_options_read(way->options, way->option_count, NULL, tree, way->name, options, err);
    /* "inf" is a word of the table, which reads as -1. */
    if (status == RT_OK && options->delta < 0)
        options->delta = (double)INFINITY;
    return status;
}

static void write_real(const struct rt_option *option, double value, char *text, size_t room) {
    if (option->auto_word && (value < 0 || isinf(value)))
        snprintf(text, room, "%s", option->auto_word);
    else
        snprintf(text, room, "%.17g", value);
}

/* The value as it could stand in a run file. */
static void write_value(const struct rt_option *option, const struct rt_way_options *options, char *text,
                        size_t room) {
    const char *field = (const char *)options + option->offset;
    int64_t integer;
    double real;
    bool truth;
    int choice;
    switch (option->kind) {
    case RT_OPTION_INT:
        memcpy(&integer, field, sizeof integer);
        if (option->auto_word && integer < 0)
            snprintf(text, room, "%s", option->auto_word);
        else
            snprintf(text, room, "%lld", (long long)integer);
        return;
    case RT_OPTION_REAL:
        memcpy(&real, field, sizeof real);
        write_real(option, real, text, room);
        return;
    case RT_OPTION_BOOL:
        memcpy(&truth, field, sizeof truth);
        snprintf(text, room, "%s", truth ? "true" : "false");
        return;
    case RT_OPTION_CHOICE:
        memcpy(&choice, field, sizeof choice);
        snprintf(text, room, "%s", option->choices[choice]);
        return;
    case RT_OPTION_TEXT: /* no way has such an option: these numbers go to other machines */
    case RT_OPTION_TREE:
        break;
    }
    *text = 0;
}

rt_status rt_way_options_write(const struct rt_way *way, const struct rt_way_options *options,
                               struct rt_tree **tree, struct rt_error *err) {
    struct rt_tree *map = NULL;
    rt_status status = rt_tree_create(RT_TREE_MAP, NULL, "the master", 0, &map, err);
    for (size_t i = 0; i < way->option_count && status == RT_OK; i++) {
        char text[64];
        write_value(&way->options[i], options, text, sizeof text);
        struct rt_tree *value = NULL;
        status = rt_tree_create(RT_TREE_SCALAR, text, "the master", 0, &value, err);
        if (status == RT_OK)
            status = rt_tree_add(map, way->options[i].name, value, err);
        if (status != RT_OK)
            rt_tree_destroy(value);
    }
    if (status == RT_OK)
        *tree = map;
    else
        rt_tree_destroy(map);
    return status;
}
