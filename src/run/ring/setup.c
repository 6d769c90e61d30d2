/* Forming a ring: nodes are started or found, measured, given their layers, and joined to one another. */
#include "run/ring/setup_inside.h"

#include "base/cores.h"
#include "base/memory.h"
#include "base/sentence.h"
#include "learn/datasets.h"
#include "run/ring/master_work.h"
#include "wire/tree.h"
#include <stdlib.h>
#include <string.h>

/* Bytes that a link is measured with: enough to see its bandwidth, few enough to be quick on a slow one. */
enum { PROBE_BYTES = 256 << 10 };

/* ---- how fast they are ---- */

static rt_status ring_setup_ask_profile(struct rt_ring_setup *setup, size_t member, size_t rows,
                                        struct rt_layer_times *times, size_t layers, struct rt_error *err) {
    const struct rt_profile profile = {.rows = (uint32_t)rows, .job = setup->job->tree};
    uint8_t *bytes;
    rt_status status = rt_alloc(RT_MAX_CONTROL, 1, "a message", &bytes, err);
    if (status != RT_OK)
        return status;
    const size_t used = rt_profile_encode(&profile, bytes, RT_MAX_CONTROL);
    if (!used)
        status = rt_fail(err, RT_BAD_INPUT, "the description of the model is too long to be sent");
    else
        status = rt_cluster_ask(setup->who.cluster, member, RT_MESSAGE_PROFILE, bytes, used,
                                RT_MESSAGE_PROFILED, err);
    free(bytes);
    if (status != RT_OK)
        return status;
    struct rt_member *node = rt_cluster_member(setup->who.cluster, member);
    struct rt_profiled profiled;
    status = rt_profiled_decode(node->talk.body, node->talk.body_bytes, &profiled, err);
    rt_talk_next(&node->talk);
    if (status != RT_OK)
        return rt_fail_prefix(err, status, "%s", node->name);
    if (profiled.count != layers)
        status = rt_fail(err, RT_FAILED, "%s measured %s, but the model has %zu", node->name,
                         RT_COUNTED(profiled.count, "layer"), layers);
    else
        memcpy(times, profiled.layers, layers * sizeof *times);
    rt_profiled_deinit(&profiled);
    return status;
}

/* Local processes are this same machine: they are as fast as the master, less what is emulated. */
static rt_status ring_setup_measure(const struct rt_ring_setup_settings *settings,
                                    struct rt_ring_setup *setup, size_t rows,
                                    struct rt_layer_times *const *times, struct rt_error *err) {
    const size_t layers = settings->network->model->count;
    rt_status status =
        rt_profile_measure(setup->job, &settings->network->device, rows, 1,
                           (uint64_t)settings->spec->cluster.memory << 20, times[0], layers, err);
    for (size_t i = setup->who.devices - 1; status == RT_OK && i < setup->who.devices; i--) {
        const struct rt_member *member = i ? rt_cluster_member(setup->who.cluster, i - 1) : NULL;
        if (member && !member->local) {
            status = ring_setup_ask_profile(setup, i - 1, rows, times[i], layers, err);
            continue;
        }
        const double slowdown = rt_pace_factor(member ? &member->pace : &setup->who.pace, 1);
        for (size_t k = 0; k < layers; k++) {
            const struct rt_layer_times *one = &times[0][k];
            times[i][k] = (struct rt_layer_times){one->forward * slowdown, one->input * slowdown,
                                                  one->weights * slowdown, one->update * slowdown};
        }
    }
    return status;
}

/* What the master has to do besides its layers. */
static rt_status ring_setup_measure_master(const struct rt_ring_setup_settings *settings,
                                           struct rt_ring_setup *setup, struct rt_error *err) {
    struct rt_plan_question *question = &setup->question;
    struct rt_data_wish wish;
    struct rt_master_work work;
    rt_status status = rt_datasets_wish(&settings->spec->data, settings->network, &wish, err);
    if (status == RT_OK)
        status = rt_master_work_measure(settings->network, settings->set, settings->scaling, wish.target,
                                        question->rows, &work, err);
    if (status == RT_OK) {
        const double slowdown = rt_pace_factor(&setup->who.pace, 1);
        question->master_inputs = work.inputs * slowdown;
        question->master_loss = work.loss * slowdown;
    }
    return status;
}

static rt_status ring_setup_take_devices(const struct rt_ring_setup_settings *settings,
                                         struct rt_ring_setup *setup, struct rt_error *err) {
    const size_t layers = settings->network->model->count, count = rt_spec_devices(settings->spec);
    rt_status status = rt_alloc(count, sizeof *setup->device, "the devices", &setup->device, err);
    if (status == RT_OK)
        status = rt_alloc(2 * count, sizeof *setup->times, "the devices", &setup->times, err);
    for (size_t i = 0; status == RT_OK && i < 2 * count; i++)
        status = rt_alloc(layers, sizeof **setup->times, "the times of the layers", &setup->times[i], err);
    for (size_t i = 0; status == RT_OK && i < count; i++) {
        const struct rt_member *member = i ? rt_cluster_member(setup->who.cluster, i - 1) : NULL;
        setup->device[i] = (struct rt_plan_device){
            .name = setup->who.name[i],
            .layers = setup->times[i],
            .more_layers = setup->times[count + i],
            .memory = member ? member->welcome.memory : (uint64_t)settings->spec->cluster.memory << 20,
        };
    }
    return status;
}

static rt_status ring_setup_add_ring(void *user, struct rt_view *view, struct rt_error *err) {
    (void)user;
    return rt_view_add_ring(view, 0, view->nodes, err);
}

/* places: the length of the master's ring. */
static void ring_setup_take_links(struct rt_ring_setup *setup, size_t places) {
    setup->next = rt_view_take_link(setup->who.view, 1, RT_LABEL_NEXT);
    setup->previous = rt_view_take_link(setup->who.view, places - 1, RT_LABEL_PREVIOUS);
}

/* Every device has the link that leads on from it in its ring; the last link of a ring is made by its first
 * node, and leads on from the last. */
static void ring_setup_take_edges(struct rt_ring_setup *setup) {
    const struct rt_view *view = setup->who.view;
    for (size_t k = 0; k < view->link_count; k++) {
        const struct rt_wanted_link *wanted = &view->wanted[k];
        if (wanted->label == RT_LABEL_MESH)
            continue;
        struct rt_plan_device *device =
            &setup->device[wanted->label == RT_LABEL_NEXT ? wanted->from : wanted->to];
        device->latency = view->edges[k].latency;
        device->bandwidth = view->edges[k].bandwidth;
    }
}

static rt_status ring_setup_probe_links(const struct rt_ring_setup_settings *settings,
                                        struct rt_ring_setup *setup, size_t places, struct rt_error *err) {
    const struct rt_view_settings all = {.nodes = setup->who.devices,
                                         .shape = settings->shape ? settings->shape : ring_setup_add_ring,
                                         .user = settings->user,
                                         .probe_bytes = PROBE_BYTES};
    RT_TRY(rt_membership_form_view(&setup->who, &all, err));
    ring_setup_take_links(setup, places);
    ring_setup_take_edges(setup);
    if (settings->joined)
        settings->joined(settings->user, setup->who.view);
    return RT_OK;
}

/* The job that is planned: where several rings share a batch and its shards, the part of one of them. */
static rt_status ring_setup_open_job(const struct rt_ring_setup_settings *settings,
                                     struct rt_ring_setup *setup, struct rt_error *err) {
    const int64_t parts = settings->parts > 1 ? (int64_t)settings->parts : 1;
    struct rt_job values = *settings->job;
    values.batch = (values.batch + parts - 1) / parts;
    values.shards = values.shards % parts ? 1 : values.shards / parts;
    values.ring.with_servers = settings->with_servers;
    return rt_job_write(&values, &setup->job, err);
}

/* The job again, of the whole batch, now that the size of a micro-batch is known. */
static rt_status ring_setup_settle_job(const struct rt_ring_setup_settings *settings,
                                       struct rt_ring_setup *setup, struct rt_error *err) {
    struct rt_job values = *settings->job, *job;
    values.micro_batch = (int64_t)setup->plan->micro_batch;
    values.ring.parts = settings->parts > 1 ? (int64_t)settings->parts : 1;
    values.ring.with_servers = settings->with_servers;
    RT_TRY(rt_job_write(&values, &job, err));
    rt_job_destroy(setup->job);
    setup->job = job;
    setup->question.job = job;
    return RT_OK;
}

/* The planner takes every device for a machine of its own. Local processes share the cores of this one: they
 * cannot be faster together than all the cores are. */
void rt_ring_setup_share_cores(const struct rt_ring_setup *setup, const struct rt_spec *spec, size_t rings) {
    const double threads = (double)rt_membership_threads(spec), cores = rt_cores_amount();
    struct rt_plan *plan = setup->plan;
    double work = 0;   /* CPU-seconds on this machine per update of each ring */
    double wanted = 0; /* cores */
    for (size_t i = 0; i < plan->nodes * rings; i++) {
        const struct rt_plan_node *node = &plan->node[i % plan->nodes];
        const size_t device = node->device + i / plan->nodes * plan->nodes;
        const struct rt_member *member = device ? rt_cluster_member(setup->who.cluster, device - 1) : NULL;
        const double slowdown = rt_pace_factor(member ? &member->pace : &setup->who.pace, 1);
        if (!member || member->local) {
            work += node->busy / slowdown;
            wanted += threads / slowdown;
        }
    }
    work *= threads;
    plan->crowded = wanted > cores;
    const double most = (double)setup->job->batch * (double)rings * cores / work;
    if (work > 0 && plan->samples_per_s > most)
        plan->samples_per_s = most;
}

static double ring_setup_larger(double a, double b) {
    return a > b ? a : b;
}

/* Of two limits, where 0 is none. */
static double ring_setup_smaller(double a, double b) {
    return a > 0 && (b <= 0 || a < b) ? a : b;
}

/* Every device of the first ring becomes as slow as the slowest at its place. */
static void ring_setup_fold_rings(const struct rt_ring_setup_settings *settings, struct rt_ring_setup *setup,
                                  size_t places) {
    const size_t layers = settings->network->model->count, devices = setup->who.devices;
    for (size_t i = places; i < devices; i++) {
        struct rt_plan_device *to = &setup->device[i % places];
        const struct rt_plan_device *from = &setup->device[i];
        to->memory = (uint64_t)ring_setup_smaller((double)to->memory, (double)from->memory);
        to->latency = ring_setup_larger(to->latency, from->latency);
        to->bandwidth = ring_setup_smaller(to->bandwidth, from->bandwidth);
        for (size_t k = 0; k < 2 * layers; k++) {
            const size_t set = k < layers ? 0 : devices;
            struct rt_layer_times *slow = &setup->times[set + i % places][k % layers];
            const struct rt_layer_times *other = &setup->times[set + i][k % layers];
            slow->forward = ring_setup_larger(slow->forward, other->forward);
            slow->input = ring_setup_larger(slow->input, other->input);
            slow->weights = ring_setup_larger(slow->weights, other->weights);
            slow->update = ring_setup_larger(slow->update, other->update);
        }
    }
}

static void ring_setup_at_least(uint64_t bytes, uint64_t *memory) {
    *memory = *memory < bytes ? bytes : *memory;
}

/* Bytes of the examples that are not in memory yet; checking floats has brought them there. */
static uint64_t ring_setup_unread_bytes(const struct rt_dataset *set) {
    const bool checked = set && (set->type == RT_DATA_F32 || set->type == RT_DATA_F64);
    return set && set->mapped && !checked
               ? (uint64_t)set->count * rt_shape_size(&set->shape) * rt_data_type_bytes(set->type)
               : 0;
}

/* What devices take besides their part: the master has its data as well, and the largest of all layers was
 * measured by the master and by every node that is not of its machine. */
rt_status rt_ring_setup_count_memory(const struct rt_ring_setup_settings *settings,
                                     const struct rt_ring_setup *setup, struct rt_error *err) {
    struct rt_plan *plan = setup->plan;
    const struct rt_plan_question *question = &setup->question;
    const size_t rows = question->more_rows ? question->more_rows : question->rows;
    const uint64_t resident = rt_memory_resident();
    double measuring;
    rt_status status = rt_profile_bytes(setup->job, question->model, rows, &measuring, err);
    if (status != RT_OK)
        return status;
    if (resident > RT_PLAN_PROGRAM_BYTES)
        plan->node[0].memory += resident - RT_PLAN_PROGRAM_BYTES;
    plan->node[0].memory += ring_setup_unread_bytes(settings->set);
    ring_setup_at_least(rt_memory_peak(), &plan->node[0].memory);
    for (size_t i = 1; i < plan->nodes; i++)
        if (!rt_cluster_member(setup->who.cluster, plan->node[i].device - 1)->local && measuring < 0x1p62)
            ring_setup_at_least(RT_PLAN_PROGRAM_BYTES + (uint64_t)measuring, &plan->node[i].memory);
    return RT_OK;
}

/* Where there are several rings, a limit need not be that of the device which has its name: says so. */
static rt_status ring_setup_make_plan(struct rt_ring_setup *setup, size_t rings, struct rt_error *err) {
    rt_status status = rt_plan_create(&setup->question, &setup->plan, err);
    if (status != RT_OK && rings > 1)
        rt_fail_prefix(err, status, "for rings whose devices are each like the weakest at their place");
    return status;
}

rt_status rt_ring_setup_plan(const struct rt_ring_setup_settings *settings, struct rt_ring_setup *setup,
                             struct rt_error *err) {
    const struct rt_spec_cluster *cluster = &settings->spec->cluster;
    *setup = (struct rt_ring_setup){0};
    rt_status status = ring_setup_open_job(settings, setup, err);
    /* The planner would say so as well, but only after every node has been started. */
    const size_t rings = settings->rings > 1 ? settings->rings : 1, layers = settings->network->model->count;
    const size_t devices = rt_spec_devices(settings->spec) / rings;
    if (status == RT_OK && devices > layers && rings > 1)
        status =
            rt_fail(err, RT_BAD_INPUT,
                    "%zu rings of %s each are too long for this model: it has %s, and every node of a ring "
                    "needs at least one",
                    rings, RT_COUNTED(devices, "node"), RT_COUNTED(layers, "layer"));
    else if (status == RT_OK && devices > layers)
        status =
            rt_fail(err, RT_BAD_INPUT,
                    "%zu nodes are more than this model has parts for: it has %s, and every node needs at "
                    "least one",
                    devices, RT_COUNTED(layers, "layer"));
    if (status == RT_OK)
        status =
            rt_membership_form(&(struct rt_membership_settings){.spec = settings->spec,
                                                                .network = settings->network,
                                                                .exact = setup->job->math != RT_MATH_FAST,
                                                                .program = settings->program,
                                                                .stop = settings->stop,
                                                                .waits = settings->waits,
                                                                .waits_user = settings->waits_user},
                               &setup->who, err);
    if (status == RT_OK)
        status = ring_setup_take_devices(settings, setup, err);
    if (status == RT_OK && setup->who.cluster)
        status = ring_setup_probe_links(settings, setup, devices, err);
    struct rt_plan_question *question = &setup->question;
    *question = (struct rt_plan_question){.job = setup->job,
                                          .model = settings->network->model,
                                          .devices = setup->device,
                                          .count = devices,
                                          .master_tail = (size_t)cluster->master_tail,
                                          .slots = settings->slots < 0 ? 0 : (size_t)settings->slots,
                                          .even = cluster->plan == 1,
                                          .keep_all = cluster->keep_all || rings > 1};
    if (status == RT_OK)
        rt_plan_rows(setup->job, devices, &question->rows, &question->more_rows);
    if (status == RT_OK)
        status = ring_setup_measure(settings, setup, question->rows, setup->times, err);
    if (status == RT_OK && question->more_rows)
        status =
            ring_setup_measure(settings, setup, question->more_rows, setup->times + setup->who.devices, err);
    double alone = -1;
    if (status == RT_OK)
        status = ring_setup_measure_master(settings, setup, err);
    if (status == RT_OK && setup->who.devices > 1)
        status = rt_plan_alone(question, &alone, err);
    if (status == RT_OK)
        ring_setup_fold_rings(settings, setup, devices);
    if (status == RT_OK)
        status = ring_setup_make_plan(setup, rings, err);
    if (status == RT_OK) {
        const size_t threads = rt_membership_threads(settings->spec);
        setup->plan->samples_per_s *= (double)rings;
        setup->plan->rings = rings;
        setup->plan->alone = alone;
        setup->plan->alone_threads = threads < rt_cores_usable() ? threads : 0;
        rt_ring_setup_share_cores(setup, settings->spec, rings);
    }
    if (status == RT_OK)
        status = rt_ring_setup_count_memory(settings, setup, err);
    return status == RT_OK ? ring_setup_settle_job(settings, setup, err) : status;
}

char *rt_ring_setup_print(const struct rt_ring_setup *setup) {
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    if (!out)
        return NULL;
    rt_membership_print_addresses(&setup->who, out);
    rt_plan_print(setup->plan, &setup->question, out);
    if (fclose(out) != 0) {
        free(text);
        return NULL;
    }
    return text;
}

/* ---- the parts of the nodes ---- */

/* A view of the devices that are in the plan. */
static rt_status ring_setup_form_planned(struct rt_ring_setup *setup, struct rt_error *err) {
    const struct rt_plan *plan = setup->plan;
    size_t *devices;
    rt_link_close(setup->next);
    rt_link_close(setup->previous);
    setup->next = setup->previous = NULL;
    RT_TRY(rt_alloc(plan->nodes, sizeof *devices, "the nodes", &devices, err));
    for (size_t i = 0; i < plan->nodes; i++)
        devices[i] = plan->node[i].device;
    const struct rt_view_settings fewer = {
        .devices = devices, .nodes = plan->nodes, .shape = ring_setup_add_ring};
    const rt_status status = rt_membership_form_view(&setup->who, &fewer, err);
    free(devices);
    if (status == RT_OK)
        ring_setup_take_links(setup, plan->nodes);
    return status;
}

rt_status rt_ring_setup_tell(struct rt_ring_setup *setup, const struct rt_job *job, struct rt_error *err) {
    const struct rt_plan *plan = setup->plan;
    const struct rt_view *view = setup->who.view;
    struct rt_assign all = {.nodes = view->nodes, .job = job->tree};
    RT_TRY(rt_alloc(view->nodes, sizeof *all.node, "the plan", &all.node, err));
    for (size_t i = 0; i < view->nodes; i++) {
        const struct rt_plan_node *node = &plan->node[i % plan->nodes];
        all.node[i] = (struct rt_assigned_node){
            .first = (uint32_t)node->first, .count = (uint32_t)node->count, .slots = (uint32_t)node->slots};
    }
    const rt_status status = rt_view_assign(view, setup->who.cluster, &all, err);
    free(all.node);
    return status == RT_OK ? rt_cluster_go(setup->who.cluster, err) : status;
}

rt_status rt_ring_setup_assign(const struct rt_ring_setup_settings *settings, struct rt_ring_setup *setup,
                               struct rt_error *err) {
    (void)settings;
    if (!setup->who.cluster)
        return RT_OK;
    /* All other devices were left out. */
    if (setup->plan->nodes == 1) {
        rt_link_close(setup->next);
        rt_link_close(setup->previous);
        setup->next = setup->previous = NULL;
        rt_cluster_close(setup->who.cluster);
        setup->who.cluster = NULL;
        return RT_OK;
    }
    if (setup->plan->nodes < setup->who.devices || !setup->next)
        RT_TRY(ring_setup_form_planned(setup, err));
    return rt_ring_setup_tell(setup, setup->job, err);
}

void rt_ring_setup_deinit(struct rt_ring_setup *setup) {
    if (setup->next)
        rt_link_close(setup->next);
    if (setup->previous)
        rt_link_close(setup->previous);
    for (size_t i = 0; setup->times && i < 2 * setup->who.devices; i++)
        free(setup->times[i]);
    rt_membership_deinit(&setup->who);
    rt_plan_destroy(setup->plan);
    rt_job_destroy(setup->job);
    free(setup->times);
    free(setup->device);
    *setup = (struct rt_ring_setup){0};
}
