/* The public object: opening, settings, and everything short of training. */
#include "run/run_inside.h"

#include "base/clock.h"
#include "base/fpenv.h"
#include "base/memory.h"
#include "base/sentence.h"
#include "formats/yaml.h"
#include "run/membership.h"
#include "run/strategy.h"
#include <stdlib.h>
#include <string.h>

/* Classes that get their number for a name where the data have no names: not more, since a model file can
 * claim any number of them. */
enum { NUMBERED_CLASSES = 65536 };

/* Reading numbers rounds too. */
static rt_status run_draft(struct rt_run *run, char **settings, size_t count, struct rt_spec **spec,
                           struct rt_error *err) {
    fenv_t theirs;
    rt_fp_enter(&theirs);
    rt_status status = rt_spec_draft(run->tree, run->path, (const char *const *)settings, count, spec, err);
    rt_fp_leave(&theirs);
    return status;
}

rt_status rt_run_need(const char *function, const char *argument, const void *value, struct rt_error *err) {
    return value ? RT_OK : rt_fail(err, RT_BAD_INPUT, "%s: %s must not be NULL", function, argument);
}

static rt_status run_create(struct rt_run **run, struct rt_error *err) {
    rt_status status = rt_alloc(1, sizeof **run, "the run", run, err);
    if (status == RT_OK) {
        atomic_init(&(*run)->stop, 0);
        (*run)->terms = (struct rt_run_terms){.out = "rt_run_set_out", .resume = "rt_run_set_resume"};
        (*run)->process_start = rt_clock_wall();
    }
    return status;
}

rt_status rt_run_open(const char *path, struct rt_run **run, struct rt_error *err) {
    struct rt_run *made;
    rt_status status = rt_run_need(__func__, "path", path, err);
    if (status == RT_OK)
        status = rt_run_need(__func__, "run", run, err);
    if (status == RT_OK)
        status = run_create(&made, err);
    if (status != RT_OK)
        return status;
    made->path = strdup(path);
    if (!made->path)
        status = rt_fail(err, RT_NO_MEMORY, "%s: not enough memory to read it", path);
    else
        status = rt_yaml_load(made->path, &made->tree, err);
    if (status == RT_OK)
        status = run_draft(made, NULL, 0, &made->spec, err);
    if (status != RT_OK) {
        rt_run_close(made);
        return status;
    }
    *run = made;
    return RT_OK;
}

rt_status rt_run_load(const char *model_path, struct rt_run **run, struct rt_error *err) {
    const struct rt_computing computing = {.math = RT_MATH_EXACT, .kernels = "auto"};
    struct rt_run *made;
    rt_status status = rt_run_need(__func__, "model_path", model_path, err);
    if (status == RT_OK)
        status = rt_run_need(__func__, "run", run, err);
    if (status == RT_OK)
        status = run_create(&made, err);
    if (status != RT_OK)
        return status;
    fenv_t theirs;
    rt_fp_enter(&theirs);
    status = rt_modelfile_read(model_path, &computing, &made->trained, err);
    rt_fp_leave(&theirs);
    if (status == RT_OK)
        status = rt_run_label(made, err);
    if (status != RT_OK) {
        rt_run_close(made);
        return status;
    }
    *run = made;
    return RT_OK;
}

/* The cluster section of a run file, or of settings alone. */
static rt_status run_read_cluster(const char *run_path, const char *const *settings, size_t setting_count,
                                  struct rt_spec **spec, struct rt_error *err) {
    if (run_path)
        return rt_spec_load(run_path, settings, setting_count, spec, err);
    return rt_spec_parse("{}", 2, "the settings", settings, setting_count, spec, err);
}

static rt_status load_spread(const char *model_path, const struct rt_spec *spec, const char *program,
                             struct rt_run *run, struct rt_error *err) {
    const struct rt_computing computing = {
        .math = RT_MATH_EXACT, .kernels = "auto", .threads = rt_membership_threads(spec)};
    rt_status status = rt_modelfile_describe(model_path, &computing, &run->trained, err);
    if (status == RT_OK)
        status = rt_run_label(run, err);
    if (status == RT_OK)
        status = rt_spread_open(model_path, &run->trained, spec, program, &run->stop, &run->spread, err);
    return status;
}

rt_status rt_run_load_spread(const char *model_path, const char *run_path, const char *const *settings,
                             size_t setting_count, const char *program, struct rt_run **run,
                             struct rt_error *err) {
    struct rt_spec *spec;
    struct rt_run *made;
    rt_status status = run_read_cluster(run_path, settings, setting_count, &spec, err);
    if (status != RT_OK)
        return status;
    if (rt_spec_devices(spec) == 1) {
        status = rt_membership_check(spec, err);
        rt_spec_destroy(spec);
        return status == RT_OK ? rt_run_load(model_path, run, err) : status;
    }
    status = run_create(&made, err);
    if (status == RT_OK) {
        fenv_t theirs;
        rt_fp_enter(&theirs);
        status = load_spread(model_path, spec, program, made, err);
        rt_fp_leave(&theirs);
        if (status != RT_OK)
            rt_run_close(made);
        else
            *run = made;
    }
    rt_spec_destroy(spec);
    return status;
}

void rt_run_close(struct rt_run *run) {
    if (!run)
        return;
    rt_spread_close(run->spread);
    rt_trained_deinit(&run->trained);
    rt_names_deinit(&run->labels);
    rt_owned_evaluation_deinit(&run->test);
    rt_owned_evaluation_deinit(&run->evaluation);
    for (size_t i = 0; i < run->setting_count; i++)
        free(run->settings[i]);
    free(run->settings);
    rt_spec_destroy(run->spec);
    rt_tree_destroy(run->tree);
    free(run->path);
    free(run->out_dir);
    free(run->result_dir);
    free(run->program);
    free(run->plan);
    free(run->views);
    free(run->gone);
    free(run);
}

rt_status rt_run_set(struct rt_run *run, const char *key, const char *value, struct rt_error *err) {
    rt_status status = rt_run_need(__func__, "run", run, err);
    if (status == RT_OK)
        status = rt_run_need(__func__, "key", key, err);
    if (status == RT_OK)
        status = rt_run_need(__func__, "value", value, err);
    if (status != RT_OK)
        return status;
    if (strchr(key, '='))
        return rt_fail(err, RT_BAD_INPUT, "%s: '%s' is not a key", __func__, key);
    const size_t room = strlen(__func__) + strlen(key) + strlen(value) + 3;
    char *setting = malloc(room);
    if (!setting)
        return rt_fail(err, RT_NO_MEMORY, "not enough memory to set %s", key);
    snprintf(setting, room, "%s %s=%s", __func__, key, value);
    status = rt_run_set_as(run, setting, err);
    free(setting);
    return status;
}

rt_status rt_run_set_as(struct rt_run *run, const char *setting, struct rt_error *err) {
    if (!run->path)
        return rt_fail(err, RT_BAD_INPUT, "%s: a loaded model has no run file whose keys could be set",
                       setting);
    char *copy = strdup(setting);
    char **settings = realloc(run->settings, (run->setting_count + 1) * sizeof *settings);
    if (settings)
        run->settings = settings;
    if (!copy || !settings) {
        free(copy);
        return rt_fail(err, RT_NO_MEMORY, "not enough memory for a setting");
    }
    settings[run->setting_count] = copy;
    struct rt_spec *spec;
    rt_status status = run_draft(run, settings, run->setting_count + 1, &spec, err);
    if (status != RT_OK) {
        free(copy);
        return status;
    }
    run->setting_count++;
    rt_spec_destroy(run->spec);
    run->spec = spec;
    run->has_facts = false; /* they point into the old one */
    return RT_OK;
}

/* A word must be one of a list; the sentence has its place and the word that was probably meant. */
static rt_status run_check_word(const struct rt_spec *spec, const char *section, const char *key,
                                const char *word, const char *const *words, struct rt_error *err) {
    for (size_t i = 0; words[i]; i++)
        if (strcmp(words[i], word) == 0)
            return RT_OK;
    const struct rt_tree *place = rt_tree_get(rt_tree_get(spec->tree, section), key);
    const char *near = rt_nearest(word, words);
    if (near)
        return rt_tree_fail(place, err, "%s.%s: there is no '%.60s'; did you mean '%s'?", section, key, word,
                            near);
    return rt_tree_fail(place, err, "%s.%s: there is no '%.60s'; there are %s", section, key, word,
                        RT_LISTED(words));
}

rt_status rt_run_settle(const struct rt_run *run, struct rt_error *err) {
    static const char *const kernels[] = {"auto", "avx512", "avx2", "neon", "portable", NULL};
    const char *losses[RT_MAX_LOSSES + 1];
    rt_loss_names(losses);
    const struct rt_spec *spec = run->spec;
    rt_status status = rt_spec_check(spec, err);
    if (status == RT_OK)
        status = run_check_word(spec, "model", "loss", spec->model.loss, losses, err);
    if (status == RT_OK)
        status = run_check_word(spec, "train", "kernels", spec->train.kernels, kernels, err);
    struct rt_strategy_choice choice = {0};
    if (status == RT_OK)
        status = rt_strategy_read(spec, &choice, err);
    rt_strategy_choice_deinit(&choice);
    return status == RT_OK ? rt_membership_check(spec, err) : status;
}

rt_status rt_run_set_out(struct rt_run *run, const char *dir, struct rt_error *err) {
    rt_status status = rt_run_need(__func__, "run", run, err);
    if (status == RT_OK)
        status = rt_run_need(__func__, "dir", dir, err);
    if (status != RT_OK)
        return status;
    if (!*dir)
        return rt_fail(err, RT_BAD_INPUT, "the output directory needs a name");
    char *copy = strdup(dir);
    if (!copy)
        return rt_fail(err, RT_NO_MEMORY, "not enough memory to set the output directory");
    free(run->out_dir);
    run->out_dir = copy;
    run->out_given = true;
    return RT_OK;
}

void rt_run_set_resume(struct rt_run *run, int resume) {
    if (run)
        run->resume = resume != 0;
}

void rt_run_stop(struct rt_run *run) {
    if (run)
        atomic_store(&run->stop, 1);
}

const struct rt_result *rt_run_result(const struct rt_run *run) {
    return run && run->has_result ? &run->result : NULL;
}

size_t rt_run_input_size(const struct rt_run *run) {
    return run ? run->trained.network.inputs : 0;
}

size_t rt_run_output_size(const struct rt_run *run) {
    return run ? run->trained.network.outputs : 0;
}

const char *rt_run_class_name(const struct rt_run *run, size_t i) {
    return run && i < run->labels.count ? run->labels.items[i] : NULL;
}

/* ---- for the commands ---- */

void rt_run_set_warning(struct rt_run *run, rt_notice_fn warning, void *user) {
    run->warning = warning;
    run->warning_user = user;
}

void rt_run_set_notice(struct rt_run *run, rt_notice_fn notice, void *user) {
    run->notice = notice;
    run->notice_user = user;
}

void rt_run_set_terms(struct rt_run *run, const struct rt_run_terms *terms) {
    run->terms = *terms;
}

rt_status rt_run_set_program(struct rt_run *run, const char *path, struct rt_error *err) {
    char *copy = strdup(path);
    if (!copy)
        return rt_fail(err, RT_NO_MEMORY, "not enough memory to keep the name of the command");
    free(run->program);
    run->program = copy;
    return RT_OK;
}

void rt_run_set_endpoint(struct rt_run *run, struct rt_endpoint *endpoint) {
    run->endpoint = endpoint;
}

void rt_run_set_process_start(struct rt_run *run, double wall) {
    run->process_start = wall;
}

const char *rt_run_out_dir(const struct rt_run *run) {
    return run->without_files ? NULL : run->out_dir;
}

const char *rt_run_node(const struct rt_run *run, size_t i) {
    const struct rt_tree *node = run->spec->cluster.node;
    if (i >= rt_spec_addresses(run->spec))
        return NULL;
    return (node->kind == RT_TREE_LIST ? node->items[i] : node)->text;
}

size_t rt_run_local_nodes(const struct rt_run *run) {
    return (size_t)run->spec->cluster.nodes;
}

bool rt_run_node_is_lost(const struct rt_run *run, size_t i) {
    return rt_run_node(run, i) && (run->lost == i + 1 || (i + 1 < run->gone_count && run->gone[i + 1]));
}

bool rt_run_has_too_few(const struct rt_run *run) {
    return run->too_few;
}

const struct rt_run_facts *rt_run_facts(const struct rt_run *run) {
    return run->has_facts ? &run->facts : NULL;
}

const char *rt_run_plan(const struct rt_run *run) {
    return run->plan;
}

size_t rt_run_nodes(const struct rt_run *run, const struct rt_node_view **views) {
    *views = run->views;
    return run->view_count;
}

const struct rt_exchange_counts *rt_run_exchange(const struct rt_run *run) {
    return run->has_exchange ? &run->exchange : NULL;
}

const struct rt_evaluation *rt_run_test(const struct rt_run *run) {
    return run->test.result.examples ? &run->test.result : NULL;
}

uint64_t rt_run_model_update(const struct rt_run *run) {
    return run->trained.update;
}

size_t rt_run_class_count(const struct rt_run *run) {
    return run->trained.network.model ? rt_trained_classes(&run->trained) : 0;
}

const char *rt_run_loss_name(const struct rt_run *run) {
    return run->trained.network.model ? run->trained.network.loss->name : NULL;
}

rt_status rt_run_label(struct rt_run *run, struct rt_error *err) {
    const struct rt_names *names = &run->trained.names;
    size_t classes = rt_trained_classes(&run->trained);
    if (classes > NUMBERED_CLASSES)
        classes = names->count;
    struct rt_names made = {0};
    rt_status status = rt_alloc(classes, sizeof *made.items, "the names of the classes", &made.items, err);
    for (; status == RT_OK && made.count < classes; made.count++) {
        char number[24];
        snprintf(number, sizeof number, "%zu", made.count);
        const char *name = made.count < names->count ? names->items[made.count] : number;
        made.items[made.count] = strdup(name);
        if (!made.items[made.count])
            status = rt_fail(err, RT_NO_MEMORY, "not enough memory for the names of the classes");
    }
    if (status != RT_OK) {
        rt_names_deinit(&made);
        return status;
    }
    rt_names_deinit(&run->labels);
    run->labels = made;
    return RT_OK;
}
