/*
 * ringtmp node: offers this device to a cluster. A thread of its own watches for signals and, in a node that
 * a master has started on its own machine, for the end of the lifeline: both end the node, also when its role
 * is in the middle of work.
 */
#include "cluster/node.h"
#include "base/cores.h"
#include "base/option.h"
#include "cli/commands.h"
#include "cli/text.h"
#include "cluster/cluster.h"
#include "cluster/local.h"
#include "net/tcp.h"
#include "tensor/answer.h"
#include "train/roles.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct settings {
    const char *listen, *key, *certificate, *private_key, *authority;
    const char *memory, *name, *slowdown, *data;
    bool insecure;
    int64_t threads, lifeline;
};

#define AT(field) offsetof(struct settings, field)
static const struct rt_arg args[] = {
    {"--listen", "HOST:PORT", RT_ARG_TEXT, .offset = AT(listen), .fallback = "127.0.0.1:7117",
     .help = "where masters find it; HOST alone: port 7117; port 0: any free one"},
    {"--key", "FILE", RT_ARG_TEXT, .offset = AT(key), .default_help = "none; only this machine may connect",
     .help = "the cluster key, see `ringtmp keygen`"},
    {"--cert", "FILE", RT_ARG_TEXT, .offset = AT(certificate), .default_help = "none",
     .help = "instead of a key: this node's certificate (PEM),"},
    {"--cert-key", "FILE", RT_ARG_TEXT, .offset = AT(private_key), .default_help = "none",
     .help = "its private key,"},
    {"--ca", "FILE", RT_ARG_TEXT, .offset = AT(authority), .default_help = "none",
     .help = "and the authority that signed all certificates"},
    {"--insecure", NULL, RT_ARG_SWITCH, .offset = AT(insecure), .default_help = "no",
     .help = "let anybody on the network connect, unencrypted"},
    {"--threads", "N", RT_ARG_COUNT, .offset = AT(threads), .default_help = "all cores",
     .help = "threads to compute with"},
    {"--memory", "SIZE", RT_ARG_TEXT, .offset = AT(memory), .default_help = "three quarters of what there is",
     .help = "memory it offers, as 512M or 2G; 0: no limit"},
    {"--name", "TEXT", RT_ARG_TEXT, .offset = AT(name), .default_help = "the host's",
     .help = "what messages call it"},
    {"--data", "DIR", RT_ARG_TEXT, .offset = AT(data), .default_help = "where it was started",
     .help = "training data are looked up here, and nowhere else"},
    {"--slowdown", "S", RT_ARG_TEXT, .offset = AT(slowdown), .fallback = "1",
     .help = "emulate a device S times slower, for experiments"},
    {"--lifeline", "FD", RT_ARG_COUNT, .offset = AT(lifeline), .default_help = "none",
     .help = "end when this descriptor does; for programs that start nodes"},
};

/* ---- options ---- */

static rt_status read_memory(const char *text, uint64_t *bytes, struct rt_error *err) {
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
    char address[RT_MAX_TEXT + 1];
    struct rt_node_settings node;
    struct rt_node_device device;
    struct rt_tcp_settings network;
    uint8_t key[RT_KEY_BYTES];
};

static void tell(void *user, const char *sentence) {
    (void)user;
    fputs("ringtmp: ", stderr);
    rt_text_sentence(stderr, sentence);
    fputc('\n', stderr);
}

static rt_status read_settings(const struct settings *settings, struct plan *plan, struct rt_error *err) {
    const struct rt_kernels *kernels = rt_kernels_exact("auto");
    const size_t cores = rt_cores_usable();
    const size_t threads = settings->threads > 0 ? (size_t)settings->threads : cores;
    *plan = (struct plan){
        .node = {.name = settings->name,
                 .kernels = kernels->name,
                 .cores = (uint32_t)cores,
                 .threads = (uint32_t)threads,
                 .tell = settings->lifeline < 0 ? tell : NULL},
        .device = {.ring = {.kernels = "auto", .threads = threads}, .data = settings->data},
        .network = {.certificate = settings->certificate,
                    .private_key = settings->private_key,
                    .authority = settings->authority,
                    .insecure = settings->insecure},
    };
    if (settings->threads == 0 || settings->threads > RT_MAX_CORES)
        return rt_fail(err, RT_BAD_INPUT, "--threads must be from 1 to %d", RT_MAX_CORES);
    if (!rt_parse_real(settings->slowdown, &plan->device.ring.slowdown) ||
        !(plan->device.ring.slowdown >= 1) || !(plan->device.ring.slowdown <= 1e6))
        return rt_fail(err, RT_BAD_INPUT, "--slowdown must be a number from 1 to 1000000, not '%s'",
                       settings->slowdown);
    /* A node that a master started on his machine opens what he does. */
    if (!settings->data && settings->lifeline < 0)
        plan->device.data = ".";
    if (settings->data && !*settings->data)
        return rt_fail(err, RT_BAD_INPUT, "--data must be a directory");
    rt_status status = rt_cluster_address(settings->listen, plan->address, err);
    if (status != RT_OK)
        rt_fail_prefix(err, status, "--listen");
    if (status == RT_OK)
        status = read_memory(settings->memory, &plan->node.memory, err);
    if (status == RT_OK && settings->key)
        status = rt_key_read(settings->key, plan->key, err);
    if (status == RT_OK && settings->key)
        plan->network.key = plan->key;
    if (status == RT_OK)
        status = rt_kernels_answer(kernels, plan->node.answer, err);
    return status;
}

/* ---- the end ---- */

/* Signal handlers reach nothing else. */
static atomic_int stop;
static int signal_pipe[2] = {-1, -1};

static const int stop_signals[] = {SIGINT, SIGTERM, SIGHUP};

/* The second signal of a kind ends the process at once. */
static void on_signal(int number) {
    int saved = errno;
    signal(number, SIG_DFL);
    atomic_store(&stop, 1);
    (void)!write(signal_pipe[1], "s", 1);
    errno = saved;
}

/* A node with a lifeline leaves it to its master what a signal to all of them means: the master may want to
 * collect the model first. */
static void catch_signals(bool lifeline) {
    signal(SIGPIPE, SIG_IGN);
    for (size_t i = 0; i < sizeof stop_signals / sizeof *stop_signals; i++) {
        struct sigaction old, action = {.sa_handler = lifeline ? SIG_IGN : on_signal, .sa_flags = SA_RESTART};
        sigemptyset(&action.sa_mask);
        if (sigaction(stop_signals[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)
            sigaction(stop_signals[i], &action, NULL);
    }
}

struct watch {
    pthread_t thread;
    struct rt_endpoint *endpoint;
    int lifeline;
};

/* The master is gone. A role that does not end in time is left in the middle. */
static void end_soon(void) {
    struct pollfd done = {.fd = signal_pipe[0], .events = POLLIN};
    if (poll(&done, 1, 2000) <= 0)
        _exit(RT_EXIT_FAILED);
}

static void *watch_main(void *argument) {
    struct watch *watch = argument;
    for (;;) {
        struct pollfd wait[2] = {{.fd = signal_pipe[0], .events = POLLIN},
                                 {.fd = watch->lifeline, .events = POLLIN}};
        char byte;
        if (poll(wait, 2, -1) < 0)
            continue;
        if (wait[0].revents && read(signal_pipe[0], &byte, 1) == 1) {
            if (byte == 'e')
                return NULL;
            rt_endpoint_wake(watch->endpoint);
        }
        if (wait[1].revents && read(watch->lifeline, &byte, 1) <= 0) {
            atomic_store(&stop, 1);
            rt_endpoint_wake(watch->endpoint);
            end_soon();
            return NULL;
        }
    }
}

static rt_status start_watch(struct watch *watch, struct rt_error *err) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    int code = pthread_create(&watch->thread, NULL, watch_main, watch);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return code ? rt_fail(err, RT_FAILED, "no thread to watch for signals: %s", strerror(code)) : RT_OK;
}

static void stop_watch(struct watch *watch) {
    (void)!write(signal_pipe[1], "e", 1);
    pthread_join(watch->thread, NULL);
}

/* ---- the command ---- */

static rt_status announce(const struct settings *settings, const struct rt_endpoint *endpoint,
                          struct rt_error *err) {
    if (settings->lifeline >= 0)
        return rt_lifeline_report((int)settings->lifeline, endpoint->address, NULL, err);
    if (settings->insecure && !settings->key && !settings->certificate)
        tell(NULL, "WARNING: --insecure: whoever reaches this node can use it, and read what it is sent");
    printf("listening at %s\n", endpoint->address);
    fflush(stdout);
    return RT_OK;
}

static rt_status serve(const struct settings *settings, struct rt_error *err) {
    struct plan plan;
    struct rt_endpoint *endpoint = NULL;
    rt_status status = read_settings(settings, &plan, err);
    if (status == RT_OK)
        status = rt_tcp_create(&plan.network, &endpoint, err);
    if (status == RT_OK)
        status = rt_endpoint_listen(endpoint, plan.address, err);
    struct watch watch = {.endpoint = endpoint, .lifeline = (int)settings->lifeline};
    if (status == RT_OK) {
        catch_signals(settings->lifeline >= 0);
        status = start_watch(&watch, err);
    }
    if (status == RT_OK) {
        struct rt_role role = rt_node_roles(&plan.device);
        status = announce(settings, endpoint, err);
        if (status == RT_OK)
            status = rt_node_serve(&plan.node, endpoint, &role, &stop, err);
        stop_watch(&watch);
    }
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
    if (pipe(signal_pipe) != 0) {
        rt_fail(&err, RT_FAILED, "no pipe to watch for signals: %s", strerror(errno));
        return rt_exit_error(&err);
    }
    for (int i = 0; i < 2; i++)
        fcntl(signal_pipe[i], F_SETFD, FD_CLOEXEC);
    rt_status status = serve(settings, &err);
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
        "refused. To be found by other machines it must listen at an address of the network, with a key.\n",
    .examples = "  ringtmp node\n"
                "  ringtmp node --listen 0.0.0.0:7117 --key cluster.key\n"
                "  ringtmp node --listen 192.168.1.20:7117 --key cluster.key --memory 512M --threads 3\n",
    .args = args,
    .arg_count = sizeof args / sizeof *args,
    .settings_bytes = sizeof(struct settings),
    .run = run_node,
};
