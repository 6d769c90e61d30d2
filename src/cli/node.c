/* ringtmp node: offers this device to a cluster. cli/watch.h ends it in time. */
#include "cluster/node.h"
#include "base/cores.h"
#include "base/memory.h"
#include "base/option.h"
#include "base/utf8.h"
#include "cli/commands.h"
#include "cli/text.h"
#include "cli/watch.h"
#include "cluster/cluster.h"
#include "cluster/local.h"
#include "net/tcp.h"
#include "run/roles.h"
#include "tensor/answer.h"
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct settings {
    const char *listen, *join, *key, *certificate, *private_key, *authority;
    const char *memory, *name, *slowdown, *bandwidth, *latency, *data, *cache;
    bool insecure;
    int64_t threads, lifeline;
};

#define AT(field) offsetof(struct settings, field)
static const struct rt_arg args[] = {
    {"--listen", "HOST:PORT", RT_ARG_TEXT, .offset = AT(listen), .default_help = "127.0.0.1:7117",
     .help = "where masters find it; HOST alone: port 7117; port 0: any free one"},
    {"--join", "HOST:PORT", RT_ARG_TEXT, .offset = AT(join), .default_help = "none",
     .help = "connect to this master (`ringtmp train --listen`); no port is open then"},
    {"--key", "FILE", RT_ARG_TEXT, .offset = AT(key), .default_help = "none; only this machine may connect",
     .help = "the cluster key, see `ringtmp keygen`"},
    {"--cert", "FILE", RT_ARG_TEXT, .offset = AT(certificate), .default_help = "none",
     .help = "instead of a key: this node's certificate (PEM),"},
    {"--cert-key", "FILE", RT_ARG_TEXT, .offset = AT(private_key), .default_help = "none",
     .help = "its private key,"},
    {"--ca", "FILE", RT_ARG_TEXT, .offset = AT(authority), .default_help = "none",
     .help = "and the authority that signed all certificates"},
    {"--insecure", NULL, RT_ARG_SWITCH, .offset = AT(insecure), .default_help = "no",
     .help = "let anyone on the network connect, unencrypted"},
    {"--threads", "N", RT_ARG_COUNT, .offset = AT(threads), .default_help = "all cores, within a CPU quota",
     .help = "threads to compute with"},
    {"--memory", "SIZE", RT_ARG_TEXT, .offset = AT(memory), .default_help = "three quarters of what there is",
     .help = "memory it offers, as 512M or 2G; 0: no limit"},
    {"--name", "TEXT", RT_ARG_TEXT, .offset = AT(name), .default_help = "the host's",
     .help = "what messages call it"},
    {"--data", "DIR", RT_ARG_TEXT, .offset = AT(data), .default_help = "where it was started",
     .help = "training data are looked up here, and nowhere else"},
    {"--cache", "DIR", RT_ARG_TEXT, .offset = AT(cache), .default_help = "~/.cache/ringtmp",
     .help = "where large data files are kept in converted form"},
    {"--slowdown", "S", RT_ARG_TEXT, .offset = AT(slowdown), .fallback = "1",
     .help = "emulate a device S times slower; 1,500:4 is 1, and 4 from update 500 on"},
    {"--bandwidth", "RATE", RT_ARG_TEXT, .offset = AT(bandwidth), .default_help = "as it is",
     .help = "emulate a slower network: bits per second, as 100M"},
    {"--latency", "TIME", RT_ARG_TEXT, .offset = AT(latency), .default_help = "as it is",
     .help = "emulate a slower network: what it receives is later, as 1ms"},
    {"--lifeline", "FD", RT_ARG_COUNT, .offset = AT(lifeline), .default_help = "none",
     .help = "end when this descriptor does; for programs that start nodes"},
};

/* ---- options ---- */

static rt_status node_read_memory(const char *text, uint64_t *bytes, struct rt_error *err) {
    if (!text) {
        long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
        *bytes = pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page / 4 * 3 : 0;
        return RT_OK;
    }
    if (!rt_parse_size(text, 1, bytes))
        return rt_fail(err, RT_BAD_INPUT, "--memory must be a size such as 512M or 2G, not '%s'", text);
    return RT_OK;
}

struct plan {
    char address[RT_MAX_TEXT + 1]; /* "": it does not listen */
    char join[RT_MAX_TEXT + 1];    /* "": it does not join */
    struct rt_node_settings node;
    struct rt_node_device device;
    struct rt_tcp_settings network;
    uint8_t key[RT_KEY_BYTES];
};

static void node_tell(void *user, const char *sentence) {
    (void)user;
    fputs("ringtmp: ", stderr);
    rt_text_sentence(stderr, sentence);
    fputc('\n', stderr);
}

static rt_status node_read_addresses(const struct settings *settings, struct plan *plan,
                                     struct rt_error *err) {
    const char *listen = settings->listen ? settings->listen : settings->join ? NULL : "127.0.0.1:7117";
    rt_status status = listen ? rt_cluster_address(listen, plan->address, err) : RT_OK;
    if (status != RT_OK)
        return rt_fail_prefix(err, status, "--listen");
    if (!settings->join)
        return RT_OK;
    status = rt_cluster_address(settings->join, plan->join, err);
    return status == RT_OK ? RT_OK : rt_fail_prefix(err, status, "--join");
}

static rt_status node_read_settings(const struct settings *settings, struct plan *plan,
                                    struct rt_error *err) {
    const struct rt_kernels *kernels = rt_kernels_exact("auto");
    const size_t cores = rt_cores_usable();
    const size_t threads = settings->threads > 0 ? (size_t)settings->threads : cores;
    *plan = (struct plan){
        .node = {.name = settings->name,
                 .kernels = kernels->name,
                 .cores = (uint32_t)cores,
                 .threads = (uint32_t)threads,
                 .tell = settings->lifeline < 0 ? node_tell : NULL},
        .device = {.ring = {.kernels = "auto", .threads = threads},
                   .data = settings->data,
                   .cache = settings->cache},
        .network = {.certificate = settings->certificate,
                    .private_key = settings->private_key,
                    .authority = settings->authority,
                    .own_user = settings->lifeline >= 0,
                    .insecure = settings->insecure},
    };
    if (settings->name && (!*settings->name || !rt_utf8_plain(settings->name)))
        return rt_fail(err, RT_BAD_INPUT,
                       "--name must be plain text, without control characters, not '%.100s'", settings->name);
    if (settings->name && strlen(settings->name) > RT_NODE_NAME)
        return rt_fail(err, RT_BAD_INPUT, "--name must have at most %d bytes, not %zu", RT_NODE_NAME,
                       strlen(settings->name));
    if (settings->threads == 0 || settings->threads > RT_MAX_CORES)
        return rt_fail(err, RT_BAD_INPUT, "--threads must be from 1 to %d", RT_MAX_CORES);
    struct rt_error own;
    if (rt_pace_parse(settings->slowdown, &plan->device.ring.pace, &own) != RT_OK)
        return rt_fail(err, RT_BAD_INPUT, "--slowdown %s", own.text);
    if (settings->bandwidth && !rt_bandwidth_parse(settings->bandwidth, &plan->network.bandwidth))
        return rt_fail(err, RT_BAD_INPUT, "--bandwidth must be " RT_BANDWIDTH_FORM "; not '%.100s'",
                       settings->bandwidth);
    if (settings->latency && !rt_latency_parse(settings->latency, &plan->network.latency))
        return rt_fail(err, RT_BAD_INPUT, "--latency must be " RT_LATENCY_FORM "; not '%.100s'",
                       settings->latency);
    /* A node that a master started on its own machine may open the same files as the master. */
    if (!settings->data && settings->lifeline < 0)
        plan->device.data = ".";
    if (settings->data && !*settings->data)
        return rt_fail(err, RT_BAD_INPUT, "--data must be a directory");
    if (settings->cache && !*settings->cache)
        return rt_fail(err, RT_BAD_INPUT, "--cache must be a directory");
    rt_status status = node_read_addresses(settings, plan, err);
    if (status == RT_OK)
        status = node_read_memory(settings->memory, &plan->node.memory, err);
    if (status == RT_OK && settings->key)
        status = rt_key_read(settings->key, plan->key, err);
    if (status == RT_OK && settings->key)
        plan->network.key = plan->key;
    if (status == RT_OK)
        status = rt_kernels_answer(kernels, plan->node.answer, err);
    return status;
}

/* ---- the command ---- */

static rt_status node_announce(const struct settings *settings, const struct rt_endpoint *endpoint,
                               struct rt_error *err) {
    if (settings->lifeline >= 0)
        return rt_lifeline_report((int)settings->lifeline, endpoint->address, NULL, err);
    if (settings->insecure && !settings->key && !settings->certificate)
        node_tell(NULL,
                  "WARNING: --insecure: anyone who can reach this node can use it and read its traffic");
    if (endpoint->address[0])
        printf("listening at %s\n", endpoint->address);
    if (settings->join)
        printf("joining %s\n", settings->join);
    fflush(stdout);
    return RT_OK;
}

/* The command line for a node that starts again: with the actual address, even if any port was asked for. */
static rt_status node_write_arguments(const struct rt_invocation *invocation,
                                      const struct rt_endpoint *endpoint, char ***again,
                                      struct rt_error *err) {
    size_t count = 2;
    rt_status status = rt_alloc((size_t)invocation->argc + 5, sizeof **again, "the command line", again, err);
    if (status != RT_OK)
        return status;
    (*again)[0] = (char *)(uintptr_t)invocation->program;
    (*again)[1] = (char *)(uintptr_t)rt_command_node.name;
    for (int i = 0; i < invocation->argc; i++)
        if (strcmp(invocation->argv[i], "--listen") == 0)
            i++;
        else if (strcmp(invocation->argv[i], "--") != 0 && strncmp(invocation->argv[i], "--listen=", 9) != 0)
            (*again)[count++] = invocation->argv[i];
    if (!endpoint->address[0])
        return RT_OK;
    (*again)[count++] = (char *)(uintptr_t) "--listen";
    (*again)[count] = (char *)(uintptr_t)endpoint->address;
    return RT_OK;
}

static rt_status node_serve(const struct rt_invocation *invocation, struct rt_error *err) {
    const struct settings *settings = invocation->settings;
    struct plan plan;
    struct rt_endpoint *endpoint = NULL;
    rt_status status = node_read_settings(settings, &plan, err);
    if (status == RT_OK)
        status = rt_tcp_create(&plan.network, &endpoint, err);
    if (status == RT_OK && plan.address[0])
        status = rt_endpoint_listen(endpoint, plan.address, err);
    plan.node.join = plan.join[0] ? plan.join : NULL;
    struct rt_watch watch = {.endpoint = endpoint, .lifeline = (int)settings->lifeline};
    plan.node.work = &watch.work;
    if (status == RT_OK && settings->lifeline < 0)
        status = node_write_arguments(invocation, endpoint, &watch.again, err);
    if (status == RT_OK)
        status = rt_watch_start(&watch, err);
    if (status == RT_OK) {
        struct rt_role role = rt_node_roles(&plan.device);
        status = node_announce(settings, endpoint, err);
        if (status == RT_OK)
            status = rt_node_serve(&plan.node, endpoint, &role, rt_watch_stop_flag(), err);
        rt_watch_finish();
    }
    free(watch.again);
    rt_endpoint_destroy(endpoint);
    return status;
}

static int run_node(const struct rt_invocation *invocation) {
    const struct settings *settings = invocation->settings;
    struct rt_error err;
    if (settings->lifeline > 65535 ||
        (settings->lifeline >= 0 && fcntl((int)settings->lifeline, F_SETFD, FD_CLOEXEC) != 0)) {
        rt_fail(&err, RT_BAD_INPUT, "--lifeline must be a descriptor that is open");
        return rt_exit_error(&err);
    }
    rt_status status = node_serve(invocation, &err);
    if (status == RT_OK)
        return RT_EXIT_DONE;
    if (settings->lifeline >= 0 && rt_lifeline_report((int)settings->lifeline, NULL, err.text, NULL) == RT_OK)
        return RT_EXIT_FAILED; /* the master says it */
    return rt_exit_error(&err);
}

const struct rt_command rt_command_node = {
    .name = "node",
    .summary = "offer this device to a cluster",
    .details =
        "Waits for masters (`ringtmp train --node`) and works for one run after another, until Ctrl-C. The\n"
        "first line says where it listens; then there is a line for every run that begins, ends or is\n"
        "refused. To be found by other machines it must listen at an address of the network, with a key.\n"
        "With --join it connects to a master (`ringtmp train --listen`) itself, again and again, and takes\n"
        "part in its runs, also in one that is going. It needs no open port then.\n",
    .examples = "  ringtmp node\n"
                "  ringtmp node --listen 0.0.0.0:7117 --key cluster.key\n"
                "  ringtmp node --join 192.168.1.10:7117 --key cluster.key\n"
                "  ringtmp node --listen 192.168.1.20:7117 --key cluster.key --memory 512M --threads 3\n",
    .args = args,
    .arg_count = sizeof args / sizeof *args,
    .settings_bytes = sizeof(struct settings),
    .run = run_node,
};
