/* The keys of a file's metadata, and the hash over them. */
#include "run/description.h"

#include "base/option.h"
#include <string.h>

static const char space[] = "ringtmp.";

/* What the hash covers, sorted. The numbers are covered through their own hashes. */
static const char *const covered[] = {
    RT_KEY_CLASSES, RT_KEY_LOSS,    RT_KEY_MODEL,  RT_KEY_PARAMS_HASH, RT_KEY_BUFFERS_HASH,
    RT_KEY_COLUMNS, RT_KEY_SCALING, RT_KEY_UPDATE, RT_KEY_VERSION,     NULL};

rt_status rt_description_seal(struct rt_tensors_out *out, struct rt_error *err) {
    char hex[65];
    rt_status status = rt_tensors_out_hash(out, covered, hex, err);
    return status == RT_OK ? rt_tensors_out_amend(out, RT_KEY_HASH, hex, err) : status;
}

static bool description_is_known(const char *key) {
    static const char *const others[] = {RT_KEY_HASH, "state", "sha256",
                                         NULL}; /* the last two: checkpoints */
    for (const char *const *name = covered; *name; name++)
        if (strcmp(*name, key) == 0)
            return true;
    for (const char *const *name = others; *name; name++)
        if (strcmp(*name, key) == 0)
            return true;
    return false;
}

/* Without a hash, a key that differs from one of ours by a letter or two is one that was altered: the hash's
 * own, or any in a file of the time before there was one. */
static const char *description_altered_from(const char *key) {
    static const char *const hash[] = {RT_KEY_HASH, NULL};
    const char *near = rt_nearest(key, hash);
    return near ? near : rt_nearest(key, covered);
}

rt_status rt_description_check(const struct rt_tensors *tensors, const char *path, bool *sealed,
                               struct rt_error *err) {
    const char *said = rt_tensors_meta(tensors, RT_KEY_HASH);
    const bool ours = rt_tensors_meta(tensors, RT_KEY_MODEL) || rt_tensors_meta(tensors, RT_KEY_LOSS);
    for (size_t i = 0; i < tensors->meta_count; i++) {
        const char *key = tensors->meta_keys[i];
        const bool in_space = strncmp(key, space, strlen(space)) == 0, known = description_is_known(key);
        /* The hash is as old as the first of these keys. */
        if (known && in_space && !said)
            return rt_fail(err, RT_BAD_INPUT,
                           "%s: has `%s` in its metadata without `" RT_KEY_HASH "`: it has been altered",
                           path, key);
        if (known)
            continue;
        if (in_space)
            return rt_fail(
                err, RT_BAD_INPUT,
                "%s: its metadata has the key '%.60s', which this version does not know: the file was "
                "altered, or written by a later version",
                path, key);
        const char *near = ours && !said ? description_altered_from(key) : NULL;
        if (near)
            return rt_fail(err, RT_BAD_INPUT,
                           "%s: its metadata has the key '%.60s', which looks like '%s' altered", path, key,
                           near);
    }
    *sealed = said;
    if (!said)
        return RT_OK;
    char hex[65];
    rt_status status = rt_tensors_hash(tensors, covered, hex, err);
    if (status == RT_OK && strcmp(hex, said) != 0)
        status =
            rt_fail(err, RT_BAD_INPUT,
                    "%s: its description (metadata, or names and shapes of its tensors) does not match the "
                    "hash in the file: it has been altered",
                    path);
    return status;
}
