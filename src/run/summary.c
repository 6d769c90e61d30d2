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

static json_t *summary_real(double value) {
    return isfinite(value) ? json_real(value) : json_null();
}

static json_t *summary_integer(uint64_t value) {
    return json_integer((json_int_t)value);
}

/* Sets a key; a value or a map that could not be made shows at the end, when the text is missing a key. */
static void summary_put(json_t *map, const char *key, json_t *value, bool *ok) {
    *ok = json_object_set_new(map, key, value) == 0 && *ok;
}

/* Bytes by link and by what they were. */
static json_t *summary_traffic_of(uint64_t counts[RT_METRIC_LINKS][RT_METRIC_KINDS],
                                  const struct rt_strategy_choice *choice, bool *ok) {
    const struct rt_strategy *strategy = choice->strategy;
    const bool served = strategy->rings && rt_exchange_rules(strategy->exchange, choice->settings);
    static const struct link_names {
        const char *name, *kinds[RT_METRIC_KINDS];
    } ring[] = {{"next", {"control", "gradients", "activations", "bulk", "replica", "probe"}},
                {"previous", {"control", "gradients", "activations", "bulk", "replica", "probe"}},
                {"across", {"control", "examples", "gradients", "bulk", "replica", "probe"}},
                {"across", {"control", "parameters", "gradients", "bulk", "replica", "probe"}}},
      exchange[] = {{"master", {"control", "parameters", "gradients", "bulk", "replica", "probe"}},
                    {"others", {"control", "parameters", "gradients", "bulk", "replica", "probe"}}};
    const struct link_names *links = strategy->exchange && !strategy->rings ? exchange : ring;
    json_t *map = json_object();
    for (int i = 0; i < (strategy->rings ? 3 : 2); i++) {
        const struct link_names *names = &links[i == 2 && served ? 3 : i];
        json_t *link = json_object();
        for (int k = 0; k < RT_METRIC_KINDS; k++)
            summary_put(link, names->kinds[k], summary_integer(counts[i][k]), ok);
        summary_put(map, names->name, link, ok);
    }
    return map;
}

/* What the servers made of the gradients: how old they were, by count. */
static void summary_put_exchange(json_t *map, const struct rt_training *training, bool *ok) {
    const struct rt_exchange_counts *counts = rt_run_exchange(training->run);
    if (!counts)
        return;
    json_t *bins = json_array();
    for (size_t i = 0; i < counts->bins; i++)
        *ok = json_array_append_new(bins, summary_integer(counts->staleness[i])) == 0 && *ok;
    summary_put(map, "staleness", bins, ok);
    summary_put(map, "staleness_mean", summary_real(counts->mean), ok);
    summary_put(map, "staleness_max", summary_integer(counts->most), ok);
    summary_put(map, "version_spread_max", summary_integer(counts->spread), ok);
    summary_put(map, "gradients_dropped", summary_integer(counts->dropped), ok);
    summary_put(map, "gradients_forced", summary_integer(counts->forced), ok);
    summary_put(map, "gradients_held", summary_integer(counts->held), ok);
}

static json_t *summary_node_of(const struct rt_training *training, size_t index, bool *ok) {
    struct rt_node_report report = training->reports[index];
    struct rt_metrics_row *row = &report.row;
    struct rt_states states = {0};
    for (int i = 0; i < RT_STATES; i++)
        states.seconds[i] = row->state[i];
    const double total = row->seconds;
    const double busy = rt_states_busy(&states), idle = rt_states_idle(&states);
    json_t *node = json_object(), *seconds = json_object();
    for (int i = 0; i < RT_STATES; i++)
        summary_put(seconds, rt_state_name((enum rt_state)i), summary_real(states.seconds[i]), ok);
    summary_put(node, "node", summary_integer(index), ok);
    summary_put(node, "role", json_string(report.role), ok);
    summary_put(node, "name", json_string(report.name), ok);
    summary_put(node, "address",
                report.address && *report.address ? json_string(report.address) : json_null(), ok);
    summary_put(node, "layers",
                report.count ? json_pack("[I, I]", (json_int_t)report.first,
                                         (json_int_t)(report.first + report.count) - 1)
                             : json_array(),
                ok);
    if (report.tail)
        summary_put(node, "tail_layers", summary_integer(report.tail), ok);
    summary_put(node, "seconds", summary_real(total), ok);
    summary_put(node, "validation_s", summary_real(row->validation), ok);
    summary_put(node, "busy_s", summary_real(busy), ok);
    summary_put(node, "idle_s", summary_real(idle), ok);
    summary_put(node, "idle_fraction", total > 0 ? summary_real(idle / total) : json_null(), ok);
    summary_put(node, "predicted_idle_fraction", summary_real(report.predicted_idle), ok);
    summary_put(node, "states", seconds, ok);
    summary_put(node, "bytes_sent", summary_integer(rt_traffic_sum(row->sent)), ok);
    summary_put(node, "bytes_received", summary_integer(rt_traffic_sum(row->received)), ok);
    if (training->learner.nodes > 1) {
        summary_put(node, "sent", summary_traffic_of(row->sent, &training->choice, ok), ok);
        summary_put(node, "received", summary_traffic_of(row->received, &training->choice, ok), ok);
    }
    if (training->learner.nodes > 1 && !training->choice.strategy->exchange) {
        summary_put(node, "staleness_mean",
                    row->samples
                        ? summary_real(row->staleness_sum / (double)(row->updates - training->view_update))
                        : json_null(),
                    ok);
        summary_put(node, "staleness_max", summary_integer(row->staleness_max), ok);
    }
    summary_put(node, "cpu_s", summary_real(row->cpu_seconds), ok);
    summary_put(node, "peak_rss_bytes", summary_integer(row->peak_memory), ok);
    summary_put(node, "predicted_bytes",
                report.predicted_memory ? summary_integer(report.predicted_memory) : json_null(), ok);
    summary_put(node, "energy_j", json_null(), ok);
    summary_put(node, "energy_source", json_string("none"), ok);
    summary_put(node, "energy_note", json_string("not measured"), ok);
    return node;
}

/* The validation of the model that was kept, not of the last one; no numbers where it was never validated. */
static void summary_model_validation(const struct rt_training *training, double *loss, double *accuracy) {
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

static json_t *summary_recovery_of(const struct rt_recovery *recovery, bool *ok) {
    json_t *map = json_object();
    summary_put(map, "cause", json_string(recovery->cause), ok);
    summary_put(map, "seconds", summary_real(recovery->seconds), ok);
    summary_put(map, "new_update_seconds", summary_real(recovery->new_seconds), ok);
    summary_put(map, "nodes", summary_integer(recovery->nodes), ok);
    summary_put(map, "from", json_string(recovery->from), ok);
    summary_put(map, "update", summary_integer(recovery->update), ok);
    summary_put(map, "replayed_updates", summary_integer(recovery->replayed), ok);
    summary_put(map, "rows_lost", summary_integer(recovery->rows_lost), ok);
    summary_put(map, "bytes", summary_integer(recovery->bytes), ok);
    return map;
}

/* Those that a loss has caused, or the other changes of the view. */
static json_t *summary_views(const struct rt_training *training, bool lost, bool *ok) {
    json_t *list = json_array();
    for (size_t i = 0; i < training->recoveries.count; i++) {
        const struct rt_recovery *recovery = &training->recoveries.recovery[i];
        if (recovery->lost == lost)
            *ok = json_array_append_new(list, summary_recovery_of(recovery, ok)) == 0 && *ok;
    }
    return list;
}

static void summary_put_recoveries(json_t *map, const struct rt_training *training, bool *ok) {
    uint64_t replayed = 0, bytes = 0;
    double seconds = 0;
    for (size_t i = 0; i < training->recoveries.count; i++) {
        const struct rt_recovery *recovery = &training->recoveries.recovery[i];
        replayed += recovery->replayed;
        bytes += recovery->bytes;
        seconds += recovery->seconds;
    }
    summary_put(map, "recoveries", summary_integer(training->recoveries.losses), ok);
    summary_put(map, "recovery_seconds", summary_real(seconds), ok);
    summary_put(map, "replayed_updates", summary_integer(replayed), ok);
    summary_put(map, "recovery_bytes", summary_integer(bytes), ok);
    summary_put(map, "recovery_events", summary_views(training, true, ok), ok);
    summary_put(map, "view_changes", summary_views(training, false, ok), ok);
}

static json_t *summary_resilience(const struct rt_training *training, bool *ok) {
    json_t *map = json_object();
    summary_put(map, "replicas", summary_integer(training->cost.replicas), ok);
    summary_put(map, "replica_seconds", summary_real(training->cost.replica_seconds), ok);
    summary_put(map, "replica_bytes", summary_integer(training->cost.replica_bytes), ok);
    summary_put(map, "checkpoints", summary_integer(training->cost.checkpoints), ok);
    summary_put(map, "checkpoint_seconds", summary_real(training->cost.checkpoint_seconds), ok);
    summary_put(map, "checkpoint_bytes", summary_integer(training->cost.checkpoint_bytes), ok);
    return map;
}

static json_t *summary_of(const struct rt_training *training, bool *ok) {
    static const char *const math[] = {"exact", "fast", "reference"};
    const struct rt_spec *spec = training->spec;
    const struct rt_result *result = &training->run->result;
    const struct rt_run_facts *facts = &training->run->facts;
    json_t *map = json_object(), *nodes = json_array();
    double validation_loss, validation_accuracy;
    summary_model_validation(training, &validation_loss, &validation_accuracy);
    summary_put(map, "name", json_string(facts->name), ok);
    summary_put(map, "strategy", json_string(training->choice.strategy->name), ok);
    char *options = rt_strategy_text(&training->choice, rt_spec_devices(spec));
    summary_put(map, "strategy_options", json_string(options), ok);
    free(options);
    const struct rt_system *system = training->choice.system;
    if (system) {
        summary_put(map, "system", json_string(system->name), ok);
        summary_put(map, "system_without", system->without ? json_string(system->without) : json_null(), ok);
    }
    summary_put(map, "nodes", summary_integer(training->learner.nodes), ok);
    summary_put(map, "nodes_offered", summary_integer(facts->nodes_offered), ok);
    summary_put(map, "seed", json_integer(spec->train.seed), ok);
    summary_put(map, "math", json_string(math[spec->train.math]), ok);
    summary_put(map, "kernels", json_string(facts->kernels), ok);
    summary_put(map, "threads", summary_integer(facts->threads), ok);
    summary_put(map, "batch", summary_integer(facts->batch), ok);
    summary_put(map, "micro_batch", summary_integer(facts->micro_batch), ok);
    summary_put(map, "updates", summary_integer(result->updates), ok);
    summary_put(map, "samples", summary_integer(result->samples), ok);
    summary_put(map, "seconds", summary_real(result->seconds), ok);
    summary_put(map, "setup_seconds", summary_real(training->state.setup_seconds), ok);
    summary_put(map, "validation_seconds", summary_real(training->state.validation_seconds), ok);
    summary_put(map, "wall_seconds", summary_real(training->state.seconds), ok);
    summary_put(map, "samples_per_s", summary_real(result->samples_per_s), ok);
    summary_put(map, "predicted_samples_per_s", summary_real(training->learner.predicted_samples_per_s), ok);
    if (training->learner.progressive) {
        const struct rt_progressive *progressive = training->learner.progressive;
        const struct rt_stream_counters counters = rt_stream_counters(training->learner.stream);
        summary_put(map, "progressive_loss", summary_real(progressive->sum / (double)progressive->examples),
                    ok);
        summary_put(map, "progressive_loss_faded", summary_real(progressive->faded / progressive->weight),
                    ok);
        summary_put(map, "stream_read", summary_integer(counters.read), ok);
        summary_put(map, "stream_dropped", summary_integer(counters.dropped), ok);
        summary_put(map, "rows_lost",
                    summary_integer(training->recoveries.rows_lost + training->rows_not_saved), ok);
    }
    summary_put_exchange(map, training, ok);
    summary_put(map, "first_step_s", summary_real(training->first_step), ok);
    summary_put(map, "train_loss", summary_real(result->train_loss), ok);
    summary_put(map, "validation_loss", summary_real(validation_loss), ok);
    summary_put(map, "validation_accuracy", summary_real(validation_accuracy), ok);
    summary_put(map, "test_loss", summary_real(result->test_loss), ok);
    summary_put(map, "test_accuracy", summary_real(result->test_accuracy), ok);
    summary_put(map, "model_update", summary_integer(training->run->trained.update), ok);
    summary_put(map, "params", summary_integer(result->params), ok);
    summary_put(map, "params_sha256", json_string(result->params_sha256), ok);
    uint64_t bytes = 0;
    for (size_t i = 0; i < training->learner.nodes; i++)
        bytes += rt_traffic_sum(training->reports[i].row.sent);
    summary_put(map, "bytes_sent", summary_integer(bytes), ok);
    summary_put_recoveries(map, training, ok);
    summary_put(map, "resilience", summary_resilience(training, ok), ok);
    summary_put(map, "version", json_string(RT_VERSION), ok);
    for (size_t i = 0; i < training->learner.nodes; i++)
        *ok = json_array_append_new(nodes, summary_node_of(training, i, ok)) == 0 && *ok;
    summary_put(map, "per_node", nodes, ok);
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
