/* The dynamic programme against all cuts, tried one by one. */
#include "plan/cut.h"
#include "support/test.h"
#include <math.h>

enum { LAYERS = 7, DEVICES = 4 };

static uint32_t state;

static double random_unit(void) {
    state = state * 1664525u + 1013904223u;
    return (double)(state >> 8) * 0x1p-24;
}

struct world {
    struct rt_cut_problem problem;
    double work[DEVICES * (LAYERS + 1)], start[DEVICES * (LAYERS + 1)], bytes[LAYERS + 1],
        link[DEVICES * DEVICES], port[DEVICES];
    double size[LAYERS], memory[DEVICES];
    uint8_t use[DEVICES];
    size_t asked;
};

static rt_status fits(void *user, size_t device, size_t first, size_t end, bool alone, bool *yes,
                      struct rt_error *err) {
    (void)alone, (void)err;
    struct world *world = user;
    double bytes = 0;
    for (size_t i = first; i < end; i++)
        bytes += world->size[i];
    *yes = bytes <= world->memory[device];
    world->asked++;
    return RT_OK;
}

static void make_world(struct world *world, size_t layers, size_t devices, bool links, bool limits) {
    *world = (struct world){0};
    struct rt_cut_problem *p = &world->problem;
    *p = (struct rt_cut_problem){.layers = layers,
                                 .devices = devices,
                                 .least = 1 + (size_t)(2 * random_unit()),
                                 .work = world->work,
                                 .start = world->start,
                                 .bytes = world->bytes,
                                 .link = world->link,
                                 .port = world->port,
                                 .backward = random_unit() < 0.8,
                                 .use = world->use,
                                 .fits = fits,
                                 .user = world};
    p->extra = random_unit() < 0.3 ? random_unit() : 0;
    for (size_t d = 0; d < devices; d++) {
        const double speed = 0.2 + 3 * random_unit();
        for (size_t i = 0; i < layers; i++)
            world->work[d * (layers + 1) + i + 1] =
                world->work[d * (layers + 1) + i] + speed * (0.1 + random_unit());
        for (size_t i = 1; i < layers; i++)
            world->start[d * (layers + 1) + i] = random_unit() < 0.5 ? 0.3 * random_unit() : 0;
        world->memory[d] = limits ? 4 * random_unit() : INFINITY;
        world->use[d] = d == 0 || random_unit() < 0.3 ? RT_CUT_MUST : RT_CUT_MAY;
        if (d > 0 && random_unit() < 0.1)
            world->use[d] = RT_CUT_OUT;
        world->port[d] = links ? random_unit() : 0;
        for (size_t e = 0; e < devices; e++)
            world->link[d * devices + e] = links ? 2 * random_unit() : 0;
    }
    p->messages = links ? 0.1 * random_unit() : 0;
    for (size_t i = 0; i < layers; i++) {
        world->size[i] = random_unit();
        world->bytes[i] = 2 * random_unit();
    }
    world->bytes[layers] = random_unit();
}

/* Every device of `mask`, in order, gets a run that ends where `ends` (a bit per cut) says. */
static double try_cut(struct world *world, unsigned mask, unsigned ends) {
    const struct rt_cut_problem *p = &world->problem;
    size_t device[DEVICES], end[DEVICES];
    struct rt_cut cut = {.device = device, .end = end};
    for (size_t d = 0; d < p->devices; d++) {
        const bool used = mask >> d & 1;
        if ((used && p->use[d] == RT_CUT_OUT) || (!used && p->use[d] == RT_CUT_MUST))
            return INFINITY;
        if (used)
            device[cut.nodes++] = d;
    }
    size_t runs = 0;
    for (size_t i = 1; i <= p->layers; i++)
        if (i == p->layers || ends >> i & 1) {
            if (runs == cut.nodes)
                return INFINITY;
            end[runs++] = i;
        }
    if (runs != cut.nodes || (runs > 1 && end[0] < p->least))
        return INFINITY;
    for (size_t k = 0; k < runs; k++) {
        bool yes;
        fits(world, device[k], k ? end[k - 1] : 0, end[k], runs == 1, &yes, NULL);
        if (!yes)
            return INFINITY;
    }
    return rt_cut_slowest(p, &cut);
}

static void check_world(struct world *world, size_t trial) {
    const struct rt_cut_problem *p = &world->problem;
    double best = INFINITY;
    for (unsigned mask = 1; mask < 1u << p->devices; mask += 2) /* the master is always used */
        for (unsigned ends = 0; ends < 1u << p->layers; ends += 2) {
            const double slowest = try_cut(world, mask, ends);
            best = slowest < best ? slowest : best;
        }
    struct rt_error err;
    size_t device[DEVICES], end[DEVICES];
    struct rt_cut cut = {.device = device, .end = end};
    CHECK_OK(rt_cut_solve(p, &cut, &err));
    if (isinf(best)) {
        CHECK_MSG(cut.nodes == 0, "trial %zu: there is no cut, but %zu nodes", trial, cut.nodes);
        return;
    }
    REQUIRE(cut.nodes > 0);
    CHECK_MSG(fabs(cut.slowest - best) < 1e-9 * best + 1e-12, "trial %zu: %.12f, best %.12f", trial,
              cut.slowest, best);
    /* What it gives is a cut of this kind, and has that time. */
    unsigned mask = 0, ends = 0;
    for (size_t k = 0; k < cut.nodes; k++) {
        mask |= 1u << device[k];
        ends |= end[k] < p->layers ? 1u << end[k] : 0;
    }
    CHECK_MSG(fabs(try_cut(world, mask, ends) - best) < 1e-8 * best, "trial %zu: not what it says", trial);
}

TEST(no_cut_is_better) {
    static struct world world;
    state = 7;
    for (size_t trial = 0; trial < 400; trial++) {
        make_world(&world, 1 + (size_t)(LAYERS * random_unit()), 1 + (size_t)(DEVICES * random_unit()),
                   trial % 2, false);
        check_world(&world, trial);
    }
}

TEST(no_cut_within_memory_is_better) {
    static struct world world;
    state = 11;
    for (size_t trial = 0; trial < 400; trial++) {
        make_world(&world, 1 + (size_t)(LAYERS * random_unit()), 1 + (size_t)(DEVICES * random_unit()),
                   trial % 2, true);
        check_world(&world, trial);
    }
}

/* One layer takes as long as all others together: what is left is spread as evenly as it can be. */
TEST(work_is_spread_evenly_below_the_bound) {
    struct rt_error err;
    static struct world world;
    make_world(&world, 7, 4, false, false);
    const double seconds[7] = {6, 1, 1, 1, 1, 1, 1};
    for (size_t d = 0; d < 4; d++) {
        world.use[d] = RT_CUT_MUST;
        for (size_t i = 0; i < 7; i++)
            world.work[d * 8 + i + 1] = world.work[d * 8 + i] + seconds[i];
    }
    world.problem.least = 1;
    world.problem.extra = 0;
    world.problem.start = NULL;
    size_t device[DEVICES], end[DEVICES];
    struct rt_cut cut = {.device = device, .end = end};
    CHECK_OK(rt_cut_solve(&world.problem, &cut, &err));
    REQUIRE(cut.nodes == 4);
    CHECK(end[0] == 1 && end[1] == 3 && end[2] == 5 && end[3] == 7);
}

TEST_MAIN()
