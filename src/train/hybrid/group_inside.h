/* What hybrid_group.c and hybrid_numbers.c share. */
#ifndef RT_TRAIN_HYBRID_GROUP_INSIDE_H
#define RT_TRAIN_HYBRID_GROUP_INSIDE_H

#include "train/hybrid/group.h"

/* A node has one run of layers; the master of a ring may have the last layers as well. */
enum { RT_GROUP_STAGES = 2 };

enum rt_numbers_state {
    RT_NUMBERS_IDLE,    /* nobody has asked for them */
    RT_NUMBERS_WAITING, /* for those of ring 0 */
    RT_NUMBERS_HERE,    /* they have come */
    RT_NUMBERS_GIVING,  /* ring 0 */
    RT_NUMBERS_SAME,    /* all have the same */
};

/* A layer with parameters: a load of the carrier. */
struct rt_group_load {
    size_t stage, layer;
};

/* What a stage has of them. */
struct rt_group_stage {
    struct rt_stage *stage;
    size_t first, count; /* its loads */
    uint64_t updates;    /* whose gradient is complete */
    uint64_t ready;      /* loads, ever rising */
};

struct rt_group {
    struct rt_group_settings settings;
    struct rt_party party;
    struct rt_roles roles;
    uint16_t *worker;
    struct rt_group_stage stages[RT_GROUP_STAGES];
    size_t stage_count;
    struct rt_carrier *carrier;  /* NULL: no layer here has parameters */
    struct rt_group_load *loads; /* in the carrier's order */
    size_t load_count;

    struct { /* what all start from, see hybrid_numbers.c */
        enum rt_numbers_state state;
        size_t stage, word, at; /* where it stands */
        uint64_t update;        /* that they are of, once they are here */
        float *floats;
        struct rt_receive receive;
        struct rt_send *sends; /* [rings] */
        bool *sending;         /* [rings] which of them are under way */
    } numbers;

    struct rt_group_talk talk;
    double progress; /* when something last came from another ring */
    double looked;   /* when that was last looked at */
    uint16_t gone;   /* the ring whose link was lost first; UINT16_MAX: none */
    double gone_at;
    struct rt_error why;
    uint16_t lost;
};

/* The number of the node that has our place in a ring. */
uint16_t rt_group_number(const struct rt_group *group, uint16_t ring);

/* ---- hybrid_numbers.c ---- */
rt_status rt_group_numbers_init(struct rt_group *group, struct rt_error *err);
void rt_group_numbers_deinit(struct rt_group *group);
/* Goes on giving, or begins to wait; whether all have the same numbers. */
bool rt_group_numbers_go_on(struct rt_group *group);
/* The ring that holds this up; UINT16_MAX: none does. */
uint16_t rt_group_numbers_wait_for(const struct rt_group *group);
/* Whether the event is about them. */
bool rt_group_numbers_event(struct rt_group *group, const struct rt_event *event, rt_status *status,
                            struct rt_error *err);

#endif
