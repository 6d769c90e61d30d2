/*
 * A node that offers itself: it connects to a master, and waits for the master to greet it there, as it would
 * on a connection of its own. Whenever that conversation has ended and the node has no work, it makes the
 * next one: so it is there for the next view, for the next run, and for a master that is started again.
 */
#include "cluster/node_inside.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

/* Seconds in which a connection is tried; between the end of one and the next, doubled each time. */
static const double dial_seconds = 10, first_pause = 0.1, longest_pause = 2;

rt_status rt_offer_init(struct rt_node *node, struct rt_error *err) {
    node->offer.pause = first_pause;
    if (getrandom(node->offer.token, sizeof node->offer.token, 0) != sizeof node->offer.token)
        return rt_fail(err, RT_FAILED, "no random numbers for a node: %s", strerror(errno));
    return RT_OK;
}

void rt_offer_again(struct rt_node *node) {
    node->offer.made = false;
    node->offer.pause = first_pause;
    node->offer.at = 0;
}

/* Said once, until a master has answered. */
static void offer_tell(struct rt_node *node, const char *why) {
    if (!node->offer.told)
        rt_tell(&node->teller, RT_ABOUT_CALLERS, "cannot join %s: %s; trying again", node->settings->join,
                why);
    node->offer.told = true;
}

/* The port at the end of the address that it listens at. */
static uint16_t offer_port(const struct rt_endpoint *endpoint) {
    const char *colon = strrchr(endpoint->address, ':');
    return colon ? (uint16_t)strtoul(colon + 1, NULL, 10) : 0;
}

static void offer_say(struct rt_node *node, struct rt_guest *guest) {
    struct rt_hello hello = {.role = RT_ROLE_OFFER, .label = offer_port(node->endpoint), .view = 1};
    memcpy(hello.token, node->offer.token, sizeof hello.token);
    memcpy(hello.answer, node->settings->answer, sizeof hello.answer);
    snprintf(hello.version, sizeof hello.version, "%s", RT_VERSION);
    const size_t bytes = rt_hello_encode(&hello, rt_talk_body(&guest->talk), RT_MAX_CONTROL);
    rt_talk_send(&guest->talk, &(struct rt_message){.type = RT_MESSAGE_HELLO}, bytes);
}

static void offer_make(struct rt_node *node) {
    struct rt_link *link;
    struct rt_error err;
    const double until = rt_endpoint_now(node->endpoint) + dial_seconds;
    struct rt_guest *guest = NULL;
    node->offer.made = true;
    if (rt_endpoint_connect(node->endpoint, node->settings->join, until, &link, &err) != RT_OK)
        offer_tell(node, err.text);
    else
        guest = rt_guests_dial(&node->guests, link);
    if (guest)
        offer_say(node, guest);
}

/* The one before has ended. */
static void offer_wait(struct rt_node *node) {
    struct rt_offer *offer = &node->offer;
    offer->made = false;
    offer->at = rt_endpoint_now(node->endpoint) + offer->pause;
    offer->pause = fmin(2 * offer->pause, longest_pause);
}

void rt_offer_check(struct rt_node *node) {
    struct rt_offer *offer = &node->offer;
    if (!node->settings->join || rt_guests_dialled(&node->guests))
        return;
    if (offer->made)
        offer_wait(node);
    if (rt_endpoint_now(node->endpoint) >= offer->at)
        offer_make(node);
    if (offer->made && !rt_guests_dialled(&node->guests))
        offer_wait(node);
}

double rt_offer_deadline(struct rt_node *node) {
    return node->settings->join && !rt_guests_dialled(&node->guests) ? node->offer.at : INFINITY;
}

bool rt_offer_lost(struct rt_node *node, struct rt_guest *guest) {
    if (guest->state != RT_GUEST_OFFERING)
        return false;
    offer_tell(node, guest->talk.error.text);
    rt_guest_drop(guest);
    return true;
}

bool rt_offer_message(struct rt_node *node, struct rt_guest *guest) {
    struct rt_error why;
    if (guest->talk.message.type == RT_MESSAGE_HELLO) {
        node->offer.told = false;
        return false;
    }
    (void)rt_talk_expect(&guest->talk, RT_MESSAGE_HELLO, "the master", &why);
    offer_tell(node, why.text);
    rt_guest_drop(guest);
    return true;
}
