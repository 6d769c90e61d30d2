/*
 * The run file: what to train, on what, how. Read from YAML into these structs through option tables, which
 * also make settings, the help texts and docs agree with one another.
 */
#ifndef RT_FORMATS_RUNFILE_H
#define RT_FORMATS_RUNFILE_H

#include "base/option.h"
#include "optim/schedule.h"
#include "tensor/shape.h"

struct rt_spec_model {
    const struct rt_tree *input;  /* the shape of one example */
    const struct rt_tree *layers; /* list */
    const char *loss;
    const char *init; /* a model file to start from, or NULL */
};

struct rt_spec_data {
    const struct rt_tree *train, *test, *validation; /* sources; validation and test may be NULL */
    double scale, offset;
    bool standardize;
    double split;    /* part of train held out as test when there is no test source; 0: none */
    double hold_out; /* part of train held out for validation when there is no validation source; 0: none */
    int64_t limit;   /* use the first N training examples; 0: all */
    bool shuffle;
    int target; /* enum rt_target by choice "label" (classes or values, as the loss wants) or "input" */
    bool send;  /* workers of an exchange get their examples from the master; otherwise they have a copy */
    int64_t cache_above; /* MiB */
    const char *cache_dir;
};

struct rt_spec_train {
    int64_t batch;                   /* 32 */
    int64_t micro_batch;             /* -1: auto */
    int64_t epochs;                  /* 10 */
    int64_t updates;                 /* stop after so many; 0: no limit */
    bool drop_last;                  /* the incomplete batch at the end of an epoch is left out */
    const struct rt_tree *optimizer; /* default: sgd */
    const struct rt_tree *schedule;
    double weight_decay;      /* -1: the rule's default; what the optimizer says itself wins */
    double clip_norm;         /* 0: off */
    int64_t seed;             /* 1 */
    int64_t shards;           /* 1; a power of two */
    int64_t threads;          /* -1: all cores */
    int math;                 /* exact, fast, reference */
    const char *kernels;      /* auto, avx512, avx2, neon, portable */
    int64_t validate_epochs;  /* 1; 0: not by epochs */
    int64_t validate_updates; /* 0 */
    bool keep_best; /* true: model.safetensors is the best by validation loss when there is validation data */
    int64_t early_stop;        /* validations without improvement before stopping; 0: never */
    double checkpoint_seconds; /* 60; 0: only at the end and on a signal */
    double report_seconds;     /* journal and progress interval; 1 */
};

/* Where the replicas of the model's state are that a run survives the loss of a device with. */
enum rt_replica_place { RT_REPLICA_AUTO, RT_REPLICA_MEMORY, RT_REPLICA_DISK, RT_REPLICA_OFF };

struct rt_spec_cluster {
    const struct rt_tree *strategy; /* NULL: ring where there are several devices, else sgd */
    int64_t nodes;                  /* 1: processes on this machine, the master among them */
    const struct rt_tree *node;     /* addresses of nodes that are running already, a list; or NULL */
    const char *listen;             /* where nodes may join; NULL: the master accepts no connections */
    int64_t wait_nodes;             /* of those, that are waited for; -1: see rt_spec_wait_nodes */
    const char *key;                /* file with the cluster key; NULL: none */
    const char *certificate, *private_key, *authority;
    int64_t master_tail;            /* layers at the end of the network that the master holds as well */
    int plan;                       /* 0: auto, 1: even */
    bool keep_all;                  /* leave no device out */
    const char *memory_text;        /* as it was written */
    int64_t memory;                 /* MiB that each local process may use; 0: no limit */
    const struct rt_tree *slowdown; /* of each local process, the master first: emulated devices; or NULL */
    const struct rt_tree *bandwidth, *latency; /* of an emulated network; or NULL */
    double silence, timeout;                   /* seconds */
    double wait_master, wait_device;           /* seconds */
    bool recover;
    bool rebalance;        /* layers change hands when devices have become slower or faster */
    int replica;           /* enum rt_replica_place */
    int64_t replica_every; /* updates; -1: auto */
};

struct rt_spec {
    struct rt_tree *tree; /* owned: everything above borrows from it */
    char *file;           /* the file's name, which the tree borrows for messages; owned */
    char *name;           /* the key name, or the file's base name without extension; owned */
    char *base_dir;       /* the file's directory; owned */
    const char *out;      /* the output directory; "none": no files; NULL: not given */
    char notice[160];     /* a key under an old name was given: a message for the user; "": none */
    struct rt_spec_model model;
    struct rt_spec_data data;
    struct rt_spec_train train;
    struct rt_spec_cluster cluster;
};

/* Reads the file, applies the settings ("key=value", in order; "--nodes cluster.nodes=2" for messages with
 * the option that was typed), checks everything that can be checked without data. Fails with file and line.
 * model.input, layers, loss and data.train are required; the layers, the loss, the optimizer and the data
 * sources are read later, by the parts that use them. */
rt_status rt_spec_load(const char *path, const char *const *settings, size_t setting_count,
                       struct rt_spec **spec, struct rt_error *err);
/* The same for text in memory; name stands for the path. No key is required. */
rt_status rt_spec_parse(const char *text, size_t bytes, const char *name, const char *const *settings,
                        size_t setting_count, struct rt_spec **spec, struct rt_error *err);
/* The same in two steps, for a caller that collects settings: rt_spec_draft reads a tree (copied; its file
 * names must outlive the spec) and the settings so far, and checks every key by itself; rt_spec_check checks
 * values against one another, and that required keys are there. */
rt_status rt_spec_draft(const struct rt_tree *tree, const char *name, const char *const *settings,
                        size_t setting_count, struct rt_spec **spec, struct rt_error *err);
rt_status rt_spec_check(const struct rt_spec *spec, struct rt_error *err);
void rt_spec_destroy(struct rt_spec *spec);

/* The data section alone, which borrows from tree: as strict as the whole. */
rt_status rt_spec_data_read(const struct rt_tree *tree, struct rt_spec_data *data, struct rt_error *err);

/* How many devices there are: local processes and nodes that are running. */
size_t rt_spec_devices(const struct rt_spec *spec);
/* Nodes of cluster.node. */
size_t rt_spec_addresses(const struct rt_spec *spec);
/* Nodes that must have joined before the run begins; 0 without cluster.listen. */
size_t rt_spec_wait_nodes(const struct rt_spec *spec);

/* The full name of a key, as "train.epochs"; false: no section has it. */
bool rt_spec_find_key(const char *name, char path[64]);

/* Every key with its help and default, for `ringtmp train --help-keys` and docs/runfile.md. */
void rt_spec_help(FILE *out);

#endif
