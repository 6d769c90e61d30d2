/* ringtmp plan: which device would hold which layers, and the predicted speed. */
#include "cli/cluster_args.h"
#include "cli/commands.h"
#include "cli/fit.h"
#include "run/run.h"
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

struct settings {
    struct rt_cluster_args cluster;
    const char *strategy;
};

static const struct rt_arg args[] = {
    RT_CLUSTER_ARGS(offsetof(struct settings, cluster)),
    {"--strategy", "NAME", RT_ARG_TEXT, .offset = offsetof(struct settings, strategy),
     .default_help = "cluster.strategy", .help = "how it is distributed, as ring or ring,schedule=1f1b"},
};

static rt_status plan_make(const struct rt_invocation *invocation, struct rt_run *run, char **plan,
                           struct rt_error *err) {
    const struct settings *settings = invocation->settings;
    struct rt_settings all = {0};
    char program[RT_PROGRAM_ROOM];
    rt_status status = rt_cluster_args_settings(&settings->cluster, &all, err);
    if (status == RT_OK)
        status = rt_settings_add_strategy(&all, settings->strategy, err);
    if (status == RT_OK)
        status = rt_settings_apply(&all, run, err);
    rt_settings_deinit(&all);
    if (status == RT_OK)
        status = rt_run_set_program(run, rt_own_program(invocation->program, program), err);
    return status == RT_OK ? rt_run_make_plan(run, plan, err) : status;
}

static int run_plan(const struct rt_invocation *invocation) {
    struct rt_error err;
    struct rt_run *run;
    char *plan;
    if (rt_run_open(invocation->operands.items[0], &run, &err) != RT_OK)
        return rt_exit_error(&err);
    int code = RT_EXIT_DONE;
    rt_run_set_notice(run, rt_print_notice, NULL);
    if (plan_make(invocation, run, &plan, &err) != RT_OK) {
        code = rt_exit_error(&err);
    } else {
        rt_fit_print(stdout, plan, rt_fit_width(), false);
        free(plan);
    }
    rt_run_close(run);
    return code;
}

const struct rt_command rt_command_plan = {
    .name = "plan",
    .summary = "which device would hold which layers, and how fast that would be",
    .details =
        "Connects to the devices, measures every layer on each of them and the links between them, and\n"
        "prints which device would hold which layers, with the predicted speed, idle time and memory, and "
        "what one\n"
        "device alone would do. Nothing is trained and no data are read. `ringtmp train` makes the same "
        "plan\n"
        "before it starts.\n",
    .examples = "  ringtmp plan run.yaml --nodes 4\n"
                "  ringtmp plan run.yaml --node pi1:7117 --node pi2:7117 --key cluster.key\n",
    .operands = {"RUN.yaml"},
    .args = args,
    .arg_count = sizeof args / sizeof *args,
    .settings_bytes = sizeof(struct settings),
    .run = run_plan,
};
