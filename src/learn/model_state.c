/* Reading and writing the state of a model on this device, tensor by tensor; and its hash. */
#include "learn/model_state.h"

#include "base/bytes.h"
#include "base/memory.h"
#include <stdlib.h>
#include <string.h>

/* ---- on this device ---- */

struct walk {
    struct rt_local_state *local;
    size_t tensor;
    rt_state_write write;
    rt_state_read read;
    void *user;
};

static rt_status model_state_visit_tensor(void *user, const char *name, const struct rt_shape *shape,
                                          size_t offset, bool is_buffer, struct rt_error *err) {
    (void)name;
    const struct walk *walk = user;
    struct rt_blocks *blocks = &walk->local->network->blocks;
    if (walk->tensor && is_buffer)
        return RT_OK;
    float *block = walk->tensor
                       ? walk->local->state + (walk->tensor - 1) * walk->local->network->model->param_count
                   : is_buffer ? blocks->buffers
                               : blocks->params;
    return walk->read ? walk->read(walk->user, walk->tensor, rt_shape_size(shape), block + offset, err)
                      : walk->write(walk->user, walk->tensor, rt_shape_size(shape), block + offset, err);
}

static rt_status model_state_walk(struct walk *walk, size_t tensors, struct rt_error *err) {
    rt_status status = RT_OK;
    for (walk->tensor = 0; status == RT_OK && walk->tensor < tensors; walk->tensor++)
        status = rt_model_visit(walk->local->network->model, model_state_visit_tensor, walk, err);
    return status;
}

static rt_status model_state_begin(void *self, size_t tensors, rt_state_write write, void *user,
                                   struct rt_error *err) {
    struct walk walk = {.local = self, .write = write, .user = user};
    return model_state_walk(&walk, tensors, err);
}

static bool model_state_done(void *self) {
    (void)self;
    return true;
}

static rt_status model_state_finish(void *self, struct rt_error *err) {
    (void)self, (void)err;
    return RT_OK;
}

static rt_status model_state_load(void *self, size_t tensors, uint64_t update, rt_state_read read, void *user,
                                  struct rt_error *err) {
    (void)update;
    struct walk walk = {.local = self, .read = read, .user = user};
    walk.local->network->blocks.prepared_valid = false;
    return model_state_walk(&walk, tensors, err);
}

struct rt_model_state rt_model_state_local(struct rt_local_state *local) {
    return (struct rt_model_state){.model = local->network->model,
                                   .tensors = 1 + local->optim_tensors,
                                   .self = local,
                                   .begin = model_state_begin,
                                   .done = model_state_done,
                                   .finish = model_state_finish,
                                   .load = model_state_load};
}

rt_status rt_model_state_write(const struct rt_model_state *model_state, size_t tensors, rt_state_write write,
                               void *user, struct rt_error *err) {
    rt_status status = model_state->begin(model_state->self, tensors, write, user, err);
    return status == RT_OK ? model_state->finish(model_state->self, err) : status;
}

/* ---- hashes ---- */

void rt_hash_floats(struct rt_sha256 *hash, size_t count, const float *floats) {
    uint8_t bytes[4096];
    while (count > 0) {
        size_t part = count < sizeof bytes / 4 ? count : sizeof bytes / 4;
        for (size_t i = 0; i < part; i++) {
            uint32_t tensor;
            memcpy(&tensor, floats + i, 4);
            rt_put_le32(bytes + 4 * i, tensor);
        }
        rt_sha256_add(hash, bytes, 4 * part);
        floats += part;
        count -= part;
    }
}

static rt_status model_state_count_tensor(void *user, const char *name, const struct rt_shape *shape,
                                          size_t offset, bool is_buffer, struct rt_error *err) {
    (void)name, (void)shape, (void)offset, (void)is_buffer, (void)err;
    ((struct rt_params_hash *)user)->tensors++;
    return RT_OK;
}

static rt_status model_state_note_tensor(void *user, const char *name, const struct rt_shape *shape,
                                         size_t offset, bool is_buffer, struct rt_error *err) {
    (void)name, (void)offset, (void)err;
    struct rt_params_hash *hash = user;
    hash->floats[hash->tensors] = rt_shape_size(shape);
    hash->buffer[hash->tensors++] = is_buffer;
    return RT_OK;
}

rt_status rt_params_hash_open(const struct rt_model *model, struct rt_params_hash *hash,
                              struct rt_error *err) {
    struct rt_params_hash made = {0};
    rt_status status = rt_model_visit(model, model_state_count_tensor, &made, err);
    if (status == RT_OK)
        status = rt_alloc(made.tensors, sizeof *made.floats, "the hash of the parameters", &made.floats, err);
    if (status == RT_OK)
        status = rt_alloc(made.tensors, sizeof *made.buffer, "the hash of the parameters", &made.buffer, err);
    made.tensors = 0;
    if (status == RT_OK)
        status = rt_model_visit(model, model_state_note_tensor, &made, err);
    if (status != RT_OK) {
        rt_params_hash_close(&made);
        return status;
    }
    rt_sha256_init(&made.params);
    rt_sha256_init(&made.buffers);
    *hash = made;
    return RT_OK;
}

void rt_params_hash_add(struct rt_params_hash *hash, size_t count, const float *floats) {
    while (count > 0 && hash->tensor < hash->tensors) {
        const size_t left = hash->floats[hash->tensor] - hash->done, part = count < left ? count : left;
        rt_hash_floats(hash->buffer[hash->tensor] ? &hash->buffers : &hash->params, part, floats);
        floats += part;
        count -= part;
        hash->done += part;
        while (hash->tensor < hash->tensors && hash->done == hash->floats[hash->tensor]) {
            hash->tensor++;
            hash->done = 0;
        }
    }
}

void rt_params_hash_finish(struct rt_params_hash *hash, char params[65], char buffers[65]) {
    uint8_t digest[32];
    rt_sha256_finish(&hash->params, digest);
    rt_sha256_hex(digest, params);
    rt_sha256_finish(&hash->buffers, digest);
    rt_sha256_hex(digest, buffers);
}

void rt_params_hash_close(struct rt_params_hash *hash) {
    free(hash->floats);
    free(hash->buffer);
    *hash = (struct rt_params_hash){0};
}
