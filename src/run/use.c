/* Using a trained or loaded model: predictions, and how well it does on data. */
#include "run/run_inside.h"

#include "base/fpenv.h"
#include "base/memory.h"
#include "formats/yaml.h"
#include "learn/datasets.h"
#include <stdlib.h>
#include <string.h>

/* Reads what the last training wrote. The file may have been replaced since. */
static rt_status use_read_written(const struct rt_run *run, struct rt_network *network,
                                  struct rt_error *err) {
    char path[4096], hash[65];
    if (snprintf(path, sizeof path, "%s/model.safetensors", run->result_dir) >= (int)sizeof path)
        return rt_fail(err, RT_BAD_INPUT, "%s: the path is too long", run->result_dir);
    rt_status status = rt_modelfile_params(path, network, NULL, err);
    if (status == RT_OK)
        status = rt_network_hash(network, hash, err);
    if (status == RT_OK && strcmp(hash, run->result.params_sha256) != 0)
        status = rt_fail(err, RT_BAD_INPUT, "%s: is not the model that was trained here", path);
    return status;
}

static rt_status use_take_kept(struct rt_snapshot *kept, struct rt_network *network, struct rt_error *err) {
    struct rt_local_state local = {.network = network};
    const struct rt_model_state model_state = rt_model_state_local(&local);
    rt_status status = rt_snapshot_give(kept, &model_state, 0, err);
    if (status == RT_OK)
        rt_snapshot_deinit(kept);
    return status;
}

static rt_status use_load_trained(struct rt_run *run, struct rt_error *err) {
    struct rt_network *network = &run->trained.network;
    struct rt_snapshot *kept = &run->trained.kept;
    rt_status status = rt_network_allocate(network, err);
    if (status == RT_OK)
        status = kept->tensors > 0 ? use_take_kept(kept, network, err) : use_read_written(run, network, err);
    if (status != RT_OK) {
        free(network->blocks.params);
        free(network->blocks.buffers);
        network->blocks = (struct rt_blocks){0};
    }
    return status;
}

/* A model that a ring has trained is in its file only, or in memory as it came, until it is used here. */
static rt_status use_need_model(struct rt_run *run, struct rt_error *err) {
    const struct rt_network *network = &run->trained.network;
    if (!network->model)
        return rt_fail(err, RT_BAD_INPUT, "there is no model yet: train the run, or load a model");
    if (network->blocks.params || run->spread)
        return RT_OK;
    return use_load_trained(run, err);
}

static void use_tell(const struct rt_run *run, const char *sentence) {
    if (run->notice)
        run->notice(run->notice_user, sentence);
}

/* Warns about a model file without a hash. */
static void use_tell_unsealed(const struct rt_run *run) {
    if (run->trained.unsealed)
        use_tell(
            run,
            "the model file has no hash over its description, since an earlier version wrote it: whether "
            "its layers, scaling or names were altered cannot be checked");
}

static struct rt_forward use_forward_of(struct rt_run *run) {
    return run->spread ? rt_spread_forward(run->spread) : rt_forward_local(&run->trained.network);
}

/* ---- evaluation ---- */

void rt_owned_evaluation_deinit(struct rt_owned_evaluation *evaluation) {
    free(evaluation->confusion);
    *evaluation = (struct rt_owned_evaluation){0};
}

rt_status rt_run_score(struct rt_run *run, const struct rt_forward *forward, const struct rt_dataset *set,
                       enum rt_target target, struct rt_owned_evaluation *evaluation, struct rt_error *err) {
    const struct rt_network *network = &run->trained.network;
    size_t classes = target == RT_TARGET_CLASSES ? rt_network_classes(network) : 0;
    struct rt_owned_evaluation made = {0};
    if (classes > RT_CONFUSION_CLASSES)
        classes = 0;
    rt_status status = classes ? rt_alloc(classes * classes, sizeof *made.confusion, "the confusion table",
                                          &made.confusion, err)
                               : RT_OK;
    struct rt_score score;
    if (status == RT_OK)
        status = rt_evaluate(network, forward, set, &run->trained.scaling, target, &run->stop, made.confusion,
                             &score, err);
    if (status != RT_OK) {
        rt_owned_evaluation_deinit(&made);
        return status;
    }
    made.result =
        (struct rt_evaluation){.examples = score.examples,
                               .loss = score.loss,
                               .accuracy = score.accuracy,
                               .classes = classes,
                               .confusion = made.confusion,
                               .class_names = classes ? (const char *const *)run->labels.items : NULL};
    rt_owned_evaluation_deinit(evaluation);
    *evaluation = made;
    return RT_OK;
}

rt_status rt_run_evaluate(struct rt_run *model, const char *run_path, const char *const *settings,
                          size_t setting_count, const struct rt_evaluation **evaluation,
                          struct rt_error *err) {
    struct rt_spec *spec;
    rt_status status = use_need_model(model, err);
    if (status != RT_OK)
        return status;
    use_tell_unsealed(model);
    fenv_t theirs;
    rt_fp_enter(&theirs);
    status = rt_spec_load(run_path, settings, setting_count, &spec, err);
    if (status != RT_OK) {
        rt_fp_leave(&theirs);
        return status;
    }
    if (spec->notice[0])
        use_tell(model, spec->notice);
    struct rt_datasets datasets;
    status = rt_datasets_open_test(spec, &model->trained, &model->stop, &datasets, err);
    if (status == RT_OK) {
        if (datasets.files[0].remark)
            use_tell(model, datasets.files[0].remark);
        const struct rt_forward forward = use_forward_of(model);
        status = rt_run_score(model, &forward, &datasets.test, datasets.target, &model->evaluation, err);
        rt_datasets_close(&datasets);
    }
    rt_spec_destroy(spec);
    rt_fp_leave(&theirs);
    atomic_store(&model->stop, 0);
    if (status == RT_OK)
        *evaluation = &model->evaluation.result;
    return status;
}

/* ---- prediction ---- */

static rt_status use_keep_output(void *user, size_t example, const float *outputs, size_t width,
                                 struct rt_error *err) {
    (void)err;
    float *all = user;
    memcpy(all + example * width, outputs, width * sizeof *outputs);
    return RT_OK;
}

rt_status rt_run_predict(struct rt_run *run, const float *inputs, size_t rows, float *outputs,
                         struct rt_error *err) {
    rt_status status = rt_run_need(__func__, "run", run, err);
    if (status == RT_OK && rows > 0)
        status = rt_run_need(__func__, "inputs", inputs, err);
    if (status == RT_OK && rows > 0)
        status = rt_run_need(__func__, "outputs", outputs, err);
    if (status == RT_OK)
        status = use_need_model(run, err);
    if (status != RT_OK)
        return status;
    const struct rt_dataset set = {
        .count = rows, .shape = run->trained.network.model->in, .type = RT_DATA_F32, .inputs = inputs};
    const struct rt_forward forward = use_forward_of(run);
    fenv_t theirs;
    rt_fp_enter(&theirs);
    status = rt_predict(&run->trained.network, &forward, &set, &run->trained.scaling, use_keep_output,
                        outputs, err);
    rt_fp_leave(&theirs);
    return status;
}

/* A source is written as a map; everything else is the name of a file. */
static rt_status use_open_source(const char *source, const struct rt_data_wish *wish, struct rt_dataset *set,
                                 struct rt_error *err) {
    if (source[0] != '{')
        return rt_dataset_open_file(source, wish, set, err);
    struct rt_tree *tree;
    rt_status status = rt_yaml_parse(source, strlen(source), "the source", &tree, err);
    if (status != RT_OK)
        return status;
    status = rt_dataset_open(tree, ".", wish, set, err);
    rt_tree_destroy(tree);
    return status;
}

static rt_status use_predict_source(struct rt_run *run, const char *source, rt_prediction_fn take, void *user,
                                    struct rt_error *err) {
    struct rt_data_wish wish;
    struct rt_dataset set;
    rt_status status = rt_datasets_wish(NULL, &run->trained.network, &wish, err);
    if (status != RT_OK)
        return status;
    wish.target = RT_TARGET_INPUT; /* no targets are read */
    wish.labels_optional = true;
    rt_datasets_wish_columns(&run->trained, &wish);
    status = use_open_source(source, &wish, &set, err);
    if (status != RT_OK)
        return status;
    if (set.remark)
        use_tell(run, set.remark);
    status = rt_dataset_check(&set, err);
    const struct rt_forward forward = use_forward_of(run);
    if (status == RT_OK)
        status = rt_predict(&run->trained.network, &forward, &set, &run->trained.scaling, take, user, err);
    rt_dataset_close(&set);
    return status;
}

rt_status rt_run_predict_source(struct rt_run *run, const char *source, rt_prediction_fn take, void *user,
                                struct rt_error *err) {
    rt_status status = use_need_model(run, err);
    if (status != RT_OK)
        return status;
    use_tell_unsealed(run);
    fenv_t theirs;
    rt_fp_enter(&theirs);
    status = use_predict_source(run, source, take, user, err);
    rt_fp_leave(&theirs);
    return status;
}
