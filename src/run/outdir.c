/* Claiming, locking and giving up an output directory. */
#include "run/outdir.h"

#include "base/file.h"
#include "run/checkpoint.h"
#include "run/token.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { PATH_ROOM = 4096 };

static const char journal[] = "journal.jsonl";

static rt_status outdir_join(const char *dir, const char *file, char path[PATH_ROOM], struct rt_error *err) {
    if (snprintf(path, PATH_ROOM, "%s/%s", dir, file) >= PATH_ROOM)
        return rt_fail(err, RT_BAD_INPUT, "%s: the path is too long", dir);
    return RT_OK;
}

/* ---- what is there ---- */

/* entries: NULL when there is no such directory. */
static rt_status outdir_list(const char *dir, DIR **entries, struct rt_error *err) {
    *entries = opendir(dir);
    if (*entries || errno == ENOENT)
        return RT_OK;
    const int error = errno;
    struct stat info;
    if (stat(dir, &info) == 0 && !S_ISDIR(info.st_mode))
        return rt_fail(err, RT_BAD_INPUT, "%s: is a file, not a directory that a run could write into", dir);
    return rt_fail(err, RT_BAD_INPUT, "%s: cannot be read: %s", dir, strerror(error));
}

/* An empty journal is what a claim makes; one that was killed may have left it. */
static bool outdir_counts(DIR *entries, const char *name) {
    struct stat info;
    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
        return false;
    return strcmp(name, journal) != 0 || fstatat(dirfd(entries), name, &info, AT_SYMLINK_NOFOLLOW) != 0 ||
           !S_ISREG(info.st_mode) || info.st_size > 0;
}

static bool outdir_exists(const char *dir, const char *file) {
    char path[PATH_ROOM];
    struct stat info;
    return outdir_join(dir, file, path, NULL) == RT_OK && lstat(path, &info) == 0 && S_ISREG(info.st_mode);
}

enum rt_out_state rt_out_look(const char *dir) {
    char checkpoint[PATH_ROOM];
    if (outdir_join(dir, "checkpoint", checkpoint, NULL) == RT_OK && rt_checkpoint_exists(checkpoint))
        return RT_OUT_SAVED;
    /* A run that was finished is not begun again over its result. */
    return outdir_exists(dir, journal) && !outdir_exists(dir, "model.safetensors") &&
                   !outdir_exists(dir, "summary.json")
               ? RT_OUT_BEGUN
               : RT_OUT_NOTHING;
}

static rt_status outdir_check_empty(const struct rt_run *run, struct rt_error *err) {
    const char *dir = run->out_dir;
    DIR *entries;
    rt_status status = outdir_list(dir, &entries, err);
    if (status != RT_OK || !entries)
        return status;
    bool empty = true;
    const struct dirent *entry;
    while (empty && (entry = readdir(entries)))
        empty = !outdir_counts(entries, entry->d_name);
    closedir(entries);
    if (empty)
        return RT_OK;
    if (rt_out_look(dir) == RT_OUT_NOTHING)
        return rt_fail(err, RT_BAD_INPUT, "%s: is not an empty directory; choose another one", dir);
    return rt_fail(err, RT_BAD_INPUT,
                   "%s: is not an empty directory; choose another one, or continue the run in it with %s",
                   dir, run->terms.resume);
}

/* ---- the lock ---- */

/* On the journal, which every run has. A lock goes with its process, however that ends. A file system that
 * has no locks is used without. */
static rt_status outdir_lock(const char *dir, struct rt_out *out, struct rt_error *err) {
    char path[PATH_ROOM];
    rt_status status = outdir_join(dir, journal, path, err);
    if (status != RT_OK)
        return status;
    for (;;) {
        int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
        if (file < 0)
            return rt_fail(err, RT_BAD_INPUT, "%s: cannot be written: %s", path, strerror(errno));
        if (flock(file, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
            close(file);
            return rt_fail(err, RT_BAD_INPUT, "another run is writing into %s", dir);
        }
        /* A run that gave the directory up removes its journal: the one locked must be the one there. */
        struct stat held, there;
        if (fstat(file, &held) == 0 && stat(path, &there) == 0 && held.st_dev == there.st_dev &&
            held.st_ino == there.st_ino) {
            out->lock = file;
            return RT_OK;
        }
        close(file);
    }
}

/* ---- claiming ---- */

/* A directory that cannot be made is told like any other bad option: nothing was started. */
static rt_status outdir_make(const char *dir, bool *made, struct rt_error *err) {
    struct rt_error own;
    rt_status status = rt_claim_directory(dir, made, &own);
    if (status == RT_OK || status == RT_NO_MEMORY)
        return status == RT_OK ? RT_OK : rt_fail(err, status, "%s", own.text);
    return rt_fail(err, RT_BAD_INPUT, "the output directory cannot be used: %s", own.text);
}

/* runs/<name>-<time>, with a number when others started in the same second. */
static rt_status outdir_claim_name(const char *name, char **dir, struct rt_error *err) {
    char stamp[32];
    time_t now = time(NULL);
    struct tm parts;
    if (!localtime_r(&now, &parts) || strftime(stamp, sizeof stamp, "%Y%m%d-%H%M%S", &parts) == 0)
        return rt_fail(err, RT_FAILED, "the time of day cannot be read; give an output directory");
    size_t room = strlen(name) + sizeof stamp + 32;
    char *path = malloc(room);
    if (!path)
        return rt_fail(err, RT_NO_MEMORY, "not enough memory for the output directory's name");
    snprintf(path, room, "runs/%s-%s", name, stamp);
    bool made = false;
    rt_status status = outdir_make(path, &made, err);
    for (int i = 2; status == RT_OK && !made; i++) {
        snprintf(path, room, "runs/%s-%s-%d", name, stamp, i);
        status = outdir_make(path, &made, err);
    }
    if (status != RT_OK)
        free(path);
    else
        *dir = path;
    return status;
}

/* The directory that was asked for, by rt_run_set_out or else in the run file; NULL: none was. */
static const char *outdir_asked(const struct rt_run *run) {
    return run->out_given ? run->out_dir : run->spec->out;
}

/* Takes dir over. */
static void outdir_name_it(struct rt_run *run, char *dir, struct rt_out *out) {
    out->before = run->out_dir;
    out->named = true;
    run->out_dir = dir;
}

static rt_status outdir_claim_new(struct rt_run *run, struct rt_out *out, struct rt_error *err) {
    rt_status status;
    if (outdir_asked(run)) {
        status = outdir_check_empty(run, err);
        if (status == RT_OK)
            status = outdir_make(run->out_dir, &out->made, err);
    } else {
        char *dir = NULL;
        status = outdir_claim_name(run->spec->name, &dir, err);
        if (status == RT_OK) {
            outdir_name_it(run, dir, out);
            out->made = true;
        }
    }
    if (status == RT_OK)
        status = outdir_lock(run->out_dir, out, err);
    /* Another run may have come and gone since. */
    if (status == RT_OK)
        status = outdir_check_empty(run, err);
    out->fresh = status == RT_OK;
    return status;
}

static rt_status outdir_claim_old(const struct rt_run *run, struct rt_out *out, struct rt_error *err) {
    static const char *const written[] = {"model.safetensors", "summary.json", "checkpoint/state.safetensors",
                                          "checkpoint/best.safetensors"};
    char path[PATH_ROOM];
    DIR *entries;
    rt_status status = outdir_list(run->out_dir, &entries, err);
    if (status == RT_OK && entries)
        closedir(entries);
    if (status == RT_OK && rt_out_look(run->out_dir) == RT_OUT_NOTHING)
        status = rt_fail(err, RT_BAD_INPUT,
                         "%s: there is no checkpoint to resume from, nor a run that has begun; without %s a "
                         "run starts anew",
                         run->out_dir, run->terms.resume);
    if (status == RT_OK)
        status = outdir_lock(run->out_dir, out, err);
    /* Another run may have come to its end since. */
    out->begins = status == RT_OK && rt_out_look(run->out_dir) == RT_OUT_BEGUN;
    for (size_t i = 0; status == RT_OK && i < sizeof written / sizeof *written; i++) {
        status = outdir_join(run->out_dir, written[i], path, err);
        if (status == RT_OK)
            rt_remove_temporaries(path);
    }
    return status;
}

rt_status rt_out_claim(struct rt_run *run, struct rt_out *out, struct rt_error *err) {
    const char *dir = outdir_asked(run);
    *out = (struct rt_out){.lock = -1, .none = dir && strcmp(dir, "none") == 0};
    run->without_files = out->none;
    if (out->none && run->resume)
        return rt_fail(err, RT_BAD_INPUT,
                       "with out: none no checkpoint is written, so there is none to resume from");
    if (out->none)
        return RT_OK;
    if (dir && !run->out_given) {
        char *copy = strdup(dir);
        if (!copy)
            return rt_fail(err, RT_NO_MEMORY, "not enough memory for the output directory's name");
        outdir_name_it(run, copy, out);
    }
    if (!run->resume)
        return outdir_claim_new(run, out, err);
    if (!run->out_dir)
        return rt_fail(err, RT_BAD_INPUT,
                       "to resume, say with %s which output directory holds the checkpoint", run->terms.out);
    return outdir_claim_old(run, out, err);
}

void rt_out_release(struct rt_run *run, bool used, struct rt_out *out) {
    char path[PATH_ROOM];
    /* Under the lock, so that no file of another run is removed. */
    if (!used && out->fresh) {
        if (outdir_join(run->out_dir, journal, path, NULL) == RT_OK)
            unlink(path);
        if (outdir_join(run->out_dir, "checkpoint", path, NULL) == RT_OK) {
            rt_token_remove(path);
            rmdir(path);
        }
        if (out->made)
            rmdir(run->out_dir);
    }
    if (out->lock >= 0)
        close(out->lock);
    if (out->named && !used) {
        free(run->out_dir);
        run->out_dir = out->before;
    } else {
        free(out->before);
    }
    *out = (struct rt_out){.lock = -1};
}
