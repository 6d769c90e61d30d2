#include "learn/snapshot.h"

#include "base/crc32c.h"
#include <string.h>

/* A pass over state tensors. */
struct pass {
    float *to; /* NULL: they are only hashed */
    const float *from;
    size_t left;
    bool hashes;
    struct rt_params_hash hash;
};

static rt_status snapshot_fail_count(struct rt_error *err) {
    return rt_fail(err, RT_FAILED, "the number of parameters of the model has changed");
}

static rt_status snapshot_write_floats(void *user, size_t tensor, size_t count, const float *floats,
                                       struct rt_error *err) {
    struct pass *pass = user;
    if (count > pass->left)
        return snapshot_fail_count(err);
    if (pass->to) {
        memcpy(pass->to, floats, count * sizeof *floats);
        pass->to += count;
    }
    pass->left -= count;
    if (pass->hashes && tensor == 0)
        rt_params_hash_add(&pass->hash, count, floats);
    return RT_OK;
}

static rt_status snapshot_read_floats(void *user, size_t tensor, size_t count, float *out,
                                      struct rt_error *err) {
    (void)tensor;
    struct pass *pass = user;
    if (count > pass->left)
        return snapshot_fail_count(err);
    memcpy(out, pass->from, count * sizeof *out);
    pass->from += count;
    pass->left -= count;
    return RT_OK;
}

/* Of tensor 0 the buffers too. */
static size_t snapshot_count(const struct rt_model *model, size_t tensors) {
    return model->param_count * tensors + model->buffer_count;
}

size_t rt_snapshot_bytes(const struct rt_model *model, size_t tensors) {
    return snapshot_count(model, tensors) * sizeof(float);
}

static rt_status snapshot_pass(const struct rt_model_state *model_state, size_t tensors, struct pass *pass,
                               struct rt_error *err) {
    RT_TRY(rt_model_state_write(model_state, tensors, snapshot_write_floats, pass, err));
    return pass->left > 0 ? snapshot_fail_count(err) : RT_OK;
}

/* hex: NULL: no hash is computed. */
static rt_status snapshot_copy(const struct rt_model_state *model_state, size_t tensors, float *to,
                               char hex[65], struct rt_error *err) {
    struct pass pass = {.to = to, .left = snapshot_count(model_state->model, tensors), .hashes = hex != NULL};
    char params[65], buffers[65];
    if (!hex)
        return snapshot_pass(model_state, tensors, &pass, err);
    rt_status status = rt_params_hash_open(model_state->model, &pass.hash, err);
    if (status == RT_OK)
        status = snapshot_pass(model_state, tensors, &pass, err);
    if (status == RT_OK) {
        rt_params_hash_finish(&pass.hash, params, buffers);
        memcpy(hex, params, sizeof params);
    }
    rt_params_hash_close(&pass.hash);
    return status;
}

rt_status rt_model_state_hash(const struct rt_model_state *model_state, char hex[65], struct rt_error *err) {
    return snapshot_copy(model_state, 1, NULL, hex, err);
}

static rt_status snapshot_make_room(struct rt_file_memory *memory, size_t bytes, bool on_disk,
                                    struct rt_error *err) {
    if (memory->count == bytes)
        return RT_OK;
    rt_file_memory_destroy(memory);
    return rt_file_memory_create(bytes, on_disk, "a copy of the model", memory, err);
}

rt_status rt_snapshot_reserve(struct rt_snapshot *snapshot, size_t bytes, bool on_disk,
                              struct rt_error *err) {
    if (snapshot->tensors == 0)
        RT_TRY(snapshot_make_room(&snapshot->memory, bytes, on_disk, err));
    return snapshot_make_room(&snapshot->spare, bytes, on_disk, err);
}

rt_status rt_snapshot_take(struct rt_snapshot *snapshot, const struct rt_model_state *model_state,
                           size_t tensors, bool on_disk, char hex[65], struct rt_error *err) {
    const size_t bytes = rt_snapshot_bytes(model_state->model, tensors);
    const struct rt_file_memory before = snapshot->memory;
    RT_TRY(snapshot_make_room(&snapshot->spare, bytes, on_disk, err));
    RT_TRY(snapshot_copy(model_state, tensors, snapshot->spare.bytes, hex, err));
    snapshot->memory = snapshot->spare;
    snapshot->spare = before;
    snapshot->tensors = tensors;
    snapshot->checksum = rt_crc32c(0, snapshot->memory.bytes, bytes);
    return RT_OK;
}

bool rt_snapshot_is_sound(const struct rt_snapshot *snapshot) {
    return snapshot->tensors > 0 &&
           rt_crc32c(0, snapshot->memory.bytes, snapshot->memory.count) == snapshot->checksum;
}

rt_status rt_snapshot_give(const struct rt_snapshot *snapshot, const struct rt_model_state *model_state,
                           uint64_t update, struct rt_error *err) {
    const size_t tensors = snapshot->tensors;
    struct pass pass = {.from = snapshot->memory.bytes, .left = snapshot_count(model_state->model, tensors)};
    if (tensors == 0 || snapshot->memory.count != rt_snapshot_bytes(model_state->model, tensors))
        return snapshot_fail_count(err);
    return model_state->load(model_state->self, tensors, update, snapshot_read_floats, &pass, err);
}

static rt_status snapshot_pass_on(void *self, size_t tensors, rt_state_write write, void *user,
                                  struct rt_error *err) {
    const struct rt_snapshot_reader *reader = self;
    const struct rt_snapshot *snapshot = reader->snapshot;
    const float *floats = snapshot->memory.bytes;
    if (tensors > snapshot->tensors ||
        snapshot->memory.count != rt_snapshot_bytes(reader->model, snapshot->tensors))
        return snapshot_fail_count(err);
    for (size_t tensor = 0; tensor < tensors; tensor++) {
        const size_t count = tensor ? reader->model->param_count : snapshot_count(reader->model, 1);
        if (count > 0)
            RT_TRY(write(user, tensor, count, floats, err));
        floats += count;
    }
    return RT_OK;
}

static bool snapshot_is_passed(void *self) {
    (void)self;
    return true;
}

static rt_status snapshot_has_passed(void *self, struct rt_error *err) {
    (void)self, (void)err;
    return RT_OK;
}

struct rt_model_state rt_snapshot_model_state(struct rt_snapshot_reader *reader) {
    return (struct rt_model_state){.model = reader->model,
                                   .tensors = reader->snapshot->tensors,
                                   .self = reader,
                                   .begin = snapshot_pass_on,
                                   .done = snapshot_is_passed,
                                   .finish = snapshot_has_passed};
}

void rt_snapshot_deinit(struct rt_snapshot *snapshot) {
    rt_file_memory_destroy(&snapshot->memory);
    rt_file_memory_destroy(&snapshot->spare);
    *snapshot = (struct rt_snapshot){0};
}
