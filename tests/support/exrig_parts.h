/* What the rig's own files share. */
#ifndef RT_TEST_EXRIG_PARTS_H
#define RT_TEST_EXRIG_PARTS_H

#include "support/exrig.h"

/* The sum of the losses of the ticket's rows; the gradient is the first block of node->slices. */
double exrig_compute(struct exrig_node *node, const struct rt_ticket *ticket);
double exrig_squares(void *user, const float *gradient);

/* Connects a node with those it needs a link with. */
bool exrig_join(struct exrig_node *node, struct rt_error *err);

#endif
