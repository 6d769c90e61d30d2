/* Blocks, mappings and growing buffers; see store.h. */
#include "data/store.h"

#include "base/memory.h"
#include <stdlib.h>
#include <string.h>

rt_status rt_store_create(struct rt_data_store **store, struct rt_error *err) {
    return rt_alloc(1, sizeof **store, "a data set", store, err);
}

void rt_store_destroy(struct rt_data_store *store) {
    if (!store)
        return;
    for (size_t i = 0; i < store->block_count; i++)
        free(store->blocks[i]);
    for (size_t i = 0; i < store->map_count; i++)
        rt_map_close(&store->maps[i]);
    free(store->blocks);
    free(store->maps);
    free(store);
}

rt_status rt_store_keep(struct rt_data_store *store, void *block, struct rt_error *err) {
    void **blocks = realloc(store->blocks, (store->block_count + 1) * sizeof *blocks);
    if (!blocks) {
        free(block);
        return rt_fail(err, RT_NO_MEMORY, "not enough memory for a data set");
    }
    store->blocks = blocks;
    store->blocks[store->block_count++] = block;
    return RT_OK;
}

rt_status rt_store_keep_map(struct rt_data_store *store, struct rt_map *map, struct rt_error *err) {
    struct rt_map *maps = realloc(store->maps, (store->map_count + 1) * sizeof *maps);
    if (!maps) {
        rt_map_close(map);
        return rt_fail(err, RT_NO_MEMORY, "not enough memory for a data set");
    }
    store->maps = maps;
    store->maps[store->map_count++] = *map;
    *map = (struct rt_map){.data = NULL};
    return RT_OK;
}

rt_status rt_store_alloc(struct rt_data_store *store, size_t count, size_t size, const char *what,
                         void *pointer_to_pointer, struct rt_error *err) {
    void *block;
    rt_status status = rt_alloc(count, size, what, &block, err);
    if (status == RT_OK)
        status = rt_store_keep(store, block, err);
    if (status == RT_OK)
        memcpy(pointer_to_pointer, &block, sizeof block);
    return status;
}

rt_status rt_store_names(struct rt_data_store *store, const char *const *names, size_t count,
                         const char *const **copy, struct rt_error *err) {
    size_t text_bytes = 0;
    for (size_t i = 0; i < count; i++)
        text_bytes += strlen(names[i]) + 1;
    const char **list;
    char *text;
    rt_status status = rt_store_alloc(store, count, sizeof *list, "class names", &list, err);
    if (status == RT_OK)
        status = rt_store_alloc(store, text_bytes, 1, "class names", &text, err);
    if (status != RT_OK)
        return status;
    for (size_t i = 0; i < count; i++) {
        size_t bytes = strlen(names[i]) + 1;
        memcpy(text, names[i], bytes);
        list[i] = text;
        text += bytes;
    }
    *copy = list;
    return RT_OK;
}

rt_status rt_buffer_reserve(struct rt_buffer *buffer, size_t more, const char *what, void **place,
                            struct rt_error *err) {
    if (more > buffer->room - buffer->bytes) {
        size_t room = buffer->room < 4096 ? 4096 : buffer->room;
        while (room - buffer->bytes < more && room <= SIZE_MAX / 2)
            room *= 2;
        void *data = room - buffer->bytes < more ? NULL : realloc(buffer->data, room);
        if (!data)
            return rt_fail(err, RT_NO_MEMORY, "not enough memory for %s (%zu bytes)", what, room);
        buffer->data = data;
        buffer->room = room;
    }
    *place = (uint8_t *)buffer->data + buffer->bytes;
    return RT_OK;
}

rt_status rt_buffer_add(struct rt_buffer *buffer, const void *data, size_t bytes, const char *what,
                        struct rt_error *err) {
    void *place;
    rt_status status = rt_buffer_reserve(buffer, bytes, what, &place, err);
    if (status == RT_OK && bytes) {
        memcpy(place, data, bytes);
        buffer->bytes += bytes;
    }
    return status;
}

void rt_buffer_free(struct rt_buffer *buffer) {
    free(buffer->data);
    *buffer = (struct rt_buffer){0};
}

rt_status rt_buffer_keep(struct rt_buffer *buffer, struct rt_data_store *store, const void **data,
                         struct rt_error *err) {
    /* Returns the unused memory; if that fails, the larger block is kept. */
    void *block = realloc(buffer->data, buffer->bytes ? buffer->bytes : 1);
    if (!block)
        block = buffer->data;
    *buffer = (struct rt_buffer){0};
    *data = block;
    return rt_store_keep(store, block, err);
}
