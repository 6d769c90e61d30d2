/* What devices are called: see membership.h. */
#include "run/membership.h"

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

struct rt_node_names rt_membership_names(const struct rt_membership *membership) {
    return membership->view ? rt_view_names(membership->view) : (struct rt_node_names){0};
}

rt_status rt_membership_lost(const struct rt_membership *membership, size_t device, size_t *lost,
                             struct rt_error *err) {
    const double stalled = membership->endpoint ? rt_endpoint_stalled(membership->endpoint) : 0;
    char title[RT_TITLE_ROOM];
    if (lost)
        *lost = stalled > 0 || device == 0 ? RT_LOST_MASTER : device;
    if (stalled > 0 && device > 0)
        rt_fail_prefix(err, RT_LOST, "%.80s", membership->name[device]);
    if (stalled > 0)
        return rt_fail_prefix(err, RT_LOST, "this machine did not run for %.0f seconds, and was given up",
                              stalled);
    if (device == 0)
        return rt_fail_prefix(err, RT_LOST, "this machine was given up");
    char how[RT_HOW_ROOM];
    if (membership->cluster && rt_cluster_ended(membership->cluster, device - 1, how)) {
        rt_fail_more(err, RT_LOST, "; it %s", how);
    }
    return rt_fail_prefix(err, RT_LOST, "%s is lost", rt_membership_title(membership, device, title));
}
