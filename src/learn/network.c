/* Creating a network, and the hash that identifies its parameters. */
#include "learn/network.h"

#include "base/bytes.h"
#include "base/memory.h"
#include "base/sentence.h"
#include "base/sha256.h"
#include <stdlib.h>
#include <string.h>

static rt_status network_find_loss(const char *name, const struct rt_loss_type **loss, struct rt_error *err) {
    *loss = rt_loss_find(name ? name : "");
    if (*loss)
        return RT_OK;
    const char *names[RT_MAX_LOSSES + 1];
    rt_loss_names(names);
    return rt_fail(err, RT_BAD_INPUT, "model.loss: there is no '%.60s'; there are %s", name ? name : "",
                   RT_LISTED(names));
}

static rt_status network_create_model(const struct rt_tree *input, const struct rt_tree *layers,
                                      struct rt_network *network, struct rt_error *err) {
    if (!input || !layers)
        return rt_fail(err, RT_BAD_INPUT, "a model needs an input shape and a list of layers");
    struct rt_shape shape;
    rt_status status = rt_shape_read(input, &shape, err);
    if (status != RT_OK)
        return status;
    uint32_t index = 0;
    status = rt_model_create(layers, &shape, 0, SIZE_MAX, false, network->device.kernels, &index,
                             &network->model, err);
    if (status != RT_OK)
        return status;
    status = rt_loss_check(network->loss, network->model, err);
    if (status != RT_OK)
        return status;
    network->inputs = rt_shape_size(&network->model->in);
    network->outputs = rt_shape_size(&network->model->out);
    return RT_OK;
}

rt_status rt_network_allocate(struct rt_network *network, struct rt_error *err) {
    const struct rt_model *model = network->model;
    struct rt_pool *pool = network->device.pool;
    const double floats = (double)model->param_count + (double)model->buffer_count;
    const double scratch = (double)model->scratch_bytes * (double)rt_pool_threads(pool);
    rt_status status = rt_memory_check(sizeof(float) * floats + scratch, "the model", err);
    if (status == RT_OK)
        status = rt_pool_reserve(pool, model->scratch_bytes, err);
    if (status == RT_OK)
        status = rt_floats_create(model->param_count, "the parameters", &network->blocks.params, err);
    if (status == RT_OK)
        status = rt_floats_create(model->buffer_count, "the buffers", &network->blocks.buffers, err);
    return status;
}

rt_status rt_network_describe(const struct rt_tree *input, const struct rt_tree *layers, const char *loss,
                              const struct rt_computing *computing, struct rt_network *network,
                              struct rt_error *err) {
    struct rt_network made = {0};
    rt_status status = network_find_loss(loss, &made.loss, err);
    if (status == RT_OK)
        status = rt_device_open(computing->math, computing->kernels, computing->threads, &made.device, err);
    if (status != RT_OK)
        return status;
    status = network_create_model(input, layers, &made, err);
    if (status != RT_OK) {
        rt_network_destroy(&made);
        return status;
    }
    *network = made;
    return RT_OK;
}

rt_status rt_network_create(const struct rt_tree *input, const struct rt_tree *layers, const char *loss,
                            const struct rt_computing *computing, struct rt_network *network,
                            struct rt_error *err) {
    struct rt_network made;
    rt_status status = rt_network_describe(input, layers, loss, computing, &made, err);
    if (status != RT_OK)
        return status;
    status = rt_network_allocate(&made, err);
    if (status != RT_OK)
        rt_network_destroy(&made);
    else
        *network = made;
    return status;
}

void rt_network_destroy(struct rt_network *network) {
    if (network->model)
        rt_model_destroy(network->model);
    if (network->device.pool)
        rt_device_close(&network->device);
    free(network->blocks.params);
    free(network->blocks.buffers);
    free(network->blocks.prepared);
    *network = (struct rt_network){0};
}

size_t rt_network_classes(const struct rt_network *network) {
    return network->loss->classes ? network->outputs : 0;
}

bool rt_network_has_accuracy(const struct rt_network *network, bool values) {
    return network->loss->classes ||
           (values && network->outputs == 1 && strcmp(network->loss->name, "bce") == 0);
}

struct hash_walk {
    const float *params;
    struct rt_sha256 hash;
};

static rt_status network_hash_tensor(void *user, const char *name, const struct rt_shape *shape,
                                     size_t offset, bool is_buffer, struct rt_error *err) {
    (void)name, (void)err;
    struct hash_walk *walk = user;
    if (is_buffer)
        return RT_OK;
    const float *at = walk->params + offset;
    uint8_t bytes[4096];
    for (size_t left = rt_shape_size(shape); left > 0;) {
        size_t part = left < sizeof bytes / 4 ? left : sizeof bytes / 4;
        for (size_t i = 0; i < part; i++) {
            uint32_t word;
            memcpy(&word, at + i, 4);
            rt_put_le32(bytes + 4 * i, word);
        }
        rt_sha256_add(&walk->hash, bytes, 4 * part);
        at += part;
        left -= part;
    }
    return RT_OK;
}

rt_status rt_network_hash(const struct rt_network *network, char hex[65], struct rt_error *err) {
    struct hash_walk walk = {.params = network->blocks.params};
    rt_sha256_init(&walk.hash);
    rt_status status = rt_model_visit(network->model, network_hash_tensor, &walk, err);
    if (status != RT_OK)
        return status;
    uint8_t digest[32];
    rt_sha256_finish(&walk.hash, digest);
    rt_sha256_hex(digest, hex);
    return RT_OK;
}
