/* Prints a plan. */
#include "plan/planner.h"

#include "base/sentence.h"
#include <inttypes.h>
#include <string.h>

enum { TEXT = 96, COLUMNS = 9 };

struct row {
    char cell[COLUMNS][TEXT];
};

static const char *const titles[COLUMNS] = {"node",   "device", "layers", "params", "slots",
                                            "memory", "busy",   "idle",   "link"};
static const bool left_side[COLUMNS] = {[1] = true, [2] = true, [8] = true};

/* Characters, not bytes: names may be in UTF-8. */
static size_t print_width(const char *text) {
    size_t width = 0;
    for (; *text; text++)
        width += ((unsigned char)*text & 0xc0) != 0x80;
    return width;
}

/* A name may come from another machine: it must not control the terminal. */
static void print_copy_name(const char *name, char text[TEXT]) {
    size_t i = 0;
    for (; name[i] && i + 1 < TEXT; i++)
        text[i] = (unsigned char)name[i] < 0x20 || name[i] == 0x7f ? '?' : name[i];
    text[i] = 0;
}

static const char *print_count_text(uint64_t count, char text[TEXT]) {
    char digits[32];
    const int length = snprintf(digits, sizeof digits, "%" PRIu64, count);
    char *out = text;
    for (int i = 0; i < length; i++) {
        if (i > 0 && (length - i) % 3 == 0)
            *out++ = ',';
        *out++ = digits[i];
    }
    *out = 0;
    return text;
}

static const char *print_rate_text(double rate, char text[TEXT]) {
    if (rate >= 100 && rate < 1e15)
        return print_count_text((uint64_t)(rate + 0.5), text);
    snprintf(text, TEXT, "%.3g", rate);
    return text;
}

static const char *print_time_text(double seconds, char text[TEXT]) {
    if (seconds < 1e-3)
        snprintf(text, TEXT, "%.0f us", 1e6 * seconds);
    else if (seconds < 1)
        snprintf(text, TEXT, "%.1f ms", 1e3 * seconds);
    else
        snprintf(text, TEXT, "%.2f s", seconds);
    return text;
}

/* "0-3 conv2d..flatten" */
static size_t print_layers_text(const struct rt_model *model, size_t first, size_t count, char *text,
                                size_t room) {
    const char *from = model->layers[first]->type->name, *to = model->layers[first + count - 1]->type->name;
    const int length = count == 1
                           ? snprintf(text, room, "%zu %s", first, from)
                           : snprintf(text, room, "%zu-%zu %s..%s", first, first + count - 1, from, to);
    return length > 0 && (size_t)length < room ? (size_t)length : room - 1;
}

static uint64_t print_params(const struct rt_model *model, size_t first, size_t count) {
    uint64_t params = 0;
    for (size_t i = first; i < first + count; i++)
        params += model->layers[i]->param_count;
    return params;
}

static void print_fill_row(const struct rt_plan *plan, const struct rt_plan_question *question, size_t k,
                           struct row *row) {
    const struct rt_plan_node *node = &plan->node[k];
    const struct rt_model *model = question->model;
    uint64_t params = print_params(model, node->first, node->count);
    char text[TEXT];
    snprintf(row->cell[0], TEXT, "%zu", k);
    print_copy_name(question->devices[node->device].name, row->cell[1]);
    const size_t used = print_layers_text(model, node->first, node->count, row->cell[2], TEXT);
    if (k == 0 && plan->tail && used + 4 < TEXT) {
        const size_t first = plan->layers - plan->tail;
        memcpy(row->cell[2] + used, " + ", 4);
        print_layers_text(model, first, plan->tail, row->cell[2] + used + 3, TEXT - used - 3);
        params += print_params(model, first, plan->tail);
    }
    print_count_text(params, row->cell[3]);
    print_count_text(node->slots, row->cell[4]);
    rt_plan_bytes_text((double)node->memory, row->cell[5]);
    print_time_text(node->busy, row->cell[6]);
    snprintf(row->cell[7], TEXT, "%.1f %%", 100 * node->idle_fraction);
    if (plan->nodes == 1) {
        strcpy(row->cell[8], "none");
        return;
    }
    rt_plan_bytes_text((double)node->link_bytes, row->cell[8]);
    if (node->link_seconds > 0) {
        strcat(row->cell[8], ", ");
        strcat(row->cell[8], print_time_text(node->link_seconds, text));
    }
}

static void print_cells(FILE *out, const char (*cells)[TEXT], const size_t *widths) {
    for (size_t c = 0; c < COLUMNS; c++) {
        const int gap = (int)(widths[c] - print_width(cells[c]));
        if (!left_side[c])
            fprintf(out, "%s%*s%s", c ? "  " : "", gap, "", cells[c]);
        else
            fprintf(out, "%s%s%*s", c ? "  " : "", cells[c], c + 1 < COLUMNS ? gap : 0, "");
    }
    fputc('\n', out);
}

static void print_table(const struct rt_plan *plan, const struct rt_plan_question *question, FILE *out) {
    struct row row;
    size_t widths[COLUMNS];
    for (size_t c = 0; c < COLUMNS; c++)
        widths[c] = print_width(titles[c]);
    for (size_t k = 0; k < plan->nodes; k++) {
        print_fill_row(plan, question, k, &row);
        for (size_t c = 0; c < COLUMNS; c++)
            widths[c] = print_width(row.cell[c]) > widths[c] ? print_width(row.cell[c]) : widths[c];
    }
    for (size_t c = 0; c < COLUMNS; c++)
        strcpy(row.cell[c], titles[c]);
    print_cells(out, (const char(*)[TEXT])row.cell, widths);
    for (size_t k = 0; k < plan->nodes; k++) {
        print_fill_row(plan, question, k, &row);
        print_cells(out, (const char(*)[TEXT])row.cell, widths);
    }
}

/* The names of the devices that lack memory, or of the others, as "pi1, pi2 and pi3"; offers: with the memory
 * that each offers. Returns how many. */
static size_t print_names(const struct rt_plan *plan, const struct rt_plan_question *question, bool lacking,
                          bool offers, FILE *out) {
    size_t count = 0, done = 0;
    for (size_t i = 0; i < plan->left_out_count; i++)
        count += (plan->left_out_needs[i] > 0) == lacking;
    for (size_t i = 0; i < plan->left_out_count; i++) {
        if ((plan->left_out_needs[i] > 0) != lacking)
            continue;
        const struct rt_plan_device *device = &question->devices[plan->left_out[i]];
        char name[TEXT], text[TEXT];
        print_copy_name(device->name, name);
        fprintf(out, "%s%s", done == 0 ? "" : done + 1 < count ? ", " : " and ", name);
        if (offers && count > 1)
            fprintf(out, " (%s)", rt_plan_bytes_text((double)device->memory, text));
        done++;
    }
    return count;
}

static void print_slow(const struct rt_plan *plan, size_t count, FILE *out) {
    char with[TEXT], without[TEXT];
    const char *them = count == 1 ? "it" : "them";
    fputs(count == 1 ? " is left out: " : " are left out: ", out);
    if (plan->with_them > 0)
        fprintf(out, "%s samples/s are predicted without %s, %s with %s",
                print_rate_text(plan->without_them, without), them, print_rate_text(plan->with_them, with),
                them);
    else if (plan->too_large)
        fprintf(
            out,
            "what would pass from one node to the next in micro-batches of %zu does not fit into a message "
            "of %d MiB; take a smaller train.micro_batch",
            plan->micro_batch, RT_MAX_TENSOR_BYTES >> 20);
    else
        fprintf(out, "with %s there is no cut whose parts fit into the memory that is offered",
                count == 1 ? "it" : "all of them");
}

static void print_lacking(const struct rt_plan *plan, const struct rt_plan_question *question, size_t count,
                          FILE *out) {
    char needs[TEXT], offers[TEXT];
    size_t i = 0;
    while (plan->left_out_needs[i] == 0)
        i++;
    rt_plan_bytes_text((double)plan->left_out_needs[i], needs);
    rt_plan_bytes_text((double)question->devices[plan->left_out[i]].memory, offers);
    if (count == 1)
        fprintf(out, " is left out: it offers %s, and the smallest part needs %s", offers, needs);
    else
        fprintf(out, " are left out: the smallest part needs %s, more than each of them offers", needs);
}

void rt_plan_print_left_out(const struct rt_plan *plan, const struct rt_plan_question *question, FILE *out) {
    const size_t slow = print_names(plan, question, false, false, out);
    if (slow)
        print_slow(plan, slow, out);
    if (slow == plan->left_out_count)
        return;
    if (slow)
        fputs("; ", out);
    print_lacking(plan, question, print_names(plan, question, true, true, out), out);
}

/* The gain from the other devices. */
static void print_gain(const struct rt_plan *plan, FILE *out) {
    const size_t devices = plan->nodes * (plan->rings > 1 ? plan->rings : 1);
    char one[TEXT], all[TEXT], threads[TEXT] = "";
    if (devices == 1 || plan->alone < 0)
        return;
    if (plan->alone_threads)
        snprintf(threads, sizeof threads, ", on %zu thread%s", plan->alone_threads,
                 plan->alone_threads == 1 ? "" : "s");
    if (plan->alone > 0)
        fprintf(out, "One device alone%s: %s samples/s; these %zu: %s%s, %.*f x.\n", threads,
                print_rate_text(plan->alone, one), devices, plan->crowded ? "at most " : "",
                print_rate_text(plan->samples_per_s, all), plan->samples_per_s < plan->alone ? 2 : 1,
                plan->samples_per_s / plan->alone);
    else
        fprintf(out, "The model does not fit on the master alone.\n");
}

void rt_plan_print(const struct rt_plan *plan, const struct rt_plan_question *question, FILE *out) {
    char text[TEXT];
    print_table(plan, question, out);
    fprintf(out, "Predicted: %s%s samples/s, %.1f %% idle; ", plan->crowded ? "at most " : "",
            print_rate_text(plan->samples_per_s, text), 100 * plan->idle_fraction);
    fprintf(out, "an update is %s of %s%zu.\n", RT_COUNTED(plan->micros, "micro-batch"),
            plan->micros * plan->micro_batch > (size_t)question->job->batch ? "at most " : "",
            plan->micro_batch);
    print_gain(plan, out);
    if (plan->crowded)
        fputs("There are more processes than cores here, and each was measured alone: expect less.\n", out);
    if (plan->left_out_count) {
        rt_plan_print_left_out(plan, question, out);
        fputs(".\n", out);
    }
}
