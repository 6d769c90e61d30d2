/* ringtmp predict: the outputs of a saved model for new examples, one line each, in the order of the file. */
#include "base/memory.h"
#include "cli/cluster_args.h"
#include "cli/commands.h"
#include "cli/text.h"
#include "run/run.h"
#include <jansson.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

struct settings {
    struct rt_cluster_args cluster;
    const char *format;
    bool probs;
    int64_t top;
};

static const char *const format_choices[] = {"text", "csv", "json", NULL};

#define AT(field_) .offset = offsetof(struct settings, field_)
static const struct rt_arg args[] = {
    {"--format", "text|csv|json", RT_ARG_TEXT, AT(format), .choices = format_choices, .fallback = "text",
     .help = "columns, a table with a header, or a JSON object a line"},
    {"--top", "K", RT_ARG_COUNT, AT(top), .default_help = "1", .help = "the K most probable classes"},
    {"--probs", NULL, RT_ARG_SWITCH, AT(probs), .default_help = "off",
     .help = "also the probability of every class, in their order"},
    RT_CLUSTER_ARGS_SET(offsetof(struct settings, cluster),
                        "set a key of cluster or train, as in a run file"),
};

/* One prediction: a class and its probability. */
struct guess {
    size_t class;
    double probability;
};

struct printer {
    const struct rt_run *run;
    FILE *out;
    enum { TEXT, CSV, JSON } format;
    size_t classes; /* 0: the outputs are plain values */
    size_t top;
    bool probs;
    bool begun;            /* the header is out */
    struct guess *guesses; /* [classes], by class; then sorted in `ranked` */
    struct guess *ranked;
};

/* ---- values in each format ---- */

static void predict_put_name(const struct printer *printer, size_t class) {
    char number[RT_TEXT];
    const char *name = rt_run_class_name(printer->run, class);
    if (!name) {
        snprintf(number, sizeof number, "%zu", class);
        name = number;
    }
    if (printer->format == TEXT) {
        rt_text_print(printer->out, name);
    } else if (printer->format == JSON) {
        json_t *string = json_string(name);
        if (!string || json_dumpf(string, printer->out, JSON_ENCODE_ANY) != 0)
            fprintf(printer->out, "\"%zu\"", class);
        json_decref(string);
    } else if (name[strcspn(name, ",\"\r\n")] == 0) {
        fputs(name, printer->out);
    } else {
        fputc('"', printer->out);
        for (; *name; name++)
            fputs(*name == '"' ? "\"\"" : (char[]){*name, 0}, printer->out);
        fputc('"', printer->out);
    }
}

static void predict_put_value(const struct printer *printer, double value) {
    if (printer->format == JSON && !isfinite(value))
        fputs("null", printer->out);
    else
        fprintf(printer->out, printer->format == TEXT ? "%.6g" : "%.9g", value);
}

static void predict_put_probability(const struct printer *printer, double value) {
    if (printer->format == TEXT)
        fprintf(printer->out, "%.4f", value);
    else
        predict_put_value(printer, value);
}

/* ---- one example ---- */

static int predict_by_probability(const void *a, const void *b) {
    const struct guess *x = a, *y = b;
    if (x->probability != y->probability)
        return x->probability > y->probability ? -1 : 1;
    return x->class < y->class ? -1 : x->class > y->class;
}

/* A single output of a two-class model is the probability of class 1. */
static void predict_rank(struct printer *printer, const float *outputs, size_t width) {
    for (size_t c = 0; c < printer->classes; c++) {
        double p = width == 1 ? (c ? (double)outputs[0] : 1 - (double)outputs[0]) : (double)outputs[c];
        printer->guesses[c] = (struct guess){c, p};
    }
    memcpy(printer->ranked, printer->guesses, printer->classes * sizeof *printer->ranked);
    qsort(printer->ranked, printer->classes, sizeof *printer->ranked, predict_by_probability);
}

static void predict_print_columns(const struct printer *printer, size_t example) {
    const char *gap = printer->format == CSV ? "," : "\t";
    if (printer->format == CSV)
        fprintf(printer->out, "%zu,", example);
    for (size_t i = 0; i < printer->top; i++) {
        fputs(i ? gap : "", printer->out);
        predict_put_name(printer, printer->ranked[i].class);
        fputs(gap, printer->out);
        predict_put_probability(printer, printer->ranked[i].probability);
    }
    for (size_t c = 0; printer->probs && c < printer->classes; c++) {
        fputs(gap, printer->out);
        predict_put_probability(printer, printer->guesses[c].probability);
    }
    fputc('\n', printer->out);
}

static void predict_print_json(const struct printer *printer, size_t example) {
    fprintf(printer->out, "{\"example\": %zu, \"class\": ", example);
    predict_put_name(printer, printer->ranked[0].class);
    fputs(", \"probability\": ", printer->out);
    predict_put_probability(printer, printer->ranked[0].probability);
    if (printer->top > 1) {
        fputs(", \"top\": [", printer->out);
        for (size_t i = 0; i < printer->top; i++) {
            fputs(i ? ", {\"class\": " : "{\"class\": ", printer->out);
            predict_put_name(printer, printer->ranked[i].class);
            fputs(", \"probability\": ", printer->out);
            predict_put_probability(printer, printer->ranked[i].probability);
            fputc('}', printer->out);
        }
        fputc(']', printer->out);
    }
    if (printer->probs) {
        fputs(", \"probabilities\": [", printer->out);
        for (size_t c = 0; c < printer->classes; c++) {
            fputs(c ? ", " : "", printer->out);
            predict_put_probability(printer, printer->guesses[c].probability);
        }
        fputc(']', printer->out);
    }
    fputs("}\n", printer->out);
}

static void predict_print_values(const struct printer *printer, size_t example, const float *outputs,
                                 size_t width) {
    const char *gap = printer->format == TEXT ? "\t" : printer->format == CSV ? "," : ", ";
    if (printer->format == CSV)
        fprintf(printer->out, "%zu,", example);
    if (printer->format == JSON)
        fprintf(printer->out, "{\"example\": %zu, \"values\": [", example);
    for (size_t i = 0; i < width; i++) {
        fputs(i ? gap : "", printer->out);
        predict_put_value(printer, (double)outputs[i]);
    }
    fputs(printer->format == JSON ? "]}\n" : "\n", printer->out);
}

static void predict_print_header(struct printer *printer) {
    if (printer->format != CSV || printer->begun)
        return;
    printer->begun = true;
    fputs("example", printer->out);
    if (!printer->classes)
        for (size_t i = 0, width = rt_run_output_size(printer->run); i < width; i++)
            fprintf(printer->out, ",value%zu", i);
    for (size_t i = 0; i < printer->top; i++)
        if (printer->top == 1)
            fputs(",class,probability", printer->out);
        else
            fprintf(printer->out, ",class%zu,probability%zu", i + 1, i + 1);
    for (size_t c = 0; printer->probs && c < printer->classes; c++) {
        fputc(',', printer->out);
        predict_put_name(printer, c);
    }
    fputc('\n', printer->out);
}

/* The header waits for the first example: for an input that cannot be opened only the error is printed. */
static rt_status predict_print_example(void *user, size_t example, const float *outputs, size_t width,
                                       struct rt_error *err) {
    struct printer *printer = user;
    predict_print_header(printer);
    if (!printer->classes) {
        predict_print_values(printer, example, outputs, width);
    } else {
        predict_rank(printer, outputs, width);
        (printer->format == JSON ? predict_print_json : predict_print_columns)(printer, example);
    }
    return ferror(printer->out) ? rt_fail(err, RT_IO, "the output could not be written") : RT_OK;
}

/* ---- the command ---- */

static rt_status predict_make_printer(const struct settings *settings, const struct rt_run *run,
                                      struct printer *printer, struct rt_error *err) {
    size_t classes = rt_run_class_count(run);
    *printer = (struct printer){
        .run = run,
        .out = stdout,
        .format = strcmp(settings->format, "json") == 0  ? JSON
                  : strcmp(settings->format, "csv") == 0 ? CSV
                                                         : TEXT,
        .classes = classes,
        .probs = settings->probs,
    };
    if (settings->top == 0)
        return rt_fail(err, RT_BAD_INPUT, "--top must be at least 1");
    if (!classes && (settings->top > 0 || settings->probs))
        return rt_fail(err, RT_BAD_INPUT, "%s is for classifiers, but this model gives values",
                       settings->probs ? "--probs" : "--top");
    if (classes)
        printer->top = settings->top < 0                   ? 1
                       : (uint64_t)settings->top < classes ? (size_t)settings->top
                                                           : classes;
    rt_status status = rt_alloc(classes, sizeof *printer->guesses, "predictions", &printer->guesses, err);
    if (status == RT_OK)
        status = rt_alloc(classes, sizeof *printer->ranked, "predictions", &printer->ranked, err);
    return status;
}

/* The computation and the scaling are in the model; there is no run file with other keys to set. */
static rt_status predict_check_keys(const struct rt_words *set, struct rt_error *err) {
    for (size_t i = 0; i < set->count; i++)
        if (strncmp(set->items[i], "cluster.", 8) != 0 && strncmp(set->items[i], "train.", 6) != 0)
            return rt_fail(err, RT_BAD_INPUT,
                           "--set %.100s: predict sets keys of cluster and train only, as in "
                           "--set cluster.timeout=5; the rest is in the model",
                           set->items[i]);
    return RT_OK;
}

static int run_predict(const struct rt_invocation *invocation) {
    const struct settings *settings = invocation->settings;
    char program[RT_PROGRAM_ROOM];
    struct rt_error err;
    struct rt_run *run;
    struct rt_settings all;
    if (predict_check_keys(&settings->cluster.set, &err) != RT_OK ||
        rt_cluster_args_settings(&settings->cluster, &all, &err) != RT_OK)
        return rt_exit_error(&err);
    rt_status loaded =
        rt_run_load_spread(invocation->operands.items[0], NULL, (const char *const *)all.items, all.count,
                           rt_own_program(invocation->program, program), &run, &err);
    rt_settings_deinit(&all);
    if (loaded != RT_OK)
        return rt_exit_error(&err);
    rt_run_set_notice(run, rt_print_notice, NULL);
    struct printer printer;
    rt_status status = predict_make_printer(invocation->settings, run, &printer, &err);
    if (status == RT_OK) {
        status =
            rt_run_predict_source(run, invocation->operands.items[1], predict_print_example, &printer, &err);
        if (status == RT_OK)
            predict_print_header(&printer); /* of a table without rows */
    }
    free(printer.guesses);
    free(printer.ranked);
    rt_run_close(run);
    if (status != RT_OK && ferror(stdout))
        return RT_EXIT_FAILED; /* main says so, once */
    return status == RT_OK ? RT_EXIT_DONE : rt_exit_error(&err);
}

const struct rt_command rt_command_predict = {
    .name = "predict",
    .summary = "predictions of a saved model for new examples",
    .details =
        "Prints one line for each example of FILE, in order: for a classifier the class and its\n"
        "probability, for other models the output values, with a tab between columns. FILE is an IDX\n"
        "(plain or .gz), NPY or CSV file with raw values, as in training: the model knows how to scale\n"
        "them. Columns of a table with a header are found by the names they had in training. Instead of a\n"
        "file's name it may be a source as in a run file, to give options with it. On several devices\n"
        "no device needs room for the whole model.\n",
    .examples = "  ringtmp predict model.safetensors t10k-images-idx3-ubyte.gz | head\n"
                "  ringtmp predict model.safetensors new.csv --top 3 --format json\n"
                "  ringtmp predict model.safetensors '{csv: {file: new.txt, header: false}}'\n",
    .operands = {"MODEL.safetensors", "FILE"},
    .args = args,
    .arg_count = sizeof args / sizeof *args,
    .settings_bytes = sizeof(struct settings),
    .run = run_predict,
};
