/* Where the layers lie in the state tensors; see state_map.h. */
#include "learn/state_map.h"

#include "base/memory.h"
#include <stdlib.h>

static rt_status state_map_fill(const struct rt_model *model, struct rt_state_map *map,
                                struct rt_error *err) {
    map->layers = model->count;
    RT_TRY(rt_alloc(model->count + 1, sizeof *map->params, "the layers", &map->params, err));
    RT_TRY(rt_alloc(model->count + 1, sizeof *map->all, "the layers", &map->all, err));
    for (size_t i = 0; i < model->count; i++) {
        const struct rt_layer *layer = model->layers[i];
        map->params[i + 1] = map->params[i] + layer->param_count;
        map->all[i + 1] = map->all[i] + layer->param_count + layer->buffer_count;
    }
    return RT_OK;
}

rt_status rt_state_map_create(const struct rt_job *job, const struct rt_kernels *kernels,
                              struct rt_state_map *map, struct rt_error *err) {
    uint32_t index = 0;
    struct rt_model *model;
    *map = (struct rt_state_map){.tensors = job->evaluate_only ? 1 : 1 + job->optim->type->state_tensors};
    RT_TRY(rt_model_create(job->layers, &job->in, 0, SIZE_MAX, false, kernels, &index, &model, err));
    const rt_status status = state_map_fill(model, map, err);
    rt_model_destroy(model);
    if (status != RT_OK)
        rt_state_map_destroy(map);
    return status;
}

void rt_state_map_destroy(struct rt_state_map *map) {
    free(map->params);
    free(map->all);
    *map = (struct rt_state_map){0};
}

size_t rt_state_map_floats(const struct rt_state_map *map, size_t first, size_t count) {
    size_t floats = 0;
    for (size_t tensor = 0; tensor < map->tensors; tensor++)
        floats += rt_state_map_at(map, tensor, first + count) - rt_state_map_at(map, tensor, first);
    return floats;
}
