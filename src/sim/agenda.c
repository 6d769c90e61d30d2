/* Future events of the network in memory: a binary heap by time, and by order of entry at the same time. */
#include "sim/network_inside.h"

#include <stdlib.h>

rt_status rt_mem_agenda_promise(struct rt_mem_agenda *agenda, size_t items, struct rt_error *err) {
    size_t need = agenda->promised + items + 1;
    if (need > agenda->room) {
        size_t room = 2 * need;
        struct rt_mem_item **grown = realloc(agenda->items, room * sizeof *grown);
        if (!grown)
            return rt_fail(err, RT_NO_MEMORY, "no memory for %zu events of the simulated network", room);
        agenda->items = grown;
        agenda->room = room;
    }
    agenda->promised += items;
    return RT_OK;
}

void rt_mem_agenda_release(struct rt_mem_agenda *agenda, size_t items) {
    agenda->promised -= items;
}

static bool agenda_is_earlier(const struct rt_mem_item *a, const struct rt_mem_item *b) {
    return a->at < b->at || (a->at == b->at && a->sequence < b->sequence);
}

static void agenda_put(struct rt_mem_agenda *agenda, struct rt_mem_item *item, size_t slot) {
    agenda->items[slot] = item;
    item->slot = slot;
}

/* Finds the heap slot of an item, when the one given is free: up or down. */
static void agenda_sift(struct rt_mem_agenda *agenda, struct rt_mem_item *item, size_t slot) {
    for (; slot > 1 && agenda_is_earlier(item, agenda->items[slot / 2]); slot /= 2)
        agenda_put(agenda, agenda->items[slot / 2], slot);
    for (;;) {
        size_t child = 2 * slot;
        if (child > agenda->count)
            break;
        if (child < agenda->count && agenda_is_earlier(agenda->items[child + 1], agenda->items[child]))
            child++;
        if (!agenda_is_earlier(agenda->items[child], item))
            break;
        agenda_put(agenda, agenda->items[child], slot);
        slot = child;
    }
    agenda_put(agenda, item, slot);
}

void rt_mem_agenda_add(struct rt_mem_agenda *agenda, struct rt_mem_item *item, double at) {
    item->at = at;
    item->sequence = agenda->sequence++;
    agenda_sift(agenda, item, item->slot ? item->slot : ++agenda->count);
}

void rt_mem_agenda_remove(struct rt_mem_agenda *agenda, struct rt_mem_item *item) {
    if (!item->slot)
        return;
    struct rt_mem_item *last = agenda->items[agenda->count--];
    if (last != item)
        agenda_sift(agenda, last, item->slot);
    item->slot = 0;
}
