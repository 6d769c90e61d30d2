/* Writing and reading of checkpoints. */
#include "train/checkpoint.h"

#include "base/sha256.h"
#include "formats/safetensors.h"
#include "train/standing.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PATH_ROOM = 4096, NAME_ROOM = 256 };

static const char *const newest = "state.safetensors", *const previous = "previous.safetensors",
                         *const damaged = "damaged.safetensors";

static rt_status join(const char *dir, const char *file, char path[PATH_ROOM], struct rt_error *err) {
    if (snprintf(path, PATH_ROOM, "%s/%s", dir, file) >= PATH_ROOM)
        return rt_fail(err, RT_BAD_INPUT, "%s: the path is too long", dir);
    return RT_OK;
}

bool rt_checkpoint_exists(const char *dir) {
    char path[PATH_ROOM];
    return (join(dir, newest, path, NULL) == RT_OK && access(path, F_OK) == 0) ||
           (join(dir, previous, path, NULL) == RT_OK && access(path, F_OK) == 0);
}

/* ---- a walk over everything that is saved ---- */

struct walk {
    const struct rt_checkpointed *what;
    size_t word; /* 0: parameters and buffers; w: word w-1 of the optimizer's state */
    rt_status (*visit)(struct walk *walk, const char *name, const struct rt_shape *shape, float *data,
                       struct rt_error *err);
    struct rt_tensors_out *out;
    const struct rt_tensors *in;
    struct rt_sha256 hash;
    size_t count;
};

static rt_status visit_tensor(void *user, const char *name, const struct rt_shape *shape, size_t offset,
                              bool is_buffer, struct rt_error *err) {
    struct walk *walk = user;
    const struct rt_network *network = walk->what->network;
    if (walk->word == 0)
        return walk->visit(walk, name, shape,
                           (is_buffer ? network->blocks.buffers : network->blocks.params) + offset, err);
    if (is_buffer)
        return RT_OK;
    char long_name[NAME_ROOM];
    if (snprintf(long_name, sizeof long_name, "optimizer.%zu.%s", walk->word - 1, name) >= NAME_ROOM)
        return rt_fail(err, RT_FAILED, "the name %s is too long for a checkpoint", name);
    return walk->visit(walk, long_name, shape,
                       walk->what->optim_state + (walk->word - 1) * network->model->param_count + offset,
                       err);
}

static rt_status walk_all(struct walk *walk,
                          rt_status (*visit)(struct walk *, const char *, const struct rt_shape *, float *,
                                             struct rt_error *),
                          struct rt_error *err) {
    walk->visit = visit;
    rt_status status = RT_OK;
    for (walk->word = 0; status == RT_OK && walk->word <= walk->what->optim_words; walk->word++)
        status = rt_model_visit(walk->what->network->model, visit_tensor, walk, err);
    return status;
}

static rt_status hash_name(struct walk *walk, const char *name, const struct rt_shape *shape, float *data,
                           struct rt_error *err) {
    (void)shape, (void)data, (void)err;
    rt_sha256_add(&walk->hash, name, strlen(name) + 1);
    return RT_OK;
}

static rt_status hash_data(struct walk *walk, const char *name, const struct rt_shape *shape, float *data,
                           struct rt_error *err) {
    (void)name, (void)err;
    rt_sha256_add(&walk->hash, data, rt_shape_size(shape) * sizeof *data);
    return RT_OK;
}

static rt_status declare(struct walk *walk, const char *name, const struct rt_shape *shape, float *data,
                         struct rt_error *err) {
    (void)data;
    return rt_tensors_out_declare(walk->out, name, shape, err);
}

static rt_status write_data(struct walk *walk, const char *name, const struct rt_shape *shape, float *data,
                            struct rt_error *err) {
    (void)name;
    return rt_tensors_out_write(walk->out, data, rt_shape_size(shape), err);
}

static rt_status read_data(struct walk *walk, const char *name, const struct rt_shape *shape, float *data,
                           struct rt_error *err) {
    walk->count++;
    return rt_tensors_read(walk->in, name, shape, data, err);
}

/* ---- saving ---- */

static rt_status write_all(struct walk *walk, const char *state, struct rt_error *err) {
    rt_sha256_init(&walk->hash);
    rt_sha256_add(&walk->hash, state, strlen(state));
    rt_status status = walk_all(walk, hash_name, err);
    if (status == RT_OK)
        status = walk_all(walk, hash_data, err);
    uint8_t digest[32];
    char hex[65];
    rt_sha256_finish(&walk->hash, digest);
    rt_sha256_hex(digest, hex);
    if (status == RT_OK)
        status = rt_tensors_out_meta(walk->out, "state", state, err);
    if (status == RT_OK)
        status = rt_tensors_out_meta(walk->out, "sha256", hex, err);
    if (status == RT_OK)
        status = walk_all(walk, declare, err);
    return status == RT_OK ? walk_all(walk, write_data, err) : status;
}

rt_status rt_checkpoint_save(const char *dir, const struct rt_checkpointed *what,
                             const struct rt_standing *standing, const struct rt_fingerprint *fingerprint,
                             struct rt_error *err) {
    char path[PATH_ROOM], old[PATH_ROOM], *state;
    rt_status status = join(dir, newest, path, err);
    if (status == RT_OK)
        status = join(dir, previous, old, err);
    if (status == RT_OK)
        status = rt_standing_json(standing, fingerprint, &state, err);
    if (status != RT_OK)
        return status;
    struct walk walk = {.what = what};
    status = rt_tensors_out_create(path, &walk.out, err);
    if (status == RT_OK) {
        status = write_all(&walk, state, err);
        /* The one before moves aside only when the new one is on the disk; between the two renames a crash
         * leaves only `previous`, which is then the newest there is. */
        if (status == RT_OK)
            status = rt_tensors_out_sync(walk.out, err);
        if (status == RT_OK && rename(path, old) != 0 && errno != ENOENT)
            status = rt_fail(err, RT_IO, "%s: cannot be renamed: %s", path, strerror(errno));
        if (status == RT_OK)
            status = rt_tensors_out_commit(walk.out, err);
        else
            rt_tensors_out_abandon(walk.out);
    }
    free(state);
    return status;
}

/* ---- loading ---- */

static rt_status check_hash(const char *path, const struct rt_tensors *tensors, const char *state,
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

/* A file is checked as a whole before anything of the run is touched. *usable: whether the file is what was
 * once written here; if so and the load still fails, an older one would not do better. */
static rt_status load_file(const char *path, const struct rt_checkpointed *what,
                           const struct rt_fingerprint *fingerprint, struct rt_standing *standing,
                           const char **rescored, bool *usable, struct rt_error *err) {
    struct rt_tensors tensors;
    *usable = false;
    rt_status status = rt_tensors_open(path, &tensors, err);
    if (status != RT_OK)
        return status;
    const char *state = rt_tensors_meta(&tensors, "state"), *said = rt_tensors_meta(&tensors, "sha256");
    if (!state || !said)
        status = rt_fail(err, RT_BAD_INPUT, "%s: is not a checkpoint of ringtmp", path);
    else
        status = check_hash(path, &tensors, state, said, err);
    struct rt_standing read;
    if (status == RT_OK) {
        *usable = true;
        status = rt_standing_read(state, path, fingerprint, &read, rescored, err);
    }
    struct walk walk = {.what = what, .in = &tensors};
    if (status == RT_OK)
        status = walk_all(&walk, read_data, err);
    if (status == RT_OK && walk.count != tensors.count)
        status =
            rt_fail(err, RT_BAD_INPUT, "%s: has %zu tensors, the run %zu", path, tensors.count, walk.count);
    what->network->blocks.prepared_valid = false;
    rt_tensors_close(&tensors);
    if (status == RT_OK)
        *standing = read;
    return status;
}

/* A file that the system refuses to open may be as good as any: only one that opens, or is not there, may be
 * passed over. */
static rt_status check_access(const char *path, struct rt_error *err) {
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file < 0 && errno != ENOENT)
        return rt_fail(err, errno == EACCES ? RT_BAD_INPUT : RT_IO, "%s: cannot be read: %s", path,
                       strerror(errno));
    if (file >= 0)
        close(file);
    return RT_OK;
}

rt_status rt_checkpoint_load(const char *dir, const struct rt_checkpointed *what,
                             const struct rt_fingerprint *fingerprint, struct rt_standing *standing,
                             const char **rescored, struct rt_error *notice, struct rt_error *err) {
    char path[PATH_ROOM], old[PATH_ROOM];
    struct rt_error first = {.text = ""}, second = {.text = ""};
    bool usable;
    notice->text[0] = 0;
    rt_status status = join(dir, newest, path, err);
    if (status == RT_OK)
        status = join(dir, previous, old, err);
    if (status != RT_OK)
        return status;
    if (!rt_checkpoint_exists(dir))
        return rt_fail(err, RT_BAD_INPUT, "%s: there is no checkpoint to resume from", dir);
    status = check_access(path, err);
    if (status != RT_OK)
        return status;
    status = load_file(path, what, fingerprint, standing, rescored, &usable, &first);
    if (status == RT_OK)
        return RT_OK;
    /* Memory and disks fail without the file being to blame. */
    if (usable || status != RT_BAD_INPUT)
        return rt_fail(err, status, "%s", first.text);
    rt_status again = load_file(old, what, fingerprint, standing, rescored, &usable, &second);
    if (again == RT_OK) {
        /* Out of the way, so that the next save does not put it in the place of the good one. */
        char aside[PATH_ROOM];
        if (join(dir, damaged, aside, NULL) == RT_OK && rename(path, aside) != 0 && errno != ENOENT)
            return rt_fail(err, RT_IO, "%s: cannot be moved aside: %s", path, strerror(errno));
        rt_fail(notice, RT_OK, "the newest checkpoint cannot be used (%.300s); the one before it is",
                first.text);
        return RT_OK;
    }
    if (usable)
        return rt_fail(err, again, "%s", second.text);
    return rt_fail(err, status, "no checkpoint can be used: %.200s; %.200s", first.text, second.text);
}
