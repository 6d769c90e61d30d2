#include "cli/cluster_args.h"

#include "net/tcp.h"
#include "run/run.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static rt_status cluster_args_fail_memory(struct rt_error *err) {
    return rt_fail(err, RT_NO_MEMORY, "not enough memory for the command line");
}

static rt_status cluster_args_keep(struct rt_settings *settings, char *setting, struct rt_error *err) {
    char **items = setting ? realloc(settings->items, (settings->count + 1) * sizeof *items) : NULL;
    if (!items) {
        free(setting);
        return cluster_args_fail_memory(err);
    }
    settings->items = items;
    items[settings->count++] = setting;
    return RT_OK;
}

rt_status rt_settings_add(struct rt_settings *settings, const char *option, const char *key,
                          const char *value, struct rt_error *err) {
    if (!value)
        return RT_OK;
    const size_t room = strlen(option) + strlen(key) + strlen(value) + 3;
    char *setting = malloc(room);
    if (setting)
        snprintf(setting, room, "%s %s=%s", option, key, value);
    return cluster_args_keep(settings, setting, err);
}

rt_status rt_settings_add_strategy(struct rt_settings *settings, const char *strategy, struct rt_error *err) {
    if (strategy && strcmp(strategy, "as:") == 0) /* YAML would read a map */
        return rt_fail(
            err, RT_BAD_INPUT,
            "--strategy as: needs the name of a system, as in as:horovod; `ringtmp list strategies` "
            "shows them");
    return rt_settings_add(settings, "--strategy", "cluster.strategy", strategy, err);
}

/* A run on one device, which needs no key, must not ignore one that is given. */
static rt_status cluster_args_add_key(struct rt_settings *settings, const char *path, struct rt_error *err) {
    uint8_t key[RT_KEY_BYTES];
    rt_status status = path ? rt_key_read(path, key, err) : RT_OK;
    explicit_bzero(key, sizeof key);
    if (status != RT_OK)
        return rt_fail_prefix(err, status, "--key");
    return rt_settings_add(settings, "--key", "cluster.key", path, err);
}

rt_status rt_settings_apply(const struct rt_settings *settings, struct rt_run *run, struct rt_error *err) {
    rt_status status = RT_OK;
    for (size_t i = 0; i < settings->count && status == RT_OK; i++)
        status = rt_run_set_as(run, settings->items[i], err);
    return status;
}

void rt_settings_deinit(struct rt_settings *settings) {
    for (size_t i = 0; i < settings->count; i++)
        free(settings->items[i]);
    free(settings->items);
    *settings = (struct rt_settings){0};
}

/* Addresses as a list in YAML, quoted: an unquoted "[::1]:7117" would itself be a list. */
static rt_status cluster_args_add_addresses(struct rt_settings *settings, const struct rt_words *node,
                                            struct rt_error *err) {
    if (node->count == 0)
        return RT_OK;
    size_t room = sizeof "[]";
    for (size_t i = 0; i < node->count; i++)
        room += strlen(node->items[i]) + 4;
    char *list = malloc(room), *at = list;
    if (!list)
        return cluster_args_fail_memory(err);
    *at++ = '[';
    for (size_t i = 0; i < node->count; i++) {
        /* A number alone would be an address, as 127 is 0.0.0.127; but a port is meant. */
        const char *item = node->items[i];
        if (item[strspn(item, "0123456789")] == 0 || strpbrk(item, "'\" \t\n")) {
            free(list);
            return rt_fail(err, RT_BAD_INPUT, "--node needs HOST or HOST:PORT, not '%.100s'", item);
        }
        at += sprintf(at, "%s'%s'", i ? ", " : "", item);
    }
    strcpy(at, "]");
    rt_status status = rt_settings_add(settings, "--node", "cluster.node", list, err);
    free(list);
    return status;
}

/* Quoted for the same reason. */
static rt_status cluster_args_add_listen(struct rt_settings *settings, const char *listen,
                                         struct rt_error *err) {
    char quoted[300];
    if (!listen)
        return RT_OK;
    if (!*listen || strpbrk(listen, "'\" \t\n") || strlen(listen) > sizeof quoted - 3)
        return rt_fail(err, RT_BAD_INPUT, "--listen needs HOST:PORT, not '%.100s'", listen);
    snprintf(quoted, sizeof quoted, "'%s'", listen);
    return rt_settings_add(settings, "--listen", "cluster.listen", quoted, err);
}

rt_status rt_cluster_args_settings(const struct rt_cluster_args *args, struct rt_settings *settings,
                                   struct rt_error *err) {
    struct rt_settings made = {0};
    rt_status status = RT_OK;
    for (size_t i = 0; i < args->set.count && status == RT_OK; i++) {
        const char *word = args->set.items[i], *equals = strchr(word, '=');
        if (!equals || equals == word)
            status = rt_fail(err, RT_BAD_INPUT, "--set needs KEY=VALUE, as in --set train.epochs=5, not '%s'",
                             word);
        if (status != RT_OK)
            break;
        char *key = strndup(word, (size_t)(equals - word));
        status = key ? rt_settings_add(&made, "--set", key, equals + 1, err) : cluster_args_fail_memory(err);
        free(key);
    }
    char nodes[24];
    snprintf(nodes, sizeof nodes, "%" PRId64, args->nodes);
    if (status == RT_OK)
        status = rt_settings_add(&made, "--nodes", "cluster.nodes", args->nodes >= 0 ? nodes : NULL, err);
    if (status == RT_OK)
        status = cluster_args_add_listen(&made, args->listen, err);
    snprintf(nodes, sizeof nodes, "%" PRId64, args->wait_nodes);
    if (status == RT_OK)
        status = rt_settings_add(&made, "--wait-nodes", "cluster.wait_nodes",
                                 args->wait_nodes >= 0 ? nodes : NULL, err);
    if (status == RT_OK)
        status = cluster_args_add_key(&made, args->key, err);
    if (status == RT_OK)
        status = cluster_args_add_addresses(&made, &args->node, err);
    if (status != RT_OK)
        rt_settings_deinit(&made);
    else
        *settings = made;
    return status;
}

const char *rt_own_program(const char *typed, char path[RT_PROGRAM_ROOM]) {
    ssize_t length = readlink("/proc/self/exe", path, RT_PROGRAM_ROOM - 1);
    if (length <= 0)
        return typed;
    path[length] = 0;
    return path;
}
