/*
 * A link between two nodes while it is made: one end dials, the other has accepted and echoes. The dialling
 * end greets (hello, welcome). To measure the link, it then sends a few small messages (join), each of which
 * is answered (joined). The last of them announces frames of at most probe_bytes, which it sends one by one
 * on the bulk channel, each answered likewise. It ends with its own joined, which has the measurements. The
 * first frame is small, and the others are as large as the link can carry in a moment: so a slow link is
 * measured in time as well. Afterwards nothing is posted on either end, and the link can be taken over.
 */
#ifndef RT_CLUSTER_DIAL_H
#define RT_CLUSTER_DIAL_H

#include "cluster/talk.h"

enum {
    RT_DIAL_PINGS = 6,  /* at most */
    RT_DIAL_PROBES = 4, /* frames, always */
    RT_DIAL_FIRST_PROBE = 256,
    RT_DIAL_MAX_PROBE = 4 << 20, /* bytes of a frame; larger wishes are cut to it */
};

struct rt_dial_settings {
    const char *address;
    struct rt_hello hello;
    uint32_t run;
    uint16_t to;          /* index of the node dialled */
    uint32_t probe_bytes; /* 0: the link is not measured */
    double until;         /* when to give up */
};

enum rt_dial_stage {
    RT_DIAL_IDLE,
    RT_DIAL_HELLO,
    RT_DIAL_PING,
    RT_DIAL_ANNOUNCE,
    RT_DIAL_PROBE,
    RT_DIAL_LAST, /* the last message is on its way */
    RT_DIAL_DONE, /* the link can be taken */
    RT_DIAL_FAILED,
};

struct rt_dial {
    enum rt_dial_stage stage;
    struct rt_error error;     /* FAILED: why */
    double latency, bandwidth; /* DONE: as measured, or 0 */
    struct rt_welcome welcome; /* from HELLO on: the peer's answer */

    double until;                     /* when it fails if it is not DONE by then */
    struct rt_dial_settings settings; /* from here on its own; address is not kept */
    struct rt_endpoint *endpoint;
    struct rt_talk talk;
    unsigned left;     /* of the stage */
    double began;      /* PING: when the first went */
    double sent, best; /* when the last message went; the shortest answer of this stage, to this size */
    double round_trip;
    uint32_t frame_bytes; /* PROBE: of the next frame, or the one on its way */
    struct rt_send frame;
    bool framing; /* it is on its way */
    uint8_t *memory;
};

/* The dial must stay where it is until it is finished. */
rt_status rt_dial_start(struct rt_endpoint *endpoint, const struct rt_dial_settings *settings,
                        struct rt_dial *dial, struct rt_error *err);
/* Whether the event was one of this link's; it may move the stage on. */
bool rt_dial_event(struct rt_dial *dial, const struct rt_event *event);
void rt_dial_check(struct rt_dial *dial);           /* fails it when its time, dial->until, is over */
struct rt_link *rt_dial_take(struct rt_dial *dial); /* of one that is DONE */
void rt_dial_cancel(struct rt_dial *dial);          /* at any time; a zeroed one is fine */

/* The other end's memory for the frames; used with the talk that has greeted. */
struct rt_echo {
    struct rt_receive receive;
    uint32_t bytes;
    unsigned left;
    bool done; /* the last message has come */
    uint8_t *memory;
};

/* Answers what the talk has received (talk->ready). Once done is set and rt_talk_idle, the link can be taken
 * by rt_talk_release. */
rt_status rt_echo_message(struct rt_echo *echo, struct rt_talk *talk, uint16_t own, struct rt_error *err);
/* Whether the event was a frame of the probe. */
bool rt_echo_event(struct rt_echo *echo, struct rt_talk *talk, uint16_t own, const struct rt_event *event);
void rt_echo_deinit(struct rt_echo *echo); /* after its talk was closed or released */

#endif
