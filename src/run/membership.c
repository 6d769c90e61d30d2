/* Starting and finding the nodes of a run. */
#include "run/membership.h"

#include "base/cores.h"
#include "base/memory.h"
#include "base/sentence.h"
#include "data/stream.h"
#include "job/job.h"
#include "net/tcp.h"
#include "run/emulate.h"
#include "tensor/answer.h"
#include <stdlib.h>
#include <string.h>

size_t rt_membership_threads(const struct rt_spec *spec) {
    if (spec->train.threads > 0)
        return (size_t)spec->train.threads;
    const size_t share = rt_cores_usable() / (size_t)spec->cluster.nodes;
    return share > 1 ? share : 1;
}

size_t rt_membership_most(const struct rt_spec *spec) {
    return rt_spec_devices(spec) + (spec->cluster.listen ? RT_SPARE_SEATS : 0);
}

/* Says which key of the run file it is about. */
static rt_status membership_blame(const struct rt_spec *spec, const char *key, rt_status status,
                                  struct rt_error *err) {
    const struct rt_error why = *err;
    rt_tree_fail(rt_tree_get(rt_tree_get(spec->tree, "cluster"), key), err, "cluster.%s: %s", key, why.text);
    return err->status = status;
}

static rt_status membership_open_endpoint(const struct rt_spec *spec, const struct rt_emulated_link *link,
                                          struct rt_endpoint **endpoint, struct rt_error *err) {
    const struct rt_spec_cluster *cluster = &spec->cluster;
    uint8_t key[RT_KEY_BYTES];
    rt_status status = cluster->key ? rt_key_read(cluster->key, key, err) : RT_OK;
    if (status != RT_OK)
        return membership_blame(spec, "key", status, err);
    struct rt_tcp_settings settings = {.key = cluster->key ? key : NULL,
                                       .certificate = cluster->certificate,
                                       .private_key = cluster->private_key,
                                       .authority = cluster->authority,
                                       .silence_seconds = cluster->silence,
                                       .silence_least = cluster->recover ? RT_JOB_SILENCE_LEAST : 0};
    if (link->bandwidth)
        rt_bandwidth_parse(link->bandwidth, &settings.bandwidth);
    if (link->latency)
        rt_latency_parse(link->latency, &settings.latency);
    status = rt_tcp_create(&settings, endpoint, err);
    explicit_bzero(key, sizeof key);
    if (status == RT_BAD_INPUT)
        membership_blame(spec,
                         cluster->certificate   ? "certificate"
                         : cluster->private_key ? "private_key"
                                                : "authority",
                         status, err);
    return status;
}

static bool membership_has_credentials(const struct rt_spec_cluster *cluster) {
    return cluster->key || cluster->certificate || cluster->private_key || cluster->authority;
}

rt_status rt_membership_check(const struct rt_spec *spec, struct rt_error *err) {
    struct rt_pace master;
    struct rt_endpoint *endpoint;
    const struct rt_spec_cluster *cluster = &spec->cluster;
    if (cluster->wait_nodes > 0 && !cluster->listen) {
        rt_fail(err, RT_BAD_INPUT, "nodes can join only where cluster.listen (--listen HOST:PORT) is set");
        return membership_blame(spec, "wait_nodes", RT_BAD_INPUT, err);
    }
    rt_status status = rt_emulate_master(spec, &master, err);
    if (status != RT_OK || !membership_has_credentials(&spec->cluster))
        return status;
    status = membership_open_endpoint(spec, &(struct rt_emulated_link){0}, &endpoint, err);
    if (status == RT_OK)
        rt_endpoint_destroy(endpoint);
    return status;
}

static rt_status membership_read_addresses(const struct rt_spec *spec, const char **addresses,
                                           struct rt_error *err) {
    const struct rt_tree *node = spec->cluster.node;
    for (size_t i = 0; i < rt_spec_addresses(spec); i++) {
        const struct rt_tree *item = node->kind == RT_TREE_LIST ? node->items[i] : node;
        if (item->kind != RT_TREE_SCALAR || !*item->text)
            return rt_tree_fail(item, err, "cluster.node is a list of addresses, as [pi1:7117, pi2:7117]");
        addresses[i] = item->text;
    }
    return RT_OK;
}

static rt_status membership_open_cluster(const struct rt_membership_settings *settings,
                                         struct rt_membership *membership, struct rt_error *err) {
    const struct rt_spec *spec = settings->spec;
    const size_t locals = (size_t)spec->cluster.nodes, count = rt_spec_devices(spec);
    const bool several = rt_membership_most(spec) > 1;
    struct rt_pace *paces = NULL;
    struct rt_emulated_link *links = NULL;
    const char **addresses = NULL;
    rt_status status = rt_alloc(locals, sizeof *paces, "the nodes", &paces, err);
    if (status == RT_OK)
        status = rt_alloc(count, sizeof *addresses, "the nodes", &addresses, err);
    if (status == RT_OK)
        status = rt_alloc(locals, sizeof *links, "the nodes", &links, err);
    if (status == RT_OK)
        status = rt_emulate_paces(spec, paces, err);
    if (status == RT_OK)
        status = rt_emulate_links(spec, links, err);
    if (status == RT_OK)
        status = membership_read_addresses(spec, addresses, err);
    if (status == RT_OK)
        membership->pace = paces[0];
    /* A stream wakes who waits for it through the endpoint, also on one device. */
    if (status == RT_OK && settings->endpoint)
        membership->endpoint = settings->endpoint;
    else if (status == RT_OK && (several || rt_stream_named(spec->data.train)))
        status = membership_open_endpoint(spec, &links[0], &membership->endpoint, err);
    if (status == RT_OK && several) {
        struct rt_cluster_settings wanted = {
            .addresses = addresses,
            .address_count = rt_spec_addresses(spec),
            .listen = spec->cluster.listen,
            .wait_nodes = rt_spec_wait_nodes(spec),
            .local_nodes = locals - 1,
            .program = settings->program,
            .local_threads = rt_membership_threads(spec),
            .pace = paces + 1,
            .emulated_links = links + 1,
            .local_memory = (uint64_t)spec->cluster.memory << 20,
            .key_file = spec->cluster.key,
            .certificate = spec->cluster.certificate,
            .private_key = spec->cluster.private_key,
            .authority = spec->cluster.authority,
            .cache = spec->data.cache_dir,
            .exact = settings->exact,
            .token = settings->token,
            .timeout = spec->cluster.timeout < 10 ? spec->cluster.timeout : 10,
            .work_timeout = spec->cluster.timeout,
            .waits = settings->waits,
            .waits_user = settings->waits_user,
        };
        status = rt_kernels_answer(settings->network->device.kernels, wanted.answer, err);
        if (status == RT_OK)
            status =
                rt_cluster_open(&wanted, membership->endpoint, settings->stop, &membership->cluster, err);
    }
    if (status == RT_OK && membership->cluster)
        membership->run = rt_cluster_run(membership->cluster);
    free(paces);
    free(links);
    free(addresses);
    return status;
}

static rt_status membership_name_devices(struct rt_membership *membership, size_t count,
                                         struct rt_error *err) {
    rt_status status = rt_alloc(count, sizeof *membership->name, "the devices", &membership->name, err);
    if (status == RT_OK)
        status = rt_alloc(count, sizeof *membership->address, "the devices", &membership->address, err);
    membership->devices = status == RT_OK ? count : 0;
    for (size_t i = 0; i < membership->devices; i++) {
        snprintf(membership->name[i], sizeof *membership->name, "master");
        if (i > 0)
            rt_membership_name(membership, i);
    }
    return status;
}

void rt_membership_name(struct rt_membership *membership, size_t device) {
    const struct rt_member *member = rt_cluster_member(membership->cluster, device - 1);
    snprintf(membership->name[device], sizeof *membership->name, "%s", member->name);
    if (!member->local)
        memcpy(membership->address[device], member->address, sizeof *membership->address);
}

rt_status rt_membership_form(const struct rt_membership_settings *settings, struct rt_membership *membership,
                             struct rt_error *err) {
    *membership = (struct rt_membership){0};
    rt_status status = membership_open_cluster(settings, membership, err);
    const size_t count = membership->cluster ? rt_cluster_count(membership->cluster) + 1 : 1;
    return status == RT_OK ? membership_name_devices(membership, count, err) : status;
}

void rt_membership_deinit(struct rt_membership *membership) {
    rt_view_destroy(membership->view);
    rt_cluster_close(membership->cluster);
    rt_endpoint_destroy(membership->endpoint);
    free(membership->name);
    free(membership->address);
    *membership = (struct rt_membership){0};
}

static rt_status join_view(const struct rt_view_settings *settings, struct rt_cluster *cluster,
                           struct rt_view *view, struct rt_error *err) {
    for (size_t i = 1; settings->devices && i < settings->nodes; i++)
        view->member[i - 1] = settings->devices[i] - 1;
    RT_TRY(settings->shape(settings->user, view, err));
    return rt_view_join(view, cluster, settings->probe_bytes, err);
}

rt_status rt_membership_form_view(struct rt_membership *membership, const struct rt_view_settings *settings,
                                  struct rt_error *err) {
    const uint32_t last = membership->view ? membership->view->number : 0,
                   asked = rt_cluster_view(membership->cluster);
    const uint32_t number = last + 1 > asked ? last + 1 : asked; /* of a cluster that has been reopened */
    struct rt_view *view;
    RT_TRY(rt_view_create(number, NULL, settings->nodes, &view, err));
    rt_view_destroy(membership->view);
    membership->view = view;
    return join_view(settings, membership->cluster, view, err);
}
