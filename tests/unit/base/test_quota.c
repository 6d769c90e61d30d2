/* The quota of a container, in trees that look like /proc and /sys of various systems. */
#include "base/cores.h"
#include "base/file.h"
#include "support/datafiles.h"
#include "support/test.h"

/* root/path, with the directories above it. */
static void put(const char *root, const char *path, const char *text) {
    struct rt_error err;
    char whole[600], file[600];
    snprintf(whole, sizeof whole, "%s/%s%s", rt_test_directory(), root, path);
    snprintf(file, sizeof file, "%s%s", root, path);
    *strrchr(whole, '/') = 0;
    REQUIRE(rt_make_directory(whole, &err) == RT_OK);
    rt_test_write_text(file, text);
}

static double quota(const char *root) {
    char whole[600];
    snprintf(whole, sizeof whole, "%s/%s", rt_test_directory(), root);
    return rt_cores_quota(whole);
}

static const char second_mount[] = "22 1 8:1 / / rw - ext4 /dev/sda rw\n"
                                   "30 22 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n";

TEST(version_two_counts_every_group_above) {
    put("v2", "/proc/self/mountinfo", second_mount);
    put("v2", "/proc/self/cgroup", "0::/work.slice/job/run\n");
    put("v2", "/sys/fs/cgroup/work.slice/job/run/cpu.max", "max 100000\n");
    CHECK(quota("v2") == 0);
    put("v2", "/sys/fs/cgroup/work.slice/cpu.max", "250000 100000\n");
    CHECK(quota("v2") == 2.5);
    put("v2", "/sys/fs/cgroup/work.slice/job/run/cpu.max", "400000 100000\n");
    CHECK(quota("v2") == 2.5);
    put("v2", "/sys/fs/cgroup/work.slice/job/cpu.max", "50000 100000\n");
    CHECK(quota("v2") == 0.5);
}

/* Inside a container with its own namespace its group is the root. */
TEST(version_two_in_a_container) {
    put("box", "/proc/self/mountinfo", second_mount);
    put("box", "/proc/self/cgroup", "0::/\n");
    put("box", "/sys/fs/cgroup/cpu.max", "150000 100000\n");
    CHECK(quota("box") == 1.5);
    /* seen from outside its namespace: only the mount is visible */
    put("box", "/proc/self/cgroup", "0::/../other\n");
    CHECK(quota("box") == 1.5);
}

static const char first_mounts[] =
    "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n"
    "33 31 0:30 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n"
    "32 31 0:29 %s /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
    "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";

static void put_mounts(const char *root, const char *shown) {
    char text[600];
    snprintf(text, sizeof text, first_mounts, shown);
    put(root, "/proc/self/mountinfo", text);
}

TEST(version_one_counts_every_group_above) {
    put_mounts("v1", "/");
    put("v1", "/proc/self/cgroup", "5:cpuset:/other\n2:cpu,cpuacct:/docker/abc\n0::/x\n");
    put("v1", "/sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_quota_us", "-1\n");
    put("v1", "/sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_period_us", "100000\n");
    CHECK(quota("v1") == 0);
    put("v1", "/sys/fs/cgroup/cpu,cpuacct/docker/cpu.cfs_quota_us", "300000\n");
    put("v1", "/sys/fs/cgroup/cpu,cpuacct/docker/cpu.cfs_period_us", "100000\n");
    CHECK(quota("v1") == 3);
    put("v1", "/sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_quota_us", "25000\n");
    put("v1", "/sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_period_us", "50000\n");
    CHECK(quota("v1") == 0.5);
}

/* Version one without a namespace: the container's group is mounted, under the name that it has outside. */
TEST(version_one_in_a_container) {
    put_mounts("old", "/docker/abc");
    put("old", "/proc/self/cgroup", "2:cpu,cpuacct:/docker/abc/inner\n");
    put("old", "/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "120000\n");
    put("old", "/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
    CHECK(quota("old") == 1.2);
    put("old", "/sys/fs/cgroup/cpu,cpuacct/inner/cpu.cfs_quota_us", "110000\n");
    put("old", "/sys/fs/cgroup/cpu,cpuacct/inner/cpu.cfs_period_us", "100000\n");
    CHECK(quota("old") == 1.1);
}

TEST(what_is_not_there_or_makes_no_sense_limits_nothing) {
    CHECK(quota("nowhere") == 0);
    put("odd", "/proc/self/mountinfo", "30 22 0:26\n - cgroup2\n30 22 0:26 / /sys - cgroup2\n\n");
    CHECK(quota("odd") == 0);
    put("odd", "/proc/self/mountinfo", second_mount);
    put("odd", "/proc/self/cgroup", "nothing\n");
    CHECK(quota("odd") == 0);
    put("odd", "/proc/self/cgroup", "0::/a\n");
    for (size_t i = 0; i < 5; i++) {
        static const char *const texts[] = {"", "x 100000\n", "-5 100000\n", "100000 0\n", "100000\n"};
        put("odd", "/sys/fs/cgroup/a/cpu.max", texts[i]);
        CHECK(quota("odd") == 0);
    }
}

TEST_MAIN()
