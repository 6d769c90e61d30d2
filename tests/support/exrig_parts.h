/* What the rig's own files share. */
#ifndef RT_TEST_EXRIG_PARTS_H
#define RT_TEST_EXRIG_PARTS_H

#include "support/exrig.h"

/* The sum of the losses of the ticket's rows; the gradient is the first block of node->slices. */
double exrig_compute(struct exrig_node *node, const struct rt_ticket *ticket);
const float *exrig_point(const struct exrig *rig, uint64_t batch, size_t row);
double exrig_squares(void *user, const float *gradient);

/* exrig_node.c: the parts of a node, what it does on the network, and two answers to its master. */
rt_status exrig_take_memory(struct exrig_node *node, struct rt_error *err);
void exrig_be_node(void *user, size_t i, struct rt_endpoint *endpoint);
float *exrig_word(void *user, size_t tensor);
/* The node as a worker; see struct rt_batch_worker. */
rt_status exrig_learn(void *self, uint64_t batch, struct rt_done *done, struct rt_error *err);
void exrig_take_update(void *user, uint64_t update);

/* The master's first failure stays; whether there is none. */
bool exrig_fail(struct exrig *rig, rt_status status, const struct rt_error *err);

/* exrig_tickets.c. Whether a node gets tickets, for its group where there are groups: in a collective those
 * without a worker do too. Tickets to the nodes, as many as they may hold; next: the last batch of each. And
 * to the rest of the master's own group, before it begins with a batch itself; false after a failure. */
bool exrig_gets_tickets(const struct exrig *rig, uint16_t rank);
void exrig_give_tickets(struct exrig *rig, uint64_t *next, uint64_t last);
bool exrig_give_beside(struct exrig *rig, uint64_t batch);

/* Connects a node with those it needs a link with. */
bool exrig_join(struct exrig_node *node, struct rt_error *err);

#endif
