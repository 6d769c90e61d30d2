/* Guests of a node, or of a master that accepts connections; see guest.h. */
#include "cluster/guest.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Seconds for a guest to identify itself, to measure a link, and to read why it was refused. */
static const double hello_seconds = 5, making_seconds = 10, leaving_seconds = 2;

void rt_guests_init(struct rt_guests *guests, struct rt_endpoint *endpoint, struct rt_teller *teller,
                    const struct rt_host *host) {
    guests->endpoint = endpoint;
    guests->teller = teller;
    guests->host = *host;
}

void rt_guests_deinit(struct rt_guests *guests) {
    for (size_t i = 0; i < RT_GUESTS; i++)
        if (guests->guest[i].state != RT_GUEST_NONE)
            rt_guest_drop(&guests->guest[i]);
}

void rt_guest_drop(struct rt_guest *guest) {
    rt_talk_close(&guest->talk);
    rt_echo_deinit(&guest->echo);
    *guest = (struct rt_guest){0};
}

struct rt_guest *rt_guests_longest(struct rt_guests *guests, enum rt_guest_state state) {
    struct rt_guest *found = NULL;
    for (size_t i = 0; i < RT_GUESTS; i++) {
        struct rt_guest *guest = &guests->guest[i];
        if (guest->state == state && (!found || guest->until < found->until))
            found = guest;
    }
    return found;
}

bool rt_guests_make(const struct rt_guests *guests, struct rt_link **slot) {
    for (size_t i = 0; i < RT_GUESTS; i++)
        if (guests->guest[i].state == RT_GUEST_JOINING && guests->guest[i].slot == slot)
            return true;
    return false;
}

void rt_guests_drop_joining(struct rt_guests *guests) {
    for (size_t i = 0; i < RT_GUESTS; i++)
        if (guests->guest[i].state == RT_GUEST_JOINING)
            rt_guest_drop(&guests->guest[i]);
}

/* ---- refusing ---- */

/* It has been told why. */
static void guest_let_go(struct rt_guests *guests, struct rt_guest *guest) {
    guest->state = RT_GUEST_LEAVING;
    guest->until = rt_endpoint_now(guests->endpoint) + leaving_seconds;
}

void rt_guest_dismiss(struct rt_guests *guests, struct rt_guest *guest, const struct rt_error *why) {
    rt_talk_refuse(&guest->talk, why->status, *guests->host.index, why->text);
    guest_let_go(guests, guest);
}

void rt_guest_put_off(struct rt_guests *guests, struct rt_guest *guest, const char *sentence) {
    rt_talk_put_off(&guest->talk, *guests->host.index, sentence);
    guest_let_go(guests, guest);
}

rt_status rt_guest_read_hello(const struct rt_guest *guest, struct rt_hello *hello, struct rt_error *err) {
    if (guest->talk.message.type != RT_MESSAGE_HELLO)
        return rt_fail(err, RT_BAD_INPUT, "its first message was '%s' instead of 'hello'",
                       rt_message_name(guest->talk.message.type));
    return rt_hello_decode(guest->talk.body, guest->talk.body_bytes, hello, err);
}

void rt_guest_refuse(struct rt_guests *guests, struct rt_guest *guest, rt_status status, const char *format,
                     ...) {
    struct rt_error why = {.status = status};
    va_list args;
    va_start(args, format);
    vsnprintf(why.text, sizeof why.text, format, args);
    va_end(args);
    rt_tell(guests->teller, RT_ABOUT_CALLERS, "%s was refused: %s", guest->talk.link->peer, why.text);
    rt_guest_dismiss(guests, guest, &why);
}

/* Silent connections cannot keep others out: when there are too many, the one that has been silent for the
 * longest is closed. It may be honest but slow, so it is told to try again. */
static void guests_make_way(struct rt_guests *guests) {
    char sentence[RT_MAX_TEXT];
    size_t heard = 0;
    for (size_t i = 0; i < RT_GUESTS; i++)
        heard += guests->guest[i].state != RT_GUEST_NONE && guests->guest[i].state != RT_GUEST_LEAVING;
    if (heard <= RT_GUESTS_HEARD)
        return;
    struct rt_guest *silent = rt_guests_longest(guests, RT_GUEST_NEW);
    snprintf(sentence, sizeof sentence, "%s is busy: %d others are connected, the maximum", guests->host.name,
             RT_GUESTS_HEARD);
    rt_tell(guests->teller, RT_ABOUT_CALLERS,
            "%s was turned away: it has not identified itself, and %d others wait", silent->talk.link->peer,
            RT_GUESTS_HEARD);
    rt_guest_put_off(guests, silent, sentence);
}

static struct rt_guest *guests_admit(struct rt_guests *guests, struct rt_link *link) {
    struct rt_error err;
    struct rt_guest *guest = rt_guests_longest(guests, RT_GUEST_NONE);
    if (!guest) { /* there are more entries than active guests, so at least one is leaving */
        guest = rt_guests_longest(guests, RT_GUEST_LEAVING);
        rt_guest_drop(guest);
    }
    if (rt_talk_open(link, &guest->talk, &err) == RT_OK)
        return guest;
    rt_tell(guests->teller, RT_ABOUT_CALLERS, "%s was turned away: %s", link->peer, err.text);
    rt_link_close(link);
    return NULL;
}

void rt_guests_accept(struct rt_guests *guests, struct rt_link *link) {
    struct rt_guest *guest = guests_admit(guests, link);
    if (!guest)
        return;
    guest->state = RT_GUEST_NEW;
    guest->until = rt_endpoint_now(guests->endpoint) + hello_seconds;
    guests_make_way(guests);
}

struct rt_guest *rt_guests_dial(struct rt_guests *guests, struct rt_link *link) {
    struct rt_guest *guest = guests_admit(guests, link);
    if (!guest)
        return NULL;
    guest->state = RT_GUEST_OFFERING;
    guest->until = INFINITY;
    guest->dialled = true;
    return guest;
}

struct rt_guest *rt_guests_dialled(struct rt_guests *guests) {
    for (size_t i = 0; i < RT_GUESTS; i++)
        if (guests->guest[i].state != RT_GUEST_NONE && guests->guest[i].dialled)
            return &guests->guest[i];
    return NULL;
}

/* ---- links of a run ---- */

void rt_guest_join(struct rt_guests *guests, struct rt_guest *guest, uint32_t run, struct rt_link **slot) {
    guest->state = RT_GUEST_JOINING;
    guest->slot = slot;
    guest->talk.run = run;
    guest->until = rt_endpoint_now(guests->endpoint) + making_seconds;
}

static void guest_settle(struct rt_guest *guest) {
    *guest->slot = rt_talk_release(&guest->talk);
    rt_guest_drop(guest);
}

/* ---- events ---- */

/* The link is gone, or sent invalid data: then the peer is told. */
static void guest_lose(struct rt_guests *guests, struct rt_guest *guest) {
    struct rt_error why = guest->talk.error;
    if (guests->host.lost(guests->host.user, guest))
        return;
    if (guest->state == RT_GUEST_LEAVING) {
        if (guest->talk.closed)
            rt_guest_drop(guest);
    } else if (!guest->talk.closed) {
        rt_guest_refuse(guests, guest, why.status, "%s", why.text);
    } else {
        rt_tell(guests->teller, RT_ABOUT_CALLERS, "%s left: %s", guest->talk.link->peer, why.text);
        if (guest->state == RT_GUEST_JOINING) {
            rt_fail_prefix(&why, why.status, "%s", guest->talk.link->peer);
            guests->host.link_lost(guests->host.user, &why);
        }
        rt_guest_drop(guest);
    }
}

static void guest_take_message(struct rt_guests *guests, struct rt_guest *guest) {
    struct rt_error err;
    switch (guest->state) {
    case RT_GUEST_NEW:
        guests->host.hello(guests->host.user, guest);
        break;
    case RT_GUEST_JOINING:
        if (rt_echo_message(&guest->echo, &guest->talk, *guests->host.index, &err) != RT_OK)
            rt_guest_refuse(guests, guest, err.status, "%s", err.text);
        break;
    case RT_GUEST_LEAVING:
        rt_talk_next(&guest->talk); /* too late: ignored */
        break;
    default:
        guests->host.message(guests->host.user, guest);
        break;
    }
}

bool rt_guests_event(struct rt_guests *guests, const struct rt_event *event) {
    struct rt_guest *guest = guests->guest, *const end = guest + RT_GUESTS;
    while (guest < end && (!event->link || guest->talk.link != event->link))
        guest++;
    if (guest == end)
        return false;
    const bool had = guest->talk.ready;
    if (!rt_echo_event(&guest->echo, &guest->talk, *guests->host.index, event))
        rt_talk_event(&guest->talk, event);
    if (guest->talk.ready && !had)
        guest_take_message(guests, guest);
    if (guest->talk.link && guest->talk.dead)
        guest_lose(guests, guest);
    else if (guest->state == RT_GUEST_JOINING && guest->echo.done && rt_talk_idle(&guest->talk))
        guest_settle(guest);
    return true;
}

/* ---- time ---- */

void rt_guests_expire(struct rt_guests *guests, double now) {
    struct rt_error why;
    for (size_t i = 0; i < RT_GUESTS; i++) {
        struct rt_guest *guest = &guests->guest[i];
        if (guest->state == RT_GUEST_NONE || guest->until > now ||
            guests->host.late(guests->host.user, guest))
            continue;
        const char *peer = guest->talk.link->peer;
        if (guest->state == RT_GUEST_NEW) {
            rt_tell(guests->teller, RT_ABOUT_CALLERS, "%s was dropped: it was silent for %g s", peer,
                    hello_seconds);
        } else if (guest->state == RT_GUEST_JOINING) {
            rt_fail(&why, RT_FAILED, "%s did not complete its link", peer);
            guests->host.link_lost(guests->host.user, &why);
        }
        rt_guest_drop(guest);
    }
}

double rt_guests_deadline(const struct rt_guests *guests) {
    double first = INFINITY;
    for (size_t i = 0; i < RT_GUESTS; i++)
        if (guests->guest[i].state != RT_GUEST_NONE && guests->guest[i].until < first)
            first = guests->guest[i].until;
    return first;
}
