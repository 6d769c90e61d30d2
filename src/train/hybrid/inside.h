/* What hybrid_rings.c, hybrid_form.c and hybrid_plan.c share. */
#ifndef RT_TRAIN_HYBRID_INSIDE_H
#define RT_TRAIN_HYBRID_INSIDE_H

#include "train/hybrid/examples.h"
#include "train/hybrid/feed.h"
#include "train/hybrid/rings.h"
#include "train/hybrid/talk.h"

struct rt_rings {
    struct rt_lesson lesson;
    struct rt_way_options options; /* with the number of rings settled */
    const struct rt_way *way;      /* between the rings */
    struct rt_way_options way_options;
    struct rt_link_cost cost; /* of the links between them */
    uint16_t count, places;
    double exchange_seconds; /* predicted, of an update; nothing else goes on meanwhile */

    struct rt_endpoint *endpoint;
    struct rt_link **links; /* [count]: of the master with the heads of the other rings */
    struct rt_heads *heads;
    struct rt_mailing *mailing; /* data.send; NULL: the heads have their own data */
    struct rt_group *group;
    struct rt_hybrid_feed feed;
    double asked;        /* when heads were last asked for metrics */
    bool stepped, apart; /* apart: ring 0 was loaded after an update, and has other numbers than the rest */
    bool stopped;        /* in good order */
    struct rt_error failure; /* why it ends, for the others; status RT_OK: it does not */
};

#endif
