/* The output directory of a run. */
#include "train/state.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* runs/<name>-<time>, with a number when two runs start in the same second. */
static rt_status new_name(const char *name, char **dir, struct rt_error *err) {
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
    for (int i = 2; access(path, F_OK) == 0; i++)
        snprintf(path, room, "runs/%s-%s-%d", name, stamp, i);
    *dir = path;
    return RT_OK;
}

static bool is_empty(const char *dir) {
    DIR *entries = opendir(dir);
    if (!entries)
        return errno == ENOENT;
    bool empty = true;
    const struct dirent *entry;
    while (empty && (entry = readdir(entries)))
        empty = strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0;
    closedir(entries);
    return empty;
}

rt_status rt_run_choose_out(struct rt_run *run, struct rt_error *err) {
    if (run->resume && !run->out_dir)
        return rt_fail(err, RT_BAD_INPUT,
                       "to resume, say which output directory holds the checkpoint (--out DIR)");
    if (!run->out_given && !run->resume) {
        char *dir = NULL;
        rt_status status = new_name(run->spec->name, &dir, err);
        if (status != RT_OK)
            return status;
        free(run->out_dir);
        run->out_dir = dir;
        run->has_result = false;
    } else if (!run->resume && !is_empty(run->out_dir)) {
        return rt_fail(
            err, RT_BAD_INPUT,
            "%s: is not an empty directory; choose another one, or continue the run in it with --resume",
            run->out_dir);
    }
    return RT_OK;
}
