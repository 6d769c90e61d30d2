/* Names of those who take part; see party.h. */
#include "exchange/party.h"

#include <stdio.h>

const char *rt_party_name(uint16_t rank, char text[32]) {
    if (rank == 0)
        snprintf(text, 32, "the master");
    else
        snprintf(text, 32, "node %u", rank);
    return text;
}

double rt_party_patience(const struct rt_party *party) {
    return party->patience > 0 ? party->patience : 60;
}

enum rt_state rt_party_enter(const struct rt_party *party, enum rt_state state) {
    if (!party->clock)
        return state;
    const enum rt_state before = party->clock->now;
    rt_states_enter(party->clock, state);
    if (party->count > 1) /* what was computed goes to others, or is what they wait for */
        rt_states_catch_up(party->clock);
    return before;
}

uint16_t rt_party_rank(const struct rt_party *party, const struct rt_link *link) {
    for (uint16_t rank = 0; link && rank < party->count; rank++)
        if (party->links[rank] == link)
            return rank;
    return UINT16_MAX;
}
