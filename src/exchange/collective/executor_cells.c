/* Cutting a load into cells, and the list of operations that each goes through. */
#include "exchange/collective/executor_inside.h"

#include "base/memory.h"
#include <stdlib.h>

static int cells_compare(const void *a, const void *b) {
    const size_t x = *(const size_t *)a, y = *(const size_t *)b;
    return (x > y) - (x < y);
}

/* The floats at which some operation begins or ends, rising, each once; returns how many. */
static size_t cells_find_edges(const struct rt_load_settings *settings, size_t *edges) {
    size_t count = 0, kept = 0;
    edges[count++] = 0;
    edges[count++] = settings->count;
    for (size_t i = 0; i < settings->collective.count; i++) {
        edges[count++] = settings->collective.list[i].first;
        edges[count++] = settings->collective.list[i].first + settings->collective.list[i].count;
    }
    qsort(edges, count, sizeof *edges, cells_compare);
    for (size_t i = 0; i < count; i++)
        if (i == 0 || edges[i] != edges[kept - 1])
            edges[kept++] = edges[i];
    return kept;
}

static size_t cells_find_edge(const size_t *edges, size_t count, size_t value) {
    size_t low = 0, high = count;
    while (low + 1 < high) {
        const size_t middle = (low + high) / 2;
        if (edges[middle] <= value)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* The operations of each zone, in their order: counted first, then written one behind the other. */
static rt_status cells_list_ops(struct rt_load *load, const size_t *edges, size_t edge_count, size_t *bytes,
                                struct rt_error *err) {
    const struct rt_collective *collective = &load->settings.collective;
    size_t total = 0;
    rt_status status = rt_alloc(load->zone_count, sizeof *load->zones, "the exchange", &load->zones, err);
    if (status != RT_OK)
        return status;
    for (size_t i = 0; i < collective->count; i++) {
        const size_t end = collective->list[i].first + collective->list[i].count;
        for (size_t z = cells_find_edge(edges, edge_count, collective->list[i].first); edges[z] < end;
             z++, total++)
            load->zones[z].count++;
    }
    status = rt_alloc(total, sizeof *load->zone_ops, "the exchange", &load->zone_ops, err);
    if (status != RT_OK)
        return status;
    uint32_t *next = load->zone_ops;
    for (size_t z = 0; z < load->zone_count; z++) {
        load->zones[z].ops = next;
        next += load->zones[z].count;
        load->zones[z].count = 0;
    }
    for (size_t i = 0; i < collective->count; i++) {
        const size_t end = collective->list[i].first + collective->list[i].count;
        for (size_t z = cells_find_edge(edges, edge_count, collective->list[i].first); edges[z] < end; z++) {
            struct rt_zone *zone = &load->zones[z];
            load->zone_ops[(size_t)(zone->ops - load->zone_ops) + zone->count++] = (uint32_t)i;
        }
    }
    *bytes += total * sizeof *load->zone_ops + load->zone_count * sizeof *load->zones;
    return RT_OK;
}

static rt_status cells_make(struct rt_load *load, const size_t *edges, size_t *bytes, struct rt_error *err) {
    rt_status status = RT_OK;
    for (int pass = 0; pass < 2 && status == RT_OK; pass++) { /* the first one only counts */
        size_t count = 0;
        for (size_t z = 0; z < load->zone_count; z++)
            for (size_t at = edges[z]; at < edges[z + 1]; count++) {
                const size_t next = (at / load->segment + 1) * load->segment;
                const size_t end = next < edges[z + 1] ? next : edges[z + 1];
                if (pass == 1)
                    load->cells[count] =
                        (struct rt_cell){.first = at, .count = (uint32_t)(end - at), .zone = (uint32_t)z};
                at = end;
            }
        load->cell_count = count;
        if (pass == 0)
            status = rt_alloc(count, sizeof *load->cells, "the exchange", &load->cells, err);
    }
    *bytes += load->cell_count * sizeof *load->cells;
    return status;
}

uint32_t rt_load_find_cell(const struct rt_load *load, size_t first) {
    size_t low = 0, high = load->cell_count;
    while (low + 1 < high) {
        const size_t middle = (low + high) / 2;
        if (load->cells[middle].first <= first)
            low = middle;
        else
            high = middle;
    }
    return (uint32_t)low;
}

/* Equal segments: one that is hardly longer than `about` had better stay whole than have a tail of a few
 * floats, since a frame costs much the same whatever it carries. */
static size_t cells_choose_segment(size_t count, size_t about) {
    const size_t pieces = count / about + (count % about > about / 2 ? 1 : 0);
    return pieces > 1 ? count / pieces + (count % pieces ? 1 : 0) : count + (count == 0);
}

rt_status rt_load_cut(struct rt_load *load, size_t about, size_t *bytes, struct rt_error *err) {
    size_t *edges;
    rt_status status =
        rt_alloc(2 * load->settings.collective.count + 2, sizeof *edges, "the exchange", &edges, err);
    if (status != RT_OK)
        return status;
    const size_t edge_count = cells_find_edges(&load->settings, edges);
    load->segment = cells_choose_segment(load->settings.count, about);
    load->zone_count = edge_count - 1;
    status = cells_list_ops(load, edges, edge_count, bytes, err);
    if (status == RT_OK)
        status = cells_make(load, edges, bytes, err);
    free(edges);
    return status;
}
