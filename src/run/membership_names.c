/* What devices are called: see membership.h. */
#include "run/membership.h"

#include <stdlib.h>
#include <string.h>

static bool membership_has_address(const struct rt_membership *membership, size_t device) {
    return membership->address[device][0] &&
           strcmp(membership->address[device], membership->name[device]) != 0;
}

const char *rt_membership_title(const struct rt_membership *membership, size_t device,
                                char title[RT_TITLE_ROOM]) {
    if (membership_has_address(membership, device))
        snprintf(title, RT_TITLE_ROOM, "%.80s (%.100s)", membership->name[device],
                 membership->address[device]);
    else
        snprintf(title, RT_TITLE_ROOM, "%.190s", membership->name[device]);
    return title;
}

void rt_membership_print_addresses(const struct rt_membership *membership, FILE *out) {
    const char *gap = "";
    for (size_t i = 0; i < membership->devices; i++)
        if (membership_has_address(membership, i)) {
            fprintf(out, "%s%s is %s", gap, membership->name[i], membership->address[i]);
            gap = ", ";
        }
    if (*gap)
        fputs(".\n", out);
}

rt_status rt_membership_lost(const struct rt_membership *membership, size_t device, size_t *lost,
                             struct rt_error *err) {
    const size_t length = strlen(membership->name[device]);
    const double stalled = membership->endpoint ? rt_endpoint_stalled(membership->endpoint) : 0;
    char title[RT_TITLE_ROOM];
    if (stalled > 0)
        return rt_fail_prefix(err, RT_LOST, "this machine did not run for %.0f seconds, and was given up",
                              stalled);
    if (device == 0)
        return rt_fail_prefix(err, RT_LOST, "this machine was given up");
    if (strncmp(err->text, membership->name[device], length) == 0 &&
        strncmp(err->text + length, ": ", 2) == 0)
        memmove(err->text, err->text + length + 2, strlen(err->text + length + 2) + 1);
    if (lost)
        *lost = device;
    char how[RT_HOW_ROOM];
    if (device > 0 && membership->cluster && rt_cluster_ended(membership->cluster, device - 1, how)) {
        const struct rt_error said = *err;
        rt_fail(err, RT_LOST, "%.400s; it %s", said.text, how);
    }
    return rt_fail_prefix(err, RT_LOST, "%s is lost", rt_membership_title(membership, device, title));
}

/* ---- names in place of numbers ---- */

static bool membership_is(const char *text, size_t length, const char *name) {
    return strlen(name) == length && memcmp(text, name, length) == 0;
}

/* The device whose name or address stands in a text; devices: none. */
static size_t membership_find(const struct rt_membership *membership, const char *text, size_t length) {
    size_t i = 1;
    while (i < membership->devices && !membership_is(text, length, membership->name[i]) &&
           !membership_is(text, length, membership->address[i]))
        i++;
    return i;
}

/* An address from which somebody has connected: it says nothing. */
static bool membership_is_address(const char *text, size_t length) {
    size_t digits = 0;
    while (digits < length && text[length - 1 - digits] >= '0' && text[length - 1 - digits] <= '9')
        digits++;
    return digits > 0 && digits < length && text[length - 1 - digits] == ':';
}

void rt_membership_name_nodes(const struct rt_membership *membership, size_t nodes,
                              size_t (*device)(const void *user, size_t node), const void *user,
                              struct rt_error *err) {
    static const char word[] = "node ";
    const struct rt_error said = *err;
    size_t used = 0;
    for (const char *at = said.text; *at && used + 1 < sizeof err->text;) {
        char *end = NULL;
        const bool begins = at == said.text || at[-1] == ' ' || at[-1] == '(';
        const bool named = begins && strncmp(at, word, sizeof word - 1) == 0 && at[sizeof word - 1] >= '0' &&
                           at[sizeof word - 1] <= '9';
        const unsigned long number = named ? strtoul(at + sizeof word - 1, &end, 10) : nodes;
        size_t who = !named || number >= nodes ? membership->devices : device ? device(user, number) : number;
        const char *close = named && strncmp(end, " (", 2) == 0 ? strchr(end, ')') : NULL;
        if (close) {
            const size_t length = (size_t)(close - end - 2),
                         known = membership_find(membership, end + 2, length);
            if (known < membership->devices)
                who = known;
            if (known < membership->devices || membership_is_address(end + 2, length))
                end += length + 3;
        }
        if (who >= membership->devices) {
            err->text[used++] = *at++;
            continue;
        }
        const int more = snprintf(err->text + used, sizeof err->text - used, "%s", membership->name[who]);
        used += more > 0 ? (size_t)more : 0;
        at = end;
    }
    err->text[used < sizeof err->text ? used : sizeof err->text - 1] = 0;
}
