/* Replicas on their way; see replication.h. */
#include "ring/replication.h"

#include <math.h>

/* Floats of a message: an activation waits for no more than these on the link. */
enum { REPLICATION_PIECE = 1 << 14 };

/* ---- the replica of the node before -------------------------------------------------------------------- */

static size_t replication_floats(const void *self, size_t tensor, size_t *first) {
    const struct rt_replication *replication = self;
    return rt_replicas_previous_floats(replication->settings.replicas, tensor, first);
}

/* Before our own image of a version is taken, the replica of that version has no place. One of an older
 * version is dropped: a newer snapshot has taken its place. */
static bool replication_can_write(const void *self, const struct rt_state_range *range) {
    const struct rt_replication *replication = self;
    const uint64_t newest = rt_replicas_newest(replication->settings.replicas);
    return newest != RT_VERSION_NOW && range->version <= newest;
}

static void replication_write(void *self, const struct rt_state_range *range, const float *from) {
    const struct rt_replication *replication = self;
    rt_replicas_store(replication->settings.replicas, range, from);
}

static bool replication_loaded(void *self, uint64_t version) {
    const struct rt_replication *replication = self;
    const struct rt_replicas *replicas = replication->settings.replicas;
    const bool ours = replication->settings.index == 0 || replication->complete >= version;
    return version < rt_replicas_newest(replicas) || (rt_replicas_is_stored(replicas) && ours);
}

/* ---- life ---------------------------------------------------------------------------------------------- */

rt_status rt_replication_init(struct rt_replication *replication,
                              const struct rt_replication_settings *settings, struct rt_error *err) {
    *replication = (struct rt_replication){.settings = *settings, .version = RT_VERSION_NOW};
    const struct rt_state_holder_settings in = {
        .store = {.self = replication,
                  .tensors = rt_replicas_map(settings->replicas)->tensors,
                  .floats = replication_floats,
                  .can_write = replication_can_write,
                  .write = replication_write,
                  .loaded = replication_loaded},
        .in = settings->previous,
        .out = settings->previous,
        .run = settings->run,
        .rank = settings->index,
        .channel = RT_CHANNEL_REPLICA,
        .finite = true};
    RT_TRY(rt_state_initiator_init(&replication->out, settings->run, settings->index, RT_CHANNEL_REPLICA,
                                   true, err));
    replication->open = true;
    return rt_state_holder_init(&replication->in, &in, err);
}

void rt_replication_deinit(struct rt_replication *replication) {
    rt_state_initiator_deinit(&replication->out);
    rt_state_holder_deinit(&replication->in);
    *replication = (struct rt_replication){0};
}

void rt_replication_start(struct rt_replication *replication) {
    replication->version = rt_replicas_newest(replication->settings.replicas);
    replication->tensor = replication->at = 0;
    replication->declared = false;
}

/* ---- our own ------------------------------------------------------------------------------------------- */

static rt_status replication_give(void *user, size_t tensor, size_t count, float *floats,
                                  struct rt_error *err) {
    struct rt_replication *replication = user;
    const struct rt_state_order *order = &replication->out.order;
    const struct rt_state_range range = {order->version, tensor, order->first, count};
    if (!rt_replicas_read(
            replication->settings.replicas, &range,
            floats)) /* a newer snapshot has taken its place: the order ends, and the next one is of that */
        return rt_fail(err, RT_FAILED, "the image of update %llu is gone", (unsigned long long)range.version);
    replication->sent += count;
    return RT_OK;
}

/* The floats of our layers; those of the master stay with it. */
static size_t replication_own_floats(const struct rt_replication *replication, size_t tensor, size_t *first) {
    *first = 0;
    return replication->settings.index == 0
               ? 0
               : rt_replicas_own_floats(replication->settings.replicas, tensor, first);
}

/* The next piece of the image, or its end. */
static void replication_order(struct rt_replication *replication, double now) {
    const struct rt_replication_settings *settings = &replication->settings;
    const size_t tensors = rt_replicas_map(settings->replicas)->tensors;
    struct rt_state_order order = {.kind = RT_STATE_STORE,
                                   .node = (uint16_t)((settings->index + 1) % settings->nodes),
                                   .in = settings->next,
                                   .out = settings->next,
                                   .version = replication->version,
                                   .give = replication_give,
                                   .user = replication};
    size_t first = 0, floats = 0;
    while (replication->tensor < tensors &&
           (floats = replication_own_floats(replication, replication->tensor, &first)) == replication->at) {
        replication->tensor++;
        replication->at = 0;
    }
    if (replication->tensor == tensors) {
        order.kind = RT_STATE_DECLARE;
        order.count = (size_t)replication->sent;
        replication->declared = true;
        replication->sent = 0;
    } else {
        const size_t left = floats - replication->at;
        order.tensor = replication->tensor;
        order.first = first + replication->at;
        order.count = left < REPLICATION_PIECE ? left : REPLICATION_PIECE;
        replication->at += order.count;
        if (settings->rate > 0)
            replication->due =
                fmax(replication->due, now - 1) + (double)(order.count * sizeof(float)) / settings->rate;
    }
    rt_state_initiator_begin(&replication->out, &order);
}

/* What comes next of our replica, as far as it is time for it. */
static void replication_go_on(struct rt_replication *replication, double now, double *wake) {
    while (replication->version != RT_VERSION_NOW && !replication->out.busy) {
        if (replication->declared) {
            replication->complete = replication->version;
            replication->version = RT_VERSION_NOW;
        } else if (now >= replication->due) {
            replication_order(replication, now);
        } else {
            *wake = fmin(*wake, replication->due);
            return;
        }
    }
}

bool rt_replication_event(struct rt_replication *replication, const struct rt_event *event, rt_status *status,
                          struct rt_error *err) {
    return replication->open && (rt_state_initiator_event(&replication->out, event, status, err) ||
                                 rt_state_holder_event(&replication->in, event, status, err));
}

rt_status rt_replication_turn(struct rt_replication *replication, double now, double *wake,
                              struct rt_error *err) {
    bool worked = false;
    if (!replication->open)
        return RT_OK;
    rt_state_initiator_go_on(&replication->out);
    replication_go_on(replication, now, wake);
    return rt_state_holder_go_on(&replication->in, &worked, err);
}
