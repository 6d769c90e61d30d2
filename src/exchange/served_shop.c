/*
 * A worker's talk with one server. What goes there comes in groups of as many messages as the server's range
 * has portions, all gradients or all requests, so that the server always knows what comes next; the next
 * group begins when the one before has been sent.
 */
#include "exchange/served_inside.h"

#include <string.h>

void rt_shop_expect(struct rt_shop *shop) {
    shop->asking = shop->count > 0;
    shop->came = 0;
    for (size_t i = 0; i < shop->count; i++)
        shop->served->missing[shop->portions[i].span]++;
}

static void post_receives(struct rt_shop *shop) {
    for (size_t i = 0; i < shop->count; i++) {
        shop->receives[i] = (struct rt_receive){
            .channel = RT_CHANNEL_FIRST,
            .body = shop->served->settings.replica->params + shop->portions[i].first,
            .body_room = shop->portions[i].count * sizeof(float),
        };
        rt_link_receive(shop->link, &shop->receives[i]);
    }
}

/* ---- going --------------------------------------------------------------------------------------------- */

/* The portion whose turn it is, counted from the last one down. */
static bool may_go(const struct rt_shop *shop, size_t portion) {
    const struct rt_served *served = shop->served;
    if (shop->errand != RT_ERRAND_PUSH)
        return true;
    return shop->kept[portion] && (served->complete || (portion > 0 && served->settings.options->wfbp));
}

/* The batch that parameters are asked for, where that is told. */
static uint64_t reads_for(const struct rt_shop *shop) {
    const struct rt_served *served = shop->served;
    return served->settings.lazy && shop->errand == RT_ERRAND_PULL ? served->ticket : 0;
}

static void send_message(struct rt_shop *shop, size_t portion) {
    const struct rt_served *served = shop->served;
    const bool push = shop->errand == RT_ERRAND_PUSH, last = portion == 0;
    struct rt_send *send = &shop->sends[portion];
    struct rt_message message = {
        .type = push ? RT_MESSAGE_PUSH : RT_MESSAGE_PULL,
        .flags = (uint16_t)((last ? RT_FLAG_LAST : 0) | (push && last && served->asks ? RT_FLAG_ASK : 0) |
                            (shop->errand == RT_ERRAND_REST ? RT_FLAG_REST : 0)),
        .source = served->settings.party->rank,
        .run = served->settings.party->run,
        .micro = push ? served->batch : reads_for(shop),
        .update = push ? shop->version : shop->pushes,
        .rows = push && last ? served->rows : 0,
    };
    *send = (struct rt_send){.channel = RT_CHANNEL_SECOND, .head_bytes = RT_MESSAGE_HEAD};
    if (push) {
        send->user = &shop->kept[portion]; /* to be let go of when it has been sent */
        rt_portion_describe(&shop->portions[portion], &message);
        send->body[0] = (struct rt_piece){rt_served_source(served) + shop->portions[portion].first,
                                          shop->portions[portion].count * sizeof(float)};
    }
    rt_message_encode(&message, send->head);
    shop->sending++;
    rt_link_send(shop->link, send);
}

/* The same without a link. */
static void hand_over(struct rt_shop *shop, size_t portion) {
    const struct rt_served *served = shop->served;
    struct rt_server *server = served->settings.local;
    const struct rt_portion *what = &shop->portions[portion];
    const bool push = shop->errand == RT_ERRAND_PUSH;
    if (push) {
        memcpy(rt_server_room(server) + (what->first - shop->first), rt_served_source(served) + what->first,
               what->count * sizeof(float));
        shop->kept[portion] = false;
    }
    if (portion > 0)
        return;
    if (push)
        rt_server_push(server, served->batch, served->rows);
    if (!push || served->asks)
        rt_server_pull(server, shop->errand == RT_ERRAND_REST, reads_for(shop));
}

static bool may_begin(const struct rt_shop *shop) {
    return shop->link ? shop->sending == 0 : rt_server_has_room(shop->served->settings.local);
}

void rt_shop_go(struct rt_shop *shop) {
    if (shop->count == 0) { /* a server that owns nothing */
        shop->next = RT_ERRAND_NONE;
        return;
    }
    if (shop->errand == RT_ERRAND_NONE && shop->next != RT_ERRAND_NONE && may_begin(shop)) {
        shop->errand = shop->next;
        shop->next = RT_ERRAND_NONE;
        shop->left = shop->count;
    }
    while (shop->errand != RT_ERRAND_NONE && may_go(shop, shop->left - 1)) {
        const size_t portion = --shop->left;
        const bool push = shop->errand == RT_ERRAND_PUSH;
        if (portion == 0 && shop->link && (!push || shop->served->asks))
            post_receives(shop);
        if (shop->link)
            send_message(shop, portion);
        else
            hand_over(shop, portion);
        if (portion > 0)
            continue;
        shop->pushes += push;
        shop->errand = RT_ERRAND_NONE;
    }
}

/* ---- coming -------------------------------------------------------------------------------------------- */

static void note_spread(struct rt_served *served) {
    uint64_t least = UINT64_MAX, most = 0;
    for (size_t i = 0; i < served->shop_count; i++) {
        const struct rt_shop *shop = &served->shops[i];
        if (shop->asking)
            return;
        if (shop->count == 0)
            continue;
        least = shop->version < least ? shop->version : least;
        most = shop->version > most ? shop->version : most;
    }
    if (least <= most && most - least > served->spread)
        served->spread = most - least;
}

static void take_portion(struct rt_shop *shop) {
    shop->served->missing[shop->portions[shop->came].span]--;
    if (++shop->came < shop->count)
        return;
    shop->asking = false;
    shop->version = shop->coming;
    note_spread(shop->served);
}

static rt_status take(struct rt_shop *shop, const struct rt_receive *receive, struct rt_error *err) {
    const struct rt_party *party = shop->served->settings.party;
    const struct rt_portion *portion = &shop->portions[shop->came];
    struct rt_message message;
    char name[32];
    rt_party_name(shop->rank, name);
    rt_status status =
        rt_message_decode(receive->head, receive->head_bytes, receive->body_bytes, &message, err);
    if (status != RT_OK)
        return rt_fail_prefix(err, status, "%s", name);
    if (message.run != party->run || message.source != shop->rank)
        return rt_fail(err, RT_BAD_INPUT, "%s: a %s message of another run or node came from it", name,
                       rt_message_name(message.type));
    if (message.type != RT_MESSAGE_PARAM)
        return rt_fail(err, RT_BAD_INPUT, "%s: a %s message came where parameters were expected", name,
                       rt_message_name(message.type));
    if (!rt_portion_fits(portion, &message))
        return rt_fail(err, RT_BAD_INPUT,
                       "%s: parameters of span %u came where %zu parameters of span %zu were expected", name,
                       message.epoch, portion->count, portion->span);
    const bool last = shop->came + 1 == shop->count;
    if (((message.flags & RT_FLAG_LAST) != 0) != last)
        return rt_fail(err, RT_BAD_INPUT, "%s: the parameters of span %zu are %smarked as the last", name,
                       portion->span, last ? "not " : "");
    if (shop->came > 0 ? message.update != shop->coming : message.update < shop->version)
        return rt_fail(err, RT_BAD_INPUT,
                       "%s: parameters of version %llu came where those of version %llu%s were expected",
                       name, (unsigned long long)message.update,
                       (unsigned long long)(shop->came > 0 ? shop->coming : shop->version),
                       shop->came > 0 ? "" : " or later");
    shop->coming = message.update;
    take_portion(shop);
    return RT_OK;
}

/* Whether an operation is one of `count`, each of `bytes`, that begin at first; which. */
static bool is_among(const void *operation, const void *first, size_t count, size_t bytes, size_t *which) {
    const uintptr_t at = (uintptr_t)operation, from = (uintptr_t)first;
    *which = (size_t)((at - from) / bytes);
    return at >= from && *which < count;
}

bool rt_shop_event(struct rt_shop *shop, const struct rt_event *event, rt_status *status,
                   struct rt_error *err) {
    size_t which;
    if (event->kind == RT_EVENT_RECEIVED &&
        is_among(event->receive, shop->receives, shop->count, sizeof *event->receive, &which)) {
        *status = take(shop, event->receive, err);
        return true;
    }
    if (event->kind == RT_EVENT_SENT &&
        is_among(event->send, shop->sends, shop->count, sizeof *event->send, &which)) {
        if (event->send->user)
            shop->kept[which] = false;
        shop->sending--;
        rt_shop_go(shop);
        return true;
    }
    return false;
}

/* ---- in the same process ------------------------------------------------------------------------------- */

static void room(void *self) {
    rt_shop_go(self);
}

static void answer(void *self, uint64_t version, const float *params) {
    struct rt_shop *shop = self;
    shop->coming = version;
    for (size_t i = 0; i < shop->count; i++) {
        const struct rt_portion *portion = &shop->portions[i];
        memcpy(shop->served->settings.replica->params + portion->first,
               params + (portion->first - shop->first), portion->count * sizeof(float));
        take_portion(shop);
    }
}

struct rt_server_local rt_shop_local(struct rt_shop *shop) {
    return (struct rt_server_local){.self = shop, .room = room, .answer = answer};
}
