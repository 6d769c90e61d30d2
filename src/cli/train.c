/*
 * ringtmp train: one run, from its run file to a saved model. A signal causes a clean stop with a checkpoint;
 * then the command that resumes the run is printed.
 */
#include "cli/cluster_args.h"
#include "cli/commands.h"
#include "cli/confusion.h"
#include "cli/progress.h"
#include "cli/text.h"
#include "formats/runfile.h"
#include "run/outdir.h"
#include "run/run.h"
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

struct settings {
    struct rt_cluster_args cluster;
    int64_t seed;
    const char *strategy, *out, *math;
    bool resume, quiet, help_keys;
};

static const char *const math_choices[] = {"exact", "fast", NULL};

#define AT(field_) .offset = offsetof(struct settings, field_)
static const struct rt_arg args[] = {
    RT_CLUSTER_ARGS(offsetof(struct settings, cluster)),
    {"--strategy", "NAME", RT_ARG_TEXT, AT(strategy), .default_help = "cluster.strategy",
     .help = "how it is distributed, as ring, ps-ssp,s=3 or as:horovod"},
    {"--seed", "S", RT_ARG_COUNT, AT(seed), .default_help = "train.seed of the run file, else 1",
     .help = "seed of all random numbers"},
    {"--out", "DIR", RT_ARG_TEXT, AT(out), .default_help = "the key out, else runs/NAME-TIME",
     .help = "where the files of the run go; none: no files"},
    {"--resume", NULL, RT_ARG_SWITCH, AT(resume), .default_help = "start anew",
     .help = "go on from the checkpoint in --out"},
    {"--math", "exact|fast", RT_ARG_TEXT, AT(math), .choices = math_choices,
     .default_help = "train.math of the run file, else exact", .help = "exact bits, or OpenBLAS products"},
    {"--quiet", NULL, RT_ARG_SWITCH, AT(quiet), .default_help = "show progress",
     .help = "print only errors, and which devices are left out"},
    {"--help-keys", NULL, RT_ARG_SWITCH, AT(help_keys), .alone = true,
     .help = "show every key of the run file with its default"},
};

/* ---- signals ---- */

/* A signal handler can reach the run only through a global. Set before the handlers are installed. */
static struct rt_run *run_to_stop;
static bool stop_quietly;
static volatile sig_atomic_t training; /* the first report has come: what is done is saved on a stop, */
static volatile sig_atomic_t saves;    /* unless the run writes no files */

static const int stop_signals[] = {SIGINT, SIGTERM, SIGHUP};
enum { STOP_SIGNALS = sizeof stop_signals / sizeof *stop_signals };

/* A signal may come while the display is drawn, and on another thread: then the drawing thread prints the
 * message afterwards, below the display. The first of the two to see that drawing has ended prints it. */
static atomic_bool stopping, drawing, announced;

static void train_announce(void) {
    static const char saving[] = "\nstopping: the checkpoint is being written; once more ends at once\n";
    static const char nothing[] = "\nstopping: nothing has been trained yet; once more ends at once\n";
    static const char none[] = "\nstopping; once more ends at once\n";
    if (stop_quietly || atomic_exchange(&announced, true))
        return;
    if (saves)
        (void)!write(STDERR_FILENO, saving, sizeof saving - 1);
    else if (training)
        (void)!write(STDERR_FILENO, none, sizeof none - 1);
    else
        (void)!write(STDERR_FILENO, nothing, sizeof nothing - 1);
}

/* The first signal asks for a checkpoint; a second one of any kind ends the process at once. */
static void train_on_signal(int number) {
    (void)number;
    for (size_t i = 0; i < STOP_SIGNALS; i++)
        signal(stop_signals[i], SIG_DFL);
    atomic_store(&stopping, true);
    if (!atomic_load(&drawing))
        train_announce();
    rt_run_stop(run_to_stop);
}

/* Signals that were ignored at the start (nohup, a job in the background) stay ignored. */
static void train_catch_signals(struct rt_run *run, bool quiet) {
    run_to_stop = run;
    stop_quietly = quiet;
    for (size_t i = 0; i < STOP_SIGNALS; i++) {
        struct sigaction old, action = {.sa_handler = train_on_signal, .sa_flags = SA_RESTART};
        sigemptyset(&action.sa_mask);
        if (sigaction(stop_signals[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)
            sigaction(stop_signals[i], &action, NULL);
    }
    /* The run is worth more than its display: it goes on when `| head` ends. */
    signal(SIGPIPE, SIG_IGN);
}

static void train_release_signals(void) {
    for (size_t i = 0; i < STOP_SIGNALS; i++) {
        struct sigaction old;
        if (sigaction(stop_signals[i], NULL, &old) == 0 && old.sa_handler == train_on_signal)
            signal(stop_signals[i], SIG_DFL);
    }
    run_to_stop = NULL;
}

/* ---- the command that resumes ---- */

/* Quotes a word for a shell. */
static void train_print_quoted(FILE *out, const char *word) {
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=.,:/@%";
    if (*word && strspn(word, plain) == strlen(word)) {
        fprintf(out, " %s", word);
        return;
    }
    fputs(" '", out);
    for (; *word; word++)
        if (*word == '\'')
            fputs("'\\''", out);
        else
            fputc(*word, out);
    fputc('\'', out);
}

static size_t train_count_lost(const struct rt_run *run) {
    size_t lost = 0;
    for (size_t i = 0; rt_run_node(run, i); i++)
        lost += rt_run_node_is_lost(run, i);
    return lost;
}

/* The devices without those that are lost, unless the printed words have them already. named, counted:
 * whether there were --node and --nodes among the words; left: how many --node are left. */
static void train_print_devices(FILE *out, const struct rt_run *run, bool named, bool counted, size_t left) {
    if (!named) /* the run file did, or --set */
        for (size_t i = 0; rt_run_node(run, i); i++)
            if (!rt_run_node_is_lost(run, i)) {
                fputs(" --node", out);
                train_print_quoted(out, rt_run_node(run, i));
                left++;
            }
    if (!named && left == 0)
        fputs(" --set 'cluster.node=[]'", out);
    if (!counted && (left == 0 || (!named && rt_run_local_nodes(run) > 1)))
        fprintf(out, " --nodes %zu", rt_run_local_nodes(run));
}

/* The words of this command line, with --out and --resume replaced, and without the devices that are lost.
 * A run file whose name looks like an option comes last, after "--". */
static void train_print_resume(FILE *out, const struct rt_invocation *invocation, const struct rt_run *run) {
    const char *operand = invocation->operands.items[0], *directory = rt_run_out_dir(run);
    size_t nodes = 0, left = 0;
    bool counted = false;
    fputs(" ", out);
    train_print_quoted(out, invocation->program);
    fputs(" train", out);
    for (int i = 0; i < invocation->argc; i++) {
        const char *word = invocation->argv[i];
        const bool node = strcmp(word, "--node") == 0, same = strncmp(word, "--node=", 7) == 0;
        counted |= strcmp(word, "--nodes") == 0 || strncmp(word, "--nodes=", 8) == 0;
        if (node || same) {
            if (rt_run_node_is_lost(run, nodes++)) {
                i += node;
                continue;
            }
            left++;
        }
        if (word == operand && word[0] != '-')
            train_print_quoted(out, word);
        else if (word == operand || strcmp(word, "--") == 0 || strcmp(word, "--resume") == 0 ||
                 strncmp(word, "--out=", 6) == 0)
            continue;
        else if (strcmp(word, "--out") == 0)
            i++;
        else
            train_print_quoted(out, word);
    }
    if (train_count_lost(run) > 0)
        train_print_devices(out, run, nodes > 0, counted, left);
    fputs(" --out", out);
    train_print_quoted(out, directory);
    fputs(" --resume", out);
    if (operand[0] == '-') {
        fputs(" --", out);
        train_print_quoted(out, operand);
    }
    fputc('\n', out);
}

static void train_print_interrupted(const struct rt_invocation *invocation, const struct rt_run *run) {
    const char *directory = rt_run_out_dir(run);
    if (training && !directory) {
        fputs("ringtmp: interrupted; with out: none nothing was kept\n", stderr);
        return;
    }
    if (!training) {
        fputs("ringtmp: interrupted before the training began; there is nothing to go on from\n", stderr);
        return;
    }
    if (rt_out_look(directory) == RT_OUT_SAVED)
        fprintf(stderr, "ringtmp: interrupted; the checkpoint is in %s/checkpoint. To go on:\n", directory);
    else
        fputs("ringtmp: interrupted; there is no checkpoint yet. To start again:\n", stderr);
    train_print_resume(stderr, invocation, run);
}

/* A device was lost, or a file could not be written: the checkpoint is as good as after Ctrl-C. */
static void train_print_way_on(const struct rt_invocation *invocation, const struct rt_run *run,
                               const char *how) {
    const char *directory = rt_run_out_dir(run);
    const enum rt_out_state state = directory ? rt_out_look(directory) : RT_OUT_NOTHING;
    if (state == RT_OUT_NOTHING)
        return;
    if (state == RT_OUT_SAVED)
        fprintf(stderr, "ringtmp: the last checkpoint is in %s/checkpoint. To go on, %s:\n", directory, how);
    else
        fprintf(stderr, "ringtmp: there is no checkpoint yet. To start again, %s:\n", how);
    train_print_resume(stderr, invocation, run);
}

static const char *train_without(const struct rt_run *run) {
    const size_t lost = train_count_lost(run);
    if (lost > 0 && rt_run_has_too_few(run))
        return "with another device beside these";
    return lost == 0   ? "with other nodes if need be"
           : lost == 1 ? "without the device that is lost"
                       : "without the devices that are lost";
}

/* After a signal nothing is redrawn: the screen stays, and further output is printed below. */
static void train_begin_drawing(struct rt_display *display) {
    atomic_store(&drawing, true);
    if (atomic_load(&stopping))
        rt_display_keep(display, true);
}

static void train_end_drawing(void) {
    atomic_store(&drawing, false);
    if (atomic_load(&stopping))
        train_announce();
}

static void train_on_progress(void *user, const struct rt_progress *progress) {
    struct rt_display *display = user;
    training = 1;
    saves = rt_run_out_dir(display->run) != NULL;
    train_begin_drawing(display);
    rt_display_progress(user, progress);
    train_end_drawing();
}

static void train_on_notice(void *user, const char *sentence) {
    train_begin_drawing(user);
    rt_display_notice(user, sentence);
    train_end_drawing();
}

/* ---- the result ---- */

static void train_print_result(FILE *out, struct rt_display *display) {
    const struct rt_run *run = display->run;
    const struct rt_result *result = rt_run_result(run);
    const struct rt_run_facts *facts = rt_run_facts(run);
    const struct rt_evaluation *test = rt_run_test(run);
    char a[RT_TEXT], b[RT_TEXT];
    if (!result)
        return;
    fputc('\n', out);
    const struct rt_node_view *views;
    if (rt_run_nodes(run, &views)) {
        rt_display_nodes(display);
        fputc('\n', out);
    }
    if (test && test->classes) {
        fputs("on the test data:\n", out);
        rt_confusion_print(out, test);
        fputc('\n', out);
    }
    if (isfinite(result->test_accuracy))
        fprintf(out, "test accuracy  %.4f\n", result->test_accuracy);
    if (isfinite(result->test_loss))
        fprintf(out, "test loss      %s\n", rt_text_measure(result->test_loss, a));
    if (isfinite(result->train_loss))
        fprintf(out, "training loss  %s\n", rt_text_measure(result->train_loss, a));
    fprintf(out, "time           %s for %s samples", rt_text_duration(result->seconds, a),
            rt_text_count(result->samples, b));
    if (isfinite(result->samples_per_s))
        fprintf(out, ", %s samples/s", rt_text_rate(result->samples_per_s, a));
    if (facts && isfinite(facts->predicted_samples_per_s))
        fprintf(out, " (planned: %s%s)", facts->predicted_at_most ? "at most " : "",
                rt_text_rate(facts->predicted_samples_per_s, a));
    fputc('\n', out);
    const struct rt_exchange_counts *counts = rt_run_exchange(run);
    if (counts)
        fprintf(out, "staleness      %.2f updates on average, at most %s; gradients dropped: %s\n",
                counts->mean, rt_text_count(counts->most, a), rt_text_count(counts->dropped, b));
    fprintf(out, "params_sha256  %s\n", result->params_sha256);
    if (result->out_dir)
        fprintf(out, "model          %s/model.safetensors", result->out_dir);
    else
        fputs("model          not written: out is none", out);
    if (rt_run_model_update(run) < result->updates)
        fprintf(out, " (the best: update %s of %s)", rt_text_count(rt_run_model_update(run), a),
                rt_text_count(result->updates, b));
    fputc('\n', out);
    if (result->out_dir)
        fprintf(out, "journal        %s/journal.jsonl\nsummary        %s/summary.json\n", result->out_dir,
                result->out_dir);
}

/* ---- the command ---- */

static rt_status train_collect_settings(const struct settings *settings, struct rt_settings *all,
                                        struct rt_error *err) {
    char seed[RT_TEXT];
    snprintf(seed, sizeof seed, "%" PRId64, settings->seed);
    rt_status status = rt_cluster_args_settings(&settings->cluster, all, err);
    if (status == RT_OK)
        status = rt_settings_add_strategy(all, settings->strategy, err);
    if (status == RT_OK)
        status = rt_settings_add(all, "--seed", "train.seed", settings->seed >= 0 ? seed : NULL, err);
    if (status == RT_OK)
        status = rt_settings_add(all, "--math", "train.math", settings->math, err);
    return status;
}

static rt_status train_apply(const struct rt_invocation *invocation, struct rt_run *run,
                             struct rt_error *err) {
    const struct settings *settings = invocation->settings;
    struct rt_settings all = {0};
    char program[RT_PROGRAM_ROOM];
    rt_status status = train_collect_settings(settings, &all, err);
    if (status == RT_OK)
        status = rt_settings_apply(&all, run, err);
    rt_settings_deinit(&all);
    if (status == RT_OK)
        status = rt_run_set_program(run, rt_own_program(invocation->program, program), err);
    if (status == RT_OK && settings->resume && !settings->out)
        status =
            rt_fail(err, RT_BAD_INPUT, "--resume needs --out DIR, the directory of the run to go on with");
    rt_run_set_terms(run, &(struct rt_run_terms){.out = "--out DIR", .resume = "--resume"});
    if (status == RT_OK && settings->out)
        status = rt_run_set_out(run, settings->out, err);
    if (status == RT_OK)
        rt_run_set_resume(run, settings->resume);
    return status;
}

static int run_train(const struct rt_invocation *invocation) {
    const struct settings *settings = invocation->settings;
    if (settings->help_keys) {
        rt_spec_help(stdout);
        return RT_EXIT_DONE;
    }
    struct rt_error err;
    struct rt_run *run;
    if (rt_run_open(invocation->operands.items[0], &run, &err) != RT_OK)
        return rt_exit_error(&err);
    struct rt_display display;
    rt_display_init(&display, run, settings->quiet);
    rt_run_set_process_start(run, invocation->start);
    rt_run_set_notice(run, train_on_notice, &display);
    if (settings->quiet)
        rt_run_set_warning(run, rt_print_notice, NULL);
    rt_status status = train_apply(invocation, run, &err);
    if (status == RT_OK) {
        train_catch_signals(run, settings->quiet);
        status = rt_run_train(run, train_on_progress, &display, &err);
        train_release_signals();
    }
    if (atomic_load(&stopping) || status != RT_OK)
        rt_display_keep(&display, atomic_load(&stopping));
    else
        rt_display_clear(&display);
    int code = RT_EXIT_DONE;
    if (status == RT_INTERRUPTED) {
        train_print_interrupted(invocation, run);
        code = RT_EXIT_FAILED;
    } else if (status != RT_OK) {
        code = rt_exit_error(&err);
        if (status == RT_LOST)
            train_print_way_on(invocation, run, train_without(run));
        else if (status == RT_IO)
            train_print_way_on(invocation, run, "once files can be written again");
    } else if (!settings->quiet) {
        train_print_result(stdout, &display);
    }
    rt_run_close(run);
    return code;
}

const struct rt_command rt_command_train = {
    .name = "train",
    .summary = "train a model as a run file says",
    .details =
        "Trains the network that RUN.yaml describes on the data it names, and saves the model, a journal\n"
        "and a summary. Ctrl-C stops with a checkpoint; the message then says how to go on. The same run\n"
        "file and seed give the same parameters, bit for bit, whatever the machines and their number.\n",
    .examples = "  ringtmp train examples/fashion-mlp.yaml\n"
                "  ringtmp train run.yaml --set train.epochs=3 --set train.batch=64 --out runs/try\n"
                "  ringtmp train run.yaml --nodes 4\n"
                "  ringtmp train run.yaml --node pi1:7117 --node pi2:7117 --key cluster.key\n"
                "  ringtmp train run.yaml --out runs/try --resume\n",
    .operands = {"RUN.yaml"},
    .args = args,
    .arg_count = sizeof args / sizeof *args,
    .settings_bytes = sizeof(struct settings),
    .unknown_hint = "keys of the run file are set with --set KEY=VALUE, and ",
    .run = run_train,
};
