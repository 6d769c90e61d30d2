#include "learn/snapshot.h"

#include "base/memory.h"
#include <stdlib.h>
#include <string.h>

/* A pass over tensor 0. */
struct pass {
    float *to; /* NULL: they are only hashed */
    const float *from;
    size_t left;
    struct rt_params_hash hash;
};

static rt_status snapshot_fail_count(struct rt_error *err) {
    return rt_fail(err, RT_FAILED, "the number of parameters of the model has changed");
}

static rt_status snapshot_write_floats(void *user, size_t tensor, size_t count, const float *floats,
                                       struct rt_error *err) {
    (void)tensor;
    struct pass *pass = user;
    if (count > pass->left)
        return snapshot_fail_count(err);
    if (pass->to) {
        memcpy(pass->to, floats, count * sizeof *floats);
        pass->to += count;
    }
    pass->left -= count;
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

static size_t snapshot_count(const struct rt_model_state *model_state) {
    return model_state->model->param_count + model_state->model->buffer_count;
}

static rt_status snapshot_take(const struct rt_model_state *model_state, float *to, char hex[65],
                               struct rt_error *err) {
    struct pass pass = {.to = to, .left = snapshot_count(model_state)};
    rt_status status = rt_params_hash_open(model_state->model, &pass.hash, err);
    if (status == RT_OK)
        status = rt_model_state_write(model_state, 1, snapshot_write_floats, &pass, err);
    if (status == RT_OK && pass.left > 0)
        status = snapshot_fail_count(err);
    char params[65], buffers[65];
    if (status == RT_OK)
        rt_params_hash_finish(&pass.hash, params, buffers);
    if (status == RT_OK && hex)
        memcpy(hex, params, sizeof params);
    rt_params_hash_close(&pass.hash);
    return status;
}

rt_status rt_model_state_hash(const struct rt_model_state *model_state, char hex[65], struct rt_error *err) {
    return snapshot_take(model_state, NULL, hex, err);
}

rt_status rt_snapshot_take(struct rt_snapshot *snapshot, const struct rt_model_state *model_state,
                           char hex[65], struct rt_error *err) {
    const size_t count = snapshot_count(model_state);
    rt_status status = RT_OK;
    if (snapshot->count != count)
        rt_snapshot_deinit(snapshot);
    if (!snapshot->floats)
        status = rt_alloc(count, sizeof *snapshot->floats, "a copy of the model", &snapshot->floats, err);
    snapshot->count = count;
    return status == RT_OK ? snapshot_take(model_state, snapshot->floats, hex, err) : status;
}

rt_status rt_snapshot_give(const struct rt_snapshot *snapshot, const struct rt_model_state *model_state,
                           uint64_t update, struct rt_error *err) {
    struct pass pass = {.from = snapshot->floats, .left = snapshot->count};
    if (!snapshot->floats || snapshot->count != snapshot_count(model_state))
        return snapshot_fail_count(err);
    return model_state->load(model_state->self, 1, update, snapshot_read_floats, &pass, err);
}

void rt_snapshot_deinit(struct rt_snapshot *snapshot) {
    free(snapshot->floats);
    *snapshot = (struct rt_snapshot){0};
}
