/*
 * Who is it that all wait for? Where everybody takes part in every update, one who makes no progress soon
 * keeps all others waiting, each for another, and the master would blame whoever it happens to wait for. So
 * before it blames anybody it asks every node whom that one waits for.
 *
 * Who does not answer at all is stopped, or cannot be reached. Who answers that it waits for nobody, and owes
 * a result for longer than the patience, is the one who makes no progress. If there is none, the answers lead
 * from one to the next: to somebody who waits for nobody, or to the master itself, who computes. Then nobody
 * is to blame.
 */
#include "exchange/crew_inside.h"

#include "base/clock.h"

/* Seconds that a node has for its answer: its events are taken whatever it computes. */
static double answer_seconds(const struct rt_party *party) {
    const double quarter = rt_party_patience(party) / 4;
    return quarter < 1 ? 1 : quarter > 10 ? 10 : quarter;
}

static bool is_silent(const struct rt_desk *desk) {
    return !desk->answered && !desk->talk->closed;
}

static bool all_answered(const struct rt_crew *crew) {
    for (uint16_t rank = 1; rank < crew->party->count; rank++)
        if (is_silent(&crew->desks[rank]))
            return false;
    return true;
}

static void ask_all(struct rt_crew *crew, double now) {
    crew->inquiry.open = true;
    crew->inquiry.until = now + answer_seconds(crew->party);
    crew->inquiry.debts = crew->debts;
    for (uint16_t rank = 1; rank < crew->party->count; rank++) {
        struct rt_desk *desk = &crew->desks[rank];
        desk->whom = true;
        desk->answered = false;
        rt_desk_send(crew, desk);
    }
}

/* One who says nothing: the suspect, if it is among them. 0: none. */
static uint16_t find_silent(const struct rt_crew *crew, uint16_t suspect) {
    if (suspect > 0 && suspect < crew->party->count && is_silent(&crew->desks[suspect]))
        return suspect;
    for (uint16_t rank = 1; rank < crew->party->count; rank++)
        if (is_silent(&crew->desks[rank]))
            return rank;
    return 0;
}

/* One who waits for nobody and owes something for too long: of several the one who has for the longest time.
 * 0: none. */
static uint16_t find_slow(const struct rt_crew *crew, double now) {
    uint16_t found = 0;
    for (uint16_t rank = 1; rank < crew->party->count; rank++) {
        const struct rt_desk *desk = &crew->desks[rank];
        if (desk->waits_for != rank || !rt_desk_owes(desk) ||
            now - desk->since < rt_party_patience(crew->party))
            continue;
        if (found == 0 || desk->debt < crew->desks[found].debt)
            found = rank;
    }
    return found;
}

/* The end of the chain of those who wait for one another; the suspect itself where they wait in a circle. */
static uint16_t follow(const struct rt_crew *crew, uint16_t suspect) {
    uint16_t who = suspect;
    for (uint16_t steps = 0; steps < crew->party->count; steps++) {
        if (who == 0 || crew->desks[who].waits_for == who)
            return who;
        who = crew->desks[who].waits_for;
    }
    return suspect;
}

enum rt_inquiry rt_crew_inquire(void *self, uint16_t suspect, bool computes, double now, uint16_t *guilty) {
    struct rt_crew *crew = self;
    /* One that is still open from before a pause has been given up: its answers are old. */
    if (!crew->inquiry.open || rt_clock_overslept(crew->inquiry.until, now, rt_party_patience(crew->party)))
        ask_all(crew, now);
    if (!all_answered(crew) && now < crew->inquiry.until)
        return RT_INQUIRY_PENDING;
    crew->inquiry.open = false;
    if (crew->debts != crew->inquiry.debts) /* something has come meanwhile */
        return RT_INQUIRY_NOBODY;
    *guilty = find_silent(crew, suspect);
    if (*guilty == 0)
        *guilty = find_slow(crew, now);
    if (*guilty == 0)
        *guilty = follow(crew, suspect);
    if (*guilty == 0 && computes)
        return RT_INQUIRY_NOBODY;
    if (*guilty == 0)
        *guilty = suspect;
    return RT_INQUIRY_GUILTY;
}
