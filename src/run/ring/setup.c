/* Forming a ring: nodes are started or found, measured, given their layers, and joined to one another. */
#include "run/ring/setup_inside.h"

#include "base/cores.h"
#include "base/memory.h"
#include "base/sentence.h"
#include "wire/tree.h"
#include <stdlib.h>
#include <string.h>

static rt_status ring_setup_take_devices(const struct rt_ring_setup_settings *settings,
                                         struct rt_ring_setup *setup, struct rt_error *err) {
    const size_t layers = settings->network->model->count, count = setup->who.devices;
    rt_status status = rt_alloc(count, sizeof *setup->device, "the devices", &setup->device, err);
    if (status == RT_OK)
        status = rt_alloc(2 * count, sizeof *setup->times, "the devices", &setup->times, err);
    for (size_t i = 0; status == RT_OK && i < 2 * count; i++)
        status = rt_alloc(layers, sizeof **setup->times, "the times of the layers", &setup->times[i], err);
    if (status == RT_OK)
        status = rt_alloc(count, sizeof *setup->slower, "the devices", &setup->slower, err);
    for (size_t i = 0; status == RT_OK && i < count; i++) {
        setup->slower[i] = 1;
        const struct rt_member *member = i ? rt_cluster_member(setup->who.cluster, i - 1) : NULL;
        setup->device[i] = (struct rt_plan_device){
            .name = setup->who.name[i],
            .layers = setup->times[i],
            .more_layers = setup->times[count + i],
            .memory = member ? member->welcome.memory : (uint64_t)settings->spec->cluster.memory << 20,
            .hidden = member && member->hidden,
        };
        if (i > 0) /* those that are there are measured now */
            rt_cluster_member(setup->who.cluster, i - 1)->fresh = false;
    }
    return status;
}

/* The job that is planned: where several rings share a batch and its shards, the part of one of them. */
static rt_status ring_setup_open_job(const struct rt_ring_setup_settings *settings,
                                     struct rt_ring_setup *setup, struct rt_error *err) {
    const int64_t parts = settings->parts > 1 ? (int64_t)settings->parts : 1;
    struct rt_job values = *settings->job;
    values.batch = (values.batch + parts - 1) / parts;
    values.shards = values.shards % parts ? 1 : values.shards / parts;
    values.ring.with_servers = settings->with_servers;
    if (settings->rings > 1)
        values.ring.replica = RT_REPLICA_OFF; /* the run keeps images instead */
    return rt_job_write(&values, &setup->job, err);
}

/* The job again, of the whole batch, now that the size of a micro-batch is known. */
static rt_status ring_setup_settle_job(const struct rt_ring_setup_settings *settings,
                                       struct rt_ring_setup *setup, struct rt_error *err) {
    struct rt_job values = *settings->job, *job;
    values.micro_batch = (int64_t)setup->plan->micro_batch;
    values.ring.parts = settings->parts > 1 ? (int64_t)settings->parts : 1;
    values.ring.with_servers = settings->with_servers;
    values.ring.replica = setup->job->ring.replica;
    values.ring.replica_rate = rt_ring_setup_replica_rate(setup);
    RT_TRY(rt_job_write(&values, &job, err));
    rt_job_destroy(setup->job);
    setup->job = job;
    setup->question.job = job;
    return RT_OK;
}

size_t rt_ring_setup_device(const struct rt_ring_setup *setup, size_t node) {
    const struct rt_plan *plan = setup->plan;
    const struct rt_ring_places *places = &setup->places;
    const size_t device = plan->node[node % plan->nodes].device;
    return places->rings ? places->number[node / plan->nodes * places->count + device] : device;
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
        const size_t device = rt_ring_setup_device(setup, i);
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
                                     struct rt_ring_setup *setup, struct rt_error *err) {
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
    RT_TRY(rt_ring_setup_count_replicas(setup, err));
    return rt_ring_setup_count_stream(settings, setup, err);
}

struct survey {
    const struct rt_ring_setup_settings *settings;
    struct rt_ring_setup *setup;
};

/* Joins the devices that are there, and measures links and devices. */
static rt_status ring_setup_survey(void *user, struct rt_error *err) {
    const struct survey *survey = user;
    struct rt_ring_setup *setup = survey->setup;
    const struct rt_plan_question *question = &setup->question;
    rt_ring_setup_close_links(setup); /* of an attempt before */
    if (setup->who.cluster)
        RT_TRY(rt_ring_setup_probe_links(survey->settings, setup, err));
    RT_TRY(rt_ring_setup_measure(survey->settings, setup, question->rows, setup->times, err));
    return question->more_rows ? rt_ring_setup_measure(survey->settings, setup, question->more_rows,
                                                       setup->times + setup->who.devices, err)
                               : RT_OK;
}

/* Device r * places + p is at place p of ring r. */
static rt_status ring_setup_place_all(struct rt_ring_setup *setup, size_t rings, size_t places,
                                      struct rt_error *err) {
    size_t *number;
    RT_TRY(rt_alloc(rings * places, sizeof *number, "the devices", &number, err));
    for (size_t i = 0; i < rings * places; i++)
        number[i] = i;
    const rt_status status = rt_ring_places_init(setup, number, rings, places, &setup->places, err);
    free(number);
    setup->question.devices = setup->places.device;
    return status;
}

/* Where there are several rings, a limit need not be that of the device which has its name: says so. */
static rt_status ring_setup_make_plan(struct rt_ring_setup *setup, size_t rings, struct rt_error *err) {
    rt_status status = rings > 1 ? rt_plan_create(&setup->question, &setup->plan, err)
                                 : rt_ring_setup_replan(setup, false, &setup->plan, err);
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
                                                                .token = settings->token,
                                                                .endpoint = settings->endpoint,
                                                                .stop = settings->stop,
                                                                .waits = settings->waits,
                                                                .waits_user = settings->waits_user},
                               &setup->who, err);
    if (status == RT_OK)
        status = ring_setup_take_devices(settings, setup, err);
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
    if (status == RT_OK) {
        struct survey survey = {settings, setup};
        status = ring_setup_survey(&survey, err);
        status = rt_membership_start_without(&setup->who, &settings->start, ring_setup_survey, &survey,
                                             status, err);
    }
    double alone = -1;
    if (status == RT_OK)
        status = rt_ring_setup_measure_master(settings, setup, err);
    if (status == RT_OK && devices * rings > 1)
        status = rt_plan_alone(question, &alone, err);
    if (status == RT_OK && rings > 1)
        status = ring_setup_place_all(setup, rings, devices, err);
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
    rt_ring_setup_print_replicas(setup, out);
    rt_ring_setup_print_stream(setup, out);
    if (fclose(out) != 0) {
        free(text);
        return NULL;
    }
    return text;
}

/* ---- the parts of the nodes ---- */

void rt_ring_setup_close_links(struct rt_ring_setup *setup) {
    rt_link_close(setup->next);
    rt_link_close(setup->previous);
    setup->next = setup->previous = NULL;
}

rt_status rt_ring_setup_form_planned(const struct rt_ring_setup_settings *settings,
                                     struct rt_ring_setup *setup, struct rt_error *err) {
    const size_t places = setup->plan->nodes, rings = setup->places.rings ? setup->places.rings : 1;
    size_t *devices;
    rt_ring_setup_close_links(setup);
    RT_TRY(rt_alloc(places * rings, sizeof *devices, "the nodes", &devices, err));
    for (size_t i = 0; i < places * rings; i++)
        devices[i] = rt_ring_setup_device(setup, i);
    const struct rt_view_settings planned = {.devices = devices,
                                             .nodes = places * rings,
                                             .shape =
                                                 settings->shape ? settings->shape : rt_ring_setup_add_ring,
                                             .user = settings->user};
    const rt_status status = rt_membership_form_view(&setup->who, &planned, err);
    free(devices);
    if (status != RT_OK)
        return status;
    rt_ring_setup_take_links(setup, places);
    if (settings->joined)
        settings->joined(settings->user, setup->who.view);
    return RT_OK;
}

rt_status rt_ring_setup_tell(struct rt_ring_setup *setup, const struct rt_job *job, struct rt_error *err) {
    const struct rt_plan *plan = setup->plan;
    struct rt_view *view = setup->who.view;
    struct rt_assign all = {.nodes = view->nodes, .job = job->tree};
    RT_TRY(rt_alloc(view->nodes, sizeof *all.node, "the plan", &all.node, err));
    for (size_t i = 0; i < view->nodes; i++) {
        const struct rt_plan_node *node = &plan->node[i % plan->nodes];
        all.node[i] = (struct rt_assigned_node){
            .first = (uint32_t)node->first, .count = (uint32_t)node->count, .slots = (uint32_t)node->slots};
    }
    view->version = setup->version;
    const rt_status status = rt_view_assign(view, setup->who.cluster, &all, err);
    free(all.node);
    return status == RT_OK ? rt_cluster_go(setup->who.cluster, err) : status;
}

/* Some device may come back. */
static bool ring_setup_lacks(const struct rt_ring_setup *setup) {
    bool lacks = false;
    for (size_t i = 1; i < setup->who.devices; i++)
        lacks |= !rt_ring_setup_is_there(setup, i);
    return lacks;
}

rt_status rt_ring_setup_assign(const struct rt_ring_setup_settings *settings, struct rt_ring_setup *setup,
                               struct rt_error *err) {
    if (!setup->who.cluster)
        return RT_OK;
    /* All other devices were left out; in the middle of a run some may come back. */
    if (setup->plan->nodes == 1) {
        rt_ring_setup_close_links(setup);
        if (setup->holder || ring_setup_lacks(setup) || rt_cluster_listens(setup->who.cluster)) {
            rt_cluster_go_alone(setup->who.cluster);
            return RT_OK;
        }
        rt_cluster_close(setup->who.cluster);
        setup->who.cluster = NULL;
        return RT_OK;
    }
    if (!setup->next || setup->plan->nodes < setup->who.view->nodes)
        RT_TRY(rt_ring_setup_form_planned(settings, setup, err));
    return rt_ring_setup_tell(setup, setup->job, err);
}

void rt_ring_setup_deinit(struct rt_ring_setup *setup) {
    rt_ring_setup_close_links(setup);
    for (size_t i = 0; setup->times && i < 2 * setup->who.devices; i++)
        free(setup->times[i]);
    rt_membership_deinit(&setup->who);
    rt_plan_destroy(setup->plan);
    rt_job_destroy(setup->job);
    free(setup->times);
    free(setup->device);
    free(setup->slower);
    free(setup->holder);
    rt_ring_places_deinit(&setup->places);
    *setup = (struct rt_ring_setup){0};
}
