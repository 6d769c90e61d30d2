/* A master's guests; see door.h. */
#include "cluster/door.h"

#include "base/memory.h"
#include "cluster/cluster_inside.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Nodes that wait, which is as many as cluster.wait_nodes may ask for; the rest of the guests is left to
 * links of the run and to those that are nobody yet. */
enum { DOOR_OFFERS = RT_GUESTS_HEARD / 2 };

size_t rt_door_offers(const struct rt_door *door) {
    size_t count = 0;
    for (size_t i = 0; i < RT_GUESTS; i++)
        count += door->guests.guest[i].state == RT_GUEST_OFFERING;
    return count;
}

/* ---- who has come ---- */

static struct rt_guest *door_find_other(struct rt_door *door, const struct rt_guest *than,
                                        const uint8_t *token) {
    for (size_t i = 0; i < RT_GUESTS; i++) {
        struct rt_guest *guest = &door->guests.guest[i];
        if (guest != than && guest->state == RT_GUEST_OFFERING &&
            memcmp(guest->token, token, sizeof guest->token) == 0)
            return guest;
    }
    return NULL;
}

/* Its HELLO is not left, so that nothing is posted while it waits. */
static void door_take_offer(struct rt_door *door, struct rt_guest *guest, const struct rt_hello *hello) {
    struct rt_guest *before = door_find_other(door, guest, hello->token);
    if (before) /* the node has missed the end of that connection, or we have */
        rt_guest_drop(before);
    if (rt_door_offers(door) >= DOOR_OFFERS) {
        rt_guest_put_off(&door->guests, guest, "the master has no room for more nodes that wait");
        return;
    }
    guest->state = RT_GUEST_OFFERING;
    guest->until = INFINITY;
    guest->port = hello->label;
    memcpy(guest->token, hello->token, sizeof guest->token);
}

static void door_welcome(struct rt_door *door, struct rt_guest *guest) {
    struct rt_welcome welcome = {.name = "master"};
    memcpy(welcome.answer, door->cluster->answer, sizeof welcome.answer);
    snprintf(welcome.version, sizeof welcome.version, "%s", RT_VERSION);
    const size_t bytes = rt_welcome_encode(&welcome, rt_talk_body(&guest->talk), RT_MAX_CONTROL);
    rt_talk_send(&guest->talk, &(struct rt_message){.type = RT_MESSAGE_WELCOME}, bytes);
    rt_talk_next(&guest->talk);
}

static void door_take_link(struct rt_door *door, struct rt_guest *guest, const struct rt_hello *hello) {
    const struct rt_cluster *cluster = door->cluster;
    if (!door->slot || *door->slot || rt_guests_make(&door->guests, door->slot) ||
        guest->talk.message.run != cluster->run || !rt_token_equal(cluster->token, hello->token) ||
        hello->view != cluster->view || hello->from != door->from || hello->label != door->label) {
        rt_guest_refuse(&door->guests, guest, RT_FAILED, "the master does not expect this link");
        return;
    }
    rt_guest_join(&door->guests, guest, cluster->run, door->slot);
    door_welcome(door, guest);
}

static void door_hear_hello(void *user, struct rt_guest *guest) {
    struct rt_door *door = user;
    struct rt_hello hello;
    struct rt_error err;
    rt_status status = rt_guest_read_hello(guest, &hello, &err);
    if (status == RT_OK && hello.role == RT_ROLE_MASTER)
        status = rt_fail(&err, RT_BAD_INPUT, "this is the master of a run, and not a node");
    if (status != RT_OK)
        rt_guest_refuse(&door->guests, guest, status, "%s", err.text);
    else if (hello.role == RT_ROLE_OFFER)
        door_take_offer(door, guest, &hello);
    else
        door_take_link(door, guest, &hello);
}

/* ---- what becomes of them ---- */

static void door_hear_nothing(void *user, struct rt_guest *guest) {
    (void)user, (void)guest;
}

static bool door_lose(void *user, struct rt_guest *guest) {
    (void)user;
    if (guest->state != RT_GUEST_OFFERING)
        return false;
    rt_guest_drop(guest);
    return true;
}

static bool door_expire(void *user, struct rt_guest *guest) {
    (void)user, (void)guest;
    return false;
}

static void door_lose_link(void *user, const struct rt_error *why) {
    ((struct rt_door *)user)->lost = *why;
}

static bool door_is_member(const struct rt_door *door, const struct rt_guest *guest) {
    const struct rt_cluster *cluster = door->cluster;
    for (size_t i = 0; i < cluster->count; i++)
        if (cluster->members[i].joins && !rt_cluster_is_free(&cluster->members[i]) &&
            memcmp(cluster->members[i].own, guest->token, sizeof guest->token) == 0)
            return true;
    return false;
}

struct rt_guest *rt_door_find(struct rt_door *door, const uint8_t *token) {
    if (token)
        return door_find_other(door, NULL, token);
    for (size_t i = 0; i < RT_GUESTS; i++) {
        struct rt_guest *guest = &door->guests.guest[i];
        if (guest->state == RT_GUEST_OFFERING && !door_is_member(door, guest))
            return guest;
    }
    return NULL;
}

/* Where others connect to it: at the address that we see, with the port that it has named. */
static void door_note_address(const struct rt_guest *guest, struct rt_member *member) {
    const char *peer = guest->talk.link->peer, *colon = strrchr(peer, ':');
    const int host = colon ? (int)(colon - peer) : (int)strlen(peer);
    member->hidden = guest->port == 0;
    if (member->hidden)
        snprintf(member->address, sizeof member->address, "%s", peer);
    else
        snprintf(member->address, sizeof member->address, "%.*s:%u", host, peer, guest->port);
}

rt_status rt_door_take(struct rt_door *door, struct rt_guest *guest, struct rt_member *member,
                       struct rt_error *err) {
    (void)door;
    door_note_address(guest, member);
    memcpy(member->own, guest->token, sizeof member->own);
    struct rt_link *link = rt_talk_release(&guest->talk);
    rt_guest_drop(guest);
    const rt_status status = rt_talk_open(link, &member->talk, err);
    if (status != RT_OK)
        rt_link_close(link);
    return status;
}

void rt_door_expect(struct rt_door *door, uint16_t from, uint16_t label, struct rt_link **slot) {
    door->from = from;
    door->label = label;
    door->slot = slot;
    door->lost.text[0] = 0;
    if (!slot)
        rt_guests_drop_joining(&door->guests);
}

/* ---- its life ---- */

bool rt_door_event(struct rt_door *door, const struct rt_event *event) {
    if (event->kind != RT_EVENT_ACCEPTED)
        return rt_guests_event(&door->guests, event);
    rt_guests_accept(&door->guests, event->link);
    return true;
}

void rt_door_check(struct rt_door *door) {
    rt_guests_expire(&door->guests, rt_endpoint_now(door->cluster->endpoint));
}

rt_status rt_door_open(struct rt_cluster *cluster, const char *given, struct rt_door **door,
                       struct rt_error *err) {
    char address[RT_MAX_TEXT + 1];
    struct rt_door *made;
    RT_TRY(rt_cluster_address(given, address, err));
    if (!cluster->endpoint->address[0]) /* it is the same one where a cluster is opened again */
        RT_TRY(rt_endpoint_listen(cluster->endpoint, address, err));
    RT_TRY(rt_alloc(1, sizeof *made, "the guests of the master", &made, err));
    const struct rt_host host = {.name = "the master",
                                 .index = &made->index,
                                 .user = made,
                                 .hello = door_hear_hello,
                                 .message = door_hear_nothing,
                                 .lost = door_lose,
                                 .late = door_expire,
                                 .link_lost = door_lose_link};
    made->cluster = cluster;
    rt_teller_init(&made->teller, cluster->endpoint, NULL, NULL);
    rt_guests_init(&made->guests, cluster->endpoint, &made->teller, &host);
    *door = made;
    return RT_OK;
}

void rt_door_close(struct rt_door *door) {
    if (!door)
        return;
    rt_guests_deinit(&door->guests);
    free(door);
}
