/* The devices of a run as a table. */
#ifndef RT_CLI_NODE_TABLE_H
#define RT_CLI_NODE_TABLE_H

#include "run/run.h"

/* As lines, to be freed; NULL: there are none, or no memory. final: at the end of a run, with the plan's
 * predictions. If there are more than `most` lines, the last says how many devices are not shown. */
char *rt_node_table(const struct rt_run *run, bool final, size_t most);

#endif
