/* Lists of moves, carried out in plain C. Members take turns; each goes on until it waits for a frame. */
#include "support/collectivesim.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A frame under way, in the list of its link. */
struct frame {
    struct frame *next;
    bool params;
    size_t first, count;
    float floats[];
};

struct link {
    struct frame *oldest, **end;
};

struct state {
    struct rt_collectivesim *sim;
    struct link *links; /* [members * members]: from, to */
    char *why;
};

static void *take(size_t bytes) {
    void *memory = calloc(1, bytes ? bytes : 1);
    if (!memory) {
        fputs("no memory for the simulation of moves\n", stderr);
        exit(1);
    }
    return memory;
}

void rt_collectivesim_init(struct rt_collectivesim *sim, size_t members, size_t count) {
    *sim = (struct rt_collectivesim){.members = members, .count = count};
    sim->member = take(members * sizeof *sim->member);
    for (size_t i = 0; i < members; i++) {
        for (size_t b = 0; b < RT_MAX_BUFFERS; b++)
            sim->member[i].buffer[b] = take(count * sizeof(float));
        sim->member[i].applied = take(count * sizeof(unsigned));
    }
}

void rt_collectivesim_deinit(struct rt_collectivesim *sim) {
    for (size_t i = 0; i < sim->members; i++) {
        rt_collective_deinit(&sim->member[i].collective);
        for (size_t b = 0; b < RT_MAX_BUFFERS; b++)
            free(sim->member[i].buffer[b]);
        free(sim->member[i].applied);
    }
    free(sim->member);
    *sim = (struct rt_collectivesim){0};
}

static bool wrong(struct state *state, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(state->why, 200, format, args);
    va_end(args);
    return false;
}

/* What can be said of a move without looking at the others. */
static bool check_move(struct state *state, size_t rank, const struct rt_collective_op *op) {
    const struct rt_collectivesim *sim = state->sim;
    const size_t buffers = RT_BUFFER_SPARE + sim->member[rank].collective.spares;
    if (op->count == 0 || op->first > sim->count || op->count > sim->count - op->first)
        return wrong(state, "rank %zu: a range %zu + %zu of %zu floats", rank, op->first, op->count,
                     sim->count);
    if (buffers > RT_MAX_BUFFERS || op->buffer >= buffers || op->from >= buffers)
        return wrong(state, "rank %zu: buffers %u and %u of %zu", rank, op->buffer, op->from, buffers);
    if (rt_op_has_peer(op) && (op->peer >= sim->members || op->peer == rank))
        return wrong(state, "rank %zu: a move with %u", rank, op->peer);
    return true;
}

static void send_frame(struct state *state, size_t rank, const struct rt_collective_op *op) {
    struct link *link = &state->links[rank * state->sim->members + op->peer];
    struct frame *frame = take(sizeof *frame + op->count * sizeof(float));
    frame->params = op->buffer == RT_BUFFER_PARAMS;
    frame->first = op->first;
    frame->count = op->count;
    memcpy(frame->floats, state->sim->member[rank].buffer[op->buffer] + op->first, op->count * sizeof(float));
    *link->end = frame;
    link->end = &frame->next;
}

static void combine(float *into, const float *from, size_t count, bool add) {
    for (size_t i = 0; i < count; i++)
        into[i] = add ? into[i] + from[i] : from[i];
}

/* *came: the frame was there. */
static bool take_frame(struct state *state, size_t rank, const struct rt_collective_op *op, bool *came) {
    struct link *link = &state->links[op->peer * state->sim->members + rank];
    struct frame *frame = link->oldest;
    *came = frame != NULL;
    if (!frame)
        return true;
    if (frame->first != op->first || frame->count != op->count ||
        frame->params != (op->buffer == RT_BUFFER_PARAMS))
        return wrong(state, "rank %zu awaits %zu + %zu of buffer %u from %u, and %zu + %zu of %s comes", rank,
                     op->first, op->count, op->buffer, op->peer, frame->first, frame->count,
                     frame->params ? "parameters" : "a gradient");
    combine(state->sim->member[rank].buffer[op->buffer] + op->first, frame->floats, op->count,
            op->kind == RT_OP_ADD);
    link->oldest = frame->next;
    if (!link->oldest)
        link->end = &link->oldest;
    free(frame);
    return true;
}

static void apply(struct rt_collectivesim_member *member, const struct rt_collective_op *op) {
    for (size_t i = op->first; i < op->first + op->count; i++) {
        member->buffer[RT_BUFFER_PARAMS][i] -= member->buffer[RT_BUFFER_GRADIENT][i];
        member->applied[i]++;
    }
}

/* Makes a member's moves until one has to wait; *moved: at least one was made. */
static bool advance(struct state *state, size_t rank, bool *moved) {
    struct rt_collectivesim_member *member = &state->sim->member[rank];
    bool came = true;
    while (came && member->next < member->collective.count) {
        const struct rt_collective_op *op = &member->collective.list[member->next];
        if (!check_move(state, rank, op))
            return false;
        switch ((enum rt_op_kind)op->kind) {
        case RT_OP_SEND:
            send_frame(state, rank, op);
            break;
        case RT_OP_TAKE:
        case RT_OP_ADD:
            if (!take_frame(state, rank, op, &came))
                return false;
            break;
        case RT_OP_MERGE:
            combine(member->buffer[op->buffer] + op->first, member->buffer[op->from] + op->first, op->count,
                    true);
            break;
        case RT_OP_COPY:
            combine(member->buffer[op->buffer] + op->first, member->buffer[op->from] + op->first, op->count,
                    false);
            break;
        case RT_OP_APPLY:
            apply(member, op);
            break;
        default:
            return wrong(state, "rank %zu: a move of kind %u", rank, op->kind);
        }
        member->next += came;
        *moved |= came;
    }
    return true;
}

static bool run(struct state *state) {
    struct rt_collectivesim *sim = state->sim;
    for (bool moved = true; moved;) {
        moved = false;
        for (size_t rank = 0; rank < sim->members; rank++)
            if (!advance(state, rank, &moved))
                return false;
    }
    for (size_t rank = 0; rank < sim->members; rank++) {
        const struct rt_collectivesim_member *member = &sim->member[rank];
        if (member->next < member->collective.count)
            return wrong(state, "rank %zu waits for %u for ever", rank,
                         member->collective.list[member->next].peer);
    }
    for (size_t i = 0; i < sim->members * sim->members; i++)
        if (state->links[i].oldest)
            return wrong(state, "rank %zu sends %zu a frame that it does not take", i / sim->members,
                         i % sim->members);
    return true;
}

bool rt_collectivesim_run(struct rt_collectivesim *sim, char why[200]) {
    struct state state = {.sim = sim, .why = why};
    const size_t links = sim->members * sim->members;
    state.links = take(links * sizeof *state.links);
    for (size_t i = 0; i < links; i++)
        state.links[i].end = &state.links[i].oldest;
    for (size_t rank = 0; rank < sim->members; rank++)
        sim->member[rank].next = 0;
    const bool good = run(&state);
    for (size_t i = 0; i < links; i++)
        for (struct frame *frame = state.links[i].oldest, *next; frame; frame = next) {
            next = frame->next;
            free(frame);
        }
    free(state.links);
    return good;
}

size_t rt_collectivesim_frames(const struct rt_collectivesim *sim, size_t rank) {
    size_t frames = 0;
    for (size_t i = 0; i < sim->member[rank].collective.count; i++)
        frames += sim->member[rank].collective.list[i].kind == RT_OP_SEND;
    return frames;
}

size_t rt_collectivesim_floats(const struct rt_collectivesim *sim, size_t rank) {
    size_t floats = 0;
    for (size_t i = 0; i < sim->member[rank].collective.count; i++)
        if (sim->member[rank].collective.list[i].kind == RT_OP_SEND)
            floats += sim->member[rank].collective.list[i].count;
    return floats;
}
