/* SETTLE tells a node its index, and which links it will have. */
#include "base/memory.h"
#include "wire/bytes.h"
#include "wire/message.h"
#include <stdlib.h>

enum { LINK_BYTES = 2 * 2 };

size_t rt_settle_encode(const struct rt_settle *settle, uint8_t *bytes, size_t room) {
    struct rt_encoder encoder = {.bytes = bytes, .room = room, .full = settle->links > RT_MAX_LINKS};
    rt_write_u16(&encoder, settle->index);
    rt_write_u16(&encoder, settle->count);
    rt_write_u32(&encoder, settle->view);
    rt_write_u32(&encoder, (uint32_t)settle->links);
    for (size_t i = 0; i < settle->links && !encoder.full; i++) {
        rt_write_u16(&encoder, settle->link[i].peer);
        rt_write_u16(&encoder, settle->link[i].label);
    }
    return rt_encoder_end(&encoder);
}

/* At most one next, one previous, and one link of the mesh with each node. */
static void settle_check_links(struct rt_decoder *decoder, const struct rt_settle *settle) {
    bool has_next = false, has_previous = false, with[RT_MAX_NODES] = {false};
    for (size_t i = 0; i < settle->links && decoder->status == RT_OK; i++) {
        const struct rt_settle_link *link = &settle->link[i];
        bool *seen = NULL;
        if (link->peer >= settle->count || link->peer == settle->index) {
            rt_decoder_refuse(decoder, "gives node %u of %u, counted from 0, a link with node %u",
                              settle->index, settle->count, link->peer);
            return;
        }
        switch (link->label) {
        case RT_LABEL_NEXT:
            seen = &has_next;
            break;
        case RT_LABEL_PREVIOUS:
            seen = &has_previous;
            break;
        case RT_LABEL_MESH:
            seen = &with[link->peer];
            break;
        default:
            rt_decoder_refuse(decoder, "has a link with unknown label %u", link->label);
            return;
        }
        if (*seen)
            rt_decoder_refuse(decoder, "gives a node two links that are the same");
        *seen = true;
    }
}

rt_status rt_settle_decode(const uint8_t *bytes, size_t count, struct rt_settle *settle,
                           struct rt_error *err) {
    struct rt_decoder decoder = {.name = "settle", .bytes = bytes, .count = count, .err = err};
    struct rt_settle made = {0};
    made.index = rt_read_u16(&decoder);
    made.count = rt_read_u16(&decoder);
    made.view = rt_read_view(&decoder);
    if (made.count > RT_MAX_NODES)
        rt_decoder_refuse(&decoder, "has %u nodes; the maximum is %d", made.count, RT_MAX_NODES);
    if (made.index == 0 || made.index >= made.count)
        rt_decoder_refuse(&decoder, "is for node %u, counted from 0, of %u: only the other nodes get one",
                          made.index, made.count);
    made.links = rt_read_count(&decoder, "links", RT_MAX_LINKS, LINK_BYTES);
    if (made.links == 0)
        rt_decoder_refuse(&decoder, "gives a node no link");
    if (decoder.status == RT_OK)
        decoder.status = rt_alloc(made.links, sizeof *made.link, "the links of a node", &made.link, err);
    for (size_t i = 0; i < made.links && decoder.status == RT_OK; i++) {
        made.link[i].peer = rt_read_u16(&decoder);
        made.link[i].label = rt_read_u16(&decoder);
    }
    if (decoder.status == RT_OK)
        settle_check_links(&decoder, &made);
    rt_status status = rt_decoder_end(&decoder);
    if (status == RT_OK)
        *settle = made;
    else
        rt_settle_deinit(&made);
    return status;
}

void rt_settle_deinit(struct rt_settle *settle) {
    free(settle->link);
    *settle = (struct rt_settle){0};
}
