/* summary.json: the result of a run, and what the device did with its time. */
#include "base/clock.h"
#include "base/file.h"
#include "train/drive.h"
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

static json_t *real(double value) {
    return isfinite(value) ? json_real(value) : json_null();
}

static json_t *integer(uint64_t value) {
    return json_integer((json_int_t)value);
}

/* Sets a key; a value or a map that could not be made shows at the end, when the text is missing a key. */
static void put(json_t *map, const char *key, json_t *value, bool *ok) {
    *ok = json_object_set_new(map, key, value) == 0 && *ok;
}

/* The updates were clocked as one state, because a thread's CPU clock is too dear to read several times per
 * update; here their time is shared out as the trainer's own wall clock saw it. */
static struct rt_states shared_out(const struct rt_drive *drive) {
    struct rt_states states = drive->states;
    const double *parts = rt_trainer_seconds(drive->trainer), all = states.seconds[RT_STATE_BACKWARD];
    double sum = 0;
    for (int i = 0; i < RT_STATES; i++)
        sum += parts[i];
    if (sum <= 0)
        return states;
    for (int i = 0; i < RT_STATES; i++) {
        double share = all * parts[i] / sum;
        states.seconds[i] = i == RT_STATE_BACKWARD ? share : states.seconds[i] + share;
    }
    return states;
}

static json_t *node_of(const struct rt_drive *drive, bool *ok) {
    const struct rt_states states = shared_out(drive);
    const double busy = rt_states_busy(&states), idle = rt_states_idle(&states),
                 total = rt_states_total(&states);
    const size_t layers = drive->run->trained.network.model->count;
    struct rusage usage = {0};
    getrusage(RUSAGE_SELF, &usage);
    json_t *node = json_object(), *seconds = json_object();
    for (int i = 0; i < RT_STATES; i++)
        put(seconds, rt_state_name((enum rt_state)i), real(states.seconds[i]), ok);
    put(node, "node", json_integer(0), ok);
    put(node, "role", json_string("single"), ok);
    put(node, "layers", json_pack("[I, I]", (json_int_t)0, (json_int_t)layers - 1), ok);
    put(node, "seconds", real(total), ok);
    put(node, "busy_s", real(busy), ok);
    put(node, "idle_s", real(idle), ok);
    put(node, "idle_fraction", total > 0 ? real(idle / total) : json_null(), ok);
    put(node, "states", seconds, ok);
    put(node, "bytes_sent", json_integer(0), ok);
    put(node, "bytes_received", json_integer(0), ok);
    put(node, "cpu_s", real(rt_clock_process() - drive->cpu_start), ok);
    put(node, "peak_rss_bytes", integer((uint64_t)usage.ru_maxrss * 1024), ok);
    put(node, "energy_j", json_null(), ok);
    put(node, "energy_source", json_string("none"), ok);
    put(node, "energy_note", json_string("not measured"), ok);
    return node;
}

/* The validation of the model that was kept, not of the last one; no numbers where it was never validated. */
static void model_validation(const struct rt_drive *drive, double *loss, double *accuracy) {
    const uint64_t update = drive->run->trained.update;
    *loss = *accuracy = (double)NAN;
    if (drive->materials.validation.count == 0)
        return;
    if (update == drive->standing.best_update) {
        *loss = drive->standing.best_loss;
        *accuracy = drive->standing.best_accuracy;
    } else if (update == drive->validation_update) {
        *loss = drive->validation_loss;
        *accuracy = drive->validation_accuracy;
    }
}

static json_t *summary_of(const struct rt_drive *drive, bool *ok) {
    static const char *const math[] = {"exact", "fast", "reference"};
    const struct rt_spec *spec = drive->spec;
    const struct rt_result *result = &drive->run->result;
    const struct rt_run_facts *facts = &drive->run->facts;
    json_t *map = json_object(), *nodes = json_array();
    double validation_loss, validation_accuracy;
    model_validation(drive, &validation_loss, &validation_accuracy);
    put(map, "name", json_string(facts->name), ok);
    put(map, "strategy", json_string(spec->cluster.strategy), ok);
    put(map, "nodes", json_integer(1), ok);
    put(map, "seed", json_integer(spec->train.seed), ok);
    put(map, "math", json_string(math[spec->train.math]), ok);
    put(map, "kernels", json_string(facts->kernels), ok);
    put(map, "threads", integer(facts->threads), ok);
    put(map, "batch", integer(facts->batch), ok);
    put(map, "micro_batch", integer(facts->micro_batch), ok);
    put(map, "updates", integer(result->updates), ok);
    put(map, "samples", integer(result->samples), ok);
    put(map, "seconds", real(result->seconds), ok);
    put(map, "samples_per_s", real(result->samples_per_s), ok);
    put(map, "first_step_s", real(drive->first_step), ok);
    put(map, "train_loss", real(result->train_loss), ok);
    put(map, "validation_loss", real(validation_loss), ok);
    put(map, "validation_accuracy", real(validation_accuracy), ok);
    put(map, "test_loss", real(result->test_loss), ok);
    put(map, "test_accuracy", real(result->test_accuracy), ok);
    put(map, "model_update", integer(drive->run->trained.update), ok);
    put(map, "params", integer(result->params), ok);
    put(map, "params_sha256", json_string(result->params_sha256), ok);
    put(map, "bytes_sent", json_integer(0), ok);
    put(map, "recoveries", json_integer(0), ok);
    put(map, "version", json_string(RT_VERSION), ok);
    *ok = json_array_append_new(nodes, node_of(drive, ok)) == 0 && *ok;
    put(map, "per_node", nodes, ok);
    return map;
}

rt_status rt_summary_write(const struct rt_drive *drive, const char *path, struct rt_error *err) {
    bool ok = true;
    json_t *map = summary_of(drive, &ok);
    char *text = ok ? json_dumps(map, JSON_INDENT(2) | JSON_REAL_PRECISION(17)) : NULL;
    json_decref(map);
    if (!text)
        return rt_fail(err, RT_NO_MEMORY, "%s: not enough memory to write it, or the run's name is not UTF-8",
                       path);
    struct rt_writer writer;
    rt_status status = rt_writer_open(path, &writer, err);
    if (status == RT_OK) {
        rt_writer_write(&writer, text, strlen(text));
        rt_writer_write(&writer, "\n", 1);
        status = rt_writer_commit(&writer, err);
    }
    free(text);
    return status;
}
