/* Whatever floating-point environment the host has chosen, we compute in ours and give theirs back. */
#include "base/fpenv.h"
#include "base/pool.h"
#include "support/site.h"
#include "support/test.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

/* Rounding upwards, and denormals flushed to zero where we know how. */
static void spoil(void) {
    fesetround(FE_UPWARD);
#if defined(__x86_64__)
    _mm_setcsr(_mm_getcsr() | 0x8040); /* FTZ and DAZ */
#elif defined(__aarch64__)
    uint64_t control;
    __asm__ volatile("mrs %0, fpcr" : "=r"(control));
    __asm__ volatile("msr fpcr, %0" : : "r"(control | 1u << 24)); /* FZ */
#endif
}

static bool keeps_denormals(void) {
    volatile float small = 0x1p-100f, tiny = 0x1p-140f;
    volatile float product = small * 0x1p-40f, doubled = tiny * 2.0f;
    return product > 0 && doubled > 0;
}

static bool rounds_to_nearest(void) {
    volatile float one = 1.0f, little = 0x1p-60f;
    volatile float sum = one + little;
    return sum == 1.0f;
}

TEST(enter_sets_ours_and_leave_gives_theirs_back) {
    fenv_t before, theirs;
    fegetenv(&before);
    spoil();
    bool kept = keeps_denormals();
    rt_fp_enter(&theirs);
    bool nearest = rounds_to_nearest(), denormals = keeps_denormals();
    rt_fp_leave(&theirs);
    bool nearest_after = rounds_to_nearest(), kept_after = keeps_denormals();
    fesetenv(&before);
    CHECK(nearest && denormals);
    CHECK(!nearest_after && kept_after == kept);
#if defined(__x86_64__) || defined(__aarch64__)
    CHECK(!kept); /* else the test would test nothing */
#endif
}

struct watch {
    pthread_t caller;
    atomic_int good, bad;
};

/* The caller waits until a worker has had a part: only those are looked at. */
static void look(void *argument, size_t part, void *scratch) {
    (void)part, (void)scratch;
    struct watch *watch = argument;
    if (!pthread_equal(pthread_self(), watch->caller))
        atomic_fetch_add(rounds_to_nearest() && keeps_denormals() ? &watch->good : &watch->bad, 1);
    else
        for (int i = 0; i < 5000 && watch->good + watch->bad == 0; i++)
            nanosleep(&(struct timespec){0, 1000000}, NULL);
}

TEST(threads_of_a_pool_do_not_inherit_it) {
    struct rt_error err;
    struct rt_pool *pool = NULL;
    fenv_t before;
    fegetenv(&before);
    spoil();
    rt_status status = rt_pool_create(2, 0, &pool, &err);
    fesetenv(&before);
    REQUIRE(status == RT_OK);
    struct watch watch = {.caller = pthread_self()};
    rt_pool_run(pool, 2, look, &watch);
    CHECK(watch.good > 0 && watch.bad == 0);
    rt_pool_destroy(pool);
}

/* A whole life of a run in a host's environment: the same parameters, test loss and predictions. */
TEST(a_run_has_the_same_bits_in_any_environment) {
    const float inputs[] = {5.1f, 3.5f, 1.4f};
    float outputs[2][3];
    struct rt_result results[2];
    struct rt_error err = {0};
    fenv_t before;
    site_make();
    fegetenv(&before);
    for (int spoilt = 0; spoilt < 2; spoilt++) {
        const char *const settings[] = {"train.threads=2", "train.optimizer={adam: {lr: 0.0123}}", NULL};
        struct rt_run *run = NULL;
        if (spoilt)
            spoil();
        rt_status status = site_open(spoilt ? "spoilt" : "plain", settings, &run, &err);
        if (status == RT_OK)
            status = rt_run_train(run, NULL, NULL, &err);
        if (status == RT_OK)
            status = rt_run_predict(run, inputs, 1, outputs[spoilt], &err);
        bool theirs = spoilt && !rounds_to_nearest();
        fesetenv(&before);
        CHECK_MSG(status == RT_OK, "%s", err.text);
        CHECK(theirs == (spoilt == 1)); /* the host's environment is as it was */
        REQUIRE(status == RT_OK);
        results[spoilt] = *rt_run_result(run);
        rt_run_close(run);
    }
    CHECK(strcmp(results[0].params_sha256, results[1].params_sha256) == 0);
    CHECK(memcmp(&results[0].test_loss, &results[1].test_loss, sizeof(double)) == 0);
    CHECK(memcmp(outputs[0], outputs[1], sizeof outputs[0]) == 0);
    site_remove();
}

TEST_MAIN()
