/* The thread pool: every part runs once, results are visible to the caller, scratch is a thread's own. */
#include "base/pool.h"
#include "support/test.h"

#include <stdatomic.h>
#include <time.h>

enum { PARTS = 1000 };

struct tally {
    atomic_int runs[PARTS];
    size_t plain[PARTS]; /* written without atomics: the pool must order it before the caller's reads */
};

static void count_part(void *argument, size_t part, void *scratch) {
    struct tally *tally = argument;
    atomic_fetch_add(&tally->runs[part], 1);
    *(size_t *)scratch = part;
    tally->plain[part] = *(size_t *)scratch + 1;
}

static void check_threads(size_t threads) {
    struct rt_error err;
    struct rt_pool *pool;
    CHECK_OK(rt_pool_create(threads, 64, &pool, &err));
    for (int repeat = 0; repeat < 200; repeat++) {
        static struct tally tally;
        memset(&tally, 0, sizeof tally);
        size_t parts = (size_t)repeat % 7 == 0 ? PARTS : (size_t)repeat % 5;
        rt_pool_run(pool, parts, count_part, &tally);
        for (size_t i = 0; i < PARTS; i++) {
            CHECK(tally.runs[i] == (i < parts));
            CHECK(tally.plain[i] == (i < parts ? i + 1 : 0));
        }
        if (rt_test_failures)
            break;
        if (repeat % 50 == 0) /* long enough for the threads to fall asleep: waking must work too */
            nanosleep(&(struct timespec){0, 2000000}, NULL);
    }
    CHECK_OK(rt_pool_reserve(pool, 1 << 16, &err));
    struct tally *tally = calloc(1, sizeof *tally);
    rt_pool_run(pool, PARTS, count_part, tally);
    CHECK(tally->runs[PARTS - 1] == 1);
    free(tally);
    rt_pool_destroy(pool);
}

TEST(one_thread) {
    check_threads(1);
}

TEST(two_threads) {
    check_threads(2);
}

TEST(more_threads_than_cores) {
    check_threads(7);
}

TEST(destroying_an_unused_pool_returns) {
    struct rt_error err;
    for (int i = 0; i < 100; i++) {
        struct rt_pool *pool;
        CHECK_OK(rt_pool_create(3, 0, &pool, &err));
        rt_pool_destroy(pool);
    }
}

TEST_MAIN()
