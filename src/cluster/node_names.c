/* Names in sentences; see node_names.h. */
#include "cluster/node_names.h"

#include "base/sentence.h"
#include <stdio.h>

const char *rt_node_name(const struct rt_node_names *names, size_t node, char text[RT_NAME_ROOM]) {
    if (node == 0)
        return "the master";
    if (node < names->count && names->name[node][0])
        return names->name[node];
    snprintf(text, RT_NAME_ROOM, "node %zu", node);
    return text;
}

rt_status rt_node_names_blame(const struct rt_node_names *names, uint16_t node, struct rt_error *err) {
    char text[RT_NAME_ROOM];
    if (node == RT_NODE_NONE)
        return err->status;
    return rt_fail_prefix(err, err->status, "%s", rt_node_name(names, node, text));
}

/* Where several nodes notice it, the user can see who did. */
void rt_node_names_report(const struct rt_node_names *names, uint16_t self, uint16_t lost,
                          const struct rt_error *why, struct rt_error_message *report) {
    struct rt_error said = *why;
    char text[RT_NAME_ROOM];
    const bool other = lost != RT_NODE_NONE;
    if (other)
        rt_fail_more(&said, why->status, ", %s reports", rt_node_name(names, self, text));
    report->status = (uint16_t)(other ? RT_IO : why->status);
    report->node = other ? lost : self;
    rt_copy_sentence(report->text, sizeof report->text, said.text);
}
