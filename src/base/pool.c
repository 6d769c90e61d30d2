/*
 * A pool for short, frequent jobs: a training step runs dozens of them, some of a few microseconds.
 * Threads therefore spin for the next job for a short while (50 microseconds) before they sleep in the
 * kernel: an idle pool costs nothing.
 *
 * Every thread takes part in every job: it draws part numbers until there are none left and then reports.
 * The job's fields may be rewritten only after all reports are in, so no thread can see a job half
 * changed.
 *
 * A pool with a thread for every core binds each to its own. Otherwise, on a system with any other load,
 * even of the lowest priority, two of them were seen on one core for seconds, and the job takes as long as
 * with one thread. The caller's thread is not ours to bind: it is moved back when the system has moved it.
 */
#include "base/pool.h"

#include "base/clock.h"
#include "base/cores.h"
#include "base/fpenv.h"
#include "base/memory.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

/* Spinning costs next to nothing on some CPUs and a tenth of a microsecond per look on others, so the clock
 * decides; it is read once in so many looks. */
enum { LOOKS_PER_CLOCK = 64 };
#define SECONDS_FOR_A_JOB 50e-6
/* Reports come soon from threads with cores of their own. */
#define SECONDS_FOR_REPORTS 1e-3
/* The caller's thread is moved back at most so often. */
#define SECONDS_AWAY 1e-3

struct worker {
    struct rt_pool *pool;
    pthread_t thread;
    void *scratch;
    int core; /* its own; -1: any */
};

struct rt_pool {
    size_t threads; /* the caller included */
    struct worker *workers;
    size_t started;
    size_t scratch_bytes;

    pthread_mutex_t mutex; /* guards sleeping and waking only */
    pthread_cond_t wake, done;

    rt_pool_work work;
    void *argument;
    size_t parts;
    atomic_size_t next_part;
    atomic_size_t reports;    /* workers that have finished the current job */
    atomic_uint_fast64_t job; /* number of the current job; a change is the signal to start */
    atomic_bool stop;
    double sent_back; /* when the caller was */
};

static inline void pool_relax(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

struct timeout {
    unsigned looks;
    double until; /* 0: the clock has not been read yet */
};

/* After a look without success: false when it is time to sleep. */
static inline bool pool_spin(struct timeout *timeout, double seconds) {
    pool_relax();
    if (++timeout->looks % LOOKS_PER_CLOCK)
        return true;
    double now = rt_clock_wall();
    if (timeout->until == 0)
        timeout->until = now + seconds;
    return now < timeout->until;
}

static void pool_draw_parts(struct rt_pool *pool, void *scratch) {
    for (;;) {
        size_t part = atomic_fetch_add(&pool->next_part, 1);
        if (part >= pool->parts)
            return;
        pool->work(pool->argument, part, scratch);
    }
}

static void pool_await_job(struct rt_pool *pool, uint_fast64_t seen) {
    struct timeout timeout = {0};
    do
        if (atomic_load(&pool->job) != seen)
            return;
    while (pool_spin(&timeout, SECONDS_FOR_A_JOB));
    pthread_mutex_lock(&pool->mutex);
    while (atomic_load(&pool->job) == seen)
        pthread_cond_wait(&pool->wake, &pool->mutex);
    pthread_mutex_unlock(&pool->mutex);
}

static void *pool_worker(void *argument) {
    struct worker *worker = argument;
    struct rt_pool *pool = worker->pool;
    uint_fast64_t seen = 0;
    fenv_t inherited;
    rt_fp_enter(&inherited);
    if (worker->core >= 0)
        rt_core_stay(worker->core);
    for (;;) {
        pool_await_job(pool, seen);
        seen = atomic_load(&pool->job);
        if (atomic_load(&pool->stop))
            return NULL;
        pool_draw_parts(pool, worker->scratch);
        if (atomic_fetch_add(&pool->reports, 1) + 1 == pool->threads - 1) {
            pthread_mutex_lock(&pool->mutex);
            pthread_cond_signal(&pool->done);
            pthread_mutex_unlock(&pool->mutex);
        }
    }
}

static void pool_start_job(struct rt_pool *pool) {
    pthread_mutex_lock(&pool->mutex);
    atomic_fetch_add(&pool->job, 1);
    pthread_cond_broadcast(&pool->wake);
    pthread_mutex_unlock(&pool->mutex);
}

static void pool_await_reports(struct rt_pool *pool) {
    const size_t expected = pool->threads - 1;
    const double seconds = pool->workers[0].core < 0 ? SECONDS_FOR_A_JOB : SECONDS_FOR_REPORTS;
    struct timeout timeout = {0};
    do
        if (atomic_load(&pool->reports) == expected)
            return;
    while (pool_spin(&timeout, seconds));
    pthread_mutex_lock(&pool->mutex);
    while (atomic_load(&pool->reports) != expected)
        pthread_cond_wait(&pool->done, &pool->mutex);
    pthread_mutex_unlock(&pool->mutex);
}

/* Moves the caller's thread to its core, unless it is there. */
static void pool_place_caller(struct rt_pool *pool) {
    const int core = pool->workers[0].core;
    if (core < 0 || rt_core_now() == core)
        return;
    const double now = rt_clock_wall();
    if (now < pool->sent_back + SECONDS_AWAY)
        return;
    pool->sent_back = now;
    rt_core_go(core);
}

void rt_pool_run(struct rt_pool *pool, size_t parts, rt_pool_work work, void *argument) {
    if (pool->threads == 1 || parts <= 1) {
        for (size_t part = 0; part < parts; part++)
            work(argument, part, pool->workers[0].scratch);
        return;
    }
    pool->work = work;
    pool->argument = argument;
    pool->parts = parts;
    atomic_store(&pool->next_part, 0);
    atomic_store(&pool->reports, 0);
    pool_place_caller(pool);
    pool_start_job(pool);
    pool_draw_parts(pool, pool->workers[0].scratch);
    pool_await_reports(pool);
}

rt_status rt_pool_reserve(struct rt_pool *pool, size_t scratch_bytes, struct rt_error *err) {
    if (scratch_bytes <= pool->scratch_bytes)
        return RT_OK;
    for (size_t i = 0; i < pool->threads; i++) {
        float *scratch;
        rt_status status =
            rt_floats_create(scratch_bytes / sizeof(float) + 1, "scratch memory of a thread", &scratch, err);
        if (status != RT_OK)
            return status;
        free(pool->workers[i].scratch);
        pool->workers[i].scratch = scratch;
    }
    pool->scratch_bytes = scratch_bytes;
    return RT_OK;
}

/* Gives each thread a core, if there are enough. */
static void pool_choose_cores(struct rt_pool *pool) {
    enum { MOST_CORES = 1024 };
    int cores[MOST_CORES];
    const size_t count = rt_cores_list(cores, MOST_CORES);
    const bool all = pool->threads > 1 && pool->threads == count && count <= MOST_CORES;
    for (size_t i = 0; i < pool->threads; i++)
        pool->workers[i].core = all ? cores[i] : -1;
}

rt_status rt_pool_create(size_t threads, size_t scratch_bytes, struct rt_pool **out, struct rt_error *err) {
    struct rt_pool *pool;
    rt_status status = rt_alloc(1, sizeof *pool, "thread pool", &pool, err);
    if (status != RT_OK)
        return status;
    pthread_mutex_init(&pool->mutex, NULL);
    pthread_cond_init(&pool->wake, NULL);
    pthread_cond_init(&pool->done, NULL);
    pool->threads = threads ? threads : 1;
    status = rt_alloc(pool->threads, sizeof *pool->workers, "thread pool", &pool->workers, err);
    if (status == RT_OK)
        status = rt_pool_reserve(pool, scratch_bytes ? scratch_bytes : RT_ALIGN, err);
    if (status == RT_OK)
        pool_choose_cores(pool);
    for (size_t i = 1; status == RT_OK && i < pool->threads; i++) {
        pool->workers[i].pool = pool;
        if (pthread_create(&pool->workers[i].thread, NULL, pool_worker, &pool->workers[i]) != 0)
            status =
                rt_fail(err, RT_NO_MEMORY, "cannot start kernel thread %zu of %zu", i + 1, pool->threads);
        else
            pool->started++;
    }
    if (status != RT_OK) {
        rt_pool_destroy(pool);
        return status;
    }
    *out = pool;
    return RT_OK;
}

void rt_pool_destroy(struct rt_pool *pool) {
    if (!pool)
        return;
    atomic_store(&pool->stop, true);
    pool_start_job(pool);
    for (size_t i = 0; i < pool->started; i++)
        pthread_join(pool->workers[i + 1].thread, NULL);
    for (size_t i = 0; pool->workers && i < pool->threads; i++)
        free(pool->workers[i].scratch);
    free(pool->workers);
    pthread_mutex_destroy(&pool->mutex);
    pthread_cond_destroy(&pool->wake);
    pthread_cond_destroy(&pool->done);
    free(pool);
}

size_t rt_pool_threads(const struct rt_pool *pool) {
    return pool->threads;
}
