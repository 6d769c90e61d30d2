/* The thread pool: every part runs once, results are visible to the caller, scratch is a thread's own. */
/* labels: threads */
#include "base/cores.h"
#include "base/pool.h"
#include "support/test.h"

#include <pthread.h>
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

enum { CORES = 512 };

/* Each part waits until all have begun, so that every thread has one. */
struct places {
    atomic_size_t begun;
    size_t parts;
    int cores[CORES];
    size_t counts[CORES]; /* cores that the thread of the part may use */
    pthread_t threads[CORES];
};

static void note_place(void *argument, size_t part, void *scratch) {
    struct places *places = argument;
    (void)scratch;
    places->counts[part] = rt_cores_list(&places->cores[part], 1);
    places->threads[part] = pthread_self();
    atomic_fetch_add(&places->begun, 1);
    while (atomic_load(&places->begun) < places->parts) {
    }
}

/* With a thread for every core each has its own; the caller's thread may go where it could before. */
TEST(a_pool_as_wide_as_the_machine_keeps_to_its_cores) {
    int all[CORES];
    struct rt_error err;
    struct rt_pool *pool;
    struct places places = {.parts = rt_cores_list(all, CORES)};
    if (places.parts == 0 || places.parts >= CORES)
        return; /* no machine of ours */
    CHECK_OK(rt_pool_create(places.parts, 64, &pool, &err));
    rt_pool_run(pool, places.parts, note_place, &places);
    size_t bound = 0;
    for (size_t i = 0; i < places.parts; i++) {
        bool own = pthread_equal(places.threads[i], pthread_self());
        CHECK(places.counts[i] == (own ? places.parts : 1));
        for (size_t j = 0; j < i; j++)
            CHECK(own || places.counts[j] != 1 || places.cores[i] != places.cores[j]);
        bound += !own;
    }
    CHECK(bound == places.parts - 1);
    CHECK(rt_cores_list(NULL, 0) == places.parts);
    rt_pool_destroy(pool);

    CHECK_OK(rt_pool_create(places.parts + 1, 64, &pool, &err)); /* of another width: none is bound */
    places.parts++;
    atomic_store(&places.begun, 0);
    rt_pool_run(pool, places.parts, note_place, &places);
    for (size_t i = 0; i < places.parts; i++)
        CHECK(places.counts[i] == places.parts - 1);
    rt_pool_destroy(pool);
}

static void *count_usable(void *user) {
    size_t *usable = user;
    const int core = rt_core_now();
    usable[0] = rt_cores_usable();
    if (core >= 0)
        rt_core_stay(core);
    usable[1] = rt_cores_usable();
    return NULL;
}

TEST(usable_cores_are_those_we_may_use) {
    pthread_t thread;
    size_t usable[2] = {0};
    REQUIRE(pthread_create(&thread, NULL, count_usable, usable) == 0);
    pthread_join(thread, NULL);
    const size_t listed = rt_cores_list(NULL, 0);
    CHECK(usable[0] >= 1);
    if (listed > 0) {
        CHECK(rt_cores_quota("") > 0 ? usable[0] <= listed : usable[0] == listed);
        CHECK(usable[1] == 1);
    }
}

TEST_MAIN()
