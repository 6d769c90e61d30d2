/* Any text as a job. What is accepted must be usable, and can be written and read again. Of a ring: its
 * batches are cut completely, and where the stage is small enough to be made it computes an update. Of an
 * exchange: every rank knows its part, and schedules are made or refused. Of several rings: every node has a
 * place, and the job of its ring is of its own part. */
#include "exchange/server/server.h"
#include "formats/yaml.h"
#include "learn/stage.h"
#include "run/hybrid/position.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

enum { MOST_BYTES = 32 << 20, MOST_ROWS = 64, MOST_RANKS = 6, MOST_NODES = 12, PARAMS = 500 };

/* ---- a ring ---- */

/* The parts of a batch follow one another from its first row to its last; where rings share it, from the
 * first of the ring's own rows to the last of those. */
static void check_parts(const struct rt_job *job, size_t rows) {
    const size_t rings = (size_t)job->ring.parts, ring = (size_t)job->ring.part;
    const size_t begin = ring * rows / rings, end = (ring + 1) * rows / rings;
    const size_t count = rt_job_micros(job, rows);
    size_t next = begin;
    for (size_t i = 0; i < count; i++) {
        const struct rt_micro part = rt_job_micro(job, rows, i);
        if (part.first != next || (part.rows == 0 && begin < end) || part.rows > rt_job_micro_rows(job))
            abort();
        next += part.rows;
    }
    if (next != end)
        abort();
}

static void update(struct rt_stage *stage) {
    const struct rt_job *job = stage->job;
    const size_t rows = (size_t)job->batch, count = rt_job_micros(job, rows);
    struct rt_slot *slot = rt_stage_slot(stage, 0);
    for (size_t i = 0; i < count; i++) {
        slot->part = rt_job_micro(job, rows, i);
        slot->batch_rows = rows;
        slot->rows = slot->part.rows;
        rt_stage_forward(stage, slot, !job->evaluate_only);
        if (job->evaluate_only)
            continue;
        memset(slot->dy, 0, slot->rows * rt_shape_size(&stage->model->out) * sizeof(float));
        rt_stage_backward_input(stage, slot, NULL);
        rt_stage_backward_weights(stage, &slot, 1, i + 1 == count, NULL);
    }
    if (!job->evaluate_only)
        rt_stage_apply(stage, 1);
}

static void use(const struct rt_job *job, struct rt_device *device) {
    struct rt_error err;
    struct rt_model *model;
    uint32_t index = 0;
    if (rt_model_create(job->layers, &job->in, 0, SIZE_MAX, false, device->kernels, &index, &model, &err) !=
        RT_OK)
        return;
    const size_t taken = rt_stage_bytes(job, model, 1);
    rt_model_destroy(model);
    struct rt_stage *stage;
    if (taken > MOST_BYTES || job->batch > MOST_ROWS)
        return;
    if (rt_stage_create(job, device, 0, SIZE_MAX, 1, &stage, &err) != RT_OK)
        abort();
    if (stage->model->flops_forward < 1e6)
        update(stage);
    rt_stage_destroy(stage);
}

static void check_ring(const struct rt_job *job) {
    struct rt_error err;
    struct rt_device device;
    if (job->batch <= MOST_ROWS)
        for (size_t rows = 1; rows <= (size_t)job->batch; rows++)
            check_parts(job, rows);
    if (rt_device_open(RT_MATH_EXACT, "portable", 1, &device, &err) == RT_OK) {
        use(job, &device);
        rt_device_close(&device);
    }
}

/* ---- an exchange ---- */

static void check_rank(const struct rt_exchange_section *section, const struct rt_roles *roles,
                       uint16_t rank) {
    static struct rt_span owned[RT_MAX_OWNED];
    const struct rt_span spans[] = {{0, 300}, {300, 7}, {307, PARAMS - 307}};
    const struct rt_exchange_strategy *strategy = section->strategy;
    const size_t ranges =
        rt_exchange_owned(strategy, &section->options, roles, rank, spans, 3, PARAMS, owned);
    for (size_t i = 0; i < ranges; i++)
        if (owned[i].count == 0 || owned[i].first + owned[i].count > PARAMS)
            abort();
    if (rt_exchange_rules(strategy, &section->options))
        return;
    for (size_t i = 0; i < 3; i++) {
        struct rt_error err;
        struct rt_collective collective = {0};
        if (strategy->collective(&section->options, roles, rank, &spans[i], PARAMS, &section->cost,
                                 &collective, &err) == RT_OK)
            for (size_t k = 0; k < collective.count; k++)
                if (collective.list[k].count == 0 ||
                    collective.list[k].first + collective.list[k].count > spans[i].count)
                    abort();
        rt_collective_deinit(&collective);
    }
}

/* The parts of a batch that is shared follow one another from its first row to its last. */
static void check_shares(const struct rt_exchange_section *section, const struct rt_roles *roles,
                         const struct rt_job *job) {
    size_t next = 0;
    if (rt_exchange_is_asynchronous(section->strategy, &section->options))
        return;
    for (size_t i = 0; i < roles->workers; i++) {
        const struct rt_slice_part part = rt_exchange_part(section->strategy, &section->options, roles,
                                                           (size_t)job->shards, roles->worker[i]);
        size_t first;
        const size_t rows = rt_slices_rows(&part, (size_t)job->batch, &first);
        if (first != next || rows > rt_slices_most_rows(&part, (size_t)job->batch))
            abort();
        next += rows;
    }
    if (next != (size_t)job->batch)
        abort();
}

static void check_exchange(const struct rt_job *job) {
    struct rt_error err;
    struct rt_exchange_section section;
    uint16_t worker[MOST_RANKS];
    struct rt_roles roles;
    if (rt_exchange_section_read(job, &section, &err) != RT_OK)
        return;
    for (uint16_t nodes = 1; nodes <= MOST_RANKS; nodes++) {
        if (rt_exchange_roles(section.strategy, &section.options, nodes, worker, &roles, &err) != RT_OK)
            continue;
        if (roles.workers == job->exchange.workers &&
            rt_exchange_takes_slices(section.strategy, &section.options))
            roles.runs = job->exchange.runs;
        check_shares(&section, &roles, job);
        for (uint16_t rank = 0; rank < nodes; rank++)
            check_rank(&section, &roles, rank);
    }
}

/* ---- several rings ---- */

static void check_position(const struct rt_position *position, size_t nodes) {
    const struct rt_job_ring *ring = &position->ring_job->ring;
    const bool shares = rt_hybrid_shares(position->inter_ring.strategy, &position->inter_ring.options);
    if (position->rings < 1 || (size_t)position->rings * position->ring_size != nodes ||
        position->ring >= position->rings || position->ring_position >= position->ring_size ||
        position->ring * position->ring_size + position->ring_position != position->index)
        abort();
    if (position->ring_job->learner != RT_JOB_RING || ring->part != (shares ? position->ring : 0) ||
        ring->parts != (shares ? position->rings : 1) || ring->with_servers != position->with_servers)
        abort();
}

static void check_hybrid(const struct rt_job *job) {
    for (size_t nodes = 1; nodes <= MOST_NODES; nodes++) {
        struct rt_error err;
        struct rt_position *position;
        if (rt_position_create(job->tree, (uint16_t)(nodes - 1), nodes, &position, &err) != RT_OK)
            continue;
        check_position(position, nodes);
        rt_position_destroy(position);
    }
}

/* ---- any ---- */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    struct rt_error err;
    struct rt_tree *tree;
    struct rt_job *job, *again;
    if (rt_yaml_parse((const char *)data, bytes, "fuzz", &tree, &err) != RT_OK ||
        rt_job_create(tree, &job, &err) != RT_OK)
        return 0;
    if (rt_job_write(job, &again, &err) != RT_OK)
        abort();
    rt_job_destroy(again);
    if (job->learner == RT_JOB_RING)
        check_ring(job);
    else
        check_exchange(job);
    if (job->learner == RT_JOB_HYBRID)
        check_hybrid(job);
    rt_job_destroy(job);
    return 0;
}
