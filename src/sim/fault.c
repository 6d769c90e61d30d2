/* Lists of faults: drawn, printed, and put on the agenda; see fault.h. */
#include "sim/fault.h"

#include "base/memory.h"
#include "base/rng.h"
#include "sim/network_inside.h"
#include <stdio.h>
#include <stdlib.h>

/* ---- drawing ---- */

static double fault_whole_milliseconds(double seconds) {
    return round(seconds * 1e3) / 1e3;
}

static enum rt_sim_fault_kind fault_choose_kind(unsigned kinds, uint32_t word) {
    const unsigned all = (1u << RT_SIM_FAULTS) - 1, from = (kinds & all) ? kinds & all : all;
    unsigned kind = word % RT_SIM_FAULTS;
    while (!(from >> kind & 1))
        kind = (kind + 1) % RT_SIM_FAULTS;
    return (enum rt_sim_fault_kind)kind;
}

static bool fault_is_cut(enum rt_sim_fault_kind kind) {
    return kind == RT_SIM_CUT || kind == RT_SIM_CUT_ONE_WAY;
}

/* From a twentieth of a second on; every eighth cut is for good. */
static double fault_choose_length(const struct rt_sim_fault *fault, double longest, const uint32_t words[2]) {
    static const double shortest = 0.05;
    if (fault->kind == RT_SIM_KILL)
        return 0;
    if ((fault_is_cut(fault->kind) || fault->kind == RT_SIM_UNPLUG) && words[0] % 8 == 0)
        return 0;
    const double ratio = longest > shortest ? longest / shortest : 1;
    return fault_whole_milliseconds(shortest * pow(ratio, words[1] * 0x1p-32));
}

static struct rt_sim_fault fault_draw_one(uint64_t seed, uint64_t number,
                                          const struct rt_sim_fault_terms *terms) {
    uint32_t a[4], b[4];
    rt_rng_block(seed, RT_PURPOSE_DELAY, 2, number, 0, a);
    rt_rng_block(seed, RT_PURPOSE_DELAY, 2, number, 1, b);
    struct rt_sim_fault fault = {
        .at = fault_whole_milliseconds(terms->from + (terms->until - terms->from) * (a[0] * 0x1p-32)),
        .kind = fault_choose_kind(terms->kinds, a[1])};
    const size_t first = fault_is_cut(fault.kind) || terms->spared >= terms->hosts ? 0 : terms->spared;
    fault.who = first + a[2] % (terms->hosts - first);
    if (fault_is_cut(fault.kind) && terms->hosts > 1)
        fault.other = (fault.who + 1 + a[3] % (terms->hosts - 1)) % terms->hosts;
    fault.seconds = fault_choose_length(&fault, terms->longest, b);
    return fault;
}

static int fault_compare_times(const void *a, const void *b) {
    const struct rt_sim_fault *one = a, *other = b;
    return one->at < other->at ? -1 : one->at > other->at;
}

void rt_sim_fault_draw(uint64_t seed, const struct rt_sim_fault_terms *terms, struct rt_sim_fault *faults,
                       size_t count) {
    for (size_t i = 0; i < count; i++) {
        uint32_t words[4];
        faults[i] = fault_draw_one(seed, i, terms);
        rt_rng_block(seed, RT_PURPOSE_DELAY, 2, i, 2, words);
        if (i > 0 && words[0] % 4 == 0)
            faults[i].at = faults[i - 1].at;
    }
    qsort(faults, count, sizeof *faults, fault_compare_times);
}

/* ---- printing ---- */

void rt_sim_fault_print(const struct rt_sim_fault *fault, char text[RT_SIM_FAULT_ROOM]) {
    char length[40] = "for good";
    if (fault->seconds > 0)
        snprintf(length, sizeof length, "for %g s", fault->seconds);
    const int used = snprintf(text, RT_SIM_FAULT_ROOM, "at %g s ", fault->at);
    char *rest = text + used;
    const size_t room = RT_SIM_FAULT_ROOM - (size_t)used;
    switch (fault->kind) {
    case RT_SIM_KILL:
        snprintf(rest, room, "mem:%zu is killed", fault->who);
        break;
    case RT_SIM_RESTART:
        snprintf(rest, room, "mem:%zu is killed and starts again after %g s", fault->who, fault->seconds);
        break;
    case RT_SIM_PAUSE:
        snprintf(rest, room, "mem:%zu is stopped %s", fault->who, length);
        break;
    case RT_SIM_HANG:
        snprintf(rest, room, "mem:%zu hangs %s", fault->who, length);
        break;
    case RT_SIM_CUT_ONE_WAY:
        snprintf(rest, room, "nothing passes from mem:%zu to mem:%zu %s", fault->who, fault->other, length);
        break;
    case RT_SIM_CUT:
        snprintf(rest, room, "nothing passes between mem:%zu and mem:%zu %s", fault->who, fault->other,
                 length);
        break;
    default:
        snprintf(rest, room, "mem:%zu is unplugged %s", fault->who, length);
        break;
    }
}

/* ---- having them happen ---- */

struct rt_mem_fault {
    struct rt_mem_fault *next;
    struct rt_memnet *net;
    struct rt_sim_fault what;
    struct rt_mem_item begins, ends;
};

static void fault_begin(struct rt_memnet *net, const struct rt_sim_fault *what) {
    struct rt_error err;
    switch (what->kind) {
    case RT_SIM_KILL:
        rt_memnet_kill(net, what->who);
        break;
    case RT_SIM_RESTART:
        if (rt_memnet_restart(net, what->who, what->seconds, &err) != RT_OK)
            rt_mem_fail(net, err.status, "%s", err.text);
        break;
    case RT_SIM_PAUSE:
        rt_memnet_pause(net, what->who, what->seconds);
        break;
    case RT_SIM_HANG:
        rt_memnet_hang(net, what->who, what->seconds);
        break;
    case RT_SIM_CUT_ONE_WAY:
        rt_memnet_cut_one_way(net, what->who, what->other);
        break;
    case RT_SIM_CUT:
        rt_memnet_cut(net, what->who, what->other);
        break;
    default:
        rt_memnet_unplug(net, what->who);
        break;
    }
}

static void fault_end(struct rt_memnet *net, const struct rt_sim_fault *what) {
    if (what->kind == RT_SIM_CUT_ONE_WAY)
        rt_memnet_heal_one_way(net, what->who, what->other);
    else if (what->kind == RT_SIM_CUT)
        rt_memnet_heal(net, what->who, what->other);
    else if (what->kind == RT_SIM_UNPLUG)
        rt_memnet_plug(net, what->who);
}

void rt_mem_fault(struct rt_mem_fault *fault, bool begins) {
    if (!begins) {
        fault_end(fault->net, &fault->what);
        return;
    }
    fault_begin(fault->net, &fault->what);
    const bool is_outage = fault_is_cut(fault->what.kind) || fault->what.kind == RT_SIM_UNPLUG;
    if (is_outage && fault->what.seconds > 0)
        rt_mem_agenda_add(&fault->net->agenda, &fault->ends, fault->net->now + fault->what.seconds);
}

void rt_mem_free_faults(struct rt_memnet *net) {
    while (net->faults) {
        struct rt_mem_fault *fault = net->faults;
        net->faults = fault->next;
        free(fault);
    }
}

rt_status rt_memnet_schedule(struct rt_memnet *net, const struct rt_sim_fault *faults, size_t count,
                             struct rt_error *err) {
    enum { ITEMS = 2 };
    for (size_t i = 0; i < count; i++) {
        struct rt_mem_fault *made;
        if (faults[i].who >= net->count || faults[i].other >= net->count || faults[i].kind >= RT_SIM_FAULTS)
            return rt_fail(err, RT_BAD_INPUT, "fault %zu is of a host that this network does not have", i);
        RT_TRY(rt_mem_agenda_promise(&net->agenda, ITEMS, err));
        RT_TRY(rt_alloc(1, sizeof *made, "a fault of a network", &made, err));
        *made = (struct rt_mem_fault){.next = net->faults,
                                      .net = net,
                                      .what = faults[i],
                                      .begins = {.kind = RT_MEM_FAULT, .owner = made},
                                      .ends = {.kind = RT_MEM_REPAIR, .owner = made}};
        net->faults = made;
        rt_mem_agenda_add(&net->agenda, &made->begins, fmax(faults[i].at, net->now));
    }
    return RT_OK;
}
