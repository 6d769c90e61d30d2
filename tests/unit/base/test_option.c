/* Option tables: values, defaults, ranges and every sentence a person may meet; strict numbers. */
#include "base/option.h"
#include "formats/yaml.h"
#include "support/test.h"
#include <locale.h>
#include <stddef.h>

struct settings {
    int64_t units, threads;
    double rate;
    bool bias;
    const char *name, *file;
    int kind;
    const struct rt_tree *body;
};

static const char *const kinds[] = {"plain", "fancy", NULL};
#define AT(field) offsetof(struct settings, field)
static const struct rt_option table[] = {
    {"units", RT_OPTION_INT, AT(units), NULL, 1, 16777216, .help = "outputs"},
    {"threads", RT_OPTION_INT, AT(threads), "all", 1, 64, .auto_word = "all", .help = "threads"},
    {"rate", RT_OPTION_REAL, AT(rate), "0.5", 0, 1e18, .help = "a rate"},
    {"bias", RT_OPTION_BOOL, AT(bias), "true", .help = "add a bias"},
    {"name", RT_OPTION_TEXT, AT(name), "anon", .help = "a name"},
    {"file", RT_OPTION_TEXT, AT(file), .help = "a file"},
    {"kind", RT_OPTION_CHOICE, AT(kind), "plain", .choices = kinds, .help = "what kind"},
    {"body", RT_OPTION_TREE, AT(body), .help = "more"},
};
#define COUNT (sizeof table / sizeof *table)

/* Reads text as a map or a value; gives the sentence ("" when it is fine). The tree stays in *tree. */
static const char *read(const char *text, const char *main_option, struct rt_tree **tree,
                        struct settings *settings) {
    static struct rt_error err;
    memset(settings, 0xab, sizeof *settings);
    err.text[0] = 0;
    if (rt_yaml_parse(text, strlen(text), "run.yaml", tree, &err) == RT_OK)
        rt_options_read(table, COUNT, main_option, *tree, "dense", settings, &err);
    return err.text;
}

TEST(values_and_defaults) {
    struct settings s;
    struct rt_tree *tree = NULL;
    CHECK(!*read("units: 128\n", NULL, &tree, &s));
    CHECK(s.units == 128 && s.threads == -1 && s.rate == 0.5 && s.bias && s.kind == 0);
    CHECK(strcmp(s.name, "anon") == 0 && s.file == NULL && s.body == NULL);
    rt_tree_destroy(tree);
    CHECK(!*read("{units: 1, threads: 3, rate: 1e-3, bias: false, name: x, file: y, kind: fancy, body: [1]}",
                 NULL, &tree, &s));
    CHECK(s.units == 1 && s.threads == 3 && s.rate == 1e-3 && !s.bias && s.kind == 1);
    CHECK(strcmp(s.name, "x") == 0 && strcmp(s.file, "y") == 0 && s.body && s.body->count == 1);
    rt_tree_destroy(tree);
    CHECK(!*read("{units: 16777216, rate: 0}", NULL, &tree, &s)); /* the ends of a range belong to it */
    CHECK(s.units == 16777216 && s.rate == 0);
    rt_tree_destroy(tree);
    CHECK(!*read("{units: 2, threads: all}", NULL, &tree, &s));
    CHECK(s.threads == -1);
    rt_tree_destroy(tree);
}

TEST(a_single_value) {
    struct settings s;
    struct rt_tree *tree = NULL;
    CHECK(!*read("128", "units", &tree, &s));
    CHECK(s.units == 128 && s.rate == 0.5);
    rt_tree_destroy(tree);
    const char *text = read("0", "units", &tree, &s);
    CHECK_MSG(strcmp(text, "run.yaml:1: dense: units must be between 1 and 16777216, not '0'") == 0, "%s",
              text);
    rt_tree_destroy(tree);
    struct rt_error err;
    CHECK(rt_options_read(table + 1, COUNT - 1, NULL, NULL, "dense", &s, &err) == RT_OK);
    CHECK(s.rate == 0.5);
}

TEST(sentences) {
    static const struct {
        const char *text, *sentence;
    } cases[] = {
        {"unit: 5", "run.yaml:1: unknown key 'unit' in dense; did you mean 'units'?"},
        {"units: 1\n\nRate: 5", "run.yaml:3: unknown key 'Rate' in dense; did you mean 'rate'?"},
        {"units: 1\nkidn: 5", "run.yaml:2: unknown key 'kidn' in dense; did you mean 'kind'?"},
        {"units: 1\nwhatever: 5",
         "run.yaml:2: unknown key 'whatever' in dense; the keys are units, threads, rate, bias, "
         "name, file, kind, body"},
        {"rate: 1", "run.yaml:1: dense: units must be given"},
        {"units: 1.5", "run.yaml:1: dense: units must be a whole number, not '1.5'"},
        {"units: ", "run.yaml:1: dense: units has no value; it must be a whole number"},
        {"units: 99999999999999999999",
         "run.yaml:1: dense: units must be a whole number, not '99999999999999999999'"},
        {"units: 16777217", "run.yaml:1: dense: units must be between 1 and 16777216, not '16777217'"},
        {"units: [1]", "run.yaml:1: dense: units must be a single value, not a list"},
        {"units: {a: 1}", "run.yaml:1: dense: units must be a single value, not a map"},
        {"{units: 1, threads: most}",
         "run.yaml:1: dense: threads must be a whole number or 'all', not 'most'"},
        {"{units: 1, threads: 65}", "run.yaml:1: dense: threads must be between 1 and 64 or 'all', not '65'"},
        {"{units: 1, rate: -1}", "run.yaml:1: dense: rate must be at least 0, not '-1'"},
        {"{units: 1, rate: 1e19}", "run.yaml:1: dense: rate must be between 0 and 1e+18, not '1e19'"},
        {"{units: 1, rate: nan}", "run.yaml:1: dense: rate must be a number, not 'nan'"},
        {"{units: 1, rate: inf}", "run.yaml:1: dense: rate must be a number, not 'inf'"},
        {"{units: 1, rate: '0,5'}", "run.yaml:1: dense: rate must be a number, not '0,5'; numbers have a "
                                    "decimal point, not a comma, and no separators between digits"},
        {"{units: 1, rate: 0,5}",
         "run.yaml:1: unknown key '5' in dense; if it is the end of a number: numbers have a decimal point, "
         "not a comma, and no separators between digits"},
        {"{units: 1, rate: 1/255}",
         "run.yaml:1: dense: rate must be a number, not '1/255'; a fraction is written out, as 0.5 for 1/2"},
        {"{units: 1, bias: no}", "run.yaml:1: dense: bias must be true or false, not 'no'"},
        {"{units: 1, kind: other}", "run.yaml:1: dense: kind must be one of plain, fancy, not 'other'"},
        {"[1]", "run.yaml:1: dense takes its options as a map, like {units: ...}, not a list"},
        {"5", "run.yaml:1: dense takes its options as a map, like {units: ...}, not a single value"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct settings s;
        struct rt_tree *tree = NULL;
        const char *text = read(cases[i].text, NULL, &tree, &s);
        CHECK_MSG(strcmp(text, cases[i].sentence) == 0, "%s\n  said: %s", cases[i].text, text);
        rt_tree_destroy(tree);
    }
}

TEST(no_options_at_all) {
    struct rt_error err;
    struct rt_tree *tree = NULL;
    char nothing;
    CHECK_OK(rt_yaml_parse("{a: 1}", 6, "f", &tree, &err));
    CHECK(rt_options_read(NULL, 0, NULL, tree, "relu", &nothing, &err) == RT_BAD_INPUT);
    CHECK_MSG(strcmp(err.text, "f:1: unknown key 'a' in relu, which has no options") == 0, "%s", err.text);
    rt_tree_destroy(tree);
    CHECK_OK(rt_yaml_parse("7", 1, "f", &tree, &err));
    CHECK(rt_options_read(NULL, 0, NULL, tree, "relu", &nothing, &err) == RT_BAD_INPUT);
    CHECK_MSG(strcmp(err.text, "f:1: relu has no options, so it cannot take '7'") == 0, "%s", err.text);
    rt_tree_destroy(tree);
}

TEST(help) {
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    REQUIRE(out);
    rt_options_help(out, table, COUNT, "  ");
    fclose(out);
    CHECK_MSG(strcmp(text, "  units    outputs (must be given)\n"
                           "  threads  threads (default all)\n"
                           "  rate     a rate (default 0.5)\n"
                           "  bias     add a bias (default true)\n"
                           "  name     a name (default anon)\n"
                           "  file     a file\n"
                           "  kind     what kind (plain, fancy; default plain)\n"
                           "  body     more\n") == 0,
              "%s", text);
    free(text);
}

TEST(nearest) {
    static const char *const names[] = {"epochs", "batch", "micro_batch", "optimizer", "lr", NULL};
    CHECK(strcmp(rt_nearest("epoch", names), "epochs") == 0);
    CHECK(strcmp(rt_nearest("optim", names), "optimizer") == 0);
    CHECK(strcmp(rt_nearest("bathc", names), "batch") == 0);
    CHECK(strcmp(rt_nearest("microbatch", names), "micro_batch") == 0);
    CHECK(strcmp(rt_nearest("LR", names), "lr") == 0);
    CHECK(rt_nearest("zebra", names) == NULL && rt_nearest("", names) == NULL &&
          rt_nearest("x", names) == NULL);
    CHECK(rt_nearest("a_word_that_is_longer_than_any_name_we_will_ever_have", names) == NULL);
}

TEST(whole_numbers) {
    int64_t value = 5;
    CHECK(rt_parse_int("0", &value) && value == 0);
    CHECK(rt_parse_int("-17", &value) && value == -17);
    CHECK(rt_parse_int("9223372036854775807", &value) && value == INT64_MAX);
    CHECK(rt_parse_int("-9223372036854775808", &value) && value == INT64_MIN);
    static const char *const wrong[] = {"",
                                        "-",
                                        "+1",
                                        " 1",
                                        "1 ",
                                        "1.0",
                                        "1e3",
                                        "0x1",
                                        "--1",
                                        "9223372036854775808",
                                        "1_",
                                        "a1",
                                        "१",
                                        "-9223372036854775809",
                                        "100000000000000000000"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        CHECK_MSG(!rt_parse_int(wrong[i], &value), "'%s'", wrong[i]);
}

static void check_reals(void) {
    static const struct {
        const char *text;
        double value;
    } right[] = {
        {"0", 0},
        {"-1.5", -1.5},
        {"+2", 2},
        {".5", 0.5},
        {"5.", 5},
        {"1e3", 1e3},
        {"1E-3", 1e-3},
        {"0.1", 0.1},
        {"0.00392156862745098", 0.00392156862745098},
        {"9007199254740993", 9007199254740992.0},
        {"3.141592653589793238462643383279", 3.141592653589793},
        {"1e22", 1e22},
        {"1e23", 1e23},
        {"123456789e-30", 123456789e-30},
        {"1.7976931348623157e308", 1.7976931348623157e308},
        {"4.9e-324", 0x1p-1074},
        {"1e-400", 0},
        {"0.000000000000000000000000000000000000001", 1e-39},
        {"8.5e-99999999999999", 0},
    };
    double value = 7;
    for (size_t i = 0; i < sizeof right / sizeof *right; i++)
        CHECK_MSG(rt_parse_real(right[i].text, &value) && value == right[i].value, "%s gave %.17g",
                  right[i].text, value);
    static const char *const wrong[] = {"",      "-",      ".",     "e5",    "1e",  "1e+",
                                        "1,5",   "1 ",     " 1",    "nan",   "inf", "0x1p3",
                                        "1e999", "-1e400", "1.2.3", "1e5.0", "1f"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        CHECK_MSG(!rt_parse_real(wrong[i], &value), "'%s'", wrong[i]);
}

/* What is written reads back, and is no longer than it must be. */
static void check_written(void) {
    static const struct {
        double value;
        const char *text;
    } reals[] = {{0.04, "0.04"},    {0, "0"},       {1.0 / 3, "0.3333333333333333"},
                 {1e300, "1e+300"}, {-2.5, "-2.5"}, {0.1 + 0.2, "0.30000000000000004"}};
    char text[RT_OPTION_TEXT_ROOM];
    double back;
    for (size_t i = 0; i < sizeof reals / sizeof *reals; i++) {
        CHECK_MSG(strcmp(rt_real_text(reals[i].value, text), reals[i].text) == 0, "%s", text);
        CHECK_MSG(rt_parse_real(text, &back) && back == reals[i].value, "%s", text);
    }
    static const char *const values[] = {"7", "all", "0.25", "false", "", "", "fancy", ""};
    const struct settings settings = {.units = 7, .threads = -1, .rate = 0.25, .kind = 1};
    for (size_t i = 0; i < COUNT; i++)
        CHECK_MSG(strcmp(rt_option_text(&table[i], &settings, text), values[i]) == 0, "%s: '%s'",
                  table[i].name, text);
}

TEST(reals) {
    check_reals();
}

TEST(values_are_written) {
    check_written();
}

/* Chooses a locale with a decimal comma; one is compiled into directory if the machine has none. */
static bool choose_comma(const char *directory) {
    static const char *const locales[] = {"de_DE.UTF-8", "fr_FR.UTF-8", "nl_NL.UTF-8", "pt_BR.UTF-8"};
    for (size_t i = 0; i < sizeof locales / sizeof *locales; i++)
        if (setlocale(LC_ALL, locales[i]) && strcmp(localeconv()->decimal_point, ",") == 0)
            return true;
    char command[300];
    snprintf(command, sizeof command, "localedef -i de_DE -f ISO-8859-1 %s/de_DE >/dev/null 2>&1", directory);
    return system(command) == 0 && setenv("LOCPATH", directory, 1) == 0 && setlocale(LC_ALL, "de_DE") &&
           strcmp(localeconv()->decimal_point, ",") == 0;
}

TEST(reals_where_a_comma_is_the_point) {
    const char *base = getenv("TMPDIR");
    char directory[200], command[250], text[20];
    snprintf(directory, sizeof directory, "%s/ringtmp-locale-XXXXXX", base ? base : "/tmp");
    REQUIRE(mkdtemp(directory));
    bool chosen = choose_comma(directory);
    snprintf(command, sizeof command, "rm -rf %s", directory);
    CHECK(system(command) == 0);
    if (!chosen)
        SKIP("no locale with a decimal comma is installed");
    check_reals();
    check_written();
    snprintf(text, sizeof text, "%.1f", 1.5);
    CHECK_MSG(strcmp(text, "1,5") == 0, "the locale was not put back");
}

/* The quick way and strtod must agree to the last bit. */
TEST(reals_are_rounded_right) {
    uint64_t state = 1;
    for (int i = 0; i < 200000; i++) {
        state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        char text[60];
        double value = 0;
        uint64_t digits = state >> (8 + state % 50);
        int power = (int)(state >> 20 & 63) - 32;
        if (state >> 63)
            snprintf(text, sizeof text, "%llue%d", (unsigned long long)digits, power);
        else
            snprintf(text, sizeof text, "%llu.%03llu", (unsigned long long)(digits / 1000),
                     (unsigned long long)(digits % 1000));
        CHECK_MSG(rt_parse_real(text, &value) && value == strtod(text, NULL), "%s", text);
    }
}

TEST_MAIN()
