/* Writing and reading of checkpoints. */
#include "run/checkpoint.h"

#include "base/bytes.h"
#include "base/memory.h"
#include "formats/safetensors.h"
#include "learn/gradient.h"
#include "run/training_state.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PATH_ROOM = 4096, NAME_ROOM = 256 };

static const char *const newest = "state.safetensors", *const previous = "previous.safetensors",
                         *const damaged = "damaged.safetensors";

static rt_status checkpoint_join(const char *dir, const char *file, char path[PATH_ROOM],
                                 struct rt_error *err) {
    if (snprintf(path, PATH_ROOM, "%s/%s", dir, file) >= PATH_ROOM)
        return rt_fail(err, RT_BAD_INPUT, "%s: the path is too long", dir);
    return RT_OK;
}

bool rt_checkpoint_exists(const char *dir) {
    char path[PATH_ROOM];
    return (checkpoint_join(dir, newest, path, NULL) == RT_OK && access(path, F_OK) == 0) ||
           (checkpoint_join(dir, previous, path, NULL) == RT_OK && access(path, F_OK) == 0);
}

/* ---- a walk over the names of everything that is saved ---- */

struct walk {
    size_t tensor; /* 0: parameters and buffers; w: tensor w-1 of the optimizer's state */
    rt_status (*visit)(void *user, const char *name, const struct rt_shape *shape, struct rt_error *err);
    void *user;
};

static rt_status checkpoint_visit_tensor(void *user, const char *name, const struct rt_shape *shape,
                                         size_t offset, bool is_buffer, struct rt_error *err) {
    (void)offset;
    const struct walk *walk = user;
    if (walk->tensor == 0)
        return walk->visit(walk->user, name, shape, err);
    if (is_buffer)
        return RT_OK;
    char long_name[NAME_ROOM];
    if (snprintf(long_name, sizeof long_name, "optimizer.%zu.%s", walk->tensor - 1, name) >= NAME_ROOM)
        return rt_fail(err, RT_FAILED, "the name %s is too long for a checkpoint", name);
    return walk->visit(walk->user, long_name, shape, err);
}

static rt_status checkpoint_walk_names(const struct rt_model_state *model_state,
                                       rt_status (*visit)(void *user, const char *name,
                                                          const struct rt_shape *shape, struct rt_error *err),
                                       void *user, struct rt_error *err) {
    struct walk walk = {.visit = visit, .user = user};
    rt_status status = RT_OK;
    for (; status == RT_OK && walk.tensor < model_state->tensors; walk.tensor++)
        status = rt_model_visit(model_state->model, checkpoint_visit_tensor, &walk, err);
    return status;
}

/* ---- saving ---- */

struct rt_checkpoint_out {
    struct rt_model_state model_state;
    struct rt_tensors_out *out;
    bool begun;                /* the learner hands out its state */
    struct rt_error unwritten; /* why the file cannot be written; status RT_OK: it can */
    struct rt_sha256 hash;     /* over the state, the names and the data */
    char path[PATH_ROOM], old[PATH_ROOM];
};

static rt_status checkpoint_declare(void *user, const char *name, const struct rt_shape *shape,
                                    struct rt_error *err) {
    struct rt_checkpoint_out *out = user;
    rt_sha256_add(&out->hash, name, strlen(name) + 1);
    return rt_tensors_out_declare(out->out, name, shape, err);
}

/* A file that cannot be written is not the learner's fault: it hands out its state as if nothing were wrong.
 */
static rt_status checkpoint_write_floats(void *user, size_t tensor, size_t count, const float *floats,
                                         struct rt_error *err) {
    (void)tensor, (void)err;
    struct rt_checkpoint_out *out = user;
    if (out->unwritten.status != RT_OK)
        return RT_OK;
    rt_hash_floats(&out->hash, count, floats);
    (void)rt_tensors_out_write(out->out, floats, count, &out->unwritten);
    return RT_OK;
}

static rt_status checkpoint_begin_file(struct rt_checkpoint_out *out, const char *state,
                                       struct rt_error *err) {
    rt_sha256_init(&out->hash);
    rt_sha256_add(&out->hash, state, strlen(state));
    RT_TRY(rt_tensors_out_create(out->path, &out->out, err));
    RT_TRY(rt_tensors_out_meta(out->out, "state", state, err));
    RT_TRY(rt_tensors_out_meta(out->out, "sha256", RT_HASH_TO_COME, err));
    return checkpoint_walk_names(&out->model_state, checkpoint_declare, out, err);
}

static rt_status checkpoint_begin(struct rt_checkpoint_out *out,
                                  const struct rt_training_state *training_state,
                                  const struct rt_fingerprint *fingerprint, struct rt_error *err) {
    char *state;
    RT_TRY(rt_training_state_json(training_state, fingerprint, &state, err));
    const rt_status status = checkpoint_begin_file(out, state, err);
    free(state);
    if (status == RT_IO) {
        out->unwritten = *err;
        return RT_OK;
    }
    if (status != RT_OK)
        return status;
    out->begun = true;
    return out->model_state.begin(out->model_state.self, out->model_state.tensors, checkpoint_write_floats,
                                  out, err);
}

rt_status rt_checkpoint_begin(const char *dir, const struct rt_model_state *model_state,
                              const struct rt_training_state *training_state,
                              const struct rt_fingerprint *fingerprint, struct rt_checkpoint_out **out,
                              struct rt_error *err) {
    struct rt_checkpoint_out *made;
    rt_status status = rt_alloc(1, sizeof *made, "a checkpoint", &made, err);
    if (status != RT_OK)
        return status;
    made->model_state = *model_state;
    made->unwritten.status = RT_OK;
    status = checkpoint_join(dir, newest, made->path, err);
    if (status == RT_OK)
        status = checkpoint_join(dir, previous, made->old, err);
    if (status == RT_OK)
        status = checkpoint_begin(made, training_state, fingerprint, err);
    if (status != RT_OK) {
        rt_checkpoint_abandon(made);
        return status;
    }
    *out = made;
    return RT_OK;
}

bool rt_checkpoint_done(const struct rt_checkpoint_out *out) {
    return !out->begun || out->model_state.done(out->model_state.self);
}

static rt_status checkpoint_finish_file(struct rt_checkpoint_out *out, struct rt_error *err) {
    uint8_t digest[32];
    char hex[65];
    rt_sha256_finish(&out->hash, digest);
    rt_sha256_hex(digest, hex);
    rt_status status = rt_tensors_out_amend(out->out, "sha256", hex, err);
    /* The one before moves aside only when the new one is on the disk; between the two renames a crash
     * leaves only `previous`, which is then the newest there is. */
    if (status == RT_OK)
        status = rt_tensors_out_sync(out->out, err);
    if (status == RT_OK && rename(out->path, out->old) != 0 && errno != ENOENT)
        status = rt_fail(err, RT_IO, "%s: cannot be renamed: %s", out->path, strerror(errno));
    if (status != RT_OK)
        return status;
    status = rt_tensors_out_commit(out->out, err);
    out->out = NULL;
    return status;
}

static rt_status checkpoint_finish(struct rt_checkpoint_out *out, struct rt_error *err) {
    if (out->begun)
        RT_TRY(out->model_state.finish(out->model_state.self, err));
    if (out->unwritten.status != RT_OK)
        return RT_OK;
    const rt_status status = checkpoint_finish_file(out, err);
    if (status != RT_IO)
        return status;
    out->unwritten = *err;
    return RT_OK;
}

rt_status rt_checkpoint_finish(struct rt_checkpoint_out *out, struct rt_error *unwritten,
                               struct rt_error *err) {
    const rt_status status = checkpoint_finish(out, err);
    *unwritten = out->unwritten;
    rt_checkpoint_abandon(out);
    return status;
}

void rt_checkpoint_abandon(struct rt_checkpoint_out *out) {
    if (!out)
        return;
    rt_tensors_out_abandon(out->out);
    free(out);
}

rt_status rt_checkpoint_save(const char *dir, const struct rt_model_state *model_state,
                             const struct rt_training_state *training_state,
                             const struct rt_fingerprint *fingerprint, struct rt_error *err) {
    struct rt_checkpoint_out *out;
    struct rt_error unwritten;
    RT_TRY(rt_checkpoint_begin(dir, model_state, training_state, fingerprint, &out, err));
    RT_TRY(rt_checkpoint_finish(out, &unwritten, err));
    return unwritten.status == RT_OK ? RT_OK : rt_fail(err, unwritten.status, "%s", unwritten.text);
}

bool rt_checkpoint_make_room(const char *dir) {
    char path[PATH_ROOM], old[PATH_ROOM];
    return checkpoint_join(dir, newest, path, NULL) == RT_OK && access(path, R_OK) == 0 &&
           checkpoint_join(dir, previous, old, NULL) == RT_OK && unlink(old) == 0;
}

/* ---- loading ---- */

/* The tensors of a file lie in the order in which they were declared: one float after another. */
struct reading {
    const struct rt_tensors *tensors;
    size_t count;  /* tensors of the run that the file has, in order */
    uint64_t done; /* floats read */
};

static rt_status checkpoint_check_tensor(void *user, const char *name, const struct rt_shape *shape,
                                         struct rt_error *err) {
    struct reading *reading = user;
    const struct rt_tensors *tensors = reading->tensors;
    const struct rt_tensor_entry *entry =
        reading->count < tensors->count ? &tensors->entries[reading->count] : NULL;
    if (!entry || strcmp(entry->name, name) != 0)
        return rt_fail(err, RT_BAD_INPUT, "%s: tensor '%s' is missing or not in its place", tensors->name,
                       name);
    if (!rt_shape_equal(&entry->shape, shape))
        return rt_fail(err, RT_BAD_INPUT, "%s: tensor '%s' has another shape than in the run", tensors->name,
                       name);
    reading->count++;
    return RT_OK;
}

static rt_status checkpoint_read_floats(void *user, size_t tensor, size_t count, float *out,
                                        struct rt_error *err) {
    (void)tensor;
    struct reading *reading = user;
    const uint8_t *bytes = reading->tensors->data + reading->done * sizeof(float);
    for (size_t i = 0; i < count; i++) {
        uint32_t bits = rt_get_le32(bytes + 4 * i);
        memcpy(&out[i], &bits, sizeof bits);
    }
    reading->done += count;
    return rt_block_is_finite(out, count)
               ? RT_OK
               : rt_fail(err, RT_BAD_INPUT, "%s: holds a number that is not finite", reading->tensors->name);
}

static rt_status checkpoint_check_hash(const char *path, const struct rt_tensors *tensors, const char *state,
                                       const char *said, struct rt_error *err) {
    struct rt_sha256 hash;
    rt_sha256_init(&hash);
    rt_sha256_add(&hash, state, strlen(state));
    uint64_t bytes = 0;
    for (size_t i = 0; i < tensors->count; i++) {
        rt_sha256_add(&hash, tensors->entries[i].name, strlen(tensors->entries[i].name) + 1);
        bytes += tensors->entries[i].bytes;
    }
    rt_sha256_add(&hash, tensors->data, (size_t)bytes);
    uint8_t digest[32];
    char hex[65];
    rt_sha256_finish(&hash, digest);
    rt_sha256_hex(digest, hex);
    if (strcmp(hex, said) != 0)
        return rt_fail(err, RT_BAD_INPUT,
                       "%s: the content does not match its hash: it is damaged or was altered", path);
    return RT_OK;
}

rt_status rt_checkpoint_verify(const char *path, const struct rt_tensors *tensors, struct rt_error *err) {
    const char *state = rt_tensors_meta(tensors, "state"), *said = rt_tensors_meta(tensors, "sha256");
    if (!state != !said)
        return rt_fail(err, RT_BAD_INPUT, "%s: has `%s` in its metadata without `%s`: it has been altered",
                       path, state ? "state" : "sha256", state ? "sha256" : "state");
    return state ? checkpoint_check_hash(path, tensors, state, said, err) : RT_OK;
}

/* A file is checked as a whole before anything of the run is touched. *usable: whether the file is what was
 * once written here; if so and the load still fails, an older one would not do better. */
static rt_status checkpoint_load_file(const char *path, const struct rt_model_state *model_state,
                                      const struct rt_fingerprint *fingerprint,
                                      struct rt_training_state *training_state, const char **rescored,
                                      bool *usable, struct rt_error *err) {
    struct rt_tensors tensors;
    *usable = false;
    rt_status status = rt_tensors_open(path, &tensors, err);
    if (status != RT_OK)
        return status;
    const char *state = rt_tensors_meta(&tensors, "state"), *said = rt_tensors_meta(&tensors, "sha256");
    if (!state || !said)
        status = rt_fail(err, RT_BAD_INPUT, "%s: is not a checkpoint of ringtmp", path);
    else
        status = checkpoint_check_hash(path, &tensors, state, said, err);
    struct rt_training_state read;
    if (status == RT_OK) {
        *usable = true;
        status = rt_training_state_read(state, path, fingerprint, &read, rescored, err);
    }
    struct reading reading = {.tensors = &tensors};
    if (status == RT_OK)
        status = checkpoint_walk_names(model_state, checkpoint_check_tensor, &reading, err);
    if (status == RT_OK && reading.count != tensors.count)
        status = rt_fail(err, RT_BAD_INPUT, "%s: has %zu tensors, the run %zu", path, tensors.count,
                         reading.count);
    if (status == RT_OK)
        status = model_state->load(model_state->self, model_state->tensors, read.update,
                                   checkpoint_read_floats, &reading, err);
    rt_tensors_close(&tensors);
    if (status == RT_OK)
        *training_state = read;
    return status;
}

/* A file that the system refuses to open may be as good as any: only one that opens, or is not there, may be
 * passed over. */
static rt_status checkpoint_check_access(const char *path, struct rt_error *err) {
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file < 0 && errno != ENOENT)
        return rt_fail(err, errno == EACCES ? RT_BAD_INPUT : RT_IO, "%s: cannot be read: %s", path,
                       strerror(errno));
    if (file >= 0)
        close(file);
    return RT_OK;
}

rt_status rt_checkpoint_load(const char *dir, const struct rt_model_state *model_state,
                             const struct rt_fingerprint *fingerprint,
                             struct rt_training_state *training_state, const char **rescored,
                             struct rt_error *notice, struct rt_error *err) {
    char path[PATH_ROOM], old[PATH_ROOM];
    struct rt_error first = {.text = ""}, second = {.text = ""};
    bool usable;
    notice->text[0] = 0;
    rt_status status = checkpoint_join(dir, newest, path, err);
    if (status == RT_OK)
        status = checkpoint_join(dir, previous, old, err);
    if (status != RT_OK)
        return status;
    if (!rt_checkpoint_exists(dir))
        return rt_fail(err, RT_BAD_INPUT, "%s: there is no checkpoint to resume from", dir);
    status = checkpoint_check_access(path, err);
    if (status != RT_OK)
        return status;
    status = checkpoint_load_file(path, model_state, fingerprint, training_state, rescored, &usable, &first);
    if (status == RT_OK)
        return RT_OK;
    /* Memory and disks fail without the file being to blame. */
    if (usable || status != RT_BAD_INPUT)
        return rt_fail(err, status, "%s", first.text);
    rt_status again =
        checkpoint_load_file(old, model_state, fingerprint, training_state, rescored, &usable, &second);
    if (again == RT_OK) {
        /* Out of the way, so that the next save does not put it in the place of the good one. */
        char aside[PATH_ROOM];
        if (checkpoint_join(dir, damaged, aside, NULL) == RT_OK && rename(path, aside) != 0 &&
            errno != ENOENT)
            return rt_fail(err, RT_IO, "%s: cannot be moved aside: %s", path, strerror(errno));
        rt_fail(notice, RT_OK, "the newest checkpoint cannot be used (%.450s); %.300s is, of update %llu",
                first.text, old, (unsigned long long)training_state->update);
        return RT_OK;
    }
    if (usable)
        return rt_fail(err, again, "%s", second.text);
    return rt_fail(err, status, "no checkpoint can be used: %.450s; %.450s", first.text, second.text);
}
