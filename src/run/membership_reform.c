/* Forming another view in the middle of a run: see membership.h. */
#include "run/membership.h"

#include "base/memory.h"
#include "run/learner.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Seconds in which the network makes a link with a device that is there: a second one may be gone too. */
#define LINK_SECONDS 1.0
/* After which it is looked again whether the run is to stop, and a call is due. */
#define AWAIT_SLICE 0.1

/* without: devices that are not called. */
static rt_status reform_once(struct rt_membership *membership, const bool *without,
                             const struct rt_reform *reform, struct rt_error *err) {
    const struct rt_reopen_settings again = {
        .view = rt_cluster_view(membership->cluster) + 1, .lost = without + 1, .link_timeout = LINK_SECONDS};
    RT_TRY(rt_cluster_reopen(membership->cluster, &again, err));
    for (size_t i = 1; i < membership->devices; i++) /* where those are that have connected again */
        if (rt_cluster_member(membership->cluster, i - 1)->joins)
            rt_membership_name(membership, i);
    return reform->form(reform->user, err);
}

/* Who is to blame for an attempt that has failed. A link that cannot be made is the fault of either end:
 * where two devices after one another could not reach the same third, or that one could not reach its
 * neighbour either, it is the third. */
struct blame {
    size_t who, peer; /* SIZE_MAX: nobody is known */
};

static struct blame reform_blame(struct rt_membership *membership, const struct blame *before,
                                 bool *without) {
    const size_t fault = rt_cluster_fault(membership->cluster);
    const size_t peer = rt_cluster_fault_peer(membership->cluster);
    const bool again = before->peer != SIZE_MAX && fault != SIZE_MAX && before->who != fault;
    if (!again || (before->peer != peer && before->peer != fault))
        return (struct blame){fault, peer};
    without[before->who + 1] = false;
    return (struct blame){before->peer, SIZE_MAX};
}

/* Another device may be lost while the view is formed, and does not answer the next time; or one answers the
 * master and is in the way all the same: it cannot reach its neighbour, or refuses its part. Then it is left
 * out. */
static rt_status reform_without(struct rt_membership *membership, bool *without,
                                const struct rt_reform *reform, struct rt_error *err) {
    struct blame blame = {SIZE_MAX, SIZE_MAX};
    rt_status status = RT_FAILED;
    for (size_t i = 0; i < 2 * membership->devices; i++) {
        status = reform_once(membership, without, reform, err);
        if (status == RT_OK || status == RT_INTERRUPTED)
            return status;
        blame = reform_blame(membership, &blame, without);
        if (blame.who == SIZE_MAX && status != RT_FAILED && status != RT_IO)
            return status;
        if (blame.who != SIZE_MAX && (i > 0 || rt_cluster_is_back(membership->cluster, blame.who)))
            without[blame.who + 1] = true;
    }
    return status;
}

/* Three of them by name: a sentence has room for no more. */
static void reform_name(const struct rt_membership *membership, const bool *known, const bool *gone,
                        struct rt_recovered *recovered) {
    const size_t room = sizeof recovered->without;
    size_t at = 0;
    recovered->further = 0;
    recovered->without[0] = 0;
    for (size_t i = 1; i < membership->devices; i++)
        if (gone[i] && !known[i] && membership->name[i][0] && ++recovered->further <= 3)
            at += (size_t)snprintf(recovered->without + at, room - at, "%s%.30s", at ? ", " : "without ",
                                   membership->name[i]);
    if (recovered->further > 3)
        snprintf(recovered->without + at, room - at, " and %zu more", recovered->further - 3);
}

rt_status rt_membership_reform(struct rt_membership *membership, bool *gone, const struct rt_reform *reform,
                               struct rt_error *err) {
    bool *without;
    RT_TRY(rt_alloc(membership->devices, sizeof *without, "the devices", &without, err));
    memcpy(without, gone, membership->devices * sizeof *without);
    const rt_status status = reform_without(membership, without, reform, err);
    for (size_t i = 1; i < membership->devices; i++)
        without[i] = rt_cluster_member(membership->cluster, i - 1)->gone;
    reform_name(membership, gone, without, reform->recovered);
    memcpy(gone, without, membership->devices * sizeof *gone);
    free(without);
    return status;
}

/* Not a local process that has ended; nor one that has joined and was in no view yet: nobody knows what it
 * can do. */
static bool membership_can_return(const struct rt_member *member) {
    return !member->local && !(member->joins && (member->fresh || !member->name[0]));
}

bool rt_membership_can_return(const struct rt_membership *membership, const bool *gone) {
    bool can = false;
    for (size_t i = 1; i < membership->devices; i++)
        can |= gone[i] && membership_can_return(rt_cluster_member(membership->cluster, i - 1));
    return can;
}

rt_status rt_membership_await(struct rt_membership *membership, bool *gone, double until,
                              const atomic_int *stop, struct rt_error *err) {
    struct rt_endpoint *endpoint = membership->endpoint;
    struct rt_event event;
    for (double now = rt_endpoint_now(endpoint); now < until; now = rt_endpoint_now(endpoint)) {
        if (stop && atomic_load(stop))
            return rt_fail(err, RT_INTERRUPTED, "interrupted while a device was waited for");
        const size_t member = rt_cluster_call_gone(membership->cluster);
        if (member != SIZE_MAX && rt_cluster_member(membership->cluster, member)->fresh) {
            rt_talk_close(&rt_cluster_member(membership->cluster, member)->talk);
            rt_cluster_member(membership->cluster, member)->gone = true; /* called again when a view works */
        } else if (member != SIZE_MAX) {
            gone[member + 1] = false;
            return RT_OK;
        }
        if (rt_endpoint_wait(endpoint, fmin(until, now + AWAIT_SLICE), &event))
            rt_cluster_stray(membership->cluster, &event);
    }
    return RT_OK;
}

rt_status rt_membership_start_without(struct rt_membership *membership, const struct rt_start *start,
                                      rt_status (*form)(void *user, struct rt_error *err), void *user,
                                      rt_status status, struct rt_error *err) {
    const struct rt_error why = *err;
    struct rt_recovered ignored; /* the sentence names all that are missing */
    char sentence[sizeof why.text];
    const struct rt_reform reform = {.form = form, .user = user, .recovered = &ignored};
    /* A node that refuses its part says so with a status of its own: then something is to be put right. */
    if ((status != RT_FAILED && status != RT_IO) || !start->gone || !membership->cluster)
        return status;
    RT_TRY(rt_membership_reform(membership, start->gone, &reform, err));
    const char *gap = " without ";
    size_t used =
        (size_t)snprintf(sentence, sizeof sentence, "while the run was set up: %.300s; it begins", why.text);
    for (size_t i = 1; i < membership->devices && used < sizeof sentence; i++)
        if (start->gone[i] && membership->name[i][0]) { /* not a free seat */
            used +=
                (size_t)snprintf(sentence + used, sizeof sentence - used, "%s%s", gap, membership->name[i]);
            gap = ", ";
        }
    start->warn(start->user, sentence);
    return RT_OK;
}
