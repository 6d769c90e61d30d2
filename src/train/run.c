/* The public object: opening, settings, and everything short of training. */
#include "train/state.h"

#include "base/clock.h"
#include "base/memory.h"
#include <stdlib.h>
#include <string.h>

static rt_status create(struct rt_run **run, struct rt_error *err) {
    rt_status status = rt_alloc(1, sizeof **run, "the run", run, err);
    if (status == RT_OK) {
        atomic_init(&(*run)->stop, 0);
        (*run)->process_start = rt_clock_wall();
    }
    return status;
}

rt_status rt_run_open(const char *path, struct rt_run **run, struct rt_error *err) {
    struct rt_run *made;
    rt_status status = create(&made, err);
    if (status != RT_OK)
        return status;
    made->path = strdup(path);
    if (!made->path)
        status = rt_fail(err, RT_NO_MEMORY, "%s: not enough memory to read it", path);
    else
        status = rt_spec_load(path, NULL, 0, &made->spec, err);
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
    rt_status status = create(&made, err);
    if (status != RT_OK)
        return status;
    status = rt_modelfile_read(model_path, &computing, &made->trained, err);
    if (status == RT_OK)
        status = rt_run_label(made, err);
    if (status != RT_OK) {
        rt_run_close(made);
        return status;
    }
    *run = made;
    return RT_OK;
}

void rt_run_close(struct rt_run *run) {
    if (!run)
        return;
    rt_trained_deinit(&run->trained);
    rt_names_deinit(&run->labels);
    rt_owned_evaluation_deinit(&run->test);
    rt_owned_evaluation_deinit(&run->evaluation);
    for (size_t i = 0; i < run->setting_count; i++)
        free(run->settings[i]);
    free(run->settings);
    rt_spec_destroy(run->spec);
    free(run->path);
    free(run->out_dir);
    free(run);
}

rt_status rt_run_set(struct rt_run *run, const char *key, const char *value, struct rt_error *err) {
    if (!run->path)
        return rt_fail(err, RT_BAD_INPUT, "%s cannot be set: a loaded model has no run file", key);
    size_t room = strlen(key) + strlen(value) + 2;
    char *setting = malloc(room);
    char **settings = realloc(run->settings, (run->setting_count + 1) * sizeof *settings);
    if (settings)
        run->settings = settings;
    if (!setting || !settings) {
        free(setting);
        return rt_fail(err, RT_NO_MEMORY, "not enough memory to set %s", key);
    }
    snprintf(setting, room, "%s=%s", key, value);
    settings[run->setting_count] = setting;
    struct rt_spec *spec;
    rt_status status =
        rt_spec_load(run->path, (const char *const *)settings, run->setting_count + 1, &spec, err);
    if (status != RT_OK) {
        free(setting);
        return status;
    }
    run->setting_count++;
    rt_spec_destroy(run->spec);
    run->spec = spec;
    run->has_facts = false; /* they point into the old one */
    return RT_OK;
}

rt_status rt_run_set_out(struct rt_run *run, const char *dir, struct rt_error *err) {
    char *copy = *dir ? strdup(dir) : NULL;
    if (!copy)
        return *dir ? rt_fail(err, RT_NO_MEMORY, "not enough memory to set the output directory")
                    : rt_fail(err, RT_BAD_INPUT, "the output directory needs a name");
    free(run->out_dir);
    run->out_dir = copy;
    run->out_given = true;
    run->has_result = false; /* it points at the old name */
    return RT_OK;
}

void rt_run_set_resume(struct rt_run *run, int resume) {
    run->resume = resume != 0;
}

void rt_run_stop(struct rt_run *run) {
    atomic_store(&run->stop, 1);
}

const struct rt_result *rt_run_result(const struct rt_run *run) {
    return run->has_result ? &run->result : NULL;
}

size_t rt_run_input_size(const struct rt_run *run) {
    return run->trained.network.inputs;
}

size_t rt_run_output_size(const struct rt_run *run) {
    return run->trained.network.outputs;
}

const char *rt_run_class_name(const struct rt_run *run, size_t i) {
    return i < run->labels.count ? run->labels.items[i] : NULL;
}

/* ---- for the commands ---- */

void rt_run_set_notice(struct rt_run *run, rt_notice_fn notice, void *user) {
    run->notice = notice;
    run->notice_user = user;
}

void rt_run_set_process_start(struct rt_run *run, double wall) {
    run->process_start = wall;
}

const char *rt_run_out_dir(const struct rt_run *run) {
    return run->out_dir;
}

const struct rt_run_facts *rt_run_facts(const struct rt_run *run) {
    return run->has_facts ? &run->facts : NULL;
}

const struct rt_evaluation *rt_run_test(const struct rt_run *run) {
    return run->test.result.examples ? &run->test.result : NULL;
}

uint64_t rt_run_model_update(const struct rt_run *run) {
    return run->trained.update;
}

size_t rt_run_class_count(const struct rt_run *run) {
    return run->trained.network.model ? rt_network_classes(&run->trained.network) : 0;
}

const char *rt_run_loss_name(const struct rt_run *run) {
    return run->trained.network.model ? run->trained.network.loss->name : NULL;
}

rt_status rt_run_label(struct rt_run *run, struct rt_error *err) {
    const size_t classes = rt_network_classes(&run->trained.network);
    struct rt_names made = {0};
    rt_status status = rt_alloc(classes, sizeof *made.items, "the names of the classes", &made.items, err);
    for (; status == RT_OK && made.count < classes; made.count++) {
        char number[24];
        snprintf(number, sizeof number, "%zu", made.count);
        const char *name =
            made.count < run->trained.names.count ? run->trained.names.items[made.count] : number;
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
