#include "learn/trained.h"

#include "learn/scaling.h"
#include <stdlib.h>

void rt_trained_deinit(struct rt_trained *trained) {
    rt_network_destroy(&trained->network);
    rt_snapshot_deinit(&trained->kept);
    rt_scaling_deinit(&trained->scaling);
    rt_names_deinit(&trained->names);
    rt_names_deinit(&trained->columns);
    free(trained->description);
    *trained = (struct rt_trained){0};
}

size_t rt_trained_classes(const struct rt_trained *trained) {
    const struct rt_network *network = &trained->network;
    const bool is_choice = network->loss->shares && network->outputs == 1 && trained->names.count == 2;
    return is_choice ? 2 : rt_network_classes(network);
}
