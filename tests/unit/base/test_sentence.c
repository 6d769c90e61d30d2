/* Sentences for people: counts, ordinals, lists that are whole, texts that are too long; and the sentences
 * that point from a common mistake to what is right. */
#include "base/sentence.h"
#include "exchange/strategy.h"
#include "formats/runfile.h"
#include "formats/yaml.h"
#include "nn/layer.h"
#include "nn/model.h"
#include "optim/optim.h"
#include "run/strategy.h"
#include "support/test.h"

TEST(counts) {
    static const struct {
        uint64_t count;
        const char *noun, *text;
    } cases[] = {{0, "layer", "0 layers"},
                 {1, "layer", "1 layer"},
                 {2, "layer", "2 layers"},
                 {1, "class", "1 class"},
                 {3, "class", "3 classes"},
                 {2, "micro-batch", "2 micro-batches"},
                 {2, "entry", "2 entries"},
                 {1, "entry", "1 entry"},
                 {5, "key", "5 keys"},
                 {2, "input column", "2 input columns"},
                 {UINT64_MAX, "byte", "18446744073709551615 bytes"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        CHECK_MSG(strcmp(RT_COUNTED(cases[i].count, cases[i].noun), cases[i].text) == 0, "%s, not %s",
                  RT_COUNTED(cases[i].count, cases[i].noun), cases[i].text);
    /* Two in one sentence have places of their own. */
    char both[64];
    snprintf(both, sizeof both, "%s of %s", RT_COUNTED(1, "row"), RT_COUNTED(4, "float"));
    CHECK_MSG(strcmp(both, "1 row of 4 floats") == 0, "%s", both);
}

TEST(ordinals) {
    static const struct {
        uint64_t number;
        const char *text;
    } cases[] = {{0, "0th"},   {1, "1st"},     {2, "2nd"},     {3, "3rd"},     {4, "4th"},      {10, "10th"},
                 {11, "11th"}, {12, "12th"},   {13, "13th"},   {21, "21st"},   {22, "22nd"},    {23, "23rd"},
                 {30, "30th"}, {101, "101st"}, {111, "111th"}, {112, "112th"}, {1003, "1003rd"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        CHECK_MSG(strcmp(RT_ORDINAL(cases[i].number), cases[i].text) == 0, "%s, not %s",
                  RT_ORDINAL(cases[i].number), cases[i].text);
}

TEST(lists) {
    static const char *const none[] = {NULL}, *const three[] = {"exact", "fast", "reference", NULL};
    char text[24];
    CHECK(strcmp(RT_LISTED(none), "") == 0);
    CHECK(strcmp(RT_LISTED(three), "exact, fast, reference") == 0);
    CHECK_MSG(strcmp(rt_listed(three, SIZE_MAX, text, 23), "exact, fast, reference") == 0, "%s", text);
    CHECK_MSG(strcmp(rt_listed(three, SIZE_MAX, text, 22), "exact, fast, ...") == 0, "%s", text);
    CHECK_MSG(strcmp(rt_listed(three, SIZE_MAX, text, 16), "exact, ...") == 0, "%s", text);
    CHECK_MSG(strcmp(rt_listed(three, SIZE_MAX, text, 4), "...") == 0, "%s", text);
    CHECK_MSG(strcmp(rt_listed(three, 2, text, 12), "exact, fast") == 0, "%s", text);
}

TEST(what_is_too_long_ends_with_dots) {
    char word[3000];
    struct rt_error err;
    const size_t room = sizeof err.text;
    memset(word, 'x', sizeof word - 1);
    word[sizeof word - 1] = 0;
    rt_fail(&err, RT_FAILED, "a %s", word);
    CHECK(strlen(err.text) == room - 1 && strcmp(err.text + room - 5, "x...") == 0);
    /* Not within a character. */
    for (size_t i = 0; i + 2 < sizeof word; i += 2)
        memcpy(word + i, "\xc3\xa9", 2);
    for (int lead = 0; lead < 2; lead++) {
        rt_fail(&err, RT_FAILED, "%s%s", lead ? "a" : "", word);
        const char *dots = strstr(err.text, "...");
        CHECK(dots && dots[3] == 0 && dots[-1] == '\xa9');
    }
    rt_fail_more(&err, RT_FAILED, "; and more");
    CHECK(strcmp(err.text + strlen(err.text) - 3, "...") == 0);
    /* A long path keeps its end, and leaves room for the sentence. */
    rt_fail(&err, RT_BAD_INPUT, "batch must be a whole number");
    memset(word, '/', sizeof word - 1);
    rt_fail_prefix(&err, RT_BAD_INPUT, "%s/run.yaml:12", word);
    CHECK_MSG(strncmp(err.text, "...", 3) == 0 &&
                  strstr(err.text, "/run.yaml:12: batch must be a whole number"),
              "%s", err.text);
    CHECK(rt_fail_more(NULL, RT_FAILED, "%d", 1) == RT_FAILED && rt_fail_prefix(NULL, RT_IO, "x") == RT_IO);
}

TEST(copies_that_are_too_long_end_with_dots) {
    char text[8];
    rt_copy_sentence(text, sizeof text, "seven..");
    CHECK_MSG(strcmp(text, "seven..") == 0, "%s", text);
    rt_copy_sentence(text, sizeof text, "eight is");
    CHECK_MSG(strcmp(text, "eigh...") == 0, "%s", text);
    rt_copy_sentence(text, sizeof text,
                     "abc\xc3\xa9"
                     "fghij");
    CHECK_MSG(strcmp(text, "abc...") == 0, "%s", text);
}

/* ---- every list that a message can have is whole ---- */

static void check_names(const struct rt_option *options, size_t count, const char *sentence) {
    const char *at = strstr(sentence, "the keys are ");
    CHECK_MSG(at, "%s", sentence);
    for (size_t i = 0; at && i < count; i++)
        CHECK_MSG(strstr(at, options[i].name), "%s is not in: %s", options[i].name, sentence);
    CHECK_MSG(!strstr(sentence, "..."), "%s", sentence);
}

static const char where[] = "../../experiments/of/the/year/2026/a directory with a long name/and another one/"
                            "the run file of the first experiment.yaml";

static void check_table(const struct rt_option *options, size_t count, const char *what) {
    enum { SETTINGS = 4096 };
    static _Alignas(max_align_t) char settings[SETTINGS];
    struct rt_error err;
    struct rt_tree *tree;
    if (count == 0)
        return;
    CHECK_OK(rt_yaml_parse("{xqzwvxqzwv: 1}", 15, where, &tree, &err));
    CHECK(rt_options_read(options, count, NULL, tree, what, settings, &err) == RT_BAD_INPUT);
    check_names(options, count, err.text);
    rt_tree_destroy(tree);
    for (size_t i = 0; i < count; i++) {
        if (options[i].kind != RT_OPTION_CHOICE)
            continue;
        struct rt_tree *map, *word;
        CHECK_OK(rt_tree_create(RT_TREE_MAP, NULL, where, 1, &map, &err));
        CHECK_OK(rt_tree_create(RT_TREE_SCALAR, "xqzwvxqzwv", where, 1, &word, &err));
        CHECK_OK(rt_tree_add(map, options[i].name, word, &err));
        CHECK(rt_options_read(options, count, NULL, map, what, settings, &err) == RT_BAD_INPUT);
        for (size_t c = 0; options[i].choices[c]; c++)
            CHECK_MSG(strstr(err.text, options[i].choices[c]), "%s is not in: %s", options[i].choices[c],
                      err.text);
        CHECK_MSG(strstr(err.text, ", not 'xqzwvxqzwv'"), "%s", err.text);
        rt_tree_destroy(map);
    }
}

TEST(the_lists_of_every_table_are_whole) {
    for (const struct rt_layer_type *const *type = rt_layer_types(); *type; type++)
        check_table((*type)->options, (*type)->option_count, (*type)->name);
    for (const struct rt_optim_type *const *type = rt_optim_types(); *type; type++) {
        struct rt_option options[RT_OPTIM_OPTIONS];
        check_table(options, rt_optim_options(*type, options), (*type)->name);
    }
    for (const struct rt_exchange_strategy *const *strategy = rt_exchange_strategies(); *strategy; strategy++)
        check_table((*strategy)->options, (*strategy)->option_count, (*strategy)->name);
}

TEST(the_keys_of_a_section_are_all_told) {
    static const char *const last[][2] = {
        {"model", "init"}, {"data", "cache_dir"}, {"train", "report_seconds"}, {"cluster", "timeout"}};
    for (size_t i = 0; i < sizeof last / sizeof *last; i++) {
        char text[64];
        struct rt_error err;
        struct rt_spec *spec;
        snprintf(text, sizeof text, "%s: {xqzwvxqzwv: 1}", last[i][0]);
        CHECK(rt_spec_parse(text, strlen(text), where, NULL, 0, &spec, &err) == RT_BAD_INPUT);
        CHECK_MSG(strstr(err.text, last[i][1]) && !strstr(err.text, "..."), "%s", err.text);
    }
}

TEST(the_strategies_and_layers_are_all_told) {
    static const char text[] = "cluster: {strategy: xqzwvxqzwv}";
    struct rt_error err;
    struct rt_spec *spec;
    struct rt_strategy_choice choice = {0};
    CHECK_OK(rt_spec_parse(text, sizeof text - 1, where, NULL, 0, &spec, &err));
    CHECK(rt_strategy_read(spec, &choice, &err) == RT_BAD_INPUT);
    for (const struct rt_strategy *const *strategy = rt_strategies(); *strategy; strategy++)
        CHECK_MSG(strstr(err.text, (*strategy)->name), "%s is not in: %s", (*strategy)->name, err.text);
    rt_strategy_choice_deinit(&choice);
    rt_spec_destroy(spec);
    struct rt_tree *layer;
    struct rt_optim *optim;
    CHECK_OK(rt_yaml_parse("xqzwvxqzwv", 10, where, &layer, &err));
    CHECK(rt_optim_create(layer, &optim, &err) == RT_BAD_INPUT);
    for (const struct rt_optim_type *const *type = rt_optim_types(); *type; type++)
        CHECK_MSG(strstr(err.text, (*type)->name), "%s", err.text);
    rt_tree_destroy(layer);
}

/* ---- what others write ---- */

static const char *layer_sentence(const char *text) {
    static struct rt_error err;
    const struct rt_shape in = {.rank = 3, .dim = {1, 8, 8}};
    struct rt_tree *tree;
    struct rt_model *model = NULL;
    struct rt_device device;
    uint32_t index = 0;
    err.text[0] = 0;
    if (rt_device_open(RT_MATH_EXACT, "auto", 1, &device, &err) != RT_OK)
        return err.text;
    if (rt_yaml_parse(text, strlen(text), "f", &tree, &err) == RT_OK) {
        if (rt_model_create(tree, &in, 0, SIZE_MAX, false, device.kernels, &index, &model, &err) == RT_OK)
            rt_model_destroy(model);
        rt_tree_destroy(tree);
    }
    rt_device_close(&device);
    return err.text;
}

static const char *optimizer_sentence(const char *text) {
    static struct rt_error err;
    struct rt_tree *tree;
    struct rt_optim *optim;
    err.text[0] = 0;
    if (rt_yaml_parse(text, strlen(text), "f", &tree, &err) != RT_OK)
        return err.text;
    if (rt_optim_create(tree, &optim, &err) == RT_OK)
        rt_optim_destroy(optim);
    rt_tree_destroy(tree);
    return err.text;
}

TEST(common_mistakes_are_pointed_to_what_is_right) {
    const char *text = layer_sentence("[conv2d: {filters: 2, kernel: [3, 5]}]");
    CHECK_MSG(strcmp(text,
                     "f:1: conv2d: kernel must be a single value, not a list; height and width are given as "
                     "kernel_h and kernel_w") == 0,
              "%s", text);
    text = layer_sentence("[maxpool: {kernel: [3, 5]}]");
    CHECK_MSG(strcmp(text, "f:1: maxpool: kernel must be a single value, not a list") == 0, "%s", text);
    text = layer_sentence("[dense: {units: 4, activation: relu}]");
    CHECK_MSG(
        strcmp(text,
               "f:1: unknown key 'activation' in dense; the keys are units, bias, init; relu is a layer "
               "of its own in the list") == 0,
        "%s", text);
    text = layer_sentence("[xyz]");
    CHECK_MSG(strstr(text, "unknown layer 'xyz'; there are dense, conv2d,") && strstr(text, "residual"), "%s",
              text);
    text = optimizer_sentence("sgd: {lr: 0.1, momentum: 0.9}");
    CHECK_MSG(
        strcmp(text,
               "f:1: unknown key 'momentum' in sgd; the keys are lr, weight_decay; momentum is an option "
               "of momentum, nesterov") == 0,
        "%s", text);
    text = optimizer_sentence("momentum: {beta1: 0.9}");
    CHECK_MSG(strstr(text, "; beta1 is an option of adam, adamw"), "%s", text);
    text = optimizer_sentence("{sgd: {lr: 0,01}}");
    CHECK_MSG(
        strstr(text, "unknown key '01' in sgd; if it is the end of a number: numbers have a decimal point"),
        "%s", text);
    text = optimizer_sentence("sgd: {lr: '0,01'}");
    CHECK_MSG(strcmp(text,
                     "f:1: sgd: lr must be a number, not '0,01'; numbers have a decimal point, not a comma, "
                     "and no separators between digits") == 0,
              "%s", text);
}

TEST(texts_that_are_nearly_numbers) {
    static const char *const comma[] = {"0,5", "18,010", "1,234.5", "-3,2", "1 000", "1_000", "1'000"};
    static const char *const nothing[] = {"",    "yes", "1",  "1,2,a", ",5",  "1e3",
                                          "a,b", "NaN", "3.", "1,",    "1//2"};
    for (size_t i = 0; i < sizeof comma / sizeof *comma; i++)
        CHECK_MSG(strstr(rt_number_hint(comma[i]), "decimal point"), "%s", comma[i]);
    for (size_t i = 0; i < sizeof nothing / sizeof *nothing; i++)
        CHECK_MSG(strcmp(rt_number_hint(nothing[i]), "") == 0, "%s", nothing[i]);
    CHECK(strstr(rt_number_hint("1/255"), "a fraction is written out"));
    CHECK(strstr(rt_number_hint("20%"), "0.2 for 20%") && strstr(rt_number_hint("20 %"), "0.2 for 20%"));
}

TEST_MAIN()
