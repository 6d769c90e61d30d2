#include "support/ringrig.h"

#include "base/clock.h"
#include "formats/yaml.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- where the examples come from ---------------------------------------------------------------------- */

static rt_status give_batch(void *self, uint64_t update, size_t *rows, uint32_t *epoch,
                            const uint32_t **examples, struct rt_error *err) {
    (void)err;
    struct rig *rig = self;
    struct rt_batch batch;
    if (update == 2 && rig->refusals < rig->settings.hungry) {
        rig->refusals++;
        *rows = 0;
        return RT_OK;
    }
    rt_batches_at(&rig->batches, update, &batch);
    *rows = batch.rows;
    *epoch = batch.epoch;
    *examples = batch.examples;
    rig->batches_given++;
    return RT_OK;
}

static void give_inputs(void *self, const uint32_t *examples, size_t rows, float *x) {
    const struct rig *rig = self;
    const size_t inputs = rig->tiny.network.inputs;
    for (size_t i = 0; i < rows; i++)
        memcpy(x + i * inputs, rig->tiny.inputs + examples[i] * inputs, inputs * sizeof *x);
}

static void take_loss(void *self, const uint32_t *examples, size_t rows, size_t batch_rows, const float *y,
                      float *dy, double *loss, size_t *correct) {
    struct rig *rig = self;
    const struct rt_network *network = &rig->tiny.network;
    const size_t outputs = network->outputs;
    float losses[256], values[4096];
    int32_t classes[256];
    if (rows > 256 || rows * outputs > 4096)
        abort();
    for (size_t i = 0; i < rows; i++) {
        classes[i] = rig->tiny.classes[examples[i]];
        memcpy(values + i * outputs, rig->tiny.values + examples[i] * outputs, outputs * sizeof *values);
    }
    const struct rt_targets targets = {.classes = classes, .values = values};
    if (network->loss->classes)
        *correct += rt_loss_correct(network->loss, rows, outputs, y, &targets);
    network->loss->evaluate(&rig->device, rows, outputs, y, &targets, 1.0f / (float)batch_rows, losses, dy);
    for (size_t i = 0; i < rows; i++)
        *loss += (double)losses[i];
}

/* ---- the cluster --------------------------------------------------------------------------------------- */

static rt_status make_job(struct rig *rig, struct rt_error *err) {
    const struct rig_settings *s = &rig->settings;
    char text[4000];
    const int length = (int)strlen(s->model) - 1; /* the closing brace goes behind the rest */
    snprintf(text, sizeof text,
             "%.*s, learner: ring, batch: %zu, micro_batch: %zu, shards: %zu, updates: %llu, per_epoch: "
             "%llu, seed: 5, "
             "clip_norm: %g, optimizer: %s, ring: {mode: %s, order: %s}, timeout: %g}",
             length, s->model, s->batch, s->flow ? s->batch : s->micro_batch, s->shards,
             (unsigned long long)s->updates, (unsigned long long)rig->batches.per_epoch, s->clip_norm,
             s->optimizer, s->flow ? "ring-flow" : "ring", s->together ? "1f1b" : "split",
             s->timeout > 0 ? s->timeout : 60);
    struct rt_tree *tree;
    rt_status status = rt_yaml_parse(text, strlen(text), "job", &tree, err);
    return status == RT_OK ? rt_job_create(tree, &rig->job, err) : status;
}

/* The layers in equal runs. */
static void make_plan(struct rig *rig) {
    const struct rig_settings *s = &rig->settings;
    const size_t layers = rig->job->layers->count, shared = layers - (s->nodes > 1 ? s->tail : 0);
    rig->plan = (struct rt_plan){
        .nodes = s->nodes, .node = rig->plan_nodes, .tail = s->nodes > 1 ? s->tail : 0, .layers = layers};
    for (size_t i = 0; i < s->nodes; i++) {
        const size_t first = i * shared / s->nodes, end = (i + 1) * shared / s->nodes;
        rig->plan_nodes[i] = (struct rt_plan_node){.first = first, .count = end - first, .slots = s->slots};
    }
}

rt_status rig_open(const struct rig_settings *settings, struct rig *rig, struct rt_error *err) {
    *rig = (struct rig){.settings = *settings, .run = 4711};
    struct rig_settings *s = &rig->settings;
    s->optimizer = s->optimizer ? s->optimizer : "{sgd: {lr: 0.1}}";
    s->slots = s->slots ? s->slots : 1;
    s->shards = s->shards ? s->shards : 1;
    s->updates = s->updates ? s->updates : 1000;
    const struct rt_trainer_settings trainer = {.seed = 5,
                                                .batch = s->batch,
                                                .micro_batch = s->micro_batch,
                                                .shards = s->shards,
                                                .shuffle = true,
                                                .clip_norm = s->clip_norm,
                                                .updates = s->updates};
    rt_status status =
        tiny_open(s->model, s->optimizer, s->examples, &(struct tiny_way){0}, &trainer, &rig->tiny, err);
    if (status == RT_OK)
        status = rt_batches_create(5, s->examples, s->batch, true, false, &rig->batches, err);
    if (status == RT_OK)
        status = make_job(rig, err);
    if (status == RT_OK)
        status = rt_device_open(RT_MATH_EXACT, "auto", 1, &rig->device, err);
    if (status == RT_OK) {
        make_plan(rig);
        const struct rt_memnet_settings net = {.seed = s->seed,
                                               .latency = s->latency,
                                               .bandwidth = s->bandwidth,
                                               .random_delay = s->random_delay,
                                               .silence_seconds = s->silence};
        status = rt_memnet_create(&net, s->nodes, &rig->net, err);
    }
    return status;
}

void rig_close(struct rig *rig) {
    rt_memnet_destroy(rig->net);
    rt_device_close(&rig->device);
    rt_job_destroy(rig->job);
    rt_batches_destroy(&rig->batches);
    tiny_close(&rig->tiny);
}

bool rig_join(struct rig *rig, size_t i, struct rt_endpoint *endpoint, struct rt_link **next,
              struct rt_link **previous) {
    struct rt_error err;
    char address[32];
    snprintf(address, sizeof address, "mem:%zu", i);
    *next = *previous = NULL;
    if (rt_endpoint_listen(endpoint, address, &err) != RT_OK)
        return false;
    /* All nodes listen before any connects. */
    rt_endpoint_sleep(endpoint, rt_endpoint_now(endpoint) + 0.001);
    snprintf(address, sizeof address, "mem:%zu", (i + 1) % rig->settings.nodes);
    if (rt_endpoint_connect(endpoint, address, rt_endpoint_now(endpoint) + 10, next, &err) != RT_OK)
        return false;
    bool connected = false;
    struct rt_event event;
    while ((!connected || !*previous) && rt_endpoint_wait(endpoint, rt_endpoint_now(endpoint) + 10, &event)) {
        connected |= event.kind == RT_EVENT_CONNECTED;
        if (event.kind == RT_EVENT_ACCEPTED)
            *previous = event.link;
    }
    return connected && *previous;
}

static void be_worker(struct rig *rig, size_t i, struct rt_endpoint *endpoint, struct rt_link *next,
                      struct rt_link *previous) {
    const struct rt_ring_device device = {
        .kernels = "auto", .threads = 1, .pace = {.first = rig->settings.slowdown * (double)(1 + 8 * i)}};
    const struct rt_role role = rt_ring_role(&device);
    struct rt_session session = {.endpoint = endpoint,
                                 .run = rig->run,
                                 .index = (uint16_t)i,
                                 .count = (uint16_t)rig->settings.nodes,
                                 .names = rig->settings.names,
                                 .next = next,
                                 .previous = previous,
                                 .user = role.user};
    struct rt_assigned_node nodes[RIG_NODES];
    for (size_t k = 0; k < rig->settings.nodes; k++)
        nodes[k] = (struct rt_assigned_node){.first = (uint32_t)rig->plan_nodes[k].first,
                                             .count = (uint32_t)rig->plan_nodes[k].count,
                                             .slots = (uint32_t)rig->plan_nodes[k].slots};
    const struct rt_assign assign = {
        .index = (uint16_t)i, .nodes = rig->settings.nodes, .node = nodes, .job = rig->job->tree};
    uint64_t memory;
    rig->status[i] = role.assign(&session, &assign, &memory, &rig->errors[i]);
    if (rig->status[i] == RT_OK)
        rig->status[i] = role.run(&session, &rig->errors[i]);
    rig->ended[i] = rt_endpoint_now(endpoint);
    role.end(&session);
}

static void be_master(struct rig *rig, struct rt_endpoint *endpoint, struct rt_link *next,
                      struct rt_link *previous) {
    const struct rt_pace pace = {.first = rig->settings.slowdown};
    const struct rt_ring_settings settings = {
        .job = rig->job,
        .plan = &rig->plan,
        .device = &rig->device,
        .endpoint = endpoint,
        .next = next,
        .previous = previous,
        .run = rig->run,
        .source = {.self = rig, .batch = give_batch, .inputs = give_inputs, .loss = take_loss},
        .pace = &pace,
        .timeout = rig->settings.timeout,
        .names = rig->settings.names,
        .stop = &rig->stop};
    struct rt_ring *ring;
    rig->status[0] = rt_ring_create(&settings, &ring, &rig->errors[0]);
    if (rig->status[0] != RT_OK)
        return;
    rig->program(rig->user, rig, ring);
    struct rt_ring_update update;
    while (rig->status[0] == RT_OK && !rt_ring_drain(ring))
        rig->status[0] = rt_ring_step(ring, &update, &rig->errors[0]);
    if (rig->status[0] == RT_OK)
        rig->status[0] = rt_ring_stop(ring, &rig->errors[0]);
    rig->ended[0] = rt_endpoint_now(endpoint);
    rig->lost = rt_ring_lost(ring, &rig->why);
    rt_ring_destroy(ring);
}

static void be_node(void *user, size_t i, struct rt_endpoint *endpoint) {
    struct rig *rig = user;
    struct rt_link *next = NULL, *previous = NULL;
    if (rig->settings.nodes > 1 && !rig_join(rig, i, endpoint, &next, &previous)) {
        rig->status[i] = rt_fail(&rig->errors[i], RT_FAILED, "endpoint %zu was not joined", i);
        return;
    }
    if (i == rig->settings.frozen)
        rt_memnet_freeze(endpoint, rig->settings.freezes, rig->settings.thaws);
    if (i == rig->settings.frozen)
        rt_memnet_freeze_again(endpoint, rig->settings.again);
    if (i == rig->settings.frozen && rig->settings.pretends)
        rt_memnet_pretend(endpoint, rig->settings.freezes, rig->settings.note);
    rt_clock_follow(NULL); /* what computing takes is looked at: it is to be real */
    if (rig->settings.behave && i == rig->settings.other)
        rig->settings.behave(rig->user, endpoint, next, previous);
    else if (i == 0)
        be_master(rig, endpoint, next, previous);
    else
        be_worker(rig, i, endpoint, next, previous);
}

rt_status rig_run(struct rig *rig, void (*program)(void *user, struct rig *rig, struct rt_ring *ring),
                  void *user, struct rt_error *err) {
    rig->program = program;
    rig->user = user;
    const double limit = rig->settings.limit > 0 ? rig->settings.limit : 3600;
    return rt_memnet_run(rig->net, be_node, rig, limit, err);
}

bool rig_steps(struct rig *rig, struct rt_ring *ring, size_t updates) {
    struct rt_ring_update update;
    for (size_t i = 0; rig->status[0] == RT_OK && i < updates; i++)
        rig->status[0] = rt_ring_step(ring, &update, &rig->errors[0]);
    return rig->status[0] == RT_OK;
}

/* ---- words --------------------------------------------------------------------------------------------- */

size_t rig_floats(const struct rig *rig) {
    const struct rt_model *model = rig->tiny.network.model;
    return model->buffer_count + model->param_count * (1 + rig->tiny.optim->type->state_tensors);
}

rt_status rig_write(void *words, size_t word, size_t count, const float *floats, struct rt_error *err) {
    (void)word, (void)err;
    struct rig_words *to = words;
    memcpy(to->floats + to->count, floats, count * sizeof *floats);
    to->count += count;
    return RT_OK;
}

rt_status rig_read(void *words, size_t word, size_t count, float *floats, struct rt_error *err) {
    (void)word, (void)err;
    struct rig_words *from = words;
    memcpy(floats, from->floats + from->count, count * sizeof *floats);
    from->count += count;
    return RT_OK;
}

struct visit {
    const struct rt_blocks *blocks;
    float *to;
};

static rt_status copy_tensor(void *user, const char *name, const struct rt_shape *shape, size_t offset,
                             bool is_buffer, struct rt_error *err) {
    (void)name, (void)err;
    struct visit *visit = user;
    const size_t count = rt_shape_size(shape);
    memcpy(visit->to, (is_buffer ? visit->blocks->buffers : visit->blocks->params) + offset,
           count * sizeof(float));
    visit->to += count;
    return RT_OK;
}

void rig_single(const struct rig *rig, float *floats) {
    const struct rt_network *network = &rig->tiny.network;
    struct visit visit = {&network->blocks, floats};
    struct rt_error err;
    rt_model_visit(network->model, copy_tensor, &visit, &err);
    memcpy(visit.to, rt_trainer_state(rig->tiny.trainer),
           network->model->param_count * rig->tiny.optim->type->state_tensors * sizeof(float));
}

rt_status rig_gather(struct rig *rig, struct rt_ring *ring, float *floats, struct rt_error *err) {
    struct rig_words words = {floats, 0};
    rt_status status = rt_ring_snapshot(ring, err);
    if (status == RT_OK)
        status =
            rt_ring_collect_begin(ring, 0, 1 + rig->tiny.optim->type->state_tensors, rig_write, &words, err);
    if (status == RT_OK)
        status = rt_ring_collect_finish(ring, err);
    if (status == RT_OK && words.count != rig_floats(rig))
        status = rt_fail(err, RT_FAILED, "%zu floats instead of %zu", words.count, rig_floats(rig));
    return status;
}
