/*
 * An exchange goes on when a device is lost: in another view, of the devices that are left. What nodes hold
 * of the model is not of one version then, as an update may be under way; so all of them get the state anew,
 * from the image that the run keeps on the master (run/replicate.c).
 */
#include "run/exchange/inside.h"

#include <stdlib.h>

/* Seconds in which nodes that are there leave a view. */
static const double leaving_seconds = 0.5;

void rt_exchange_leave(struct rt_exchange_learner *learner) {
    rt_exchanger_halt(learner->exchanger);
    for (size_t i = 1; learner->links && i < learner->count; i++)
        if (learner->talks && learner->talks[i].link)
            rt_talk_close(&learner->talks[i]);
        else
            rt_link_close(learner->links[i]);
    rt_exchanger_destroy(learner->exchanger);
    rt_scheduler_destroy(learner->scheduler);
    rt_coordinator_destroy(learner->coordinator);
    rt_sample_sender_destroy(learner->sender);
    free(learner->links);
    free(learner->talks);
    free(learner->rows);
    free(learner->runs);
    learner->exchanger = NULL;
    learner->scheduler = NULL;
    learner->coordinator = NULL;
    learner->sender = NULL;
    learner->links = NULL;
    learner->talks = NULL;
    learner->rows = NULL;
    learner->runs = NULL;
    learner->fetched = 0;
    learner->moved = 0;
    learner->asked = false;
    learner->failure = (struct rt_error){0};
}

/* The nodes are told that the view is over, and wait for the next one. */
static void exchange_end_view(struct rt_exchange_learner *learner) {
    struct rt_engine *engine = learner->exchanger ? learner->exchanger->engine : NULL;
    if (engine && learner->coordinator) {
        const bool failed = learner->failure.status != RT_OK;
        rt_engine_let_go(engine);
        rt_engine_enter(engine);
        rt_coordinator_end_view(learner->coordinator,
                                failed ? learner->failure.text : "another view is formed");
        rt_engine_leave(engine);
        rt_exchange_linger(learner, leaving_seconds);
    }
    rt_exchange_leave(learner);
}

rt_status rt_exchange_form_anew(void *user, struct rt_error *err) {
    struct rt_exchange_learner *learner = user;
    rt_exchange_leave(learner); /* an attempt before */
    RT_TRY(rt_exchange_form(learner, err));
    return rt_exchange_start(learner, err);
}

static rt_status exchange_recover(void *self, struct rt_learner *described, const struct rt_versions *known,
                                  struct rt_recovered *recovered, struct rt_error *err) {
    struct rt_exchange_learner *learner = self;
    const struct rt_reform reform = {.form = rt_exchange_form_anew, .user = learner, .recovered = recovered};
    const size_t lost = *learner->config.lost;
    (void)known;
    if (lost > 0 && lost != RT_LOST_MASTER)
        learner->config.gone[lost] = true;
    exchange_end_view(learner);
    RT_TRY(rt_membership_reform(&learner->who, learner->config.gone, &reform, err));
    rt_exchange_describe(learner, described);
    return RT_OK;
}

static uint64_t exchange_moved(void *self) {
    return ((const struct rt_exchange_learner *)self)->moved;
}

void rt_exchange_can_recover(const struct rt_exchange_learner *learner, struct rt_learner *described) {
    if (!learner->who.cluster || !learner->config.spec->cluster.recover)
        return;
    described->recover = exchange_recover;
    described->moved = exchange_moved;
    if (learner->config.spec->cluster.replica != RT_REPLICA_OFF)
        described->wants_view = rt_exchange_wants_view;
}
