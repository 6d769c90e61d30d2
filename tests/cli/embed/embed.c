/*
 * A program that embeds RingTMP: it knows the public header and nothing else. Loads a run file, trains, reads
 * the loss, predicts, and does the same again from the model file. tests/cli/test_install.sh builds it
 * outside the tree against an installed library.
 *
 *     embed RUN.yaml OUT-DIRECTORY
 */
#include <ringtmp/ringtmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 3 };

static void show(void *user, const struct rt_progress *progress) {
    unsigned *reports = user;
    (*reports)++;
    printf("update %llu of %llu: loss %.4f\n", (unsigned long long)progress->update,
           (unsigned long long)progress->updates, progress->loss);
}

static int fail(const char *what, const struct rt_error *err) {
    fprintf(stderr, "%s: %s\n", what, err->text);
    return 1;
}

/* Outputs for ROWS examples that are one class each in the table the test makes. */
static int predict(struct rt_run *run, float *outputs, struct rt_error *err) {
    size_t in = rt_run_input_size(run), out = rt_run_output_size(run);
    float *inputs = malloc(ROWS * in * sizeof *inputs);
    if (!inputs)
        return 1;
    for (size_t i = 0; i < ROWS; i++)
        for (size_t j = 0; j < in; j++)
            inputs[i * in + j] = j % out == i % out ? 150.0f : 60.0f;
    rt_status status = rt_run_predict(run, inputs, ROWS, outputs, err);
    free(inputs);
    return status != RT_OK;
}

/* A NULL is an answer, not a crash. */
static int refuse_null(const char *path) {
    struct rt_error err;
    struct rt_run *run = NULL;
    float number = 0;
    if (rt_run_open(NULL, &run, &err) != RT_BAD_INPUT || rt_run_open(path, NULL, &err) != RT_BAD_INPUT ||
        rt_run_load(NULL, &run, &err) != RT_BAD_INPUT || rt_run_load("model", NULL, &err) != RT_BAD_INPUT ||
        rt_run_set(NULL, "train.epochs", "1", &err) != RT_BAD_INPUT ||
        rt_run_set_out(NULL, "out", &err) != RT_BAD_INPUT ||
        rt_run_train(NULL, NULL, NULL, &err) != RT_BAD_INPUT ||
        rt_run_predict(NULL, &number, 1, &number, &err) != RT_BAD_INPUT || rt_run_result(NULL) ||
        rt_run_input_size(NULL) || rt_run_output_size(NULL) || rt_run_class_name(NULL, 0))
        return fail("a NULL should be refused", &err);
    rt_run_set_resume(NULL, 1);
    rt_run_stop(NULL);
    rt_run_close(NULL);
    if (rt_run_open(path, &run, NULL) != RT_OK)
        return fail("err may be NULL", &err);
    if (rt_run_set(run, NULL, "1", &err) != RT_BAD_INPUT ||
        rt_run_set(run, "train.epochs", NULL, &err) != RT_BAD_INPUT ||
        rt_run_set_out(run, NULL, &err) != RT_BAD_INPUT ||
        rt_run_predict(run, NULL, 1, &number, &err) != RT_BAD_INPUT ||
        rt_run_predict(run, &number, 1, NULL, &err) != RT_BAD_INPUT ||
        strcmp(err.text, "rt_run_predict: outputs must not be NULL") != 0 ||
        rt_run_set(run, "train.epocks", "1", NULL) != RT_BAD_INPUT)
        return fail("a NULL should be refused", &err);
    rt_run_close(run);
    return 0;
}

int main(int argc, char **argv) {
    if (argc != 3)
        return 2;
    struct rt_error err;
    struct rt_run *run, *loaded;
    unsigned reports = 0;

    /* What goes wrong comes back as a sentence, never as an exit. */
    if (rt_run_open("no such file.yaml", &run, &err) == RT_OK || !strstr(err.text, "no such file.yaml"))
        return fail("a missing file should be refused by name", &err);

    if (refuse_null(argv[1]))
        return 1;

    if (rt_run_open(argv[1], &run, &err) != RT_OK)
        return fail("open", &err);
    if (rt_run_set(run, "train.epochs", "12", &err) != RT_OK || rt_run_set_out(run, argv[2], &err) != RT_OK)
        return fail("set", &err);
    /* Sentences name functions and keys; options of the command are not known here. */
    if (rt_run_set(run, "train.epocks", "1", &err) != RT_BAD_INPUT ||
        strncmp(err.text, "rt_run_set: ", 12) != 0)
        return fail("an unknown key should be refused", &err);
    if (rt_run_result(run))
        return fail("there is no result before training", &err);
    if (rt_run_train(run, show, &reports, &err) != RT_OK)
        return fail("train", &err);

    const struct rt_result *result = rt_run_result(run);
    printf("loss %.6f, accuracy %.3f, %llu updates, sha256 %s\n", result->train_loss, result->test_accuracy,
           (unsigned long long)result->updates, result->params_sha256);
    if (!(result->train_loss < 0.5) || !(result->test_accuracy > 0.9) || reports == 0)
        return fail("the run did not learn", &err);

    size_t out = rt_run_output_size(run);
    float *first = malloc(ROWS * out * sizeof *first), *second = malloc(ROWS * out * sizeof *second);
    if (!first || !second || predict(run, first, &err))
        return fail("predict", &err);
    for (size_t i = 0; i < ROWS; i++) {
        size_t best = 0;
        for (size_t j = 1; j < out; j++)
            if (first[i * out + j] > first[i * out + best])
                best = j;
        printf("example %zu: class %s with probability %.3f\n", i, rt_run_class_name(run, best),
               (double)first[i * out + best]);
        if (best != i % out)
            return fail("a wrong prediction", &err);
    }

    /* The directory is in use now. */
    if (rt_run_train(run, NULL, NULL, &err) != RT_BAD_INPUT || !strstr(err.text, "rt_run_set_resume") ||
        strstr(err.text, "--"))
        return fail("a directory that is not empty should be refused", &err);

    char model[4096];
    snprintf(model, sizeof model, "%s/model.safetensors", result->out_dir);
    if (rt_run_load(model, &loaded, &err) != RT_OK || predict(loaded, second, &err))
        return fail("load and predict", &err);
    if (memcmp(first, second, ROWS * out * sizeof *first) != 0)
        return fail("the loaded model predicts something else", &err);

    /* The same without any file: the model is in memory. */
    struct rt_run *fileless;
    if (rt_run_open(argv[1], &fileless, &err) != RT_OK ||
        rt_run_set(fileless, "train.epochs", "12", &err) != RT_OK ||
        rt_run_set_out(fileless, "none", &err) != RT_OK ||
        rt_run_train(fileless, NULL, NULL, &err) != RT_OK || predict(fileless, second, &err))
        return fail("train and predict without files", &err);
    if (memcmp(first, second, ROWS * out * sizeof *first) != 0 || rt_run_result(fileless)->out_dir)
        return fail("a run without files gives another model", &err);

    free(first);
    free(second);
    rt_run_close(fileless);
    rt_run_close(loaded);
    rt_run_close(run);
    return 0;
}
