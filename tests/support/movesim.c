/* Lists of moves, carried out in plain C. Members take turns; each goes on until it waits for a frame. */
#include "support/movesim.h"

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
    struct rt_movesim *sim;
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

void rt_movesim_init(struct rt_movesim *sim, size_t members, size_t count) {
    *sim = (struct rt_movesim){.members = members, .count = count};
    sim->member = take(members * sizeof *sim->member);
    for (size_t i = 0; i < members; i++) {
        for (size_t b = 0; b < RT_MAX_BUFFERS; b++)
            sim->member[i].buffer[b] = take(count * sizeof(float));
        sim->member[i].applied = take(count * sizeof(unsigned));
    }
}

void rt_movesim_deinit(struct rt_movesim *sim) {
    for (size_t i = 0; i < sim->members; i++) {
        rt_moves_deinit(&sim->member[i].moves);
        for (size_t b = 0; b < RT_MAX_BUFFERS; b++)
            free(sim->member[i].buffer[b]);
        free(sim->member[i].applied);
    }
    free(sim->member);
    *sim = (struct rt_movesim){0};
}

static bool wrong(struct state *state, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(state->why, 200, format, args);
    va_end(args);
    return false;
}

static bool is_transfer(const struct rt_move *move) {
    return move->kind == RT_MOVE_SEND || move->kind == RT_MOVE_TAKE || move->kind == RT_MOVE_ADD;
}

/* What can be said of a move without looking at the others. */
static bool check_move(struct state *state, size_t rank, const struct rt_move *move) {
    const struct rt_movesim *sim = state->sim;
    const size_t buffers = RT_BUFFER_SPARE + sim->member[rank].moves.spares;
    if (move->count == 0 || move->first > sim->count || move->count > sim->count - move->first)
        return wrong(state, "rank %zu: a range %zu + %zu of %zu floats", rank, move->first, move->count,
                     sim->count);
    if (buffers > RT_MAX_BUFFERS || move->buffer >= buffers ||
        (move->kind == RT_MOVE_MERGE && move->from >= buffers))
        return wrong(state, "rank %zu: buffers %u and %u of %zu", rank, move->buffer, move->from, buffers);
    if (is_transfer(move) && (move->peer >= sim->members || move->peer == rank))
        return wrong(state, "rank %zu: a move with %u", rank, move->peer);
    return true;
}

static void send_frame(struct state *state, size_t rank, const struct rt_move *move) {
    struct link *link = &state->links[rank * state->sim->members + move->peer];
    struct frame *frame = take(sizeof *frame + move->count * sizeof(float));
    frame->params = move->buffer == RT_BUFFER_PARAMS;
    frame->first = move->first;
    frame->count = move->count;
    memcpy(frame->floats, state->sim->member[rank].buffer[move->buffer] + move->first,
           move->count * sizeof(float));
    *link->end = frame;
    link->end = &frame->next;
}

static void combine(float *into, const float *from, size_t count, bool add) {
    for (size_t i = 0; i < count; i++)
        into[i] = add ? into[i] + from[i] : from[i];
}

/* *came: the frame was there. */
static bool take_frame(struct state *state, size_t rank, const struct rt_move *move, bool *came) {
    struct link *link = &state->links[move->peer * state->sim->members + rank];
    struct frame *frame = link->oldest;
    *came = frame != NULL;
    if (!frame)
        return true;
    if (frame->first != move->first || frame->count != move->count ||
        frame->params != (move->buffer == RT_BUFFER_PARAMS))
        return wrong(state, "rank %zu awaits %zu + %zu of buffer %u from %u, and %zu + %zu of %s comes", rank,
                     move->first, move->count, move->buffer, move->peer, frame->first, frame->count,
                     frame->params ? "parameters" : "a gradient");
    combine(state->sim->member[rank].buffer[move->buffer] + move->first, frame->floats, move->count,
            move->kind == RT_MOVE_ADD);
    link->oldest = frame->next;
    if (!link->oldest)
        link->end = &link->oldest;
    free(frame);
    return true;
}

static void apply(struct rt_movesim_member *member, const struct rt_move *move) {
    for (size_t i = move->first; i < move->first + move->count; i++) {
        member->buffer[RT_BUFFER_PARAMS][i] -= member->buffer[RT_BUFFER_GRADIENT][i];
        member->applied[i]++;
    }
}

/* Makes a member's moves until one has to wait; *moved: at least one was made. */
static bool advance(struct state *state, size_t rank, bool *moved) {
    struct rt_movesim_member *member = &state->sim->member[rank];
    bool came = true;
    while (came && member->next < member->moves.count) {
        const struct rt_move *move = &member->moves.list[member->next];
        if (!check_move(state, rank, move))
            return false;
        switch ((enum rt_move_kind)move->kind) {
        case RT_MOVE_SEND:
            send_frame(state, rank, move);
            break;
        case RT_MOVE_TAKE:
        case RT_MOVE_ADD:
            if (!take_frame(state, rank, move, &came))
                return false;
            break;
        case RT_MOVE_MERGE:
            combine(member->buffer[move->buffer] + move->first, member->buffer[move->from] + move->first,
                    move->count, true);
            break;
        case RT_MOVE_APPLY:
            apply(member, move);
            break;
        default:
            return wrong(state, "rank %zu: a move of kind %u", rank, move->kind);
        }
        member->next += came;
        *moved |= came;
    }
    return true;
}

static bool run(struct state *state) {
    struct rt_movesim *sim = state->sim;
    for (bool moved = true; moved;) {
        moved = false;
        for (size_t rank = 0; rank < sim->members; rank++)
            if (!advance(state, rank, &moved))
                return false;
    }
    for (size_t rank = 0; rank < sim->members; rank++) {
        const struct rt_movesim_member *member = &sim->member[rank];
        if (member->next < member->moves.count)
            return wrong(state, "rank %zu waits for %u for ever", rank,
                         member->moves.list[member->next].peer);
    }
    for (size_t i = 0; i < sim->members * sim->members; i++)
        if (state->links[i].oldest)
            return wrong(state, "rank %zu sends %zu a frame that it does not take", i / sim->members,
                         i % sim->members);
    return true;
}

bool rt_movesim_run(struct rt_movesim *sim, char why[200]) {
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

size_t rt_movesim_frames(const struct rt_movesim *sim, size_t rank) {
    size_t frames = 0;
    for (size_t i = 0; i < sim->member[rank].moves.count; i++)
        frames += sim->member[rank].moves.list[i].kind == RT_MOVE_SEND;
    return frames;
}

size_t rt_movesim_floats(const struct rt_movesim *sim, size_t rank) {
    size_t floats = 0;
    for (size_t i = 0; i < sim->member[rank].moves.count; i++)
        if (sim->member[rank].moves.list[i].kind == RT_MOVE_SEND)
            floats += sim->member[rank].moves.list[i].count;
    return floats;
}
