/* ringtmp list: what exists, from the library's own tables. */
#include "base/option.h"
#include "cli/commands.h"
#include "formats/runfile.h"
#include "nn/layer.h"
#include "nn/loss.h"
#include "optim/optim.h"
#include "optim/schedule.h"
#include "run/strategy.h"
#include <string.h>

/* Words joined by commas, in lines of at most so many columns. */
enum { COLUMNS = 100 };

static size_t list_put_word(FILE *out, size_t column, const char *indent, const char *word, const char *end) {
    const size_t length = strlen(word) + strlen(end);
    if (column > strlen(indent) && column + 1 + length > COLUMNS) {
        fprintf(out, "\n%s", indent);
        column = strlen(indent);
    } else if (column > strlen(indent)) {
        fputc(' ', out);
        column++;
    }
    fprintf(out, "%s%s", word, end);
    return column + length;
}

static void list_put_taxonomy(FILE *out, const struct rt_taxonomy *taxonomy) {
    const char *const words[][2] = {{"parallelism", taxonomy->parallelism},
                                    {"optimization", taxonomy->optimization},
                                    {"scheduling", taxonomy->scheduling},
                                    {"exchange", taxonomy->exchange},
                                    {"topology", taxonomy->topology}};
    enum { WORDS = sizeof words / sizeof *words };
    size_t column = 4;
    fputs("    ", out);
    for (size_t i = 0; i < WORDS; i++) {
        char text[160];
        snprintf(text, sizeof text, "%s: %s", words[i][0], words[i][1]);
        column = list_put_word(out, column, "    ", text, i + 1 < WORDS ? ";" : "");
    }
    fputc('\n', out);
}

static void list_put_systems(FILE *out, const char *strategy) {
    size_t count, left = 0, column = 4;
    const struct rt_system *systems = rt_systems(&count);
    for (size_t i = 0; i < count; i++)
        left += strcmp(systems[i].strategy, strategy) == 0;
    if (!left)
        return;
    fputs("    ", out);
    column = list_put_word(out, column, "    ", "systems, as:NAME:", "");
    for (size_t i = 0; i < count; i++) {
        if (strcmp(systems[i].strategy, strategy) != 0)
            continue;
        char text[160];
        const char *options = systems[i].options, *without = systems[i].without;
        const bool more = *options || without;
        snprintf(text, sizeof text, "%s%s%s%s%s%s%s", systems[i].name, more ? " (" : "", options,
                 *options && without ? "; " : "", without ? "without " : "", without ? without : "",
                 more ? ")" : "");
        column = list_put_word(out, column, "    ", text, --left ? "," : "");
    }
    fputc('\n', out);
}

/* For a strategy that exchanges by another one: the options of that one which can be given too. */
static void list_put_inner(FILE *out, const struct rt_exchange_strategy *strategy) {
    char left_out[80] = "";
    for (const struct rt_exchange_without *one = strategy->without; one && one->option; one++) {
        const size_t used = strlen(left_out);
        snprintf(left_out + used, sizeof left_out - used, "%s%s",
                 !used           ? ""
                 : one[1].option ? ", "
                                 : " and ",
                 one->option);
    }
    fprintf(out, "      and the options of that exchange%s%s\n", *left_out ? ", but for " : "", left_out);
}

static void list_strategies(FILE *out) {
    for (const struct rt_strategy *const *strategy = rt_strategies(); *strategy; strategy++) {
        size_t count;
        const struct rt_option *options = rt_strategy_options(*strategy, &count);
        fprintf(out, "%s: %s\n", (*strategy)->name, rt_strategy_help(*strategy));
        list_put_taxonomy(out, rt_strategy_place(*strategy));
        list_put_systems(out, (*strategy)->name);
        rt_options_help(out, options, count, "      ");
        if ((*strategy)->exchange && (*strategy)->exchange->inner)
            list_put_inner(out, (*strategy)->exchange);
    }
}

static void list_layers(FILE *out) {
    for (const struct rt_layer_type *const *type = rt_layer_types(); *type; type++) {
        fprintf(out, "%s: %s\n", (*type)->name, (*type)->help);
        rt_options_help(out, (*type)->options, (*type)->option_count, "    ");
    }
}

static void list_optimizers(FILE *out) {
    for (const struct rt_optim_type *const *type = rt_optim_types(); *type; type++) {
        struct rt_option options[RT_OPTIM_OPTIONS];
        size_t count = rt_optim_options(*type, options);
        fprintf(out, "%s: %s\n", (*type)->name, (*type)->help);
        rt_options_help(out, options, count, "    ");
    }
}

static void list_losses(FILE *out) {
    for (const struct rt_loss_type *const *type = rt_loss_types(); *type; type++)
        fprintf(out, "%s: %s\n", (*type)->name, (*type)->help);
}

static const struct {
    const char *name;
    void (*print)(FILE *out);
} lists[] = {
    {"strategies", list_strategies}, {"layers", list_layers},         {"optimizers", list_optimizers},
    {"losses", list_losses},         {"schedules", rt_schedule_help}, {"keys", rt_spec_help},
};
enum { LISTS = sizeof lists / sizeof *lists };

static int run_list(const struct rt_invocation *invocation) {
    const char *what = invocation->operands.items[0], *names[LISTS + 1] = {NULL};
    for (size_t i = 0; i < LISTS; i++) {
        names[i] = lists[i].name;
        if (strcmp(what, lists[i].name) == 0) {
            lists[i].print(stdout);
            return RT_EXIT_DONE;
        }
    }
    struct rt_error err;
    const char *near = rt_nearest(what, names);
    if (near)
        rt_fail(&err, RT_BAD_INPUT, "unknown list '%s'; did you mean '%s'?", what, near);
    else
        rt_fail(&err, RT_BAD_INPUT,
                "unknown list '%s'; there are strategies, layers, optimizers, losses, schedules and keys",
                what);
    return rt_exit_error(&err);
}

const struct rt_command rt_command_list = {
    .name = "list",
    .summary = "what exists: strategies, layers, optimizers, losses, schedules, keys",
    .details = "Lists what a run file can name, with the options of each and their defaults. WHAT is one of\n"
               "  strategies   how training can be distributed\n"
               "  layers       what a network can be made of\n"
               "  optimizers   the update rules\n"
               "  losses       what can be minimised\n"
               "  schedules    how the learning rate can change\n"
               "  keys         every key of the run file\n",
    .examples = "  ringtmp list layers\n"
                "  ringtmp list keys | less\n",
    .operands = {"WHAT"},
    .run = run_list,
};
