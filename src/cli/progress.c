#include "cli/progress.h"
#include "base/cores.h"
#include "base/sentence.h"
#include "cli/commands.h"
#include "cli/fit.h"
#include "cli/node_table.h"
#include "cli/text.h"
#include "run/run.h"
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_LINE = 512, MAX_BAR = 32, MIN_BAR = 6, USUAL_WIDTH = 80, USUAL_ROWS = 24, SCREEN_BYTES = 1 << 16 };
enum { ECHO = 3 }; /* columns left free at the end of the line that the cursor stays in: for a ^C */

void rt_display_init(struct rt_display *display, const struct rt_run *run, bool quiet) {
    const char *kind = getenv("TERM"), *no_colour = getenv("NO_COLOR");
    bool terminal = isatty(STDOUT_FILENO) && kind && *kind && strcmp(kind, "dumb") != 0;
    /* A table is written with one call, so that other output, such as the terminal's ^C, does not end up in
     * its middle. */
    if (terminal)
        setvbuf(stdout, NULL, _IOFBF, SCREEN_BYTES);
    *display = (struct rt_display){
        .run = run,
        .out = stdout,
        .quiet = quiet,
        .terminal = terminal,
        .colour = terminal && !(no_colour && *no_colour),
    };
}

void rt_display_clear(struct rt_display *display) {
    if (display->drawn) {
        fputc('\r', display->out);
        if (display->lines)
            fprintf(display->out, "\033[%zuA", display->lines);
        fputs("\033[J", display->out);
        fflush(display->out);
    }
    display->drawn = false;
    display->lines = 0;
}

void rt_display_keep(struct rt_display *display, bool below) {
    if (display->drawn && !below)
        fputc('\n', display->out);
    fflush(display->out);
    display->kept = true;
    display->drawn = false;
    display->lines = 0;
}

void rt_display_notice(void *user, const char *sentence) {
    struct rt_display *display = user;
    if (display->quiet)
        return;
    rt_display_clear(display);
    rt_print_notice(NULL, sentence);
}

/* ---- lines ---- */

/* A line under construction; text that does not fit is dropped. */
struct line {
    char text[MAX_LINE];
    size_t used;
};

static void progress_add(struct line *line, const char *format, ...) RT_PRINTF(2, 3);
static void progress_add(struct line *line, const char *format, ...) {
    va_list args;
    va_start(args, format);
    int more = vsnprintf(line->text + line->used, sizeof line->text - line->used, format, args);
    va_end(args);
    line->used += more > 0 ? (size_t)more : 0;
    if (line->used >= sizeof line->text)
        line->used = sizeof line->text - 1;
}

/* Loss, accuracy, speed and time left, if they are meaningful; each is preceded by gap. */
static void progress_add_figures(struct line *line, const struct rt_progress *progress, const char *gap,
                                 bool brief) {
    char text[RT_TEXT];
    if (isfinite(progress->loss))
        progress_add(line, "%sloss %s", gap, rt_text_measure(progress->loss, text));
    if (isfinite(progress->accuracy))
        progress_add(line, "%s%s %.4f", gap, brief ? "acc" : "accuracy", progress->accuracy);
    if (isfinite(progress->samples_per_s) && progress->samples_per_s > 0)
        progress_add(line, "%s%s%s", gap, rt_text_rate(progress->samples_per_s, text),
                     brief ? "/s" : " samples/s");
    if (isfinite(progress->seconds_left) && progress->update < progress->updates)
        progress_add(line, "%s%s left", gap, rt_text_time(progress->seconds_left, text));
}

static double progress_share_done(const struct rt_progress *progress) {
    double share = progress->updates ? (double)progress->update / (double)progress->updates : 0;
    return share < 0 ? 0 : share > 1 ? 1 : share;
}

/* ---- tables ---- */

void rt_display_nodes(struct rt_display *display) {
    char *table = rt_node_table(display->run, true, SIZE_MAX);
    if (table && !display->quiet)
        rt_fit_print(display->out, table, rt_fit_width(), false);
    free(table);
}

/* ---- the redrawn lines ---- */

static void progress_put_bar(const struct rt_display *display, size_t width, double share) {
    size_t full = (size_t)(share * (double)width);
    fputs(display->colour ? "[\033[36m" : "[", display->out);
    for (size_t i = 0; i < width; i++) {
        if (i == full && display->colour)
            fputs("\033[0m", display->out);
        fputc(i < full ? '#' : '.', display->out);
    }
    fputs(display->colour ? "\033[0m]" : "]", display->out);
}

/* The bar takes the room that the figures leave; on a narrow screen their words are shortened, then the bar
 * is dropped, then the line is cut before the edge, where terminals would wrap. */
static void progress_draw(struct rt_display *display, const struct rt_progress *progress) {
    size_t columns, rows;
    rt_fit_screen(&columns, &rows);
    columns = columns < MAX_LINE ? columns : USUAL_WIDTH;
    rows = rows < MAX_LINE ? rows : USUAL_ROWS;
    struct line left = {.used = 0}, right = {.used = 0};
    double share = progress_share_done(progress);
    if (progress->updates) {
        progress_add(&left, "epoch %" PRIu64 "/%" PRIu64 " ", progress->epoch, progress->epochs);
        progress_add(&right, " %3d %%", (int)(share * 100));
    } else {
        progress_add(&left, "update %" PRIu64 " ", progress->update);
    }
    size_t percent = right.used, width = columns > ECHO ? columns - ECHO : 0, bar = 0;
    for (int brief = 0; brief <= 1 && bar < MIN_BAR; brief++) {
        right.used = percent;
        progress_add_figures(&right, progress, "  ", brief);
        size_t used = left.used + right.used + 2;
        bar = width > used ? width - used : 0;
    }
    rt_display_clear(display);
    /* Lines above the screen could not be redrawn. */
    char *table = rt_node_table(display->run, false, rows - 1);
    display->lines = table ? rt_fit_print(display->out, table, columns - 1, true) : 0;
    free(table);
    fprintf(display->out, "%.*s", (int)width, left.text);
    if (bar >= MIN_BAR && progress->updates)
        progress_put_bar(display, bar < MAX_BAR ? bar : MAX_BAR, share);
    if (width > left.used)
        fprintf(display->out, "%.*s", (int)(width - left.used), right.text);
    fputs("\033[K", display->out);
    display->drawn = true;
}

/* ---- reports ---- */

static void progress_print_start(struct rt_display *display, const struct rt_progress *progress) {
    const struct rt_run_facts *facts = rt_run_facts(display->run);
    display->begun = true;
    if (!facts)
        return;
    char a[RT_TEXT], b[RT_TEXT], c[RT_TEXT];
    rt_text_print(display->out, facts->name);
    fprintf(display->out, ": %s parameter%s, ", rt_text_count(facts->params, a),
            facts->params == 1 ? "" : "s");
    if (facts->train_examples)
        fprintf(display->out, "%s training examples", rt_text_count(facts->train_examples, b));
    else
        fputs("a stream of training examples", display->out);
    if (facts->validation_examples)
        fprintf(display->out, ", %s for validation", rt_text_count(facts->validation_examples, c));
    if (facts->test_examples)
        fprintf(display->out, ", %s for the test", rt_text_count(facts->test_examples, c));
    fprintf(display->out, "\n%s with %s, batches of %zu; %s on %zu %s", facts->loss, facts->optimizer,
            facts->batch, facts->kernels, facts->threads, facts->threads == 1 ? "thread" : "threads");
    const double quota = rt_cores_quota("");
    if (quota > 0)
        fprintf(display->out, "; a CPU quota grants %.3g cores", quota);
    fputc('\n', display->out);
    if (rt_run_plan(display->run))
        rt_fit_print(display->out, rt_run_plan(display->run), rt_fit_width(), false);
    if (facts->resumed_update)
        fprintf(display->out, "resumed after update %s\n", rt_text_count(facts->resumed_update, a));
    if (progress->updates && facts->resumed_update > progress->updates)
        fprintf(display->out,
                "that is more than the %s updates (%s) asked for now: nothing is left to train\n",
                rt_text_count(progress->updates, a), RT_COUNTED(progress->epochs, "epoch"));
}

/* A run without validation data reports its test data instead. */
static void progress_print_validation(struct rt_display *display, const struct rt_progress *progress) {
    const struct rt_run_facts *facts = rt_run_facts(display->run);
    const char *data = facts && facts->validation_examples == 0 ? "test" : "validation";
    char text[RT_TEXT];
    rt_display_clear(display);
    fprintf(display->out, "epoch %" PRIu64 ", update %" PRIu64 ": %s loss %s", progress->epoch,
            progress->update, data, rt_text_measure(progress->validation_loss, text));
    if (isfinite(progress->validation_accuracy))
        fprintf(display->out, ", accuracy %.4f", progress->validation_accuracy);
    fputc('\n', display->out);
}

void rt_display_progress(void *user, const struct rt_progress *progress) {
    struct rt_display *display = user;
    if (display->quiet)
        return;
    if (!display->begun)
        progress_print_start(display, progress);
    if (display->terminal && !display->kept) {
        if (progress->validated)
            progress_print_validation(display, progress);
        progress_draw(display, progress);
    } else if (!display->terminal && isfinite(progress->loss) && progress->samples_per_s > 0) {
        struct line line = {.used = 0};
        if (progress->updates)
            progress_add(&line, "epoch %" PRIu64 "/%" PRIu64 ", update %" PRIu64 "/%" PRIu64 " (%d %%)",
                         progress->epoch, progress->epochs, progress->update, progress->updates,
                         (int)(progress_share_done(progress) * 100));
        else
            progress_add(&line, "update %" PRIu64 ", %" PRIu64 " examples", progress->update,
                         progress->samples);
        progress_add_figures(&line, progress, ", ", false);
        fprintf(display->out, "%s\n", line.text);
    }
    if (!display->terminal && progress->validated)
        progress_print_validation(display, progress);
    fflush(display->out);
}
