/* ringtmp eval: evaluates a saved model on the test data of a run file. */
#include "cli/cluster_args.h"
#include "cli/commands.h"
#include "cli/confusion.h"
#include "cli/text.h"
#include "formats/yaml.h"
#include "run/run.h"
#include <math.h>
#include <stddef.h>

struct settings {
    struct rt_cluster_args cluster;
};

static const struct rt_arg args[] = {
    RT_CLUSTER_ARGS(offsetof(struct settings, cluster)),
};

static int run_eval(const struct rt_invocation *invocation) {
    const struct settings *settings = invocation->settings;
    const char *file = invocation->operands.items[0], *run_file = invocation->operands.items[1];
    char program[RT_PROGRAM_ROOM];
    struct rt_error err;
    struct rt_run *model;
    struct rt_settings all;
    if (rt_cluster_args_settings(&settings->cluster, &all, &err) != RT_OK)
        return rt_exit_error(&err);
    const char *const *words = (const char *const *)all.items;
    if (rt_run_load_spread(file, run_file, words, all.count, rt_own_program(invocation->program, program),
                           &model, &err) != RT_OK) {
        rt_settings_deinit(&all);
        if (rt_yaml_is_model(run_file))
            rt_fail_more(&err, err.status,
                         "; the model comes first: ringtmp eval MODEL.safetensors RUN.yaml");
        return rt_exit_error(&err);
    }
    rt_run_set_notice(model, rt_print_notice, NULL);
    const struct rt_evaluation *evaluation;
    int code = RT_EXIT_DONE;
    if (rt_run_evaluate(model, run_file, words, all.count, &evaluation, &err) != RT_OK) {
        code = rt_exit_error(&err);
    } else {
        char text[RT_TEXT];
        rt_confusion_print(stdout, evaluation);
        printf("examples  %s\n", rt_text_count(evaluation->examples, text));
        if (isfinite(evaluation->accuracy))
            printf("accuracy  %.4f\n", evaluation->accuracy);
        printf("loss      %s\n", rt_text_measure(evaluation->loss, text));
    }
    rt_run_close(model);
    rt_settings_deinit(&all);
    return code;
}

const struct rt_command rt_command_eval = {
    .name = "eval",
    .summary = "accuracy and loss of a saved model on test data",
    .details =
        "Runs a saved model over the test data of RUN.yaml (data.test, or what data.split sets aside) and\n"
        "prints its accuracy, its loss and what it takes for what. The model file says itself how its\n"
        "layers and the scaling of its inputs are; of the run file the data and the cluster are used. On\n"
        "several devices none of them needs room for the whole model.\n",
    .examples = "  ringtmp eval runs/try/model.safetensors run.yaml\n"
                "  ringtmp eval model.safetensors run.yaml --set data.test='{csv: new.csv}'\n",
    .operands = {"MODEL.safetensors", "RUN.yaml"},
    .args = args,
    .arg_count = sizeof args / sizeof *args,
    .settings_bytes = sizeof(struct settings),
    .run = run_eval,
};
