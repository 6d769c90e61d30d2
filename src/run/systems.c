/*
 * Systems of the literature by name. Each is a strategy with options that makes the same updates in the same
 * places; where a system has more to it than that (a coder, replicas of servers), `without` says so. Systems
 * whose essence is not built are not listed.
 */
#include "run/strategy.h"

static const struct rt_system systems[] = {
    {"ahmed-2012", "ps-shard", "base=async", NULL},
    {"asysg", "ps-async", "", NULL},
    {"baidu", "allreduce-ring", "", NULL},
    {"bigdl", "ps-peer", "", NULL},
    {"caffe2", "allreduce-auto", "", NULL},
    {"caffeonspark", "ps-peer", "", NULL},
    {"chen-2016", "ps-backup", "", NULL},
    {"dc-asgd", "ps-async", "dc=0.04", NULL},
    {"dianne", "downpour", "k=auto", "layers on different machines"},
    {"distbelief", "downpour", "k=auto", "layers on different machines, L-BFGS"},
    {"firecaffe", "ps-tree", "", NULL},
    {"giraph-unchained", "ps-async", "", NULL},
    {"gloo", "allreduce-hd", "", NULL},
    {"horovod", "allreduce-ring", "", NULL},
    {"le-2013", "downpour", "k=auto", "locally connected layers"},
    {"multiverso", "ps-shard", "base=async", NULL},
    {"mxnet", "ps-peer", "", NULL},
    {"mxnet-kvstore", "ps-hier", "", NULL},
    {"nccl", "allreduce-ring", "", NULL},
    {"parameter-server", "ps-shard", "base=ssp,k=2", "replicas of servers, filters"},
    {"petuum", "ps-shard", "base=ssp", "parameters sent unasked, the user's schedule"},
    {"project-adam", "ps-cut", "base=async", "more servers, factors instead of gradients"},
    {"pytorch", "allreduce-ring", "", NULL},
    {"ringtmp", "ring", "", NULL},
    {"ssptable", "ps-shard", "base=ssp", NULL},
    {"tensorflow", "ps-peer", "", NULL},
    {"tensorflow-async", "ps-shard", "base=async", NULL},
    {"terascale", "allreduce-tree", "", NULL},
    {"vap", "ps-vap", "", "several servers"},
    {"yahoolda", "ps-shard", "base=async", NULL},
    {"zero", "ps-peer", "", NULL},
};

const struct rt_system *rt_systems(size_t *count) {
    *count = sizeof systems / sizeof *systems;
    return systems;
}

static char systems_folded(char c) {
    return c == '_' || c == ' ' ? '-' : c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

const struct rt_system *rt_system_find(const char *name) {
    for (size_t i = 0; i < sizeof systems / sizeof *systems; i++) {
        const char *a = systems[i].name, *b = name;
        while (*a && *a == systems_folded(*b))
            a++, b++;
        if (!*a && !*b)
            return &systems[i];
    }
    return NULL;
}
