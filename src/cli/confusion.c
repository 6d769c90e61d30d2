#include "cli/confusion.h"
#include "base/memory.h"
#include "cli/fit.h"
#include "cli/text.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { ALL_UP_TO = 20, WORST = 10, MAX_NAME = 24 };

/* One class of the table. */
struct row {
    size_t class;
    uint64_t examples, right;
    uint64_t wrong; /* examples taken for `taken_for`, the most frequent mistake */
    size_t taken_for;
};

static struct row confusion_measure(const struct rt_evaluation *evaluation, size_t class) {
    const uint64_t *said = evaluation->confusion + class * evaluation->classes;
    struct row row = {.class = class, .right = said[class]};
    for (size_t s = 0; s < evaluation->classes; s++) {
        row.examples += said[s];
        if (s != class && said[s] > row.wrong) {
            row.wrong = said[s];
            row.taken_for = s;
        }
    }
    return row;
}

static double confusion_recall(const struct row *row) {
    return row->examples ? (double)row->right / (double)row->examples
                         : 2; /* 2: nothing to judge by, comes last */
}

static int confusion_by_recall(const void *a, const void *b) {
    const struct row *x = a, *y = b;
    double difference = confusion_recall(x) - confusion_recall(y);
    return difference < 0 ? -1 : difference > 0 ? 1 : x->class < y->class ? -1 : 1;
}

static void confusion_print_row(FILE *out, const struct rt_evaluation *evaluation, const struct row *row,
                                size_t width) {
    fputs("  ", out);
    rt_text_column(out, evaluation->class_names[row->class], width);
    if (row->examples)
        fprintf(out, "  %8" PRIu64 "  %10.4f", row->examples, confusion_recall(row));
    else
        fprintf(out, "  %8d  %10s", 0, "-");
    if (row->wrong) {
        fputs("  ", out);
        rt_text_print(out, evaluation->class_names[row->taken_for]);
        fprintf(out, " (%.1f %%)", 100 * (double)row->wrong / (double)row->examples);
    }
    fputc('\n', out);
}

static void confusion_print_all(FILE *out, const struct rt_evaluation *evaluation) {
    size_t classes = evaluation->classes, shown = classes <= ALL_UP_TO ? classes : WORST,
           width = strlen("class");
    struct row *rows;
    if (classes < 2 || rt_alloc(classes, sizeof *rows, "the confusion table", &rows, NULL) != RT_OK)
        return;
    struct row worst = {.wrong = 0};
    for (size_t c = 0; c < classes; c++) {
        rows[c] = confusion_measure(evaluation, c);
        if (rows[c].wrong > worst.wrong)
            worst = rows[c];
    }
    if (shown < classes) {
        qsort(rows, classes, sizeof *rows, confusion_by_recall);
        fprintf(out, "the %zu of %zu classes that are recognised least:\n", shown, classes);
    }
    for (size_t i = 0; i < shown; i++) {
        size_t length = rt_text_width(evaluation->class_names[rows[i].class]);
        width = length > width ? length : width;
    }
    width = width < MAX_NAME ? width : MAX_NAME;
    fprintf(out, "  %-*s  %8s  %10s  %s\n", (int)width, "class", "examples", "recognised",
            "most often taken for");
    for (size_t i = 0; i < shown; i++)
        confusion_print_row(out, evaluation, &rows[i], width);
    if (worst.wrong) {
        fputs("most frequent confusion: ", out);
        rt_text_print(out, evaluation->class_names[worst.class]);
        fputs(" taken for ", out);
        rt_text_print(out, evaluation->class_names[worst.taken_for]);
        fprintf(out, ", %" PRIu64 " of %" PRIu64 "\n", worst.wrong, worst.examples);
    }
    free(rows);
}

void rt_confusion_print(FILE *out, const struct rt_evaluation *evaluation) {
    char *text = NULL;
    size_t bytes;
    FILE *made = open_memstream(&text, &bytes);
    if (!made)
        return;
    confusion_print_all(made, evaluation);
    if (fclose(made) == 0)
        rt_fit_print(out, text, rt_fit_width(), false);
    free(text);
}
