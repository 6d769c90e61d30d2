#include "control/batch.h"

size_t rt_roles_place(const struct rt_roles *roles, uint16_t rank) {
    size_t place = 0;
    while (place < roles->workers && roles->worker[place] != rank)
        place++;
    return place;
}
