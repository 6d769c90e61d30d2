/* A node is given its part of the work, and says when it is ready for it. */
#include "base/memory.h"
#include "wire/bytes.h"
#include "wire/message.h"
#include "wire/tree.h"
#include <stdlib.h>

enum { NODE_BYTES = 3 * 4 };

size_t rt_assign_encode(const struct rt_assign *assign, uint8_t *bytes, size_t room) {
    struct rt_writer writer = {.bytes = bytes, .room = room, .full = assign->nodes > RT_MAX_NODES};
    rt_write_u16(&writer, assign->index);
    rt_write_u32(&writer, (uint32_t)assign->nodes);
    for (size_t i = 0; i < assign->nodes && !writer.full; i++) {
        rt_write_u32(&writer, assign->node[i].first);
        rt_write_u32(&writer, assign->node[i].count);
        rt_write_u32(&writer, assign->node[i].slots);
    }
    rt_write_tree(&writer, assign->job);
    return rt_writer_end(&writer);
}

rt_status rt_assign_decode(const uint8_t *bytes, size_t count, struct rt_assign *assign,
                           struct rt_error *err) {
    struct rt_reader reader = {.name = "assign", .bytes = bytes, .count = count, .err = err};
    struct rt_assign made = {0};
    made.index = rt_read_u16(&reader);
    made.nodes = rt_read_count(&reader, "nodes", RT_MAX_NODES, NODE_BYTES);
    if (made.index >= made.nodes)
        rt_reader_refuse(&reader, "is for node %u, counted from 0, of %zu", made.index, made.nodes);
    if (reader.status == RT_OK)
        reader.status = rt_alloc(made.nodes, sizeof *made.node, "the parts of the nodes", &made.node, err);
    for (size_t i = 0; i < made.nodes && reader.status == RT_OK; i++) {
        struct rt_assigned_node *node = &made.node[i];
        node->first = rt_read_u32(&reader);
        node->count = rt_read_u32(&reader);
        node->slots = rt_read_u32(&reader);
        if (node->first > RT_MAX_LAYERS || node->count > RT_MAX_LAYERS - node->first)
            rt_reader_refuse(&reader, "gives node %zu layers beyond number %d", i, RT_MAX_LAYERS);
    }
    made.job = rt_read_tree(&reader, RT_TREE_FILE);
    rt_status status = rt_reader_end(&reader);
    if (status == RT_OK)
        *assign = made;
    else
        rt_assign_deinit(&made);
    return status;
}

void rt_assign_deinit(struct rt_assign *assign) {
    free(assign->node);
    rt_tree_destroy(assign->job);
    assign->node = NULL;
    assign->job = NULL;
    assign->nodes = 0;
}

size_t rt_ready_encode(const struct rt_ready *ready, uint8_t *bytes, size_t room) {
    struct rt_writer writer = {.bytes = bytes, .room = room};
    rt_write_u64(&writer, ready->memory);
    return rt_writer_end(&writer);
}

rt_status rt_ready_decode(const uint8_t *bytes, size_t count, struct rt_ready *ready, struct rt_error *err) {
    struct rt_reader reader = {.name = "ready", .bytes = bytes, .count = count, .err = err};
    struct rt_ready made = {.memory = rt_read_u64(&reader)};
    rt_status status = rt_reader_end(&reader);
    if (status == RT_OK)
        *ready = made;
    return status;
}
