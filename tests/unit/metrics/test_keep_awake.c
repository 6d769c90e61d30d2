/* Cores that are kept awake: threads that compute are not slowed down, and the CPU time is counted
 * separately. */
/* labels: slow=none_has_no_cpu_time threads=its_cpu_time_is_counted_apart */
#include "base/clock.h"
#include "base/cores.h"
#include "metrics/keep_awake.h"
#include "support/test.h"
#include <time.h>

static void keep_awake_sleep(double seconds) {
    const struct timespec time = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
    nanosleep(&time, NULL);
}

TEST(its_cpu_time_is_counted_apart) {
    struct rt_keep_awake *keep = rt_keep_awake_start();
    if (!keep) {
        CHECK(rt_cores_quota("") > 0); /* else there is no reason why it should not start */
        return;
    }
    const double mine = rt_keep_awake_seconds(keep), before = rt_clock_process();
    double used = 0;
    /* Other programs may have the cores for most of the time; these threads get some of it in the end. */
    for (int i = 0; i < 100 && used < 0.1; i++) {
        keep_awake_sleep(0.05);
        used = rt_keep_awake_seconds(keep) - mine;
    }
    CHECK(used >= 0.002);
    /* This thread slept: what the process used besides is next to nothing. */
    const double process = rt_clock_process() - before;
    CHECK(process <= rt_keep_awake_seconds(keep) - mine + 0.05);
    rt_keep_awake_stop(keep);
}

TEST(none_has_no_cpu_time) {
    CHECK(rt_keep_awake_seconds(NULL) == 0);
    rt_keep_awake_stop(NULL);
}

TEST_MAIN()
