/* What the files of hybrid's learner share: hybrid_learner.c, hybrid_form.c. */
#ifndef RT_TRAIN_HYBRID_INSIDE_H
#define RT_TRAIN_HYBRID_INSIDE_H

#include "train/formation.h"
#include "train/hybrid_feed.h"
#include "train/hybrid_talk.h"
#include "train/learner.h"

struct rt_hybrid_learner {
    struct rt_lesson lesson;
    struct rt_way_options options; /* with the number of rings settled */
    const struct rt_way *way;      /* between the rings */
    struct rt_way_options way_options;
    struct rt_link_cost cost;
    uint16_t rings, places;

    struct rt_formation formation;
    struct rt_link **links; /* [rings]: with the heads of the other rings */
    struct rt_heads *heads; /* has them once it is there */
    struct rt_group *group;
    struct rt_ring *ring;
    struct rt_hybrid_feed feed;
    struct rt_metrics_row *rows; /* [rings * places] */
    bool stepped, apart;         /* other numbers than the rest: ring 0 was loaded after an update */
    bool stopped;
    struct rt_error failure; /* why it ends, for the others; status RT_OK: it does not */
};

/* ---- hybrid_form.c ---- */
/* Gathers, joins and measures the nodes, makes the plan, and tells everybody his part. */
rt_status rt_hybrid_form(struct rt_hybrid_learner *learner, struct rt_error *err);

#endif
