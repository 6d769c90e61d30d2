/*
 * Devices that come back into an exchange, or join it: while it works, those that are gone are called now and
 * then (cluster/return.c). The thread that has the endpoint calls them, as a part of the engine; where the
 * master is alone there is none, and the thread that computes does it.
 */
#include "run/exchange/inside.h"

#define RETURNS_SECONDS 0.25 /* between two looks */
#define RETURNS_EVENTS  16   /* taken in one, at most */

static bool returns_takes_no_event(void *self, const struct rt_event *event, rt_status *status,
                                   struct rt_error *err) {
    (void)self, (void)event, (void)status, (void)err;
    return false;
}

static rt_status returns_take_turn(void *self, struct rt_error *err) {
    struct rt_exchange_learner *learner = self;
    (void)err;
    if (learner->returns.look)
        learner->returns.member = rt_cluster_call_gone(learner->who.cluster);
    learner->returns.look = false;
    return RT_OK;
}

struct rt_engine_part rt_exchange_returns_part(struct rt_exchange_learner *learner) {
    return (struct rt_engine_part){
        .self = learner, .event = returns_takes_no_event, .turn = returns_take_turn};
}

void rt_exchange_stray(void *user, const struct rt_event *event) {
    rt_cluster_stray(((struct rt_exchange_learner *)user)->who.cluster, event);
}

/* What the look before has found; another one is asked for. */
static size_t returns_look(struct rt_exchange_learner *learner) {
    struct rt_engine *engine = learner->exchanger->engine;
    rt_engine_enter(engine);
    const size_t member = learner->returns.member;
    learner->returns.member = SIZE_MAX;
    learner->returns.look = true;
    rt_engine_leave(engine);
    return member;
}

static size_t returns_look_alone(struct rt_exchange_learner *learner) {
    struct rt_endpoint *endpoint = learner->who.endpoint;
    struct rt_event event;
    for (size_t i = 0; i < RETURNS_EVENTS && rt_endpoint_wait(endpoint, rt_endpoint_now(endpoint), &event);
         i++)
        rt_cluster_stray(learner->who.cluster, &event);
    return rt_cluster_call_gone(learner->who.cluster);
}

/* One that is there again, or new. Whether it can be in the next view; else it stays a spare. */
static bool returns_take(struct rt_exchange_learner *learner, size_t device, struct rt_error *why) {
    struct rt_member *member = rt_cluster_member(learner->who.cluster, device - 1);
    const char *what = member->fresh ? "has joined" : "is back";
    char title[RT_TITLE_ROOM];
    member->fresh = false;
    rt_membership_name(&learner->who, device);
    rt_fail(why, RT_OK, "%s %s", rt_membership_title(&learner->who, device, title), what);
    if (rt_exchange_has_place(learner))
        return true;
    rt_fail_more(why, RT_OK,
                 "; it is left out: it cannot be connected to, and needs a link with another such node");
    rt_talk_close(&member->talk);
    return false;
}

bool rt_exchange_wants_view(void *self, struct rt_error *why) {
    struct rt_exchange_learner *learner = self;
    const bool several = learner->count > 1;
    const double now = rt_endpoint_now(learner->who.endpoint);
    if (learner->count == learner->who.devices || now < learner->returns.at)
        return false;
    learner->returns.at = now + RETURNS_SECONDS;
    const size_t member = several ? returns_look(learner) : returns_look_alone(learner);
    if (member == SIZE_MAX)
        return false;
    learner->config.gone[member + 1] = false;
    if (several)
        rt_engine_enter(learner->exchanger->engine);
    const bool taken = returns_take(learner, member + 1, why);
    if (several)
        rt_engine_leave(learner->exchanger->engine);
    if (!taken)
        learner->config.notice(learner->config.notice_user, why->text);
    return taken;
}
