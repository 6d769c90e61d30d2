/*
 * How much CPU time control groups grant this process. A container may see all cores of its machine and still
 * be stopped in every tenth of a second once it has used up its quota: more threads than that only wait. A
 * group is bounded by its own limit and by those of all groups above it.
 */
#include "base/cores.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATH_ROOM = 4096, TEXT = 128 };

static bool quota_read_text(const char *directory, const char *name, char text[TEXT]) {
    char path[PATH_ROOM];
    if (snprintf(path, sizeof path, "%s/%s", directory, name) >= (int)sizeof path)
        return false;
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    const bool read = fgets(text, TEXT, file) != NULL;
    fclose(file);
    return read;
}

/* The limit of the group in this directory, in cores; 0: no limit. */
static double quota_limit_of(const char *directory, bool second) {
    char quota[TEXT], period[TEXT];
    char *end;
    if (second) { /* "150000 100000", or "max 100000" */
        if (!quota_read_text(directory, "cpu.max", quota))
            return 0;
        const double granted = strtod(quota, &end), every = strtod(end, NULL);
        return end != quota && granted > 0 && every > 0 ? granted / every : 0;
    }
    if (!quota_read_text(directory, "cpu.cfs_quota_us", quota) ||
        !quota_read_text(directory, "cpu.cfs_period_us", period))
        return 0;
    const double granted = strtod(quota, NULL), every = strtod(period, NULL); /* -1: none */
    return granted > 0 && every > 0 ? granted / every : 0;
}

/* The smallest limit from a group up to the first `top` characters of its path. */
static void quota_walk_up(char *directory, size_t top, bool second, double *least) {
    for (;;) {
        const double limit = quota_limit_of(directory, second);
        if (limit > 0 && (*least == 0 || limit < *least))
            *least = limit;
        char *slash = strrchr(directory, '/');
        if (strlen(directory) <= top || !slash)
            return;
        *slash = 0;
    }
}

static bool quota_has_word(const char *list, const char *word) {
    const size_t length = strlen(word);
    for (const char *at = list; at; at = strchr(at, ',')) {
        at += *at == ',';
        if (strncmp(at, word, length) == 0 && (at[length] == ',' || at[length] == 0))
            return true;
    }
    return false;
}

/* The group of this process, as "12:cpu,cpuacct:/path" or "0::/path" tells it. */
static bool quota_own_group(const char *root, bool second, char group[PATH_ROOM]) {
    char path[PATH_ROOM], *line = NULL;
    size_t room = 0;
    bool found = false;
    if (snprintf(path, sizeof path, "%s/proc/self/cgroup", root) >= (int)sizeof path)
        return false;
    FILE *file = fopen(path, "re");
    while (file && !found && getline(&line, &room, file) > 0) {
        line[strcspn(line, "\n")] = 0;
        char *controllers = strchr(line, ':'), *where = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!where)
            continue;
        *where++ = 0;
        controllers++;
        found =
            (second ? *controllers == 0 : quota_has_word(controllers, "cpu")) && strlen(where) < PATH_ROOM;
        if (found)
            strcpy(group, where);
    }
    free(line);
    if (file)
        fclose(file);
    return found;
}

/* "31 23 0:28 ROOT PLACE OPTIONS ... - TYPE SOURCE OPTIONS": PLACE shows the groups from ROOT down. */
static void quota_read_mount(const char *root, char *line, double *least) {
    char *rest = strstr(line, " - "), *field[5], *type[3];
    if (!rest)
        return;
    *rest = 0;
    char *next = line, *more = rest + 3;
    for (size_t i = 0; i < 5; i++)
        if (!(field[i] = strsep(&next, " ")))
            return;
    for (size_t i = 0; i < 3; i++)
        if (!(type[i] = strsep(&more, " \n")))
            return;
    const bool second = strcmp(type[0], "cgroup2") == 0;
    char group[PATH_ROOM], directory[PATH_ROOM];
    if (!second && (strcmp(type[0], "cgroup") != 0 || !quota_has_word(type[2], "cpu")))
        return;
    if (!quota_own_group(root, second, group))
        return;
    const char *shown = strcmp(field[3], "/") == 0 ? "" : field[3];
    const size_t length = strlen(shown);
    const bool below = strncmp(group, shown, length) == 0 && group[length] == '/' && group[length + 1] &&
                       !strstr(group, "/..");
    const int top = snprintf(directory, sizeof directory, "%s%s", root, field[4]);
    if (top < 0 || (size_t)top + strlen(group) >= sizeof directory)
        return;
    if (below)
        strcpy(directory + top, group + length);
    quota_walk_up(directory, (size_t)top, second, least);
}

double rt_cores_quota(const char *root) {
    char path[PATH_ROOM], *line = NULL;
    size_t room = 0;
    double least = 0;
    if (snprintf(path, sizeof path, "%s/proc/self/mountinfo", root) >= (int)sizeof path)
        return 0;
    FILE *file = fopen(path, "re");
    while (file && getline(&line, &room, file) > 0)
        quota_read_mount(root, line, &least);
    free(line);
    if (file)
        fclose(file);
    return least;
}
