/*
 * The test header. A test program is a file with TEST(name) { ... } blocks and TEST_MAIN() at its end. Each
 * block runs in a process of its own with a time-out, so a crash or a hang is one failed test, not the end.
 *
 *   CHECK(condition)              fails the block and goes on
 *   CHECK_MSG(condition, fmt...)  the same with a message
 *   REQUIRE(condition)            fails the block and leaves it
 *   CHECK_OK(expression)          an rt_status with `err` in scope; prints the sentence
 *   SKIP(fmt...)                  leaves the block as skipped, saying why; fails it where RT_NO_SKIP is set
 */
#ifndef RT_TEST_H
#define RT_TEST_H

#include "base/status.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct rt_test {
    const char *name;
    void (*body)(void);
    struct rt_test *next;
};

extern _Atomic int rt_test_failures; /* of the block that is running; any thread of it may fail */
void rt_test_add(struct rt_test *test);
int rt_test_main(int argc, char **argv);
void rt_test_fail(const char *file, int line, const char *format, ...) RT_PRINTF(3, 4);
_Noreturn void rt_test_skip(const char *format, ...) RT_PRINTF(1, 2);

#define TEST(name_)                                                                                          \
    static void test_##name_(void);                                                                          \
    static struct rt_test test_entry_##name_ = {#name_, test_##name_, NULL};                                 \
    __attribute__((constructor)) static void test_add_##name_(void) {                                        \
        rt_test_add(&test_entry_##name_);                                                                    \
    }                                                                                                        \
    static void test_##name_(void)

#define TEST_MAIN()                                                                                          \
    int main(int argc, char **argv) {                                                                        \
        return rt_test_main(argc, argv);                                                                     \
    }

#define CHECK_MSG(condition, ...)                                                                            \
    do {                                                                                                     \
        if (!(condition))                                                                                    \
            rt_test_fail(__FILE__, __LINE__, __VA_ARGS__);                                                   \
    } while (0)
#define CHECK(condition) CHECK_MSG(condition, "%s", #condition)
#define REQUIRE(condition)                                                                                   \
    do {                                                                                                     \
        if (!(condition)) {                                                                                  \
            rt_test_fail(__FILE__, __LINE__, "%s", #condition);                                              \
            return;                                                                                          \
        }                                                                                                    \
    } while (0)
#define CHECK_OK(expression)                                                                                 \
    do {                                                                                                     \
        err.text[0] = 0;                                                                                     \
        if ((expression) != RT_OK) {                                                                         \
            rt_test_fail(__FILE__, __LINE__, "%s: %s", #expression, err.text);                               \
            return;                                                                                          \
        }                                                                                                    \
    } while (0)
#define SKIP(...) rt_test_skip(__VA_ARGS__)

#endif
