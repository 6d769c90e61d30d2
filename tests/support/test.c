#include "support/test.h"

#include <stdarg.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SECONDS_PER_TEST = 300, STATUS_SKIPPED = 77 };

static struct rt_test *first_test, **last_test = &first_test;
_Atomic int rt_test_failures;

void rt_test_add(struct rt_test *test) {
    *last_test = test;
    last_test = &test->next;
}

void rt_test_fail(const char *file, int line, const char *format, ...) {
    va_list args;
    va_start(args, format);
    fprintf(stderr, "%s:%d: ", file, line);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    rt_test_failures++;
}

/* Whether the reason contains one of the words, which commas separate. */
static bool has_word(const char *reason, const char *words) {
    char list[100], *rest = NULL;
    snprintf(list, sizeof list, "%s", words ? words : "");
    for (char *word = strtok_r(list, ",", &rest); word; word = strtok_r(NULL, ",", &rest))
        if (strstr(reason, word))
            return true;
    return false;
}

/* Where nothing may be missing (RT_NO_SKIP is set), a skip is a failure, unless its reason contains a word
 * that cmake/tests.cmake puts into RT_MAY_SKIP: what a build of that kind cannot have. */
void rt_test_skip(const char *format, ...) {
    char reason[500];
    va_list args;
    va_start(args, format);
    vsnprintf(reason, sizeof reason, format, args);
    va_end(args);
    const char *strict = getenv("RT_NO_SKIP");
    if (strict && *strict && !has_word(reason, getenv("RT_MAY_SKIP"))) {
        fprintf(stderr, "may not be skipped here: %s\n", reason);
        exit(1);
    }
    printf("skipped: %s\n", reason);
    exit(STATUS_SKIPPED);
}

/* Runs one block in a child; returns its exit status, or -1 when a signal ended it. */
static int run_one(const struct rt_test *test) {
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        alarm(SECONDS_PER_TEST);
        test->body();
        exit(rt_test_failures ? 1 : 0);
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child)
        return -1;
    if (WIFSIGNALED(status))
        fprintf(stderr, "%s: ended by signal %d (%s)\n", test->name, WTERMSIG(status),
                strsignal(WTERMSIG(status)));
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int rt_test_main(int argc, char **argv) {
    int passed = 0, failed = 0, skipped = 0;
    for (const struct rt_test *test = first_test; test; test = test->next) {
        if (argc > 1 && strcmp(argv[1], test->name) != 0)
            continue;
        int status = run_one(test);
        printf("%-8s %s\n", status == 0 ? "ok" : status == STATUS_SKIPPED ? "skipped" : "FAILED", test->name);
        passed += status == 0;
        skipped += status == STATUS_SKIPPED;
        failed += status != 0 && status != STATUS_SKIPPED;
    }
    printf("%d passed, %d failed, %d skipped\n", passed, failed, skipped);
    if (failed || passed + skipped == 0)
        return 1;
    return skipped ? STATUS_SKIPPED : 0; /* so that ctest names the program: its output is not shown */
}
