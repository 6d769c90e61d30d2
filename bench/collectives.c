/*
 * How long an all-reduce within this machine takes: n processes, one load that is executed again and again.
 *
 *     collectives NODES FLOATS ROUNDS ALGORITHM [SEGMENT [cma]]
 *
 * ALGORITHM: ring, doubling, halving, tree or auto; SEGMENT: floats, 0: the usual. Every byte goes over TCP,
 * unless `cma` allows cross-memory attach, as nodes of one machine use it. Prints the seconds that one
 * all-reduce takes, as node 0 sees it: the median over the rounds, and the least.
 */
#include "base/clock.h"
#include "exchange/collective/executor.h"
#include "net/tcp.h"
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST = 16, WARM_UP = 3 };

/* What the processes share. */
struct board {
    char addresses[MOST][80];
    atomic_int listening, finished;
};

struct task {
    size_t nodes, floats, rounds, segment;
    enum rt_reduction how;
    enum rt_cma cma;
    struct board *board;
};

struct self {
    struct rt_communicator comm;
    struct rt_link *links[MOST];
    struct rt_executor *executor;
    float *gradient;
    double *seconds; /* [rounds] */
};

static bool next_event(struct self *self, struct rt_event *event) {
    bool found = rt_endpoint_wait(self->comm.endpoint, rt_endpoint_now(self->comm.endpoint) + 60, event);
    if (found && event->kind != RT_EVENT_CLOSED)
        return true;
    fprintf(stderr, "collectives: node %u: %s\n", self->comm.rank,
            found ? event->error.text : "nothing happens");
    return false;
}

/* Calls those before it and says who it is; hears it from those behind it. */
static bool join(struct self *self, const struct task *task) {
    struct rt_send sends[MOST];
    struct rt_receive receives[MOST];
    struct rt_error err;
    size_t said = 0, heard = 0, accepted = 0;
    const size_t rank = self->comm.rank;
    for (size_t i = 0; i < rank; i++) {
        if (rt_endpoint_connect(self->comm.endpoint, task->board->addresses[i],
                                rt_endpoint_now(self->comm.endpoint) + 60, &self->links[i], &err) != RT_OK)
            return false;
        sends[i] = (struct rt_send){.channel = RT_CHANNEL_CONTROL, .head_bytes = 1, .head = {(uint8_t)rank}};
        rt_link_send(self->links[i], &sends[i]);
    }
    while (said < rank || heard + rank + 1 < task->nodes) {
        struct rt_event event;
        if (!next_event(self, &event))
            return false;
        said += event.kind == RT_EVENT_SENT;
        if (event.kind == RT_EVENT_ACCEPTED) {
            receives[accepted] = (struct rt_receive){.channel = RT_CHANNEL_CONTROL};
            rt_link_receive(event.link, &receives[accepted++]);
        } else if (event.kind == RT_EVENT_RECEIVED) {
            self->links[event.receive->head[0]] = event.link;
            heard++;
        }
    }
    return true;
}

static rt_status make_carrier(struct self *self, const struct task *task, struct rt_error *err) {
    uint16_t ranks[MOST];
    struct rt_load_settings load = {.gradient = self->gradient, .count = task->floats};
    /* What the loopback of a small machine costs; only for auto. */
    const struct rt_link_cost cost = {.latency = 3e-5, .bandwidth = 1.5e9, .adding = 2e-10};
    for (size_t i = 0; i < task->nodes; i++)
        ranks[i] = (uint16_t)i;
    const struct rt_team team = {.ranks = ranks, .count = task->nodes, .place = self->comm.rank};
    rt_status status =
        rt_collective_reduce_all(task->how, &team, 0, 0, task->floats, &cost, &load.collective, err);
    const struct rt_executor_settings settings = {
        .comm = &self->comm, .loads = &load, .load_count = 1, .segment_floats = task->segment};
    return status == RT_OK ? rt_executor_create(&settings, &self->executor, err) : status;
}

static bool carry(struct self *self) {
    rt_executor_start(self->executor);
    while (rt_executor_done(self->executor) < rt_executor_started(self->executor)) {
        struct rt_event event;
        struct rt_error err = {0};
        rt_status status = RT_OK;
        if (!next_event(self, &event))
            return false;
        if (rt_executor_event(self->executor, &event, &status, &err) && status != RT_OK) {
            fprintf(stderr, "collectives: %s\n", err.text);
            return false;
        }
    }
    return true;
}

/* The first one is of ones, so that the result can be checked; the others of zeros, which stay what they are.
 */
static bool measure(struct self *self, const struct task *task) {
    for (size_t i = 0; i < task->floats; i++)
        self->gradient[i] = 1;
    for (size_t round = 0; round < WARM_UP + task->rounds; round++) {
        const double start = rt_clock_wall();
        if (!carry(self))
            return false;
        if (round >= WARM_UP)
            self->seconds[round - WARM_UP] = rt_clock_wall() - start;
        for (size_t i = 0; round == 0 && i < task->floats; i++) {
            if (self->gradient[i] != (float)task->nodes) {
                fprintf(stderr, "collectives: float %zu is %g\n", i, (double)self->gradient[i]);
                return false;
            }
            self->gradient[i] = 0;
        }
    }
    return true;
}

static int compare(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Waits until all processes have come here. */
static void meet(const struct task *task, atomic_int *here) {
    atomic_fetch_add(here, 1);
    for (int i = 0; (size_t)atomic_load(here) < task->nodes && i < 60000; i++)
        usleep(1000);
}

static bool work(const struct task *task, size_t rank) {
    struct self self = {.comm = {.run = 1, .rank = (uint16_t)rank, .count = (uint16_t)task->nodes}};
    struct rt_error err = {0};
    self.comm.links = self.links;
    self.gradient = calloc(task->floats + 1, sizeof(float));
    self.seconds = calloc(task->rounds, sizeof(double));
    bool good =
        self.gradient && self.seconds &&
        rt_tcp_create(&(struct rt_tcp_settings){.cma = task->cma}, &self.comm.endpoint, &err) == RT_OK &&
        rt_endpoint_listen(self.comm.endpoint, "127.0.0.1:0", &err) == RT_OK;
    if (good) {
        strcpy(task->board->addresses[rank], self.comm.endpoint->address);
        meet(task, &task->board->listening);
        rt_endpoint_attend(self.comm.endpoint, true); /* as an exchange's own thread does */
        good = join(&self, task) && make_carrier(&self, task, &err) == RT_OK && measure(&self, task);
        rt_endpoint_attend(self.comm.endpoint, false);
    }
    if (err.text[0])
        fprintf(stderr, "collectives: %s\n", err.text);
    if (good && rank == 0) {
        qsort(self.seconds, task->rounds, sizeof(double), compare);
        printf("%.9f %.9f\n", self.seconds[task->rounds / 2], self.seconds[0]);
    }
    if (good)
        meet(task, &task->board->finished); /* a link that closes would be a failure to the others */
    rt_endpoint_destroy(self.comm.endpoint);
    rt_executor_destroy(self.executor);
    free(self.gradient);
    free(self.seconds);
    return good;
}

static bool read_task(int count, char **words, struct task *task) {
    static const char *const names[] = {"auto", "ring", "doubling", "halving", "tree"};
    if (count < 5 || count > 7 || (count > 6 && strcmp(words[6], "cma") != 0))
        return false;
    task->nodes = strtoul(words[1], NULL, 10);
    task->floats = strtoul(words[2], NULL, 10);
    task->rounds = strtoul(words[3], NULL, 10);
    task->segment = count > 5 ? strtoul(words[5], NULL, 10) : 0;
    task->cma = count > 6 ? RT_LENDS_TO_PROCESSES : RT_LENDS_NOTHING;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(words[4], names[i]) == 0) {
            task->how = (enum rt_reduction)i;
            return task->nodes > 0 && task->nodes <= MOST && task->rounds > 0;
        }
    return false;
}

int main(int count, char **words) {
    struct task task = {0};
    if (!read_task(count, words, &task)) {
        fprintf(stderr, "usage: %s NODES FLOATS ROUNDS ring|doubling|halving|tree|auto [SEGMENT [cma]]\n",
                words[0]);
        return 2;
    }
    task.board = mmap(NULL, sizeof *task.board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (task.board == MAP_FAILED)
        return 1;
    pid_t children[MOST];
    for (size_t i = 1; i < task.nodes; i++) {
        children[i] = fork();
        if (children[i] == 0)
            _exit(work(&task, i) ? 0 : 1);
    }
    bool good = work(&task, 0);
    for (size_t i = 1; i < task.nodes; i++) {
        int status = 0;
        waitpid(children[i], &status, 0);
        good &= status == 0;
    }
    return good ? 0 : 1;
}
