/* ASSIGN gives a node its part of the work; READY is its answer. */
#include "base/memory.h"
#include "wire/bytes.h"
#include "wire/message.h"
#include "wire/tree.h"
#include <stdlib.h>

enum { NODE_BYTES = 3 * 4 + 2 };

size_t rt_assign_encode(const struct rt_assign *assign, uint8_t *bytes, size_t room) {
    struct rt_encoder encoder = {.bytes = bytes, .room = room, .full = assign->nodes > RT_MAX_NODES};
    rt_write_u16(&encoder, assign->index);
    rt_write_u32(&encoder, assign->view);
    rt_write_u64(&encoder, assign->version);
    rt_write_u32(&encoder, (uint32_t)assign->nodes);
    for (size_t i = 0; i < assign->nodes && !encoder.full; i++) {
        rt_write_u32(&encoder, assign->node[i].first);
        rt_write_u32(&encoder, assign->node[i].count);
        rt_write_u32(&encoder, assign->node[i].slots);
    }
    for (size_t i = 0; i < assign->nodes && !encoder.full; i++)
        rt_write_text(&encoder, assign->name ? assign->name[i] : "");
    rt_write_tree(&encoder, assign->job);
    return rt_encoder_end(&encoder);
}

static void assign_read_names(struct rt_decoder *decoder, struct rt_assign *made) {
    if (decoder->status == RT_OK)
        decoder->status =
            rt_alloc(made->nodes, sizeof *made->name, "the names of the nodes", &made->name, decoder->err);
    for (size_t i = 0; i < made->nodes && decoder->status == RT_OK; i++)
        rt_read_name(decoder, made->name[i]);
}

rt_status rt_assign_decode(const uint8_t *bytes, size_t count, struct rt_assign *assign,
                           struct rt_error *err) {
    struct rt_decoder decoder = {.name = "assign", .bytes = bytes, .count = count, .err = err};
    struct rt_assign made = {0};
    made.index = rt_read_u16(&decoder);
    made.view = rt_read_view(&decoder);
    made.version = rt_read_u64(&decoder);
    made.nodes = rt_read_count(&decoder, "nodes", RT_MAX_NODES, NODE_BYTES);
    if (made.index >= made.nodes)
        rt_decoder_refuse(&decoder, "is for node %u, counted from 0, of %zu", made.index, made.nodes);
    if (decoder.status == RT_OK)
        decoder.status = rt_alloc(made.nodes, sizeof *made.node, "the parts of the nodes", &made.node, err);
    for (size_t i = 0; i < made.nodes && decoder.status == RT_OK; i++) {
        struct rt_assigned_node *node = &made.node[i];
        node->first = rt_read_u32(&decoder);
        node->count = rt_read_u32(&decoder);
        node->slots = rt_read_u32(&decoder);
        if (node->first > RT_MAX_LAYERS || node->count > RT_MAX_LAYERS - node->first)
            rt_decoder_refuse(&decoder, "gives node %zu layers beyond number %d", i, RT_MAX_LAYERS);
    }
    assign_read_names(&decoder, &made);
    made.job = rt_read_tree(&decoder, RT_TREE_FILE);
    rt_status status = rt_decoder_end(&decoder);
    if (status == RT_OK)
        *assign = made;
    else
        rt_assign_deinit(&made);
    return status;
}

void rt_assign_deinit(struct rt_assign *assign) {
    free(assign->node);
    free(assign->name);
    rt_tree_destroy(assign->job);
    assign->node = NULL;
    assign->name = NULL;
    assign->job = NULL;
    assign->nodes = 0;
}

size_t rt_ready_encode(const struct rt_ready *ready, uint8_t *bytes, size_t room) {
    struct rt_encoder encoder = {.bytes = bytes, .room = room};
    rt_write_u64(&encoder, ready->memory);
    return rt_encoder_end(&encoder);
}

rt_status rt_ready_decode(const uint8_t *bytes, size_t count, struct rt_ready *ready, struct rt_error *err) {
    struct rt_decoder decoder = {.name = "ready", .bytes = bytes, .count = count, .err = err};
    struct rt_ready made = {.memory = rt_read_u64(&decoder)};
    rt_status status = rt_decoder_end(&decoder);
    if (status == RT_OK)
        *ready = made;
    return status;
}
