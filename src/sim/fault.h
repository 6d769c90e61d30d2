/*
 * Faults of a network in memory as values: what happens to which host, when, and for how long. A test draws a
 * list of them from a seed, prints it when it fails, and has the same failure again from the same seed.
 */
#ifndef RT_SIM_FAULT_H
#define RT_SIM_FAULT_H

#include "sim/network.h"

enum rt_sim_fault_kind {
    RT_SIM_KILL,        /* rt_memnet_kill */
    RT_SIM_RESTART,     /* rt_memnet_restart */
    RT_SIM_PAUSE,       /* rt_memnet_pause */
    RT_SIM_HANG,        /* rt_memnet_hang */
    RT_SIM_CUT_ONE_WAY, /* rt_memnet_cut_one_way, from who to other, and rt_memnet_heal_one_way */
    RT_SIM_CUT,         /* rt_memnet_cut and rt_memnet_heal */
    RT_SIM_UNPLUG,      /* rt_memnet_unplug and rt_memnet_plug */
    RT_SIM_FAULTS
};

struct rt_sim_fault {
    double at; /* seconds of virtual time */
    enum rt_sim_fault_kind kind;
    size_t who, other; /* hosts; other: of a cut */
    double seconds;    /* how long it lasts, for a restart until it starts again; 0: a cut that is for good */
};

/* What may be drawn. */
struct rt_sim_fault_terms {
    size_t hosts;
    size_t spared; /* the first so many hosts are neither killed, stopped nor unplugged, nor do they hang */
    double from, until; /* when faults begin */
    double longest;     /* that one lasts; short ones are as likely as long ones */
    unsigned kinds;     /* bits 1 << kind; 0: all */
};

/* So many faults, in the order of their times, of which about every fourth comes together with the one before
 * it. The same seed and terms give the same faults. Times are whole milliseconds. Each kind
 * must have a host that it can happen to. */
void rt_sim_fault_draw(uint64_t seed, const struct rt_sim_fault_terms *terms, struct rt_sim_fault *faults,
                       size_t count);

/* One line, without its end: "at 3.25 s mem:2 is stopped for 0.7 s". */
enum { RT_SIM_FAULT_ROOM = 120 };
void rt_sim_fault_print(const struct rt_sim_fault *fault, char text[RT_SIM_FAULT_ROOM]);

/* Has them happen. Before a run, or by a program during it. Those of the past happen at once. */
rt_status rt_memnet_schedule(struct rt_memnet *net, const struct rt_sim_fault *faults, size_t count,
                             struct rt_error *err);

#endif
