/*
 * The kernel thread pool: the threads of one device. Work is cut into numbered parts; which thread does
 * which part never changes a result, because a part writes only its own outputs.
 */
#ifndef RT_BASE_POOL_H
#define RT_BASE_POOL_H

#include "base/status.h"

struct rt_pool;

/* threads >= 1, the caller counted. scratch_bytes of aligned memory are kept for each thread. */
rt_status rt_pool_create(size_t threads, size_t scratch_bytes, struct rt_pool **pool, struct rt_error *err);
void rt_pool_destroy(struct rt_pool *pool);
size_t rt_pool_threads(const struct rt_pool *pool);

/* Grows the scratch of every thread; not while work is running. */
rt_status rt_pool_reserve(struct rt_pool *pool, size_t scratch_bytes, struct rt_error *err);

/* Runs work(argument, part, scratch) for part 0..parts-1 and returns when all are done. scratch is the
 * running thread's own. Called by one thread at a time; work must not call it again. */
typedef void (*rt_pool_work)(void *argument, size_t part, void *scratch);
void rt_pool_run(struct rt_pool *pool, size_t parts, rt_pool_work work, void *argument);

#endif
