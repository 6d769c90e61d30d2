/*
 * A conversation over one link: messages on the control channel, one received at a time, with memory that is
 * taken once. Used by the master and the nodes while a cluster is formed, and by neighbours in a ring for
 * what is not a tensor.
 */
#ifndef RT_CLUSTER_TALK_H
#define RT_CLUSTER_TALK_H

#include "net/transport.h"
#include "wire/message.h"

enum { RT_TALK_SENDS = 4 };

struct rt_talk {
    struct rt_link *link; /* NULL: none, or closed */
    uint32_t run;         /* messages of another run are refused once it is set; 0: any */

    struct rt_message message; /* what came last */
    const uint8_t *body;       /* its body, good until rt_talk_next */
    size_t body_bytes;
    bool ready;            /* there is a message */
    bool dead;             /* nothing more will come: the link is gone, or sent invalid data: */
    bool closed;           /* the former: nothing can be sent either */
    struct rt_error error; /* why; does not name the peer */

    struct rt_receive receive;
    struct rt_send sends[RT_TALK_SENDS];
    bool sending[RT_TALK_SENDS];
    uint8_t *memory;
};

/* Takes memory and posts the first receive; link->user becomes the talk, which must stay where it is. The
 * talk closes the link when it is closed itself; after a failure the link is still the caller's. */
rt_status rt_talk_open(struct rt_link *link, struct rt_talk *talk, struct rt_error *err);
void rt_talk_close(struct rt_talk *talk); /* a zeroed one is fine */

/* Ends the conversation but not the link, which is given back. Only when rt_talk_idle. */
struct rt_link *rt_talk_release(struct rt_talk *talk);
/* Whether nothing is posted: the message that came last has not been left by rt_talk_next, and all sends are
 * done. */
bool rt_talk_idle(const struct rt_talk *talk);

/* Whether the event was one of this conversation; if so it has been taken in. */
bool rt_talk_event(struct rt_talk *talk, const struct rt_event *event);

/* Done with the message: makes room for the next. */
void rt_talk_next(struct rt_talk *talk);

/* Memory for the body of a message to be sent, RT_MAX_CONTROL bytes; NULL while all sends are under way. */
uint8_t *rt_talk_body(struct rt_talk *talk);
/* Sends a message with the first body_bytes of that memory. type and flags as given, run as set. */
void rt_talk_send(struct rt_talk *talk, const struct rt_message *message, size_t body_bytes);

/* Sends a refusal, or the reason why a run ends. node: the one it is about. */
void rt_talk_refuse(struct rt_talk *talk, rt_status status, uint16_t node, const char *sentence);
/* Refuses a new caller, which may call again; or ends a view of a run that goes on (RT_FLAG_AGAIN). */
void rt_talk_put_off(struct rt_talk *talk, uint16_t node, const char *sentence);

/* RT_OK when the message is of the type that was expected. Otherwise a sentence that begins with who: the
 * peer's own one if it sent an error. */
rt_status rt_talk_expect(const struct rt_talk *talk, uint16_t type, const char *who, struct rt_error *err);

#endif
