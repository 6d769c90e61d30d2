/* Messages over one link; see talk.h. */
#include "cluster/talk.h"

#include "base/sentence.h"
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

enum { MEMORY = (1 + RT_TALK_SENDS) * RT_MAX_CONTROL };

static void talk_post(struct rt_talk *talk) {
    talk->receive = (struct rt_receive){
        .channel = RT_CHANNEL_CONTROL, .body = talk->memory, .body_room = RT_MAX_CONTROL, .user = talk};
    rt_link_receive(talk->link, &talk->receive);
}

rt_status rt_talk_open(struct rt_link *link, struct rt_talk *talk, struct rt_error *err) {
    /* Mapped, because most of it is never touched: it costs addresses, not memory. */
    void *memory = mmap(NULL, MEMORY, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return rt_fail(err, RT_NO_MEMORY, "not enough memory for a conversation with %s", link->peer);
    *talk = (struct rt_talk){.link = link, .memory = memory};
    link->user = talk;
    talk_post(talk);
    return RT_OK;
}

void rt_talk_close(struct rt_talk *talk) {
    rt_link_close(talk->link);
    if (talk->memory)
        munmap(talk->memory, MEMORY);
    *talk = (struct rt_talk){0};
}

bool rt_talk_idle(const struct rt_talk *talk) {
    for (size_t i = 0; i < RT_TALK_SENDS; i++)
        if (talk->sending[i])
            return false;
    return talk->ready;
}

struct rt_link *rt_talk_release(struct rt_talk *talk) {
    struct rt_link *link = talk->link;
    link->user = NULL;
    link->formed = link->counts;
    talk->link = NULL;
    rt_talk_close(talk);
    return link;
}

/* Nothing that was said after this counts. */
static void talk_die(struct rt_talk *talk, const struct rt_error *why) {
    talk->dead = true;
    talk->error = *why;
}

static void talk_take(struct rt_talk *talk) {
    const struct rt_receive *receive = &talk->receive;
    struct rt_error err;
    rt_status status =
        rt_message_decode(receive->head, receive->head_bytes, receive->body_bytes, &talk->message, &err);
    /* A node that refuses a link may not know the run. */
    bool any_run = !talk->run || (talk->message.type == RT_MESSAGE_ERROR && talk->message.run == 0);
    if (status == RT_OK && !any_run && talk->message.run != talk->run)
        status = rt_fail(&err, RT_BAD_INPUT, "sent a message (%s) of another run",
                         rt_message_name(talk->message.type));
    if (status != RT_OK) {
        talk_die(talk, &err);
        return;
    }
    talk->body = talk->memory;
    talk->body_bytes = receive->body_bytes;
    talk->ready = true;
}

bool rt_talk_event(struct rt_talk *talk, const struct rt_event *event) {
    if (!talk->link || event->link != talk->link)
        return false;
    switch (event->kind) {
    case RT_EVENT_RECEIVED:
        if (event->receive != &talk->receive)
            return false;
        talk_take(talk);
        return true;
    case RT_EVENT_SENT:
        for (size_t i = 0; i < RT_TALK_SENDS; i++)
            if (event->send == &talk->sends[i]) {
                talk->sending[i] = false;
                return true;
            }
        return false;
    case RT_EVENT_CLOSED:
        talk->closed = true;
        memset(talk->sending, 0, sizeof talk->sending);
        if (!talk->dead)
            talk_die(talk, &event->error);
        return true;
    case RT_EVENT_CONNECTED:
        return true;
    default:
        break;
    }
    return false;
}

void rt_talk_next(struct rt_talk *talk) {
    if (!talk->ready)
        return;
    talk->ready = false;
    if (!talk->dead)
        talk_post(talk);
}

static size_t talk_free_send(const struct rt_talk *talk) {
    size_t i = 0;
    while (i < RT_TALK_SENDS && talk->sending[i])
        i++;
    return i;
}

uint8_t *rt_talk_body(struct rt_talk *talk) {
    size_t i = talk_free_send(talk);
    return i < RT_TALK_SENDS ? talk->memory + (1 + i) * RT_MAX_CONTROL : NULL;
}

void rt_talk_send(struct rt_talk *talk, const struct rt_message *message, size_t body_bytes) {
    size_t i = talk_free_send(talk);
    if (talk->closed)
        return;
    if (i == RT_TALK_SENDS) {
        struct rt_error err;
        rt_fail(&err, RT_FAILED, "does not read what is sent to it");
        if (!talk->dead)
            talk_die(talk, &err);
        return;
    }
    struct rt_message whole = *message;
    whole.run = talk->run;
    struct rt_send *send = &talk->sends[i];
    send->channel = RT_CHANNEL_CONTROL;
    send->head_bytes = RT_MESSAGE_HEAD;
    rt_message_encode(&whole, send->head);
    send->body[0] = (struct rt_piece){talk->memory + (1 + i) * RT_MAX_CONTROL, body_bytes};
    send->body[1] = (struct rt_piece){NULL, 0};
    send->user = talk;
    talk->sending[i] = true;
    rt_link_send(talk->link, send);
}

static void talk_say_error(struct rt_talk *talk, uint16_t flags, rt_status status, uint16_t node,
                           const char *sentence) {
    uint8_t *body = rt_talk_body(talk);
    if (!body)
        return;
    struct rt_error_message error = {.status = (uint16_t)status, .node = node};
    rt_copy_sentence(error.text, sizeof error.text, sentence);
    size_t bytes = rt_error_encode(&error, body, RT_MAX_CONTROL);
    rt_talk_send(talk, &(struct rt_message){.type = RT_MESSAGE_ERROR, .flags = flags, .source = node}, bytes);
}

void rt_talk_refuse(struct rt_talk *talk, rt_status status, uint16_t node, const char *sentence) {
    talk_say_error(talk, 0, status, node, sentence);
}

void rt_talk_put_off(struct rt_talk *talk, uint16_t node, const char *sentence) {
    talk_say_error(talk, RT_FLAG_AGAIN, RT_FAILED, node, sentence);
}

rt_status rt_talk_expect(const struct rt_talk *talk, uint16_t type, const char *who, struct rt_error *err) {
    if (talk->message.type == type)
        return RT_OK;
    struct rt_error_message error;
    struct rt_error detail;
    if (talk->message.type != RT_MESSAGE_ERROR)
        return rt_fail(err, RT_FAILED, "%s: sent '%s' where '%s' was expected", who,
                       rt_message_name(talk->message.type), rt_message_name(type));
    rt_status status = rt_error_decode(talk->body, talk->body_bytes, &error, &detail);
    if (status != RT_OK)
        return rt_fail(err, status, "%s: %s", who, detail.text);
    /* That it was interrupted is no wish of our own user's. */
    status = error.status == RT_INTERRUPTED ? RT_FAILED : (rt_status)error.status;
    return rt_fail(err, status, "%s: %s", who, error.text);
}
