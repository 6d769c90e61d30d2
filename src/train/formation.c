/* Forming a ring: nodes are started or found, measured, given their layers, and joined to one another. */
#include "train/formation.h"

#include "base/memory.h"
#include "data/stream.h"
#include "net/tcp.h"
#include "tensor/answer.h"
#include "train/master_work.h"
#include "train/materials.h"
#include "wire/tree.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Bytes that a link is measured with: enough to see its bandwidth, few enough to be quick on a slow one. */
enum { PROBE_BYTES = 256 << 10 };

size_t rt_formation_threads(const struct rt_spec *spec) {
    if (spec->train.threads > 0)
        return (size_t)spec->train.threads;
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    const int64_t share = (cores > 0 ? cores : 1) / spec->cluster.nodes;
    return share > 1 ? (size_t)share : 1;
}

/* ---- who is there ---- */

static rt_status open_endpoint(const struct rt_spec *spec, struct rt_endpoint **endpoint,
                               struct rt_error *err) {
    const struct rt_spec_cluster *cluster = &spec->cluster;
    uint8_t key[RT_KEY_BYTES];
    rt_status status = cluster->key ? rt_key_read(cluster->key, key, err) : RT_OK;
    if (status != RT_OK)
        return status;
    const struct rt_tcp_settings settings = {.key = cluster->key ? key : NULL,
                                             .certificate = cluster->certificate,
                                             .private_key = cluster->private_key,
                                             .authority = cluster->authority};
    status = rt_tcp_create(&settings, endpoint, err);
    explicit_bzero(key, sizeof key);
    return status;
}

static rt_status read_slowdowns(const struct rt_spec *spec, double *slowdown, struct rt_error *err) {
    const struct rt_tree *list = spec->cluster.slowdown;
    const size_t nodes = (size_t)spec->cluster.nodes;
    for (size_t i = 0; i < nodes; i++)
        slowdown[i] = 1;
    if (!list)
        return RT_OK;
    if (list->kind != RT_TREE_LIST || list->count != nodes)
        return rt_tree_fail(list, err,
                            "cluster.slowdown is a list of %zu factors, one for each local process", nodes);
    for (size_t i = 0; i < nodes; i++)
        if (list->items[i]->kind != RT_TREE_SCALAR || !rt_parse_real(list->items[i]->text, &slowdown[i]) ||
            slowdown[i] < 1 || slowdown[i] > 1e6)
            return rt_tree_fail(list->items[i], err, "cluster.slowdown: a factor is a number from 1 on");
    return RT_OK;
}

static rt_status read_addresses(const struct rt_spec *spec, const char **addresses, struct rt_error *err) {
    const struct rt_tree *node = spec->cluster.node;
    const size_t count = rt_spec_devices(spec) - (size_t)spec->cluster.nodes;
    for (size_t i = 0; i < count; i++) {
        const struct rt_tree *item = node->kind == RT_TREE_LIST ? node->items[i] : node;
        if (item->kind != RT_TREE_SCALAR || !*item->text)
            return rt_tree_fail(item, err, "cluster.node is a list of addresses, as [pi1:7117, pi2:7117]");
        addresses[i] = item->text;
    }
    return RT_OK;
}

static rt_status open_cluster(const struct rt_formation_settings *settings, struct rt_formation *formation,
                              struct rt_error *err) {
    const struct rt_spec *spec = settings->spec;
    const size_t locals = (size_t)spec->cluster.nodes, count = rt_spec_devices(spec);
    double *slowdown = NULL;
    const char **addresses = NULL;
    rt_status status = rt_alloc(locals, sizeof *slowdown, "the nodes", &slowdown, err);
    if (status == RT_OK)
        status = rt_alloc(count, sizeof *addresses, "the nodes", &addresses, err);
    if (status == RT_OK)
        status = read_slowdowns(spec, slowdown, err);
    if (status == RT_OK)
        status = read_addresses(spec, addresses, err);
    if (status == RT_OK)
        formation->slowdown = slowdown[0];
    /* A stream wakes who waits for it through the endpoint, also on one device. */
    if (status == RT_OK && (count > 1 || rt_stream_named(spec->data.train)))
        status = open_endpoint(spec, &formation->endpoint, err);
    if (status == RT_OK && count > 1) {
        struct rt_cluster_settings wanted = {
            .addresses = addresses,
            .address_count = count - locals,
            .local_nodes = locals - 1,
            .program = settings->program,
            .local_threads = rt_formation_threads(spec),
            .slowdown = slowdown + 1,
            .local_memory = (uint64_t)spec->cluster.memory << 20,
            .key_file = spec->cluster.key,
            .certificate = spec->cluster.certificate,
            .private_key = spec->cluster.private_key,
            .authority = spec->cluster.authority,
            .exact = formation->job->math != RT_MATH_FAST,
            .patience = spec->cluster.patience < 10 ? spec->cluster.patience : 10,
            .work_patience = spec->cluster.patience,
        };
        status = rt_kernels_answer(settings->network->device.kernels, wanted.answer, err);
        if (status == RT_OK)
            status = rt_cluster_open(&wanted, formation->endpoint, settings->stop, &formation->cluster, err);
    }
    if (status == RT_OK && formation->cluster)
        formation->run = rt_cluster_run(formation->cluster);
    free(slowdown);
    free(addresses);
    return status;
}

/* ---- how fast they are ---- */

static rt_status ask_profile(struct rt_formation *formation, size_t member, size_t rows,
                             struct rt_layer_times *times, size_t layers, struct rt_error *err) {
    const struct rt_profile profile = {.rows = (uint32_t)rows, .job = formation->job->tree};
    uint8_t *bytes;
    rt_status status = rt_alloc(RT_MAX_CONTROL, 1, "a message", &bytes, err);
    if (status != RT_OK)
        return status;
    const size_t used = rt_profile_encode(&profile, bytes, RT_MAX_CONTROL);
    if (!used)
        status = rt_fail(err, RT_BAD_INPUT, "the description of the model is too long to be sent");
    else
        status = rt_cluster_ask(formation->cluster, member, RT_MESSAGE_PROFILE, bytes, used,
                                RT_MESSAGE_PROFILED, err);
    free(bytes);
    if (status != RT_OK)
        return status;
    struct rt_member *node = rt_cluster_member(formation->cluster, member);
    struct rt_profiled profiled;
    status = rt_profiled_decode(node->talk.body, node->talk.body_bytes, &profiled, err);
    rt_talk_next(&node->talk);
    if (status != RT_OK)
        return rt_fail_prefix(err, status, "%s", node->address);
    if (profiled.count != layers)
        status = rt_fail(err, RT_FAILED, "%s measured %zu layers, the model has %zu", node->address,
                         profiled.count, layers);
    else
        memcpy(times, profiled.layers, layers * sizeof *times);
    rt_profiled_deinit(&profiled);
    return status;
}

/* Local processes are this same machine: they are as fast as the master, less what is emulated. */
static rt_status measure(const struct rt_formation_settings *settings, struct rt_formation *formation,
                         size_t rows, struct rt_layer_times *const *times, struct rt_error *err) {
    const size_t layers = settings->network->model->count;
    rt_status status =
        rt_profile_measure(formation->job, &settings->network->device, rows, 1,
                           (uint64_t)settings->spec->cluster.memory << 20, times[0], layers, err);
    for (size_t i = formation->devices - 1; status == RT_OK && i < formation->devices; i--) {
        const struct rt_member *member = i ? rt_cluster_member(formation->cluster, i - 1) : NULL;
        if (member && !member->local) {
            status = ask_profile(formation, i - 1, rows, times[i], layers, err);
            continue;
        }
        const double slowdown = member ? member->slowdown : formation->slowdown;
        for (size_t k = 0; k < layers; k++) {
            const struct rt_layer_times *one = &times[0][k];
            times[i][k] = (struct rt_layer_times){one->forward * slowdown, one->input * slowdown,
                                                  one->weights * slowdown, one->update * slowdown};
        }
    }
    return status;
}

/* What the master has to do besides its layers. */
static rt_status measure_master(const struct rt_formation_settings *settings, struct rt_formation *formation,
                                struct rt_error *err) {
    struct rt_plan_question *question = &formation->question;
    const enum rt_target target = rt_materials_wish(settings->spec, settings->network).target;
    struct rt_master_work work;
    rt_status status = rt_master_work_measure(settings->network, settings->set, settings->scaling, target,
                                              question->rows, &work, err);
    if (status == RT_OK) {
        question->master_inputs = work.inputs * formation->slowdown;
        question->master_loss = work.loss * formation->slowdown;
    }
    return status;
}

static rt_status take_devices(const struct rt_formation_settings *settings, struct rt_formation *formation,
                              struct rt_error *err) {
    const size_t layers = settings->network->model->count, count = rt_spec_devices(settings->spec);
    rt_status status = rt_alloc(count, sizeof *formation->device, "the devices", &formation->device, err);
    if (status == RT_OK)
        status = rt_alloc(count, sizeof *formation->name, "the devices", &formation->name, err);
    if (status == RT_OK)
        status = rt_alloc(2 * count, sizeof *formation->times, "the devices", &formation->times, err);
    formation->devices = status == RT_OK ? count : 0;
    for (size_t i = 0; status == RT_OK && i < 2 * count; i++)
        status =
            rt_alloc(layers, sizeof **formation->times, "the times of the layers", &formation->times[i], err);
    for (size_t i = 0; status == RT_OK && i < count; i++) {
        const struct rt_member *member = i ? rt_cluster_member(formation->cluster, i - 1) : NULL;
        if (!member)
            snprintf(formation->name[i], sizeof *formation->name, "master");
        else if (member->local)
            snprintf(formation->name[i], sizeof *formation->name, "local %zu", i);
        else
            snprintf(formation->name[i], sizeof *formation->name, "%s", member->address);
        formation->device[i] = (struct rt_plan_device){
            .name = formation->name[i],
            .layers = formation->times[i],
            .more_layers = formation->times[count + i],
            .memory = member ? member->welcome.memory : (uint64_t)settings->spec->cluster.memory << 20,
        };
    }
    return status;
}

static rt_status probe_links(struct rt_formation *formation, struct rt_error *err) {
    const size_t count = formation->devices - 1;
    struct rt_edge *edges = NULL;
    size_t *order = NULL;
    rt_status status = rt_alloc(count + 1, sizeof *edges, "the links", &edges, err);
    if (status == RT_OK)
        status = rt_alloc(count, sizeof *order, "the links", &order, err);
    for (size_t i = 0; status == RT_OK && i < count; i++)
        order[i] = i;
    if (status == RT_OK)
        status = rt_cluster_ring(formation->cluster, order, count, PROBE_BYTES, &formation->next,
                                 &formation->previous, edges, err);
    for (size_t i = 0; status == RT_OK && i <= count; i++) {
        formation->device[i].latency = edges[i].latency;
        formation->device[i].bandwidth = edges[i].bandwidth;
    }
    free(edges);
    free(order);
    return status;
}

/* The job again, now that the size of a micro-batch is known. */
static rt_status settle_job(struct rt_formation *formation, struct rt_error *err) {
    char text[24];
    struct rt_tree *tree, *value;
    snprintf(text, sizeof text, "%zu", formation->plan->micro_batch);
    rt_status status = rt_tree_copy(formation->job->tree, &tree, err);
    if (status != RT_OK)
        return status;
    status = rt_tree_create(RT_TREE_SCALAR, text, "the plan", 0, &value, err);
    if (status == RT_OK) {
        status = rt_tree_set(tree, "micro_batch", value, err);
        if (status != RT_OK)
            rt_tree_destroy(value);
    }
    if (status != RT_OK) {
        rt_tree_destroy(tree);
        return status;
    }
    struct rt_job *job;
    status = rt_job_create(tree, &job, err);
    if (status != RT_OK)
        return status;
    rt_job_destroy(formation->job);
    formation->job = job;
    formation->question.job = job;
    return RT_OK;
}

/* The planner takes every device for a machine of its own. Local processes share the cores of this one: they
 * cannot be faster together than all the cores are. */
static void share_cores(const struct rt_formation *formation, const struct rt_spec *spec) {
    struct rt_plan *plan = formation->plan;
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    double work = 0; /* CPU-seconds on this machine per update */
    for (size_t i = 0; i < plan->nodes; i++) {
        const size_t device = plan->node[i].device;
        const struct rt_member *member = device ? rt_cluster_member(formation->cluster, device - 1) : NULL;
        if (!member || member->local)
            work += plan->node[i].busy / (member ? member->slowdown : formation->slowdown);
    }
    work *= (double)rt_formation_threads(spec);
    const double most = (double)formation->job->batch * (double)(cores > 0 ? cores : 1) / work;
    if (work > 0 && plan->samples_per_s > most)
        plan->samples_per_s = most;
}

static void at_least(uint64_t bytes, uint64_t *memory) {
    *memory = *memory < bytes ? bytes : *memory;
}

/* What devices take besides their part: the master has its data as well, and the largest of all layers was
 * measured by the master and by every node that is not of its machine. */
static rt_status count_memory(const struct rt_formation *formation, struct rt_error *err) {
    struct rt_plan *plan = formation->plan;
    const struct rt_plan_question *question = &formation->question;
    const size_t rows = question->more_rows ? question->more_rows : question->rows;
    const uint64_t resident = rt_memory_resident();
    double measuring;
    rt_status status = rt_profile_bytes(formation->job, question->model, rows, &measuring, err);
    if (status != RT_OK)
        return status;
    if (resident > RT_PLAN_PROGRAM_BYTES)
        plan->node[0].memory += resident - RT_PLAN_PROGRAM_BYTES;
    at_least(rt_memory_peak(), &plan->node[0].memory);
    for (size_t i = 1; i < plan->nodes; i++)
        if (!rt_cluster_member(formation->cluster, plan->node[i].device - 1)->local && measuring < 0x1p62)
            at_least(RT_PLAN_PROGRAM_BYTES + (uint64_t)measuring, &plan->node[i].memory);
    return RT_OK;
}

rt_status rt_formation_plan(const struct rt_formation_settings *settings, struct rt_formation *formation,
                            struct rt_error *err) {
    const struct rt_spec_cluster *cluster = &settings->spec->cluster;
    *formation = (struct rt_formation){.slowdown = 1};
    rt_status status = rt_job_create(settings->job, &formation->job, err);
    /* The planner would say so as well, but only after every node has been started. */
    const size_t devices = rt_spec_devices(settings->spec), layers = settings->network->model->count;
    if (status == RT_OK && devices > layers)
        status =
            rt_fail(err, RT_BAD_INPUT,
                    "%zu nodes are more than this model has parts for: it has %zu layers, and every node "
                    "needs at least one",
                    devices, layers);
    if (status == RT_OK)
        status = open_cluster(settings, formation, err);
    if (status == RT_OK)
        status = take_devices(settings, formation, err);
    if (status == RT_OK && formation->cluster)
        status = probe_links(formation, err);
    struct rt_plan_question *question = &formation->question;
    *question = (struct rt_plan_question){.job = formation->job,
                                          .model = settings->network->model,
                                          .devices = formation->device,
                                          .count = formation->devices,
                                          .master_tail = (size_t)cluster->master_tail,
                                          .slots = settings->slots < 0 ? 0 : (size_t)settings->slots,
                                          .even = cluster->plan == 1,
                                          .keep_all = cluster->keep_all};
    if (status == RT_OK)
        rt_plan_rows(formation->job, formation->devices, &question->rows, &question->more_rows);
    if (status == RT_OK)
        status = measure(settings, formation, question->rows, formation->times, err);
    if (status == RT_OK && question->more_rows)
        status =
            measure(settings, formation, question->more_rows, formation->times + formation->devices, err);
    if (status == RT_OK)
        status = measure_master(settings, formation, err);
    if (status == RT_OK)
        status = rt_plan_create(question, &formation->plan, err);
    if (status == RT_OK)
        share_cores(formation, settings->spec);
    if (status == RT_OK)
        status = count_memory(formation, err);
    return status == RT_OK ? settle_job(formation, err) : status;
}

char *rt_formation_print(const struct rt_formation *formation) {
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    if (!out)
        return NULL;
    rt_plan_print(formation->plan, &formation->question, out);
    if (fclose(out) != 0) {
        free(text);
        return NULL;
    }
    return text;
}

/* ---- everybody's part ---- */

static rt_status assign(struct rt_formation *formation, const struct rt_assign *part, size_t member,
                        struct rt_error *err) {
    uint8_t *bytes;
    rt_status status = rt_alloc(RT_MAX_CONTROL, 1, "a message", &bytes, err);
    if (status != RT_OK)
        return status;
    const size_t used = rt_assign_encode(part, bytes, RT_MAX_CONTROL);
    status = used ? rt_cluster_ask(formation->cluster, member, RT_MESSAGE_ASSIGN, bytes, used,
                                   RT_MESSAGE_READY, err)
                  : rt_fail(err, RT_BAD_INPUT, "the description of the model is too long to be sent");
    free(bytes);
    if (status == RT_OK)
        rt_talk_next(&rt_cluster_member(formation->cluster, member)->talk);
    return status;
}

static rt_status assign_all(struct rt_formation *formation, struct rt_error *err) {
    const struct rt_plan *plan = formation->plan;
    struct rt_assign part = {.nodes = plan->nodes, .job = formation->job->tree};
    rt_status status = rt_alloc(plan->nodes, sizeof *part.node, "the plan", &part.node, err);
    for (size_t i = 0; status == RT_OK && i < plan->nodes; i++)
        part.node[i] = (struct rt_assigned_node){.first = (uint32_t)plan->node[i].first,
                                                 .count = (uint32_t)plan->node[i].count,
                                                 .slots = (uint32_t)plan->node[i].slots};
    for (size_t i = 1; status == RT_OK && i < plan->nodes; i++) {
        part.index = (uint16_t)i;
        status = assign(formation, &part, plan->node[i].device - 1, err);
    }
    free(part.node);
    return status;
}

/* Where some were left out, the ring is made anew without them. */
static rt_status join_again(struct rt_formation *formation, struct rt_error *err) {
    const struct rt_plan *plan = formation->plan;
    if (plan->nodes == formation->devices)
        return RT_OK;
    rt_link_close(formation->next);
    rt_link_close(formation->previous);
    formation->next = formation->previous = NULL;
    struct rt_edge *edges = NULL;
    size_t *order = NULL;
    rt_status status = rt_alloc(plan->nodes, sizeof *edges, "the links", &edges, err);
    if (status == RT_OK)
        status = rt_alloc(plan->nodes, sizeof *order, "the links", &order, err);
    for (size_t i = 1; status == RT_OK && i < plan->nodes; i++)
        order[i - 1] = plan->node[i].device - 1;
    if (status == RT_OK)
        status = rt_cluster_ring(formation->cluster, order, plan->nodes - 1, 0, &formation->next,
                                 &formation->previous, edges, err);
    free(edges);
    free(order);
    return status;
}

rt_status rt_formation_assign(const struct rt_formation_settings *settings, struct rt_formation *formation,
                              struct rt_error *err) {
    (void)settings;
    if (!formation->cluster)
        return RT_OK;
    /* Everybody else was left out. */
    if (formation->plan->nodes == 1) {
        rt_link_close(formation->next);
        rt_link_close(formation->previous);
        formation->next = formation->previous = NULL;
        rt_cluster_close(formation->cluster);
        formation->cluster = NULL;
        return RT_OK;
    }
    rt_status status = join_again(formation, err);
    if (status == RT_OK)
        status = assign_all(formation, err);
    return status == RT_OK ? rt_cluster_go(formation->cluster, err) : status;
}

void rt_formation_deinit(struct rt_formation *formation) {
    if (formation->next)
        rt_link_close(formation->next);
    if (formation->previous)
        rt_link_close(formation->previous);
    rt_cluster_close(formation->cluster);
    rt_endpoint_destroy(formation->endpoint);
    rt_plan_destroy(formation->plan);
    rt_job_destroy(formation->job);
    for (size_t i = 0; formation->times && i < 2 * formation->devices; i++)
        free(formation->times[i]);
    free(formation->times);
    free(formation->device);
    free(formation->name);
    *formation = (struct rt_formation){0};
}
