#include "support/tiny.h"

#include "base/memory.h"
#include "base/rng.h"
#include "formats/yaml.h"
#include <stdlib.h>
#include <string.h>

static float number(uint32_t stream, uint64_t a, uint32_t b) {
    uint32_t words[4];
    rt_rng_block(7, RT_PURPOSE_INIT, stream, a, b, words);
    return 2 * rt_rng_unit(words[0]) - 1;
}

static rt_status make_data(struct tiny *tiny, size_t examples, struct rt_error *err) {
    const size_t inputs = tiny->network.inputs, outputs = tiny->network.outputs;
    rt_status status = rt_floats_create(examples * inputs, "inputs", &tiny->inputs, err);
    if (status == RT_OK)
        status = rt_floats_create(examples * outputs, "values", &tiny->values, err);
    if (status == RT_OK)
        status = rt_alloc(examples, sizeof *tiny->classes, "classes", &tiny->classes, err);
    if (status != RT_OK)
        return status;
    for (size_t i = 0; i < examples; i++) {
        for (size_t j = 0; j < inputs; j++)
            tiny->inputs[i * inputs + j] = number(100, i, (uint32_t)j);
        for (size_t j = 0; j < outputs; j++)
            tiny->values[i * outputs + j] = 0.5f + 0.5f * number(101, i, (uint32_t)j);
        tiny->classes[i] = (int32_t)(i * 7 % outputs);
    }
    const bool classes = tiny->network.loss->classes;
    tiny->set = (struct rt_dataset){.count = examples,
                                    .shape = tiny->network.model->in,
                                    .type = RT_DATA_F32,
                                    .inputs = tiny->inputs,
                                    .classes = classes ? tiny->classes : NULL,
                                    .class_count = classes ? outputs : 0,
                                    .values = classes ? NULL : tiny->values,
                                    .value_width = classes ? 0 : outputs};
    return RT_OK;
}

static rt_status open_all(const char *model, const char *optimizer, size_t examples,
                          const struct tiny_way *strategy, const struct rt_trainer_settings *settings,
                          struct tiny *tiny, struct rt_error *err) {
    const struct rt_computing computing = {.math = strategy->math,
                                           .kernels = strategy->kernels ? strategy->kernels : "auto",
                                           .threads = strategy->threads ? strategy->threads : 1};
    rt_status status = rt_yaml_parse(model, strlen(model), "model", &tiny->tree, err);
    if (status != RT_OK)
        return status;
    status = rt_network_create(rt_tree_get(tiny->tree, "input"), rt_tree_get(tiny->tree, "layers"),
                               rt_tree_get(tiny->tree, "loss")->text, &computing, &tiny->network, err);
    if (status == RT_OK)
        status = make_data(tiny, examples, err);
    struct rt_tree *rule = NULL;
    if (status == RT_OK)
        status = rt_yaml_parse(optimizer, strlen(optimizer), "optimizer", &rule, err);
    if (status == RT_OK)
        status = rt_optim_create(rule, &tiny->optim, err);
    rt_tree_destroy(rule);
    if (status == RT_OK)
        status = rt_schedule_read(NULL, &tiny->schedule, err);
    if (status != RT_OK)
        return status;
    struct rt_network *network = &tiny->network;
    rt_model_init(network->model, settings->seed, network->blocks.params, network->blocks.buffers);
    struct rt_trainer_settings all = *settings;
    all.updates = all.updates ? all.updates : 1000;
    return rt_trainer_create(network, &tiny->set, &tiny->scaling,
                             network->loss->classes ? RT_TARGET_CLASSES : RT_TARGET_VALUES, tiny->optim,
                             &tiny->schedule, &all, &tiny->trainer, err);
}

rt_status tiny_open(const char *model, const char *optimizer, size_t examples,
                    const struct tiny_way *strategy, const struct rt_trainer_settings *settings,
                    struct tiny *tiny, struct rt_error *err) {
    *tiny = (struct tiny){.scaling = {.scale = 1}};
    rt_status status = open_all(model, optimizer, examples, strategy, settings, tiny, err);
    if (status != RT_OK)
        tiny_close(tiny);
    return status;
}

void tiny_close(struct tiny *tiny) {
    rt_trainer_destroy(tiny->trainer);
    rt_optim_destroy(tiny->optim);
    rt_network_destroy(&tiny->network);
    rt_tree_destroy(tiny->tree);
    free(tiny->inputs);
    free(tiny->values);
    free(tiny->classes);
}

rt_status tiny_hash(const char *model, const char *optimizer, size_t examples,
                    const struct tiny_way *strategy, const struct rt_trainer_settings *settings,
                    size_t updates, char hex[65], struct rt_error *err) {
    struct tiny tiny;
    rt_status status = tiny_open(model, optimizer, examples, strategy, settings, &tiny, err);
    if (status != RT_OK)
        return status;
    for (size_t i = 0; status == RT_OK && i < updates; i++) {
        struct rt_step step;
        status = rt_trainer_step(tiny.trainer, &step, err);
    }
    if (status == RT_OK)
        status = rt_network_hash(&tiny.network, hex, err);
    tiny_close(&tiny);
    return status;
}
