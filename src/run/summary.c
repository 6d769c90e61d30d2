/* summary.json: the result of a run, and what the device did with its time. */
#include "base/file.h"
#include "cluster/traffic.h"
#include "exchange/strategy.h"
#include "run/ring/input_pipeline.h"
#include "run/training.h"
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

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

/* Bytes by link and by what they were. */
static json_t *traffic_of(uint64_t counts[RT_METRIC_LINKS][RT_METRIC_KINDS],
                          const struct rt_strategy_choice *choice, bool *ok) {
    const struct rt_strategy *strategy = choice->strategy;
    const bool served = strategy->rings && rt_exchange_rules(strategy->exchange, choice->settings);
    static const struct link_names {
        const char *name, *kinds[RT_METRIC_KINDS];
    } ring[] = {{"next", {"control", "gradients", "activations", "bulk", "probe"}},
                {"previous", {"control", "gradients", "activations", "bulk", "probe"}},
                {"across", {"control", "examples", "gradients", "bulk", "probe"}},
                {"across", {"control", "parameters", "gradients", "bulk", "probe"}}},
      exchange[] = {{"master", {"control", "parameters", "gradients", "bulk", "probe"}},
                    {"others", {"control", "parameters", "gradients", "bulk", "probe"}}};
    const struct link_names *links = strategy->exchange && !strategy->rings ? exchange : ring;
    json_t *map = json_object();
    for (int i = 0; i < (strategy->rings ? 3 : 2); i++) {
        const struct link_names *names = &links[i == 2 && served ? 3 : i];
        json_t *link = json_object();
        for (int k = 0; k < RT_METRIC_KINDS; k++)
            put(link, names->kinds[k], integer(counts[i][k]), ok);
        put(map, names->name, link, ok);
    }
    return map;
}

/* What the servers made of the gradients: how old they were, by count. */
static void put_exchange(json_t *map, const struct rt_training *training, bool *ok) {
    const struct rt_exchange_counts *counts = rt_run_exchange(training->run);
    if (!counts)
        return;
    json_t *bins = json_array();
    for (size_t i = 0; i < counts->bins; i++)
        *ok = json_array_append_new(bins, integer(counts->staleness[i])) == 0 && *ok;
    put(map, "staleness", bins, ok);
    put(map, "staleness_mean", real(counts->mean), ok);
    put(map, "staleness_max", integer(counts->most), ok);
    put(map, "version_spread_max", integer(counts->spread), ok);
    put(map, "gradients_dropped", integer(counts->dropped), ok);
    put(map, "gradients_forced", integer(counts->forced), ok);
    put(map, "gradients_held", integer(counts->held), ok);
}

static json_t *node_of(const struct rt_training *training, size_t index, bool *ok) {
    struct rt_node_report report = training->reports[index];
    struct rt_metrics_row *row = &report.row;
    struct rt_states states = {0};
    for (int i = 0; i < RT_STATES; i++)
        states.seconds[i] = row->state[i];
    const double total = row->seconds;
    const double busy = rt_states_busy(&states), idle = rt_states_idle(&states);
    json_t *node = json_object(), *seconds = json_object();
    for (int i = 0; i < RT_STATES; i++)
        put(seconds, rt_state_name((enum rt_state)i), real(states.seconds[i]), ok);
    put(node, "node", integer(index), ok);
    put(node, "role", json_string(report.role), ok);
    put(node, "name", json_string(report.name), ok);
    put(node, "address", report.address && *report.address ? json_string(report.address) : json_null(), ok);
    put(node, "layers",
        report.count
            ? json_pack("[I, I]", (json_int_t)report.first, (json_int_t)(report.first + report.count) - 1)
            : json_array(),
        ok);
    if (report.tail)
        put(node, "tail_layers", integer(report.tail), ok);
    put(node, "seconds", real(total), ok);
    put(node, "validation_s", real(row->validation), ok);
    put(node, "busy_s", real(busy), ok);
    put(node, "idle_s", real(idle), ok);
    put(node, "idle_fraction", total > 0 ? real(idle / total) : json_null(), ok);
    put(node, "predicted_idle_fraction", real(report.predicted_idle), ok);
    put(node, "states", seconds, ok);
    put(node, "bytes_sent", integer(rt_traffic_sum(row->sent)), ok);
    put(node, "bytes_received", integer(rt_traffic_sum(row->received)), ok);
    if (training->learner.nodes > 1) {
        put(node, "sent", traffic_of(row->sent, &training->choice, ok), ok);
        put(node, "received", traffic_of(row->received, &training->choice, ok), ok);
    }
    if (training->learner.nodes > 1 && !training->choice.strategy->exchange) {
        put(node, "staleness_mean",
            row->samples ? real(row->staleness_sum / (double)(row->updates - training->first_update))
                         : json_null(),
            ok);
        put(node, "staleness_max", integer(row->staleness_max), ok);
    }
    put(node, "cpu_s", real(row->cpu_seconds), ok);
    put(node, "peak_rss_bytes", integer(row->peak_memory), ok);
    put(node, "predicted_bytes", report.predicted_memory ? integer(report.predicted_memory) : json_null(),
        ok);
    put(node, "energy_j", json_null(), ok);
    put(node, "energy_source", json_string("none"), ok);
    put(node, "energy_note", json_string("not measured"), ok);
    return node;
}

/* The validation of the model that was kept, not of the last one; no numbers where it was never validated. */
static void model_validation(const struct rt_training *training, double *loss, double *accuracy) {
    const uint64_t update = training->run->trained.update;
    *loss = *accuracy = (double)NAN;
    if (training->datasets.validation.count == 0)
        return;
    if (update == training->state.best_update) {
        *loss = training->state.best_loss;
        *accuracy = training->state.best_accuracy;
    } else if (update == training->validation_update) {
        *loss = training->validation_loss;
        *accuracy = training->validation_accuracy;
    }
}

static json_t *summary_of(const struct rt_training *training, bool *ok) {
    static const char *const math[] = {"exact", "fast", "reference"};
    const struct rt_spec *spec = training->spec;
    const struct rt_result *result = &training->run->result;
    const struct rt_run_facts *facts = &training->run->facts;
    json_t *map = json_object(), *nodes = json_array();
    double validation_loss, validation_accuracy;
    model_validation(training, &validation_loss, &validation_accuracy);
    put(map, "name", json_string(facts->name), ok);
    put(map, "strategy", json_string(training->choice.strategy->name), ok);
    char *options = rt_strategy_text(&training->choice, rt_spec_devices(spec));
    put(map, "strategy_options", json_string(options), ok);
    free(options);
    const struct rt_system *system = training->choice.system;
    if (system) {
        put(map, "system", json_string(system->name), ok);
        put(map, "system_without", system->without ? json_string(system->without) : json_null(), ok);
    }
    put(map, "nodes", integer(training->learner.nodes), ok);
    put(map, "nodes_offered", integer(facts->nodes_offered), ok);
    put(map, "seed", json_integer(spec->train.seed), ok);
    put(map, "math", json_string(math[spec->train.math]), ok);
    put(map, "kernels", json_string(facts->kernels), ok);
    put(map, "threads", integer(facts->threads), ok);
    put(map, "batch", integer(facts->batch), ok);
    put(map, "micro_batch", integer(facts->micro_batch), ok);
    put(map, "updates", integer(result->updates), ok);
    put(map, "samples", integer(result->samples), ok);
    put(map, "seconds", real(result->seconds), ok);
    put(map, "setup_seconds", real(training->state.setup_seconds), ok);
    put(map, "validation_seconds", real(training->state.validation_seconds), ok);
    put(map, "wall_seconds", real(training->state.seconds), ok);
    put(map, "samples_per_s", real(result->samples_per_s), ok);
    put(map, "predicted_samples_per_s", real(training->learner.predicted_samples_per_s), ok);
    if (training->learner.progressive) {
        const struct rt_progressive *progressive = training->learner.progressive;
        const struct rt_stream_counters counters = rt_stream_counters(training->learner.stream);
        put(map, "progressive_loss", real(progressive->sum / (double)progressive->examples), ok);
        put(map, "progressive_loss_faded", real(progressive->faded / progressive->weight), ok);
        put(map, "stream_read", integer(counters.read), ok);
        put(map, "stream_dropped", integer(counters.dropped), ok);
    }
    put_exchange(map, training, ok);
    put(map, "first_step_s", real(training->first_step), ok);
    put(map, "train_loss", real(result->train_loss), ok);
    put(map, "validation_loss", real(validation_loss), ok);
    put(map, "validation_accuracy", real(validation_accuracy), ok);
    put(map, "test_loss", real(result->test_loss), ok);
    put(map, "test_accuracy", real(result->test_accuracy), ok);
    put(map, "model_update", integer(training->run->trained.update), ok);
    put(map, "params", integer(result->params), ok);
    put(map, "params_sha256", json_string(result->params_sha256), ok);
    uint64_t bytes = 0;
    for (size_t i = 0; i < training->learner.nodes; i++)
        bytes += rt_traffic_sum(training->reports[i].row.sent);
    put(map, "bytes_sent", integer(bytes), ok);
    put(map, "recoveries", json_integer(0), ok);
    put(map, "version", json_string(RT_VERSION), ok);
    for (size_t i = 0; i < training->learner.nodes; i++)
        *ok = json_array_append_new(nodes, node_of(training, i, ok)) == 0 && *ok;
    put(map, "per_node", nodes, ok);
    return map;
}

rt_status rt_summary_write(const struct rt_training *training, const char *path, struct rt_error *err) {
    bool ok = true;
    json_t *map = summary_of(training, &ok);
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
