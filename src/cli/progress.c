#include "cli/progress.h"
#include "cli/text.h"
#include "train/run.h"
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { MAX_LINE = 512, MAX_BAR = 32, MIN_BAR = 6, USUAL_WIDTH = 80 };

void rt_display_init(struct rt_display *display, const struct rt_run *run, bool quiet) {
    const char *kind = getenv("TERM"), *no_colour = getenv("NO_COLOR");
    bool terminal = isatty(STDOUT_FILENO) && kind && *kind && strcmp(kind, "dumb") != 0;
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

void rt_display_notice(void *user, const char *sentence) {
    struct rt_display *display = user;
    if (display->quiet)
        return;
    rt_display_clear(display);
    fputs("ringtmp: note: ", stderr);
    rt_text_sentence(stderr, sentence);
    fputc('\n', stderr);
}

/* ---- lines ---- */

/* A line under construction; what does not fit is left off. */
struct line {
    char text[MAX_LINE];
    size_t used;
};

static void add(struct line *line, const char *format, ...) RT_PRINTF(2, 3);
static void add(struct line *line, const char *format, ...) {
    va_list args;
    va_start(args, format);
    int more = vsnprintf(line->text + line->used, sizeof line->text - line->used, format, args);
    va_end(args);
    line->used += more > 0 ? (size_t)more : 0;
    if (line->used >= sizeof line->text)
        line->used = sizeof line->text - 1;
}

/* Loss, accuracy, speed and time left, as far as they mean something; gap stands before each. */
static void add_figures(struct line *line, const struct rt_progress *progress, const char *gap, bool brief) {
    char text[RT_TEXT];
    if (isfinite(progress->loss))
        add(line, "%sloss %s", gap, rt_text_measure(progress->loss, text));
    if (isfinite(progress->accuracy))
        add(line, "%s%s %.4f", gap, brief ? "acc" : "accuracy", progress->accuracy);
    if (isfinite(progress->samples_per_s) && progress->samples_per_s > 0)
        add(line, "%s%s%s", gap, rt_text_rate(progress->samples_per_s, text), brief ? "/s" : " samples/s");
    if (isfinite(progress->seconds_left) && progress->update < progress->updates)
        add(line, "%s%s left", gap, rt_text_time(progress->seconds_left, text));
}

static double share_done(const struct rt_progress *progress) {
    double share = progress->updates ? (double)progress->update / (double)progress->updates : 0;
    return share < 0 ? 0 : share > 1 ? 1 : share;
}

/* ---- the table of devices ---- */

static void add_percent(struct line *line, double fraction) {
    if (isfinite(fraction))
        add(line, "%8.1f", 100 * fraction);
    else
        add(line, "%8s", "-");
}

static void put_node(const struct rt_display *display, size_t node, const struct rt_node_view *view,
                     bool final, size_t width) {
    struct line line = {.used = 0};
    char layers[RT_TEXT] = "-", rate[RT_TEXT]; /* a server without a worker has none */
    int length = view->count == 0
                     ? 1
                     : snprintf(layers, sizeof layers, "%zu-%zu", view->first, view->first + view->count - 1);
    if (view->tail)
        snprintf(layers + length, sizeof layers - (size_t)length, " +%zu", view->tail);
    add(&line, "%4zu  %-16.16s %9s %10s", node, view->name, layers,
        isfinite(view->samples_per_s) ? rt_text_rate(view->samples_per_s, rate) : "-");
    add_percent(&line, view->idle_fraction);
    if (final)
        add_percent(&line, view->predicted_idle);
    else
        add(&line, "%7" PRIu64, view->queue);
    add(&line, "%9.1f", isfinite(view->bytes_per_s) ? view->bytes_per_s / 1e6 : 0.0);
    if (final)
        add(&line, "%9.1f", (double)view->peak_memory / 1e6);
    if (final && view->predicted_memory)
        add(&line, "%9.1f", (double)view->predicted_memory / 1e6);
    else if (final)
        add(&line, "%9s", "-");
    fprintf(display->out, "%.*s\n", (int)width, line.text);
}

/* Returns how many lines it took. */
static size_t put_nodes(const struct rt_display *display, bool final, size_t width) {
    const struct rt_node_view *views;
    const size_t count = rt_run_nodes(display->run, &views);
    if (count == 0)
        return 0;
    struct line head = {.used = 0};
    add(&head, "%4s  %-16s %9s %10s%8s", "node", "", "layers", "samples/s", "idle %");
    if (final)
        add(&head, "%8s%9s%9s%9s", "planned", "MB/s", "MB used", "planned");
    else
        add(&head, "%7s%9s", "queue", "MB/s");
    fprintf(display->out, "%.*s\n", (int)width, head.text);
    for (size_t i = 0; i < count; i++)
        put_node(display, i, &views[i], final, width);
    return count + 1;
}

void rt_display_nodes(struct rt_display *display, bool final) {
    if (!display->quiet)
        put_nodes(display, final, MAX_LINE - 1);
}

/* ---- the redrawn lines ---- */

static size_t terminal_width(void) {
    struct winsize size;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
        return size.ws_col;
    return USUAL_WIDTH;
}

static void put_bar(const struct rt_display *display, size_t width, double share) {
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
 * goes, then the line is cut, one column short of the edge, where terminals would wrap. */
static void draw(struct rt_display *display, const struct rt_progress *progress) {
    struct line left = {.used = 0}, right = {.used = 0};
    double share = share_done(progress);
    if (progress->updates) {
        add(&left, "epoch %" PRIu64 "/%" PRIu64 " ", progress->epoch, progress->epochs);
        add(&right, " %3d %%", (int)(share * 100));
    } else {
        add(&left, "update %" PRIu64 " ", progress->update);
    }
    size_t percent = right.used, width = terminal_width() - 1, bar = 0;
    for (int brief = 0; brief <= 1 && bar < MIN_BAR; brief++) {
        right.used = percent;
        add_figures(&right, progress, "  ", brief);
        size_t used = left.used + right.used + 2;
        bar = width > used ? width - used : 0;
    }
    rt_display_clear(display);
    display->lines = put_nodes(display, false, width);
    fprintf(display->out, "%.*s", (int)width, left.text);
    if (bar >= MIN_BAR && progress->updates)
        put_bar(display, bar < MAX_BAR ? bar : MAX_BAR, share);
    if (width > left.used)
        fprintf(display->out, "%.*s", (int)(width - left.used), right.text);
    fputs("\033[K", display->out);
    display->drawn = true;
}

/* ---- reports ---- */

static void print_start(struct rt_display *display, const struct rt_progress *progress) {
    const struct rt_run_facts *facts = rt_run_facts(display->run);
    display->begun = true;
    if (!facts)
        return;
    char a[RT_TEXT], b[RT_TEXT], c[RT_TEXT];
    rt_text_print(display->out, facts->name);
    fprintf(display->out, ": %s parameters, ", rt_text_count(facts->params, a));
    if (facts->train_examples)
        fprintf(display->out, "%s training examples", rt_text_count(facts->train_examples, b));
    else
        fputs("a stream of training examples", display->out);
    if (facts->validation_examples)
        fprintf(display->out, ", %s for validation", rt_text_count(facts->validation_examples, c));
    if (facts->test_examples)
        fprintf(display->out, ", %s for the test", rt_text_count(facts->test_examples, c));
    fprintf(display->out, "\n%s with %s, batches of %zu; %s on %zu %s\n", facts->loss, facts->optimizer,
            facts->batch, facts->kernels, facts->threads, facts->threads == 1 ? "thread" : "threads");
    if (rt_run_plan(display->run))
        fputs(rt_run_plan(display->run), display->out);
    if (facts->resumed_update)
        fprintf(display->out, "resumed after update %s\n", rt_text_count(facts->resumed_update, a));
    if (progress->updates && facts->resumed_update > progress->updates)
        fprintf(display->out,
                "that is more than the %s updates (%" PRIu64
                " epochs) asked for now: nothing is left to train\n",
                rt_text_count(progress->updates, a), progress->epochs);
}

/* A run without validation data is judged by its test data on the way. */
static void print_validation(struct rt_display *display, const struct rt_progress *progress) {
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
        print_start(display, progress);
    if (display->terminal) {
        if (progress->validated)
            print_validation(display, progress);
        draw(display, progress);
    } else if (isfinite(progress->loss) && progress->samples_per_s > 0) {
        struct line line = {.used = 0};
        if (progress->updates)
            add(&line, "epoch %" PRIu64 "/%" PRIu64 ", update %" PRIu64 "/%" PRIu64 " (%d %%)",
                progress->epoch, progress->epochs, progress->update, progress->updates,
                (int)(share_done(progress) * 100));
        else
            add(&line, "update %" PRIu64 ", %" PRIu64 " examples", progress->update, progress->samples);
        add_figures(&line, progress, ", ", false);
        fprintf(display->out, "%s\n", line.text);
    }
    if (!display->terminal && progress->validated)
        print_validation(display, progress);
    fflush(display->out);
}
