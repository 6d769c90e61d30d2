#include "cli/node_table.h"

#include "cli/text.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST_NAME = 24 };

static void node_table_put_figure(FILE *out, int width, double figure) {
    if (isfinite(figure))
        fprintf(out, "  %*.1f", width, figure);
    else
        fprintf(out, "  %*s", width, "-");
}

static void node_table_put_node(FILE *out, size_t node, const struct rt_node_view *view, size_t name,
                                bool final) {
    char layers[2 * RT_TEXT] = "-", rate[RT_TEXT]; /* a server without a worker has none */
    int length = view->count == 0
                     ? 1
                     : snprintf(layers, sizeof layers, "%zu-%zu", view->first, view->first + view->count - 1);
    if (view->tail)
        snprintf(layers + length, sizeof layers - (size_t)length, " +%zu", view->tail);
    fprintf(out, "%4zu  ", node);
    rt_text_column(out, view->name, name);
    fprintf(out, "  %8s  %9s", layers,
            isfinite(view->samples_per_s) ? rt_text_rate(view->samples_per_s, rate) : "-");
    node_table_put_figure(out, 6, 100 * view->idle_fraction);
    if (final)
        node_table_put_figure(out, 7, 100 * view->predicted_idle);
    else
        fprintf(out, "  %5" PRIu64, view->queue);
    node_table_put_figure(out, 7, isfinite(view->bytes_per_s) ? view->bytes_per_s / 1e6 : 0.0);
    if (final) {
        node_table_put_figure(out, 7, (double)view->peak_memory / 1e6);
        node_table_put_figure(out, 7,
                              view->predicted_memory ? (double)view->predicted_memory / 1e6 : (double)NAN);
    }
    fputc('\n', out);
}

char *rt_node_table(const struct rt_run *run, bool final, size_t most) {
    const struct rt_node_view *views;
    const size_t count = rt_run_nodes(run, &views);
    const size_t shown = count < most ? count : most > 3 ? most - 2 : 1;
    char *text = NULL;
    size_t bytes, name = 1;
    FILE *out = count ? open_memstream(&text, &bytes) : NULL;
    if (!out)
        return NULL;
    for (size_t i = 0; i < count; i++) {
        const size_t width = rt_text_width(views[i].name);
        name = width > name ? width : name;
    }
    name = name < MOST_NAME ? name : MOST_NAME;
    fprintf(out, "node  %-*s  %8s  %9s  %6s", (int)name, "", "layers", "samples/s", "idle %");
    if (final)
        fprintf(out, "  %7s  %7s  %7s  %7s\n", "planned", "MB/s", "MB used", "planned");
    else
        fprintf(out, "  %5s  %7s\n", "queue", "MB/s");
    for (size_t i = 0; i < shown; i++)
        node_table_put_node(out, i, &views[i], name, final);
    if (shown < count)
        fprintf(out, "      and %zu more\n", count - shown);
    if (fclose(out) == 0)
        return text;
    free(text);
    return NULL;
}
