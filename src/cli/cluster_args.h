/* The options of every command that can work on several devices. */
#ifndef RT_CLI_CLUSTER_ARGS_H
#define RT_CLI_CLUSTER_ARGS_H

#include "cli/args.h"

struct rt_cluster_args {
    int64_t nodes, wait_nodes;
    struct rt_words node, set;
    const char *listen, *key;
};

/* Rows for a command's table; at: the offset of a struct rt_cluster_args in its settings. */
#define RT_CLUSTER_ARGS(at) RT_CLUSTER_ARGS_SET(at, "set a key of the run file, as often as needed")
/* The same with another help for --set. */
#define RT_CLUSTER_ARGS_SET(at, set_help)                                                                    \
    {"--nodes",                                                                                              \
     "N",                                                                                                    \
     RT_ARG_COUNT,                                                                                           \
     .offset = (at) + offsetof(struct rt_cluster_args, nodes),                                               \
     .default_help = "cluster.nodes, else 1",                                                                \
     .help = "processes on this machine that share the work"},                                               \
        {"--node",                                                                                           \
         "HOST:PORT",                                                                                        \
         RT_ARG_WORDS,                                                                                       \
         .offset = (at) + offsetof(struct rt_cluster_args, node),                                            \
         .default_help = "cluster.node",                                                                     \
         .help = "a running node, as often as needed; HOST alone: port 7117"},                               \
        {"--listen",                                                                                         \
         "HOST:PORT",                                                                                        \
         RT_ARG_TEXT,                                                                                        \
         .offset = (at) + offsetof(struct rt_cluster_args, listen),                                          \
         .default_help = "cluster.listen",                                                                   \
         .help = "where nodes may join, see `ringtmp node --join`"},                                         \
        {"--wait-nodes",                                                                                     \
         "N",                                                                                                \
         RT_ARG_COUNT,                                                                                       \
         .offset = (at) + offsetof(struct rt_cluster_args, wait_nodes),                                      \
         .default_help = "1 where there is no other device",                                                 \
         .help = "nodes that must have joined before it begins"},                                            \
        {"--key",                                                                                            \
         "FILE",                                                                                             \
         RT_ARG_TEXT,                                                                                        \
         .offset = (at) + offsetof(struct rt_cluster_args, key),                                             \
         .default_help = "cluster.key",                                                                      \
         .help = "the cluster key, see `ringtmp keygen`"},                                                   \
    {                                                                                                        \
        "--set", "KEY=VALUE", RT_ARG_WORDS, .offset = (at) + offsetof(struct rt_cluster_args, set),          \
                                            .default_help = "none", .help = set_help                         \
    }

/* The options as settings, as rt_run_set_as takes them. */
struct rt_settings {
    char **items;
    size_t count;
};
rt_status rt_cluster_args_settings(const struct rt_cluster_args *args, struct rt_settings *settings,
                                   struct rt_error *err);
/* Adds a setting, with the option that was typed; value NULL: none. */
rt_status rt_settings_add(struct rt_settings *settings, const char *option, const char *key,
                          const char *value, struct rt_error *err);
rt_status rt_settings_add_strategy(struct rt_settings *settings, const char *strategy, struct rt_error *err);
/* rt_run_set_as for each. */
rt_status rt_settings_apply(const struct rt_settings *settings, struct rt_run *run, struct rt_error *err);
void rt_settings_deinit(struct rt_settings *settings);

/* The program's own file, for starting it again as a node. */
enum { RT_PROGRAM_ROOM = 4096 };
const char *rt_own_program(const char *typed, char path[RT_PROGRAM_ROOM]);

#endif
